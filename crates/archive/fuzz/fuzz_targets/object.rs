//! A whole object, as it is and with right digests: opened, and all of it read, in both directions and by key.

#![no_main]

#[path = "../../tests/hostile/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::object(bytes));
