//! Small objects that are JSON: `writer.json`, lockboxes, proofs, what is told of clusters, lineages and fulls.

#![no_main]

#[path = "../../tests/hostile/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::notes(bytes));
