//! Archives of ours: written, merged and read again, compared at every step with the history that went into them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::sync::Arc;

use archive::LineageId;
use archive::about::LineageNote;
use archive::closing::Moment;
use archive::header::{FORMAT, PROGRAM};
use archive::merge::plan::{MergePlan, MergePolicy};
use archive::name::Name;
use archive::plan::{Known, Remark, Wanted};
use archive::point::At;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::download::list_all;
use store::{Abilities, Listing, Memory, Put, Store};
use world::{BEGAN, World, moment};

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

#[test]
fn a_moment_is_a_revision_of_the_lineage_that_it_was_found_in() {
    let mut world = World::new(&mut StdRng::seed_from_u64(3), 200);
    let first = world.lineage.clone();
    let full = world.write(0, 100, None);
    world.write(101, 200, Some(full));
    // Somebody restores revision 150, ten seconds after 200 was written, and goes on from there.
    world.lineage = LineageId::new(moment(210), 2);
    let note = LineageNote {
        format: FORMAT,
        lineage: world.lineage.clone(),
        parent: None,
        began: moment(210),
        why: "restored".into(),
        program: PROGRAM.into(),
    };
    let key = world.open().key(&Name::Lineage(world.lineage.clone()));
    world
        .runtime
        .block_on(world.store.put(&key, serde_json::to_vec(&note).unwrap().into(), &Put::if_absent()))
        .unwrap();
    let full = world.write_as(0, 150, |header, _| header.seen = (moment(210), moment(210)));
    world.write_as(151, 200, |header, closing| {
        (header.follows, header.seen) = (Some(full), (moment(211), moment(260)));
        let later = |at: i64| Moment { second: BEGAN + 60 + at, revision: Revision(at) };
        closing.moments = (151..=200).map(later).collect();
    });

    let archive = world.open();
    let at = |second: i64| archive.agree(&Wanted::default(), &At::Time(moment(second)), world.scratch.path()).unwrap();
    for (second, lineage, revision) in
        [(190, &first, 190), (205, &first, 200), (210, &world.lineage, 150), (250, &world.lineage, 190)]
    {
        let agreed = at(second);
        assert_eq!(agreed.plan.base.lineage.as_ref(), Some(lineage), "at {second}");
        assert_eq!(agreed.plan.target, Some(Revision(revision)), "at {second}");
        let is_told = agreed.plan.remarks.iter().any(|remark| matches!(remark, Remark::OlderLineage { .. }));
        assert_eq!(is_told, *lineage == first, "at {second}");
    }
    // Who asks for a lineage gets that one.
    let wanted = Wanted { lineage: Some(first.clone()), ..Wanted::default() };
    let agreed = archive.agree(&wanted, &At::Time(moment(250)), world.scratch.path()).unwrap();
    assert_eq!((agreed.plan.base.lineage.as_ref(), agreed.plan.target), (Some(&first), Some(Revision(200))));
}

#[test]
fn where_nothing_can_be_put_conditionally_nothing_is_written_over() {
    let world = World::new(&mut StdRng::seed_from_u64(4), 60);
    let full = world.write(0, 20, None);
    world.write(21, 40, Some(full));
    let abilities = Abilities { put_if_absent: false, put_if_unchanged: false, ..world.store.abilities() };
    let store: Arc<dyn Store> = Arc::new(Memory::new().with_abilities(abilities));
    world.runtime.block_on(async {
        for info in list_all(&*world.store, Listing::default()).await.unwrap() {
            let bytes = world.store.get(&info.key, 0..info.size_bytes).await.unwrap();
            store.put(&info.key, bytes, &Put::default()).await.unwrap();
        }
    });
    let archive = world.open_at(&store);
    let agreed = archive.agree(&Wanted::default(), &At::Latest, world.scratch.path()).unwrap();
    let full = archive.full_of(&agreed).unwrap();
    assert!(archive.make_full(&full, &world.writing(40)).unwrap().written.is_some());
    assert!(archive.make_full(&full, &world.writing(40)).unwrap().written.is_none());
    world.require_at(&store, &At::Latest, 40);
}
