use super::*;
use crate::catalogue::Catalogue;
use crate::entry::{Entry, Form, Layout};
use crate::sketch::{catalogue, key, lineage, moment, shown};

mod confirmed;
mod optimal;

fn known_without(objects: &[&str]) -> Known {
    Known { without: objects.iter().map(|object| key(0, object)).collect(), ..Known::default() }
}

fn revision(target: i64) -> Wanted {
    Wanted { lineage: None, target: Target::Revision(Revision(target)) }
}

fn latest() -> Wanted {
    Wanted::default()
}

fn answer(catalogue: &Catalogue, wanted: &Wanted, known: &Known) -> String {
    match RestorePlan::choose(catalogue, wanted, known) {
        Ok(plan) => shown(&plan),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(archive: &str, target: i64, expected: &str) {
    assert_eq!(answer(&catalogue(archive), &revision(target), &Known::default()), expected);
}

#[track_caller]
fn check_latest(archive: &str, expected: &str) {
    assert_eq!(answer(&catalogue(archive), &latest(), &Known::default()), expected);
}

#[test]
fn the_newest_full_that_is_not_past_the_target_is_taken() {
    check("0-100 0-200 101-150", 120, "0-100 101-150/101-120");
    check("0-100 0-200 201-250", 250, "0-200 201-250");
    check("0-100 0-200 101-150", 200, "0-200");
    check("0-100 101-150 151-200", 200, "0-100 101-150 151-200");
    check_latest("0-100 101-150 151-200", "0-100 101-150 151-200");
    check_latest("0-100", "0-100");
}

#[test]
fn a_full_taken_in_the_middle_of_a_delta_joins_it() {
    check("0-100 101-150 0-130 151-200", 200, "0-130 101-150/131-150 151-200");
    check("0-100 101-150 0-130 151-200", 129, "0-100 101-150/101-129");
}

#[test]
fn overlaps_are_taken_once() {
    check("0-100 101-150 140-180 170-200", 200, "0-100 101-150 140-180/151-180 170-200/181-200");
    check("0-100 101-150 101-160 120-155 161-170", 170, "0-100 101-160 161-170");
}

#[test]
fn merged_deltas_are_preferred_whether_or_not_their_sources_are_still_there() {
    let half = "0-100 1:101-200 101-150 151-200 201-250 251-300 1:201-300 2:101-300 301-310";
    check(half, 310, "0-100 2:101-300 301-310");
    check("0-100 1:101-200 151-200 201-250", 250, "0-100 1:101-200 201-250");
    check("0-100 101-150 1:201-300 151-200", 300, "0-100 101-150 151-200 1:201-300");
}

#[test]
fn of_deltas_that_reach_the_target_the_smallest_is_read() {
    check("0-100 2:101-300 1:101-200 101-150 151-200", 140, "0-100 101-150/101-140");
    check("0-100 2:101-300 1:101-200 101-150 151-200", 190, "0-100 1:101-200/101-190");
}

#[test]
fn a_hole_in_the_chain_is_named_not_jumped() {
    let hole = "revision 150 cannot be restored: revisions 101 to 140 are missing; 100 to 100 can be restored";
    check("0-100 141-150", 150, hole);
    check(
        "0-100 101-110 141-150 0-160 161-170",
        150,
        "revision 150 cannot be restored: revisions 111 to 140 are \
           missing; 100 to 110 can be restored, and 160 to 170",
    );
    check("0-100 102-150", 101, "revision 101 cannot be restored: revision 101 is missing; 100 to 100 can be restored");
    check("101-150", 150, "there is no full to begin with");
    check("0-100 51-99 101-150", 60, "revision 60 is before everything that can be restored, which begins at 100");
    check("0-100 101-150", 151, "revision 151 is after the last that can be restored, 150");
    check("", 1, "there is no full to begin with");
}

#[test]
fn the_latest_of_an_archive_with_a_hole_says_what_lies_beyond() {
    let plan = RestorePlan::choose(&catalogue("0-100 101-110 120-130"), &latest(), &Known::default()).unwrap();
    assert_eq!((shown(&plan).as_str(), plan.target), ("0-100 101-110", Some(Revision(110))));
    let [Remark::HoleBeyond(hole)] = plan.remarks[..] else { panic!("{:?}", plan.remarks) };
    assert_eq!(hole.next, Some(Revision(120)));
    let whole = RestorePlan::choose(&catalogue("0-100 101-110"), &latest(), &Known::default()).unwrap();
    assert_eq!(whole.remarks, []);
}

#[test]
fn what_cannot_be_used_is_gone_around() {
    #[track_caller]
    fn check(archive: &str, without: &[&str], target: i64, expected: &str) {
        assert_eq!(answer(&catalogue(archive), &revision(target), &known_without(without)), expected);
    }
    let archive = "0-100 1:101-200 101-150 151-200 0-160 201-210";
    check(archive, &[], 210, "0-160 151-200/161-200 201-210");
    check(archive, &["151-200"], 210, "0-160 1:101-200/161-200 201-210");
    check(archive, &["0-160"], 210, "0-100 1:101-200 201-210");
    check(archive, &["1:101-200", "0-160"], 210, "0-100 101-150 151-200 201-210");
    check(
        archive,
        &["1:101-200", "151-200"],
        210,
        "revision 210 cannot be restored: revisions 161 to 200 are missing; \
           160 to 160 can be restored",
    );
    // What is lost is a hole and not the end.
    check(
        archive,
        &["201-210"],
        210,
        "revision 210 cannot be restored: what follows revision 200 cannot be used; \
           100 to 200 can be restored",
    );
}

#[test]
fn the_newest_lineage_that_has_it_wins_unless_another_is_asked_for() {
    let two = catalogue("0-100 101-200 | 0-150 151-180");
    let mut known = Known::default();
    known.parents.insert(lineage(1), Parent { lineage: lineage(0), revision: Revision(150) });
    let of = |index, target| Wanted { lineage: Some(lineage(index)), target: Target::Revision(Revision(target)) };

    let plan = |wanted: &Wanted| RestorePlan::choose(&two, wanted, &known);
    assert_eq!(shown(&plan(&revision(170)).unwrap()), "0-150 151-180/151-170");
    assert_eq!(shown(&plan(&of(0, 170)).unwrap()), "0-100 101-200/101-170");
    assert_eq!(shown(&plan(&of(1, 120)).unwrap()), "0-100 101-200/101-120");
    assert_eq!(shown(&plan(&latest()).unwrap()), "0-150 151-180");

    let older = plan(&revision(190)).unwrap();
    assert_eq!(shown(&older), "0-100 101-200/101-190");
    let remark = Remark::OlderLineage { newest: lineage(1), left_at: Some(Revision(150)) };
    assert_eq!(older.remarks, [remark]);
    // Revision 190 of the parent is none of the history of the younger.
    assert_eq!(plan(&of(1, 190)), Err(PlanError::After { target: Revision(190), last: Revision(180) }));
    assert_eq!(plan(&of(2, 1)), Err(PlanError::NoLineage { lineage: lineage(2) }));
}

#[test]
fn where_nothing_of_the_newest_lineage_is_left_the_latest_point_falls_short() {
    let two = catalogue("0-100 101-200 | 0-150 151-180");
    let lost = two.histories[1].fulls()[0].key.clone();
    let known = Known { without: [lost].into(), ..Known::default() };
    let plan = RestorePlan::choose(&two, &latest(), &known).unwrap();
    assert_eq!(shown(&plan), "0-100 101-200");
    assert!(plan.falls_short());
    assert!(plan.remarks.contains(&Remark::NewerLost { lineage: lineage(1) }), "{:?}", plan.remarks);
    // A revision that was asked for by its number is there.
    assert!(!RestorePlan::choose(&two, &revision(190), &known).unwrap().falls_short());
}

#[test]
fn a_hole_in_the_newest_lineage_is_not_filled_from_another() {
    let error = answer(&catalogue("0-100 101-300 | 0-150 151-180 200-220"), &revision(190), &Known::default());
    assert!(error.contains("revisions 181 to 199 are missing"), "{error}");
}

#[test]
fn parents_that_lead_in_circles_end() {
    let mut known = Known::default();
    for (child, parent) in [(0, 1), (1, 0)] {
        known.parents.insert(lineage(child), Parent { lineage: lineage(parent), revision: Revision(150) });
    }
    let wanted = Wanted { lineage: Some(lineage(0)), target: Target::Revision(Revision(7)) };
    assert_eq!(
        answer(&catalogue("0-100 | 0-120"), &wanted, &known),
        "revision 7 is before everything that can be restored, which begins at 100"
    );
}

#[test]
fn a_snapshot_is_found_by_its_name() {
    let archive = catalogue("0-100 101-150 0-130 | 0-100");
    let named = |name: &str| Wanted { lineage: None, target: Target::Name(name.into()) };
    let plan = |name: &str| RestorePlan::choose(&archive, &named(name), &Known::default());
    let newest = key(0, "0-130");
    for name in [newest.as_str(), newest.name(), &newest.as_str()[2..]] {
        let plan = plan(name).unwrap();
        assert_eq!((shown(&plan).as_str(), plan.target), ("0-130", Some(Revision(130))));
    }
    assert_eq!(shown(&plan(key(0, "101-150").name()).unwrap()), "0-130 101-150/131-150");
    assert!(matches!(plan("30"), Err(PlanError::NoName { .. })));
    assert!(matches!(plan(key(0, "0-100").name()), Err(PlanError::Ambiguous { keys, .. }) if keys.len() == 2));
    // Damaged: what it held is put together in another way.
    let plan = RestorePlan::choose(&archive, &named(newest.name()), &known_without(&["0-130"])).unwrap();
    assert_eq!(shown(&plan), "0-100 101-150/101-130");
}

#[test]
fn a_later_full_that_still_has_the_history_bridges_a_hole() {
    let archive = catalogue("0-100 101-110 0-200 201-210");
    let error = RestorePlan::choose(&archive, &revision(150), &Known::default()).unwrap_err();
    let PlanError::Hole { perhaps, .. } = error else { panic!("{error}") };
    assert_eq!(perhaps, Some(key(0, "0-200")));

    let compacted_at = |compact| {
        let facts = FullFacts { last: Revision(200), compact: Some(Revision(compact)), lost_leases: false };
        Known { fulls: [(key(0, "0-200"), facts)].into(), ..Known::default() }
    };
    let plan = RestorePlan::choose(&archive, &revision(150), &compacted_at(140)).unwrap();
    assert_eq!((shown(&plan).as_str(), plan.remarks.as_slice()), ("0-200", &[Remark::LaterFull][..]));
    let error = RestorePlan::choose(&archive, &revision(150), &compacted_at(151)).unwrap_err();
    assert!(matches!(error, PlanError::Hole { perhaps: None, .. }), "{error}");
}

#[test]
fn points_are_ranges_holes_and_what_ends_there() {
    let archive = catalogue("0-100 1:101-120 101-110 111-120 130-140 0-150 151-160 0-155 | 0-170");
    let known = Known::default();
    let points = Points::of(&archive, &known);
    let [first, second] = &points.lineages[..] else { panic!() };
    let ranges = |points: &LineagePoints<'_>| -> Vec<(i64, i64)> {
        points.ranges.iter().map(|range| (range.from.0, range.to.0)).collect()
    };
    assert_eq!((ranges(first), ranges(second)), (vec![(100, 120), (150, 160)], vec![(170, 170)]));
    let listed: Vec<String> = first.listed.iter().map(|entry| crate::sketch::sketched(entry)).collect();
    assert_eq!(listed, ["0-100", "101-110", "1:101-120", "0-150", "0-155", "151-160"]);
    let [hole] = first.holes[..] else { panic!() };
    assert_eq!(hole.to_string(), "revisions 121 to 129 are missing; 100 to 120 can be restored, and 150 to 160");
}

/// What of the newest lineage no full leads to, and whether that is sure.
#[track_caller]
fn check_baseless(archive: &str, known: &Known, expected: Option<(&str, bool)>) {
    let archive = catalogue(archive);
    let points = Points::of(&archive, known);
    let newest = points.lineages.last().unwrap();
    let told = newest.baseless.map(|it| (it.to_string(), newest.is_surely_baseless(&it, known)));
    assert_eq!(told.as_ref().map(|(told, is_sure)| (told.as_str(), *is_sure)), expected);
}

#[test]
fn changes_that_no_full_leads_to_are_told() {
    let nothing = Known::default();
    let told = "the changes from revision 101 to 140 have no full to start from";
    check_baseless("101-120 121-140", &nothing, Some((told, true)));
    check_baseless("101-110 131-140 1:101-110", &nothing, Some((told, true)));
    check_baseless("0-100 101-120 121-140", &nothing, None);
    check_baseless("0-110 101-120 121-140", &nothing, None);
    // A later full may have all of its history still.
    check_baseless("101-120 121-140 0-140 141-150", &nothing, Some((told, false)));
    let whole_from = |compact| {
        let facts = FullFacts { last: Revision(140), compact: Some(Revision(compact)), lost_leases: false };
        Known { fulls: [(key(0, "0-140"), facts)].into(), ..Known::default() }
    };
    check_baseless("101-120 121-140 0-140 141-150", &whole_from(140), Some((told, true)));
    check_baseless("101-120 121-140 0-140 141-150", &whole_from(50), None);
    // A full that cannot be used leads nowhere.
    let without = Known { without: [key(0, "0-100")].into(), ..Known::default() };
    check_baseless("0-100 101-120 121-140", &without, Some((told, true)));
    // No chain leads from one lineage into another: each begins with a full of its own.
    check_baseless("0-100 101-120 | 0-110 111-130", &nothing, None);
    check_baseless("0-100 101-120 | 101-120 121-140", &nothing, Some((told, true)));
}

#[test]
fn a_dry_run_reads_like_this() {
    let archive = catalogue("0-100 101-150 0-130 151-200 210-220");
    let plan = RestorePlan::choose(&archive, &latest(), &Known::default()).unwrap();
    assert_eq!(
        plan.to_string(),
        "to revision 200 of lineage 20261101T000000Z-00000000: 3 objects, 11300 bytes
  full   c/20261101T000000Z-00000000/full/00000000000000000130-20261101T000210Z.full
  delta  c/20261101T000000Z-00000000/delta/0/00000000000000000101-00000000000000000150.delta, of which 131 to 150
  delta  c/20261101T000000Z-00000000/delta/0/00000000000000000151-00000000000000000200.delta
"
    );
}

/// An entry of etcdbrctl's, by its name.
fn gardener(name: &str) -> Entry {
    let parts: Vec<&str> = name.split('.').next().unwrap().split('-').collect();
    let [kind, from, to, time] = parts[..] else { panic!("{name}") };
    let taken = Timestamp::from_second(time.parse().unwrap()).unwrap();
    let from = Revision(from.parse().unwrap());
    Entry {
        key: Key::parse(format!("v2/{name}")).unwrap(),
        name: name.into(),
        layout: Layout::Etcdbrctl,
        lineage: None,
        form: if kind == "Full" { Form::Snapshot } else { Form::Events { from } },
        to: Some(Revision(to.parse().unwrap())),
        taken: Some(taken),
        modified: taken,
        size_bytes: 1000,
    }
}

fn gardeners(names: &str) -> Catalogue {
    Catalogue::of_peer(Layout::Etcdbrctl, names.split_whitespace().map(gardener).collect(), Vec::new())
}

const COMPACTED: &str = "Full-00000000-00000059-1795224250.zlib Full-00000000-00000960-1795224255.zlib \
    Full-00000000-00001497-1795224555.zlib Incr-00000060-00000187-1795224254.zlib \
    Incr-00000188-00000781-1795224255.zlib Incr-00000961-00001275-1795224256.zlib \
    Incr-00001276-00001497-1795224256.zlib";

#[test]
fn a_compacted_full_of_etcdbrctl_is_avoided_where_something_exact_leads_there() {
    let archive = gardeners(COMPACTED);
    let compacted = Key::parse("v2/Full-00000000-00001497-1795224555.zlib").unwrap();
    let plan = RestorePlan::choose(&archive, &latest(), &Known::default()).unwrap();
    assert_eq!(shown(&plan), "0-960 961-1275 1276-1497");
    assert_eq!(plan.remarks, [Remark::Avoided { full: compacted.clone() }]);

    // Opened, it turned out to be one that etcd gave.
    let facts = FullFacts { last: Revision(1497), compact: None, lost_leases: false };
    let mut known = Known { fulls: [(compacted.clone(), facts)].into(), ..Known::default() };
    assert_eq!(answer(&archive, &latest(), &known), "0-1497");

    // It is one, and the way around is broken.
    known.fulls.insert(compacted.clone(), FullFacts { lost_leases: true, ..facts });
    known.without.insert(Key::parse("v2/Incr-00001276-00001497-1795224256.zlib").unwrap());
    let plan = RestorePlan::choose(&archive, &latest(), &known).unwrap();
    assert_eq!((shown(&plan).as_str(), plan.remarks.as_slice()), ("0-1497", &[Remark::LessExact][..]));
    // Asked for by its name, it is what is meant.
    let wanted = Wanted { lineage: None, target: Target::Name(compacted.name().into()) };
    assert_eq!(answer(&archive, &wanted, &known), "0-1497");
}

#[test]
fn a_full_and_a_delta_of_one_second_that_end_alike_do_not_confuse() {
    let names = "Full-00000000-00000059-1.gz Incr-00000060-00000100-5.gz Full-00000000-00000100-5.gz Incr-00000101-00000120-9.gz";
    assert_eq!(answer(&gardeners(names), &latest(), &Known::default()), "0-100 101-120");
}

#[test]
fn what_a_full_of_etcdbrctl_holds_beyond_its_name_counts_once_it_is_known() {
    let archive = gardeners("Full-00000000-00000960-100.gz Incr-00000963-00000970-109.gz");
    let full = Key::parse("v2/Full-00000000-00000960-100.gz").unwrap();
    assert!(answer(&archive, &revision(965), &Known::default()).contains("revisions 961 to 962 are missing"));
    let facts = FullFacts { last: Revision(962), compact: None, lost_leases: false };
    let known = Known { fulls: [(full, facts)].into(), ..Known::default() };
    assert_eq!(answer(&archive, &revision(965), &known), "0-960 963-970/963-965");
    assert_eq!(answer(&archive, &revision(961), &known), "0-960");
}

#[test]
fn snapshots_whose_names_tell_no_revision_are_points_by_themselves() {
    let snapshot = |name: &str, second: i64| Entry {
        key: Key::parse(name).unwrap(),
        name: name.into(),
        layout: Layout::K3s,
        lineage: None,
        form: Form::Snapshot,
        to: None,
        taken: Some(moment(second)),
        modified: moment(0),
        size_bytes: 5,
    };
    let entries = vec![snapshot("etcd-snapshot-a-9", 9), snapshot("etcd-snapshot-a-20", 20)];
    let archive = Catalogue::of_peer(Layout::K3s, entries, Vec::new());
    let plan = RestorePlan::choose(&archive, &latest(), &Known::default()).unwrap();
    assert_eq!((plan.base.name.as_str(), plan.target), ("etcd-snapshot-a-20", None));
    let named = Wanted { lineage: None, target: Target::Name("etcd-snapshot-a-9".into()) };
    assert_eq!(RestorePlan::choose(&archive, &named, &Known::default()).unwrap().base.name, "etcd-snapshot-a-9");

    let Err(PlanError::Unopened { fulls }) = RestorePlan::choose(&archive, &revision(70), &Known::default()) else {
        panic!()
    };
    let facts = |last| FullFacts { last: Revision(last), compact: Some(Revision(60)), lost_leases: false };
    let mut known = Known { fulls: fulls.into_iter().zip([facts(70), facts(90)]).collect(), ..Known::default() };
    assert_eq!(RestorePlan::choose(&archive, &revision(70), &known).unwrap().base.name, "etcd-snapshot-a-9");
    // Between the two, and before them as far as history goes back.
    let between = RestorePlan::choose(&archive, &revision(80), &known).unwrap();
    assert_eq!((between.base.name.as_str(), between.remarks), ("etcd-snapshot-a-20", vec![Remark::LaterFull]));
    // Where the newer one cannot be opened, nothing tells its revision, and the older one is less than the latest.
    let mut lost = Known { without: [Key::parse("etcd-snapshot-a-20").unwrap()].into(), ..Known::default() };
    let older = RestorePlan::choose(&archive, &latest(), &lost).unwrap();
    assert_eq!((older.base.name.as_str(), older.falls_short()), ("etcd-snapshot-a-9", true));
    lost.without = [Key::parse("etcd-snapshot-a-9").unwrap()].into();
    assert!(!RestorePlan::choose(&archive, &latest(), &lost).unwrap().falls_short());

    known.without.insert(Key::parse("etcd-snapshot-a-20").unwrap());
    let lost = RestorePlan::choose(&archive, &revision(80), &known).unwrap_err();
    assert!(matches!(lost, PlanError::Hole { .. }), "{lost}");
}

#[test]
fn a_hundred_thousand_objects_are_planned() {
    let mut sketch = String::from("0-10");
    for at in 1..100_000 {
        sketch.push_str(&format!(" {}-{}", at * 10 + 1, at * 10 + 10));
    }
    let archive = catalogue(&sketch);
    let plan = RestorePlan::choose(&archive, &latest(), &Known::default()).unwrap();
    assert_eq!((plan.deltas.len(), plan.target), (99_999, Some(Revision(1_000_000))));
    assert_eq!(Points::of(&archive, &Known::default()).lineages[0].listed.len(), 100_000);
}
