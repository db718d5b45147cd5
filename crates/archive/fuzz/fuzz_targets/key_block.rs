//! One block of a key index, without its digest.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../src"]
mod source {
    pub(crate) mod chunk;
    pub(crate) mod fields;
    pub(crate) mod key_index;
}
use source::chunk::Unpacker;
use source::key_index::Block;
use source::{chunk, fields};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(block) = Block::unpack(bytes, &mut Unpacker::new().expect("zstd has memory")) else { return };
    let mut total = 0;
    let _ = block.entries(100, |_, chunks| total += chunks.filter(|&chunk| chunk < 100).count());
});
