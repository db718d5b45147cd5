//! Objects of a writer whom nobody let write, that take from the others: what is restored is what the others wrote, and the
//! object is named. Where nothing tells who was let write, the latest writer is believed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use archive::agree::Agreed;
use archive::header::Link;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::plan::Wanted;
use archive::{At, Epoch, LineageId};
use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::Key;
use world::{World, moment};

const LAST: i64 = 120;

/// A full of 40 and deltas of 20 revisions each by writer 1; and what writer 9 says that it wrote: a delta from 61 to 95, or a
/// full of 80.
fn world(stranger: (i64, i64)) -> (World, Key) {
    let world = World::new(&mut StdRng::seed_from_u64(6), LAST);
    let full = world.write(0, 40, None);
    let before = world.write(41, 60, Some(full));
    let mut follows = before;
    for from in (61..LAST).step_by(20) {
        follows = world.write(from, from + 19, Some(follows));
    }
    let (from, to) = stranger;
    world.write_as(from, to, |header, _| {
        header.epoch = Epoch(9);
        header.follows = (from > 0).then_some(before);
    });
    let name = match from {
        0 => {
            let name = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
            Name::Full(world.lineage.clone(), name)
        }
        _ => Name::Delta(world.lineage.clone(), DeltaName { level: 0, from: Revision(from), to: Revision(to) }),
    };
    let key = world.open().key(&name);
    (world, key)
}

fn latest(world: &World) -> Agreed {
    world.open().agree(&Wanted::default(), &At::Latest, world.scratch.path()).unwrap()
}

fn set_aside(agreed: &Agreed) -> Vec<&Key> {
    agreed.set_aside.iter().map(|(key, _)| key).collect()
}

#[test]
fn what_nobody_let_write_is_named_and_what_the_others_wrote_is_restored() {
    for stranger in [(61, 95), (0, 80)] {
        let (world, key) = world(stranger);
        world.hand_out(&world.store, 1);
        let agreed = latest(&world);
        assert_eq!(set_aside(&agreed), [&key]);
        let why = &agreed.set_aside[0].1;
        assert!(why.contains("writer 9") && why.contains("after 1"), "{why}");
        assert!(agreed.plan.objects().all(|entry| entry.key != key), "{}", agreed.plan);

        let archive = world.open();
        let point = archive.open_whole(&agreed, world.scratch.path()).unwrap();
        assert_eq!(point.revision, Revision(LAST));
        let found = hash_kv(&point.database, None, None).unwrap();
        assert_eq!(found.hash, hash_kv(&world.truth, None, None).unwrap().hash);
        // Whoever lists points, or goes on where the archive ends, makes the same of it.
        assert_eq!(archive.overreaching().unwrap().iter().map(|(key, _)| key).collect::<Vec<_>>(), [&key]);
        let tip = archive.tip(world.scratch.path()).unwrap().unwrap();
        assert_eq!((tip.revision, tip.epoch), (Revision(LAST), Epoch(1)));
    }
}

#[test]
fn where_it_was_let_write_or_nothing_tells_the_latest_writer_is_believed() {
    for (stranger, reached) in [((61, 95), 95), ((0, 80), 80)] {
        for handed_out in [Some(9), None] {
            let (world, key) = world(stranger);
            handed_out.into_iter().for_each(|epoch| world.hand_out(&world.store, epoch));
            let agreed = latest(&world);
            assert_eq!(agreed.plan.target, Some(Revision(reached)), "{handed_out:?}: {}", agreed.plan);
            assert!(agreed.plan.objects().any(|entry| entry.key == key));
            assert!(!set_aside(&agreed).contains(&&key));
        }
    }
}

#[test]
fn what_nobody_else_wrote_is_restored_whoever_wrote_it() {
    // Part of a copy that was made by other means: its objects are later than its `writer.json`.
    let world = World::new(&mut StdRng::seed_from_u64(7), LAST);
    let full = world.write(0, 40, None);
    let before = world.write(41, 80, Some(full));
    world.write_as(81, LAST, |header, _| (header.epoch, header.follows) = (Epoch(2), Some(before)));
    world.hand_out(&world.store, 1);
    world.require(&At::Latest, LAST);
    assert_eq!(highest_epoch(&world), Epoch(2), "the next one comes after it");
}

/// Whoever writes next has a higher one.
fn highest_epoch(world: &World) -> Epoch {
    world.open().highest_epoch(world.scratch.path()).unwrap()
}

#[test]
fn where_nothing_tells_who_was_let_write_the_next_one_comes_after_everybody_who_wrote_anything() {
    let mut world = World::new(&mut StdRng::seed_from_u64(8), LAST);
    assert_eq!(highest_epoch(&world), Epoch(0));
    // What led to what writer 9 wrote is missing, so that the archive ends before it.
    let full = world.write(0, 40, None);
    let before = world.write(41, 60, Some(full));
    world.write_as(81, 100, |header, _| (header.epoch, header.follows) = (Epoch(9), Some(Link([9; 32]))));
    let tip = |world: &World| world.open().tip(world.scratch.path()).unwrap().unwrap();
    assert_eq!((tip(&world).revision, tip(&world).epoch), (Revision(60), Epoch(1)));
    assert_eq!(highest_epoch(&world), Epoch(9));
    // Whoever goes on from there counts to the end, and not only to where writer 9 began.
    world.write_as(61, LAST, |header, _| (header.epoch, header.follows) = (Epoch(10), Some(before)));
    world.require(&At::Latest, LAST);

    // Where a lineage has begun since, it is not only its writers that count.
    world.lineage = LineageId::new(moment(LAST), 2);
    world.write(0, LAST, None);
    assert_eq!(tip(&world).epoch, Epoch(1));
    assert_eq!(highest_epoch(&world), Epoch(10));
    // Where it is told who was let write, nobody else becomes entitled.
    world.hand_out(&world.store, 3);
    assert_eq!(highest_epoch(&world), Epoch(3));
}
