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

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "these are tests"
)]

mod kinds;
mod outcome;
#[path = "../fixtures/point.rs"]
mod point;
mod sound;
#[path = "../own_archives/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kinds::{Damage, NOTHING};
use outcome::{Case, OPERATIONS, class};
use sound::Subject;
use tokio::runtime::Handle;

const OUTCOMES: &str = "tests/damage/outcomes.txt";
/// How many kinds of damage happen to every object, at the least.
const LEAST_KINDS: usize = 24;
/// How many cases are looked at at once.
const AT_ONCE: usize = 2;

#[test]
fn what_is_damaged_is_found_or_survived_and_never_silently_wrong() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let subjects = sound::subjects(runtime.handle(), scratch.path());
    let mut cases: Vec<(&Subject, Damage)> = Vec::new();
    for subject in &subjects {
        cases.extend(kinds::of(subject).into_iter().map(|damage| (subject, damage)));
    }
    let outcomes = look_at_all(&cases, runtime.handle(), scratch.path());

    let mut table = format!("object | damage | {}\n", OPERATIONS.join(" | "));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut forbidden = Vec::new();
    for ((subject, damage), outcomes) in cases.iter().zip(&outcomes) {
        let line = format!("{} | {} | {}", subject.what, damage.what, outcomes.join(" | "));
        for outcome in outcomes {
            *counts.entry(class(outcome)).or_default() += 1;
        }
        if outcomes.iter().any(|outcome| class(outcome) == "FORBIDDEN") {
            forbidden.push(line.clone());
        }
        if damage.what != NOTHING {
            kinds.entry(&subject.what).or_default().insert(&damage.what);
        }
        writeln!(table, "{line}").unwrap();
    }
    let all: BTreeSet<&str> = kinds.values().flatten().copied().collect();
    let met: usize = counts.values().sum();
    let counted = format!("{} kinds of objects, {} kinds of damage, {met} cases: {counts:?}", kinds.len(), all.len());
    testkit::keep_counts("damage", &counted);
    println!("{counted}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(OUTCOMES);
    if std::env::var_os("UPDATE_OUTCOMES").is_some() {
        fs::write(&path, &table).unwrap();
    }
    assert!(forbidden.is_empty(), "{}", forbidden.join("\n"));
    for (what, kinds) in &kinds {
        assert!(kinds.len() >= LEAST_KINDS, "{what}: {kinds:?}");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differ: Vec<String> = table
        .lines()
        .zip(expected.lines())
        .filter(|(found, expected)| found != expected)
        .map(|(found, expected)| format!("found    {found}\nexpected {expected}"))
        .collect();
    assert!(table == expected, "{} lines differ from {OUTCOMES}:\n{}", differ.len(), differ.join("\n"));
}

/// What each operation comes to, case by case.
fn look_at_all(cases: &[(&Subject, Damage)], handle: &Handle, scratch: &Path) -> Vec<Vec<String>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((subject, damage)) = cases.get(at) else { return };
            let outcomes = Case::new(subject, damage, handle, scratch).outcomes();
            done.lock().unwrap().insert(at, outcomes);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap().into_values().collect()
}
