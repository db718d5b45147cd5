//! A small member, and what is asked of it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::database::{Direction, RevisionRange};
use crate::key_value::KeyValue;
use crate::records::{Records, TailRecord};
use crate::revision::RevKey;
use crate::tables::{Lease, LeaseId};
use crate::wal::Entries;

/// A small member whose requests are written as they come to mind; keys `a` to `c` were put at revisions 2 to 4,
/// `c` on lease 7.
pub(crate) struct Scene {
    pub(crate) tables: Tables,
    pub(crate) entries: Vec<Entry>,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let mut tables = Tables::default();
        tables.set_consistent_index(10);
        tables.put_lease(&Lease { id: 7, ttl_seconds: 60, remaining_seconds: 0 });
        Scene { tables, entries: Vec::new() }
    }

    pub(crate) fn asks(&mut self, command: Command) -> &mut Scene {
        self.asks_as("", 0, command)
    }

    pub(crate) fn asks_as(&mut self, username: &str, auth_revision: u64, command: Command) -> &mut Scene {
        let header = Some(Header { id: 1, username: username.into(), auth_revision });
        let request = Request { id: 0, header, command: Some(command) };
        self.entry(EntryKind::Normal, request.encode_to_vec())
    }

    pub(crate) fn changes_members(&mut self, kind: ConfChangeKind, node_id: u64, context: &str) -> &mut Scene {
        let context = Bytes::copy_from_slice(context.as_bytes());
        let change = ConfChange { id: 0, kind: kind as i32, node_id, context };
        self.entry(EntryKind::ConfChange, change.encode_to_vec())
    }

    pub(crate) fn entry(&mut self, kind: EntryKind, data: Vec<u8>) -> &mut Scene {
        let index = 11 + self.entries.len() as u64;
        self.entries.push(Entry { kind: kind as i32, term: 3, index, data: Bytes::from(data) });
        self
    }

    pub(crate) fn result(&self) -> Result<Replayed, ReplayError> {
        self.result_of(Arc::new(Counted { entries: self.entries.clone(), read: AtomicUsize::new(0) }))
    }

    pub(crate) fn result_of(&self, entries: Arc<Counted>) -> Result<Replayed, ReplayError> {
        let mut interest = Interest::of(&*entries, &self.tables)?;
        // As the one with the database does: what hangs on leases first.
        if interest.wants_lease(LeaseId(7)) {
            interest.add_key(b"c");
        }
        let mut rows = Rows::default();
        let mut before = Vec::new();
        for (main, key, lease) in [(2, "a", 0), (3, "b", 0), (4, "c", 7)] {
            let at = RevKey { main: Revision(main), sub: 0, tombstone: false };
            let record = KeyValue {
                key: key.as_bytes(),
                create_revision: at.main,
                mod_revision: at.main,
                version: 1,
                value: b"old",
                lease: LeaseId(lease),
            };
            if let Some(sighting) = interest.sight(at, &record) {
                rows.note(sighting);
            }
            let mut value = Vec::new();
            record.encode(&mut value);
            before.push(TailRecord { at, value });
        }
        let database = Database::empty(self.tables.clone()).followed_by(RevisionRange::ALL, Arc::new(before));
        let pending = Pending { conf_state: ConfState::of_voters(vec![1]), entries, uncommitted: 0 };
        replay(&database, rows, pending)
    }

    pub(crate) fn done(&self) -> Replayed {
        self.result().unwrap()
    }

    /// The new records: `revision/sub key=value` with what else is not as for a new key, deletions as `key` alone.
    pub(crate) fn records(&self) -> Vec<String> {
        let show = |record: &TailRecord| {
            let kv = KeyValue::parse(&record.value).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            if record.at.tombstone {
                return format!("{} {}", record.at, text(kv.key));
            }
            assert_eq!(kv.mod_revision, record.at.main);
            let mut shown = format!("{} {}={}", record.at, text(kv.key), text(kv.value));
            if kv.create_revision != record.at.main || kv.version != 1 {
                shown += &format!(" created {} version {}", kv.create_revision, kv.version);
            }
            if kv.lease != LeaseId(0) {
                shown += &format!(" lease {}", kv.lease.0);
            }
            shown
        };
        all(&self.done().records).iter().map(show).collect()
    }
}

/// Entries in memory, and how often one was read.
pub(crate) struct Counted {
    pub(crate) entries: Vec<Entry>,
    pub(crate) read: AtomicUsize,
}

impl Entries for Counted {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn read(&self, number: usize) -> Result<Entry, WalError> {
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(self.entries[number].clone())
    }
}

pub(crate) fn all(tail: &Tail) -> Vec<TailRecord> {
    let mut found = Vec::new();
    let mut note = |at, value: &[u8]| {
        found.push(TailRecord { at, value: value.to_vec() });
        Ok(ControlFlow::Continue(()))
    };
    tail.read(Direction::Forwards, &mut note).unwrap();
    found
}

pub(crate) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: Bytes::from(key.to_owned()), value: Bytes::from(value.to_owned()), ..PutRequest::default() }
}

pub(crate) fn delete(key: &str, end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: Bytes::from(key.to_owned()), range_end: Bytes::from(end.to_owned()), prev_kv: false }
}

pub(crate) fn op(op: Op) -> RequestOp {
    RequestOp { op: Some(op) }
}

pub(crate) fn compare(key: &str, end: &str, result: CompareResult, with: CompareWith) -> Compare {
    let target = match with {
        CompareWith::Version(_) => CompareTarget::Version,
        CompareWith::CreateRevision(_) => CompareTarget::Create,
        CompareWith::ModRevision(_) => CompareTarget::Mod,
        CompareWith::Value(_) => CompareTarget::Value,
        CompareWith::Lease(_) => CompareTarget::Lease,
    };
    Compare {
        result: result as i32,
        target: target as i32,
        key: Bytes::from(key.to_owned()),
        range_end: Bytes::from(end.to_owned()),
        with: Some(with),
    }
}
