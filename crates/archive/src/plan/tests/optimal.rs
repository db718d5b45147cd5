//! Plans compared with what trying everything finds, on small archives of every shape.

use std::collections::BTreeSet;

use super::*;
use crate::sketch::{Random, sketched};

const LAST: i64 = 24;

struct Small {
    sketch: String,
    fulls: BTreeSet<i64>,
    deltas: BTreeSet<(i64, i64)>,
}

fn small(random: &mut Random) -> Small {
    let mut sketch = String::new();
    let (mut fulls, mut deltas) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..random.below(4) {
        let at = 1 + random.below(LAST);
        if fulls.insert(at) {
            sketch.push_str(&format!(" 0-{at}"));
        }
    }
    for _ in 0..random.below(12) {
        let from = 2 + random.below(LAST - 1);
        let to = (from + random.below(8)).min(LAST);
        if deltas.insert((from, to)) {
            sketch.push_str(&format!(" {}:{from}-{to}", random.below(3)));
        }
    }
    Small { sketch, fulls, deltas }
}

/// The fewest objects that make each revision: one of them is known by trying all deltas on all that is reached.
fn fewest(small: &Small) -> Vec<Option<usize>> {
    let mut best: Vec<Option<usize>> = (0..=LAST).map(|at| small.fulls.contains(&at).then_some(1)).collect();
    loop {
        let before = best.clone();
        for &(from, to) in &small.deltas {
            for reached in from - 1..to {
                let Some(count) = best[reached as usize] else { continue };
                for target in reached + 1..=to {
                    let shorter = best[target as usize].is_none_or(|known| count + 1 < known);
                    if shorter {
                        best[target as usize] = Some(count + 1);
                    }
                }
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Whether a plan is one: it begins with a full, goes on without a gap, and takes of each delta only what it has.
fn require_sound(plan: &RestorePlan, target: i64) {
    let mut reached = plan.base.to.unwrap().0.min(target);
    assert!(plan.base.is_full());
    for part in &plan.deltas {
        let whole = part.entry.changes().unwrap();
        assert!(whole.from <= part.take.from && part.take.to <= whole.to, "{}", shown(plan));
        assert_eq!(part.take.from.0, reached + 1, "{}", shown(plan));
        reached = part.take.to.0;
    }
    assert_eq!(reached, target, "{}", shown(plan));
}

#[test]
fn plans_are_as_short_as_trying_everything_finds() {
    for seed in Random::seeds(3000) {
        let mut random = Random::new(seed);
        let small = small(&mut random);
        let (archive, best) = (catalogue(&small.sketch), fewest(&small));
        for target in 1..=LAST {
            match (RestorePlan::choose(&archive, &revision(target), &Known::default()), best[target as usize]) {
                (Ok(plan), Some(count)) => {
                    require_sound(&plan, target);
                    assert_eq!(plan.objects().count(), count, "{} for {target} of{}", shown(&plan), small.sketch);
                }
                (Err(error), None) => require_named(&error, target, &best, &small),
                (found, best) => panic!("{found:?} where {best:?} is best for {target} of{}", small.sketch),
            }
        }
        let newest = best.iter().rposition(Option::is_some).map(|at| at as i64);
        let latest = RestorePlan::choose(&archive, &latest(), &Known::default());
        assert_eq!(latest.ok().and_then(|plan| plan.target).map(|target| target.0), newest, "{}", small.sketch);
        require_points(&archive, &best);
    }
}

/// Errors name what can be restored on both sides.
fn require_named(error: &PlanError, target: i64, best: &[Option<usize>], small: &Small) {
    let before = best[..target as usize].iter().rposition(Option::is_some).map(|at| at as i64);
    let after = best[target as usize..].iter().position(Option::is_some).map(|at| at as i64 + target);
    let ends = small.fulls.iter().chain(small.deltas.iter().map(|(_, to)| to));
    let said = match *error {
        PlanError::NoFull => (None, None),
        PlanError::Before { first, .. } => (None, first.map(|first| first.0)),
        PlanError::After { last, .. } => {
            assert!(ends.max() < Some(&target), "{}", small.sketch);
            (Some(last.0), None)
        }
        PlanError::Hole { hole, .. } => (Some(hole.before.to.0), hole.beyond.map(|range| range.from.0)),
        _ => panic!("{error:?}"),
    };
    assert_eq!(said, (before, after), "{error} for {target} of{}", small.sketch);
}

fn require_points(archive: &Catalogue, best: &[Option<usize>]) {
    let known = Known::default();
    for lineage in Points::of(archive, &known).lineages {
        let inside = |at: i64| lineage.ranges.iter().any(|range| (range.from.0..=range.to.0).contains(&at));
        let all: Vec<bool> = (0..=LAST).map(inside).collect();
        assert_eq!(all, best.iter().map(Option::is_some).collect::<Vec<_>>());
        assert!(lineage.ranges.windows(2).all(|pair| pair[0].to.next() < pair[1].from));
    }
}

/// Whatever turns out to be unusable, what is left is planned as if it had never been there.
#[test]
fn going_around_is_planning_without() {
    for seed in Random::seeds(1000) {
        let mut random = Random::new(seed);
        let small = small(&mut random);
        let archive = catalogue(&small.sketch);
        let (left, gone): (Vec<&Entry>, Vec<&Entry>) = archive.entries().partition(|_| !random.once_in(4));
        let left: Vec<String> = left.into_iter().map(sketched).collect();
        let known = Known { without: gone.iter().map(|entry| entry.key.clone()).collect(), ..Known::default() };
        let rest = catalogue(&left.join(" "));
        for target in 1..=LAST {
            let around = RestorePlan::choose(&archive, &revision(target), &known).ok();
            let without = RestorePlan::choose(&rest, &revision(target), &Known::default()).ok();
            let parts = |plan: RestorePlan| (plan.base, plan.deltas);
            assert_eq!(around.map(parts), without.map(parts), "{target} of{} without {gone:?}", small.sketch);
        }
    }
}
