//! A short run of what the fuzz targets do without end: the files of their corpus, changed at random, are survived.
//!
//! `FUZZ_SEED` chooses other changes. A failure prints the seed that makes the same ones again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stderr)]

mod exercise;
mod hand;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::write::{Builder, Options};
use exercise::{agree, exercise, rises};
use hand::{SAMPLE_PAGE_SIZE as PAGE, mend_meta, sample};
use testkit::cases::Told;
use testkit::checkout::fuzz_names;
use testkit::random::Random;

const ROUNDS: u64 = 30_000;

#[test]
fn files_changed_at_random_are_survived() {
    let first = env::var("FUZZ_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    let corpus = corpus();
    for seed in first..first + testkit::cases(ROUNDS) {
        let _told = Told(format!("again with FUZZ_SEED={seed}"));
        let mut random = Random(seed);
        let mut bytes = corpus[random.place(corpus.len())].clone();
        for _ in 0..=random.place(6) {
            change(&mut bytes, &mut random);
        }
        if random.place(8) > 0 {
            mend_meta(&mut bytes, PAGE as u32);
        }
        if seed.is_multiple_of(16) {
            agree(bytes.clone());
        }
        exercise(bytes);
    }
}

/// As the targets do it: the one takes any bytes, the other mends a meta page before.
#[test]
fn every_file_of_the_corpus_is_survived_as_it_is() {
    assert_eq!(fuzz_names("fuzz_targets"), ["open", "walk"], "nothing here replays another fuzz target's corpus");
    assert_eq!(fuzz_names("corpus"), ["open", "walk"], "each fuzz target has a corpus");
    let mut replayed = 0;
    for (file, bytes) in files() {
        let _told = Told(format!("it was {}", file.display()));
        match file.parent().unwrap().file_name().unwrap().to_str().unwrap() {
            "open" => drop(exercise(bytes)),
            "walk" => {
                let mut bytes = bytes;
                mend_meta(&mut bytes, PAGE as u32);
                exercise(bytes);
            }
            target => panic!("nothing here replays the corpus of {target}"),
        }
        replayed += 1;
    }
    assert!(replayed > 2, "{replayed}");
}

#[test]
fn the_corpus_holds_the_sample_and_a_file_of_ours() {
    let folder = testkit::checkout::package().join("fuzz/corpus/walk");
    for (name, bytes) in [("sample", sample().0), ("written", written())] {
        assert!(fs::read(folder.join(name)).unwrap() == bytes, "{name} has changed, write it to the corpus");
    }
}

/// No other file of the corpus is one that a check while it is written goes through to its end.
#[test]
fn a_file_of_ours_rises() {
    assert!(rises(&BoltFile::open(Arc::new(written())).unwrap()));
}

/// A file of ours with all there is: a bucket of three levels with a value of several pages, one of two levels, one in the
/// element that names it, and an empty one.
fn written() -> Vec<u8> {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options { page_size: PAGE as u32, ..Options::default() }).unwrap();
    let mut put = |name: &[u8], pairs: Vec<(Vec<u8>, Vec<u8>)>| {
        let mut bucket = builder.bucket(name).unwrap();
        pairs.iter().for_each(|(key, value)| bucket.push(key, value).unwrap());
        bucket.finish().unwrap();
    };
    let value = |n: u8| vec![n; if n == 7 { 3000 } else { 40 }];
    put(b"key", (0..30).map(|n| (format!("{n:0200}").into_bytes(), value(n))).collect());
    put(b"lease", (0..20).map(|n| (u64::from(n).to_be_bytes().to_vec(), vec![n; 30])).collect());
    put(b"small", [("one", "1"), ("two", "2")].map(|(key, value)| (key.into(), value.into())).to_vec());
    put(b"empty", Vec::new());
    builder.finish().unwrap();
    file
}

/// The seeds of all targets.
fn corpus() -> Vec<Vec<u8>> {
    files().into_iter().map(|(_, bytes)| bytes).collect()
}

/// The same, with where each lies.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = testkit::checkout::package().join("fuzz/corpus");
    let targets = fs::read_dir(folder).unwrap().map(|target| target.unwrap().path());
    let mut files: Vec<_> =
        targets.flat_map(|target| fs::read_dir(target).unwrap().map(|file| file.unwrap().path())).collect();
    files.sort();
    let read = |file: PathBuf| (file.clone(), fs::read(file).unwrap());
    files.into_iter().map(read).collect()
}

/// One change: a bit, a number that hurts, a page somewhere else, bytes gone.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    const HURTFUL: [u64; 10] = [0, 1, 2, 3, 16, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
    let pages = bytes.len() / PAGE;
    if pages == 0 {
        return;
    }
    // Headers and elements, more often than data.
    let page = random.place(pages) * PAGE;
    let stretch = if random.place(4) == 0 { PAGE } else { 128 };
    let at = page + random.place(stretch);
    match random.place(10) {
        0..4 => bytes[at] ^= 1 << random.place(8),
        4..6 => {
            let number = HURTFUL[random.place(HURTFUL.len())].wrapping_add(random.place(2) as u64);
            let len = [1, 2, 4, 8][random.place(4)].min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
        }
        6..8 => bytes[at] = random.place(pages + 1) as u8,
        8 => {
            let to = random.place(pages) * PAGE;
            bytes.copy_within(page..page + PAGE, to);
            // So that it is taken for the page it replaced.
            if random.place(2) == 0 {
                bytes[to..to + 8].copy_from_slice(&((to / PAGE) as u64).to_le_bytes());
            }
        }
        _ => bytes.truncate(at),
    }
}
