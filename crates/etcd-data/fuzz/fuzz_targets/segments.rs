//! Any bytes as a log of several segments, as they are and behind right checksums.

#![no_main]

#[path = "../../tests/hostile/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::exercise::segments(bytes));
