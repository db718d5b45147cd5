//! `refloat hashkv`

use etcd_data::Revision;
use etcd_data::hash::hash_kv_and_holes;

use crate::building::note_history;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::Table;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point::AtArgs;
use crate::source::{Part, SourceArgs};

/// Shows the number that a live etcd and `etcdutl hashkv` give for the same revision
///
/// Two states whose revision, compact revision and hash are equal have the same keys, values, versions and leases,
/// and the same history since the compact revision.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    at: AtArgs,
    /// Hash as a server does that has been compacted at this revision, to compare with what such a server says
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    compact_revision: Option<i64>,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A hash of the key space, and of which part of its history.
    pub struct Hash {
        /// The hash.
        pub hash: u32,
        /// The revision up to which was hashed.
        pub revision: i64,
        /// The compact revision that it depends on; -1 if there never was a compaction.
        pub compact_revision: i64,
    }
}

/// Shows the hash.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let (source, (hash, holes)) = args.source.read(ui, &args.at.at, Part::Whole, |_, source| {
        // What a live member says depends on how far it was compacted.
        let database = if args.compact_revision.is_some() { source.database.clone() } else { source.as_it_was() };
        // One pass to learn what a compaction keeps, one to hash.
        let _reading = Reading::begin("hashing", 2 * source.database.size_bytes());
        Ok(hash_kv_and_holes(&database, source.at, args.compact_revision.map(Revision)))
    })?;
    note_history(ui, &source, holes)?;
    let hash = Hash {
        hash: hash.hash,
        revision: hash.revision.0,
        compact_revision: hash.compact_revision.map_or(-1, |revision| revision.0),
    };
    match args.format.format {
        Format::Json => ui.json(&hash)?,
        Format::Text => ui.line(hash.table())?,
    }
    Ok(ui.exit_so_far)
}

impl Hash {
    fn table(&self) -> Table {
        let mut table = Table::default();
        table.fact("hash", self.hash);
        table.fact("revision", self.revision);
        match self.compact_revision {
            -1 => table.fact("compact revision", "none"),
            revision => table.fact("compact revision", revision),
        }
        table
    }
}
