//! Everything that can happen to the data directory of a member, met by everything that looks at one.
//!
//! What must never come of it: a result that is wrong or less than what was there and does not say so, a panic, or
//! something half made where a restore was to put it. What comes of each is written down in `outcomes.txt`, so that a
//! change shows: one line for each place and damage, with a column for each command. The first line of each member is of
//! the sound one.
//!
//! | Outcome | Means |
//! |---|---|
//! | `exact` | the result is what the member had |
//! | `less, REVISION` | it is what the member had at this earlier revision |
//! | `wrong` | it is what the member never had |
//! | `sound` | verifying finds nothing wrong, and has nothing to say |
//! | `noted: …` | verifying finds nothing wrong, and has this to say |
//! | `found: …` | verifying finds this, by the codes of findings |
//! | `Corrupt`, `Missing`, … | it is refused |
//!
//! What is wrong is found by verifying, and what is less is found or noted. Nobody can know of a byte of a value in the
//! database, which no checksum covers, nor of what is cut off the end of a log on the border of two records. Only these
//! may be wrong or less without a word.
//!
//! `UPDATE_OUTCOMES=1` writes the file anew: read what has changed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "these are tests"
)]

mod damage;
mod frames;
mod member;
mod outcome;
mod truth;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use damage::{Damage, damages};
use outcome::{COMMANDS, look_at};
use truth::Subject;

const OUTCOMES: &str = "tests/damaged_members/outcomes.txt";
/// How many cases are looked at at once.
const AT_ONCE: usize = 2;

#[test]
fn what_happens_to_a_data_directory_is_found_or_survived_and_never_silently_wrong() {
    let subjects = [Subject::killed(), Subject::stopped()];
    let cases: Vec<(&Subject, Damage)> =
        subjects.iter().flat_map(|subject| damages(subject).into_iter().map(move |damage| (subject, damage))).collect();
    let outcomes = look_at_all(&cases);

    let mut table = format!("member | place | damage | {}\n", COMMANDS.join(" | "));
    let mut forbidden = Vec::new();
    for ((subject, damage), outcome) in cases.iter().zip(&outcomes) {
        let line = format!("{} | {} | {} | {}", subject.name, damage.place, damage.what, outcome.columns.join(" | "));
        forbidden.extend(outcome.forbidden.iter().map(|why| format!("{line}\n  {why}")));
        writeln!(table, "{line}").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(OUTCOMES);
    if std::env::var_os("UPDATE_OUTCOMES").is_some() {
        fs::write(&path, &table).unwrap();
    }
    println!("{} cases", cases.len());
    assert!(forbidden.is_empty(), "{} are forbidden:\n{}", forbidden.len(), forbidden.join("\n"));
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differ: Vec<String> = table
        .lines()
        .zip(expected.lines())
        .filter(|(found, expected)| found != expected)
        .map(|(found, expected)| format!("found    {found}\nexpected {expected}"))
        .collect();
    assert!(table == expected, "{} lines differ from {OUTCOMES}:\n{}", differ.len(), differ.join("\n"));
}

/// What comes of each case, in their order.
fn look_at_all(cases: &[(&Subject, Damage)]) -> Vec<outcome::Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((subject, damage)) = cases.get(at) else { return };
            let outcome = look_at(subject, damage);
            done.lock().unwrap().insert(at, outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap().into_values().collect()
}
