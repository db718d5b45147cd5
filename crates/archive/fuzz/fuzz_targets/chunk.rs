//! One chunk, without the digests that would keep a fuzzer from it: what reads at all reads alike from both ends.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../tests/hostile/parts.rs"]
mod parts;
#[path = "../../src"]
mod source {
    pub(crate) mod chunk;
    pub(crate) mod fields;
    pub(crate) mod key_index;
}
use source::{chunk, fields, key_index};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parts::chunk(bytes));
