//! Archives copied to another store: interrupted at every request, taken up again, and compared byte by byte.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::archive::{Archive, Which};
use archive::copy::plan::{Fate, Selection};
use archive::copy::sending::SendError;
use archive::copy::{Copying, Outcome};
use archive::fence::{Claim, FenceError};
use archive::merge::plan::{MergePlan, MergePolicy};
use archive::name::Name;
use archive::plan::{Known, Points, Wanted};
use archive::point::At;
use archive::proof::Level;
use archive::sealing::NoKeys;
use archive::{Epoch, Error, Layout};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::download::list_all;
use store::{Abilities, Fault, Folder, Forward, Key, Listing, Memory, Put, Retention, Store, StoreError, Tag};
use testkit::fixtures;
use testkit::{Faults, FaultyStore};

use world::{World, moment};

/// A history with two fulls and deltas between and after them; merged as well where they are encrypted.
fn world(seed: u64, is_encrypted: bool) -> World {
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new(&mut random, 120);
    if is_encrypted {
        world.encrypt(0);
    }
    let base = random.random_range(2..20);
    let mut follows = Some(world.write(0, base, None));
    let mut reached = base;
    while reached < 120 {
        let to = (reached + random.random_range(4..12)).min(120);
        follows = Some(world.write(reached + 1, to, follows));
        reached = to;
    }
    world.write(0, 60, None);
    let now = Timestamp::now() + SignedDuration::from_hours(2);
    let archive = world.open();
    let plan = MergePlan::choose(archive.catalogue(), &MergePolicy::default(), &Known::default(), now);
    for merge in plan.merges.iter().filter(|_| is_encrypted) {
        archive.merge(merge, &world.writing(120)).unwrap();
    }
    let claim = Key::parse("prod/writer.json").unwrap();
    world.runtime.block_on(world.store.put(&claim, "{}".into(), &Put::default())).unwrap();
    world
}

/// A store that takes objects only in pieces of a few bytes.
fn in_small_pieces() -> Arc<dyn Store> {
    let memory = Memory::new();
    let abilities = Abilities { max_put_bytes: 700, part_bytes: (1, 700), ..memory.abilities() };
    Arc::new(memory.with_abilities(abilities))
}

/// All objects, but for claims and proofs, which belong to the place that they are in.
fn contents(world: &World, store: &Arc<dyn Store>) -> BTreeMap<String, Bytes> {
    world.runtime.block_on(async {
        let mut found = BTreeMap::new();
        for info in list_all(&**store, Listing::default()).await.unwrap() {
            let is_of_place = info.key.as_str().contains("/proof/") || info.key.name() == "writer.json";
            if !is_of_place {
                let bytes = store.get(&info.key, 0..info.size_bytes.max(1)).await.unwrap();
                found.insert(info.key.to_string(), bytes);
            }
        }
        found
    })
}

fn copy(archive: &Archive, to: &Arc<dyn Store>) -> Result<Copying, Error> {
    let target = archive.copy_target(Arc::clone(to))?;
    let plan = archive.plan_copy(&target, &Selection::All, None);
    archive.copy(&target, &plan, false, moment(500))
}

/// How many were sent, were there, and were not copied.
fn counts(copying: &Copying) -> (usize, usize, usize) {
    let count = |is: fn(&Outcome) -> bool| copying.copied.iter().filter(|copied| is(&copied.outcome)).count();
    let sent = count(|outcome| matches!(outcome, Outcome::Sent(_)));
    let there = count(|outcome| matches!(outcome, Outcome::There(_)));
    (sent, there, copying.copied.len() - sent - there)
}

/// Whatever a reader finds of a copy that is half made can be restored, and deltas come as they follow on each other.
fn require_sound(world: &World, store: &Arc<dyn Store>) -> Option<i64> {
    let listed = world.runtime.block_on(list_all(&**store, Listing::default())).unwrap();
    if !listed.iter().any(|info| info.key.name() == "cluster.json") {
        assert_eq!(listed, []);
        return None;
    }
    let archive = world.open_at(store);
    let points = Points::of(archive.catalogue(), &Known::default());
    let ranges: Vec<_> = points.lineages.iter().flat_map(|lineage| lineage.ranges.clone()).collect();
    let deltas = |archive: &Archive| -> Vec<Key> {
        let histories = archive.catalogue().histories.iter();
        histories.flat_map(|history| history.deltas()).map(|delta| delta.key.clone()).collect()
    };
    assert!(deltas(&world.open()).starts_with(&deltas(&archive)));
    for range in &ranges {
        world.require_at(store, &At::Revision(range.from), range.from.0);
        world.require_at(store, &At::Revision(range.to), range.to.0);
    }
    ranges.last().map(|range| range.to.0)
}

#[test]
fn a_copy_that_died_at_any_request_is_sound_and_is_taken_up() {
    for is_encrypted in [false, true] {
        let world = world(3, is_encrypted);
        let (source, whole) = (world.open(), contents(&world, &world.store));
        let (mut died, mut reached) = (0, BTreeSet::new());
        for requests in 0.. {
            let target = in_small_pieces();
            let faulty = Arc::new(FaultyStore::new(Arc::clone(&target), Faults::NONE, 0));
            faulty.cut_off_after(requests);
            let first = copy(&source, &(Arc::clone(&faulty) as Arc<dyn Store>));
            reached.insert(require_sound(&world, &target));
            let is_done = faulty.injected().cut_off == 0;
            if is_done {
                let (sent, there, failed) = counts(&first.unwrap());
                assert_eq!((sent, there, failed), (whole.len(), 0, 0));
            } else {
                died += 1;
                let (sent, there, failed) = counts(&copy(&source, &target).unwrap());
                assert_eq!((sent + there, failed), (whole.len(), 0), "after {requests} requests");
            }
            assert!(contents(&world, &target) == whole, "after {requests} requests");
            if is_done {
                break;
            }
        }
        println!("encrypted: {is_encrypted}; died after {died} numbers of requests, at {} ends", reached.len());
        assert!(died > 50 && reached.len() > 3, "{died} {reached:?}");
    }
}

#[test]
fn what_was_copied_is_proven_there_and_not_read_again() {
    let world = world(4, false);
    let (source, target) = (world.open(), in_small_pieces());
    let total = counts(&copy(&source, &target).unwrap()).0;
    let copied = world.open_at(&target);
    let recorded = copied.proven().unwrap();
    let proven = copied.proven_objects(&recorded.proven, Level::Sealed).unwrap();
    assert_eq!(proven.len(), copied.catalogue().entries().count());

    let again = copy(&source, &target).unwrap();
    assert_eq!(counts(&again), (0, total, 0));
    assert!(again.copied.iter().all(|copied| matches!(copied.outcome, Outcome::There(None))), "{again:?}");
    // Somebody wants to be sure.
    let there = source.copy_target(Arc::clone(&target)).unwrap();
    let plan = source.plan_copy(&there, &Selection::All, None);
    let sure = source.copy(&there, &plan, true, moment(501)).unwrap();
    let is_read = |outcome: &Outcome| matches!(outcome, Outcome::There(Some(_)));
    let is_left = |fate: Fate| fate == Fate::Leave;
    assert!(sure.copied.iter().all(|copied| is_read(&copied.outcome) || is_left(copied.item.fate)), "{sure:?}");
}

#[test]
fn another_clusters_place_is_refused_and_stays_as_it_is() {
    let world = world(5, false);
    let target: Arc<dyn Store> = Arc::new(Memory::new());
    let theirs = r#"{"format":1,"cluster":{"name":"prod","id":"00000000000000000000000000000099"},
        "made":"2026-11-21T09:30:00Z","program":"refloat"}"#;
    let key = Key::parse("prod/cluster.json").unwrap();
    world.runtime.block_on(target.put(&key, theirs.into(), &Put::default())).unwrap();
    let refused = world.open().copy_target(Arc::clone(&target)).unwrap_err();
    assert!(matches!(refused, Error::Fence(FenceError::OtherCluster { .. })), "{refused:?}");
    assert_eq!(contents(&world, &target).len(), 1);
}

#[test]
fn what_is_damaged_or_in_the_way_is_told_and_the_others_go_on() {
    let world = world(6, false);
    let source = world.open();
    let deltas: Vec<Key> = source.catalogue().histories[0].deltas().iter().map(|delta| delta.key.clone()).collect();
    let (damaged, taken) = (&deltas[1], &deltas[2]);
    let target: Arc<dyn Store> = Arc::new(Memory::new());
    world.runtime.block_on(async {
        let size = world.store.head(damaged).await.unwrap().size_bytes;
        let mut bytes = world.store.get(damaged, 0..size).await.unwrap().to_vec();
        bytes[300] ^= 1;
        world.store.put(damaged, bytes.into(), &Put::default()).await.unwrap();
        target.put(taken, "something else".into(), &Put::default()).await.unwrap();
    });
    let copying = copy(&source, &target).unwrap();
    assert_eq!(counts(&copying).2, 2);
    let outcome = |key: &Key| &copying.copied.iter().find(|copied| copied.item.parcel.to == *key).unwrap().outcome;
    assert!(matches!(outcome(damaged), Outcome::Failed(SendError::Damaged)));
    assert!(matches!(outcome(taken), Outcome::Failed(SendError::InTheWay)));
    let there = contents(&world, &target);
    assert_eq!(there[taken.as_str()], "something else");
    assert!(!there.contains_key(damaged.as_str()));
    assert!(world.runtime.block_on(target.uploads("")).unwrap().is_empty());
}

#[test]
fn only_what_a_point_or_a_span_needs_is_copied() {
    let world = world(7, false);
    let source = world.open();
    let agreed = source.agree(&Wanted::default(), &At::Revision(Revision(50)), world.scratch.path()).unwrap();
    let point = Selection::These(agreed.plan.objects().map(|entry| entry.key.clone()).collect());
    let since = Selection::SinceRevision(Revision(70));
    for (selection, reachable, left) in [(point, 50, 0), (since, 70, 60)] {
        let target: Arc<dyn Store> = Arc::new(Memory::new());
        let there = source.copy_target(Arc::clone(&target)).unwrap();
        let plan = source.plan_copy(&there, &selection, None);
        let copying = source.copy(&there, &plan, false, moment(500)).unwrap();
        assert_eq!(counts(&copying).2, 0);
        assert!(copying.copied.len() < contents(&world, &world.store).len());
        world.require_at(&target, &At::Revision(Revision(reachable)), reachable);
        let archive = world.open_at(&target);
        assert!(archive.catalogue().entries().all(|entry| entry.to >= Some(Revision(left))));
    }
}

#[test]
fn a_copy_is_told_the_last_writer_that_there_was_and_forgets_no_later_one() {
    let world = world(9, false);
    let target: Arc<dyn Store> = Arc::new(Memory::new());
    let last_at = |store: &Arc<dyn Store>| {
        let key = Key::parse("prod/writer.json").unwrap();
        let bytes = world.runtime.block_on(store.get(&key, 0..1 << 16)).unwrap();
        Claim::parse(&bytes).unwrap()
    };
    let send = || assert!(copy(&world.open(), &target).unwrap().unrecorded.is_none());
    world.hand_out(&world.store, 2);
    send();
    let told = last_at(&target);
    assert_eq!((told.epoch, told.is_released), (Epoch(2), true));
    // There is another writer here, and later one of its own there.
    world.hand_out(&world.store, 5);
    world.write(0, 80, None);
    send();
    assert_eq!(last_at(&target).epoch, Epoch(5));
    world.hand_out(&target, 8);
    let of_its_own = last_at(&target);
    world.write(0, 90, None);
    send();
    assert_eq!(last_at(&target), of_its_own);
}

/// A store that may let nobody tell it of writers.
#[derive(Debug)]
struct Deaf {
    inner: Memory,
    is_deaf: AtomicBool,
}

#[async_trait]
impl Forward for Deaf {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        if self.is_deaf.load(Ordering::Relaxed) && key.as_str().starts_with("prod/writer") {
            return Err(Fault::Forbidden("not of writers".into()).at("writing", self.inner.place(), Some(key)));
        }
        self.inner.put(key, bytes, put).await
    }
}

#[test]
fn a_copy_that_could_not_be_told_the_last_writer_is_told_by_the_next_one() {
    let world = world(10, false);
    let deaf = Arc::new(Deaf { inner: Memory::new(), is_deaf: AtomicBool::new(false) });
    let target: Arc<dyn Store> = deaf.clone();
    world.hand_out(&world.store, 2);
    copy(&world.open(), &target).unwrap();
    deaf.is_deaf.store(true, Ordering::Relaxed);
    world.hand_out(&world.store, 5);
    world.write(0, 80, None);
    let copying = copy(&world.open(), &target).unwrap();
    assert_eq!(counts(&copying).0, 1);
    assert!(matches!(&copying.unrecorded, Some(Error::Store(_))), "{copying:?}");
    deaf.is_deaf.store(false, Ordering::Relaxed);
    let copying = copy(&world.open(), &target).unwrap();
    assert!(counts(&copying).0 == 0 && copying.unrecorded.is_none(), "{copying:?}");
    assert_eq!(world.open_at(&target).claim().unwrap().unwrap().epoch, Epoch(5));
}

#[test]
fn a_copy_that_keeps_what_it_was_told_of_writers_is_told_of_the_next_beside_it() {
    let world = world(11, false);
    let target: Arc<dyn Store> = Arc::new(Memory::new());
    let claim = Key::parse("prod/writer.json").unwrap();
    world.hand_out(&world.store, 2);
    copy(&world.open(), &target).unwrap();
    let kept = Retention { until: None, legal_hold: true };
    world.runtime.block_on(target.retain(&claim, kept)).unwrap();
    world.hand_out(&world.store, 5);
    assert!(copy(&world.open(), &target).unwrap().unrecorded.is_none());
    assert_eq!(world.open_at(&target).claim().unwrap().unwrap().epoch, Epoch(5));
}

#[test]
fn a_lockbox_that_was_locked_again_is_replaced() {
    let world = world(8, true);
    let target: Arc<dyn Store> = Arc::new(Memory::new());
    copy(&world.open(), &target).unwrap();
    let lockbox = world.key.as_ref().map(|key| Name::Lockbox(key.id()).below("prod/").unwrap()).unwrap();
    let locked_again = Bytes::from("{\"locked\":\"for somebody else\"}");
    world.runtime.block_on(world.store.put(&lockbox, locked_again.clone(), &Put::default())).unwrap();
    let copying = copy(&world.open(), &target).unwrap();
    assert_eq!(counts(&copying).0, 1);
    assert_eq!(contents(&world, &target)[lockbox.as_str()], locked_again);
    // What was changed at the target since is not taken back.
    world.runtime.block_on(target.put(&lockbox, "{\"locked\":\"there\"}".into(), &Put::default())).unwrap();
    let copying = copy(&world.open(), &target).unwrap();
    assert!(counts(&copying).2 > 0, "{copying:?}");
}

/// Archives of other systems go where they go with all that belongs to them.
#[test]
fn other_systems_archives_are_copied_as_they_are() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (path, layout, beside) in [
        ("etcdbrctl/small-3.5.30", Layout::Etcdbrctl, 0),
        ("etcdbrctl/legacy-v1", Layout::Etcdbrctl, 0),
        ("k3s/node-a/server/db", Layout::K3s, 3),
        ("openshift", Layout::OpenShift, 2),
    ] {
        let from = Arc::new(Folder::at(&fixtures::path(path)).unwrap());
        let open = |store: Arc<dyn Store>| {
            Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap()
        };
        let source = open(from);
        let folder = tempfile::tempdir().unwrap();
        let target: Arc<dyn Store> = Arc::new(Folder::at(folder.path()).unwrap());
        let copying = copy(&source, &target).unwrap();
        let entries = source.catalogue().entries().count();
        assert_eq!(counts(&copying), (entries + beside, 0, 0), "{path}");
        for copied in &copying.copied {
            let key = copied.item.parcel.to.as_str();
            let bytes = |root: &std::path::Path| std::fs::read(root.join(key)).unwrap();
            assert!(bytes(folder.path()) == bytes(&fixtures::path(path)), "{key}");
        }
        let found = open(Arc::clone(&target));
        assert_eq!((found.catalogue().layout, found.catalogue().entries().count()), (layout, entries));
        assert_eq!(found.catalogue().companions.len(), beside);
        assert_eq!(counts(&copy(&source, &target).unwrap()), (0, entries + beside, 0));
    }
    // Another chain in the same folder.
    let open = |path: &str| {
        let store = Arc::new(Folder::at(&fixtures::path(path)).unwrap());
        Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap()
    };
    let target: Arc<dyn Store> = Arc::new(Memory::new());
    copy(&open("etcdbrctl/small-3.5.30"), &target).unwrap();
    let refused = open("etcdbrctl/zlib-3.5.30").copy_target(target).unwrap_err();
    assert!(matches!(refused, Error::NothingShared { .. }), "{refused:?}");
}
