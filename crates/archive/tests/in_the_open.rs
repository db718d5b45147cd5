//! Archives that are encrypted, and objects in the open in them: those from before, and those that somebody put there.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::collections::BTreeSet;

use archive::Error;
use archive::check::{CheckPlan, Checking, Choice, Finding};
use archive::closing::Closing;
use archive::encryption::{KeyError, KeyId, Lockbox};
use archive::error::{ObjectError, in_one_line};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::merge::plan::MergePolicy;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::plan::{Remark, Wanted};
use archive::point::At;
use archive::publish::{Writing, make};
use archive::retention::{Policy, Rule, Verdict};
use archive::{Epoch, Header, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::{Revision, Tables};
use jiff::{SignedDuration, Timestamp};
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::{Key, Put};
use world::{World, moment};

const LAST: i64 = 170;

/// A full of revision 100 and a delta up to 120 in the open, encrypted since; deltas up to 160. And what the next delta
/// follows on.
fn world() -> (World, Link) {
    let mut world = World::new(&mut StdRng::seed_from_u64(11), LAST);
    let mut follows = world.write(0, 100, None);
    follows = world.write(101, 120, Some(follows));
    world.encrypt(120);
    for from in [121, 141] {
        follows = world.write(from, from + 19, Some(follows));
    }
    (world, follows)
}

/// Puts an object in the open there, without the archive's being asked, as somebody does who has no key: a full if
/// `from` is 0. It says that it was written two days after the archive was encrypted.
fn forge(world: &World, from: i64, to: i64, follows: Option<Link>) -> Key {
    let full = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
    let delta = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
    let (kind, name) = match from {
        0 => (ObjectKind::Full, Name::Full(world.lineage.clone(), full)),
        _ => (ObjectKind::Delta, Name::Delta(world.lineage.clone(), delta)),
    };
    let (cluster, lineage) = (world.cluster.clone(), world.lineage.clone());
    let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
    let original = Header::original(kind, cluster, lineage, Epoch(1), revisions, (moment(from), moment(to)));
    let header = Header { written: moment(120) + SignedDuration::from_hours(48), follows, ..original };
    let key = Key::parse(format!("prod/{name}")).unwrap();
    let settings = if from == 0 { WriteSettings::full() } else { WriteSettings::delta() };
    let writing = Writing { archive_key: None, ..world.writing(to) };
    let mut bytes = Vec::new();
    let made = make(&mut bytes, &key, header, settings, &writing, |making| {
        for record in world.records.iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
            making.push(record.at, &record.value).unwrap();
        }
        Ok((Closing::default(), (from == 0).then(Tables::default)))
    });
    made.unwrap();
    world.runtime.block_on(world.store.put(&key, bytes.into(), &Put::if_absent())).unwrap();
    key
}

/// One window of merging, that everything here is in.
fn one_window() -> MergePolicy {
    MergePolicy {
        windows: vec![SignedDuration::from_secs(1000)],
        full_window: None,
        settle: SignedDuration::ZERO,
        lineage: None,
    }
}

fn lockbox(world: &World) -> Key {
    let archive = world.open();
    let mut signs = archive.catalogue().signs.iter();
    signs.find(|sign| matches!(sign.about, Name::Lockbox(_))).unwrap().key.clone()
}

#[test]
fn what_was_written_before_counts_and_is_told() {
    let (world, _) = world();
    world.require(&At::Latest, 160);
    let agreed = world.open().agree(&Wanted::default(), &At::Latest, world.scratch.path()).unwrap();
    assert_eq!(agreed.plan.remarks, [Remark::InTheOpen { objects: 2, since: moment(120) }]);
}

#[test]
fn what_somebody_put_there_since_is_neither_used_nor_merged_nor_deleted_and_is_found() {
    let (world, follows) = world();
    // One that would be the shortest way, and one that would go on from the end.
    let forged = BTreeSet::from([forge(&world, 0, 155, None), forge(&world, 161, LAST, Some(follows))]);
    let archive = world.open();

    let agreed = archive.agree(&Wanted::default(), &At::Latest, world.scratch.path()).unwrap();
    let set_aside: BTreeSet<Key> = agreed.set_aside.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(set_aside, forged);
    assert!(agreed.set_aside.iter().all(|(_, why)| why.contains("not encrypted")), "{:?}", agreed.set_aside);
    let tip = archive.tip(world.scratch.path()).unwrap().unwrap();
    assert_eq!((tip.revision, tip.link), (Revision(160), Some(follows)));

    let due = archive.due(&one_window(), moment(5000)).unwrap();
    let sources: Vec<Key> =
        due.merges.iter().flat_map(|merge| &merge.sources).map(|part| part.entry.key.clone()).collect();
    assert!(!sources.is_empty() && sources.iter().all(|source| !forged.contains(source)), "{sources:?}");

    let recorded = archive.proven().unwrap();
    let record = Some(moment(5000));
    let scratch = world.scratch.path();
    let checking = Checking { recorded: &recorded, anchors: None, scratch, record, tell: &|_, _| {} };
    let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
    let report = archive.check(&plan, &checking).unwrap();
    let found: BTreeSet<Key> = report
        .objects
        .iter()
        .filter(|object| {
            object.findings.iter().any(|found| matches!(found, Finding::Object(ObjectError::InTheOpen { .. })))
        })
        .map(|object| object.entry.key.clone())
        .collect();
    assert_eq!(found, forged);

    let policy = Policy { rules: vec![Rule::Number(1)], ..Policy::default() };
    let now = moment(0) + SignedDuration::from_hours(24 * 365);
    let prune = world.open().plan_prune(&policy, now, scratch).unwrap();
    let deleted = prune.retention.decisions.iter().filter(|one| matches!(one.verdict, Verdict::Delete(_)));
    let deleted: Vec<&Key> = deleted.map(|one| &one.entry.key).filter(|key| forged.contains(*key)).collect();
    assert!(deleted.is_empty(), "{deleted:?}");
}

#[test]
fn what_lies_in_the_open_is_merged_only_for_somebody() {
    let mut world = World::new(&mut StdRng::seed_from_u64(12), LAST);
    let mut follows = world.write(0, 100, None);
    for from in [101, 111] {
        follows = world.write(from, from + 9, Some(follows));
    }
    world.encrypt(120);
    let merge = |archive_key| {
        let writing = Writing { archive_key, ..world.writing(5000) };
        let mut done = Vec::new();
        world.open().merge_due(&one_window(), &writing, |_, made| done.push(made)).unwrap();
        done.into_iter().next().unwrap()
    };
    let refused = merge(None).unwrap_err();
    assert!(matches!(refused, Error::Key(KeyError::ForWhom { .. })), "{refused:?}");
    let made = merge(world.writing(0).archive_key).unwrap();
    let archive = world.open();
    let entry = archive.catalogue().entries().find(|entry| entry.key == made.key).unwrap();
    let (_, header) = archive.headers([entry]).remove(0);
    assert!(header.unwrap().encryption.is_some());
    assert_eq!(world.require(&At::Latest, 120), 2);
}

#[test]
fn where_no_lockbox_can_be_read_nothing_in_the_open_counts_until_they_are_gone() {
    let (world, _) = world();
    let lockbox = lockbox(&world);
    let put = |bytes: &'static [u8]| {
        world.runtime.block_on(world.store.put(&lockbox, bytes.into(), &Put::default())).unwrap();
    };
    put(b"{}");
    let refused = world.open().agree(&Wanted::default(), &At::Revision(Revision(110)), world.scratch.path());
    let refused = in_one_line(&refused.err().unwrap());
    assert!(refused.contains("there is no full"), "{refused}");
    world.runtime.block_on(world.store.delete(std::slice::from_ref(&lockbox)));
    world.require(&At::Revision(Revision(110)), 110);
}

#[test]
fn what_is_encrypted_with_a_key_that_somebody_may_have_kept_is_merged_only_for_others() {
    let (world, _) = world();
    let place = lockbox(&world);
    world.runtime.block_on(async {
        let bytes = world.store.get(&place, 0..1 << 20).await.unwrap();
        let Name::Lockbox(id) = Name::parse(place.as_str().strip_prefix("prod/").unwrap()).unwrap() else { panic!() };
        let retired = Lockbox { superseded: Some(moment(160)), ..Lockbox::parse(id, &bytes).unwrap() };
        world.store.put(&place, retired.to_bytes().into(), &Put::default()).await.unwrap();
    });
    let mut refused = Vec::new();
    let writing = Writing { archive_key: None, ..world.writing(5000) };
    world.open().merge_due(&one_window(), &writing, |_, made| refused.extend(made.err())).unwrap();
    assert!(matches!(refused[..], [Error::Key(KeyError::ForWhom { .. })]), "{refused:?}");
}

/// What is not encrypted is compared with the time of the first lockbox, which may say anything.
#[test]
fn a_lockbox_from_either_end_of_time_is_compared_like_any_other() {
    for (created, counts) in [(Timestamp::MAX, true), (Timestamp::MIN, false)] {
        let world = World::new(&mut StdRng::seed_from_u64(13), LAST);
        let follows = world.write(0, 100, None);
        world.write(101, 120, Some(follows));
        let lockbox = Lockbox {
            format: FORMAT,
            cluster: world.cluster.clone(),
            id: KeyId(1),
            created,
            superseded: None,
            taken: Vec::new(),
            program: PROGRAM.into(),
            locks: Vec::new(),
        };
        let place = Key::parse(format!("prod/{}", Name::Lockbox(lockbox.id))).unwrap();
        world.runtime.block_on(world.store.put(&place, lockbox.to_bytes().into(), &Put::default())).unwrap();
        let agreed = world.open().agree(&Wanted::default(), &At::Latest, world.scratch.path());
        assert_eq!(agreed.is_ok(), counts, "{created}");
    }
}
