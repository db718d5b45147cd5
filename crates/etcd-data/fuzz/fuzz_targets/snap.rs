//! Any bytes as a raft snapshot, behind a right checksum.

#![no_main]

#[path = "../../tests/hostile/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::exercise::snap(bytes));
