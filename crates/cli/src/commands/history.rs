//! `refloat history`

use std::ops::ControlFlow;

use archive::object::Wanted;
use etcd_data::database::RevisionRange;
use etcd_data::history::history;
use etcd_data::holes::Holes;
use etcd_data::live::{Keys, Numbers};
use etcd_data::view::{Horizon, ViewError};
use etcd_data::{KeyValue, Kind, RevKey};

use crate::building::note_holes;
use crate::commands::keys::columns;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::{self, KeyArg};
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::Quoted;
use crate::output::table::Table;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point::AtArgs;
use crate::source::{Part, SourceArgs};

/// Lists the changes of a key that the data still hold, the oldest first
///
/// `refloat get SRC KEY --at REVISION` writes what the value was after a change.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The key
    #[arg(value_name = "KEY", value_parser = key::parser())]
    key: KeyArg,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// One change of a key.
    pub struct Change {
        /// The revision that made it.
        pub revision: i64,
        /// Its place in the transaction that made it, from 0.
        pub sub_revision: i64,
        /// Whether it deleted the key; what follows is 0 then.
        pub deleted: bool,
        /// The revision that created the key.
        pub create_revision: i64,
        /// How often the key was put since it was created.
        pub version: i64,
        /// The size of the value.
        pub size_bytes: usize,
        /// The lease that the key was attached to, in hexadecimal; null for none.
        pub lease: Option<String>,
    }
}

/// Lists the changes.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let key = &args.key.0;
    let (source, (table, changes, holes)) =
        args.source.read(ui, &args.at.at, Part::Keys(Wanted::Key(key)), |_, source| Ok(changes_of(source, key)))?;
    note_holes(ui, &source, holes)?;
    if changes.is_empty() {
        let message = format!("{} holds no change of key {}", source.shown, Quoted(key));
        return Err(Failure::new(Kind::Missing, message)
            .hint("`refloat keys SRC PREFIX` lists the keys that begin with PREFIX"));
    }
    match args.format.format {
        Format::Json => ui.json(&changes)?,
        Format::Text => ui.line(table)?,
    }
    Ok(ui.exit_so_far)
}

/// The changes of `key`, for people and for programs, and what SRC lacks.
fn changes_of(source: &Opened, key: &[u8]) -> Result<(Table, Vec<Change>, Option<Holes>), ViewError> {
    let until = Horizon::of(&source.database)?.at(&source.database, source.at)?;
    let _reading = Reading::begin("looking for changes", source.database.size_bytes());
    let mut table = Table::with_header(["REVISION", "CHANGE", "VERSION", "SIZE", "LEASE"]);
    let mut changes = Vec::new();
    let holes = history(&source.database, RevisionRange::up_to(until), Keys::One(key), |at, found| {
        table.row(row(at, &found));
        changes.push(Change::of(at, &found));
        ControlFlow::Continue(())
    })?;
    Ok((table, changes, holes))
}

fn row(at: RevKey, found: &KeyValue<'_>) -> [String; 5] {
    let revision = at.main.to_string();
    if at.tombstone {
        return [revision, "deleted".into(), String::new(), String::new(), String::new()];
    }
    let change = if found.create_revision == at.main { "created" } else { "changed" };
    let [_, version, size, lease] = columns(&Numbers::of(found));
    [revision, change.into(), version, size, lease]
}

impl Change {
    fn of(at: RevKey, found: &KeyValue<'_>) -> Self {
        Self {
            revision: at.main.0,
            sub_revision: at.sub,
            deleted: at.tombstone,
            create_revision: found.create_revision.0,
            version: found.version,
            size_bytes: found.value.len(),
            lease: found.lease.in_hex(),
        }
    }
}
