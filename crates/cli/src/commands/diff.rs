//! `refloat diff`

use archive::At;
use archive::object::Wanted;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::RevKey;
use etcd_data::diff::{Change, Difference, Side, diff_databases, diff_revisions};
use etcd_data::live::Keys;
use etcd_data::view::ViewError;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::documented;
use crate::key::{self, KeyArg};
use crate::opened::Opened;
use crate::point;
use crate::progress::Reading;
use crate::quoted::Quoted;
use crate::source::{self, Location, Part, SourceArgs, out_of_view, revision_of_file};
use crate::table::Table;
use crate::ui::{Format, FormatArgs, Ui};

/// Lists the keys that differ between two points, of one source or of two
///
/// Keys differ if value, revisions, version or lease do. Exits 1 if any key differs.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Only keys that begin so
    #[arg(value_name = "PREFIX", value_parser = key::parser(), default_value = "", hide_default_value = true)]
    prefix: KeyArg,
    /// The first point, in SRC: what `--at` takes
    #[arg(
        long,
        value_name = "POINT",
        default_value = "latest",
        required_unless_present = "other",
        hide_default_value = true,
        value_parser = point::parse,
        allow_negative_numbers = true
    )]
    from: At,
    /// The second point, in SRC or in what `--other` names: what `--at` takes
    #[arg(
        long,
        value_name = "POINT",
        default_value = "latest",
        value_parser = point::parse,
        allow_negative_numbers = true
    )]
    to: At,
    /// Look for the second point there: anything that SRC can be
    #[arg(long, value_name = "SRC", value_parser = source::parser())]
    other: Option<Location>,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A key that differs.
    pub struct Differing {
        /// The key; what is not UTF-8 in it is replaced.
        pub key: String,
        /// The key, exactly, in base64.
        pub key_base64: String,
        /// What became of it: `created`, `changed` or `deleted`.
        pub change: &'static str,
        /// The revision that had changed it last at the first point; null if it was not there.
        pub mod_revision_before: Option<i64>,
        /// The revision that had changed it last at the second point; null if it was not there.
        pub mod_revision_after: Option<i64>,
    }
}

/// Lists the differences.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let part = match args.prefix.0.as_slice() {
        [] => Part::Whole,
        prefix => Part::Keys(Wanted::Prefix(prefix)),
    };
    let open = |source: &SourceArgs, at: &At| source.open_with_scratch(at, part, &std::env::temp_dir());
    let (source, other) = match &args.other {
        Some(other) => {
            let [source, other] = args.source.beside(other)?;
            (source, Some(other))
        }
        None => (args.source.clone(), None),
    };
    let first = open(&source, &args.from)?;
    first.say_notes(ui)?;
    let second = match (&other, first.point()) {
        (Some(other), _) => Some(open(other, &args.to)?),
        // Two points of an archive need not be made of the same objects.
        (None, Some(_)) => Some(open(&source, &args.to)?),
        (None, None) => None,
    };
    second.iter().try_for_each(|second| second.say_notes(ui))?;
    let both = second.as_ref().map_or(0, |second| second.database.size_bytes());
    let reading = Reading::begin("comparing", first.database.size_bytes() + both);
    let differences = compare(args, &first, second.as_ref())?;
    drop(reading);
    if !differences.is_empty() {
        ui.exit_so_far = Exit::Findings;
    }
    match args.format.format {
        Format::Json => list_json(ui, &differences)?,
        Format::Text if !differences.is_empty() => ui.line(table(&differences))?,
        Format::Text if ui.to_terminal => ui.note("no differences")?,
        Format::Text => {}
    }
    Ok(ui.exit_so_far)
}

fn compare(args: &Args, first: &Opened, second: Option<&Opened>) -> Result<Vec<Difference>, Failure> {
    let keys = Keys::Prefix(&args.prefix.0);
    let Some(second) = second else {
        let to = revision_of_file(&args.to, &args.source.src)?;
        return diff_revisions(&first.database, first.at, to, keys).map_err(|error| out_of_view(&first.shown, &error));
    };
    let before = Side { database: &first.database, at: first.at };
    let after = Side { database: &second.database, at: second.at };
    diff_databases(before, after, keys).map_err(|error| out_of_view(culprit(&error, first, second), &error))
}

/// Which of the two sources an error is about, as far as the error tells.
fn culprit<'a>(error: &ViewError, first: &'a Opened, second: &'a Opened) -> &'a str {
    let is_first = match error {
        ViewError::Compacted { at, .. } | ViewError::Future { at, .. } => first.at == Some(*at),
        _ => true,
    };
    if is_first { &first.shown } else { &second.shown }
}

fn table(differences: &[Difference]) -> Table {
    let shown = |at: Option<RevKey>| at.map_or("-".into(), |at| at.main.to_string());
    let mut table = Table::with_header(["CHANGE", "BEFORE", "AFTER", "KEY"]);
    for found in differences {
        let key = Quoted(&found.key).to_string();
        table.row([word(found.change()).into(), shown(found.before), shown(found.after), key]);
    }
    table
}

fn list_json(ui: &mut Ui, differences: &[Difference]) -> Result<(), Failure> {
    let mut list = ui.json_list();
    for found in differences {
        list.push(&Differing {
            key: String::from_utf8_lossy(&found.key).into_owned(),
            key_base64: BASE64_STANDARD.encode(&found.key),
            change: word(found.change()),
            mod_revision_before: found.before.map(|at| at.main.0),
            mod_revision_after: found.after.map(|at| at.main.0),
        })?;
    }
    list.finish()
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Created => "created",
        Change::Changed => "changed",
        Change::Deleted => "deleted",
    }
}
