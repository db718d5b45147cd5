//! A key space done the slow and obvious way, from what a cursor shows of it: hashes over all bytes in one piece.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use etcd_data::database::Direction;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, RevKey};

/// All records, and where history begins.
pub(crate) struct Naive {
    pub(crate) records: Vec<(RevKey, Vec<u8>)>,
    pub(crate) compact: i64,
}

impl Naive {
    /// What `database` holds; nothing if a record is not spelled as etcd does, for then opinions on it may differ.
    pub(crate) fn of(database: &Database) -> Option<Self> {
        let mut records = Vec::new();
        let bucket = database.file()?.bucket(b"key").ok()??;
        let mut cursor = bucket.cursor();
        let mut entry = cursor.first().ok()?;
        while let Some(found) = entry {
            records.push((RevKey::parse(found.key)?, found.value.to_vec()));
            entry = cursor.next().ok()?;
        }
        records.extend(tail(database).into_iter().map(|record| (record.at, record.value)));
        let compact = database.tables().compact_revision().ok()?.map_or(-1, |revision| revision.0);
        let is_canonical = |(_, value): &(RevKey, Vec<u8>)| {
            let mut again = Vec::new();
            KeyValue::parse(value).is_ok_and(|kv| {
                kv.encode(&mut again);
                again == *value
            })
        };
        let in_order = records.is_sorted_by(|a, b| a.0 < b.0);
        (in_order && records.iter().all(is_canonical)).then_some(Self { records, compact })
    }

    /// The record of each key that is there at `at`.
    pub(crate) fn live(&self, at: i64) -> BTreeMap<&[u8], RevKey> {
        let mut live = BTreeMap::new();
        for (key, value) in self.records.iter().filter(|(key, _)| key.main.0 <= at) {
            let user_key = KeyValue::parse(value).unwrap().key;
            if key.tombstone {
                live.remove(user_key)
            } else {
                live.insert(user_key, *key)
            };
        }
        live
    }

    /// HashKV at `at`.
    pub(crate) fn hash_kv(&self, at: i64) -> u32 {
        let keep: BTreeSet<RevKey> = self.live(at).into_values().collect();
        let at_compaction: BTreeSet<RevKey> = self.live(self.compact).into_values().collect();
        let mut bytes = b"key".to_vec();
        for (key, value) in self.records.iter().filter(|(key, _)| key.main.0 <= at) {
            let survives = at_compaction.contains(key) && (keep.is_empty() || keep.contains(key));
            if key.main.0 > self.compact || survives {
                bytes.extend_from_slice(&key.encode());
                bytes.extend_from_slice(value);
            }
        }
        crc32c::crc32c(&bytes)
    }
}

/// The records that come after the file.
pub(crate) fn tail(database: &Database) -> Vec<TailRecord> {
    let mut records = Vec::new();
    for addition in database.additions() {
        let mut note = |at, value: &[u8]| {
            records.push(TailRecord { at, value: value.to_vec() });
            Ok(ControlFlow::Continue(()))
        };
        addition.read(Direction::Forwards, &mut note).unwrap();
    }
    records
}
