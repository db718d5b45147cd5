//! Small histories for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::write::{Builder, Options};

use crate::database::Database;
use crate::key_value::KeyValue;
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, LeaseId, Tables};

/// A store as it grows.
#[derive(Default)]
pub(crate) struct Sample {
    records: Vec<(RevKey, Vec<u8>)>,
    /// Create revision and version of each live key.
    live: BTreeMap<Vec<u8>, (Revision, i64)>,
    current: Option<Revision>,
    pub(crate) tables: Tables,
}

/// One change.
pub(crate) enum Change<'a> {
    Put(&'a str, &'a [u8], i64),
    Delete(&'a str),
}

impl Sample {
    /// A member that has just begun.
    pub(crate) fn new() -> Self {
        let mut sample = Self::default();
        sample.tables.set_consistent_index(7);
        sample.tables.set_term(Some(3));
        sample
    }

    /// The revision of the last change.
    pub(crate) fn current(&self) -> Revision {
        self.current.unwrap_or(Revision::FIRST)
    }

    pub(crate) fn put(&mut self, key: &str, value: impl AsRef<[u8]>) -> &mut Self {
        self.txn(&[Change::Put(key, value.as_ref(), 0)])
    }

    pub(crate) fn put_leased(&mut self, key: &str, lease: i64) -> &mut Self {
        self.txn(&[Change::Put(key, b"leased", lease)])
    }

    pub(crate) fn delete(&mut self, key: &str) -> &mut Self {
        self.txn(&[Change::Delete(key)])
    }

    /// Loses the revisions before `main`.
    pub(crate) fn skip_to(&mut self, main: i64) -> &mut Self {
        self.current = Some(Revision(main - 1));
        self
    }

    pub(crate) fn txn(&mut self, changes: &[Change<'_>]) -> &mut Self {
        let main = self.current().next();
        self.current = Some(main);
        for (sub, change) in (0..).zip(changes) {
            let mut value = Vec::new();
            let tombstone = matches!(change, Change::Delete(_));
            match *change {
                Change::Put(key, bytes, lease) => {
                    let (create, version) = self.live.entry(key.into()).or_insert((main, 0));
                    *version += 1;
                    let put = KeyValue {
                        key: key.as_bytes(),
                        create_revision: *create,
                        mod_revision: main,
                        version: *version,
                        value: bytes,
                        lease: LeaseId(lease),
                    };
                    put.encode(&mut value);
                }
                Change::Delete(key) => {
                    self.live.remove(key.as_bytes());
                    KeyValue { key: key.as_bytes(), ..KeyValue::default() }.encode(&mut value);
                }
            }
            self.records.push((RevKey { main, sub, tombstone }, value));
        }
        self
    }

    /// Drops what a compaction at `at` drops, by going through everything.
    pub(crate) fn compact(&mut self, at: i64) -> &mut Self {
        let at = Revision(at);
        let mut newest = BTreeMap::new();
        for (key, value) in self.records.iter().filter(|(key, _)| key.main <= at) {
            newest.insert(KeyValue::parse_key(value).unwrap().to_vec(), *key);
        }
        let keeps = |key: &RevKey, value: &[u8]| {
            let is_newest = newest.get(KeyValue::parse_key(value).unwrap()) == Some(key);
            key.main > at || (is_newest && (!key.tombstone || key.main == at))
        };
        self.records.retain(|(key, value)| keeps(key, value));
        self.tables.set_scheduled_compaction(at);
        self.tables.set_finished_compaction(at);
        self
    }

    /// The store as a database of pages of `page_size`.
    pub(crate) fn database_of(&self, page_size: u32) -> Database {
        let mut bytes = Vec::new();
        let mut builder = Builder::create(&mut bytes, Options { page_size, ..Options::default() }).unwrap();
        let mut bucket = builder.bucket(KEY).unwrap();
        for (key, value) in &self.records {
            bucket.push(&key.encode(), value).unwrap();
        }
        bucket.finish().unwrap();
        for (name, table) in self.tables.buckets() {
            let mut bucket = builder.bucket(name).unwrap();
            for (key, value) in table {
                bucket.push(key, value).unwrap();
            }
            bucket.finish().unwrap();
        }
        builder.finish().unwrap();
        Database::open(BoltFile::open(Arc::new(bytes)).unwrap()).unwrap()
    }

    /// The store as a database.
    pub(crate) fn database(&self) -> Database {
        self.database_of(4096)
    }
}

/// The live keys of `database`, by going through everything.
pub(crate) fn live(database: &Database) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut live = BTreeMap::new();
    for (at, value) in records(database) {
        let record = KeyValue::parse(&value).unwrap();
        if at.tombstone {
            live.remove(record.key);
        } else {
            live.insert(record.key.to_vec(), record.value.to_vec());
        }
    }
    live
}

/// The records of `database`, read with a cursor.
pub(crate) fn records(database: &Database) -> Vec<(RevKey, Vec<u8>)> {
    let mut records = Vec::new();
    let mut cursor = database.file().unwrap().bucket(KEY).unwrap().unwrap().cursor();
    let mut entry = cursor.first().unwrap();
    while let Some(found) = entry {
        records.push((RevKey::parse(found.key).unwrap(), found.value.to_vec()));
        entry = cursor.next().unwrap();
    }
    records
}
