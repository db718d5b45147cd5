//! A short run of what the fuzz targets do without end: seeds, changed at random, are survived.
//!
//! `FUZZ_SEED` chooses other changes. A failure prints the seed that makes the same ones again.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_data::bolt_file::BoltFile;
use testkit::cases::Told;
use testkit::checkout::fuzz_names;
use testkit::random::Random;
use testkit::{Golden, fixtures};

use crate::entry::exercise;

/// Runs `exercise` on `rounds` changes of `seeds`.
fn survives(seeds: &[Vec<u8>], rounds: u64, exercise: impl Fn(Vec<u8>)) {
    let first = env::var("FUZZ_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    for seed in first..first + testkit::cases(rounds) {
        let _told = Told(format!("again with FUZZ_SEED={seed}"));
        let mut random = Random(seed);
        let mut bytes = seeds[random.place(seeds.len())].clone();
        for _ in 0..random.place(6) {
            change(&mut bytes, &mut random);
        }
        exercise(bytes);
    }
}

/// The seeds of a fuzz target, which lie beside it.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    files(target).into_iter().map(|(_, bytes)| bytes).collect()
}

/// The same, with where each lies.
fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = testkit::checkout::package().join("fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| (file.clone(), fs::read(file).unwrap());
    files.into_iter().map(read).collect()
}

/// Files that real servers wrote, without their large ones, and without what they allocated ahead.
fn real_files() -> Vec<Vec<u8>> {
    let files = Golden::all().into_iter().filter(|golden| golden.case != "large");
    files.map(|golden| used(&golden.db())).collect()
}

fn used(path: &Path) -> Vec<u8> {
    let used = BoltFile::open(Arc::new(File::open(path).unwrap())).unwrap().used_bytes();
    let mut bytes = Vec::new();
    File::open(path).unwrap().take(used).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Real segments, without the zeros behind, and without most of their entries.
fn real_segments() -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    for name in fixtures::DATA_DIRS {
        let dir = fixtures::data_dir(name);
        for entry in fs::read_dir(dir.path().join("member/wal")).unwrap() {
            let mut bytes = Vec::new();
            File::open(entry.unwrap().path()).unwrap().take(20_000).read_to_end(&mut bytes).unwrap();
            segments.push(bytes);
        }
    }
    segments
}

fn real_snaps() -> Vec<Vec<u8>> {
    let mut snaps = Vec::new();
    for name in fixtures::DATA_DIRS {
        let dir = fixtures::data_dir(name);
        for entry in fs::read_dir(dir.path().join("member/snap")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "snap") {
                snaps.push(without_checksum(&fs::read(path).unwrap()));
            }
        }
    }
    snaps
}

/// What a checksum and a length stand before in a `.snap` file.
fn without_checksum(snap: &[u8]) -> Vec<u8> {
    let skip_field = |bytes: &[u8]| 2 + bytes[1..].iter().position(|byte| *byte < 0x80).unwrap();
    let length = &snap[skip_field(snap)..];
    length[skip_field(length)..].to_vec()
}

/// A target, and what it calls.
type Target = (&'static str, &'static [fn(&[u8])]);

/// All of them. The seeds of a database are those of a restore too.
const TARGETS: [Target; 11] = [
    ("cluster", &[exercise::cluster]),
    ("database", &[exercise::database, exercise::restored]),
    ("file", &[|bytes: &[u8]| exercise::file(bytes.to_vec())]),
    ("record", &[exercise::record]),
    ("replay", &[exercise::replay]),
    ("restored", &[exercise::restored]),
    ("segment", &[|bytes: &[u8]| exercise::segment(bytes.to_vec())]),
    ("segments", &[exercise::segments]),
    ("snap", &[exercise::snap]),
    ("source", &[exercise::source]),
    ("values", &[exercise::values]),
];

#[test]
fn every_file_of_the_corpus_is_survived_as_it_is() {
    let targets = TARGETS.map(|(target, _)| target);
    assert_eq!(fuzz_names("fuzz_targets"), targets, "each fuzz target has its line in TARGETS");
    assert_eq!(fuzz_names("corpus"), targets, "each fuzz target has a corpus");
    for (target, calls) in TARGETS {
        for (file, bytes) in files(target) {
            let _told = Told(format!("it was {}", file.display()));
            calls.iter().for_each(|call| call(&bytes));
        }
    }
}

#[test]
fn values_changed_at_random_are_survived() {
    survives(&corpus("values"), 50_000, |bytes| exercise::values(&bytes));
    survives(&corpus("cluster"), 20_000, |bytes| exercise::cluster(&bytes));
    survives(&corpus("record"), 20_000, |bytes| exercise::record(&bytes));
}

#[test]
fn databases_of_random_records_are_survived() {
    survives(&corpus("database"), 250, |bytes| exercise::database(&bytes));
}

#[test]
fn real_databases_changed_at_random_are_survived() {
    survives(&real_files(), 400, exercise::file);
}

#[test]
fn logs_changed_at_random_are_survived() {
    let segments = [real_segments(), corpus("segment")].concat();
    survives(&segments, 2000, exercise::segment);
    survives(&corpus("segments"), 1000, |bytes| exercise::segments(&bytes));
}

#[test]
fn raft_snapshots_changed_at_random_are_survived() {
    let snaps = [real_snaps(), corpus("snap")].concat();
    survives(&snaps, 3000, |bytes| exercise::snap(&bytes));
}

#[test]
fn logs_of_random_requests_are_survived() {
    survives(&corpus("replay"), 500, |bytes| exercise::replay(&bytes));
}

#[test]
fn wrapped_files_changed_at_random_are_survived() {
    survives(&corpus("source"), 500, |bytes| exercise::source(&bytes));
}

#[test]
fn databases_of_random_records_are_restored_or_refused() {
    let sources = [corpus("database"), corpus("restored")].concat();
    survives(&sources, 40, |bytes| exercise::restored(&bytes));
}

/// One change: a bit, a number that hurts, a stretch somewhere else, or gone, or anew.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    const HURTFUL: [u64; 8] = [0, 1, 0x7f, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];
    if bytes.is_empty() {
        return;
    }
    let at = random.place(bytes.len());
    let len = random.place(64).min(bytes.len() - at);
    match random.place(10) {
        0..4 => bytes[at] ^= 1 << random.place(8),
        4 => {
            let number = HURTFUL[random.place(HURTFUL.len())].to_le_bytes();
            let len = [1, 2, 4, 8][random.place(4)].min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&number[..len]);
        }
        5 => bytes[at..at + len].fill_with(|| random.place(256) as u8),
        6 => drop(bytes.drain(at..at + len)),
        7 => {
            let copy = bytes[at..at + len].to_vec();
            let to = random.place(bytes.len());
            bytes.splice(to..to, copy);
        }
        8 => bytes.extend((0..len).map(|_| random.place(256) as u8)),
        _ => bytes.truncate(at),
    }
}
