//! Random changes made to real etcd of every version and to the model: what we read, hash, list and compact from the
//! server's files must be what the server answers and what the model has.
//!
//! Each run draws a new seed and prints it; `REFLOAT_SEED` repeats one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, unreachable_pub)]

#[path = "keyspace/model.rs"]
#[allow(dead_code)]
mod model;

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use etcd_data::bolt_file::BoltFile;
use etcd_data::compaction::{Rules, Survivors};
use etcd_data::database::RevisionRange;
use etcd_data::facts::Facts;
use etcd_data::hash::{Flavour, HashKv, hash_backend, hash_kv};
use etcd_data::history::history;
use etcd_data::live::{Keys, LiveKeys, get};
use etcd_data::soundness::{self, Severity};
use etcd_data::{Database, KeyValue, RevKey, Revision};
use model::{Model, Op, Random};
use testkit::client::Kv;
use testkit::{Client, Etcd, Member, Txn, Version, judges};

const STEPS: u64 = 400;
const LEASES: [i64; 3] = [-1, 77, i64::MAX];

fn seed() -> u64 {
    let given = std::env::var("REFLOAT_SEED").ok();
    given.map_or_else(|| RandomState::new().hash_one(0), |seed| seed.parse().unwrap())
}

/// A server, and the model of it.
struct World {
    version: Version,
    etcd: Etcd,
    client: Client,
    random: Random,
    model: Model,
    /// The model without any compaction.
    everything: Model,
    /// What the server has answered.
    hashes: Vec<(i64, testkit::client::HashKv)>,
    folder: tempfile::TempDir,
}

impl World {
    fn start(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Member::new(version, folder.path().join("data")).without_fsync().start();
        let client = etcd.client();
        for lease in LEASES {
            client.grant(3600, lease).unwrap();
        }
        let (model, everything) = (Model::new(), Model::new());
        let random = Random::new(seed());
        Self { version, etcd, client, random, model, everything, hashes: Vec::new(), folder }
    }

    /// Makes one random transaction, of the server and of the models.
    fn step(&mut self) {
        let mut keys = BTreeSet::new();
        for _ in 0..=self.random.below(4) {
            keys.insert(
                format!("/{}/{}", ["a", "b", "ab"][self.random.below(3) as usize], self.random.below(20)).into_bytes(),
            );
        }
        let mut changes = Vec::new();
        for key in keys {
            let lease = [0, 0, LEASES[0], LEASES[1]][self.random.below(4) as usize];
            let value = vec![b'v'; self.random.below(300) as usize];
            changes.push((key, if self.random.below(3) == 0 { None } else { Some((value, lease)) }));
        }
        let txn = changes.iter().fold(Txn::new(), |txn, (key, put)| {
            txn.then(match put {
                None => testkit::Op::delete(key),
                Some((value, 0)) => testkit::Op::put(key, value),
                Some((value, lease)) => testkit::Op::put_leased(key, value, *lease),
            })
        });
        let revision = self.client.txn(&txn).unwrap().revision;
        let ops: Vec<Op<'_>> = changes
            .iter()
            .map(|(key, put)| put.as_ref().map_or(Op::Delete(key), |(value, lease)| Op::Put(key, value, *lease)))
            .collect();
        self.model.txn(&ops);
        self.everything.txn(&ops);
        assert_eq!(revision, self.model.current);
    }

    /// Revokes a lease: its keys are deleted in one transaction, in their order.
    fn revoke(&mut self, lease: i64) {
        self.client.revoke(lease).unwrap();
        let live = self.model.live(self.model.current);
        let keys: Vec<_> = live.into_values().filter(|record| record.lease == lease).map(|record| record.key).collect();
        let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Delete(key)).collect();
        self.model.txn(&ops);
        self.everything.txn(&ops);
    }

    /// Asks the server for its hash at a random revision that it has not compacted.
    fn ask_hash(&mut self) {
        let oldest = self.model.compact.unwrap_or(0) + 1;
        if oldest > self.model.current {
            return;
        }
        let at = oldest + self.random.below((self.model.current - oldest) as u64 + 1) as i64;
        self.hashes.push((at, self.client.hash_kv(at).unwrap()));
    }

    fn compact(&mut self, at: i64) {
        self.client.compact(at).unwrap();
        self.model.compact(at, self.rules() == Rules::KeepLastDeletion);
    }

    fn rules(&self) -> Rules {
        let version = self.client.status().unwrap().version;
        let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
        match numbers[..] {
            [3, 4, patch] if patch < 34 => Rules::DropLastDeletion,
            [3, 5, patch] if patch < 16 => Rules::DropLastDeletion,
            _ => Rules::KeepLastDeletion,
        }
    }

    fn snapshot(&self, name: &str) -> (std::path::PathBuf, Database) {
        let path = self.folder.path().join(name);
        self.client.snapshot_to(&path).unwrap();
        let database = open(&path);
        (path, database)
    }

    /// Holds a snapshot that was just taken against the server, the model, and etcd's own tool.
    fn compare(&self, path: &Path, database: &Database) {
        let expected: Vec<_> = self.model.records.iter().map(|record| (record.at, record.encoded())).collect();
        assert_eq!(records(database), expected);
        let report = soundness::check(database).unwrap();
        // Older servers leave no record of a last deletion that was compacted: that is to be told, and harmless.
        assert!(report.worst() <= Some(Severity::Harmless), "{:?}", report.findings);
        assert_eq!(report.hash, Some(hash_kv(database, None, None).unwrap()));
        let status = judges::snapshot_status(self.version, path).unwrap();
        assert_eq!(hash_backend(database, Flavour::Snapshot).unwrap(), status.hash);
        self.compare_facts(database, &status);
        self.compare_hashes(database);
        let oldest = self.model.compact.unwrap_or(1);
        for at in [oldest, i64::midpoint(oldest, self.model.current), self.model.current] {
            self.compare_keys(database, at);
        }
    }

    fn compare_facts(&self, database: &Database, status: &judges::SnapshotStatus) {
        let facts = Facts::of(database, None).unwrap();
        assert_eq!((facts.revision.0, facts.compact_revision), (self.model.current, self.model.compact.map(Revision)));
        assert_eq!(facts.key_space.records, self.model.records.len() as u64);
        assert_eq!(facts.key_space.live_keys, self.client.all(0).unwrap().len() as u64);
        let leases = self.client.leases().unwrap();
        assert_eq!(facts.tables.leases, leases.len() as u64);
        assert_eq!(facts.key_space.attached_keys, leases.iter().map(|lease| lease.keys.len() as u64).sum::<u64>());
        assert_eq!(facts.etcd_version, self.version.minor());
        assert_eq!(database.file().unwrap().used_bytes() as i64, status.total_size);
    }

    /// Every hash that the server ever answered, as far as this database reaches.
    fn compare_hashes(&self, database: &Database) {
        for &(at, known) in &self.hashes {
            let compact = Some(known.compact_revision).filter(|&compact| compact >= 0).map(Revision);
            let revision = Revision(at);
            let expected = HashKv { hash: known.hash, revision, compact_revision: compact };
            assert_eq!(hash_kv(&self.everything.database(), Some(revision), compact).unwrap(), expected);
            if compact >= self.model.compact.map(Revision) {
                assert_eq!(hash_kv(database, Some(revision), compact).unwrap(), expected);
            }
        }
    }

    fn compare_keys(&self, database: &Database, at: i64) {
        let at = Revision(at.max(1));
        let expected = self.client.all(at.0).unwrap();
        let live = LiveKeys::find(database, Some(at), Keys::All).unwrap();
        let found: Vec<Kv> = live.iter().map(|(_, place)| kv(&database.record(place).unwrap().unwrap())).collect();
        assert_eq!(found, expected, "at {at}");
        for known in expected.iter().step_by(7) {
            let found = get(database, &known.key, Some(at)).unwrap().unwrap();
            assert_eq!(
                (&found.key, &found.value, found.mod_revision.0),
                (&known.key, &known.value, known.mod_revision)
            );
        }
    }
}

fn open(path: &Path) -> Database {
    Database::open(BoltFile::open(Arc::new(File::open(path).unwrap())).unwrap()).unwrap()
}

fn kv(encoded: &[u8]) -> Kv {
    let KeyValue { key, create_revision, mod_revision, version, value, lease } = KeyValue::parse(encoded).unwrap();
    let (create_revision, mod_revision) = (create_revision.0, mod_revision.0);
    Kv { key: key.into(), value: value.into(), create_revision, mod_revision, version, lease: lease.0 }
}

/// All records of `database`, put together again from its history.
fn records(database: &Database) -> Vec<(RevKey, Vec<u8>)> {
    let mut records = Vec::new();
    history(database, RevisionRange::ALL, Keys::All, |at, kv| {
        let mut encoded = Vec::new();
        kv.encode(&mut encoded);
        records.push((at, encoded));
        ControlFlow::Continue(())
    })
    .unwrap();
    records
}

fn play(version: Version) {
    let mut world = World::start(version);
    for round in 0..4 {
        for _ in 0..STEPS / 4 {
            world.step();
            if world.random.below(10) == 0 {
                world.ask_hash();
            }
        }
        if round == 1 {
            world.revoke(LEASES[1]);
            world.client.grant(3600, LEASES[1]).unwrap();
        }
        let (path, before) = world.snapshot(&format!("before-{round}"));
        world.compare(&path, &before);

        // Where a transaction deletes, so that the rule of the last deletion is put to the test; at last, right at the end.
        let deletions = world.model.records.iter().filter(|record| record.at.tombstone).map(|record| record.at.main.0);
        let later: Vec<i64> = deletions.filter(|&main| Some(main) > world.model.compact).collect();
        let at = if round == 3 { world.model.current } else { later[world.random.below(later.len() as u64) as usize] };
        world.compact(at);
        let (path, after) = world.snapshot(&format!("after-{round}"));
        world.compare(&path, &after);

        let survivors = Survivors::find(&before, Revision(at), world.rules()).unwrap();
        let mut reader = survivors.reader();
        let kept: Vec<_> = records(&before).into_iter().filter(|(at, _)| reader.keeps(*at)).collect();
        assert_eq!(kept, records(&after), "compacted at {at}");
    }
    assert!(world.hashes.len() > 10, "{} hashes prove little", world.hashes.len());
    world.etcd.stop();
}

#[test]
fn etcd_3_4_agrees_with_all_that_is_read_from_its_files() {
    play(Version::V34);
}

#[test]
fn etcd_3_5_agrees_with_all_that_is_read_from_its_files() {
    play(Version::V35);
}

#[test]
fn etcd_3_6_agrees_with_all_that_is_read_from_its_files() {
    play(Version::V36);
}

#[test]
fn etcd_3_7_agrees_with_all_that_is_read_from_its_files() {
    play(Version::V37);
}
