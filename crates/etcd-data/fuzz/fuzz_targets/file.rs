//! Any bytes as a database file.

#![no_main]

#[path = "../../tests/hostile/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::exercise::file(bytes.to_vec()));
