//! What it costs to list an archive of very many objects and to prune it, in requests; and that nothing becomes less true by
//! what is not asked for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use archive::copy::plan::Selection;
use archive::headers::remembered::Remembered;
use archive::merge::plan::Merge;
use archive::name::{DeltaName, Name};
use archive::object::FOOTER_BYTES;
use archive::plan::{Known, Part as Taken, Points};
use archive::proof::{Item, Level};
use archive::prune::Gone;
use archive::retention::{Rule, Verdict};
use archive::{Entry, Policy};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::download::list_all;
use store::{Counting, Forward, Key, Listing, Memory, Put, Store, StoreError};

use world::{World, moment};

/// The last revision. From 20 on, each has a delta of its own.
const LAST: i64 = 420;
/// Of so many deltas it is asked when they were made.
const ASKED: i64 = 64;
/// The first of those.
const FIRST_ASKED: i64 = LAST - ASKED;

/// Fulls of 10, 20 and [`LAST`], and a delta for every revision between them.
fn many() -> World {
    let world = World::new(&mut StdRng::seed_from_u64(21), LAST);
    let mut follows = world.write(0, 10, None);
    for at in 11..=LAST {
        follows = world.write(at, at, Some(follows));
        if matches!(at, 20 | LAST) {
            world.write(0, at, None);
        }
    }
    world
}

/// A store in which everything is written a second after what was written before.
fn store_from(begin: Timestamp) -> Memory {
    let seconds = AtomicI64::new(begin.as_second());
    let clock = move || Timestamp::from_second(seconds.fetch_add(1, Ordering::Relaxed)).unwrap();
    Memory::new().with_clock(Arc::new(clock))
}

/// A copy of the archive in a store that counts and begins at `begin`. Copying proves. Nothing was counted yet.
fn copied(world: &World, begin: Timestamp, last: i64) -> (Arc<Counting>, Arc<dyn Store>) {
    let counting = Arc::new(Counting::new(Arc::new(store_from(begin))));
    let store = Arc::clone(&counting) as Arc<dyn Store>;
    let archive = world.open();
    let target = archive.copy_target(Arc::clone(&store)).unwrap();
    let plan = archive.plan_copy(&target, &Selection::All, None);
    assert!(archive.copy(&target, &plan, false, moment(last)).unwrap().unrecorded.is_none());
    counting.take();
    (counting, store)
}

/// Long after everything was made.
fn a_month_later() -> Timestamp {
    moment(LAST) + SignedDuration::from_hours(24 * 30)
}

#[test]
fn what_is_listed_is_not_asked_for_one_by_one() {
    let world = many();
    let (counting, store) = copied(&world, a_month_later(), LAST);
    let (archive, known) = (world.open_at(&store), Known::default());
    let recorded = archive.proven().unwrap();
    let mut presumed = archive.presumed_proven(&recorded, Level::Sealed).unwrap();
    let newest = archive.newest_proven(&known, &mut presumed).unwrap().unwrap();
    archive.made(&Points::of(archive.catalogue(), &known), &known).unwrap();
    let counts = counting.take();
    assert!(counts.requests() <= 16 + ASKED as u64, "{counts:?}");

    assert_eq!((newest.revision, newest.level), (Revision(LAST), Level::Sealed));
    assert_eq!(presumed.objects.len(), archive.catalogue().entries().count());
    assert_eq!(presumed.objects, archive.proven_objects(&recorded.proven, Level::Sealed).unwrap());
    assert!(counting.take().requests() > 400);
}

#[test]
fn a_copy_tells_when_deltas_were_made_and_not_when_they_were_copied() {
    let world = many();
    let (counting, store) = copied(&world, a_month_later(), LAST);
    let archive = world.open_at(&store);
    let points = Points::of(archive.catalogue(), &Known::default());
    let listed = &points.lineages[0].listed;
    let end = |entry: &Entry| entry.to.unwrap().0;
    assert!(listed.iter().any(|entry| end(entry) == LAST - 1));

    let made = archive.made(&points, &Known::default()).unwrap();
    for entry in listed {
        // What is not asked is no younger than what follows on it: the next full, or the first delta that is asked.
        let latest = match end(entry) {
            11.. if end(entry) < 20 => 20,
            21.. if end(entry) < FIRST_ASKED => FIRST_ASKED,
            exact => exact,
        };
        assert_eq!(made[&entry.key], moment(latest), "{}", entry.key);
    }

    // Whoever has read all headers asks for nothing more.
    let known = archive.known_by_headers().unwrap();
    counting.take();
    let made = archive.made(&points, &known).unwrap();
    assert_eq!(counting.take().requests(), 0);
    assert!(listed.iter().all(|entry| made[&entry.key] == moment(end(entry))));
}

#[test]
fn pruning_asks_for_what_decides_and_not_for_what_is_proven_one_by_one() {
    let world = many();
    let (counting, store) = copied(&world, moment(LAST), LAST);
    let remembered = Arc::new(Remembered::default());
    let open = || {
        let mut archive = world.open_at(&store);
        archive.remember_with(Arc::clone(&remembered));
        archive
    };
    // Headers tell which writer counts. An agent has read them before.
    open().known_by_headers().unwrap();
    counting.take();

    let (archive, now) = (open(), moment(LAST) + SignedDuration::from_hours(1));
    let policy = Policy { rules: vec![Rule::Number(2)], ..Policy::default() };
    let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
    let counts = counting.take();
    assert!(counts.requests() <= 60, "{counts:?}");
    let is_doomed = |verdict: &Verdict| matches!(verdict, Verdict::Delete(_));
    let doomed = plan.retention.decisions.iter().filter(|one| is_doomed(&one.verdict));
    let doomed: Vec<&Key> = doomed.map(|one| &one.entry.key).collect();
    // The first full, and the ten deltas that lead to the second one.
    assert_eq!(doomed.len(), 11, "{}", plan.retention);

    let pruned = archive.prune(&plan, &policy, now).unwrap();
    let counts = counting.take();
    assert!(counts.requests() <= 60, "{counts:?}");
    assert!(pruned.objects.iter().all(|(_, gone)| matches!(gone, Gone::Deleted)), "{pruned:?}");
    assert!(doomed.iter().all(|key| pruned.objects.iter().any(|(gone, _)| gone == *key)), "{pruned:?}");
}

/// A store that counts how often each object is read.
#[derive(Debug)]
struct Reading {
    inner: Arc<dyn Store>,
    read: Mutex<BTreeMap<Key, u32>>,
}

#[async_trait]
impl Forward for Reading {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        *self.read.lock().unwrap().entry(key.clone()).or_default() += 1;
        self.inner.get(key, range).await
    }
}

#[test]
fn a_plan_of_pruning_reads_each_proof_once() {
    let world = World::new(&mut StdRng::seed_from_u64(23), 40);
    let follows = world.write(0, 20, None);
    world.write(21, 40, Some(follows));
    let (_, store) = copied(&world, moment(40), 40);
    let archive = world.open_at(&store);
    let proven = archive.proven_objects(&archive.proven().unwrap().proven, Level::Sealed).unwrap();
    let items: Vec<Item> = proven.into_values().collect();
    archive.record(&world.lineage, &items, moment(50)).unwrap();

    let reading = Arc::new(Reading { inner: store, read: Mutex::default() });
    let archive = world.open_at(&(Arc::clone(&reading) as Arc<dyn Store>));
    archive.plan_prune(&Policy::default(), moment(60), world.scratch.path()).unwrap();
    let read = reading.read.lock().unwrap();
    let times: Vec<_> = archive.catalogue().proofs.iter().map(|proof| read.get(&proof.key)).collect();
    assert!(times.len() > 1 && times.iter().all(|times| *times == Some(&1)), "{times:?}");
}

#[test]
fn what_only_seems_to_be_what_was_proven_replaces_nothing() {
    let world = World::new(&mut StdRng::seed_from_u64(22), 80);
    let mut follows = world.write(0, 20, None);
    for from in [21, 41] {
        follows = world.write(from, from + 19, Some(follows));
    }
    let archive = world.open();
    let deltas = archive.catalogue().histories[0].deltas();
    let sources = deltas.iter().map(|entry| Taken { entry: entry.clone(), take: entry.changes().unwrap() }).collect();
    let into = DeltaName { level: 1, from: Revision(21), to: Revision(60) };
    let merge = Merge { into: Name::Delta(world.lineage.clone(), into), sources, rivals: Vec::new() };
    archive.merge(&merge, &world.writing(60)).unwrap();
    world.write(61, 80, Some(follows));
    world.write(0, 80, None);

    let (_, store) = copied(&world, moment(0), 80);
    let changed = with_another_end(&world, &store, "/delta/1/");
    let doomed = |store: &Arc<dyn Store>| {
        let (archive, now) = (world.open_at(store), moment(80) + SignedDuration::from_hours(2));
        let plan = archive.plan_prune(&Policy::default(), now, world.scratch.path()).unwrap();
        plan.retention.deletions().count()
    };
    assert_eq!((doomed(&store), doomed(&changed)), (2, 0));
}

/// The same objects in the same order, as another program copies them. The one whose key has `part` in it ends with another
/// digest, and is older than what proves it all the same.
fn with_another_end(world: &World, store: &Arc<dyn Store>, part: &str) -> Arc<dyn Store> {
    let changed: Arc<dyn Store> = Arc::new(store_from(moment(0)));
    world.runtime.block_on(async {
        for info in list_all(&**store, Listing::default()).await.unwrap() {
            let mut bytes = store.get(&info.key, 0..info.size_bytes).await.unwrap().to_vec();
            if info.key.as_str().contains(part) {
                let digest = bytes.len() - FOOTER_BYTES;
                bytes[digest] ^= 1;
            }
            changed.put(&info.key, bytes.into(), &Put::default()).await.unwrap();
        }
    });
    changed
}
