//! Objects that turn out to be of no use when a point is opened: another way leads there, and it is told what was wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use archive::Object;
use archive::header::Link;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::plan::Wanted;
use archive::point::At;
use archive::sealing::NoKeys;
use bytes::Bytes;
use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::sync::Arc;
use store::{Key, Put};
use world::{World, moment};

const LAST: i64 = 160;

/// A chain of 41 to 160 on a full at 40, and a full at 80 that stands for `stands_for`, or came from etcd.
fn chain(stands_for: Option<Link>) -> World {
    let world = World::new(&mut StdRng::seed_from_u64(5), LAST);
    let mut follows = world.write(0, 40, None);
    for from in (41..LAST).step_by(40) {
        follows = world.write(from, from + 39, Some(follows));
    }
    world.write_as(0, 80, |header, _| header.stands_for = stands_for);
    world
}

fn full(world: &World, revision: i64) -> Key {
    let name = FullName { revision: Revision(revision), time: moment(revision), form: FullForm::Logical };
    world.open().key(&Name::Full(world.lineage.clone(), name))
}

fn delta(world: &World, from: i64, to: i64) -> Key {
    let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
    world.open().key(&Name::Delta(world.lineage.clone(), name))
}

/// Restores the latest point, and tells what could not be used for it.
fn set_aside(world: &World) -> Vec<Key> {
    let archive = world.open();
    let agreed = archive.agree(&Wanted::default(), &At::Latest, world.scratch.path()).unwrap();
    let point = archive.open_whole(&agreed, world.scratch.path()).unwrap();
    assert_eq!(point.revision, Revision(LAST));
    let found = hash_kv(&point.database, None, None).unwrap();
    assert_eq!(found.hash, hash_kv(&world.truth, None, None).unwrap().hash);
    agreed.set_aside.into_iter().map(|(key, _)| key).collect()
}

fn change(world: &World, key: &Key, change: impl FnOnce(&mut Vec<u8>)) {
    world.runtime.block_on(async {
        let mut bytes = world.store.get(key, 0..1 << 30).await.unwrap().to_vec();
        change(&mut bytes);
        world.store.put(key, bytes.into(), &Put::default()).await.unwrap();
    });
}

#[test]
fn a_full_that_the_next_delta_does_not_follow_on_takes_no_delta_with_it() {
    let world = chain(Some(Link([9; 32])));
    assert_eq!(set_aside(&world), [full(&world, 80)]);
}

#[test]
fn a_delta_that_follows_on_nothing_there_takes_no_full_with_it() {
    let world = chain(None);
    assert_eq!(set_aside(&world), []);
    // Put in the place of the one that followed on 41-80: now nothing leads further, and that alone is why.
    let key = delta(&world, 81, 120);
    world.runtime.block_on(world.store.delete(std::slice::from_ref(&key)));
    world.write(81, 120, Some(Link([8; 32])));
    let wanted = At::Revision(Revision(100));
    world.runtime.block_on(world.store.delete(&[full(&world, 80)]));
    let refused = world.open().agree(&Wanted::default(), &wanted, world.scratch.path()).map(drop).unwrap_err();
    let archive::Error::NothingLeft { set_aside, .. } = refused else { panic!("{refused}") };
    assert_eq!(set_aside.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key]);
}

#[test]
fn a_full_whose_tables_are_damaged_is_gone_around() {
    let world = chain(None);
    let key = full(&world, 80);
    change(&world, &key, |bytes| {
        let object = Object::open("full", Arc::new(Bytes::from(bytes.clone())), &NoKeys).unwrap();
        let last = object.chunk_facts().last().unwrap();
        // Right behind the records.
        bytes[(last.stored_at + last.stored_bytes) as usize + 3] ^= 1;
    });
    assert_eq!(set_aside(&world), [key]);
}

#[test]
fn a_delta_whose_closing_is_damaged_is_done_without_and_named() {
    let world = chain(None);
    let key = delta(&world, 121, 160);
    change(&world, &key, |bytes| {
        let object = Object::open("delta", Arc::new(Bytes::from(bytes.clone())), &NoKeys).unwrap();
        let last = object.chunk_facts().last().unwrap();
        bytes[(last.stored_at + last.stored_bytes) as usize + 3] ^= 1;
    });
    let archive = world.open();
    let agreed = archive.agree(&Wanted::default(), &At::Latest, world.scratch.path()).unwrap();
    assert_eq!(agreed.plan.target, Some(Revision(120)));
    assert_eq!(agreed.set_aside.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&key]);
}

#[test]
fn a_snapshot_that_is_not_as_it_was_made_is_not_read() {
    use archive::about::FullNote;
    use archive::header::Header;
    use etcd_data::export::{Against, export};
    use sha2::{Digest, Sha256};

    let world = chain(None);
    let path = world.scratch.path().join("snapshot.db");
    let source = world.truth.clone().cut_after(Revision(120));
    export(&source, Some(Revision(120)), &Against::default(), &path, &mut |_| {}).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let told = world.open();
    let agreed = told.agree(&Wanted::default(), &At::Revision(Revision(40)), world.scratch.path()).unwrap();
    let header = told.headers([&agreed.plan.base]).remove(0).1.unwrap();
    let header = Header { to: Revision(120), ..header };
    let note = FullNote { header, sha256: Link(Sha256::digest(&bytes).into()), size_bytes: bytes.len() as u64 };
    let name = FullName { revision: Revision(120), time: moment(120), form: FullForm::Plain };
    let key = told.key(&Name::Full(world.lineage.clone(), name));
    let beside = Key::parse(format!("{key}.json")).unwrap();
    let json = serde_json::to_vec(&note).unwrap();
    world.runtime.block_on(world.store.put(&beside, json.into(), &Put::default())).unwrap();
    world.runtime.block_on(world.store.put(&key, bytes.into(), &Put::default())).unwrap();
    assert_eq!(set_aside(&world), []);

    // A byte of a value: its page reads as well as before.
    change(&world, &key, |bytes| {
        let at = bytes.windows(6).rposition(|window| window == b"noise\"").unwrap();
        bytes[at + 9] ^= 1;
    });
    assert_eq!(set_aside(&world), [key]);
}

#[test]
fn records_that_are_damaged_in_the_middle_are_seen_by_whoever_builds_and_gone_around() {
    let world = chain(None);
    let key = full(&world, 80);
    change(&world, &key, |bytes| {
        let object = Object::open("full", Arc::new(Bytes::from(bytes.clone())), &NoKeys).unwrap();
        let first = object.chunk_facts().next().unwrap();
        bytes[(first.stored_at + first.stored_bytes / 2) as usize] ^= 1;
    });
    let (archive, at) = (world.open(), At::Latest);
    let build = |point: &archive::rebuild::BuildPoint| {
        hash_kv(&point.opened.database, None, None).map_err(etcd_data::restore::RestoreError::View)
    };
    let (point, hash) = archive.build(&Wanted::default(), &at, world.scratch.path(), build).unwrap();
    assert_eq!(hash.hash, hash_kv(&world.truth, None, None).unwrap().hash);
    assert_eq!(point.agreed.set_aside.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&key]);
}
