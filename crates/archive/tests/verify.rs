//! Archives of ours that are checked: sound ones are recorded as proven, and of damaged ones is said what is wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::check::{Anchors, CheckPlan, Checking, Choice, Finding, Place, Report};
use archive::closing::Anchor;
use archive::encryption::{ArchiveKey, KeyId, Keyring, LocalKey, Lockboxes, Recipient};
use archive::header::Link;
use archive::merge::plan::Merge;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::plan::Part;
use archive::proof::Level;
use archive::sealing::{Keys, NoKeys};
use archive::{Cluster, Epoch};
use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::{Key, Put, Store};
use testkit::faulty_store::{Faults, FaultyStore};
use world::{World, moment};

/// A full of revision 100 and deltas up to 160, 20 revisions each.
fn world() -> World {
    let world = World::new(&mut StdRng::seed_from_u64(3), 180);
    let mut follows = Some(world.write(0, 100, None));
    for from in [101, 121, 141] {
        follows = Some(world.write(from, from + 19, follows));
    }
    world
}

impl World {
    fn check_with(&self, archive: &Archive, choice: &Choice, anchors: Option<Anchors>, now: i64) -> Report {
        let recorded = archive.proven().unwrap();
        let plan = CheckPlan::choose(archive.catalogue(), choice);
        let checking = Checking {
            recorded: &recorded,
            anchors,
            scratch: self.scratch.path(),
            record: Some(Timestamp::from_second(now).unwrap()),
            tell: &|_, _| {},
        };
        archive.check(&plan, &checking).unwrap()
    }

    fn check(&self) -> Report {
        self.check_with(&self.open_damaged(), &Choice::default(), None, 1_800_000_000)
    }

    fn open_damaged(&self) -> Archive {
        let handle = self.runtime.handle().clone();
        Archive::open_damaged(Arc::clone(&self.store), handle, &Which::default(), Arc::new(NoKeys)).unwrap().0
    }

    fn delta(&self, from: i64, to: i64) -> Key {
        Key::parse(format!("prod/{}/delta/0/{from:020}-{to:020}.delta", self.lineage)).unwrap()
    }

    fn merged(&self, level: u8, from: i64, to: i64) -> Key {
        Key::parse(format!("prod/{}/delta/{level}/{from:020}-{to:020}.delta", self.lineage)).unwrap()
    }

    fn full(&self, to: i64) -> Key {
        self.full_of(to, moment(to))
    }

    fn full_of(&self, to: i64, time: Timestamp) -> Key {
        let name = FullName { revision: Revision(to), time, form: FullForm::Logical };
        Key::parse(format!("prod/{}", Name::Full(self.lineage.clone(), name))).unwrap()
    }

    /// Calls the full as if it had been taken so many seconds later.
    fn call_taken(&self, seconds: i64) {
        let bytes = self.get(&self.full(100));
        self.delete(&self.full(100));
        self.put(&self.full_of(100, moment(100 + seconds)), bytes);
    }

    /// Merges the deltas from `from` to `to`, and tells where that is.
    fn merge(&self, from: i64, to: i64) -> Key {
        let archive = self.open();
        let is_within =
            |entry: &&archive::Entry| entry.changes().is_some_and(|range| range.from.0 >= from && range.to.0 <= to);
        let deltas = archive.catalogue().entries().filter(is_within);
        let sources = deltas.map(|entry| Part { take: entry.changes().unwrap(), entry: entry.clone() }).collect();
        let into = DeltaName { level: 1, from: Revision(from), to: Revision(to) };
        let into = Name::Delta(self.lineage.clone(), into);
        let made = archive.merge(&Merge { into, sources, rivals: Vec::new() }, &self.writing(170)).unwrap();
        made.written.unwrap();
        made.key
    }

    fn get(&self, key: &Key) -> Vec<u8> {
        self.runtime.block_on(self.store.get(key, 0..u64::MAX)).unwrap().to_vec()
    }

    fn put(&self, key: &Key, bytes: Vec<u8>) {
        self.runtime.block_on(self.store.put(key, bytes.into(), &Put::default())).unwrap();
    }

    fn delete(&self, key: &Key) {
        self.runtime.block_on(self.store.delete(std::slice::from_ref(key))).remove(0).unwrap();
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.get(key);
        change(&mut bytes);
        self.put(key, bytes);
    }

    fn put_beside(&self, name: &str, bytes: &str) {
        self.put(&Key::parse(format!("prod/{name}")).unwrap(), bytes.into());
    }

    fn proven(&self, level: Level) -> BTreeSet<Key> {
        let archive = self.open();
        let recorded = archive.proven().unwrap();
        archive.proven_objects(&recorded.proven, level).unwrap().into_keys().collect()
    }

    /// What is found, in short: the name of the object or of what it is about, and the finding's.
    fn found(&self, report: &Report) -> Vec<String> {
        let in_objects = report.objects.iter().flat_map(|object| {
            let first = object.entry.changes().map_or(0, |changes| changes.from.0);
            let name = format!("{first}-{}", object.entry.to.unwrap());
            object.findings.iter().map(move |finding| format!("{name} {}", word(finding)))
        });
        let others = report.others.iter().map(|(place, finding)| {
            let name = match place {
                Place::Object(key) => key.as_str().rsplit('/').next().unwrap(),
                Place::Lineage(_) => "lineage",
                Place::Archive => "archive",
            };
            format!("{name} {}", word(finding))
        });
        in_objects.chain(others).collect()
    }
}

/// The innermost word that names a finding.
fn word(finding: &Finding) -> String {
    let first = |shown: &str| shown.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
    match finding {
        Finding::Place(fault) => first(&format!("{fault:?}")),
        Finding::Data(data) => first(&format!("{data:?}")),
        other => first(&format!("{other:?}")),
    }
}

#[test]
fn what_is_sound_is_recorded_and_not_read_again() {
    let world = world();
    let report = world.check();
    assert_eq!((world.found(&report), report.has_findings(), report.recorded), (vec![], false, 4));
    assert!(report.objects.iter().all(|object| object.level == Some(Level::Sound) && object.records > 0));
    let records: u64 = report.objects.iter().map(|object| object.records).sum();
    let written = world.records.iter().filter(|record| record.at.main <= Revision(160));
    assert_eq!(records, written.count() as u64);
    let proven = world.proven(Level::Sound);
    assert_eq!(proven.len(), 4);

    let only_new = |proven| Choice { proven: Some(proven), ..Choice::default() };
    let archive = world.open();
    assert_eq!(CheckPlan::choose(archive.catalogue(), &only_new(proven.clone())).due, []);
    let report = world.check_with(&archive, &only_new(proven.clone()), None, 1_800_000_001);
    assert_eq!((report.objects.len(), report.has_findings(), report.recorded), (0, false, 0));

    // Of what comes later, only that is read, and held against what is there.
    world.write_as(161, 180, |header, _| header.follows = Some(Link([9; 32])));
    let report = world.check_with(&world.open(), &only_new(proven), None, 1_800_000_002);
    assert_eq!(world.found(&report), ["161-180 Link"]);
}

#[test]
fn of_a_writer_whom_nobody_let_write_its_own_object_alone_is_wrong() {
    let world = world();
    let before = bytes::Bytes::from(world.get(&world.delta(101, 120)));
    let before = archive::Object::open("", Arc::new(before), &NoKeys).unwrap().link();
    world.write_as(121, 150, |header, _| (header.epoch, header.follows) = (Epoch(9), Some(before)));
    world.hand_out(&world.store, 1);
    assert_eq!(world.found(&world.check()), ["121-150 Epoch"]);
}

/// One kind of damage, and what is to be found then.
type Case = (&'static str, fn(&World), &'static [&'static str]);

const CASES: &[Case] = &[
    ("a flip in a header", |world| flip(world, |_| 30), &["121-140 Digest", "121-140 Object"]),
    ("a flip in a chunk", |world| flip(world, |len| len / 2), &["121-140 Digest", "121-140 Elsewhere"]),
    ("a flip in the index", |world| flip(world, |len| len - 110), &["121-140 Digest", "121-140 Object"]),
    ("a flip in the tail", |world| flip(world, |len| len - 60), &["121-140 Digest", "121-140 Object"]),
    ("a flip in the digest", |world| flip(world, |len| len - 20), &["121-140 Digest"]),
    ("a flip in the last bytes", |world| flip(world, |len| len - 2), &["121-140 Object"]),
    (
        "cut short",
        |world| world.change(&world.delta(121, 140), |bytes| bytes.truncate(bytes.len() / 2)),
        &["121-140 Object"],
    ),
    ("emptied", |world| world.change(&world.delta(121, 140), Vec::clear), &["121-140 Object"]),
    (
        "something else under its name",
        |world| world.change(&world.delta(121, 140), |bytes| bytes.fill(b'x')),
        &["121-140 Object"],
    ),
    (
        "two that swapped names",
        |world| {
            let (one, two) = (world.delta(101, 120), world.delta(121, 140));
            let (first, second) = (world.get(&one), world.get(&two));
            world.put(&one, second);
            world.put(&two, first);
        },
        &["101-120 Range", "121-140 Range"],
    ),
    (
        "one of another cluster",
        |world| {
            replace(world, |header, _| {
                let id = archive::identity::ClusterUid(8);
                header.cluster = Cluster { name: "prod".into(), id };
            });
        },
        &["121-140 Cluster"],
    ),
    (
        "one of another lineage",
        |world| replace(world, |header, _| header.lineage = archive::LineageId::new(moment(0), 2)),
        &["121-140 Lineage"],
    ),
    (
        "one that follows on something else",
        |world| replace(world, |header, _| header.follows = Some(Link([9; 32]))),
        &["121-140 Link", "141-160 Link"],
    ),
    (
        "an older one put back",
        |world| replace(world, |header, _| header.epoch = Epoch(0)),
        &["121-140 Deposed", "141-160 Link"],
    ),
    ("one that is missing", |world| world.delete(&world.delta(121, 140)), &["lineage Hole"]),
    ("the full that is missing", |world| world.delete(&world.full(100)), &["lineage Baseless"]),
    ("a full that is called taken later", |world| world.call_taken(1000), &["0-100 Taken"]),
    ("a full that is called taken earlier", |world| world.call_taken(-1), &["0-100 Taken"]),
    (
        "a full that follows on something",
        |world| {
            world.delete(&world.full(100));
            let full = world.write(0, 100, Some(Link([9; 32])));
            let mut follows = Some(full);
            for from in [101, 121, 141] {
                world.delete(&world.delta(from, from + 19));
                follows = Some(world.write(from, from + 19, follows));
            }
        },
        &["0-100 FollowingFull"],
    ),
    (
        "a delta that is called merged",
        |world| {
            let bytes = world.get(&world.delta(121, 140));
            world.delete(&world.delta(121, 140));
            world.put(&world.merged(1, 121, 140), bytes);
        },
        &["121-140 Level"],
    ),
    (
        "a merged delta that is called an original",
        |world| {
            let merged = world.merge(121, 160);
            let bytes = world.get(&merged);
            world.delete(&merged);
            world.put(&world.merged(0, 121, 160), bytes);
        },
        &["121-160 Level"],
    ),
    (
        "a merged delta of an older writer",
        |world| {
            let merged = world.merge(121, 160);
            let told = opened(&world.get(&merged)).header().clone();
            world.delete(&merged);
            let place = world.merged(0, 121, 160);
            world.write_as(121, 160, |header, _| {
                (header.epoch, header.follows, header.stands_for) = (Epoch(0), told.follows, told.stands_for);
            });
            let bytes = world.get(&place);
            world.delete(&place);
            world.put(&merged, bytes);
        },
        &["121-160 Deposed", "121-160 OtherWriter"],
    ),
    (
        "what is told of a full that is not there",
        |world| world.put_beside(&format!("{}/full/{:020}-20261121T093001Z.full.json", world.lineage, 150), "{}"),
        &["00000000000000000150-20261121T093001Z.full.json LoneNote"],
    ),
    (
        "moments that run backwards",
        |world| replace_alike(world, |_, closing| closing.moments.reverse()),
        &["121-140 Closing"],
    ),
    ("no word of the lineage", |world| world.delete(&sign(world, "lineage.json")), &["lineage.json Missing"]),
    (
        "the lineage's word damaged",
        |world| world.put(&sign(world, "lineage.json"), "{".into()),
        &["lineage.json Unreadable"],
    ),
    ("the cluster's word damaged", |world| world.put_beside("cluster.json", "{"), &["cluster.json Unreadable"]),
    (
        "the cluster's word of a newer format",
        |world| world.put_beside("cluster.json", "{\"format\": 2}"),
        &["cluster.json Unreadable"],
    ),
    ("the writer's word damaged", |world| world.put_beside("writer.json", "[]"), &["writer.json Unreadable"]),
    (
        "a proof damaged",
        |world| world.put(&sign(world, "proof/20261121T093000Z-00000000.json"), "[]".into()),
        &["20261121T093000Z-00000000.json Unreadable"],
    ),
];

fn opened(bytes: &[u8]) -> archive::Object {
    archive::Object::open("", Arc::new(bytes::Bytes::copy_from_slice(bytes)), &NoKeys).unwrap()
}

fn sign(world: &World, name: &str) -> Key {
    Key::parse(format!("prod/{}/{name}", world.lineage)).unwrap()
}

fn flip(world: &World, at: fn(usize) -> usize) {
    world.change(&world.delta(121, 140), |bytes| {
        let at = at(bytes.len());
        bytes[at] ^= 0x10;
    });
}

/// Writes the delta from 121 to 140 anew, with what `change` makes of it.
fn replace(world: &World, change: impl FnOnce(&mut archive::Header, &mut archive::Closing)) {
    rewrite(world, change);
}

fn rewrite(world: &World, change: impl FnOnce(&mut archive::Header, &mut archive::Closing)) -> Link {
    let link =
        archive::object::Object::open("", Arc::new(bytes::Bytes::from(world.get(&world.delta(121, 140)))), &NoKeys)
            .unwrap()
            .header()
            .follows;
    world.delete(&world.delta(121, 140));
    world.write_as(121, 140, |header, closing| {
        header.follows = link;
        change(header, closing);
    })
}

/// The same, and what follows on it too.
fn replace_alike(world: &World, change: impl FnOnce(&mut archive::Header, &mut archive::Closing)) {
    let link = rewrite(world, change);
    world.delete(&world.delta(141, 160));
    world.write(141, 160, Some(link));
}

#[test]
fn every_damage_is_named_as_what_it_is_and_nothing_else_is_found() {
    for (name, damage, expected) in CASES {
        let world = world();
        damage(&world);
        let report = world.check();
        let found: BTreeSet<String> = world.found(&report).into_iter().collect();
        assert_eq!(found, expected.iter().map(ToString::to_string).collect(), "{name}");
        assert!(report.has_findings(), "{name}");
        for object in &report.objects {
            let is_sound = object.level == Some(Level::Sound);
            assert_eq!(is_sound, object.findings.is_empty(), "{name}: {}", object.entry.key);
        }
    }
}

/// Whoever takes a full adds a second as long as its name is taken, and merging leaves levels out.
#[test]
fn what_is_called_otherwise_for_a_reason_is_sound() {
    for seconds in [1, 7] {
        let world = world();
        world.call_taken(seconds);
        let merged = world.merge(121, 160);
        world.put(&world.merged(5, 121, 160), world.get(&merged));
        assert_eq!(world.found(&world.check()), Vec::<String>::new(), "{seconds} s later");
    }
}

#[test]
fn what_decays_is_no_longer_proven() {
    let world = world();
    world.check();
    assert_eq!(world.proven(Level::Sound).len(), 4);
    flip(&world, |len| len / 2);
    // Its end says the same as before, so until somebody looks it counts as it did.
    assert_eq!(world.proven(Level::Sound).len(), 4);
    world.check_with(&world.open(), &Choice::default(), None, 1_800_000_010);
    let left = world.proven(Level::Sound);
    assert_eq!((left.len(), left.contains(&world.delta(121, 140))), (3, false));
    // Back as it was, it is proven anew.
    flip(&world, |len| len / 2);
    world.check_with(&world.open(), &Choice::default(), None, 1_800_000_020);
    assert_eq!(world.proven(Level::Sound).len(), 4);
}

#[test]
fn what_cannot_be_reached_is_neither_damaged_nor_missing() {
    let world = world();
    let faulty = Arc::new(FaultyStore::new(Arc::clone(&world.store), Faults::NONE, 1));
    let store = Arc::clone(&faulty) as Arc<dyn Store>;
    let handle = world.runtime.handle().clone();
    let archive = Archive::open(store, handle, &Which::default(), Arc::new(NoKeys)).unwrap();
    let recorded = archive.proven().unwrap();
    faulty.cut_off(true);
    let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
    let scratch = world.scratch.path();
    let checking = Checking { recorded: &recorded, anchors: None, scratch, record: None, tell: &|_, _| {} };
    let report = archive.check(&plan, &checking).unwrap();
    assert_eq!(world.found(&report), Vec::<String>::new());
    assert!(report.objects.iter().all(|object| object.unreached.is_some() && object.level.is_none()));
    let kinds: BTreeSet<String> = report.unreached().map(|(_, error)| format!("{:?}", error.kind())).collect();
    assert_eq!(kinds, BTreeSet::from(["Unavailable".into()]));
}

struct One(ArchiveKey);

impl Keys for One {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        [self.0.clone()].archive_key(id)
    }
}

#[test]
fn without_a_key_bytes_are_checked_and_what_is_in_them_is_said_not_to_be() {
    let mut world = World::new(&mut StdRng::seed_from_u64(3), 120);
    let key = ArchiveKey::draw(world.cluster.id);
    world.archive_key = Some(key.clone());
    let full = world.write(0, 100, None);
    world.write(101, 120, Some(full));

    let lockbox = format!("{}.json", key.id());
    let report = world.check();
    assert_eq!(world.found(&report), [format!("{lockbox} Lockbox")], "without it nobody can read them ever again");
    let told =
        "it is not there: 2 objects that were checked are encrypted with its key, and nothing at hand gives that";
    assert_eq!(report.others[0].1.to_string(), told);
    assert!(report.objects.iter().all(|object| object.level == Some(Level::Sealed) && object.unreached.is_some()));
    let kinds: BTreeSet<String> = report.unreached().map(|(_, error)| format!("{:?}", error.kind())).collect();
    assert_eq!(kinds, BTreeSet::from(["Denied".into()]));
    assert_eq!((world.proven(Level::Sealed).len(), world.proven(Level::Sound).len()), (2, 0));

    world.put_beside(&format!("keys/{lockbox}"), "{}");
    let (store, handle) = (Arc::clone(&world.store), world.runtime.handle().clone());
    let archive = Archive::open(store, handle, &Which::default(), Arc::new(One(key))).unwrap();
    let report = world.check_with(&archive, &Choice::default(), None, 1_800_000_010);
    assert_eq!(world.found(&report), [format!("{lockbox} Lockbox")]);
    assert!(matches!(report.others[0].1, Finding::Lockbox { objects: 2, opens: true, .. }), "{:?}", report.others);
    assert!(report.objects.iter().all(|object| object.level == Some(Level::Sound)));

    let none = Choice { proven: Some(world.proven(Level::Sound)), ..Choice::default() };
    let report = world.check_with(&archive, &none, None, 1_800_000_020);
    assert!(matches!(report.others[..], [(_, Finding::Lockbox { objects: 0, .. })]), "{:?}", report.others);
}

#[test]
fn a_lock_that_was_changed_is_found_also_where_another_opens() {
    let mut world = World::new(&mut StdRng::seed_from_u64(3), 100);
    let key_file = |name: &str, byte: &str| {
        let path = world.scratch.path().join(name);
        std::fs::write(&path, byte.repeat(32)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        LocalKey::read(&path).unwrap()
    };
    let (mine, yours) = (key_file("mine", "2a"), key_file("yours", "2b"));
    let both = [mine.clone(), yours.clone()].map(Recipient::KeyFile);
    let lockboxes =
        Lockboxes { store: &*world.store, folder: "prod/", cluster: &world.cluster, keyring: &Keyring::new() };
    let drawn = world.runtime.block_on(lockboxes.draw(&both, moment(0))).unwrap();
    let mut lockbox = drawn.lockbox.unwrap();
    world.archive_key = Some(drawn.key);
    world.write(0, 100, None);
    let place = Key::parse(format!("prod/keys/{}.json", lockbox.id)).unwrap();

    let check = |keys: &[&LocalKey]| {
        let mut keyring = Keyring::new();
        keys.iter().for_each(|key| keyring.add_recipient(&Recipient::KeyFile((*key).clone())));
        let (mut archive, keyring) = (world.open(), Arc::new(keyring));
        archive.unlock_with(Arc::clone(&keyring));
        let mut report = world.check_with(&archive, &Choice::default(), None, 1_800_000_000);
        archive.check_locks(&keyring, &mut report);
        report.others.into_iter().map(|(place, finding)| format!("{place}: {finding}")).collect::<Vec<_>>()
    };
    assert_eq!(check(&[&mine, &yours]), Vec::<String>::new());
    // Another lock in the place of the one that there was.
    lockbox.locks[0].locked = lockbox.locks[1].locked.clone();
    world.put(&place, lockbox.to_bytes());
    let told = |rest: &str| format!("{place}: what it is locked with for {} was changed: {rest}", mine.name());
    assert_eq!(check(&[&mine, &yours]), [told("that key does not open it any more, and another at hand does")]);
    let found = check(&[&mine]).concat();
    assert!(found.starts_with(&format!("{place}: what archive key {} was locked with for", lockbox.id)), "{found}");
    assert!(found.ends_with(": 1 object that was checked is encrypted with its key, and nothing at hand gives that"));
    assert_eq!(check(&[&yours]), Vec::<String>::new(), "nobody can tell without the key");
    // What cannot be a lock is none with any key.
    lockbox.locks[0].locked = "?".into();
    world.put(&place, lockbox.to_bytes());
    assert_eq!(check(&[&yours]), [told("that key does not open it any more, and another at hand does")]);
}

#[test]
fn a_full_of_which_nothing_is_told_is_found() {
    let world = world();
    let name = FullName { revision: Revision(160), time: moment(160), form: FullForm::Plain };
    let key = Key::parse(format!("prod/{}", Name::Full(world.lineage.clone(), name))).unwrap();
    world.put(&key, b"whatever it is".to_vec());
    let report = world.check();
    let full = report.objects.iter().find(|object| object.entry.key == key).unwrap();
    assert!(matches!(full.findings[0], Finding::NoNote), "{:?}", full.findings);
    assert!(full.unreached.is_none() && full.level.is_none());
}

fn anchor(world: &World, revision: i64, compact: Option<i64>) -> Anchor {
    let (revision, compact_revision) = (Revision(revision), compact.map(Revision));
    let hash = hash_kv(&world.truth, Some(revision), compact_revision).unwrap().hash;
    Anchor { revision, compact_revision, hash, member: "m0".into(), taken: moment(revision.0) }
}

/// A full and deltas, twice, with anchors in the deltas that `wrong` may spoil.
fn anchored_world(wrong: Option<i64>) -> World {
    let world = World::new(&mut StdRng::seed_from_u64(5), 200);
    let take = |revision: i64, compact: Option<i64>| {
        let mut anchor = anchor(&world, revision, compact);
        anchor.hash ^= u32::from(wrong == Some(revision));
        anchor
    };
    let mut follows = None;
    for (from, to, anchors) in [
        (0, 50, vec![]),
        (51, 80, vec![take(60, None), take(80, Some(40))]),
        (81, 120, vec![take(100, Some(70))]),
        (121, 150, vec![]),
        (0, 150, vec![]),
        (151, 200, vec![take(190, Some(70))]),
    ] {
        let stands_for = if (from, to) == (0, 150) { follows } else { None };
        let link = world.write_as(from, to, |header, closing| {
            (header.follows, header.stands_for) = if from == 0 { (None, stands_for) } else { (follows, None) };
            closing.anchors = anchors;
        });
        follows = Some(link);
    }
    world
}

#[test]
fn what_is_rebuilt_at_every_anchor_is_what_live_members_had() {
    let world = anchored_world(None);
    let report = world.check_with(&world.open(), &Choice::default(), Some(Anchors::All), 1_800_000_000);
    assert_eq!((world.found(&report), report.anchors), (vec![], 4));
    let levels: BTreeMap<Option<Revision>, Option<Level>> = report
        .objects
        .iter()
        .filter(|object| !object.entry.is_full())
        .map(|object| (object.entry.to, object.level))
        .collect();
    // Beyond the last anchor of a chain nothing is compared.
    let expected = [(80, Level::Anchored), (120, Level::Sound), (150, Level::Sound), (200, Level::Sound)];
    assert_eq!(levels, expected.map(|(to, level)| (Some(Revision(to)), Some(level))).into());
    let fulls: Vec<_> = report.objects.iter().filter(|object| object.entry.is_full()).map(|full| full.level).collect();
    assert_eq!(fulls, [Some(Level::Anchored); 2]);
    assert_eq!(world.proven(Level::Anchored).len(), 3);
    let report = world.check_with(&world.open(), &Choice::default(), Some(Anchors::Newest), 1_800_000_000);
    assert_eq!((world.found(&report), report.anchors), (vec![], 2));
}

#[test]
fn an_anchor_that_differs_is_found() {
    for (wrong, place) in [(60, "51-80"), (100, "81-120"), (190, "151-200")] {
        let world = anchored_world(Some(wrong));
        assert_eq!(world.found(&world.check()), Vec::<String>::new(), "only rebuilding shows it");
        let report = world.check_with(&world.open(), &Choice::default(), Some(Anchors::All), 1_800_000_010);
        assert_eq!((world.found(&report), report.anchors), (vec![format!("{place} Anchor")], 3));
        let at = report.objects.iter().find(|object| object.is_wrong()).unwrap();
        assert_eq!(at.level, Some(Level::Sealed));
        assert!(!world.proven(Level::Sound).contains(&at.entry.key), "what was recorded before is refuted");
    }
}
