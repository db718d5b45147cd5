//! What pruning leaves alone because it may only have been misunderstood: what was not there when it was asked for, what is
//! of a newer format, what was read wrongly once; what somebody without any right seems to have replaced; and what nothing
//! can replace, because what should has decayed, or cannot be read by anybody.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use archive::archive::{Archive, Which};
use archive::check::{CheckPlan, Checking, Choice};
use archive::copy::plan::Selection;
use archive::encryption::{Lock, Lockbox};
use archive::merge::plan::Merge;
use archive::name::{DeltaName, Name};
use archive::plan::Part as Taken;
use archive::proof::{Evidence, Item, Level, ObjectDigest, Refutation};
use archive::prune::{Gone, PrunePlan};
use archive::retention::{Block, Cause, Rule, Verdict};
use archive::sealing::NoKeys;
use archive::{At, Epoch, Error, Object, Policy};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Fault, Forward, Key, Memory, Put, Store, StoreError};
use world::{World, moment};

/// What a store answers of one object, though it is as it always was.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    Well,
    /// As if its volume were away.
    Away,
    Garbled,
}

/// A store that may be in a bad mood about one object.
#[derive(Debug)]
struct Moody {
    inner: Arc<dyn Store>,
    about: Key,
    mood: Mutex<Mood>,
}

impl Moody {
    fn becomes(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
}

#[async_trait]
impl Forward for Moody {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let mood = *self.mood.lock().unwrap();
        let bytes = self.inner.get(key, range).await?;
        match mood {
            Mood::Away if *key == self.about => Err(Fault::NotFound.at("reading", self.inner.place(), Some(key))),
            Mood::Garbled if *key == self.about => Ok(bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>().into()),
            _ => Ok(bytes),
        }
    }
}

/// Two fulls with a chain from one to the other and on, copied and so proven.
fn world() -> (World, Arc<dyn Store>) {
    let world = World::new(&mut StdRng::seed_from_u64(9), 60);
    write_twice(&world);
    let store = copied(&world);
    (world, store)
}

fn write_twice(world: &World) {
    write_chain(world);
    world.write(0, 40, None);
}

fn write_chain(world: &World) {
    let mut follows = world.write(0, 20, None);
    for from in [21, 41] {
        follows = world.write(from, from + 19, Some(follows));
    }
}

fn copied(world: &World) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let archive = world.open();
    let there = archive.copy_target(Arc::clone(&store)).unwrap();
    let plan = archive.plan_copy(&there, &Selection::All, None);
    archive.copy(&there, &plan, false, moment(60)).unwrap();
    store
}

/// Changes a byte in the first chunk of an object, as a disk does: what is at its end is as it was.
fn decay(world: &World, store: &Arc<dyn Store>, key: &Key) {
    world.runtime.block_on(async {
        let mut bytes = store.get(key, 0..1 << 30).await.unwrap().to_vec();
        let object = Object::open("it", Arc::new(Bytes::from(bytes.clone())), &NoKeys).unwrap();
        let chunk = object.chunk_facts().next().unwrap();
        bytes[(chunk.stored_at + chunk.stored_bytes / 2) as usize] ^= 1;
        store.put(key, bytes.into(), &Put::default()).await.unwrap();
    });
}

fn named(archive: &Archive, part: &str) -> Key {
    archive.catalogue().entries().find(|entry| entry.key.as_str().contains(part)).unwrap().key.clone()
}

/// Rules that keep all, so that whatever goes is taken for damaged.
fn policy() -> Policy {
    Policy { failed_grace: SignedDuration::ZERO, ..Policy::default() }
}

fn verdict(plan: &PrunePlan, key: &Key) -> Verdict {
    plan.retention.decisions.iter().find(|one| one.entry.key == *key).unwrap().verdict.clone()
}

fn moody(store: &Arc<dyn Store>, about: &Key) -> (Arc<Moody>, Arc<dyn Store>) {
    let moody = Moody { inner: Arc::clone(store), about: about.clone(), mood: Mutex::new(Mood::Well) };
    let moody = Arc::new(moody);
    (Arc::clone(&moody), moody)
}

/// When nothing is too young to go, and no proof is fresh any more.
fn later() -> Timestamp {
    Timestamp::now().max(moment(60)) + SignedDuration::from_hours(24 * 30)
}

/// Rules that keep as little as there can be.
fn sparing_one() -> Policy {
    Policy { rules: vec![Rule::Number(1)], ..Policy::default() }
}

fn doomed(plan: &PrunePlan) -> Vec<&str> {
    plan.retention.deletions().map(Key::name).collect()
}

#[test]
fn what_is_not_there_when_it_is_asked_for_is_not_deleted() {
    let (world, store) = world();
    let key = named(&world.open_at(&store), "/full/00000000000000000020-");
    let (moody, store) = moody(&store, &key);
    moody.becomes(Mood::Away);
    let archive = world.open_at(&store);
    let plan = archive.plan_prune(&policy(), later(), world.scratch.path()).unwrap();
    assert_eq!(verdict(&plan, &key), Verdict::Blocked(Cause::Failed, Block::Unsure), "{}", plan.retention);
    archive.prune(&plan, &policy(), later()).unwrap();
    moody.becomes(Mood::Well);
    world.require_at(&store, &At::Revision(Revision(30)), 30);
}

#[test]
fn what_was_read_wrongly_once_is_not_deleted() {
    let (world, store) = world();
    let key = named(&world.open_at(&store), "/full/00000000000000000020-");
    let (moody, store) = moody(&store, &key);
    moody.becomes(Mood::Garbled);
    let archive = world.open_at(&store);
    let plan = archive.plan_prune(&policy(), later(), world.scratch.path()).unwrap();
    assert_eq!(verdict(&plan, &key), Verdict::Delete(Cause::Failed), "{}", plan.retention);
    moody.becomes(Mood::Well);
    let pruned = archive.prune(&plan, &policy(), later()).unwrap();
    assert!(matches!(pruned.objects[..], [(ref gone, Gone::Changed)] if *gone == key), "{pruned:?}");
    world.require_at(&store, &At::Revision(Revision(30)), 30);

    // What is read wrongly each time is damaged.
    moody.becomes(Mood::Garbled);
    let pruned = archive.prune(&plan, &policy(), later()).unwrap();
    assert!(matches!(pruned.objects[..], [(ref gone, Gone::Deleted)] if *gone == key), "{pruned:?}");
}

#[test]
fn nothing_is_deleted_where_something_is_of_a_newer_format() {
    let (world, store) = world();
    let key = named(&world.open_at(&store), "/full/00000000000000000020-");
    world.runtime.block_on(async {
        let mut bytes = store.get(&key, 0..1 << 30).await.unwrap().to_vec();
        bytes[8] = 2;
        store.put(&key, bytes.into(), &Put::default()).await.unwrap();
    });
    let error = world.open_at(&store).plan_prune(&policy(), later(), world.scratch.path()).unwrap_err();
    assert!(matches!(&error, Error::Undecided { key: undecided, .. } if *undecided == key), "{error}");
}

#[test]
fn what_decayed_is_not_proven_any_more_though_a_clock_that_was_ahead_has_proven_it() {
    let (world, store) = world();
    let archive = world.open_at(&store);
    let key = named(&archive, "/full/00000000000000000040-");
    let recorded = archive.proven().unwrap();
    let before = archive.proven_objects(&recorded.proven, Level::Sealed).unwrap()[&key].clone();
    let ahead = Item { time: moment(60) + SignedDuration::from_hours(48), ..before };
    archive.record(&world.lineage, std::slice::from_ref(&ahead), ahead.time).unwrap();

    decay(&world, &store, &key);
    let archive = world.open_at(&store);
    let recorded = archive.proven().unwrap();
    let (scratch, record) = (world.scratch.path(), Some(moment(100)));
    let checking = Checking { recorded: &recorded, anchors: None, scratch, record, tell: &|_, _| {} };
    let report = archive.check(&CheckPlan::choose(archive.catalogue(), &Choice::default()), &checking).unwrap();
    assert!(report.has_findings() && report.not_recorded.is_none(), "{report:?}");

    let archive = world.open_at(&store);
    let recorded = archive.proven().unwrap();
    assert!(!archive.proven_objects(&recorded.proven, Level::Sealed).unwrap().contains_key(&key));
}

#[test]
fn what_nothing_can_replace_is_kept_for_longer_too() {
    let (mut world, store) = world();
    world.store = Arc::clone(&store);
    world.encrypt(0);
    let archive = world.open();
    let plan = archive.plan_prune(&policy(), later(), world.scratch.path()).unwrap();
    let due = archive.due_extensions(&plan, moment(10_000_000));
    let signs: Vec<&Key> = archive.catalogue().signs.iter().map(|sign| &sign.key).collect();
    assert!(signs.len() == 3, "{signs:?}");
    for sign in signs {
        assert!(due.iter().any(|(key, result)| key == sign && result.is_ok()), "{sign}");
    }
}

#[test]
fn proofs_of_what_is_gone_go_and_everything_stays_proven_as_it_was() {
    for seed in 0..10 {
        let mut random = StdRng::seed_from_u64(seed);
        let (world, store) = world();
        let archive = world.open_at(&store);
        let digest = |key: &Key| {
            let bytes = world.runtime.block_on(store.get(key, 0..1 << 30)).unwrap();
            ObjectDigest(Object::open("it", Arc::new(bytes), &NoKeys).unwrap().digest())
        };
        let objects: Vec<(String, ObjectDigest)> = archive
            .catalogue()
            .entries()
            .map(|entry| (archive.name_of(&entry.key).to_owned(), digest(&entry.key)))
            .collect();
        for round in 0..12 {
            let time = moment(100 + round);
            let (object, digest) = objects[random.random_range(0..objects.len())].clone();
            let gone = format!("{}/delta/0/{:020}-{:020}.delta", world.lineage, round + 2, round + 2);
            let evidence = Evidence::Sound { records: 1 };
            let mut items = vec![Item { object: gone, digest, time, evidence: evidence.clone() }];
            match random.random_range(0..3) {
                0 => {}
                1 => items.push(Item { object, digest, time, evidence }),
                _ => {
                    let refuted = Refutation { object, digest, time, finding: "gone bad".into() };
                    archive.refute(&world.lineage, &[refuted], time).unwrap();
                }
            }
            archive.record(&world.lineage, &items, time).unwrap();
        }
        let levels = || {
            let archive = world.open_at(&store);
            let recorded = archive.proven().unwrap();
            let proven = archive.proven_objects(&recorded.proven, Level::Sealed).unwrap();
            proven.into_iter().map(|(key, item)| (key, item.evidence.level())).collect::<Vec<_>>()
        };
        let (before, archive) = (levels(), world.open_at(&store));
        let policy = Policy { rules: vec![Rule::Window(SignedDuration::from_hours(24 * 365))], ..policy() };
        let plan = archive.plan_prune(&policy, later(), world.scratch.path()).unwrap();
        archive.prune(&plan, &policy, later()).unwrap();
        let (there, was) = (world.open_at(&store).catalogue().proofs.len(), archive.catalogue().proofs.len());
        if before.iter().any(|(key, _)| key.as_str().contains("/full/")) {
            assert!(there < was, "seed {seed}: {there} of {was}\n{}", plan.retention);
        }
        let stays: Vec<Key> = world.open_at(&store).catalogue().entries().map(|entry| entry.key.clone()).collect();
        let expected: Vec<_> = before.into_iter().filter(|(key, _)| stays.contains(key)).collect();
        assert_eq!(levels(), expected, "seed {seed}");
    }
}

#[test]
fn what_has_decayed_since_it_was_proven_replaces_nothing() {
    let (world, store) = world();
    let full = named(&world.open_at(&store), "/full/00000000000000000040-");
    let plan_at = |now| {
        let archive = world.open_at(&store);
        let plan = archive.plan_prune(&sparing_one(), now, world.scratch.path()).unwrap();
        (archive, plan)
    };
    let (_, sound) = plan_at(later());
    assert_eq!(doomed(&sound).len(), 2, "{}", sound.retention);
    decay(&world, &store, &full);
    // Somebody has read it within the day: whatever happened to it since is seen the next day.
    let soon = moment(60) + SignedDuration::from_hours(23);
    assert_eq!(doomed(&plan_at(soon).1).len(), 2);

    let (archive, plan) = plan_at(later());
    assert_eq!(doomed(&plan), [""; 0], "{}", plan.retention);
    assert_eq!(plan.unusable.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&full]);
    assert_eq!(verdict(&plan, &full), Verdict::Blocked(Cause::Failed, Block::Unsure));
    let pruned = archive.prune(&plan, &sparing_one(), later()).unwrap();
    assert!(pruned.unrecorded.is_none(), "{:?}", pruned.unrecorded);
    world.require_at(&store, &At::Revision(Revision(30)), 30);
    // From now on nobody takes it for proven.
    let recorded = world.open_at(&store).proven().unwrap();
    assert!(!world.open_at(&store).proven_objects(&recorded.proven, Level::Sealed).unwrap().contains_key(&full));
    assert_eq!(doomed(&plan_at(soon).1), [""; 0]);
}

#[test]
fn what_is_written_over_between_planning_and_pruning_replaces_nothing() {
    let (world, store) = world();
    let archive = world.open_at(&store);
    let full = named(&archive, "/full/00000000000000000040-");
    let plan = archive.plan_prune(&sparing_one(), later(), world.scratch.path()).unwrap();
    world.runtime.block_on(async {
        let longer = [store.get(&full, 0..1 << 30).await.unwrap(), vec![0].into()].concat();
        store.put(&full, longer.into(), &Put::default()).await.unwrap();
    });
    let pruned = archive.prune(&plan, &sparing_one(), later()).unwrap();
    assert_eq!(pruned.objects.len(), 2);
    assert!(pruned.objects.iter().all(|(_, gone)| matches!(gone, Gone::Changed)), "{pruned:?}");
}

#[test]
fn what_was_merged_into_something_that_has_decayed_stays() {
    let world = World::new(&mut StdRng::seed_from_u64(12), 60);
    write_chain(&world);
    let archive = world.open();
    let deltas = archive.catalogue().histories[0].deltas();
    let sources = deltas.iter().map(|entry| Taken { entry: entry.clone(), take: entry.changes().unwrap() }).collect();
    let into = DeltaName { level: 1, from: Revision(21), to: Revision(60) };
    let merge = Merge { into: Name::Delta(world.lineage.clone(), into), sources, rivals: Vec::new() };
    archive.merge(&merge, &world.writing(60)).unwrap();
    let store = copied(&world);
    let plan = || world.open_at(&store).plan_prune(&policy(), later(), world.scratch.path()).unwrap();
    assert_eq!(doomed(&plan()).len(), 2, "{}", plan().retention);
    decay(&world, &store, &named(&world.open_at(&store), "/delta/1/"));
    assert_eq!(doomed(&plan()), [""; 0], "{}", plan().retention);
}

#[test]
fn what_claims_an_epoch_that_nobody_had_takes_nothing_from_anybody() {
    let world = World::new(&mut StdRng::seed_from_u64(10), 60);
    write_chain(&world);
    world.write_as(0, 40, |header, _| header.epoch = Epoch(9));
    let store = copied(&world);
    let archive = world.open_at(&store);
    let (full, delta) = (named(&archive, "/full/00000000000000000040-"), named(&archive, "0041-"));
    let plan = || world.open_at(&store).plan_prune(&policy(), later(), world.scratch.path()).unwrap();
    // Where nobody tells which epochs there were, what another seems to have replaced is left alone.
    assert_eq!(doomed(&plan()), [""; 0], "{}", plan().retention);
    assert_eq!(verdict(&plan(), &delta), Verdict::Blocked(Cause::Failed, Block::Unsure));

    world.hand_out(&store, 1);
    let told = plan();
    assert_eq!(doomed(&told), [""; 0], "{}", told.retention);
    assert!(matches!(verdict(&told, &delta), Verdict::Keep(_)), "{}", told.retention);
    assert_eq!(verdict(&told, &full), Verdict::Blocked(Cause::Failed, Block::Unsure));
    assert_eq!(told.unusable.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&full]);

    // It was handed out: then it is the delta that does not count.
    world.hand_out(&store, 9);
    assert_eq!(verdict(&plan(), &delta), Verdict::Delete(Cause::Failed), "{}", plan().retention);
}

#[test]
fn what_a_replaced_writer_left_goes_at_a_copy_too() {
    let world = World::new(&mut StdRng::seed_from_u64(13), 60);
    let full = world.write(0, 20, None);
    let before = world.write(21, 40, Some(full));
    // Writer 1 woke up when writer 2 had gone on.
    world.write(41, 50, Some(before));
    world.write_as(41, 60, |header, _| (header.epoch, header.follows) = (Epoch(2), Some(before)));
    world.hand_out(&world.store, 2);
    let store = copied(&world);
    let archive = world.open_at(&store);
    let late = named(&archive, "041-00000000000000000050");
    let plan = archive.plan_prune(&policy(), later(), world.scratch.path()).unwrap();
    assert_eq!(verdict(&plan, &late), Verdict::Delete(Cause::Failed), "{}", plan.retention);
    assert_eq!(doomed(&plan), [late.name()], "{}", plan.retention);
}

#[test]
fn nothing_goes_while_a_lockbox_is_gone_without_which_nothing_can_be_read() {
    let mut world = World::new(&mut StdRng::seed_from_u64(11), 60);
    world.encrypt(0);
    write_twice(&world);
    let store = copied(&world);
    let id = world.key.as_ref().unwrap().id();
    let place = Key::parse(format!("prod/{}", Name::Lockbox(id))).unwrap();
    let bytes = world.runtime.block_on(store.get(&place, 0..1 << 20)).unwrap();
    let for_nobody = Lockbox::parse(id, &bytes).unwrap();
    let lock = Lock { method: "age".into(), recipient: "somebody".into(), locked: String::new() };
    let for_somebody = Lockbox { locks: vec![lock], ..for_nobody.clone() };
    let put = |bytes: Vec<u8>| world.runtime.block_on(store.put(&place, bytes.into(), &Put::default())).unwrap();

    let handle = world.runtime.handle();
    let without_key =
        || Archive::open(Arc::clone(&store), handle.clone(), &Which::default(), Arc::new(NoKeys)).unwrap();
    let plan = |archive: Archive| archive.plan_prune(&sparing_one(), later(), world.scratch.path());
    let refused = |archive: Archive| match plan(archive).unwrap_err() {
        Error::Lockbox { key, .. } => key,
        error => panic!("{error}: {error:?}"),
    };
    put(for_somebody.to_bytes());
    assert_eq!(doomed(&plan(world.open_at(&store)).unwrap()).len(), 2);
    // Who may not read can delete all the same, by what is proven.
    assert_eq!(doomed(&plan(without_key()).unwrap()).len(), 2);

    put(for_nobody.to_bytes());
    assert_eq!(refused(without_key()), place);
    put(b"{}".to_vec());
    assert_eq!((refused(without_key()), refused(world.open_at(&store))), (place.clone(), place.clone()));
    world.runtime.block_on(store.delete(std::slice::from_ref(&place))).remove(0).unwrap();
    assert_eq!((refused(without_key()), refused(world.open_at(&store))), (place.clone(), place));
}
