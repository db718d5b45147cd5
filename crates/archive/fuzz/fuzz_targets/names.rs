//! Keys as a store lists them, one a line.

#![no_main]

#[path = "../../tests/hostile/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::names(bytes));
