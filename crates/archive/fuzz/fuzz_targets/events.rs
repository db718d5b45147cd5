//! The text of a delta of etcdbrctl, without its digest.

#![no_main]

#[path = "../../tests/hostile/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::events(bytes));
