//! An archive in bad weather: one seed, one history.
//!
//! A cluster goes on, is compacted, and is followed by two writers that take turns in random order. They have to pass the
//! fence, are paused, killed at any request and started again, and take over from each other; two keepers merge, prove
//! and retire with plans that may be old by the time they are carried out; a reader restores in between. The store
//! fails, stalls, loses answers, lists what is no longer so, lists twice and in any order, forgets uploads, carries out late what
//! nobody waits for, and has a clock that may be an hour off.
//!
//! What holds at every step, and is checked on the store itself:
//!
//! - what was acknowledged to a writer that reigned can be restored, unless a retention plan was allowed to retire it;
//!   it equals the cluster at that revision: HashKV, where it was compacted, leases
//! - a restore that succeeds is right, or there is an error: holes are not jumped
//! - where the writer who reigns wrote, nothing of another is taken
//! - what is listed is whole
//! - another cluster that is pointed at the place is refused
//!
//! At the end the store heals, and `latest`, points drawn by lot and all that was acknowledged are compared again.
//!
//! `SIMULATION_SEED=7` runs that seed alone; a failure names it. `SIMULATION_SEEDS=100000` runs more than usual.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(clippy::print_stdout, reason = "seeds and counts are shown")]

mod etcd;
mod keeper;
mod network;
mod told;
mod world;
mod writer;

use std::collections::BTreeSet;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::Duration;

use archive::about::ClusterNote;
use archive::agree::Agreed;
use archive::archive::Archive;
use archive::fence::FenceError;
use archive::founding::found_cluster;
use archive::header::{FORMAT, PROGRAM};
use archive::identity::ClusterUid;
use archive::plan::{Known, Points, Wanted};
use archive::point::At;
use archive::sealing::NoKeys;
use archive::{Cluster, Error, Object};
use etcd_data::Revision;
use rand::Rng;
use tokio::runtime::Handle;

use keeper::Keeper;
use told::Told;
use world::{Post, World, cluster};
use writer::Writer;

const SEEDS: u64 = 2000;
/// In fewer histories, something may not happen by chance.
const FEW: u64 = 50;
/// Most are short, so that there are many; what takes a long history is in one of eight.
const TURNS: [usize; 8] = [40, 50, 60, 60, 80, 80, 100, 240];

/// One who restores, and takes its time for it.
struct Reader {
    post: Post,
    found: Option<(Archive, Agreed, At)>,
}

impl Reader {
    fn turn(&mut self, world: &mut World) {
        if let Some((archive, agreed, at)) = self.found.take() {
            return world.compare(&archive, &agreed, &at, false);
        }
        let Ok(archive) = world.open(&self.post.store) else { return };
        let revision = world.random.random_range(2..=world.etcd.current);
        let at = match world.random.random_range(0..3) {
            0 => At::Latest,
            1 => At::Revision(Revision(revision)),
            _ => At::Time(world.etcd.moment(revision)),
        };
        match archive.agree(&Wanted::default(), &at, &world.scratch) {
            Ok(agreed) => self.found = Some((archive, agreed, at)),
            Err(_) => world.told.restores_refused += 1,
        }
    }
}

fn run(seed: u64, runtime: &Handle, scratch: &Path) -> Told {
    let mut world = World::new(seed, runtime.clone(), scratch.to_owned());
    let mut writers = [0, 1].map(|name| Writer::new(&mut world, name));
    let mut keepers = [0, 1].map(|_| Keeper::new(&mut world));
    let mut reader = Reader { post: world.post(false), found: None };
    let has_force = world.random.random_bool(0.3);
    let busy = world.random.random_range(1..4);
    for _ in 0..TURNS[(seed % 8) as usize] {
        world.told.turns += 1;
        world.clock.advance(Duration::from_millis(world.random.random_range(0..8000)));
        let now = world.time();
        world.arrivals(now);
        for _ in 0..world.random.random_range(0..=busy) {
            let now = world.now();
            // The borrow of the dice ends before the cluster goes on.
            let mut random = world.random.clone();
            world.etcd.go_on(&mut random, now);
            world.random = random;
        }
        if world.random.random_bool(0.02) {
            let mut random = world.random.clone();
            world.etcd.compact(&mut random);
            world.random = random;
        }
        match world.random.random_range(0..10) {
            0..6 => {
                let writer = &mut writers[world.random.random_range(0..2)];
                if writer.paused_until <= now {
                    writer.turn(&mut world);
                }
                mishap(&mut world, writer, has_force);
            }
            6..9 => keepers[world.random.random_range(0..2)].turn(&mut world),
            _ => reader.turn(&mut world),
        }
        if world.random.random_bool(0.02) {
            other_cluster(&mut world);
        }
        if world.random.random_bool(0.1) {
            check_one(&mut world);
        }
    }
    finish(world, &writers, &keepers, reader)
}

fn mishap(world: &mut World, writer: &mut Writer, has_force: bool) {
    if world.random.random_bool(0.03) {
        writer.paused_until = world.time() + Duration::from_secs(world.random.random_range(0..400));
    }
    if world.random.random_bool(0.02) {
        writer.restart(world);
    }
    if has_force && world.random.random_bool(0.02) {
        writer.believe_the_other_gone();
    }
    if world.random.random_bool(0.01) {
        writer.release(world);
    }
}

/// Somebody has pointed another cluster at this place.
fn other_cluster(world: &mut World) {
    if world.truth().is_none() {
        return;
    }
    let theirs = Cluster { name: "prod".into(), id: ClusterUid(8) };
    let note = ClusterNote { format: FORMAT, cluster: theirs, made: world.now(), program: PROGRAM.into() };
    let found = world.runtime.block_on(found_cluster(&*world.memory, "prod/", &note));
    assert!(matches!(found, Err(Error::Fence(FenceError::OtherCluster { .. }))), "{found:?}");
    assert_eq!(world.truth().unwrap().cluster(), Some(&cluster()));
    world.told.other_clusters_refused += 1;
}

/// Something that was acknowledged, and the newest of it.
fn check_one(world: &mut World) {
    let kept: Vec<i64> = world.acknowledged.keys().copied().filter(|at| !world.may_be_retired(*at)).collect();
    let Some(newest) = kept.last().copied() else { return };
    let any = kept[world.random.random_range(0..kept.len())];
    for revision in BTreeSet::from([any, newest]) {
        world.require(revision);
    }
}

/// The store heals, and all that is at sea arrives: what was acknowledged is there.
fn finish(mut world: World, writers: &[Writer], keepers: &[Keeper], reader: Reader) -> Told {
    world.arrivals(Duration::MAX);
    for post in writers.iter().map(Writer::post).chain(keepers.iter().map(Keeper::post)).chain([&reader.post]) {
        world.closed(post);
    }
    if let Some(archive) = world.truth() {
        let store = archive.store().clone();
        let known = archive.known_by_headers().unwrap();
        for entry in archive.catalogue().entries() {
            let bytes = world.runtime.block_on(store.get(&entry.key, 0..1 << 30)).unwrap();
            let object = Object::open(entry.key.as_str(), std::sync::Arc::new(bytes), &NoKeys).unwrap();
            assert!(object.verify_digest().unwrap(), "{} is torn", entry.key);
        }
        check_all(&world, &archive, &known);
        for _ in 0..3 {
            check_one(&mut world);
        }
        if let Ok(agreed) = archive.agree(&Wanted::default(), &At::Latest, &world.scratch) {
            let newest = world.acknowledged.last_key_value().map_or(0, |(newest, _)| *newest);
            assert!(agreed.plan.target.unwrap().0 >= newest, "{:?}\n{}", agreed.plan.target, world.listing());
            world.compare(&archive, &agreed, &At::Latest, true);
        } else {
            assert!(world.acknowledged.is_empty(), "nothing is left\n{}", world.listing());
        }
    }
    world.told.seeds = 1;
    world.told
}

/// All that was acknowledged, as far as plans go.
fn check_all(world: &World, archive: &Archive, known: &Known) {
    let points = Points::of(archive.catalogue(), known);
    for revision in world.acknowledged.keys().copied().filter(|at| !world.may_be_retired(*at)) {
        let is_in = points.lineages.iter().flat_map(|lineage| &lineage.ranges);
        let is_in = is_in.into_iter().any(|range| (range.from..=range.to).contains(&Revision(revision)));
        assert!(is_in, "revision {revision} was acknowledged, and no plan leads there\n{}", world.listing());
    }
}

#[test]
fn whatever_happens_what_was_sealed_is_restored_as_the_cluster_had_it() {
    // Time is tokio's own and goes on when all wait, so that no pause takes any.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let handle = runtime.handle().clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let driver = std::thread::spawn(move || runtime.block_on(stopped));

    let only: Option<u64> = env::var("SIMULATION_SEED").ok().map(|seed| seed.parse().unwrap());
    let seeds = env::var("SIMULATION_SEEDS").map_or_else(|_| testkit::cases(SEEDS), |seeds| seeds.parse().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let mut all = Told::default();
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let ran = catch_unwind(AssertUnwindSafe(|| run(seed, &handle, scratch.path())));
        let told = ran.unwrap_or_else(|panic| {
            println!("SIMULATION_SEED={seed}");
            resume_unwind(panic)
        });
        all.add(&told);
    }
    println!("{all:#?}");
    let (seeds, faults) = (all.seeds, all.injected.total());
    testkit::keep_counts("simulation", &format!("{seeds} histories, {faults} faults of the store: {all:?}"));
    assert!(seeds < FEW || !all.is_tame(), "the histories are too tame");
    stop.send(()).unwrap();
    drop(driver.join().unwrap());
}
