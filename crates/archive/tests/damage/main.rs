//! Everything that can happen to an object, to every kind of object, met by everything that reads or deletes.
//!
//! What must never come of it: a result that is wrong and does not say so, a panic, a deletion after which a point is
//! gone that was there before. What comes of each is written down in `outcomes.txt`, so that a change shows: one line
//! for each object and damage, with a column for each operation.
//!
//! | Outcome | Means |
//! |---|---|
//! | `exact` | the result is the truth; what was damaged is not needed for it |
//! | `exact, told` | the result is the truth, by another way, and the damaged object is named |
//! | `less, told` | the result is true of an earlier revision, and the damaged object is named |
//! | `less` | likewise, and nothing tells that there was more: what is listed nowhere is not missed |
//! | `Corrupt`, `Missing`, … | it is refused, and the object is named |
//! | `Corrupt, unnamed`, … | it is refused, and the object is not named |
//! | `found`, `found, unnamed` | verifying finds something wrong, and the object is named, or others are |
//! | `sound` | verifying finds nothing wrong: it tells of what is there, and what is there is right |
//! | `n gone, …` | pruning deleted so many objects, and what could be restored before still can |
//! | `-` | there is nothing to do with such an object |
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
mod sound;
#[path = "../own_archives/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use outcome::{Case, OPERATIONS, class};

const OUTCOMES: &str = "tests/damage/outcomes.txt";

#[test]
fn what_is_damaged_is_found_or_survived_and_never_silently_wrong() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let subjects = sound::subjects(runtime.handle(), scratch.path());
    let mut table = format!("object | damage | {}\n", OPERATIONS.join(" | "));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut kinds, mut cases) = (BTreeSet::new(), 0);
    let mut forbidden = Vec::new();
    for subject in &subjects {
        for damage in kinds::of(subject) {
            let case = Case { subject, damage: &damage, handle: runtime.handle(), scratch: scratch.path() };
            let outcomes = case.outcomes();
            let line = format!("{} | {} | {}", subject.what, damage.what, outcomes.join(" | "));
            for outcome in &outcomes {
                cases += 1;
                *counts.entry(class(outcome)).or_default() += 1;
            }
            if outcomes.iter().any(|outcome| class(outcome) == "FORBIDDEN") {
                forbidden.push(line.clone());
            }
            kinds.insert(damage.what.clone());
            writeln!(table, "{line}").unwrap();
        }
    }
    println!("{} kinds of objects, {} kinds of damage, {cases} cases: {counts:#?}", subjects.len(), kinds.len());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(OUTCOMES);
    if std::env::var_os("UPDATE_OUTCOMES").is_some() {
        fs::write(&path, &table).unwrap();
    }
    assert!(forbidden.is_empty(), "{}", forbidden.join("\n"));
    assert!(kinds.len() >= 24);
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differ: Vec<String> = table
        .lines()
        .zip(expected.lines())
        .filter(|(found, expected)| found != expected)
        .map(|(found, expected)| format!("found    {found}\nexpected {expected}"))
        .collect();
    assert!(table == expected, "{} lines differ from {OUTCOMES}:\n{}", differ.len(), differ.join("\n"));
}
