//! etcd's key space, done the slow and obvious way, to compare the fast ways with.
//!
//! Every transaction's changes are kept in a list; hashes are taken of all bytes in one piece, the way etcd's
//! source reads. `database` writes the list to a bolt file in memory and opens it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd_data::bolt_file::BoltFile;
use etcd_data::bolt_file::write::{Builder, Options};
use etcd_data::database::RevisionRange;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};
pub use testkit::random::Random;

/// A key space, and the tables beside it.
#[derive(Clone)]
pub struct Model {
    pub current: i64,
    pub compact: Option<i64>,
    pub records: Vec<Stored>,
    pub tables: Tables,
}

/// A record, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub at: RevKey,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub create: i64,
    pub version: i64,
    pub lease: i64,
}

pub enum Op<'a> {
    Put(&'a [u8], &'a [u8], i64),
    Delete(&'a [u8]),
}

impl Stored {
    pub fn encoded(&self) -> Vec<u8> {
        let key = KeyValue { key: &self.key, ..KeyValue::default() };
        let put = KeyValue {
            create_revision: Revision(self.create),
            mod_revision: self.at.main,
            version: self.version,
            value: &self.value,
            lease: LeaseId(self.lease),
            ..key
        };
        let mut bytes = Vec::new();
        if self.at.tombstone { key } else { put }.encode(&mut bytes);
        bytes
    }

    /// The record as it is shown by what is no file.
    pub fn elsewhere(&self) -> TailRecord {
        TailRecord { at: self.at, value: self.encoded() }
    }
}

impl Model {
    pub fn new() -> Self {
        Self { current: 1, compact: None, records: Vec::new(), tables: Tables::default() }
    }

    /// Does everything in `ops` in one transaction. Deleting what is not there does nothing.
    pub fn txn(&mut self, ops: &[Op<'_>]) -> &mut Self {
        let main = self.current + 1;
        let mut sub = 0;
        for op in ops {
            let (key, put) = match *op {
                Op::Put(key, value, lease) => (key, Some((value, lease))),
                Op::Delete(key) => (key, None),
            };
            let before = self.newest(key, i64::MAX).filter(|record| !record.at.tombstone).cloned();
            if put.is_none() && before.is_none() {
                continue;
            }
            let at = RevKey { main: Revision(main), sub, tombstone: put.is_none() };
            let (value, lease) = put.unwrap_or((&[], 0));
            let (create, version) = match (put, before) {
                (None, _) => (0, 0),
                (_, Some(before)) => (before.create, before.version + 1),
                (_, None) => (main, 1),
            };
            self.records.push(Stored { at, key: key.into(), value: value.into(), create, version, lease });
            self.current = main;
            sub += 1;
        }
        self
    }

    pub fn put(&mut self, key: &str, value: &str) -> &mut Self {
        self.txn(&[Op::Put(key.as_bytes(), value.as_bytes(), 0)])
    }

    pub fn delete(&mut self, key: &str) -> &mut Self {
        self.txn(&[Op::Delete(key.as_bytes())])
    }

    /// Compacts at `at`; `keep_last_deletion` as newer servers do.
    pub fn compact(&mut self, at: i64, keep_last_deletion: bool) -> &mut Self {
        self.compact = Some(at);
        self.records = self.compacted(at, keep_last_deletion);
        self.mark(at, at)
    }

    /// Sets the marks of compaction.
    pub fn mark(&mut self, scheduled: i64, finished: i64) -> &mut Self {
        self.compact = Some(scheduled.max(finished));
        self.tables.set_scheduled_compaction(Revision(scheduled));
        self.tables.set_finished_compaction(Revision(finished));
        self
    }

    /// What a compaction at `at` leaves.
    pub fn compacted(&self, at: i64, keep_last_deletion: bool) -> Vec<Stored> {
        let newest: BTreeMap<&[u8], RevKey> = self
            .records
            .iter()
            .filter(|record| record.at.main.0 <= at)
            .map(|record| (&record.key[..], record.at))
            .collect();
        let keeps = |record: &&Stored| {
            let last = newest.get(&record.key[..]) == Some(&record.at);
            let allowed = !record.at.tombstone || (keep_last_deletion && record.at.main.0 == at);
            record.at.main.0 > at || (last && allowed)
        };
        self.records.iter().filter(keeps).cloned().collect()
    }

    /// The newest record of `key` up to `at`.
    pub fn newest(&self, key: &[u8], at: i64) -> Option<&Stored> {
        self.records.iter().rev().find(|record| record.key == key && record.at.main.0 <= at)
    }

    /// The keys at `at`, in order.
    pub fn live(&self, at: i64) -> BTreeMap<Vec<u8>, Stored> {
        let mut live = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.at.main.0 <= at) {
            match record.at.tombstone {
                true => live.remove(&record.key),
                false => live.insert(record.key.clone(), record.clone()),
            };
        }
        live
    }

    /// HashKV at `at`, from a server that had been compacted at `compact`, and has removed what it dropped.
    pub fn hash_kv(&self, at: i64, compact: Option<i64>) -> u32 {
        let keep: BTreeSet<RevKey> = self.live(at).values().map(|record| record.at).collect();
        let compact = compact.unwrap_or(-1);
        let mut bytes = b"key".to_vec();
        for record in self.compacted(compact, true) {
            let main = record.at.main.0;
            let forgotten = main <= compact && !keep.is_empty() && !keep.contains(&record.at);
            if main <= at && !forgotten && !(main == compact && record.at.tombstone) {
                bytes.extend_from_slice(&record.at.encode());
                bytes.extend_from_slice(&record.encoded());
            }
        }
        crc32c::crc32c(&bytes)
    }

    pub fn database(&self) -> Database {
        self.database_with_tail(0)
    }

    /// The database, the last `tail` records of which only the log has.
    pub fn database_with_tail(&self, tail: usize) -> Database {
        let (file, tail) = self.records.split_at(self.records.len() - tail);
        let tail: Vec<_> = tail.iter().map(Stored::elsewhere).collect();
        self.database_from(file).followed_by(RevisionRange::ALL, Arc::new(tail)).with_tables(self.tables.clone())
    }

    /// A file with these records and the tables.
    pub fn database_from(&self, records: &[Stored]) -> Database {
        let entries = records.iter().map(|record| (record.at.encode().to_vec(), record.encoded()));
        database_of(entries, &self.tables)
    }
}

/// A database of any entries, with small pages, so that few records make many parts.
pub fn database_of(entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>, tables: &Tables) -> Database {
    let mut bytes = Vec::new();
    let mut builder = Builder::create(&mut bytes, Options { page_size: 1024, txid: 2 }).unwrap();
    let mut key = builder.bucket(b"key").unwrap();
    for (name, value) in entries {
        key.push(&name, &value).unwrap();
    }
    key.finish().unwrap();
    for (name, table) in tables.buckets() {
        let mut bucket = builder.bucket(name).unwrap();
        for (key, value) in table {
            bucket.push(key, value).unwrap();
        }
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
    Database::open(BoltFile::open(Arc::new(bytes)).unwrap()).unwrap()
}

impl Model {
    /// A key space after `steps` random transactions on some fifty keys.
    pub fn random(random: &mut Random, steps: usize) -> Self {
        let mut model = Self::new();
        for _ in 0..steps {
            model.random_txn(random);
        }
        model
    }

    pub fn random_txn(&mut self, random: &mut Random) {
        let mut keys = BTreeSet::new();
        for _ in 0..=random.below(3) {
            keys.insert(format!("/{}/{}", ["a", "b", "ab"][random.below(3) as usize], random.below(20)).into_bytes());
        }
        let value = vec![b'v'; random.below(60) as usize];
        let ops: Vec<Op<'_>> = keys
            .iter()
            .map(|key| match random.below(4) {
                0 => Op::Delete(key),
                other => Op::Put(key, &value, if other == 1 { -7 } else { 0 }),
            })
            .collect();
        self.txn(&ops);
    }
}
