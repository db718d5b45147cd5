//! What there is to know of a database at a glance: what `inspect` shows.
//!
//! One pass backwards for what the records say, remembering the keys it came by (20 to 39 bytes per key, see
//! [`crate::fingerprint`]) and the leases that live ones hang on (9 to 18 bytes each), and one over the
//! pages for how they are used.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use bolt_file::check::check;
use bolt_file::scan::cores;

use crate::batch::Batch;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeySet};
use crate::holes::{self, Holes};
use crate::revision::Revision;
use crate::tables::{Alarm, LeaseId, Member, Tables};
use crate::view::{Horizon, ViewError};
use bolt_file::BoltFile;

/// Facts of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The minor version of etcd that the tables look like, as `3.5`.
    pub etcd_version: String,
    /// The revision that was looked at. What the key space holds is as of that; all else is as it is now, for of earlier
    /// revisions nothing else is kept.
    pub revision: Revision,
    /// The current revision.
    pub newest: Revision,
    /// Where history begins, if there ever was a compaction.
    pub compact_revision: Option<Revision>,
    /// The revision of a compaction that was begun and has not finished.
    pub pending_compaction: Option<Revision>,
    /// What the key space holds.
    pub key_space: KeySpaceFacts,
    /// What the tables hold, as far as it can be understood.
    pub tables: TableFacts,
    /// How the file is used.
    pub sizes: Option<SizeFacts>,
}

/// What a key space holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySpaceFacts {
    /// Records, deletions too.
    pub records: u64,
    /// Records that delete.
    pub tombstones: u64,
    /// Keys that are there now.
    pub live_keys: u64,
    /// Those of them that hang on a lease.
    pub attached_keys: u64,
    /// The leases that they hang on.
    pub named_leases: u64,
    /// What the file lacks of it; nothing if it has all its history.
    pub holes: Option<Holes>,
    /// Where keys and bytes are, the prefixes with most bytes first. See [`prefix_of`].
    pub prefixes: Vec<PrefixFacts>,
}

/// What lies below a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixFacts {
    /// The prefix; empty for what lies below none, and for all beyond the first [`MAX_PREFIXES`].
    pub prefix: Vec<u8>,
    /// Keys that are there now.
    pub live_keys: u64,
    /// Records, deletions too.
    pub records: u64,
    /// Bytes of those records, keys and values.
    pub bytes: u64,
}

/// What the tables hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableFacts {
    /// How many leases there are.
    pub leases: u64,
    /// How many users there are.
    pub users: u64,
    /// How many roles there are.
    pub roles: u64,
    /// Whether users must log in.
    pub auth_enabled: bool,
    /// The alarms that stand.
    pub alarms: Vec<Alarm>,
    /// The members.
    pub members: Vec<Member>,
    /// The version that all members have.
    pub cluster_version: Option<String>,
    /// The version of the schema, kept since 3.6.
    pub storage_version: Option<String>,
    /// The raft index of the last entry in the database.
    pub consistent_index: Option<u64>,
    /// Its term, kept since 3.5.
    pub term: Option<u64>,
}

/// How a file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeFacts {
    /// The size of the file.
    pub size_bytes: u64,
    /// The size of the pages that hold something: what etcd calls in use.
    pub size_in_use_bytes: u64,
    /// The rest: free pages, and what lies past the last page.
    pub waste_bytes: u64,
}

impl Facts {
    /// The facts of `database` as it was at revision `at`, or as it is.
    pub fn of(database: &Database, at: Option<Revision>) -> Result<Self, ViewError> {
        let horizon = Horizon::of(database)?;
        let (revision, compact) = (horizon.at(database, at)?, horizon.compact);
        let tables = database.tables();
        let scheduled = tables.scheduled_compaction()?;
        Ok(Self {
            etcd_version: version_of(tables),
            revision,
            newest: horizon.current,
            compact_revision: compact,
            pending_compaction: scheduled.filter(|_| scheduled > tables.finished_compaction().ok().flatten()),
            key_space: KeySpaceFacts::of(database, at.map_or(RevisionRange::ALL, RevisionRange::up_to))?,
            tables: TableFacts::of(tables),
            sizes: database.file().map(SizeFacts::of).transpose()?,
        })
    }
}

impl TableFacts {
    /// The facts of `tables`.
    pub fn of(tables: &Tables) -> Self {
        Self {
            leases: tables.leases().count() as u64,
            users: tables.users().count() as u64,
            roles: tables.roles().count() as u64,
            auth_enabled: tables.auth_enabled(),
            alarms: tables.alarms().flatten().collect(),
            members: tables.members().flatten().collect(),
            cluster_version: tables.cluster_version().ok().flatten(),
            storage_version: tables.storage_version().ok().flatten(),
            consistent_index: tables.consistent_index().ok().flatten(),
            term: tables.term().ok().flatten(),
        }
    }
}

impl SizeFacts {
    /// The facts of `file`.
    pub fn of(file: &BoltFile) -> Result<Self, Error> {
        let free = check(file, cores())?.statistics.free_pages;
        let layout = file.layout();
        let in_use = layout.pages.saturating_sub(free).saturating_mul(u64::from(layout.page_size));
        Ok(Self {
            size_bytes: layout.file_bytes,
            size_in_use_bytes: in_use,
            waste_bytes: layout.file_bytes.saturating_sub(in_use),
        })
    }
}

/// The minor version that `tables` look like: the storage version from 3.6 on; before, the version of the cluster or
/// a term, which 3.5 brought, whichever is later.
pub fn version_of(tables: &Tables) -> String {
    if let Some(minor) = tables.storage_version().ok().flatten().as_deref().and_then(minor) {
        return format!("3.{minor}");
    }
    let term = tables.term().ok().flatten().map_or(4, |_| 5);
    let cluster = tables.cluster_version().ok().flatten().as_deref().and_then(minor);
    format!("3.{}", cluster.unwrap_or(term).max(term))
}

/// The minor number of a version of etcd 3.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("3.")?.split('.').next()?.parse().ok()
}

impl KeySpaceFacts {
    /// The facts of what the key space of `database` has of the revisions `range`, from its first on.
    pub fn of(database: &Database, range: RevisionRange) -> Result<Self, Error> {
        let prints = Fingerprinter::default();
        let mut seen = KeySet::default();
        let mut prefixes = Prefixes::default();
        let mut leases = HashSet::new();
        let mut facts = Self::default();
        let step = |batch: &mut Batch<RecordFacts>, record: Record<'_>| {
            let found = record.key_value()?;
            let bytes = record.at.encode().len() + record.value.len();
            let (print, lease) = (prints.of(found.key), found.lease);
            let fact = RecordFacts { print, is_deletion: record.at.tombstone, lease, bytes };
            // The empty key is no key, only what raises a revision.
            Ok(if found.key.is_empty() { Next::More } else { batch.push(fact, prefix_of(found.key)) })
        };
        let take = |batch: Batch<RecordFacts>| {
            for (record, prefix) in batch.iter() {
                let is_live = seen.insert(record.print) && !record.is_deletion;
                facts.records += 1;
                facts.tombstones += u64::from(record.is_deletion);
                facts.live_keys += u64::from(is_live);
                if is_live && record.lease != LeaseId::default() {
                    facts.attached_keys += 1;
                    leases.insert(record.lease);
                }
                let below = prefixes.get(prefix);
                below.records += 1;
                below.live_keys += u64::from(is_live);
                below.bytes += record.bytes as u64;
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        };
        let holes = holes::scan(database, range, Direction::Backwards, step, take)?;
        Ok(Self { named_leases: leases.len() as u64, holes, prefixes: prefixes.into_sorted(), ..facts })
    }
}

struct RecordFacts {
    print: Fingerprint,
    is_deletion: bool,
    lease: LeaseId,
    bytes: usize,
}

/// The prefix that `key` counts for: two segments, as in `/registry/pods/`; three if the second has a dot, as the
/// group of a resource has in `/registry/apps.example.com/things/`. Fewer if there are no more; the last segment is
/// a name, and never part of it.
pub fn prefix_of(key: &[u8]) -> &[u8] {
    let leading = usize::from(key.first() == Some(&b'/'));
    let (mut end, mut segments, mut wanted) = (leading, 0, 2);
    for (at, _) in key.iter().enumerate().take(MAX_PREFIX_BYTES).skip(leading).filter(|&(_, &byte)| byte == b'/') {
        segments += 1;
        if segments == 2 && key.get(end..at).unwrap_or_default().contains(&b'.') {
            wanted = 3;
        }
        end = at + 1;
        if segments == wanted {
            break;
        }
    }
    key.get(..end).unwrap_or_default()
}

/// No prefix is longer.
const MAX_PREFIX_BYTES: usize = 256;
/// No more prefixes are told apart: who names keys by chance is not to fill the memory.
pub const MAX_PREFIXES: usize = 4096;

#[derive(Default)]
struct Prefixes {
    places: HashMap<Vec<u8>, usize>,
    facts: Vec<PrefixFacts>,
    last: usize,
}

impl Prefixes {
    fn get(&mut self, prefix: &[u8]) -> &mut PrefixFacts {
        let prefix = if self.places.len() < MAX_PREFIXES || self.places.contains_key(prefix) { prefix } else { b"" };
        // Neighbours mostly lie below the same prefix.
        if self.facts.get(self.last).is_none_or(|last| last.prefix != prefix) {
            self.last = match self.places.get(prefix) {
                Some(&place) => place,
                None => self.add(prefix),
            };
        }
        #[allow(clippy::indexing_slicing, reason = "every place is one of the facts")]
        &mut self.facts[self.last]
    }

    fn add(&mut self, prefix: &[u8]) -> usize {
        self.places.insert(prefix.into(), self.facts.len());
        self.facts.push(PrefixFacts { prefix: prefix.into(), ..PrefixFacts::default() });
        self.facts.len() - 1
    }

    fn into_sorted(mut self) -> Vec<PrefixFacts> {
        self.facts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.prefix.cmp(&b.prefix)));
        self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_what_names_a_kind_of_thing() {
        let check = |key: &str, prefix: &str| assert_eq!(prefix_of(key.as_bytes()), prefix.as_bytes(), "{key}");
        check("/registry/pods/default/web-0", "/registry/pods/");
        check("/registry/apps.example.com/things/default/a", "/registry/apps.example.com/things/");
        check("/registry/masterleases/10.0.0.1", "/registry/masterleases/");
        check("/registry/x.y/name", "/registry/x.y/");
        check("/registry/health", "/registry/");
        check("/bootstrap", "/");
        check("plain", "");
        check("app/config/db/host", "app/config/");
        check("", "");
        check("/", "/");
        check("//", "//");
        check(&"/".repeat(1000), "///");
        check(&"a".repeat(1000), "");
    }

    #[test]
    fn tables_tell_the_version() {
        let check = |storage: Option<&str>, cluster: Option<&str>, term: Option<u64>, version: &str| {
            let mut tables = Tables::default();
            tables.set_storage_version(storage);
            tables.set_cluster_version(cluster);
            tables.set_term(term);
            assert_eq!(version_of(&tables), version);
        };
        check(Some("3.6.0"), Some("3.6.0"), Some(1), "3.6");
        check(Some("3.7.0"), None, Some(1), "3.7");
        check(None, Some("3.5.0"), Some(1), "3.5");
        check(None, Some("3.4.0"), Some(1), "3.5");
        check(None, Some("3.6.0"), Some(1), "3.6");
        check(None, Some("3.4.0"), None, "3.4");
        check(None, None, None, "3.4");
        check(Some("nonsense"), Some("4"), Some(1), "3.5");
    }
}
