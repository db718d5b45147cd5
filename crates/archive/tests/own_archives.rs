//! Archives of ours: written, merged and read again, compared at every step with the history that went into them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use archive::merge_plan::{MergePlan, MergePolicy};
use archive::plan::Known;
use archive::point::At;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use world::{World, moment};

#[test]
fn what_was_written_is_read_at_every_revision_and_moment_before_and_after_it_was_merged() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let last = 600;
        let world = World::new(&mut random, last);
        let base = random.random_range(2..100);
        let mut follows = Some(world.write(0, base, None));
        let mut reached = base;
        while reached < last {
            let to = (reached + random.random_range(1..12)).min(last);
            follows = Some(world.write(reached + 1, to, follows));
            reached = to;
        }
        let points: Vec<i64> = (0..12).map(|_| random.random_range(base..=last)).chain([base, last]).collect();
        let check = || -> usize {
            points.iter().for_each(|&at| {
                world.require(&At::Time(moment(at)), at);
            });
            points.iter().map(|&at| world.require(&At::Revision(Revision(at)), at)).max().unwrap()
        };
        let before = check();

        let policy = MergePolicy::default();
        // Deltas count for when the store got them, which was just now.
        let now = Timestamp::now() + SignedDuration::from_hours(48);
        for _ in 0..20 {
            let archive = world.open();
            let plan = MergePlan::choose(archive.catalogue(), &policy, &Known::default(), now);
            if plan.merges.is_empty() {
                break;
            }
            for merge in &plan.merges {
                assert!(archive.merge(merge, &world.writing(last)).unwrap().written.is_some());
                // Whoever else makes the same finds it made.
                assert!(archive.merge(merge, &world.writing(last)).unwrap().written.is_none());
            }
        }
        let after = check();
        println!("at the most {before} objects before merging, {after} after");
        assert!(after < before);
    }
}
