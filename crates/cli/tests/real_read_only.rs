//! A disk that nothing can be written to: what was to be done there ends as the first error does, with what to do about
//! it. The disk is a mount in a namespace of its own, in which the test is run again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/running.rs"]
mod running;

use std::fs;
use std::path::Path;
use std::process::Command;

use running::refloat;
use testkit::on_a_small_disk;

/// How `refloat` ends with `args`, and what it says.
#[track_caller]
fn ends(args: &[&str]) -> (Option<i32>, String) {
    let output = refloat(args);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn where_nothing_can_be_written_it_ends_as_the_first_error_does() {
    let Some(disk) = on_a_small_disk("where_nothing_can_be_written_it_ends_as_the_first_error_does", 4) else { return };
    let (archive, copy, elsewhere) = (disk.join("archive"), disk.join("copy"), tempfile::tempdir().unwrap());
    own_archive::put(&archive);
    fs::create_dir(&copy).unwrap();
    let source = elsewhere.path().join("source");
    own_archive::put(&source);
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk).status().unwrap();
    assert!(status.success());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (archive, copy, source) = (text(&archive), text(&copy), text(&source));

    let hint = "it must not be mounted read-only";
    for args in [&["merge", &archive][..], &["merge", &archive, "--full-at", "25"]] {
        let (code, said) = ends(args);
        assert!(code == Some(8) && said.contains(hint), "{args:?} ends with {code:?}: {said}");
    }
    let (code, said) = ends(&["copy", &source, &copy]);
    assert_eq!(code, Some(8), "{said}");
    assert!(said.contains(&format!("nothing of {source} was copied")) && said.contains(hint), "{said}");
    assert!(fs::read_dir(&copy).unwrap().next().is_none());
}

#[test]
fn a_full_that_only_damage_leads_to_is_not_made_and_that_is_the_end() {
    let folder = tempfile::tempdir().unwrap();
    own_archive::put(folder.path());
    let deltas = fs::read_dir(folder.path().join("prod")).unwrap().map(|entry| entry.unwrap().path().join("delta/0"));
    let delta = deltas.filter(|path| path.exists()).flat_map(|path| fs::read_dir(path).unwrap());
    let delta = delta.map(|entry| entry.unwrap().path()).max().unwrap();
    let sound = fs::read(&delta).unwrap();
    let place = folder.path().to_str().unwrap();
    // What shows when it is read: nothing was made.
    let mut bytes = sound.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&delta, bytes).unwrap();
    let (code, said) = ends(&["merge", place, "--full-at", "30"]);
    assert_eq!(code, Some(4), "{said}");
    // What shows when it is opened: the newest point that is left is less than what was asked for.
    fs::write(&delta, &sound[..sound.len() / 2]).unwrap();
    let (code, said) = ends(&["merge", place, "--full-at", "latest"]);
    assert!(code == Some(1) && said.contains("later changes are in the archive"), "{code:?}: {said}");
    let copy = tempfile::tempdir().unwrap();
    let (code, said) = ends(&["copy", place, copy.path().to_str().unwrap(), "--at", "latest"]);
    assert!(code == Some(1) && said.contains("later changes are in the archive"), "{code:?}: {said}");
}
