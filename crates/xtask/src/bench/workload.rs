//! A deterministic database that looks like a Kubernetes cluster's: values of 1 KiB that compress about six to one,
//! several revisions of a key, deletions and keys that come back, transactions, leases, and a compaction in the
//! middle of it all. Nothing but the seed and the size decides what is in it.

use std::fs::File;
use std::path::Path;

use bolt_file::write::{Builder, Options};
use bolt_file::write_behind::WriteBehind;
use etcd_data::tables::Lease;
use etcd_data::{KeyValue, LeaseId, RevKey, Revision, Tables};
use testkit::random::Random;

use super::w1::{fill_with_runs, key};
use crate::{Result, say};

/// Writes a database of about `mib` MiB to the new file `path`. Says how many keys live in it, and which is the oldest.
pub(crate) fn workload(path: &Path, mib: u64) -> Result<()> {
    let made = Workload::of_size(mib << 20).write(File::create_new(path)?)?;
    say(&format!("made {} {}", made.live_keys, String::from_utf8_lossy(&made.oldest_key)));
    Ok(())
}

/// How much of what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Different keys.
    pub(crate) keys: u64,
    /// Changes after every key was put once.
    pub(crate) changes: u64,
    /// Which of all possible databases.
    pub(crate) seed: u64,
}

/// What came out.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    /// The last revision.
    pub(crate) revision: Revision,
    /// The compact revision.
    pub(crate) compact_revision: Revision,
    /// Records in the key space.
    pub(crate) records: u64,
    /// Keys alive at the last revision.
    pub(crate) live_keys: u64,
    /// A live key whose only record is the first of all: the last to be found by whoever looks from the end.
    pub(crate) oldest_key: Vec<u8>,
    /// The key that was put last.
    pub(crate) newest_key: Vec<u8>,
}

/// A record takes about this much of a file: three values of 1 KiB share a page.
pub(crate) const BYTES_PER_RECORD: u64 = 4096 / 3;

impl Workload {
    /// A workload whose database is about `bytes` large.
    pub(crate) fn of_size(bytes: u64) -> Self {
        // Of the changes before the compaction only those that were the last of their key remain.
        let records = bytes / BYTES_PER_RECORD;
        Self { keys: records / 2, changes: records * 3 / 4, seed: 7 }
    }

    /// Writes the database into `file`.
    pub(crate) fn write(&self, file: File) -> Result<Made> {
        let survivors = self.survivors();
        let compact_revision = self.compact_revision();
        let mut builder = Builder::create(WriteBehind::new(file)?, Options::default())?;
        let mut bucket = builder.bucket(b"key")?;
        let (mut value, mut encoded) = (Vec::new(), Vec::new());
        let mut made = Made {
            revision: Revision::FIRST,
            compact_revision,
            records: 0,
            live_keys: 0,
            oldest_key: Vec::new(),
            newest_key: Vec::new(),
        };
        let mut failed = None;
        let alive = self.play(|change| {
            made.revision = change.at.main;
            let kept = change.at.main > compact_revision
                || (survivors.get(change.key as usize) == Some(&change.at) && !change.at.tombstone);
            if !kept || failed.is_some() {
                return;
            }
            made.records += 1;
            encoded.clear();
            self.encode(&change, &mut value, &mut encoded);
            if !change.at.tombstone {
                made.newest_key = key(change.key);
            }
            failed = bucket.push(&change.at.encode(), &encoded).err();
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        bucket.finish()?;
        made.live_keys = alive;
        made.oldest_key = self.oldest_untouched(&survivors);

        for (name, table) in self.tables(compact_revision).buckets() {
            let mut bucket = builder.bucket(name)?;
            for (key, value) in table {
                bucket.push(key, value)?;
            }
            bucket.finish()?;
        }
        builder.finish()?;
        Ok(made)
    }

    fn compact_revision(&self) -> Revision {
        Revision((self.keys + self.changes / 3) as i64)
    }

    /// Of each key the last change that the compaction sees.
    fn survivors(&self) -> Vec<RevKey> {
        let compact_revision = self.compact_revision();
        let mut last = vec![RevKey { main: Revision(0), sub: 0, tombstone: true }; self.keys as usize];
        self.play(|change| {
            if change.at.main <= compact_revision
                && let Some(last) = last.get_mut(change.key as usize)
            {
                *last = change.at;
            }
        });
        last
    }

    /// The first key that the compaction left as it was first put, and that is never touched again.
    fn oldest_untouched(&self, survivors: &[RevKey]) -> Vec<u8> {
        let mut touched = vec![false; self.keys as usize];
        let compact_revision = self.compact_revision();
        self.play(|change| {
            if change.at.main > compact_revision
                && let Some(touched) = touched.get_mut(change.key as usize)
            {
                *touched = true;
            }
        });
        let first = |key: u64| survivors.get(key as usize).is_some_and(|at| at.main.0 == key as i64 + 2);
        let oldest = (0..self.keys).find(|&key| first(key) && touched.get(key as usize) == Some(&false));
        key(oldest.unwrap_or_default())
    }

    /// Plays the whole history to `each`, and tells how many keys are alive in the end.
    ///
    /// First every key is put once. Then 78 of 100 changes update a key, 10 delete one, 10 put one that may be
    /// gone, and 2 are transactions of three puts and a deletion.
    fn play(&self, mut each: impl FnMut(Change)) -> u64 {
        let mut state = vec![Generation::default(); self.keys as usize];
        let mut random = Random(self.seed);
        let mut main = Revision::FIRST;
        let mut emit = |state: &mut Vec<Generation>, key: u64, at: RevKey| {
            let Some(generation) = state.get_mut(key as usize) else { return };
            *generation = match *generation {
                _ if at.tombstone => Generation::default(),
                Generation { version: 0, .. } => Generation { created: at.main, version: 1 },
                Generation { created, version } => Generation { created, version: version + 1 },
            };
            each(Change { key, at, generation: *generation });
        };
        for key in 0..self.keys {
            main = main.next();
            emit(&mut state, key, RevKey { main, sub: 0, tombstone: false });
        }
        let mut changes = Vec::with_capacity(4);
        for _ in 0..self.changes {
            let key = random.below(self.keys);
            changes.clear();
            match random.below(100) {
                0..2 => {
                    let distinct = |index| (key + index * (self.keys / 5).max(1)) % self.keys.max(1);
                    changes.extend((0..3).map(|index| (distinct(index), false)));
                    changes.push((distinct(3), true));
                }
                2..12 => changes.push((key, true)),
                _ => changes.push((key, false)),
            }
            changes.retain(|&(key, deletes)| !deletes || state.get(key as usize).is_some_and(|key| key.version > 0));
            if changes.is_empty() {
                continue;
            }
            main = main.next();
            for (sub, &(key, tombstone)) in changes.iter().enumerate() {
                emit(&mut state, key, RevKey { main, sub: sub as i64, tombstone });
            }
        }
        state.iter().filter(|generation| generation.version > 0).count() as u64
    }

    fn encode(&self, change: &Change, value: &mut Vec<u8>, out: &mut Vec<u8>) {
        let key = key(change.key);
        if change.at.tombstone {
            return KeyValue { key: &key, ..KeyValue::default() }.encode(out);
        }
        let mut random = Random(self.seed ^ change.key.wrapping_mul(0x9e37_79b9) ^ (change.at.main.0 as u64) << 20);
        fill_with_runs(&mut random, value, 1024, (12, 8));
        let put = KeyValue {
            key: &key,
            create_revision: change.generation.created,
            mod_revision: change.at.main,
            version: change.generation.version,
            value,
            lease: if change.key.is_multiple_of(50) { lease_of(change.key) } else { LeaseId(0) },
        };
        put.encode(out);
    }

    fn tables(&self, compact_revision: Revision) -> Tables {
        let mut tables = Tables::default();
        for name in ["alarm", "auth", "authRoles", "authUsers", "cluster", "members", "members_removed"] {
            tables.bucket_mut(name);
        }
        for key in (0..self.keys).step_by(50) {
            tables.put_lease(&Lease { id: lease_of(key).0, ttl_seconds: 3600, remaining_seconds: 0 });
        }
        tables.set_scheduled_compaction(compact_revision);
        tables.set_finished_compaction(compact_revision);
        tables.set_consistent_index(self.keys + self.changes + 10);
        tables.set_term(Some(2));
        tables.set_auth_revision(1);
        tables.set_auth_enabled(false);
        tables
    }
}

/// One change of one key.
#[derive(Debug, Clone, Copy)]
struct Change {
    key: u64,
    at: RevKey,
    generation: Generation,
}

#[derive(Debug, Clone, Copy, Default)]
struct Generation {
    created: Revision,
    version: i64,
}

/// One lease for fifty keys' worth of names: few enough to share a page, many enough to matter.
fn lease_of(key: u64) -> LeaseId {
    LeaseId(0x1000_0000 + (key / 50) as i64)
}
