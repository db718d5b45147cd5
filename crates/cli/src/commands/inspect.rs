//! `refloat inspect`

mod text;

use archive::needs::NeededKey;
use etcd_data::MemberId;
use etcd_data::container::Container;
use etcd_data::data_dir::Ahead;
use etcd_data::facts::Facts;
use etcd_data::tables::{Alarm, AlarmKind, Member};

use crate::building::{MissingJson, PlanJson, note_holes};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::opened::{Opened, What};
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::Quoted;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point::AtArgs;
use crate::source::{Part, SourceArgs};

/// Tells what a snapshot, a database, a data directory or a point of an archive is, and what is in it
///
/// Nothing is proven by this: `refloat verify` does that. Of an earlier revision of a file or a data directory, keys and
/// records are known and no more: all else is told as it is now.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What something is, and what is in it.
    pub struct Inspection {
        /// Where it is.
        pub path: String,
        /// What it is: `snapshot` (a database that ends with its digest), `database`, `data_dir` or `archive`.
        pub kind: &'static str,
        /// What a file is wrapped in: `plain`, `gzip`, `zip`, `zstd`, `zlib` or `lzw`.
        pub container: String,
        /// What the point of an archive is made of; null for anything else.
        pub plan: Option<PlanJson>,
        /// Whether any object of the point of an archive is encrypted; null for anything else.
        pub encrypted: Option<bool>,
        /// The archive keys that open those that are.
        pub archive_keys: Vec<NeededKeyJson>,
        /// The minor version of etcd that it looks like, as in `3.5`.
        pub etcd_version: String,
        /// The version that all members have, as they agreed; null if it does not say.
        pub cluster_version: Option<String>,
        /// The version of the schema; null before 3.6.
        pub storage_version: Option<String>,
        /// The revision that was looked at: that of --at, or the newest. Keys, records and `named_leases` are as of it;
        /// all else of a file or a data directory is as of the newest, for of earlier ones nothing else is kept.
        pub revision: i64,
        /// The newest revision.
        pub newest_revision: i64,
        /// Where history begins; -1 if there never was a compaction.
        pub compact_revision: i64,
        /// The revision of a compaction that was begun and has not finished; null if there is none.
        pub pending_compaction: Option<i64>,
        /// Keys that there are.
        pub live_keys: u64,
        /// Changes that are held of all keys, deletions too.
        pub records: u64,
        /// Those of them that are deletions.
        pub tombstones: u64,
        /// Revisions that it lacks, though no compaction took them; null if it lacks none.
        pub missing_revisions: Option<MissingJson>,
        /// Leases that there are.
        pub leases: u64,
        /// Keys that are attached to one.
        pub attached_keys: u64,
        /// Leases that keys are attached to.
        pub named_leases: u64,
        /// The members of the cluster.
        pub members: Vec<MemberJson>,
        /// The alarms that stand.
        pub alarms: Vec<AlarmJson>,
        /// Whether users must log in.
        pub auth_enabled: bool,
        /// Users that there are.
        pub users: u64,
        /// Roles that there are.
        pub roles: u64,
        /// The raft index of the last entry that the database has; null if it does not say.
        pub consistent_index: Option<u64>,
        /// The raft term of that entry; null before 3.5.
        pub term: Option<u64>,
        /// How far the log of a data directory was ahead of its database; null for anything else.
        pub log: Option<LogJson>,
        /// The size of the file as it lies there, or of the objects that the point is made of.
        pub file_size_bytes: u64,
        /// The size of the database file in it.
        pub size_bytes: Option<u64>,
        /// How much of that holds something.
        pub size_in_use_bytes: Option<u64>,
        /// How much does not: what a defragmentation would give back.
        pub waste_bytes: Option<u64>,
        /// Where keys and bytes are, the prefixes with most bytes first.
        pub prefixes: Vec<PrefixJson>,
    }
}

documented! {
    /// An archive key that a restore of the point takes.
    pub struct NeededKeyJson {
        /// Its id, as objects name it.
        pub id: String,
        /// Where its lockbox is, below the destination.
        pub lockbox: String,
        /// Who can open that: one of their keys is enough.
        pub recipients: Vec<String>,
        /// How many of the point's objects it opens.
        pub objects: usize,
    }
}

documented! {
    /// A member of the cluster.
    pub struct MemberJson {
        /// Its id in hexadecimal, as etcd shows it.
        pub id: String,
        /// Its name; empty until it has started once.
        pub name: String,
        /// Where other members reach it.
        pub peer_urls: Vec<String>,
        /// Where clients reach it.
        pub client_urls: Vec<String>,
        /// Whether it has no vote yet.
        pub is_learner: bool,
    }
}

documented! {
    /// How far a log was ahead of its database. All that is shown is with those entries.
    pub struct LogJson {
        /// Entries that only the log had.
        pub entries_ahead: u64,
        /// Entries after those that may yet be taken back, and do not count.
        pub uncommitted: u64,
        /// Users who cannot log in before their password is set again.
        pub lost_passwords: Vec<String>,
        /// Entries that releases of etcd do not agree on: the member's own state may differ from what is shown.
        pub in_doubt: Vec<u64>,
    }
}

documented! {
    /// An alarm that stands.
    pub struct AlarmJson {
        /// The id of the member that raised it, in hexadecimal.
        pub member: String,
        /// What it is about: `NOSPACE`, `CORRUPT`, or a number.
        pub alarm: String,
    }
}

documented! {
    /// What lies below a prefix.
    pub struct PrefixJson {
        /// The prefix, quoted if it is not plain text; empty for what lies below none.
        pub prefix: String,
        /// Keys that there are.
        pub live_keys: u64,
        /// Changes that are held of them, deletions too.
        pub records: u64,
        /// The size of those changes.
        pub bytes: u64,
    }
}

/// Tells it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let (source, facts) = args.source.read(ui, &args.at.at, Part::Whole, |_, source| {
        // Once through the records, once through the pages.
        let _reading = Reading::begin("inspecting", 2 * source.database.size_bytes());
        Ok(Facts::of(&source.database, source.at))
    })?;
    let keys = source.point().map(|point| point.needed_keys(&args.source)).transpose()?;
    note_holes(ui, &source, facts.key_space.holes)?;
    let found = Inspection::of(&source, keys, facts);
    match args.format.format {
        Format::Json => ui.json(&found)?,
        Format::Text => ui.line(found.text())?,
    }
    Ok(ui.exit_so_far)
}

impl Inspection {
    /// What `source` is, which takes `keys` if it is a point of an archive.
    fn of(source: &Opened, keys: Option<Vec<NeededKey>>, facts: Facts) -> Self {
        let Facts { key_space, tables, sizes, .. } = facts;
        let prefixes = key_space.prefixes.iter().map(|found| PrefixJson {
            prefix: if found.prefix.is_empty() { String::new() } else { Quoted(&found.prefix).to_string() },
            live_keys: found.live_keys,
            records: found.records,
            bytes: found.bytes,
        });
        Self {
            path: source.shown.clone(),
            kind: source.kind_name(),
            container: source.file().map_or(Container::Plain, |file| file.container).to_string(),
            plan: source.point().map(PlanJson::of),
            encrypted: keys.as_ref().map(|keys| !keys.is_empty()),
            archive_keys: keys.into_iter().flatten().map(NeededKeyJson::of).collect(),
            etcd_version: facts.etcd_version,
            cluster_version: tables.cluster_version,
            storage_version: tables.storage_version,
            revision: facts.revision.0,
            newest_revision: facts.newest.0,
            compact_revision: facts.compact_revision.map_or(-1, |revision| revision.0),
            pending_compaction: facts.pending_compaction.map(|revision| revision.0),
            live_keys: key_space.live_keys,
            records: key_space.records,
            tombstones: key_space.tombstones,
            missing_revisions: key_space.holes.map(MissingJson::of),
            leases: tables.leases,
            attached_keys: key_space.attached_keys,
            named_leases: key_space.named_leases,
            members: tables.members.into_iter().map(MemberJson::of).collect(),
            alarms: tables.alarms.iter().map(AlarmJson::of).collect(),
            auth_enabled: tables.auth_enabled,
            users: tables.users,
            roles: tables.roles,
            consistent_index: tables.consistent_index,
            term: tables.term,
            log: source.data_dir().and_then(|data_dir| data_dir.ahead.as_ref().ok()).map(LogJson::of),
            file_size_bytes: match &source.what {
                What::File(file) => file.size_bytes,
                What::Point(point) => point.size().1,
            },
            size_bytes: sizes.map(|sizes| sizes.size_bytes),
            size_in_use_bytes: sizes.map(|sizes| sizes.size_in_use_bytes),
            waste_bytes: sizes.map(|sizes| sizes.waste_bytes),
            prefixes: prefixes.collect(),
        }
    }
}

impl NeededKeyJson {
    fn of(key: NeededKey) -> Self {
        let NeededKey { id, lockbox, recipients, objects } = key;
        Self { id: id.to_string(), lockbox: lockbox.to_string(), recipients, objects }
    }
}

impl MemberJson {
    fn of(member: Member) -> Self {
        let Member { id, peer_urls, is_learner, name, client_urls } = member;
        Self { id: MemberId(id).to_string(), name, peer_urls, client_urls, is_learner }
    }
}

impl LogJson {
    fn of(ahead: &Ahead) -> Self {
        let Ahead { entries, uncommitted, lost_passwords, in_doubt, .. } = ahead;
        Self {
            entries_ahead: *entries,
            uncommitted: *uncommitted,
            lost_passwords: lost_passwords.clone(),
            in_doubt: in_doubt.clone(),
        }
    }
}

impl AlarmJson {
    fn of(alarm: &Alarm) -> Self {
        let kind = match AlarmKind::try_from(alarm.kind) {
            Ok(AlarmKind::NoSpace) => "NOSPACE".into(),
            Ok(AlarmKind::Corrupt) => "CORRUPT".into(),
            _ => alarm.kind.to_string(),
        };
        Self { member: MemberId(alarm.member).to_string(), alarm: kind }
    }
}
