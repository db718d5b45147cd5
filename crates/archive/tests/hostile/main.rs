//! A short run of what the fuzz targets do without end: what lies in their corpus, as it is and changed at random, is survived.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(clippy::print_stderr, reason = "seeds are shown")]

mod exercise;
mod short_run;

use std::fs;

use short_run::{OF_PARTS, Target, change_at_random, corpus, replay, within};
use testkit::checkout::fuzz_names;

const TARGETS: [Target; 4] = [
    ("events", exercise::events, 20_000),
    ("names", exercise::names, 20_000),
    ("notes", exercise::notes, 20_000),
    ("object", exercise::object, 5000),
];

#[test]
fn all_of_the_corpus_is_replayed() {
    let mut targets: Vec<&str> = TARGETS.iter().map(|(target, ..)| *target).chain(OF_PARTS).collect();
    targets.sort_unstable();
    assert_eq!(fuzz_names("fuzz_targets"), targets, "each fuzz target has its line in TARGETS or in OF_PARTS");
    assert_eq!(fuzz_names("corpus"), targets, "each fuzz target has a corpus");
    replay(&TARGETS);
}

/// What does not open would teach a fuzzer nothing of what is in it.
#[test]
fn the_corpus_has_an_object_that_is_sealed_and_opens() {
    let files = within(&corpus().join("object")).into_iter().map(|file| fs::read(file).unwrap());
    let opened = files.filter_map(|bytes| exercise::read_object(bytes.into()));
    assert!(opened.into_iter().any(|object| object.header().encryption.is_some()));
}

#[test]
fn the_corpus_changed_at_random_is_survived() {
    change_at_random(&TARGETS);
}
