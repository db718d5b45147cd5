//! Plans compared with what objects say of themselves.

use super::*;
use crate::header::{Header, Kind as ObjectKind, Link};
use crate::identity::{Cluster, ClusterUid, Epoch};
use crate::sketch::header;

fn cluster() -> Cluster {
    Cluster { name: "c".into(), id: ClusterUid(7) }
}

/// What an object says that is what its name says. Its history is told by its last revision, as of one writer.
fn told(entry: &Entry, epoch: u64) -> Told {
    let end = entry.to.unwrap();
    let range = entry.changes().unwrap_or(RevisionRange { from: Revision(0), to: end });
    let link = |revision: Revision| Link([revision.0 as u8; 32]);
    let kind = if entry.is_full() { ObjectKind::Full } else { ObjectKind::Delta };
    let header = Header {
        lineage: entry.lineage.clone().unwrap(),
        epoch: Epoch(epoch),
        follows: (!entry.is_full()).then(|| link(Revision(range.from.0 - 1))),
        ..header(kind, range.from.0, range.to.0)
    };
    Told { header, digest: [end.0 as u8; 32] }
}

struct World {
    archive: Catalogue,
    told: BTreeMap<Key, Told>,
}

impl World {
    fn new(archive: &str, epoch_of: impl Fn(&str) -> u64) -> Self {
        let archive = catalogue(archive);
        let say = |entry: &Entry| (entry.key.clone(), told(entry, epoch_of(&crate::sketch::sketched(entry))));
        Self { told: archive.entries().map(say).collect(), archive }
    }

    fn change(&mut self, object: &str, change: impl FnOnce(&mut Told)) {
        change(self.told.get_mut(&key(0, object)).unwrap());
    }

    fn confirm(&self, wanted: &Wanted, known: &Known) -> Result<RestorePlan, Contradiction> {
        let plan = RestorePlan::choose(&self.archive, wanted, known).unwrap();
        plan.chain().confirm(&cluster(), |key| self.told.get(key), [], None).map(|()| plan)
    }

    /// The plan that is left when everything that contradicts is done without.
    fn settle(&self, wanted: &Wanted) -> String {
        self.settle_with(wanted, None)
    }

    /// The same, where `last` is the last epoch that was handed out.
    fn settle_with(&self, wanted: &Wanted, last: Option<Epoch>) -> String {
        let mut known = Known::default();
        loop {
            match RestorePlan::choose(&self.archive, wanted, &known) {
                Err(error) => return error.to_string(),
                Ok(plan) => match plan.chain().confirm(&cluster(), |key| self.told.get(key), [], last) {
                    Ok(()) => return shown(&plan),
                    Err(contradiction) => {
                        let before = known.clone();
                        known.learn(contradiction);
                        assert_ne!(known, before);
                    }
                },
            }
        }
    }
}

#[track_caller]
fn check_fault(object: &str, change: impl FnOnce(&mut Told), expected: Fault) {
    let mut world = World::new("0-100 101-150 151-200", |_| 1);
    assert!(world.confirm(&latest(), &Known::default()).is_ok());
    world.change(object, change);
    let contradiction = world.confirm(&latest(), &Known::default()).unwrap_err();
    assert_eq!((contradiction.key, contradiction.fault), (key(0, object), expected));
}

#[test]
fn each_way_of_being_another_object_is_told_apart() {
    let other = Cluster { name: "c".into(), id: ClusterUid(8) };
    check_fault("101-150", |told| told.header.cluster = other.clone(), Fault::Cluster(other.clone()));
    check_fault("0-100", |told| told.header.lineage = lineage(3), Fault::Lineage(lineage(3)));
    check_fault("0-100", |told| told.header.kind = ObjectKind::Delta, Fault::Kind);
    let moved = Fault::Range { from: Revision(101), to: Revision(151) };
    check_fault("101-150", |told| told.header.to = Revision(151), moved);
    // Put back where a newer one was: it has the range and another history.
    let before = key(0, "101-150");
    check_fault("151-200", |told| told.header.follows = Some(Link([9; 32])), Fault::Link { before });
    let fault = Fault::Deposed { epoch: Epoch(0), until: None };
    check_fault("151-200", |told| told.header.epoch = Epoch(0), fault);
}

#[test]
fn an_object_that_tells_nothing_is_not_used() {
    let mut world = World::new("0-100 101-150", |_| 1);
    world.told.remove(&key(0, "101-150"));
    let contradiction = world.confirm(&latest(), &Known::default()).unwrap_err();
    assert_eq!(contradiction.fault, Fault::Untold);
    assert_eq!(world.settle(&latest()), "0-100");
}

#[test]
fn what_was_merged_stands_where_its_last_source_stood() {
    let mut world = World::new("0-100 1:101-200 101-150 151-200 201-250", |_| 1);
    let last = world.told[&key(0, "151-200")].link();
    world.change("1:101-200", |told| (told.digest, told.header.stands_for) = ([99; 32], Some(last)));
    assert_eq!(world.settle(&latest()), "0-100 1:101-200 201-250");
    // One that was merged from something else.
    world.change("1:101-200", |told| told.header.stands_for = Some(Link([98; 32])));
    let contradiction = world.confirm(&latest(), &Known::default()).unwrap_err();
    assert_eq!(contradiction.fault, Fault::Link { before: key(0, "1:101-200") });
}

#[test]
fn a_full_from_etcd_in_the_middle_of_a_chain_is_joined() {
    let mut world = World::new("0-100 101-150 0-150 0-170 151-200", |_| 1);
    world.change("0-150", |told| told.digest = [77; 32]);
    assert_eq!(world.settle(&revision(160)), "0-150 151-200/151-160");
    assert_eq!(world.settle(&latest()), "0-170 151-200/171-200");
    // A full that was put together from the chain stands for an end of it.
    world.change("0-150", |told| told.header.stands_for = Some(Link([76; 32])));
    let contradiction = world.confirm(&revision(160), &Known::default()).unwrap_err();
    assert_eq!(contradiction.fault, Fault::Link { before: key(0, "0-150") });
}

#[test]
fn a_writer_that_was_replaced_does_not_interleave() {
    // Writer 1 woke up and wrote 151-190 after writer 2 had gone on from 150.
    let archive = "0-100 101-150 151-190 151-170 171-200";
    let world = World::new(archive, |object| if ["151-170", "171-200"].contains(&object) { 2 } else { 1 });
    assert_eq!(world.settle(&latest()), "0-100 101-150 151-170 171-200");
    assert_eq!(world.settle(&revision(190)), "0-100 101-150 151-170 171-200/171-190");
    // Also where the plan would not have met the new writer.
    assert_eq!(world.settle(&revision(180)), "0-100 101-150 151-170 171-200/171-180");
    assert_eq!(world.settle(&revision(160)), "0-100 101-150 151-170/151-160");
}

#[test]
fn what_reaches_into_a_later_reign_is_taken_up_to_it() {
    let world = World::new("0-100 101-150 141-200", |object| if object == "141-200" { 2 } else { 1 });
    assert_eq!(world.settle(&revision(148)), "0-100 101-150/101-140 141-200/141-148");
    assert_eq!(world.settle(&revision(130)), "0-100 101-150/101-130");
    // A full cannot be taken in part.
    let world = World::new("0-100 101-140 141-200 0-150", |object| if object == "141-200" { 2 } else { 1 });
    assert_eq!(world.settle(&revision(160)), "0-100 101-140 141-200/141-160");
}

#[test]
fn what_other_objects_told_of_writers_counts_too() {
    let world = World::new("0-100 101-150", |_| 1);
    let plan = RestorePlan::choose(&world.archive, &latest(), &Known::default()).unwrap();
    let other = told(catalogue("121-130").entries().next().unwrap(), 2).header;
    let contradiction = plan.chain().confirm(&cluster(), |key| world.told.get(key), [&other], None).unwrap_err();
    assert_eq!(contradiction.fault, Fault::Deposed { epoch: Epoch(1), until: Some(Revision(120)) });
}

#[test]
fn a_writer_who_was_never_let_write_takes_nothing_from_the_others() {
    let latest_with = |archive: &str, stranger: &str, last| {
        let world = World::new(archive, |object| if object == stranger { 9 } else { 1 });
        let plan = RestorePlan::choose(&world.archive, &latest(), &Known::default()).unwrap();
        assert!(plan.chain().is_contested(&cluster(), |key| world.told.get(key), []), "{archive}");
        world.settle_with(&latest(), last)
    };
    let (true_one, epoch) = ("0-100 101-150 151-200", Some(Epoch(1)));
    // One that reaches further, one that lies within, a full that would take what follows.
    assert_eq!(latest_with("0-100 101-150 101-190 151-200", "101-190", epoch), true_one);
    assert_eq!(latest_with("0-100 101-150 120-130 151-200", "120-130", epoch), true_one);
    assert_eq!(latest_with("0-100 101-150 0-150 151-200", "0-150", epoch), true_one);
    // It was handed out, or nobody tells.
    for last in [Some(Epoch(9)), None] {
        assert_eq!(latest_with("0-100 101-150 101-190 151-200", "101-190", last), "0-100 101-190");
    }
}

#[test]
fn a_plan_in_which_nobody_wrote_what_another_did_is_not_contested() {
    let world = World::new("0-100 101-150 151-200", |object| if object == "151-200" { 2 } else { 1 });
    let plan = RestorePlan::choose(&world.archive, &latest(), &Known::default()).unwrap();
    assert!(!plan.chain().is_contested(&cluster(), |key| world.told.get(key), []));
}

#[test]
fn a_rival_of_another_cluster_deposes_nobody() {
    let mut world = World::new("0-100 101-150 140-145", |object| if object == "140-145" { 9 } else { 1 });
    world.change("140-145", |told| told.header.cluster.id = ClusterUid(8));
    assert_eq!(world.settle(&latest()), "0-100 101-150");
}

#[test]
fn a_writer_that_was_replaced_does_not_interleave_when_only_merged_objects_tell_who_replaced_it() {
    // Writer 1 woke up and wrote 151-230 after writer 2 had; what that wrote is merged, and its originals are gone.
    let mut world = World::new("0-100 101-150 151-230 1:151-200 201-250", |object| {
        if ["1:151-200", "201-250"].contains(&object) { 2 } else { 1 }
    });
    world.change("1:151-200", |told| told.header.stands_for = Some(Link([200; 32])));
    assert_eq!(world.settle(&latest()), "0-100 101-150 1:151-200 201-250");
    assert_eq!(world.settle(&revision(220)), "0-100 101-150 1:151-200 201-250/201-220");
}

#[test]
fn merging_what_two_writers_wrote_takes_no_full_from_the_first() {
    // Writer 1 took a full at 120, in the middle of what was merged with what writer 2 wrote from 151 on.
    let mut world =
        World::new(
            "0-120 1:101-200 101-150 201-250",
            |object| {
                if ["1:101-200", "201-250"].contains(&object) { 2 } else { 1 }
            },
        );
    world.change("1:101-200", |told| told.header.stands_for = Some(Link([200; 32])));
    assert_eq!(world.settle(&revision(200)), "0-120 1:101-200/121-200");
    assert_eq!(world.settle(&revision(150)), "0-120 101-150/121-150");
}

#[test]
fn archives_of_one_writer_have_no_rivals_but_what_was_merged_of_what_is_taken() {
    let archive = catalogue("0-100 2:101-300 1:101-200 1:201-300 101-150 151-200 201-250 251-300 0-230 301-310");
    for target in 100..=310 {
        let plan = RestorePlan::choose(&archive, &revision(target), &Known::default()).unwrap();
        for rival in &plan.rivals {
            let whole = rival.changes().unwrap();
            let is_made_of = |part: &Part| {
                let range = part.entry.changes().unwrap();
                part.entry.level() < rival.level() && whole.from <= range.from && range.to <= whole.to
            };
            assert!(plan.deltas.iter().any(is_made_of), "{target}: {rival:?}");
        }
        assert!(plan.rivals.len() <= 2, "{target}");
    }
}
