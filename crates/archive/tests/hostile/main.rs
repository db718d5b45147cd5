//! A short run of what the fuzz targets do without end: what lies in their corpus, as it is and changed at random, is survived.
//!
//! `FUZZ_SEED` chooses other changes. A failure prints the seed that makes the same ones again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(clippy::print_stderr, reason = "seeds are shown")]

mod exercise;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A target, what it does with bytes, and how many changes of its corpus are tried.
type Target = (&'static str, fn(&[u8]), u64);

const TARGETS: [Target; 4] = [
    ("events", exercise::events, 20_000),
    ("names", exercise::names, 20_000),
    ("notes", exercise::notes, 20_000),
    ("object", exercise::object, 5000),
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// What is in a folder, in order.
fn within(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn all_of_the_corpus_is_replayed() {
    let targets = TARGETS.map(|(target, ..)| corpus().join(target));
    assert_eq!(within(&corpus()), targets, "each folder of the corpus has its line in TARGETS");
    for (target, exercise, _) in TARGETS {
        for file in within(&corpus().join(target)) {
            let _told = Tell(format!("{} is not survived", file.display()));
            exercise(&fs::read(&file).unwrap());
        }
    }
}

#[test]
fn the_corpus_changed_at_random_is_survived() {
    let first = env::var("FUZZ_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    for (target, exercise, rounds) in TARGETS {
        let seeds: Vec<Vec<u8>> = within(&corpus().join(target)).iter().map(|file| fs::read(file).unwrap()).collect();
        for seed in first..first + rounds {
            let _told = Tell(format!("{target}: again with FUZZ_SEED={seed}"));
            let mut random = StdRng::seed_from_u64(seed);
            let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
            for _ in 0..random.random_range(1..4) {
                change(&mut bytes, &mut random);
            }
            exercise(&bytes);
        }
    }
}

/// One change, mostly of a single byte.
fn change(bytes: &mut Vec<u8>, random: &mut StdRng) {
    if bytes.is_empty() {
        return;
    }
    let at = random.random_range(0..bytes.len());
    match random.random_range(0..10) {
        0..4 => bytes[at] = random.random(),
        4..6 => bytes[at] ^= 1 << random.random_range(0..8),
        6 => drop(bytes.remove(at)),
        7 => bytes.insert(at, random.random()),
        8 => {
            let end = (at + random.random_range(0..64)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => bytes.truncate(at),
    }
}

/// Prints what it is about if the round panics.
struct Tell(String);

impl Drop for Tell {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
