use std::collections::BTreeSet;

use store::Info;

use super::*;
use crate::sketch::{Random, catalogue, key, moment, sketched};

/// Windows of 10, 60 and 600 seconds, fulls after an hour, and nothing to wait for.
fn policy() -> MergePolicy {
    let windows = [10, 60, 600].map(SignedDuration::from_secs).to_vec();
    MergePolicy {
        windows,
        full_window: Some(SignedDuration::from_secs(3600)),
        settle: SignedDuration::ZERO,
        lineage: None,
    }
}

fn merges_of(plan: &MergePlan) -> Vec<String> {
    let text = |merge: &Merge| {
        let Name::Delta(_, name) = &merge.into else { panic!() };
        let sources: Vec<String> = merge.sources.iter().map(|part| sketched(&part.entry)).collect();
        format!("{}:{}-{} = {}", name.level, name.from, name.to, sources.join(" "))
    };
    plan.merges.iter().map(text).collect()
}

/// Revision n was written at second n.
#[track_caller]
fn check(archive: &str, now: i64, expected: &[&str]) {
    let plan = MergePlan::choose(&catalogue(archive), &policy(), &Known::default(), moment(now));
    assert_eq!(merges_of(&plan), expected);
}

#[test]
fn deltas_of_a_window_that_has_passed_are_merged() {
    check("0-1 2-3 4-9 10-12", 9, &[]);
    check("0-1 2-3 4-9 10-12", 10, &["1:2-9 = 2-3 4-9"]);
    check("0-1 2-3 4-9 10-12 13-15", 20, &["1:2-9 = 2-3 4-9", "1:10-15 = 10-12 13-15"]);
    check("", 20, &[]);
}

#[test]
fn a_delta_alone_waits_for_a_larger_window() {
    check("0-1 2-3 10-12 4-9", 20, &["1:2-9 = 2-3 4-9"]);
    check("0-1 2-5 6-15 16-25", 30, &[]);
    check("0-1 2-5 6-15 16-25", 60, &["2:2-25 = 2-5 6-15 16-25"]);
}

#[test]
fn the_largest_window_that_has_passed_takes_all_below_it() {
    check("0-1 2-3 1:2-9 4-9 10-12 13-15 61-62 63-65", 70, &["2:2-15 = 1:2-9 10-12 13-15", "1:61-65 = 61-62 63-65"]);
    // Done before, or half done.
    check("0-1 2-3 1:2-9 4-9 2:2-15 10-12 13-15", 70, &[]);
    check("0-1 2-3 4-9 10-12 13-15 1:10-15", 20, &["1:2-9 = 2-3 4-9"]);
}

#[test]
fn holes_and_overlaps_are_not_merged_over() {
    check("0-1 2-3 4-5 7-8 9-9", 10, &["1:2-5 = 2-3 4-5", "1:7-9 = 7-8 9-9"]);
    check("0-1 2-3 3-5 6-8", 10, &["1:3-8 = 3-5 6-8"]);
}

#[test]
fn what_counts_only_in_part_is_left_alone() {
    let known = Known { counts_until: [(key(0, "3-6"), Revision(4))].into(), ..Known::default() };
    let plan = MergePlan::choose(&catalogue("0-1 2-2 3-6 5-7 8-9"), &policy(), &known, moment(10));
    assert_eq!(merges_of(&plan), ["1:5-9 = 5-7 8-9"]);
    assert_eq!(plan.merges[0].rivals.len(), 1);
}

#[test]
fn windows_are_those_of_the_changes_where_they_are_known() {
    // Merged late, so the store shows them as younger than they are.
    let known = |seconds: [i64; 2]| Known {
        seen: [key(0, "1:2-90"), key(0, "1:91-95")].into_iter().zip(seconds.map(moment)).collect(),
        ..Known::default()
    };
    let merges = |seconds| {
        let archive = catalogue("0-1 1:2-90 1:91-95");
        merges_of(&MergePlan::choose(&archive, &policy(), &known(seconds), moment(130)))
    };
    assert_eq!(merges([20, 50]), ["2:2-95 = 1:2-90 1:91-95"]);
    assert_eq!(merges([50, 70]), [""; 0]);
}

#[test]
fn a_full_is_due_when_its_window_has_passed() {
    let full_of = |archive: &str, now: i64| {
        let plan = MergePlan::choose(&catalogue(archive), &policy(), &Known::default(), moment(now));
        plan.full.map(|full| (full.into.to_string(), crate::sketch::shown(&full.plan)))
    };
    let archive = "0-1 2-1000 1001-3599 3600-3700";
    assert_eq!(full_of(archive, 3599), None);
    let name = "20261101T000000Z-00000000/full/00000000000000003599-20261101T005959Z.full";
    assert_eq!(full_of(archive, 3600), Some((name.into(), "0-1 2-1000 1001-3599".into())));
    assert_eq!(full_of("0-1 2-1000 1001-3599 0-3599 3600-3700", 3600), None);
    assert_eq!(full_of("0-1 2-1000 1001-3599 3600-3700 | 0-3", 9999), None);
    // Over a hole no full can be made, but up to it.
    let name = "20261101T000000Z-00000000/full/00000000000000001000-20261101T001640Z.full";
    assert_eq!(full_of("0-1 2-1000 1002-3599", 3600), Some((name.into(), "0-1 2-1000".into())));
    assert_eq!(full_of("0-1 2-1000 0-1000 1002-3599", 3600), None);
}

#[test]
fn what_was_merged_is_told() {
    let plan = MergePlan::choose(
        &catalogue("0-1 2-3 4-9 1:2-9 10-12 2:2-12 13-15 1:13-15"),
        &policy(),
        &Known::default(),
        moment(0),
    );
    let merged: Vec<(String, Key)> = plan.merged.iter().map(|one| (sketched(&one.entry), one.into.clone())).collect();
    let whole = || key(0, "2:2-12");
    let expected =
        [("1:2-9", whole()), ("2-3", whole()), ("4-9", whole()), ("10-12", whole()), ("13-15", key(0, "1:13-15"))];
    assert_eq!(merged, expected.map(|(entry, into)| (entry.to_owned(), into)));
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let with = |windows: &[i64]| MergePolicy {
        windows: windows.iter().map(|window| SignedDuration::from_secs(*window)).collect(),
        ..policy()
    };
    for good in [&[][..], &[3600 / 2], &[10, 60, 600]] {
        assert_eq!(with(good).check(), Ok(()));
    }
    for bad in [&[0][..], &[60, 10], &[10, 25], &[10, 10], &[7], &[-5]] {
        assert_eq!(with(bad).check(), Err(BadWindows), "{bad:?}");
    }
    assert_eq!(MergePolicy::default().check(), Ok(()));
}

/// An archive that seals every five seconds, and whoever merges it.
struct World {
    listed: Vec<Info>,
    made: BTreeSet<(u8, i64, i64)>,
    known: Known,
}

impl World {
    fn new() -> Self {
        Self { listed: crate::sketch::listing("0-1"), made: BTreeSet::new(), known: Known::default() }
    }

    fn seal(&mut self, second: i64) {
        self.listed.extend(crate::sketch::listing(&format!("{}-{second}", second - 4)));
    }

    fn merge(&mut self, policy: &MergePolicy, now: i64) {
        let plan = MergePlan::choose(&Catalogue::of_listing("c", &self.listed), policy, &self.known, moment(now));
        for merge in plan.merges {
            let Name::Delta(_, name) = merge.into else { panic!() };
            self.made.insert((name.level, name.from.0, name.to.0));
            let sketch = format!("{}:{}-{}", name.level, name.from, name.to);
            self.listed.extend(crate::sketch::listing(&sketch));
            // By the store's clock it was written now.
            self.listed.last_mut().unwrap().modified = moment(now);
            self.known.seen.insert(key(0, &sketch), moment(name.to.0));
        }
        if let Some(full) = plan.full {
            let revision = full.plan.target.unwrap().0;
            self.listed.extend(crate::sketch::listing(&format!("0-{revision}")));
        }
    }

    /// Deletes what was merged, as retention does some time later.
    fn retire(&mut self, policy: &MergePolicy) {
        let plan = MergePlan::choose(&Catalogue::of_listing("c", &self.listed), policy, &self.known, moment(0));
        let merged: BTreeSet<Key> = plan.merged.into_iter().map(|one| one.entry.key).collect();
        self.listed.retain(|info| !merged.contains(&info.key));
    }

    /// How many a restore opens, which always leads to what was sealed last.
    fn objects_to_open(&self) -> usize {
        let archive = Catalogue::of_listing("c", &self.listed);
        let plan = RestorePlan::choose(&archive, &Wanted::default(), &self.known).unwrap();
        assert_eq!(plan.target, archive.entries().filter_map(|entry| entry.to).max());
        plan.objects().count()
    }
}

/// Forty hours of five-second deltas, merged as they come.
#[test]
fn a_restore_opens_about_a_dozen_objects_at_any_time() {
    let (policy, mut world) = (MergePolicy::default(), World::new());
    let (mut counts, mut second) = (Vec::new(), 1);
    let mut random = Random::new(11);
    while second < 40 * 3600 {
        for _ in 0..1 + random.below(180) {
            second += 5;
            world.seal(second);
        }
        world.merge(&policy, second);
        if random.once_in(3) {
            world.retire(&policy);
        }
        counts.push(world.objects_to_open());
    }
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    let most = *counts.iter().max().unwrap();
    assert!(mean < 14.0 && most <= 24, "{mean} and at most {most} in {} restores", counts.len());
}

/// A month of five-second deltas that nobody merged until now: half a million.
#[test]
fn a_month_that_nobody_merged_is_merged_at_once() {
    let mut world = World::new();
    let month = 30 * 24 * 3600 / 5;
    let sealed: Vec<String> = (1..=month).map(|index| format!("{}-{}", index * 5 - 3, index * 5 + 1)).collect();
    world.listed.extend(crate::sketch::listing(&sealed.join(" ")));
    world.merge(&MergePolicy::default(), 20 + month * 5);
    // Two a day.
    assert!((60..65).contains(&world.made.len()), "{}", world.made.len());
    assert!(world.objects_to_open() < 5, "{}", world.objects_to_open());
}

/// Whenever two merge, and whatever one of them missed, what they make fits.
#[test]
fn two_who_merge_never_cross() {
    for seed in Random::seeds(20) {
        let mut random = Random::new(seed);
        let (policy, mut one, mut other) = (policy(), World::new(), World::new());
        let mut second = 1;
        while second < 1500 {
            second += 5;
            if random.once_in(20) {
                // Nobody was there to seal, and a new full begins a new chain.
                second += 5 + random.below(40);
                let full = crate::sketch::listing(&format!("0-{second}"));
                [&mut one, &mut other].into_iter().for_each(|world| world.listed.extend(full.iter().cloned()));
                second += 5;
            }
            for world in [&mut one, &mut other] {
                world.seal(second);
                if random.once_in(8) {
                    world.merge(&policy, second);
                }
                if random.once_in(15) {
                    world.retire(&policy);
                }
            }
        }
        for world in [&mut one, &mut other] {
            world.merge(&policy, second + 600);
        }
        for a in one.made.iter().chain(&other.made) {
            for b in one.made.iter().chain(&other.made) {
                let apart = a.2 < b.1 || b.2 < a.1;
                let inside = |a: &(u8, i64, i64), b: &(u8, i64, i64)| b.1 <= a.1 && a.2 <= b.2;
                let fits =
                    apart || (a.0 == b.0 && a == b) || (a.0 < b.0 && inside(a, b)) || (b.0 < a.0 && inside(b, a));
                assert!(fits, "{a:?} and {b:?}");
            }
        }
        assert!(one.objects_to_open() < 20 && other.objects_to_open() < 20);
    }
}
