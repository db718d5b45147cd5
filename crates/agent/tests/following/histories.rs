//! Many histories, each of one seed.

use std::env;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand::Rng;
use tokio::time::Instant;

use crate::cluster::Whims;
use crate::time::in_its_own_time;
use crate::told::Told;
use crate::world::World;

const SEEDS: u64 = 300;

async fn history(seed: u64) -> Told {
    let began = Instant::now();
    let world = World::new(seed);
    let mut world = if seed % 3 == 1 { world.encrypted() } else { world };
    world.cluster.write(1);
    if seed.is_multiple_of(4) {
        world.cluster.whims(Whims { slow_snapshots: 1000, ..Whims::default() });
    }
    world.start(0).await;
    for _ in 0..world.random.random_range(20..70) {
        world.turn().await;
    }
    world.heal().await;
    world.compare().await;
    let mut told = std::mem::take(&mut world.told);
    told.histories = 1;
    told.seconds = began.elapsed().as_secs();
    told.of_etcd = world.cluster.mishaps();
    world.faulty.iter().for_each(|faulty| told.of_the_store += faulty.injected());
    told
}

/// Those of `seeds` that nobody else has taken yet, one after the other.
fn histories(next: &AtomicU64, end: u64) -> Told {
    let mut told = Told::default();
    loop {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= end {
            return told;
        }
        let done = catch_unwind(AssertUnwindSafe(|| in_its_own_time(|| history(seed))));
        told.add(&done.unwrap_or_else(|panic| {
            println!("SIMULATION_SEED={seed} runs this one alone");
            // Nobody begins another one.
            next.store(end, Ordering::SeqCst);
            resume_unwind(panic)
        }));
    }
}

#[test]
fn whatever_happens_the_archive_ends_where_the_cluster_is_and_tells_no_lies() {
    let only = env::var("SIMULATION_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = env::var("SIMULATION_SEEDS").map_or_else(|_| testkit::cases(SEEDS), |seeds| seeds.parse().unwrap());
    let seeds = only.map_or(0..seeds, |seed| seed..seed + 1);
    let next = AtomicU64::new(seeds.start);
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let mut all = Told::default();
    thread::scope(|scope| {
        let under_way: Vec<_> = (0..at_once).map(|_| scope.spawn(|| histories(&next, seeds.end))).collect();
        for some in under_way {
            all.add(&some.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    let (histories, turns, points, faults) = (all.histories, all.turns, all.points_compared, all.of_the_store.total());
    let counted = format!(
        "{histories} histories, {turns} turns, {points} points restored and compared, {faults} faults of the store"
    );
    testkit::keep_counts("following", &format!("{counted}: {all:?}"));
    println!("{counted}: {all:#?}");
}
