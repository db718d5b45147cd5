//! One chunk, without the digests that would keep a fuzzer from it: what reads at all reads alike from both ends.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../src"]
mod source {
    pub(crate) mod chunk;
    pub(crate) mod fields;
}
use std::ops::ControlFlow;

use etcd_data::database::Direction;
use source::chunk::{Chunk, Unpacker};
use source::{chunk, fields};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut unpacker = Unpacker::new().expect("zstd has memory");
    let _ = chunk::keys_of(bytes, &mut unpacker);
    let Ok(chunk) = Chunk::unpack(bytes, &mut unpacker) else { return };
    let read = |direction| {
        let mut records = Vec::new();
        let read = chunk.read(direction, &mut |at, record: &[u8]| {
            records.push((at, record.to_vec()));
            Ok(ControlFlow::Continue(()))
        });
        read.is_ok().then_some(records)
    };
    let (forwards, mut backwards) = (read(Direction::Forwards), read(Direction::Backwards));
    backwards.iter_mut().for_each(|records| records.reverse());
    assert_eq!(forwards, backwards);
});
