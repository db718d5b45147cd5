//! `refloat diff`

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::builder::{OsStringValueParser, TypedValueParser};
use etcd_data::diff::{Change, Difference, Side, diff_databases, diff_revisions};
use etcd_data::live::Keys;
use etcd_data::view::ViewError;
use etcd_data::{RevKey, Source};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::documented;
use crate::key::{self, KeyArg};
use crate::point::Point;
use crate::progress::Reading;
use crate::quoted::Quoted;
use crate::source::{Location, SourceArgs, out_of_view};
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
    /// The first point, in SRC: a revision, or `latest`
    #[arg(
        long,
        value_name = "POINT",
        default_value = "latest",
        required_unless_present = "other",
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    from: Point,
    /// The second point, in SRC or in what `--other` names: a revision, or `latest`
    #[arg(long, value_name = "POINT", default_value = "latest", allow_negative_numbers = true)]
    to: Point,
    /// Look for the second point there: anything that SRC can be
    #[arg(long, value_name = "SRC", value_parser = OsStringValueParser::new().map(Location::from))]
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
    let first = args.source.open()?;
    let second = args.other.clone().map(|src| SourceArgs { src }.open()).transpose()?;
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

fn compare(args: &Args, first: &Source, second: Option<&Source>) -> Result<Vec<Difference>, Failure> {
    let (from, to) = (args.from.revision(), args.to.revision());
    let keys = Keys::Prefix(&args.prefix.0);
    let Some(second) = second else {
        return diff_revisions(&first.database, from, to, keys).map_err(|error| out_of_view(&first.path, &error));
    };
    let before = Side { database: &first.database, at: from };
    let after = Side { database: &second.database, at: to };
    diff_databases(before, after, keys).map_err(|error| out_of_view(culprit(&error, args, first, second), &error))
}

/// Which of the two sources an error is about, as far as the error tells.
fn culprit<'a>(error: &ViewError, args: &Args, first: &'a Source, second: &'a Source) -> &'a std::path::Path {
    let is_first = match error {
        ViewError::Compacted { at, .. } | ViewError::Future { at, .. } => args.from.revision() == Some(*at),
        _ => true,
    };
    if is_first { &first.path } else { &second.path }
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
