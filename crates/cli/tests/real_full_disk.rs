//! A disk that has too little room, or none: what was needed is told, and nothing is left behind. The disk is a mount
//! in a namespace of its own, in which the test is run again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::{Ends, Golden, Version, on_a_small_disk};

/// What is allocated for a log before anything is written to it.
const LOG_BYTES: u64 = 64_000_000;

/// Each command that builds something, the option that says where, and what of it is the database.
const BUILDERS: [(&str, &str, &str); 3] =
    [("restore", "--data-dir", "member/snap/db"), ("export", "--output", ""), ("defrag", "--output", "")];

fn build(command: &str, source: &Path, option: &str, target: &Path) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_refloat"));
    program.arg(command).arg(source).arg(option).arg(target).stdin(Stdio::null()).output_in_time().unwrap()
}

/// What `command` needs where there is room for it.
fn size_of_what_is_built(command: &str, source: &Path, option: &str, database: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("built");
    let output = build(command, source, option, &target);
    assert!(output.status.success(), "{command}: {output:?}");
    let database = if database.is_empty() { target } else { target.join(database) };
    let log = if command == "restore" { LOG_BYTES } else { 0 };
    fs::metadata(database).unwrap().len() + log
}

/// Requires that `command` finds no room on `disk`, says so, and changes nothing there.
fn finds_no_room(disk: &Path, source: &Path, (command, option, database): (&str, &str, &str)) {
    let names = || {
        let mut names: Vec<_> = fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let output = build(command, source, option, &disk.join("built"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(7), "{command}: {said}");
    assert!(said.contains("nothing was left behind"), "{command}: {said}");
    // It is the file that was asked for, and not what is made on the way to it.
    let asked = disk.join("built").display().to_string();
    assert!(option != "--output" || said.contains(&format!("no room for {asked}: ")), "{command}: {said}");
    let needed = said.split(" are needed").next().unwrap().rsplit(' ').next().unwrap();
    let needed: u64 = needed.parse().unwrap_or_else(|_| panic!("{command} does not say how much it needs: {said}"));
    let size = size_of_what_is_built(command, source, option, database);
    assert!(needed >= size, "{command} says that {needed} bytes are needed, and takes {size}");
    assert_eq!(names(), before, "{command}");
}

#[test]
fn a_disk_without_room_is_told_and_left_as_it_was() {
    let Some(disk) = on_a_small_disk("a_disk_without_room_is_told_and_left_as_it_was", 4) else { return };
    let golden = Golden::get(Version::V36, "large");
    let source = golden.db();
    let before = (fs::read(&source).unwrap(), fs::metadata(&source).unwrap().modified().unwrap());

    // There is room for the database of a restore, and none for the log beside it.
    finds_no_room(&disk, &source, BUILDERS[0]);
    // Some room, and not enough.
    let filler = disk.join("filler");
    fs::write(&filler, vec![1; 3 << 20]).unwrap();
    BUILDERS.into_iter().for_each(|builder| finds_no_room(&disk, &source, builder));
    // None at all.
    let error = io::copy(&mut io::repeat(1), &mut File::create(&filler).unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    BUILDERS.into_iter().for_each(|builder| finds_no_room(&disk, &source, builder));

    let after = (fs::read(&source).unwrap(), fs::metadata(&source).unwrap().modified().unwrap());
    assert!(after == before, "the source was changed");
    // With room again, all goes well.
    fs::remove_file(&filler).unwrap();
    for (command, option, _) in &BUILDERS[1..] {
        let target = disk.join(command);
        assert!(build(command, &source, option, &target).status.success(), "{command}");
        fs::remove_file(&target).unwrap();
    }
}
