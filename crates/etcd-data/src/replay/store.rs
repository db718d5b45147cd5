//! Keys, revisions and what hangs on leases: what transactions change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::bytes::Bytes;

use super::Stop;
use super::interest::{Row, Rows, is_in_range};
use crate::key_value::KeyValue;
use crate::records::TailRecord;
use crate::revision::{RevKey, Revision};
use crate::tables::{LeaseId, Tables};

/// What entries may add together. One small entry can add much: a put that keeps a large value, many times over.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 30;

/// The live keys that matter, and the records that were added.
pub(super) struct Store {
    live: BTreeMap<Bytes, Live>,
    attached: HashMap<i64, BTreeSet<Bytes>>,
    records: Vec<TailRecord>,
    record_bytes: usize,
    revision: i64,
    compacted: i64,
}

/// The live state of a key.
pub(super) struct Live {
    pub(super) create_revision: i64,
    pub(super) mod_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
    value: Value,
    /// The lease that it hangs on: not `lease`, where there was no such lease when the member started.
    attached_to: i64,
}

/// Where a value is.
enum Value {
    Here(Vec<u8>),
    /// In the record of this number.
    Record(usize),
}

/// Changes under one revision.
pub(super) struct Change<'a> {
    store: &'a mut Store,
    revision: i64,
    sub: i64,
}

impl Store {
    pub(super) fn new(revision: i64, compacted: i64, rows: Rows, tables: &Tables) -> Store {
        let mut store = Store {
            live: BTreeMap::new(),
            attached: HashMap::new(),
            records: Vec::new(),
            record_bytes: 0,
            revision,
            compacted,
        };
        for (key, row) in rows.into_live() {
            let Row { create_revision, mod_revision, version, lease, value } = row;
            let attached_to = if tables.has_lease(LeaseId(lease)) { lease } else { 0 };
            store.attach(&key, attached_to);
            let value = Value::Here(value);
            store.live.insert(key, Live { create_revision, mod_revision, version, lease, value, attached_to });
        }
        store
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    pub(super) fn into_records(self) -> Vec<TailRecord> {
        self.records
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Live> {
        self.live.get(key)
    }

    /// The live keys of a range, in order. Only those can be found that the interest was in.
    pub(super) fn range(&self, from: &[u8], end: &[u8]) -> impl Iterator<Item = (&Bytes, &Live)> {
        let from_on = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let mut keys = self.live.range::<[u8], _>(from_on);
        std::iter::from_fn(move || keys.next().filter(|(key, _)| is_in_range(key, from, end)))
    }

    pub(super) fn value<'a>(&'a self, live: &'a Live) -> &'a [u8] {
        match &live.value {
            Value::Here(value) => value,
            Value::Record(number) => {
                let record = self.records.get(*number).and_then(|record| KeyValue::parse(&record.value).ok());
                record.map(|record| record.value).unwrap_or_default()
            }
        }
    }

    /// The keys that hang on a lease, in order.
    pub(super) fn keys_on(&self, lease: i64) -> impl Iterator<Item = &Bytes> {
        self.attached.get(&lease).into_iter().flatten()
    }

    /// Whether a read at `revision` can be answered; 0 is now.
    pub(super) fn has_revision(&self, revision: i64) -> bool {
        revision == 0 || (self.compacted..=self.revision).contains(&revision)
    }

    pub(super) fn compact(&mut self, revision: i64) -> Result<(), Stop> {
        if revision <= self.compacted || revision > self.revision {
            return Err(Stop::Refused);
        }
        self.compacted = revision;
        Ok(())
    }

    /// Begins changes under the next revision.
    pub(super) fn change(&mut self) -> Result<Change<'_>, Stop> {
        let revision = self.revision.checked_add(1).ok_or(Stop::RevisionOverflow)?;
        Ok(Change { store: self, revision, sub: 0 })
    }

    fn attach(&mut self, key: &Bytes, lease: i64) {
        if lease != 0 {
            self.attached.entry(lease).or_default().insert(key.clone());
        }
    }

    fn detach(&mut self, key: &[u8], lease: i64) {
        if let Some(keys) = self.attached.get_mut(&lease) {
            keys.remove(key);
        }
    }
}

impl Change<'_> {
    /// What is there, these changes included.
    pub(super) fn store(&self) -> &Store {
        self.store
    }

    pub(super) fn put(&mut self, key: &Bytes, value: &[u8], lease: i64) -> Result<(), Stop> {
        let before = self.store.live.get(key);
        let create_revision = before.map_or(self.revision, |before| before.create_revision);
        let version = before.map_or(0, |before| before.version).saturating_add(1);
        let was_attached_to = before.map_or(0, |before| before.attached_to);
        let record = KeyValue {
            key,
            create_revision: Revision(create_revision),
            mod_revision: Revision(self.revision),
            version,
            value,
            lease: LeaseId(lease),
        };
        let number = self.store.records.len();
        self.record(&record, Kind::Put)?;
        if was_attached_to != lease {
            self.store.detach(key, was_attached_to);
            self.store.attach(key, lease);
        }
        let live = Live {
            create_revision,
            mod_revision: self.revision,
            version,
            lease,
            value: Value::Record(number),
            attached_to: lease,
        };
        self.store.live.insert(key.clone(), live);
        Ok(())
    }

    /// Deletes the live keys of a range, in order.
    pub(super) fn delete_range(&mut self, from: &[u8], end: &[u8]) -> Result<(), Stop> {
        let keys: Vec<Bytes> = self.store.range(from, end).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.record(&KeyValue { key: &key, ..KeyValue::default() }, Kind::Tombstone)?;
            if let Some(live) = self.store.live.remove(&key) {
                self.store.detach(&key, live.attached_to);
            }
        }
        Ok(())
    }

    /// Ends the changes. Without any there is no new revision.
    pub(super) fn finish(self) {
        if self.sub > 0 {
            self.store.revision = self.revision;
        }
    }

    fn record(&mut self, record: &KeyValue<'_>, kind: Kind) -> Result<(), Stop> {
        let at = RevKey { main: Revision(self.revision), sub: self.sub, tombstone: matches!(kind, Kind::Tombstone) };
        let mut value = Vec::with_capacity(record.key.len() + record.value.len() + NUMBERS);
        record.encode(&mut value);
        self.store.record_bytes = self.store.record_bytes.saturating_add(value.capacity());
        if self.store.record_bytes > MAX_RECORD_BYTES {
            return Err(Stop::TooMuch);
        }
        self.store.records.push(TailRecord { at, value });
        self.sub += 1;
        Ok(())
    }
}

/// Room for all of a record but its key and value.
const NUMBERS: usize = 60;

enum Kind {
    Put,
    Tombstone,
}
