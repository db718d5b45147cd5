//! Any bytes: opening, walking and checking end, and never panic.

#![no_main]

#[path = "../../tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes.to_vec());
});
