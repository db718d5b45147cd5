//! `bbolt check` as a second opinion: what it complains about, a check complains about, and on sound files both are silent.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod hand;

use std::fs;
use std::sync::Arc;

use bolt_file::{BoltFile, check};
use hand::{Hand, SAMPLE_PAGE_SIZE as PAGE, bucket, inline, pair, sample};
use testkit::fixtures;
use testkit::judges::bbolt_check;

fn is_sound(bytes: Vec<u8>) -> bool {
    BoltFile::open(Arc::new(bytes)).is_ok_and(|file| check(&file, 2).unwrap().is_sound())
}

/// What bbolt says.
fn judged(bytes: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    fs::write(&path, bytes).unwrap();
    bbolt_check(&path)
}

/// The sample without a free list, so that pages that nothing leads to are free.
fn without_freelist() -> Vec<u8> {
    let mut file = Hand::new(PAGE);
    let leaves = [
        file.leaf(&[pair("a", "1"), pair("b", "2")]),
        file.leaf(&[pair("c", vec![3; 2000]), pair("d", "4")]),
        file.leaf(&[pair("e", "5")]),
    ];
    let tree = file.branch(&[(b"a", leaves[0]), (b"c", leaves[1]), (b"e", leaves[2])]);
    let root = file.leaf(&[inline("i", vec![pair("k", "v")]), bucket("key", tree)]);
    file.finish(root, None)
}

#[test]
fn files_made_by_hand_and_by_real_servers_are_sound_to_both() {
    for bytes in [sample().0, without_freelist()] {
        assert_eq!(judged(&bytes), Ok(()));
        assert!(is_sound(bytes));
    }
    for name in fixtures::DATA_DIRS {
        let folder = fixtures::data_dir(name);
        let bytes = fs::read(folder.path().join("member/snap/db")).unwrap();
        assert_eq!(judged(&bytes), Ok(()), "{name}");
        assert!(is_sound(bytes), "{name}");
    }
}

/// bbolt names every page of an overflow that is not there: here it would be millions.
const OVERFLOW_HIGH: std::ops::Range<usize> = 13..16;

#[test]
fn what_bbolt_complains_about_is_found() {
    let mut complaints = 0;
    for sound in [sample().0, without_freelist()] {
        for place in
            (0..sound.len()).filter(|place| place % PAGE < 96 && !OVERFLOW_HIGH.contains(&(place % PAGE))).step_by(7)
        {
            let mut bytes = sound.clone();
            bytes[place] ^= 1;
            if let Err(complaint) = judged(&bytes) {
                complaints += 1;
                assert!(!is_sound(bytes), "byte {} of page {}: {complaint}", place % PAGE, place / PAGE);
            }
        }
    }
    assert!(complaints > 80, "only {complaints} complaints");
}
