//! Does everything that can be done with one part of an object, without the digests that would keep a fuzzer from it. It must
//! end, and never panic.
//!
//! Shared by the short run in the tests of the crate, outside of which nobody sees a part, and by the fuzz targets.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::ControlFlow;

use etcd_data::RevKey;
use etcd_data::database::Direction;
use etcd_data::records::Visit;

use crate::chunk::{Chunk, Course, Stop, Unpacker, keys_of};
use crate::key_index::Block;

/// One chunk: what reads at all reads alike from both ends, and its course is that of its records.
pub(crate) fn chunk(bytes: &[u8]) {
    let mut unpacker = Unpacker::new().expect("zstd has memory");
    let _ = keys_of(bytes, &mut unpacker);
    let course = Course::of(bytes, &mut unpacker).ok();
    let course = course.filter(|course| !course.has_keyless());
    let course = course.and_then(|course| from_both_ends(|direction, visit| course.read(direction, visit)));
    let Ok(chunk) = Chunk::unpack(bytes, &mut unpacker) else { return };
    let Some(records) = from_both_ends(|direction, visit| chunk.read(direction, visit)) else { return };
    if let Some(course) = course {
        assert!(course.iter().map(|(at, _)| at).eq(records.iter().map(|(at, _)| at)));
    }
}

/// What comes, if it can be read: the same from either end. A few bytes may tell of records that are half a gibibyte together.
fn from_both_ends(read: impl Fn(Direction, &mut Visit<'_>) -> Result<(), Stop>) -> Option<Vec<(RevKey, u64)>> {
    let hash = BuildHasherDefault::<DefaultHasher>::new();
    let from = |direction| {
        let mut all = Vec::new();
        let read = read(direction, &mut |at, bytes: &[u8]| {
            all.push((at, hash.hash_one(bytes)));
            Ok(ControlFlow::Continue(()))
        });
        read.is_ok().then_some(all)
    };
    let (forwards, mut backwards) = (from(Direction::Forwards), from(Direction::Backwards));
    backwards.iter_mut().for_each(|all| all.reverse());
    assert_eq!(forwards, backwards);
    forwards
}

/// One block of a key index: only chunks that there are come out.
pub(crate) fn key_block(bytes: &[u8]) {
    const CHUNKS: usize = 100;
    let Ok(block) = Block::unpack(bytes, &mut Unpacker::new().expect("zstd has memory")) else { return };
    let _ = block.entries(CHUNKS, |_, mut chunks| assert!(chunks.all(|chunk| chunk < CHUNKS)));
}
