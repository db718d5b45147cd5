//! Fulls of ours that are put together of a chain, with no etcd: they carry all that goes on from them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "simulation/network.rs"]
#[allow(dead_code, reason = "only dying is needed of it")]
mod network;
#[path = "own_archives/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::closing::{Anchor, Compaction};
use archive::encryption::{ArchiveKey, KeyId, WritingKey};
use archive::merge::Made;
use archive::merge::plan::NewFull;
use archive::name::{FullForm, FullName, Name};
use archive::plan::{Known, Target, Wanted};
use archive::point::At;
use archive::publish::Writing;
use archive::sealing::{Keys, NoKeys};
use archive::{Error, Object, RestorePlan};
use bytes::Bytes;
use etcd_data::hash::hash_kv;
use etcd_data::{LeaseId, Revision};
use network::{Fate, Network, Sea};
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::download::list_all;
use store::{Key, Listing, Memory, Put, Store};
use testkit::ManualClock;
use world::{World, moment};

const LAST: i64 = 300;
/// Where the full is put together.
const MIDDLE: i64 = 200;
/// Up to where the cluster was compacted then, and from which revision on.
const COMPACT: (i64, i64) = (90, 130);

/// A chain whose objects tell all there is to tell: a full at 50, deltas of ten revisions.
fn chain() -> World {
    let world = World::new(&mut StdRng::seed_from_u64(3), LAST);
    let mut follows = world.write_as(0, 50, |_, closing| closing.leases = vec![(LeaseId(1), 10)]);
    for from in (51..LAST).step_by(10) {
        let to = from + 9;
        follows = world.write_as(from, to, |header, closing| {
            header.follows = Some(follows);
            // A lease more every hundred revisions; the first ends at 100.
            closing.leases =
                (1..=1 + to / 100).filter(|id| *id > 1 || to < 100).map(|id| (LeaseId(id), 10 * id)).collect();
            closing.auth_revision = Some(if to > 150 { 7 } else { 6 });
            if (from..=to).contains(&COMPACT.1) {
                closing.compactions =
                    vec![Compaction { noticed_at: Revision(COMPACT.1), compact: Revision(COMPACT.0) }];
            }
            if (from..=to).contains(&160) {
                closing.anchors = vec![anchor()];
            }
        });
    }
    world
}

fn anchor() -> Anchor {
    Anchor {
        revision: Revision(160),
        compact_revision: Some(Revision(COMPACT.0)),
        hash: 77,
        member: "m0".into(),
        taken: moment(160),
    }
}

fn new_full(archive: &Archive, world: &World) -> NewFull {
    let wanted = Wanted { lineage: None, target: Target::Revision(Revision(MIDDLE)) };
    let plan = RestorePlan::choose(archive.catalogue(), &wanted, &Known::default()).unwrap();
    let name = FullName { revision: Revision(MIDDLE), time: moment(MIDDLE), form: FullForm::Logical };
    NewFull { into: Name::Full(world.lineage.clone(), name), plan }
}

fn make(world: &World, store: &Arc<dyn Store>, key: Option<&ArchiveKey>) -> Result<Made, Error> {
    let archive = open(world, store, Arc::new(NoKeys));
    let recipients = vec!["age:somebody".to_owned()];
    let archive_key = key.cloned().map(|key| WritingKey { key, recipients, lockbox: None });
    let writing = Writing { now: moment(LAST), scratch: world.scratch.path(), archive_key };
    archive.make_full(&new_full(&archive, world), &writing)
}

fn open(world: &World, store: &Arc<dyn Store>, keys: Arc<dyn Keys + Send + Sync>) -> Archive {
    Archive::open(Arc::clone(store), world.runtime.handle().clone(), &Which::default(), keys).unwrap()
}

fn objects(world: &World, store: &Arc<dyn Store>) -> BTreeMap<Key, Bytes> {
    world.runtime.block_on(async {
        let mut objects = BTreeMap::new();
        for info in list_all(&**store, Listing::default()).await.unwrap() {
            let bytes = store.get(&info.key, 0..1 << 30).await.unwrap();
            objects.insert(info.key, bytes);
        }
        objects
    })
}

/// Deletes all that the full was made of.
fn forget(world: &World, made: &Key) {
    let archive = world.open();
    let is_old = |key: &Key, to: Option<Revision>| key != made && to <= Some(Revision(MIDDLE));
    let old = archive.catalogue().entries().filter(|entry| is_old(&entry.key, entry.to));
    let old: Vec<Key> = old.map(|entry| entry.key.clone()).collect();
    assert_eq!(old.len(), 16);
    for result in world.runtime.block_on(world.store.delete(&old)) {
        result.unwrap();
    }
}

/// Reads every point from the full on, and compares it with the truth.
fn require_all(world: &World, keys: &Arc<dyn Keys + Send + Sync>) {
    let archive = open(world, &world.store, Arc::clone(keys));
    let compact = Some(Revision(COMPACT.0));
    for revision in MIDDLE..=LAST {
        let agreed =
            archive.agree(&Wanted::default(), &At::Revision(Revision(revision)), world.scratch.path()).unwrap();
        assert_eq!(agreed.set_aside, []);
        let point = archive.open_whole(&agreed, world.scratch.path()).unwrap();
        let found = hash_kv(&point.database, Some(Revision(revision)), compact).unwrap();
        let expected = hash_kv(&world.truth, Some(Revision(revision)), compact).unwrap();
        assert_eq!(found.hash, expected.hash, "HashKV at {revision}");
        assert_eq!((point.revision, point.compacted), (Revision(revision), compact));
        assert_eq!(point.anchors, [anchor()], "{revision}");
        let leases: Vec<i64> = point.database.tables().leases().map(|lease| lease.unwrap().id).collect();
        let expected: Vec<i64> = if revision < LAST - 9 { vec![2, 3] } else { vec![2, 3, 4] };
        assert_eq!(leases, expected, "{revision}");
    }
    // Earlier ones as far as it has their history.
    for (revision, is_there) in [(MIDDLE - 1, true), (COMPACT.0, true), (COMPACT.0 - 1, false)] {
        let at = At::Revision(Revision(revision));
        let agreed = archive.agree(&Wanted::default(), &at, world.scratch.path());
        assert_eq!(agreed.is_ok(), is_there, "{revision}");
        let Ok(agreed) = agreed else { continue };
        let point = archive.open_whole(&agreed, world.scratch.path()).unwrap();
        let found = hash_kv(&point.database, Some(Revision(revision)), compact).unwrap();
        assert_eq!(found.hash, hash_kv(&world.truth, Some(Revision(revision)), compact).unwrap().hash, "{revision}");
    }
}

#[test]
fn a_full_that_was_put_together_carries_all_that_goes_on_from_it() {
    let world = chain();
    let made = make(&world, &world.store, None).unwrap();
    let written = made.written.unwrap();
    let before = objects(&world, &world.store);

    // Whoever makes it again finds it made, and changes nothing.
    assert_eq!(make(&world, &world.store, None).unwrap(), Made { key: made.key.clone(), written: None });
    assert!(objects(&world, &world.store) == before);

    let object = Object::open("made", Arc::new(before[&made.key].clone()), &NoKeys).unwrap();
    assert!(object.verify_digest().unwrap());
    assert_eq!((object.digest(), object.link()), (written.digest, written.link));
    let closing = object.closing().unwrap();
    assert_eq!(closing.auth_revision, Some(7));
    assert_eq!(closing.compactions, [Compaction { noticed_at: Revision(MIDDLE), compact: Revision(COMPACT.0) }]);
    let all = world.records.iter().filter(|record| record.at.main.0 <= MIDDLE).count() as u64;
    assert!(written.records < all, "what was compacted is left out");

    forget(&world, &made.key);
    require_all(&world, &(Arc::new(NoKeys) as _));
}

#[test]
fn a_full_that_is_killed_while_it_is_made_has_never_been() {
    let world = chain();
    let before = objects(&world, &world.store);
    for (piece_bytes, after) in [(64 << 20, false), (64 << 20, true), (1000, false), (1000, true)] {
        let memory = Arc::new(Memory::new());
        for (key, bytes) in &before {
            world.runtime.block_on(memory.put(key, bytes.clone(), &Put::default())).unwrap();
        }
        let fate = Fate { late: 0.0, dies: Some((1, after)), piece_bytes };
        let network = Network::new(Arc::clone(&memory), Sea::default(), ManualClock::at(moment(0)), moment(0), fate, 1);
        make(&world, &(Arc::new(network) as Arc<dyn Store>), None).unwrap_err();
        let store = memory as Arc<dyn Store>;
        let there = objects(&world, &store);
        assert_eq!(there.len(), before.len() + usize::from(after), "it is there as a whole, or not at all");
        // The next one makes it, or finds it made.
        let made = make(&world, &store, None).unwrap();
        assert_eq!(made.written.is_none(), after);
        let bytes = objects(&world, &store)[&made.key].clone();
        assert!(Object::open("made", Arc::new(bytes), &NoKeys).unwrap().verify_digest().unwrap());
    }
}

/// Somebody who has this key.
struct Holder(ArchiveKey);

impl Keys for Holder {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        Some(self.0.clone()).filter(|key| key.id() == id)
    }
}

#[test]
fn a_full_that_was_put_together_is_as_secret_as_is_asked_for() {
    let world = chain();
    let key = ArchiveKey::draw(world.cluster.id);
    let made = make(&world, &world.store, Some(&key)).unwrap();
    let bytes = objects(&world, &world.store)[&made.key].clone();
    let named = |id: KeyId| id == key.id();
    let header = archive::object::read_header(&bytes).unwrap();
    assert!(header.encryption.is_some_and(|encryption| named(encryption.archive_key)));
    let refused = Object::open("made", Arc::new(bytes), &NoKeys).map(drop);
    assert!(matches!(refused, Err(archive::error::ObjectError::NoKey { .. })), "{refused:?}");
    forget(&world, &made.key);
    require_all(&world, &(Arc::new(Holder(key)) as _));
}
