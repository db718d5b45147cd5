//! How much memory work takes that goes through all of a database: as much as `docs/performance.md` allows, and no more
//! for larger values or a larger file than its keys take.
//!
//! What is measured is the peak of what is resident, the program itself included. Of files nothing is mapped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(clippy::print_stdout, reason = "what was measured is shown")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::{Ends, Member, Version};

/// What work may take beside the program itself, in MiB: 64 MB.
const ALLOWED_MIB: f64 = 64e6 / (1 << 20) as f64;

const REFLOAT: &str = env!("CARGO_BIN_EXE_refloat");

/// The tool that makes databases and measures programs, built with everything else.
fn xtask(arguments: &[&str]) -> Output {
    let tool = Path::new(REFLOAT).with_file_name("xtask");
    let output = Command::new(&tool).args(arguments).stdin(Stdio::null()).output_in_time();
    output.unwrap_or_else(|error| panic!("{}: {error}; cargo build --package xtask makes it", tool.display()))
}

/// What was said last on stderr after `word`.
#[track_caller]
fn said(output: &Output, word: &str) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let line = said.lines().rev().find_map(|line| line.strip_prefix(word)).unwrap_or_else(|| panic!("{said}"));
    line.trim().to_owned()
}

/// The peak of what is resident while `refloat` does this, in MiB.
#[track_caller]
fn peak_mib(arguments: &[&str]) -> f64 {
    let output = xtask(&[&["measured", REFLOAT][..], arguments].concat());
    said(&output, "measured ").split(' ').nth(2).unwrap().parse().unwrap()
}

/// Requires that `refloat` does this with what is allowed, and tells what it took.
#[track_caller]
fn peak_within(arguments: &[&str]) -> f64 {
    let (own, peak) = (peak_mib(&["--version"]), peak_mib(arguments));
    println!("{}: {peak:.0} MiB, of which the program itself {own:.0}", arguments[0]);
    assert!(peak <= own + ALLOWED_MIB, "{arguments:?}: {peak} MiB, the program itself {own}");
    peak
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap()
    } else if path.exists() {
        fs::remove_file(path).unwrap()
    }
}

/// A database of about `mib` MiB in `folder`, its live keys, and the oldest of them.
fn database(folder: &Path, mib: u64) -> (PathBuf, String) {
    let path = folder.join(format!("{mib}.db"));
    let made = said(&xtask(&["workload", path.to_str().unwrap(), &mib.to_string()]), "made ");
    let (live_keys, oldest) = made.split_once(' ').unwrap();
    println!("{mib} MiB: {} bytes, {live_keys} live keys", path.metadata().unwrap().len());
    (path, oldest.to_owned())
}

#[test]
fn what_goes_through_a_database_keeps_to_its_memory_whatever_the_size_of_that() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let place = out.to_str().unwrap();
    let mut peaks: Vec<Vec<f64>> = Vec::new();
    for mib in [200, 400] {
        let (path, oldest) = database(folder.path(), mib);
        let db = path.to_str().unwrap();
        let commands: [&[&str]; 7] = [
            &["restore", db, "--data-dir", place],
            &["verify", db],
            &["hashkv", db],
            &["inspect", db],
            &["get", db, &oldest],
            &["export", db, "--output", place],
            &["defrag", db, "--output", place],
        ];
        let peak = |command: &&[&str]| {
            let peak = peak_within(command);
            remove(&out);
            peak
        };
        peaks.push(commands.iter().map(peak).collect());
        remove(&path);
    }
    // A few dozen bytes for each of some 70,000 keys more, where the file is 200 MiB larger.
    let grown: Vec<f64> = peaks[0].iter().zip(&peaks[1]).map(|(small, large)| large - small).collect();
    assert!(grown.iter().all(|&mib| mib < 20.0), "{peaks:?}: grown by {grown:?} MiB");
}

/// A member that was killed before its database had any of 200 MiB of values: they are in its log alone, in several
/// segments.
#[test]
fn what_only_the_log_has_takes_the_memory_of_its_keys_and_not_of_its_values() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::new(Version::V35, folder.path().join("data"))
        .without_fsync()
        .flag("--backend-batch-interval=1h")
        .flag("--backend-batch-limit=1000000");
    let etcd = member.start();
    let client = etcd.client();
    let value = "0123456789abcdef".repeat(16 << 10);
    let mut revision = 0;
    for key in 0..800 {
        revision = client.put(format!("/large/{key}"), &value).unwrap();
    }
    let member = etcd.kill();

    let dir = member.data_dir().to_str().unwrap();
    let ahead = json(&["inspect", dir, "-o", "json"])["log"]["entries_ahead"].as_u64().unwrap();
    assert!(ahead >= 800, "{ahead} entries that only the log has");
    let out = folder.path().join("out");
    let place = out.to_str().unwrap();
    for command in [&["hashkv", dir][..], &["verify", dir], &["restore", dir, "--data-dir", place]] {
        peak_within(command);
    }
    let (ours, restored) = (json(&["hashkv", dir, "-o", "json"]), json(&["hashkv", place, "-o", "json"]));
    assert_eq!((&ours["hash"], &ours["revision"]), (&restored["hash"], &Value::from(revision)));

    let theirs = member.start().client().hash_kv(revision).unwrap();
    assert_eq!(ours["hash"], theirs.hash, "what its own etcd makes of the log");
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    let output = Command::new(REFLOAT).args(arguments).stdin(Stdio::null()).output_in_time().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
