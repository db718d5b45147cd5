//! Any bytes as a segment of a log, as they are and behind right checksums.

#![no_main]

#[path = "../../tests/hostile/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::exercise::segment(bytes.to_vec()));
