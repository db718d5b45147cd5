//! Archives pruned by policies of all kinds: what is kept restores as before, whenever pruning dies, and what somebody
//! holds, has touched or has not proven stays.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archive::Policy;
use archive::archive::{Archive, Which};
use archive::copy::plan::Selection;
use archive::headers::remembered::Remembered;
use archive::merge::plan::{MergePlan, MergePolicy};
use archive::plan::{Known, Points};
use archive::point::At;
use archive::prune::{Gone, PrunePlan};
use archive::retention::{Block, Deltas, Generations, Rule, Verdict};
use archive::sealing::NoKeys;
use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::counting::Counting;
use store::download::list_all;
use store::{Folder, Key, Listing, Memory, Put, Retention, Store};
use testkit::{Faults, FaultyStore, ManualClock, fixtures};

use world::{World, moment};

const LAST: i64 = 160;

/// A history with fulls and deltas, some merged, some missing; and a store that has all of it, proven.
fn world(random: &mut StdRng) -> (World, Arc<dyn Store>, ManualClock) {
    let world = World::new(random, LAST);
    let mut follows = Some(world.write(0, random.random_range(2..20), None));
    let first = world.open().catalogue().histories[0].fulls()[0].to.unwrap().0;
    let mut reached = first;
    while reached < LAST {
        let to = (reached + random.random_range(4..16)).min(LAST);
        follows = Some(world.write(reached + 1, to, follows));
        reached = to;
        if random.random_ratio(1, 4) {
            world.write(0, reached, None);
        }
    }
    let now = Timestamp::now() + SignedDuration::from_hours(2);
    let archive = world.open();
    let plan = MergePlan::choose(archive.catalogue(), &MergePolicy::default(), &Known::default(), now);
    for merge in plan.merges.iter().filter(|_| random.random_ratio(1, 2)) {
        archive.merge(merge, &world.writing(LAST)).unwrap();
    }
    let clock = ManualClock::at(moment(LAST));
    let target = store_at(&clock);
    copy(&world, &target);
    (world, target, clock)
}

fn store_at(clock: &ManualClock) -> Arc<dyn Store> {
    Arc::new(Memory::new().with_clock(clock.skewed(SignedDuration::ZERO)))
}

/// Copying proves.
fn copy(world: &World, target: &Arc<dyn Store>) {
    let archive = world.open();
    let there = archive.copy_target(Arc::clone(target)).unwrap();
    let plan = archive.plan_copy(&there, &Selection::All, None);
    assert!(archive.copy(&there, &plan, false, moment(LAST)).unwrap().unrecorded.is_none());
}

fn policy(random: &mut StdRng) -> Policy {
    let mut rules = Vec::new();
    let count = random.random_range(0..3);
    for _ in 0..count {
        rules.push(match random.random_range(0..5) {
            0 => Rule::Number(random.random_range(0..4)),
            1 => Rule::SizeBytes(random.random_range(0..20_000)),
            2 => Rule::Window(SignedDuration::from_secs(random.random_range(0..200))),
            3 => Rule::Exponential,
            _ => Rule::Generations(Generations { hourly: random.random_range(0..3), ..Generations::default() }),
        });
    }
    if rules.is_empty() {
        rules.push(Rule::Number(1));
    }
    let deltas = match random.random_ratio(1, 2) {
        true => Deltas::WithFulls,
        false => Deltas::For(SignedDuration::from_secs(random.random_range(0..300))),
    };
    let grace = SignedDuration::from_secs(random.random_range(0..400));
    Policy { rules, minimum: random.random_range(1..3), deltas, merged_grace: grace, ..Policy::default() }
}

/// What can be restored of what `plan` keeps.
fn kept(archive: &Archive, plan: &PrunePlan) -> Vec<RevisionRange> {
    let without: BTreeSet<Key> = plan.retention.deletions().cloned().collect();
    let known = Known { without, ..Known::default() };
    Points::of(archive.catalogue(), &known).lineages.iter().flat_map(|lineage| lineage.ranges.clone()).collect()
}

fn require(world: &World, store: &Arc<dyn Store>, ranges: &[RevisionRange]) {
    for range in ranges {
        let middle = (range.from.0 + range.to.0) / 2;
        for at in BTreeSet::from([range.from.0, middle, range.to.0]) {
            world.require_at(store, &At::Revision(Revision(at)), at);
        }
    }
}

fn keys(world: &World, store: &Arc<dyn Store>) -> BTreeSet<String> {
    let listed = world.runtime.block_on(list_all(&**store, Listing::default())).unwrap();
    listed.into_iter().map(|info| info.key.to_string()).collect()
}

/// The same objects in another store, as old as they are there.
fn clone_of(world: &World, store: &Arc<dyn Store>) -> Arc<dyn Store> {
    let clone = store_at(&ManualClock::at(moment(LAST)));
    world.runtime.block_on(async {
        for info in list_all(&**store, Listing::default()).await.unwrap() {
            let bytes = store.get(&info.key, 0..info.size_bytes.max(1)).await.unwrap();
            clone.put(&info.key, bytes, &Put::default()).await.unwrap();
        }
    });
    clone
}

#[test]
fn what_is_kept_restores_as_before() {
    let (mut deleted, mut stayed) = (0, 0);
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (world, store, _) = world(&mut random);
        let (policy, now) = (policy(&mut random), moment(LAST + 300));
        let archive = world.open_at(&store);
        let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
        let ranges = kept(&archive, &plan);
        assert_eq!(ranges.last().unwrap().to, Revision(LAST), "the newest point stays");
        require(&world, &store, &ranges);
        let before = keys(&world, &store);
        let pruned = archive.prune(&plan, &policy, now).unwrap();
        assert!(pruned.objects.iter().all(|(_, gone)| matches!(gone, Gone::Deleted)), "{pruned:?}");
        let gone: BTreeSet<String> = plan.retention.deletions().map(ToString::to_string).collect();
        let after = keys(&world, &store);
        assert_eq!(before.difference(&after).cloned().collect::<BTreeSet<_>>(), gone);
        require(&world, &store, &ranges);
        // Another time there is nothing left to do.
        let archive = world.open_at(&store);
        let again = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
        assert_eq!(again.retention.deletions().count(), 0, "{}", again.retention);
        deleted += gone.len();
        stayed += after.len();
    }
    println!("{deleted} objects were deleted, {stayed} stayed");
    assert!(deleted > 100 && stayed > 100);
}

/// A place that is given what its own policy keeps, and pruned by it, is not given again what it let go.
#[test]
fn a_place_that_is_copied_to_and_pruned_comes_to_rest() {
    let (mut sent, mut left_out) = (0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (world, first, clock) = world(&mut random);
        let (policy, now) = (policy(&mut random), moment(LAST + 300));
        let (source, other) = (world.open_at(&first), store_at(&clock));
        let bring = || {
            let there = source.copy_target(Arc::clone(&other)).unwrap();
            let plan = source.plan_copy(&there, &source.kept_by(&policy, now), None);
            let copying = source.copy(&there, &plan, false, now).unwrap();
            assert!(copying.failed().is_none() && copying.unrecorded.is_none(), "{copying:?}");
            copying.sent().0
        };
        sent += bring();
        left_out += source.catalogue().entries().count() - world.open_at(&other).catalogue().entries().count();
        for _ in 0..2 {
            world.require_at(&other, &At::Latest, LAST);
            let archive = world.open_at(&other);
            let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
            let ranges = kept(&archive, &plan);
            archive.prune(&plan, &policy, now).unwrap();
            require(&world, &other, &ranges);
            assert_eq!(bring(), 0, "what was let go came again");
        }
    }
    println!("{sent} objects were copied, {left_out} were not");
    assert!(sent > 100 && left_out > 100);
}

#[test]
fn pruning_that_died_at_any_request_leaves_what_is_kept_and_is_taken_up() {
    let mut died = 0;
    for seed in [1, 5, 9] {
        let mut random = StdRng::seed_from_u64(seed);
        let (world, whole, _) = world(&mut random);
        let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
        let now = moment(LAST + 300);
        let mut end = None;
        for requests in 0.. {
            let store = clone_of(&world, &whole);
            let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), Faults::NONE, seed));
            let archive = world.open_at(&(Arc::clone(&faulty) as Arc<dyn Store>));
            let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
            assert!(plan.retention.deletions().count() > 2);
            let ranges = kept(&archive, &plan);
            faulty.cut_off_after(requests);
            let first = archive.prune(&plan, &policy, now);
            require(&world, &store, &ranges);
            let is_done = faulty.injected().cut_off == 0;
            let archive = world.open_at(&store);
            let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
            archive.prune(&plan, &policy, now).unwrap();
            require(&world, &store, &ranges);
            let found = keys(&world, &store);
            assert_eq!(*end.get_or_insert(found.clone()), found, "seed {seed} after {requests} requests");
            if is_done {
                first.unwrap();
                break;
            }
            died += 1;
        }
    }
    println!("died after {died} numbers of requests");
    assert!(died > 15, "{died}");
}

#[test]
fn what_the_store_keeps_stays_and_is_kept_for_longer_where_asked() {
    let mut random = StdRng::seed_from_u64(2);
    let (world, store, _) = world(&mut random);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let now = moment(LAST + 300);
    let open = || world.open_at(&store);
    let plan = open().plan_prune(&policy, now, world.scratch.path()).unwrap();
    let doomed: Vec<Key> = plan.retention.deletions().cloned().collect();
    let (held, kept_until) = (&doomed[0], &doomed[1]);
    let retain = |key: &Key, retention| world.runtime.block_on(store.retain(key, retention)).unwrap();
    retain(held, Retention { until: None, legal_hold: true });
    retain(kept_until, Retention { until: Some(moment(100_000)), legal_hold: false });
    // The plan from before that is not carried out on them, and a new one tells why.
    let pruned = open().prune(&plan, &policy, now).unwrap();
    let gone = |key: &Key| &pruned.objects.iter().find(|(object, _)| object == key).unwrap().1;
    assert!(matches!(gone(held), Gone::Changed) && matches!(gone(kept_until), Gone::Changed));
    let archive = open();
    let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
    let verdict = |key: &Key| &plan.retention.decisions.iter().find(|one| one.entry.key == *key).unwrap().verdict;
    assert!(matches!(verdict(held), Verdict::Blocked(_, Block::LegalHold)));
    assert!(matches!(verdict(kept_until), Verdict::Blocked(_, Block::RetainedUntil(_))));

    let until = moment(50_000);
    let due = archive.due_extensions(&plan, until);
    assert!(!due.is_empty() && due.iter().all(|(key, result)| result.is_ok() && key != kept_until));
    // Where not all that stays can be kept for longer, nothing is deleted.
    let before = keys(&world, &store);
    let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), Faults::NONE, 2));
    let cut_off = world.open_at(&(Arc::clone(&faulty) as Arc<dyn Store>));
    faulty.cut_off_after(due.len() as u64);
    let pruned = cut_off.prune_keeping(&plan, &policy, until, now).unwrap();
    assert!(pruned.objects.is_empty() && pruned.extended.iter().any(|(_, kept)| kept.is_err()), "{pruned:?}");
    assert!(plan.retention.deletions().next().is_some() && keys(&world, &store) == before);

    let pruned = archive.prune_keeping(&plan, &policy, until, now).unwrap();
    assert!(!pruned.objects.is_empty() && pruned.extended.iter().all(|(_, kept)| kept.is_ok()), "{pruned:?}");
    let extended_archive = open();
    world.runtime.block_on(async {
        let stays = |entry: &&archive::Entry| plan.retention.deletions().all(|key| *key != entry.key);
        for entry in extended_archive.catalogue().entries().filter(stays) {
            let retention = store.head(&entry.key).await.unwrap().retention.unwrap();
            let expected = if entry.key == *kept_until { moment(100_000) } else { until };
            assert_eq!((retention.until, retention.legal_hold), (Some(expected), entry.key == *held));
        }
    });
    assert!(extended_archive.due_extensions(&plan, moment(40_000)).is_empty(), "only ever later");
}

/// Whoever prunes again and again asks of each object that is kept once in that time, and of one that goes before it goes.
#[test]
fn what_the_store_keeps_until_a_time_is_not_asked_for_again_before() {
    let mut random = StdRng::seed_from_u64(4);
    let (world, store, clock) = world(&mut random);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let counting = Arc::new(Counting::new(Arc::clone(&store)));
    let remembered = Arc::new(Remembered::default());
    // How many were asked for, and what went.
    let prune = |second: i64| {
        let mut archive = world.open_at(&(Arc::clone(&counting) as Arc<dyn Store>));
        archive.remember_with(Arc::clone(&remembered));
        let (now, _) = (moment(LAST + second), counting.take());
        let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
        let pruned = archive.prune(&plan, &policy, now).unwrap();
        assert!(pruned.objects.iter().all(|(_, gone)| matches!(gone, Gone::Deleted)), "{pruned:?}");
        (counting.take().heads, pruned.objects.len())
    };
    let plan = world.open_at(&store).plan_prune(&policy, moment(LAST + 300), world.scratch.path()).unwrap();
    let doomed: Vec<Key> = plan.retention.deletions().cloned().collect();
    let retain = |key: &Key, until: i64| {
        let retention = Retention { until: Some(moment(LAST + until)), legal_hold: false };
        world.runtime.block_on(store.retain(key, retention)).unwrap();
    };
    doomed.iter().for_each(|key| retain(key, 7200));
    let (count, asked) = (doomed.len() as u64, |prunes: &[i64]| prunes.iter().map(|at| prune(*at)).collect::<Vec<_>>());
    assert!(count > 5, "{count}");
    assert_eq!(asked(&[300, 301, 3900, 7199]), [(count, 0), (0, 0), (0, 0), (0, 0)]);
    // Somebody has prolonged it meanwhile: that shows when the time is over that was told before.
    doomed.iter().for_each(|key| retain(key, 9000));
    assert_eq!(asked(&[7200, 7201, 8999]), [(count, 0), (0, 0), (0, 0)]);
    // Another agent, or this one started again, asks anew.
    let mut other = world.open_at(&(Arc::clone(&counting) as Arc<dyn Store>));
    other.remember_with(Arc::default());
    counting.take();
    other.plan_prune(&policy, moment(LAST + 8999), world.scratch.path()).unwrap();
    assert_eq!(counting.take().heads, count);

    // What goes is asked for when that is planned, and when it is planned again.
    clock.advance(Duration::from_secs(9000));
    let (first, rest) = doomed.split_first().unwrap();
    retain(first, 20_000);
    assert_eq!(asked(&[9000, 9001]), [(count + rest.len() as u64, rest.len()), (0, 0)]);
}

/// Reading again what a plan stands on, a day after somebody has, makes it anew: what is kept is kept then as well.
#[test]
fn what_the_store_keeps_stays_in_a_plan_that_is_made_anew() {
    let mut random = StdRng::seed_from_u64(2);
    let (world, store, _) = world(&mut random);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let plan = |hours| {
        let now = moment(LAST) + SignedDuration::from_hours(hours);
        world.open_at(&store).plan_prune(&policy, now, world.scratch.path()).unwrap()
    };
    let doomed: Vec<Key> = plan(1).retention.deletions().cloned().collect();
    let (free, kept) = doomed.split_first().unwrap();
    for key in kept {
        let until = Some(moment(LAST) + SignedDuration::from_hours(100));
        world.runtime.block_on(store.retain(key, Retention { until, legal_hold: false })).unwrap();
    }
    for hours in [1, 48] {
        assert_eq!(plan(hours).retention.deletions().collect::<Vec<_>>(), [free], "after {hours} h");
    }
}

#[test]
fn what_goes_as_soon_as_the_store_lets_it_is_not_kept_for_longer() {
    let mut random = StdRng::seed_from_u64(3);
    let (world, store, clock) = world(&mut random);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let plan = |now| world.open_at(&store).plan_prune(&policy, now, world.scratch.path()).unwrap();
    let now = moment(LAST + 300);
    let doomed: Vec<Key> = plan(now).retention.deletions().cloned().collect();
    assert!(!doomed.is_empty());
    for key in &doomed {
        let retention = Retention { until: Some(moment(LAST + 400)), legal_hold: false };
        world.runtime.block_on(store.retain(key, retention)).unwrap();
    }
    // Pruned each time anew while the store keeps it, as by a schedule.
    for second in [300, 350, 399] {
        let (now, until) = (moment(LAST + second), moment(LAST + second + 1000));
        let plan = plan(now);
        assert_eq!(plan.retention.deletions().count(), 0, "{}", plan.retention);
        let extended = world.open_at(&store).prune_keeping(&plan, &policy, until, now).unwrap().extended;
        assert!(!extended.is_empty() && extended.iter().all(|(key, _)| !doomed.contains(key)), "{extended:?}");
    }
    clock.advance(Duration::from_secs(401));
    let plan = plan(moment(LAST + 401));
    let pruned = world.open_at(&store).prune(&plan, &policy, moment(LAST + 401)).unwrap();
    assert!(pruned.objects.iter().all(|(_, gone)| matches!(gone, Gone::Deleted)), "{pruned:?}");
    assert!(doomed.iter().all(|key| !keys(&world, &store).contains(key.as_str())));
}

#[test]
fn what_was_changed_since_the_plan_was_made_stays() {
    let mut random = StdRng::seed_from_u64(4);
    let (world, store, clock) = world(&mut random);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let now = moment(LAST + 300);
    let archive = world.open_at(&store);
    let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
    let touched = plan.retention.deletions().next().unwrap();
    clock.advance(Duration::from_secs(5));
    world.runtime.block_on(async {
        let size = store.head(touched).await.unwrap().size_bytes;
        let bytes = store.get(touched, 0..size).await.unwrap();
        store.put(touched, bytes, &Put::default()).await.unwrap();
    });
    let pruned = archive.prune(&plan, &policy, now).unwrap();
    assert!(matches!(pruned.objects[0], (ref key, Gone::Changed) if key == touched), "{pruned:?}");
    assert!(keys(&world, &store).contains(touched.as_str()));
}

#[test]
fn nothing_of_what_nobody_has_proven_goes() {
    let mut random = StdRng::seed_from_u64(6);
    let (world, ..) = world(&mut random);
    let policy = Policy { rules: vec![Rule::Number(1)], ..Policy::default() };
    let plan = world.open().plan_prune(&policy, moment(10_000_000), world.scratch.path()).unwrap();
    assert_eq!(plan.retention.deletions().count(), 0);
    let blocked = |verdict: &Verdict| matches!(verdict, Verdict::Blocked(_, Block::NothingProven));
    assert!(plan.retention.decisions.iter().any(|one| blocked(&one.verdict)), "{}", plan.retention);
}

#[test]
fn uploads_that_nobody_finished_are_given_up_when_they_are_old() {
    let mut random = StdRng::seed_from_u64(8);
    let (world, store, clock) = world(&mut random);
    let begin = |name: &str| {
        let key = Key::parse(name).unwrap();
        world.runtime.block_on(store.begin(&key, &Put::default())).unwrap()
    };
    let old = begin("prod/left/full");
    let elsewhere = begin("other/left/full");
    clock.advance(Duration::from_secs(8 * 24 * 3600));
    let young = begin("prod/young/full");
    let policy = Policy::default();
    let archive = world.open_at(&store);
    let plan = archive.plan_prune(&policy, clock.now(), world.scratch.path()).unwrap();
    let ids = |uploads: &[store::Upload]| uploads.iter().map(|upload| upload.id.clone()).collect::<BTreeSet<_>>();
    assert_eq!(ids(&plan.uploads), BTreeSet::from([old.id]));
    assert!(archive.prune(&plan, &policy, clock.now()).unwrap().uploads[0].1.is_ok());
    let left = world.runtime.block_on(store.uploads("")).unwrap();
    assert_eq!(ids(&left), BTreeSet::from([elsewhere.id, young.id]));
}

/// A copy of a fixture, and the archive in it.
fn fixture(world: &World, path: &str) -> (tempfile::TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let from: Arc<dyn Store> = Arc::new(Folder::at(&fixtures::path(path)).unwrap());
    let to: Arc<dyn Store> = Arc::new(Folder::at(folder.path()).unwrap());
    world.runtime.block_on(async {
        for info in list_all(&*from, Listing::default()).await.unwrap() {
            let bytes = from.get(&info.key, 0..info.size_bytes.max(1)).await.unwrap();
            to.put(&info.key, bytes, &Put::default()).await.unwrap();
        }
    });
    let handle = world.runtime.handle().clone();
    let archive = Archive::open(to, handle, &Which::default(), Arc::new(NoKeys)).unwrap();
    (folder, archive)
}

#[test]
fn of_other_systems_archives_what_stays_is_read_first() {
    let mut random = StdRng::seed_from_u64(1);
    let world = World::new(&mut random, 2);
    let now = Timestamp::now();
    let limit = |fulls| Policy::limit_based(fulls, SignedDuration::ZERO);
    let names = |archive: &Archive, plan: &PrunePlan| -> Vec<String> {
        let folder = format!("{}/", archive.folder());
        let gone = plan.retention.deletions();
        gone.map(|key| key.as_str().trim_start_matches(&folder).to_owned()).collect()
    };

    let (_folder, archive) = fixture(&world, "etcdbrctl/small-3.5.30");
    let plan = archive.plan_prune(&limit(1), now, world.scratch.path()).unwrap();
    let gone = names(&archive, &plan);
    assert_eq!(gone.len(), 6, "{gone:?}");
    assert!(gone[5].ends_with("Full-00000000-00000028-1795224141.gz"));
    archive.prune(&plan, &limit(1), now).unwrap();

    // The newest full is damaged: it takes no slot, and what it would have replaced stays.
    let (_folder, archive) = fixture(&world, "etcdbrctl/damaged/flipped-full-inside");
    let plan = archive.plan_prune(&limit(1), now, world.scratch.path()).unwrap();
    assert_eq!(plan.unusable.len(), 1);
    assert!(names(&archive, &plan).iter().all(|name| !name.contains("Full-00000000-00000028")), "{}", plan.retention);

    // The newest full is called later than it is: it may hold more than its name says, and never less.
    let (folder, archive) = fixture(&world, "etcdbrctl/small-3.5.30");
    let path = |name: &str| folder.path().join("v2").join(name);
    let called = "Full-00000000-00000400-1795224146.gz";
    std::fs::rename(path("Full-00000000-00000225-1795224146.gz"), path(called)).unwrap();
    let handle = world.runtime.handle().clone();
    let archive = Archive::open(Arc::clone(archive.store()), handle, &Which::default(), Arc::new(NoKeys)).unwrap();
    let plan = archive.plan_prune(&limit(1), now, world.scratch.path()).unwrap();
    let told: Vec<&str> = plan.unusable.iter().map(|(key, _)| key.name()).collect();
    assert_eq!((told, names(&archive, &plan)), (vec![called], Vec::new()), "{}", plan.retention);
    let later = now + SignedDuration::from_hours(24 * 30);
    let plan = archive.plan_prune(&limit(1), later, world.scratch.path()).unwrap();
    assert_eq!(names(&archive, &plan), [""; 0], "what it has can be restored");

    // What goes with a snapshot goes after it.
    let (folder, archive) = fixture(&world, "k3s/node-a/server/db");
    let policy = Policy::k3s("etcd-snapshot", 1);
    let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
    archive.prune(&plan, &policy, now).unwrap();
    let there = |name: &str| folder.path().join(name).exists();
    assert!(!there("snapshots/etcd-snapshot-node-a-1795224992") && !there(".metadata/etcd-snapshot-node-a-1795224992"));
    assert!(there("snapshots/etcd-snapshot-node-a-1795224995.zip") && there("snapshots/on-demand-node-a-1795224993"));

    // What a run left that died goes when it is old enough.
    let (folder, archive) = fixture(&world, "openshift");
    let policy = Policy { failed_grace: SignedDuration::ZERO, ..Policy::retention_number(1) };
    let plan = archive.plan_prune(&policy, now + SignedDuration::from_secs(5), world.scratch.path()).unwrap();
    archive.prune(&plan, &policy, now + SignedDuration::from_secs(5)).unwrap();
    let left: Vec<String> = world
        .runtime
        .block_on(list_all(&Folder::at(folder.path()).unwrap(), Listing::default()))
        .unwrap()
        .into_iter()
        .map(|info| info.key.to_string())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn nothing_goes_while_it_cannot_be_read_where_a_lineage_came_from() {
    let mut random = StdRng::seed_from_u64(7);
    let (world, store, _) = world(&mut random);
    let note = list(&world, &store).into_iter().find(|key| key.as_str().ends_with("lineage.json")).unwrap();
    world.runtime.block_on(store.put(&note, "{}".into(), &Put::default())).unwrap();
    let policy = Policy { rules: vec![Rule::Number(1)], ..Policy::default() };
    let error = world.open_at(&store).plan_prune(&policy, moment(10_000_000), world.scratch.path()).unwrap_err();
    assert!(matches!(&error, archive::Error::Undecided { key, .. } if *key == note), "{error}");
}

#[test]
fn a_full_of_a_writer_who_had_been_replaced_takes_no_slot_however_well_it_is_proven() {
    let world = World::new(&mut StdRng::seed_from_u64(8), 60);
    let by = |epoch, follows| {
        move |header: &mut archive::Header, _: &mut archive::Closing| {
            (header.epoch, header.follows) = (archive::Epoch(epoch), follows);
        }
    };
    let first = world.write_as(0, 20, by(1, None));
    let second = world.write_as(21, 40, by(2, Some(first)));
    world.write_as(41, 60, by(2, Some(second)));
    world.write_as(0, 50, by(1, None));
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    copy(&world, &store);
    let policy = Policy { rules: vec![Rule::Number(1)], failed_grace: SignedDuration::ZERO, ..Policy::default() };
    let now = Timestamp::now() + SignedDuration::from_hours(1);
    let plan = || {
        let archive = world.open_at(&store);
        let plan = archive.plan_prune(&policy, now, world.scratch.path()).unwrap();
        (archive, plan)
    };
    // Nobody tells yet that there ever was a second writer.
    assert_eq!(plan().1.retention.deletions().count(), 0);
    world.hand_out(&store, 2);
    let (archive, plan) = plan();
    let gone: Vec<&str> = plan.retention.deletions().map(Key::as_str).collect();
    assert!(gone.iter().any(|key| key.contains("/full/00000000000000000050-")), "{gone:?}");
    archive.prune(&plan, &policy, now).unwrap();
    world.require_at(&store, &At::Latest, 60);
}

fn list(world: &World, store: &Arc<dyn Store>) -> Vec<Key> {
    let listed = world.runtime.block_on(list_all(&**store, Listing::default())).unwrap();
    listed.into_iter().map(|info| info.key).collect()
}
