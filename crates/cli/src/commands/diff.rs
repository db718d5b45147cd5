//! `refloat diff`

use archive::At;
use archive::error::is_its_own;
use archive::object::Wanted;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::RevKey;
use etcd_data::diff::{Change, Difference, Differences, Side, diff_databases, diff_revisions};
use etcd_data::live::{self, Keys};
use etcd_data::view::ViewError;

use crate::building::note_holes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::{self, KeyArg};
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::Quoted;
use crate::output::table::Table;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point;
use crate::source::{self, Location, Part, SourceArgs, revision_of_file};

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
    let (source, other) = match &args.other {
        Some(other) => {
            let [source, other] = args.source.beside(other)?;
            (source, Some(other))
        }
        None => (args.source.clone(), None),
    };
    let (first, found) = source.read(ui, &args.from, part, |ui, first| match (&other, first.point()) {
        (Some(other), _) => between(ui, args, first, other, part),
        // Two points of an archive need not be made of the same objects.
        (None, Some(_)) => between(ui, args, first, &source, part),
        (None, None) => within(args, first),
    })?;
    note_holes(ui, &first, found.holes_before)?;
    let differences = found.keys;
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

/// What differs, or why the first point cannot be read.
type Compared = Result<Differences, ViewError>;

/// What differs between two revisions of a file.
fn within(args: &Args, file: &Opened) -> Result<Compared, Failure> {
    let to = revision_of_file(&args.to, &args.source.src)?;
    let _reading = Reading::begin("comparing", file.database.size_bytes());
    Ok(diff_revisions(&file.database, file.at, to, Keys::Prefix(&args.prefix.0)))
}

/// What differs between `first` and the second point, which is in `other`.
fn between(ui: &mut Ui, args: &Args, first: &Opened, other: &SourceArgs, part: Part<'_>) -> Result<Compared, Failure> {
    let keys = Keys::Prefix(&args.prefix.0);
    let (second, compared) = other.read(ui, &args.to, part, |_, second| {
        let _reading = Reading::begin("comparing", first.database.size_bytes() + second.database.size_bytes());
        let before = Side { database: &first.database, at: first.at };
        let after = Side { database: &second.database, at: second.at };
        Ok(match diff_databases(before, after, keys) {
            // Whoever opened the first one may know another way to it.
            Err(error) if is_about(first, &error, keys) => Ok(Err(error)),
            compared => compared.map(Ok),
        })
    })?;
    if let Ok(found) = &compared {
        note_holes(ui, &second, found.holes_after)?;
    }
    Ok(compared)
}

/// Whether an error is about the `first` of two sources. Objects of both may have the same name, so which of them is
/// damaged is found out by reading the first alone.
fn is_about(first: &Opened, error: &ViewError, keys: Keys<'_>) -> bool {
    match error {
        ViewError::Compacted { at, .. } | ViewError::Future { at, .. } => first.at == Some(*at),
        error if is_its_own(error.kind()) => live::count(&first.database, first.at, keys).is_err(),
        _ => true,
    }
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
