//! Archives of other systems brought into ours: every point of every fixture is what the live server had, and every
//! revision that the source can restore the target can too.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "fixtures/point.rs"]
mod point;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::import::{Brought, Importing, Locking, NotNeeded};
use archive::plan::Wanted;
use archive::point::At;
use archive::proof::Level;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Error, LineageId};
use bytes::Bytes;
use etcd_data::hash::hash_kv;
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision};
use jiff::Timestamp;
use store::download::list_all;
use store::{Folder, Key, Listing, Memory, Put, Store};
use testkit::{Faults, FaultyStore, fixtures};

/// Everything that other systems wrote, and the truth about it.
const SOURCES: [(&str, &str); 10] = [
    ("etcdbrctl/plain-3.5.30", "etcdbrctl/plain-3.5.30.truth.json"),
    ("etcdbrctl/gzip-3.4.23", "etcdbrctl/gzip-3.4.23.truth.json"),
    ("etcdbrctl/lzw-3.5.30", "etcdbrctl/lzw-3.5.30.truth.json"),
    ("etcdbrctl/zlib-3.5.30", "etcdbrctl/zlib-3.5.30.truth.json"),
    ("etcdbrctl/compacted-3.5.30", "etcdbrctl/compacted-3.5.30.truth.json"),
    ("etcdbrctl/small-3.5.30", "etcdbrctl/small-3.5.30.truth.json"),
    ("etcdbrctl/legacy-v1", "etcdbrctl/small-3.5.30.truth.json"),
    ("k3s/node-a/server/db", "k3s/node-a.truth.json"),
    ("k3s/node-b.example/server/db", "k3s/node-b.example.truth.json"),
    ("openshift", "openshift/truth.json"),
];

struct World {
    runtime: tokio::runtime::Runtime,
    scratch: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { runtime, scratch: tempfile::tempdir().unwrap() }
    }

    fn open(&self, store: &Arc<dyn Store>) -> Archive {
        let handle = self.runtime.handle().clone();
        Archive::open(Arc::clone(store), handle, &Which::default(), Arc::new(NoKeys)).unwrap()
    }

    fn folder(&self, path: &Path) -> Archive {
        self.open(&(Arc::new(Folder::at(path).unwrap()) as Arc<dyn Store>))
    }

    fn fixture(&self, path: &str) -> Archive {
        self.folder(&fixtures::path(path))
    }

    fn import(&self, source: &Archive, to: &Arc<dyn Store>) -> Result<Importing, Error> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let writing = Writing { now, scratch: self.scratch.path(), archive_key: None };
        let target = source.import_target(Arc::clone(to), "prod")?;
        source.import(&target, "prod", &Locking::default(), &writing)
    }

    fn database(&self, archive: &Archive, lineage: Option<&LineageId>, at: i64) -> Result<Database, Error> {
        let wanted = Wanted { lineage: lineage.cloned(), ..Wanted::default() };
        let agreed = archive.agree(&wanted, &At::Revision(Revision(at)), self.scratch.path())?;
        let point = archive.open_whole(&agreed, self.scratch.path())?;
        assert_eq!(point.revision.0, at);
        Ok(point.database)
    }

    /// HashKV at a revision, from where history begins; nothing if it cannot be restored.
    fn hash(&self, archive: &Archive, at: i64) -> Option<(u32, Option<Revision>)> {
        let database = self.database(archive, None, at).ok()?;
        let compact = Horizon::of(&database).unwrap().compact;
        Some((hash_kv(&database, Some(Revision(at)), compact).unwrap().hash, compact))
    }

    /// What is there and was never read back.
    fn unproven(&self, store: &Arc<dyn Store>) -> Vec<Key> {
        let archive = self.open(store);
        let recorded = archive.proven().unwrap();
        let proven = archive.proven_objects(&recorded.proven, Level::Sealed).unwrap();
        let keys = archive.catalogue().entries().map(|entry| entry.key.clone());
        keys.filter(|key| !proven.contains_key(key)).collect()
    }

    fn contents(&self, store: &Arc<dyn Store>) -> BTreeMap<String, Bytes> {
        self.runtime.block_on(async {
            let mut found = BTreeMap::new();
            for info in list_all(&**store, Listing::default()).await.unwrap() {
                if !info.key.as_str().contains("/proof/") {
                    let bytes = store.get(&info.key, 0..info.size_bytes.max(1)).await.unwrap();
                    found.insert(info.key.to_string(), bytes);
                }
            }
            found
        })
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

/// How many were made, were there, are not needed, and are lost.
fn counts(importing: &Importing) -> (usize, usize, usize, usize) {
    let count = |is: fn(&Brought) -> bool| importing.imported.iter().filter(|one| is(&one.outcome)).count();
    (
        count(|one| matches!(one, Brought::Made(_))),
        count(|one| matches!(one, Brought::There(_))),
        count(|one| matches!(one, Brought::NotNeeded(why) if !why.is_loss())),
        count(|one| matches!(one, Brought::Failed(_) | Brought::NotNeeded(NotNeeded::NoFull | NotNeeded::BeyondHole))),
    )
}

#[test]
fn every_point_of_every_fixture_is_as_the_live_server_had_it() {
    let world = World::new();
    let mut compared = 0;
    for (path, truth) in SOURCES {
        let (source, target) = (world.fixture(path), memory());
        let importing = world.import(&source, &target).unwrap();
        let (made, there, spare, lost) = counts(&importing);
        println!("{path}: {made} made, {spare} not needed");
        assert_eq!((there, lost, importing.splits.len()), (0, 0, 0), "{path}: {importing:?}");
        let imported = world.open(&target);
        for point in fixtures::points(&fixtures::truth(truth)) {
            let Ok(expected) = world.database(&source, None, point.revision) else { continue };
            let database = world.database(&imported, None, point.revision).unwrap();
            point::require(&point, &database);
            point::require(&point, &expected);
            compared += 1;
        }
        let recorded = imported.proven().unwrap();
        let proven = imported.proven_objects(&recorded.proven, Level::Sealed).unwrap();
        assert_eq!(proven.len(), made, "{path}");
    }
    println!("{compared} points compared");
    assert!(compared > 60, "{compared}");
}

#[test]
fn every_revision_that_the_source_can_restore_the_target_can_too() {
    let world = World::new();
    let mut compared = 0;
    for (path, truth) in SOURCES {
        let (source, target) = (world.fixture(path), memory());
        world.import(&source, &target).unwrap();
        let imported = world.open(&target);
        let last = fixtures::points(&fixtures::truth(truth)).iter().map(|point| point.revision).max().unwrap();
        let step = (last / 60).max(1) as usize;
        for at in (1..=last).step_by(step).chain([last]) {
            let expected = world.hash(&source, at);
            assert_eq!(world.hash(&imported, at), expected, "{path} at {at}");
            compared += usize::from(expected.is_some());
        }
        assert!(world.hash(&imported, last + 1).is_none());
    }
    println!("{compared} revisions compared");
    assert!(compared > 300, "{compared}");
}

#[test]
fn moments_mean_the_same_in_both() {
    let world = World::new();
    for (path, truth) in SOURCES.into_iter().filter(|(path, _)| path.starts_with("etcdbrctl")) {
        let (source, target) = (world.fixture(path), memory());
        world.import(&source, &target).unwrap();
        let imported = world.open(&target);
        for point in fixtures::truth(truth)["points"].as_array().unwrap() {
            let time: Timestamp = point["observed_at"].as_str().unwrap().parse().unwrap();
            let revision = |archive: &Archive| {
                let agreed = archive.agree(&Wanted::default(), &At::Time(time), world.scratch.path());
                agreed.map(|agreed| agreed.plan.target).map_err(|error| error.to_string())
            };
            let (theirs, ours) = (revision(&source), revision(&imported));
            assert_eq!(theirs.is_ok(), ours.is_ok(), "{path} at {time}: {theirs:?}, {ours:?}");
            assert_eq!(theirs.ok(), ours.ok(), "{path} at {time}");
        }
    }
}

#[test]
fn bringing_it_in_again_changes_nothing() {
    let world = World::new();
    for (path, _) in SOURCES {
        let (source, target) = (world.fixture(path), memory());
        let (made, ..) = counts(&world.import(&source, &target).unwrap());
        let before = world.contents(&target);
        let again = counts(&world.import(&source, &target).unwrap());
        assert_eq!((again.0, again.1, again.3), (0, made, 0), "{path}");
        assert!(world.contents(&target) == before, "{path}");
    }
}

#[test]
fn what_is_there_and_was_never_read_back_is_read_before_it_counts() {
    let world = World::new();
    let (source, target) = (world.fixture("etcdbrctl/small-3.5.30"), memory());
    world.import(&source, &target).unwrap();
    let archive = world.open(&target);
    let unread = archive.catalogue().entries().filter(|entry| !entry.is_full()).last().unwrap().key.clone();
    world.runtime.block_on(async {
        // As after one that died: nothing is recorded, and something was written wrongly.
        let proofs: Vec<Key> = archive.catalogue().proofs.iter().map(|proof| proof.key.clone()).collect();
        assert!(target.delete(&proofs).await.iter().all(Result::is_ok));
        let mut bytes = target.get(&unread, 0..1 << 20).await.unwrap().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        target.put(&unread, bytes.into(), &Put::default()).await.unwrap();
    });
    let again = world.import(&source, &target).unwrap();
    let failed = again.imported.iter().filter(|one| matches!(one.outcome, Brought::Failed(_)));
    assert_eq!(failed.count(), 1);
    assert_eq!(world.unproven(&target), [unread]);
}

#[test]
fn what_died_at_any_request_is_taken_up() {
    let world = World::new();
    let mut died = 0;
    for path in ["etcdbrctl/small-3.5.30", "k3s/node-a/server/db"] {
        let (source, whole) = (world.fixture(path), memory());
        world.import(&source, &whole).unwrap();
        let (key, whole) = (Key::parse("prod/cluster.json").unwrap(), world.contents(&whole));
        for requests in 0.. {
            let target = memory();
            // Its identity is drawn, so all get the same.
            let note = whole[key.as_str()].clone();
            world.runtime.block_on(target.put(&key, note, &Put::default())).unwrap();
            let faulty = Arc::new(FaultyStore::new(Arc::clone(&target), Faults::NONE, 0));
            faulty.cut_off_after(requests);
            let first = world.import(&source, &(Arc::clone(&faulty) as Arc<dyn Store>));
            let half = world.open(&target);
            for history in &half.catalogue().histories {
                let last = history.deltas().iter().chain(history.fulls()).filter_map(|entry| entry.to).max();
                let reached = last.map(|last| world.database(&half, None, last.0).map(|_| ()));
                assert!(reached.is_none_or(|reached| reached.is_ok()), "{path} after {requests} requests");
            }
            if faulty.injected().cut_off == 0 {
                first.unwrap();
                break;
            }
            died += 1;
            world.import(&source, &target).unwrap();
            assert!(world.contents(&target) == whole, "{path} after {requests} requests");
            assert_eq!(world.unproven(&target), [], "{path} after {requests} requests");
        }
    }
    println!("died after {died} numbers of requests");
    assert!(died > 40, "{died}");
}

#[test]
fn of_damaged_archives_what_can_be_restored_is_brought_in() {
    let world = World::new();
    let sound = world.fixture("etcdbrctl/small-3.5.30");
    let cases = fixtures::truth("etcdbrctl/damaged/truth.json");
    let mut tried = 0;
    for case in cases["cases"].as_array().unwrap() {
        let (name, Some(ranges)) = (case["name"].as_str().unwrap(), case["restorable_revisions"].as_array()) else {
            continue;
        };
        let path = fixtures::path(format!("etcdbrctl/damaged/{name}"));
        let folder = Arc::new(Folder::at(&path).unwrap());
        let handle = world.runtime.handle().clone();
        let Ok(source) = Archive::open(folder, handle, &Which::default(), Arc::new(NoKeys)) else { continue };
        let target = memory();
        let Ok(importing) = world.import(&source, &target) else { continue };
        let imported = world.open(&target);
        println!("{name}: {:?}", counts(&importing));
        for range in ranges {
            for end in [range[0].as_i64().unwrap(), range[1].as_i64().unwrap()] {
                assert_eq!(world.hash(&imported, end), world.hash(&source, end), "{name} at {end}");
                assert!(world.hash(&imported, end).is_some(), "{name} at {end}");
            }
            let after = range[1].as_i64().unwrap() + 1;
            if Some(Revision(after)) <= source.catalogue().highest() {
                assert_eq!(world.hash(&imported, after), None, "{name} at {after}");
                assert!(counts(&importing).3 > 0, "{name}: {importing:?}");
            }
        }
        tried += 1;
    }
    assert!(tried > 6 && world.hash(&sound, 320).is_some(), "{tried}");
}

/// A folder with some snapshots of a K3s server.
fn snapshots(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (fixture, name) in files {
        std::fs::copy(fixtures::path(fixture), folder.path().join(name)).unwrap();
    }
    folder
}

const NODE_A: &str = "k3s/node-a/server/db/snapshots";

#[test]
fn snapshots_of_another_history_begin_a_lineage() {
    let world = World::new();
    let own = |name: &str| (format!("{NODE_A}/{name}"), name.to_owned());
    let files = [
        own("etcd-snapshot-node-a-1795224992"),
        own("before-upgrade-node-a-1795224996"),
        ("openshift/snapshot_2026-11-21_013642.db".into(), "etcd-snapshot-node-a-1795225000".into()),
    ];
    let folder = snapshots(&files.each_ref().map(|(from, to)| (from.as_str(), to.as_str())));
    let (source, target) = (world.folder(folder.path()), memory());
    let importing = world.import(&source, &target).unwrap();
    assert_eq!((counts(&importing).0, importing.splits.len()), (3, 1), "{importing:?}");
    let imported = world.open(&target);
    let lineages: Vec<LineageId> =
        imported.catalogue().histories.iter().filter_map(|history| history.lineage.clone()).collect();
    assert_eq!(lineages.len(), 2);
    for (lineage, last) in lineages.iter().zip([321, 131]) {
        world.database(&imported, Some(lineage), last).unwrap();
    }
    assert_eq!(counts(&world.import(&source, &target).unwrap()), (0, 3, 0, 0));
}

#[test]
fn a_source_that_has_nothing_left_of_before_is_known_by_its_history() {
    let world = World::new();
    let folder = |names: &[&str]| {
        let files: Vec<(String, &str)> = names.iter().map(|name| (format!("{NODE_A}/{name}"), *name)).collect();
        snapshots(&files.iter().map(|(from, to)| (from.as_str(), *to)).collect::<Vec<_>>())
    };
    let before = folder(&["etcd-snapshot-node-a-1795224992", "on-demand-node-a-1795224993"]);
    let after = folder(&["etcd-snapshot-node-a-1795224995.zip", "before-upgrade-node-a-1795224996"]);
    let target = memory();
    world.import(&world.folder(before.path()), &target).unwrap();
    let importing = world.import(&world.folder(after.path()), &target).unwrap();
    assert_eq!((counts(&importing).0, importing.splits.len()), (2, 0));
    let imported = world.open(&target);
    let histories = &imported.catalogue().histories;
    assert_eq!((histories.len(), histories[0].fulls().len()), (1, 4));
    // Another cluster's archive is none that goes on with it.
    let refused = world.import(&world.fixture("etcdbrctl/small-3.5.30"), &target).unwrap_err();
    assert!(matches!(refused, Error::NothingShared { .. }), "{refused:?}");
}
