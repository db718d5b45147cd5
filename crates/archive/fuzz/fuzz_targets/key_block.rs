//! One block of a key index, without its digest.

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

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parts::key_block(bytes));
