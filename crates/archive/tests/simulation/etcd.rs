//! The cluster whose history is archived: what it holds at every revision, and what it would answer.
//!
//! Nothing here is shared with the code under test but the encoding of a record. HashKV is computed as etcd does it, with
//! all records in memory.

use std::collections::{BTreeMap, BTreeSet};

use archive::closing::{Closing, Compaction, Moment};
use etcd_data::records::TailRecord;
use etcd_data::tables::Lease;
use etcd_data::{KeyValue, LeaseId, RevKey, Revision, Tables};
use jiff::Timestamp;
use rand::Rng;
use rand::rngs::StdRng;

/// A cluster, with all of its past.
pub(crate) struct Etcd {
    records: Vec<TailRecord>,
    /// The key of each record.
    keys: Vec<String>,
    live: BTreeMap<String, Live>,
    leases: BTreeMap<i64, i64>,
    pub(crate) current: i64,
    /// Which revision was current when it was compacted, and up to where.
    compactions: Vec<(i64, i64)>,
    /// The second of each revision from 2 on.
    seconds: Vec<i64>,
}

struct Live {
    created: i64,
    version: i64,
    lease: i64,
}

impl Etcd {
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut etcd = Self {
            records: Vec::new(),
            keys: Vec::new(),
            live: BTreeMap::new(),
            leases: BTreeMap::new(),
            current: 1,
            compactions: Vec::new(),
            seconds: Vec::new(),
        };
        // It is never deleted: without any key, etcd's hash follows another rule.
        etcd.change(now, &[("/always", Some(("there".into(), 0)))]);
        etcd
    }

    /// One change more, in one transaction.
    fn change(&mut self, now: Timestamp, changes: &[(&str, Option<(String, i64)>)]) {
        let main = self.current + 1;
        for (sub, (key, put)) in (0..).zip(changes) {
            let mut record = KeyValue { key: key.as_bytes(), ..KeyValue::default() };
            match put {
                Some((value, lease)) => {
                    let live = self.live.entry((*key).into()).or_insert(Live { created: main, version: 0, lease: 0 });
                    (live.version, live.lease) = (live.version + 1, *lease);
                    record.create_revision = Revision(live.created);
                    record.mod_revision = Revision(main);
                    record.version = live.version;
                    record.value = value.as_bytes();
                    record.lease = LeaseId(*lease);
                }
                None => drop(self.live.remove(*key)),
            }
            let mut encoded = Vec::new();
            record.encode(&mut encoded);
            let at = RevKey { main: Revision(main), sub, tombstone: put.is_none() };
            self.records.push(TailRecord { at, value: encoded });
            self.keys.push((*key).into());
        }
        self.current = main;
        self.seconds.push(now.as_second());
    }

    /// Something happens: a put, a deletion, a transaction of several; a lease is granted, or revoked with its keys.
    pub(crate) fn go_on(&mut self, random: &mut StdRng, now: Timestamp) {
        if random.random_ratio(1, 12) {
            let id = random.random_range(1..1000);
            self.leases.insert(id, random.random_range(10..100));
        }
        let lease = self.leases.keys().next().copied();
        if let Some(lease) = lease.filter(|_| random.random_ratio(1, 20)) {
            self.leases.remove(&lease);
            let keys: Vec<String> =
                self.live.iter().filter(|(_, live)| live.lease == lease).map(|(k, _)| k.clone()).collect();
            let changes: Vec<_> = keys.iter().map(|key| (key.as_str(), None)).collect();
            if !changes.is_empty() {
                return self.change(now, &changes);
            }
        }
        let count = if random.random_ratio(1, 8) { random.random_range(2..4) } else { 1 };
        let chosen: BTreeSet<u32> = (0..count).map(|_| random.random_range(0..12)).collect();
        let names: Vec<String> = chosen.iter().map(|name| format!("/registry/things/{name:02}")).collect();
        let mut changes = Vec::new();
        for name in &names {
            let is_deleted = self.live.contains_key(name) && random.random_ratio(1, 5);
            let lease = lease.filter(|lease| self.leases.contains_key(lease) && random.random_ratio(1, 4));
            let put = || (format!("{name} at {}: {}", self.current, random.random::<u16>()), lease.unwrap_or(0));
            changes.push((name.as_str(), (!is_deleted).then(put)));
        }
        self.change(now, &changes);
    }

    pub(crate) fn compact(&mut self, random: &mut StdRng) {
        let from = self.compacted().unwrap_or(1);
        if from + 1 < self.current {
            self.compactions.push((self.current, random.random_range(from + 1..self.current)));
        }
    }

    /// Up to where it is compacted now.
    pub(crate) fn compacted(&self) -> Option<i64> {
        self.compactions.last().map(|(_, compact)| *compact)
    }

    /// Up to where it was compacted at `revision`: at the least, and at the most. While a revision stays the current one
    /// it may be compacted any time.
    pub(crate) fn compacted_at(&self, revision: i64) -> (Option<i64>, Option<i64>) {
        let last = |is_it: &dyn Fn(i64) -> bool| {
            self.compactions.iter().rev().find(|(noticed, _)| is_it(*noticed)).map(|(_, compact)| *compact)
        };
        (last(&|noticed| noticed < revision), last(&|noticed| noticed <= revision))
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = i64> {
        self.leases.keys().copied()
    }

    /// The time of a revision.
    pub(crate) fn second(&self, revision: i64) -> i64 {
        self.seconds[(revision.max(2) - 2) as usize]
    }

    pub(crate) fn moment(&self, revision: i64) -> Timestamp {
        Timestamp::from_second(self.second(revision)).unwrap()
    }

    /// The last revision by the end of this second.
    pub(crate) fn at_second(&self, second: i64) -> i64 {
        self.seconds.partition_point(|then| *then <= second) as i64 + 1
    }

    /// What a watch from `from` on gave up to `to`.
    pub(crate) fn changes(&self, from: i64, to: i64) -> impl Iterator<Item = &TailRecord> {
        self.records.iter().filter(move |record| (from..=to).contains(&record.at.main.0))
    }

    /// What a snapshot taken now has: nothing that a compaction dropped.
    pub(crate) fn snapshot(&self) -> (Vec<TailRecord>, Tables) {
        let mut tables = Tables::default();
        for (id, ttl_seconds) in &self.leases {
            tables.put_lease(&Lease { id: *id, ttl_seconds: *ttl_seconds, remaining_seconds: 0 });
        }
        let Some(compact) = self.compacted() else { return (self.records.clone(), tables) };
        tables.set_scheduled_compaction(Revision(compact));
        tables.set_finished_compaction(Revision(compact));
        let newest = self.newest(compact);
        let kept = self.records.iter().zip(&self.keys).enumerate();
        let kept = kept.filter(|(index, (record, key))| {
            record.at.main.0 > compact || (newest.get(key.as_str()) == Some(index) && !record.at.tombstone)
        });
        (kept.map(|(_, (record, _))| record.clone()).collect(), tables)
    }

    /// What is told at the end of an object with the changes from `from` to `to`, that is closed now.
    pub(crate) fn closing(&self, from: i64, to: i64) -> Closing {
        let mut moments: Vec<Moment> = Vec::new();
        for revision in from.max(2)..=to {
            let moment = Moment { second: self.second(revision), revision: Revision(revision) };
            match moments.last_mut().filter(|last| last.second == moment.second) {
                Some(last) => *last = moment,
                None => moments.push(moment),
            }
        }
        let noticed = self.compactions.iter().filter(|(noticed, _)| (from - 1..=to).contains(noticed));
        let compactions = noticed.map(|(noticed, compact)| Compaction {
            noticed_at: Revision((*noticed).max(from)),
            compact: Revision(*compact),
        });
        let leases = self.leases.iter().map(|(id, ttl)| (LeaseId(*id), *ttl)).collect();
        Closing { moments, compactions: compactions.collect(), leases, ..Closing::default() }
    }

    /// HashKV at `revision`, for a server that is compacted up to `compact`.
    pub(crate) fn hash(&self, revision: i64, compact: Option<i64>) -> u32 {
        let newest = self.newest(revision);
        let mut hash = crc32c::crc32c(b"key");
        for (index, (record, key)) in self.records.iter().zip(&self.keys).enumerate() {
            let main = record.at.main.0;
            if main > revision {
                break;
            }
            let is_dropped = compact.is_some_and(|compact| main <= compact)
                && (record.at.tombstone || newest.get(key.as_str()) != Some(&index));
            if !is_dropped {
                let tombstone: &[u8] = if record.at.tombstone { b"t" } else { b"" };
                for bytes in [&main.to_be_bytes(), &b"_"[..], &record.at.sub.to_be_bytes(), tombstone, &record.value] {
                    hash = crc32c::crc32c_append(hash, bytes);
                }
            }
        }
        hash
    }

    /// The place of the newest record of each key up to `revision`.
    fn newest(&self, revision: i64) -> BTreeMap<&str, usize> {
        let known = self.records.iter().zip(&self.keys).take_while(|(record, _)| record.at.main.0 <= revision);
        known.enumerate().map(|(index, (_, key))| (key.as_str(), index)).collect()
    }
}
