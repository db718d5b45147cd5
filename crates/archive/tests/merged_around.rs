//! Objects that cannot be merged: everything around them is, and what is wrong with them is told.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::sync::Arc;

use archive::Error;
use archive::merge::plan::MergePolicy;
use archive::name::{DeltaName, Name};
use archive::point::At;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Epoch, Object};
use etcd_data::Revision;
use jiff::SignedDuration;
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::{Key, Put};
use world::{World, moment};

const LAST: i64 = 200;

/// Two windows of merging, and one of fulls.
fn policy() -> MergePolicy {
    MergePolicy {
        windows: [50, 100].map(SignedDuration::from_secs).to_vec(),
        full_window: Some(SignedDuration::from_secs(400)),
        settle: SignedDuration::ZERO,
        lineage: None,
    }
}

/// A full at 10, and a delta for every ten revisions after that.
fn chain() -> World {
    let world = World::new(&mut StdRng::seed_from_u64(5), LAST);
    let mut follows = world.write(0, 10, None);
    for from in (11..LAST).step_by(10) {
        follows = world.write(from, from + 9, Some(follows));
    }
    world
}

fn delta(world: &World, level: u8, from: i64, to: i64) -> Key {
    world.open().key(&Name::Delta(world.lineage.clone(), DeltaName { level, from: Revision(from), to: Revision(to) }))
}

fn change(world: &World, key: &Key, change: impl FnOnce(&mut Vec<u8>)) {
    world.runtime.block_on(async {
        let mut bytes = world.store.get(key, 0..1 << 30).await.unwrap().to_vec();
        change(&mut bytes);
        world.store.put(key, bytes.into(), &Put::default()).await.unwrap();
    });
}

/// Merges until nothing more is made, and makes the full that is due; gives that, and the first error.
fn merge(world: &World) -> (Option<Error>, Option<Key>) {
    let writing = Writing { now: moment(900), ..world.writing(LAST) };
    let mut failed = None;
    loop {
        let archive = world.open();
        let mut made = false;
        let due = archive.merge_due(&policy(), &writing, |_, done| match done {
            Ok(one) => made |= one.written.is_some(),
            Err(error) => drop(failed.get_or_insert(error)),
        });
        let due = due.unwrap();
        if made {
            continue;
        }
        let full = due.and_then(|due| archive.make_due_full(&due, &writing).unwrap());
        return (failed, full.map(|full| full.key));
    }
}

fn is_there(world: &World, key: &Key) -> bool {
    world.open().catalogue().entries().any(|entry| entry.key == *key)
}

#[track_caller]
fn require_merged_around(world: &World, damaged: &Key) {
    let (failed, full) = merge(world);
    let error = failed.map(|error| archive::error::in_one_line(&error));
    assert!(error.as_ref().is_some_and(|error| error.contains(damaged.as_str())), "{error:?}");
    // Its neighbours, and what has nothing to do with it.
    for (level, from, to) in [(2, 61, 90), (2, 11, 50), (2, 91, 190)] {
        assert!(is_there(world, &delta(world, level, from, to)), "{level}:{from}-{to}\n{:?}", keys(world));
    }
    assert!(full.is_some_and(|full| full.as_str().contains("/full/00000000000000000050-")), "{:?}", keys(world));
    world.require(&At::Revision(Revision(50)), 50);
}

fn keys(world: &World) -> Vec<String> {
    world.open().catalogue().entries().map(|entry| entry.key.to_string()).collect()
}

#[test]
fn a_delta_that_is_damaged_before_it_was_merged_keeps_no_other_from_it() {
    // In its header, its index, and its records.
    for place in 0..3 {
        let world = chain();
        let key = delta(&world, 0, 51, 60);
        change(&world, &key, |bytes| {
            let object = Object::open("delta", Arc::new(bytes::Bytes::from(bytes.clone())), &NoKeys).unwrap();
            let first = object.chunk_facts().next().unwrap();
            let at = match place {
                0 => 20,
                1 => bytes.len() - 60,
                _ => (first.stored_at + first.stored_bytes / 2) as usize,
            };
            bytes[at] ^= 1;
        });
        if place > 0 {
            require_merged_around(&world, &key);
        } else {
            // Whoever plans does without it.
            let (failed, full) = merge(&world);
            assert!(failed.is_none() && full.is_some(), "{failed:?} {full:?}");
            assert!(is_there(&world, &delta(&world, 2, 61, 90)) && is_there(&world, &delta(&world, 2, 11, 50)));
        }
    }
}

#[test]
fn a_delta_of_a_writer_who_had_been_replaced_keeps_no_other_from_being_merged() {
    let world = World::new(&mut StdRng::seed_from_u64(5), LAST);
    let mut follows = world.write(0, 10, None);
    for from in (11..LAST).step_by(10) {
        follows = world.write_as(from, from + 9, |header, _| {
            (header.follows, header.epoch) = (Some(follows), if from < 101 { Epoch(1) } else { Epoch(2) });
        });
    }
    // Sealed by the first one when the second one had begun.
    world.write_as(101, 125, |header, _| header.follows = None);
    let (failed, full) = merge(&world);
    assert!(failed.is_none(), "{failed:?}");
    for (level, from, to) in [(2, 11, 90), (2, 91, 190)] {
        assert!(is_there(&world, &delta(&world, level, from, to)), "{:?}", keys(&world));
    }
    assert!(full.is_some_and(|full| full.as_str().contains("/full/00000000000000000200-")), "{:?}", keys(&world));
    world.require(&At::Latest, LAST);
}
