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

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod damage;
mod frames;
mod member;
mod outcome;
mod truth;

use damage::{Damage, damages};
use outcome::{COMMANDS, look_at};
use testkit::outcomes::{Outcomes, look_at_all};
use truth::Subject;

const OUTCOMES: &str = "tests/damaged_members/outcomes.txt";

#[test]
fn what_happens_to_a_data_directory_is_found_or_survived_and_never_silently_wrong() {
    let subjects = [Subject::killed(), Subject::stopped()];
    let cases: Vec<(&Subject, Damage)> =
        subjects.iter().flat_map(|subject| damages(subject).into_iter().map(move |damage| (subject, damage))).collect();
    let found = look_at_all(&cases, |(subject, damage)| look_at(subject, damage));

    let mut outcomes = Outcomes::of(OUTCOMES, &format!("member | place | damage | {}", COMMANDS.join(" | ")));
    for ((subject, damage), outcome) in cases.iter().zip(&found) {
        let line = format!("{} | {} | {} | {}", subject.name, damage.place, damage.what, outcome.columns.join(" | "));
        outcome.forbidden.iter().for_each(|why| outcomes.forbid(format!("{line}\n  {why}")));
        outcomes.note(&line);
    }
    println!("{} cases", cases.len());
    outcomes.require();
}
