//! Any bytes behind a meta page that opens, so that the fuzzer need not guess checksums.

#![no_main]

#[path = "../../tests/exercise/mod.rs"]
mod exercise;
#[path = "../../tests/hand/mod.rs"]
mod hand;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    hand::mend_meta(&mut bytes, 1024);
    exercise::exercise(bytes);
});
