//! Small histories for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use bolt_file::file::Root;
use bolt_file::write::{Builder, Options};
use bolt_file::{BoltFile, PageId};

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

    /// Loses the records of which `is_lost` says so.
    pub(crate) fn lose(&mut self, is_lost: impl Fn(RevKey) -> bool) -> &mut Self {
        self.records.retain(|(at, _)| !is_lost(*at));
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
        Database::open(BoltFile::open(Arc::new(self.file_of(page_size))).unwrap()).unwrap()
    }

    fn file_of(&self, page_size: u32) -> Vec<u8> {
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
        bytes
    }

    /// The store as a database in which bucket `quotas` holds the empty bucket `inner`.
    pub(crate) fn database_with_nested_bucket(&mut self) -> Database {
        let inner = b"inner";
        self.tables.bucket_mut("quotas").insert(inner.to_vec(), empty_bucket());
        self.database_with_bucket(inner.len())
    }

    /// The store as a database in which the first record is a bucket, by a name like that of any record.
    pub(crate) fn database_with_bucket_among_records(&mut self) -> Database {
        let first = RevKey { main: Revision::FIRST, sub: 0, tombstone: false };
        self.records.insert(0, (first, empty_bucket()));
        self.database_with_bucket(first.encode().len())
    }

    /// The store as a database in which the pair of so long a key, and an empty bucket as value, is a bucket.
    fn database_with_bucket(&self, key_len: usize) -> Database {
        let mut bytes = self.file_of(4096);
        // The element that stands for it: flags, then where it is, and the lengths of key and value.
        let lens: Vec<u8> = [key_len as u32, 32].into_iter().flat_map(u32::to_le_bytes).collect();
        let is_it = |element: &[u8]| element[..4] == [0; 4] && element[8..] == lens;
        let at = bytes.windows(16).position(is_it).unwrap();
        bytes[at] = 1;
        Database::open(BoltFile::open(Arc::new(bytes)).unwrap()).unwrap()
    }

    /// The store as a database in which a pair called `quotas` stands among the buckets.
    pub(crate) fn database_with_pair_among_buckets(&mut self) -> Database {
        const NAME: &str = "quotas";
        self.tables.bucket_mut(NAME);
        let mut bytes = self.file_of(4096);
        let root = BoltFile::open(Arc::new(bytes.clone())).unwrap().root().root().clone();
        let Root::Page(PageId(page)) = root else { panic!("{root:?}") };
        // The elements follow on the page's header: flags, then where it is, and the lengths of key and value.
        let mut elements = bytes[page as usize * 4096 + 16..].chunks_exact_mut(16);
        let is_it = |element: &&mut [u8]| element[8..12] == (NAME.len() as u32).to_le_bytes();
        elements.find(is_it).unwrap()[0] = 0;
        Database::open(BoltFile::open(Arc::new(bytes)).unwrap()).unwrap()
    }

    /// The store as a database.
    pub(crate) fn database(&self) -> Database {
        self.database_of(4096)
    }
}

/// The value of an empty bucket: its header, and the leaf inside.
fn empty_bucket() -> Vec<u8> {
    let mut value = vec![0; 32];
    value[24] = 2;
    value
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
