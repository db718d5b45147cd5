//! Does everything that can be done with one part of an object, without the digests that would keep a fuzzer from it. It must
//! end, and never panic.
//!
//! Shared by the short run in the tests of the crate, outside of which nobody sees a part, and by the fuzz targets.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::ControlFlow;

use etcd_data::database::Direction;

use crate::chunk::{Chunk, Unpacker, keys_of};
use crate::key_index::Block;

/// One chunk: what reads at all reads alike from both ends.
pub(crate) fn chunk(bytes: &[u8]) {
    let mut unpacker = Unpacker::new().expect("zstd has memory");
    let _ = keys_of(bytes, &mut unpacker);
    let Ok(chunk) = Chunk::unpack(bytes, &mut unpacker) else { return };
    // A few bytes may tell of records that are half a gibibyte together.
    let hash = BuildHasherDefault::<DefaultHasher>::new();
    let read = |direction| {
        let mut records = Vec::new();
        let read = chunk.read(direction, &mut |at, record: &[u8]| {
            records.push((at, hash.hash_one(record)));
            Ok(ControlFlow::Continue(()))
        });
        read.is_ok().then_some(records)
    };
    let (forwards, mut backwards) = (read(Direction::Forwards), read(Direction::Backwards));
    backwards.iter_mut().for_each(|records| records.reverse());
    assert_eq!(forwards, backwards);
}

/// One block of a key index: only chunks that there are come out.
pub(crate) fn key_block(bytes: &[u8]) {
    const CHUNKS: usize = 100;
    let Ok(block) = Block::unpack(bytes, &mut Unpacker::new().expect("zstd has memory")) else { return };
    let _ = block.entries(CHUNKS, |_, mut chunks| assert!(chunks.all(|chunk| chunk < CHUNKS)));
}
