//! What fuzz targets do without end, for a short time: what lies in their corpus, as it is and changed at random.
//!
//! Other changes are tried each time. `FUZZ_SEED` chooses them; a failure prints the seed that makes the same ones again.
//!
//! Shared by the tests in this folder and those of the crate.

use std::env;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::cases::Told;

/// A target, what it does with bytes, and how many changes of its corpus are tried.
pub(crate) type Target = (&'static str, fn(&[u8]), u64);

/// Targets that take one part of an object, which only the tests of the crate see.
pub(crate) const OF_PARTS: [&str; 2] = ["chunk", "key_block"];

/// Where the corpus of each target lies.
pub(crate) fn corpus() -> PathBuf {
    testkit::checkout::package().join("fuzz/corpus")
}

/// What is in a folder, in order.
pub(crate) fn within(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Does with the corpus of each target what that does.
pub(crate) fn replay(targets: &[Target]) {
    for (target, exercise, _) in targets {
        for file in within(&corpus().join(target)) {
            let _told = Told(format!("{} is not survived", file.display()));
            exercise(&fs::read(&file).unwrap());
        }
    }
}

/// The same, with changes of it.
pub(crate) fn change_at_random(targets: &[Target]) {
    let firsts = first_seeds();
    eprintln!("FUZZ_SEED was each of {firsts:?}");
    for &(target, exercise, rounds) in targets {
        let files: Vec<Vec<u8>> = within(&corpus().join(target)).iter().map(|file| fs::read(file).unwrap()).collect();
        let share = testkit::cases(rounds).div_ceil(firsts.len() as u64);
        for seed in firsts.iter().flat_map(|&first| first..first + share) {
            let _told = Told(format!("{target}: again with FUZZ_SEED={seed}"));
            let mut random = StdRng::seed_from_u64(seed);
            let mut bytes = files[random.random_range(0..files.len())].clone();
            for _ in 0..random.random_range(1..4) {
                change(&mut bytes, &mut random);
            }
            exercise(&bytes);
        }
    }
}

/// The first seeds of a few runs, of which each has its share of the rounds: one that every run has, and others that none had
/// before. Those that follow on a seed belong to it.
fn first_seeds() -> Vec<u64> {
    match env::var("FUZZ_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => iter::once(0x5eed).chain(iter::repeat_with(|| u64::from(rand::random::<u32>()))).take(4).collect(),
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
