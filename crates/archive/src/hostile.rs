//! A short run of the fuzz targets that take one part of an object: outside of this crate nobody sees a part.

#[path = "../tests/hostile/parts.rs"]
mod parts;
#[path = "../tests/hostile/short_run.rs"]
mod short_run;

use std::fs;

use crate::chunk::{Chunk, Unpacker};
use crate::key_index::Block;
use short_run::{OF_PARTS, Target, change_at_random, corpus, replay, within};

const TARGETS: [Target; 2] = [("chunk", parts::chunk, 20_000), ("key_block", parts::key_block, 20_000)];

#[test]
fn all_of_the_corpus_is_replayed() {
    assert_eq!(TARGETS.map(|(target, ..)| target), OF_PARTS);
    replay(&TARGETS);
}

#[test]
fn the_corpus_changed_at_random_is_survived() {
    change_at_random(&TARGETS);
}

/// What is refused at its first byte would teach a fuzzer nothing.
#[test]
fn the_corpus_has_parts_that_are_whole() {
    let mut unpacker = Unpacker::new().unwrap();
    let mut whole = |target: &str, unpacks: fn(&[u8], &mut Unpacker) -> bool| {
        let files = within(&corpus().join(target));
        files.iter().filter(|file| unpacks(&fs::read(file).unwrap(), &mut unpacker)).count()
    };
    assert!(whole("chunk", |bytes, unpacker| Chunk::unpack(bytes, unpacker).is_ok()) >= 3);
    assert!(whole("key_block", |bytes, unpacker| Block::unpack(bytes, unpacker).is_ok()) >= 1);
}
