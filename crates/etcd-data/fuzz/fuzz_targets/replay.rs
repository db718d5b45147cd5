//! A log with right checksums and requests of any content, over a database of any content.

#![no_main]

#[path = "../../tests/hostile/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::exercise::replay(bytes));
