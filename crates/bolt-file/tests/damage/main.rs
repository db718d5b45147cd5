//! Damage of every kind at every place: reading ends without a panic, and a check names the page.
//!
//! bbolt keeps no checksum of data: values can change unseen, and so can a key that stays between its neighbours.
//! That is asserted too, so that nobody believes more.
//!
//! - [`pages`], [`elements`], [`keys`], [`buckets`], [`freelist`], [`metas`]: what is damaged is named
//! - [`everywhere`]: every byte and every page of the sample

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod buckets;
mod elements;
mod everywhere;
#[path = "../exercise/mod.rs"]
mod exercise;
mod freelist;
#[path = "../hand/mod.rs"]
mod hand;
mod keys;
mod metas;
mod pages;

use bolt_file::check::Severity;
use exercise::{agree, exercise};
use hand::{SAMPLE_PAGE_SIZE as PAGE, meta, sample};

/// The number of pages of [`sample`].
const PAGES: u64 = 18;
const FREELIST: usize = 2;

/// What a check of `bytes` says, a finding per line.
fn findings(bytes: Vec<u8>) -> Vec<String> {
    match exercise(bytes) {
        Some(report) => report.findings.iter().map(ToString::to_string).collect(),
        None => vec!["does not open".to_owned()],
    }
}

#[track_caller]
fn finds(damage: impl FnOnce(&mut Vec<u8>), expected: &[&str]) {
    let (mut bytes, _) = sample();
    damage(&mut bytes);
    agree(bytes.clone());
    assert_eq!(findings(bytes), expected);
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

fn put_meta(bytes: &mut [u8], longs: [u64; 5]) {
    put(bytes, 0, &meta(0, PAGE as u32, longs));
}

/// Byte `offset` of `page`.
fn at(page: usize, offset: usize) -> usize {
    page * PAGE + offset
}

/// The word `field` of the element at `index` of `page`.
fn element(page: usize, index: usize, field: usize) -> usize {
    at(page, 16 + index * 16 + field)
}

/// Where in the file `needle` stands on `page`.
fn place_of(bytes: &[u8], page: usize, needle: &[u8]) -> usize {
    let after = &bytes[at(page, 16)..];
    at(page, 16) + after.windows(needle.len()).position(|window| window == needle).unwrap()
}

#[test]
fn the_sample_is_sound() {
    let (bytes, _) = sample();
    let report = exercise(bytes).unwrap();
    assert_eq!((report.findings.as_slice(), report.further, report.worst()), (&[][..], 0, None));
    let counted = report.statistics;
    assert_eq!((counted.branch_pages, counted.leaf_pages, counted.overflow_pages), (3, 7, 3));
    assert_eq!((counted.freelist_pages, counted.free_pages, counted.depth), (1, 2, 4));
    assert_eq!((counted.entries, counted.buckets, counted.inline_buckets), (21, 4, 1));
}

#[test]
fn severity_says_what_a_server_makes_of_it() {
    let worst = |damage: &dyn Fn(&mut Vec<u8>)| {
        let (mut bytes, _) = sample();
        damage(&mut bytes);
        exercise(bytes).unwrap().worst()
    };
    assert_eq!(worst(&|file| file[at(12, 10)] = 1), Some(Severity::Fatal), "a branch with one child");
    assert_eq!(worst(&|file| file[at(1, 70)] ^= 1), Some(Severity::Unsound), "a torn meta page");
    assert_eq!(worst(&|file| put_meta(file, [17, 7, 2, PAGES, 8])), Some(Severity::Harmless), "a sequence");
    assert_eq!(worst(&|file| file.push(1)), None, "a byte past the end");
}
