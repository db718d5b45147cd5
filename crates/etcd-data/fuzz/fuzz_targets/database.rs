//! A well-formed file with buckets, records and marks of any content, at any revisions.

#![no_main]

#[path = "../../tests/hostile/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::exercise::database(bytes));
