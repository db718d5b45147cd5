//! Keys, revisions and what hangs on leases: what transactions change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::bytes::Bytes;

use super::Stop;
use super::interest::{Row, Rows, is_in_range};
use super::tail::{Addition, Tail, Value, ValuePlace, Values};
use crate::revision::{RevKey, Revision};
use crate::tables::{LeaseId, Tables};

/// What entries may add together. One small entry can add much: a put that keeps a large value, many times over.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 30;

/// The live keys that matter, and the records that were added.
pub(super) struct Store {
    live: BTreeMap<Bytes, Live>,
    attached: HashMap<i64, BTreeSet<Bytes>>,
    additions: Vec<Addition>,
    added_bytes: usize,
    values: Values,
    /// The entry that is being applied.
    entry: usize,
    /// Its data.
    data: Bytes,
    revision: i64,
    compacted: i64,
}

/// The live state of a key.
pub(super) struct Live {
    pub(super) create_revision: i64,
    pub(super) mod_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
    pub(super) value: Value,
    /// The lease that it hangs on: not `lease`, where there was no such lease when the member started.
    attached_to: i64,
}

/// Changes under one revision.
pub(super) struct Change<'a> {
    store: &'a mut Store,
    revision: i64,
    sub: i64,
}

impl Store {
    pub(super) fn new(revision: i64, compacted: i64, rows: Rows, values: Values, tables: &Tables) -> Store {
        let mut store = Store {
            live: BTreeMap::new(),
            attached: HashMap::new(),
            additions: Vec::new(),
            added_bytes: 0,
            values,
            entry: 0,
            data: Bytes::new(),
            revision,
            compacted,
        };
        for (key, row) in rows.into_live() {
            let Row { at, create_revision, version, lease, value_len } = row;
            let attached_to = if tables.has_lease(LeaseId(lease)) { lease } else { 0 };
            store.attach(&key, attached_to);
            let mod_revision = at.main.0;
            let value = Value { place: ValuePlace::Database(at), len: value_len };
            store.live.insert(key, Live { create_revision, mod_revision, version, lease, value, attached_to });
        }
        store
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Begins to apply the entry that `entry` others come before, and that has `data`.
    pub(super) fn begin(&mut self, entry: usize, data: Bytes) {
        (self.entry, self.data) = (entry, data);
    }

    /// What was added.
    pub(super) fn into_tail(self) -> Tail {
        Tail::new(self.additions, self.values)
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

    /// Reads the value of a live key.
    pub(super) fn value(&self, live: &Live) -> Result<Bytes, Stop> {
        self.values.reader().read(live.value).map_err(Stop::Data)
    }

    /// Where `value` is, which is a slice of the data of the entry that is being applied.
    pub(super) fn place_of(&self, value: &Bytes) -> Result<Value, Stop> {
        let (len, start) = (value.len(), value.as_ptr().addr().wrapping_sub(self.data.as_ptr().addr()));
        if len == 0 {
            return Ok(Value::EMPTY);
        }
        // A copy would be anywhere.
        let found = self.data.get(start..start.saturating_add(len)).filter(|found| *found == value);
        found.map(|_| Value { place: ValuePlace::Log { entry: self.entry, start }, len }).ok_or(Stop::Entry)
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

    pub(super) fn put(&mut self, key: &Bytes, value: Value, lease: i64) -> Result<(), Stop> {
        let before = self.store.live.get_key_value(key);
        // The one of the request would hold on to all of its entry.
        let key = before.map_or_else(|| Bytes::copy_from_slice(key), |(key, _)| key.clone());
        let before = before.map(|(_, before)| before);
        let create_revision = before.map_or(self.revision, |before| before.create_revision);
        let version = before.map_or(0, |before| before.version).saturating_add(1);
        let was_attached_to = before.map_or(0, |before| before.attached_to);
        let at = self.next(Kind::Put);
        self.add(Addition { at, key: key.clone(), create_revision, version, lease, value })?;
        if was_attached_to != lease {
            self.store.detach(&key, was_attached_to);
            self.store.attach(&key, lease);
        }
        let mod_revision = self.revision;
        let live = Live { create_revision, mod_revision, version, lease, value, attached_to: lease };
        self.store.live.insert(key, live);
        Ok(())
    }

    /// Deletes the live keys of a range, in order.
    pub(super) fn delete_range(&mut self, from: &[u8], end: &[u8]) -> Result<(), Stop> {
        let keys: Vec<Bytes> = self.store.range(from, end).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let at = self.next(Kind::Tombstone);
            self.add(Addition { at, key: key.clone(), create_revision: 0, version: 0, lease: 0, value: Value::EMPTY })?;
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

    fn next(&self, kind: Kind) -> RevKey {
        RevKey { main: Revision(self.revision), sub: self.sub, tombstone: matches!(kind, Kind::Tombstone) }
    }

    fn add(&mut self, addition: Addition) -> Result<(), Stop> {
        let size_bytes = addition.key.len() + addition.value.len + NUMBERS;
        self.store.added_bytes = self.store.added_bytes.saturating_add(size_bytes);
        if self.store.added_bytes > MAX_RECORD_BYTES {
            return Err(Stop::TooMuch);
        }
        self.store.additions.push(addition);
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
