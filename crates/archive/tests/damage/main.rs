//! Everything that can happen to an object, to every kind of object, met by everything that reads or deletes.
//!
//! What must never come of it: a result that is wrong and does not say so, a panic, a deletion after which a point is
//! gone that was there before and that the policy keeps. What comes of each is written down in `outcomes.txt`, so that a
//! change shows: one line for each object and damage, with a column for each operation. The first line of each object is
//! of the sound archive.
//!
//! | Outcome | Means |
//! |---|---|
//! | `exact` | the result is the truth; what was damaged is not needed for it |
//! | `exact, told` | the result is the truth, by another way, and the damaged object is named |
//! | `less, told` | the result is true of an earlier revision, and the damaged object is named |
//! | `less` | likewise, and nothing tells that there was more: what is listed nowhere is not missed |
//! | `Corrupt`, `Missing`, … | it is refused, and the object is named; of verifying and pruning, nothing was changed |
//! | `Corrupt, unnamed`, … | it is refused, and the object is not named |
//! | `found`, `found, unnamed` | verifying finds something wrong, and the object is named, or others are |
//! | `sound` | verifying finds nothing wrong: it tells of what is there, and what is there is right |
//! | `n gone, m of k points left` | pruning deleted so many objects; of the points that could be restored before, so many still can, and all that the policy keeps are among them |
//! | `-` | there is nothing to do with such an object |
//!
//! There are two columns of pruning. `prune` goes by what was recorded when all was sound, as whoever prunes without
//! looking; before `verify and prune` everything is read again, as upkeep does in parts, and what is found is recorded.
//!
//! `UPDATE_OUTCOMES=1` writes the file anew: read what has changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod kinds;
mod outcome;
#[path = "../fixtures/point.rs"]
mod point;
mod sound;
#[path = "../own_archives/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};

use kinds::{Damage, NOTHING};
use outcome::{Case, OPERATIONS, class};
use sound::Subject;
use testkit::outcomes::{Outcomes, look_at_all};

const OUTCOMES: &str = "tests/damage/outcomes.txt";
/// How many kinds of damage happen to every object, at the least.
const LEAST_KINDS: usize = 24;

#[test]
fn what_is_damaged_is_found_or_survived_and_never_silently_wrong() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let subjects = sound::subjects(runtime.handle(), scratch.path());
    let mut cases: Vec<(&Subject, Damage)> = Vec::new();
    for subject in &subjects {
        cases.extend(kinds::of(subject).into_iter().map(|damage| (subject, damage)));
    }
    let (handle, folder) = (runtime.handle(), scratch.path());
    let found = look_at_all(&cases, |(subject, damage)| Case::new(subject, damage, handle, folder).outcomes());

    let mut outcomes = Outcomes::of(OUTCOMES, &format!("object | damage | {}", OPERATIONS.join(" | ")));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((subject, damage), columns) in cases.iter().zip(&found) {
        let line = format!("{} | {} | {}", subject.what, damage.what, columns.join(" | "));
        for outcome in columns {
            *counts.entry(class(outcome)).or_default() += 1;
        }
        outcomes.note(&line);
        if columns.iter().any(|outcome| class(outcome) == "FORBIDDEN") {
            outcomes.forbid(line);
        }
        if damage.what != NOTHING {
            kinds.entry(&subject.what).or_default().insert(&damage.what);
        }
    }
    let all: BTreeSet<&str> = kinds.values().flatten().copied().collect();
    let met: usize = counts.values().sum();
    let counted = format!("{} kinds of objects, {} kinds of damage, {met} cases: {counts:?}", kinds.len(), all.len());
    testkit::keep_counts("damage", &counted);
    println!("{counted}");
    outcomes.require();
    for (what, kinds) in &kinds {
        assert!(kinds.len() >= LEAST_KINDS, "{what}: {kinds:?}");
    }
}
