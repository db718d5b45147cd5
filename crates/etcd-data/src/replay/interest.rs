//! What must be known of the keys before, so that entries can be applied.
//!
//! A put needs the state of its key, a range all keys in it, and the end of a lease all keys that hang on it. That is
//! little beside a whole database. One look through the records finds it, each record judged by itself; another one
//! before it where there are leases, for a key that left a lease shows that only in a record without it.

use std::collections::{BTreeMap, BTreeSet};

use prost::bytes::Bytes;

use super::ReplayError;
use crate::key_value::KeyValue;
use crate::raft::EntryKind;
use crate::request::{Command, Op, PutRequest, Request, TxnRequest};
use crate::revision::RevKey;
use crate::tables::{LeaseId, Tables};
use crate::wal::{Entries, each};

/// The keys and leases that entries touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    keys: KeySet,
    leases: BTreeSet<i64>,
}

impl Interest {
    /// What `entries` touch in a database with `tables`.
    pub(super) fn of(entries: &dyn Entries, tables: &Tables) -> Result<Interest, ReplayError> {
        let mut interest = Interest::default();
        let mut permissions_matter = tables.auth_enabled();
        for entry in each(entries) {
            let entry = entry?;
            if entry.kind != EntryKind::Normal as i32 || entry.data.is_empty() {
                continue;
            }
            let request = Request::parse(entry.data).map_err(|_| ReplayError::Entry { index: entry.index })?;
            permissions_matter |= matches!(request.command, Some(Command::AuthEnable(_)));
            let mut puts = Vec::new();
            match &request.command {
                Some(Command::Put(put)) => puts.push(put),
                Some(Command::DeleteRange(delete)) => interest.keys.add(&delete.key, &delete.range_end),
                Some(Command::Txn(txn)) => interest.add_txn(txn, &mut puts),
                Some(Command::LeaseRevoke(revoke)) => {
                    interest.leases.insert(revoke.id);
                }
                _ => {}
            }
            for put in puts {
                interest.add_put(put);
                // Who may not write a key may not hang another on its lease either.
                if permissions_matter && put.lease != 0 {
                    interest.leases.insert(put.lease);
                }
            }
        }
        interest.keys.merge();
        Ok(interest)
    }

    /// Whether nothing must be known: there is no need to look through the records.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.leases.is_empty()
    }

    /// Whether there are leases whose keys are still to be found, and to be told to [`Interest::add_key`].
    pub fn has_leases(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Whether keys are wanted that ever hung on `lease`.
    pub fn wants_lease(&self, lease: LeaseId) -> bool {
        self.leases.contains(&lease.0)
    }

    /// Takes an interest in a key.
    pub fn add_key(&mut self, key: &[u8]) {
        self.keys.add(key, &[]);
    }

    /// What a record says that is of interest; `None` if nothing.
    pub fn sight(&self, at: RevKey, record: &KeyValue<'_>) -> Option<Sighting> {
        if !self.keys.has(record.key) {
            return None;
        }
        let key = Bytes::copy_from_slice(record.key);
        let row = Row {
            at,
            create_revision: record.create_revision.0,
            version: record.version,
            lease: record.lease.0,
            value_len: record.value.len(),
        };
        Some(Sighting { key, row: Some(row).filter(|_| !at.tombstone) })
    }

    fn add_put(&mut self, put: &PutRequest) {
        self.keys.add(&put.key, &[]);
    }

    fn add_txn<'a>(&mut self, txn: &'a TxnRequest, puts: &mut Vec<&'a PutRequest>) {
        for compare in &txn.compare {
            self.keys.add(&compare.key, &compare.range_end);
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match &op.op {
                Some(Op::Put(put)) => puts.push(put),
                Some(Op::DeleteRange(delete)) => self.keys.add(&delete.key, &delete.range_end),
                Some(Op::Txn(txn)) => self.add_txn(txn, puts),
                Some(Op::Range(_)) | None => {}
            }
        }
    }
}

/// A key, or all keys between two; a range without an end has none.
pub(super) fn is_in_range(key: &[u8], from: &[u8], end: &[u8]) -> bool {
    match end {
        [] => key == from,
        [0] => key >= from,
        _ => key >= from && key < end,
    }
}

/// A set of single keys and ranges of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeySet {
    keys: BTreeSet<Vec<u8>>,
    /// First key to end; without an end, to the last key. Disjoint after [`KeySet::merge`].
    ranges: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl KeySet {
    fn add(&mut self, key: &[u8], range_end: &[u8]) {
        let end = match range_end {
            [] => {
                self.keys.insert(key.into());
                return;
            }
            [0] => None,
            end if end <= key => return,
            end => Some(end.to_vec()),
        };
        let longest = self.ranges.entry(key.into()).or_insert_with(|| end.clone());
        if ends_before(longest, &end) {
            *longest = end;
        }
    }

    /// Joins ranges that overlap, so that one look finds the only one that a key can be in.
    fn merge(&mut self) {
        let mut merged: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for (from, end) in std::mem::take(&mut self.ranges) {
            match merged.last_mut() {
                Some((_, last)) if last.as_ref().is_none_or(|last| from <= *last) => {
                    if ends_before(last, &end) {
                        *last = end;
                    }
                }
                _ => merged.push((from, end)),
            }
        }
        self.ranges = merged.into_iter().collect();
    }

    fn has(&self, key: &[u8]) -> bool {
        let range = self.ranges.range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key)));
        let in_range = range.last().is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < &end[..]));
        in_range || self.keys.contains(key)
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }
}

fn ends_before(one: &Option<Vec<u8>>, other: &Option<Vec<u8>>) -> bool {
    match (one, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(one), Some(other)) => one < other,
    }
}

/// What a record says that is of interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    key: Bytes,
    /// `None` if it deletes the key.
    row: Option<Row>,
}

/// The live state of the keys that an [`Interest`] is in.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    live: BTreeMap<Bytes, Row>,
}

/// The live state of a key, but for its value, which stays in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The record that it comes from.
    pub(super) at: RevKey,
    pub(super) create_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
    pub(super) value_len: usize,
}

impl Rows {
    /// Takes note of what a record says. Records come in the order of revisions.
    pub fn note(&mut self, sighting: Sighting) {
        match sighting.row {
            Some(row) => drop(self.live.insert(sighting.key, row)),
            None => drop(self.live.remove(&sighting.key)),
        }
    }

    pub(super) fn into_live(self) -> impl Iterator<Item = (Bytes, Row)> {
        self.live.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(&str, &str)]) -> KeySet {
        let mut set = KeySet::default();
        for (key, end) in ranges {
            set.add(key.as_bytes(), end.as_bytes());
        }
        set.merge();
        set
    }

    #[test]
    fn ranges_that_overlap_are_one() {
        let set = set(&[("b", "d"), ("c", "f"), ("x", ""), ("h", "k"), ("i", "j"), ("f", "g")]);
        assert_eq!(set.ranges.len(), 2);
        for (key, expected) in [("a", false), ("b", true), ("e", true), ("f", true), ("g", false), ("i", true)] {
            assert_eq!(set.has(key.as_bytes()), expected, "{key}");
        }
        assert!(set.has(b"x") && !set.has(b"xx") && !set.has(b"k"));
    }

    #[test]
    fn a_range_without_an_end_has_all_that_follows() {
        let set = set(&[("m", "\0"), ("n", "o"), ("b", "a")]);
        assert!(set.has(b"m") && set.has(b"zzz") && !set.has(b"l") && !set.has(b"b"));
    }

    #[test]
    fn only_what_is_of_interest_is_noted_and_of_values_how_long_they_are() {
        let mut interest = Interest::default();
        interest.keys.add(b"a", b"z");
        let at = |tombstone| RevKey { main: crate::Revision(9), sub: 0, tombstone };
        let record = |key: &'static str| KeyValue { key: key.as_bytes(), value: b"value", ..KeyValue::default() };
        let sight = |key, tombstone| interest.sight(at(tombstone), &record(key));

        assert_eq!(sight("a", false).unwrap().row.unwrap().value_len, 5);
        assert_eq!(sight("b", true).unwrap().row, None);
        assert_eq!(sight("z", false), None);
    }
}
