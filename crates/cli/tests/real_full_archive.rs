//! A disk under an archive that has too little room, or none: whoever writes there is told where and what to do, nothing is half
//! written, nothing that was there is lost, and with room again it goes on. The disk is a mount in a namespace of its own, in
//! which the test is run again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/contents.rs"]
mod contents;
#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use contents::contents;
use running::{refloat, succeed};
use serde_json::Value;
use testkit::{Member, Version, on_a_small_disk};
use truth::truth;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Fills the disk on which `filler` is.
fn fill(filler: &Path) {
    let error = io::copy(&mut io::repeat(1), &mut File::create(filler).unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// Requires that `args` find no room and end with `code`, say where and what to do, and leave below `folder` what was there.
#[track_caller]
fn finds_no_room(args: &[&str], folder: &Path, code: i32) {
    let before = contents(folder);
    let output = refloat(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for words in ["there is no room left", text(folder), "hint: make room there"] {
        assert!(said.contains(words), "{args:?} does not say {words:?}: {said}");
    }
    // What a writer has to say of itself, or what an upload left, is no object of an archive.
    let is_object = |path: &PathBuf| {
        let path = text(path);
        !path.contains("/.refloat") && !path.contains("writer") && Path::new(path).extension().is_some()
    };
    let objects = |contents: std::collections::BTreeMap<PathBuf, Option<Vec<u8>>>| {
        let objects = contents.into_iter().filter(|(path, bytes)| bytes.is_some() && is_object(path));
        objects.collect::<Vec<_>>()
    };
    let (before, after) = (objects(before), objects(contents(folder)));
    for (path, bytes) in &before {
        assert!(after.contains(&(path.clone(), bytes.clone())), "{args:?} changed {}", path.display());
    }
    let new = after.iter().filter(|object| !before.contains(object)).map(|(path, _)| path);
    let new: Vec<_> = new.filter(|path| path.extension().is_some_and(|end| end == "full" || end == "delta")).collect();
    assert!(new.is_empty(), "{args:?} left {new:?}");
}

fn hash_at(archive: &Path, at: &str) -> u32 {
    let told = succeed(&["hashkv", text(archive), "--at", at, "-o", "json"]);
    serde_json::from_str::<Value>(&told).unwrap()["hash"].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn a_full_disk_under_an_archive_is_told_and_nothing_is_lost() {
    let Some(disk) = on_a_small_disk("a_full_disk_under_an_archive_is_told_and_nothing_is_lost", 4) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let etcd = Member::new(Version::V36, elsewhere.path().join("etcd")).without_fsync().start();
    // What no compression makes smaller, and more than there is room for.
    for key in 0..12 {
        let noise: Vec<u8> = (0..1 << 19).map(|_| rand::random()).collect();
        etcd.client().put(format!("key {key}"), noise).unwrap();
    }
    let source = elsewhere.path().join("source");
    own_archive::put(&source);
    let [merged, backed_up, copied] = ["merged", "backed-up", "copied"].map(|name| disk.join(name));
    own_archive::put(&merged);
    [&backed_up, &copied].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let before = hash_at(&merged, "30");
    let url = etcd.client_url();

    // There is room, and not enough.
    let backup = ["backup", text(&backed_up), "--endpoints", &url];
    finds_no_room(&backup, &backed_up, 7);
    let large = elsewhere.path().join("large");
    fs::create_dir(&large).unwrap();
    succeed(&["backup", text(&large), "--endpoints", &url]);
    // Whose archive it is has been copied.
    finds_no_room(&["copy", text(&large), text(&copied)], &copied, 1);

    // There is none.
    let filler = disk.join("filler");
    fill(&filler);
    finds_no_room(&backup, &backed_up, 7);
    finds_no_room(&["merge", text(&merged), "--full-at", "latest"], &merged, 7);
    finds_no_room(&["merge", text(&merged)], &merged, 7);
    finds_no_room(&["copy", text(&source), text(&copied)], &copied, 7);
    assert_eq!(hash_at(&merged, "30"), before);

    // On a larger disk all goes on.
    fs::remove_file(&filler).unwrap();
    let larger = std::process::Command::new("mount").args(["-o", "remount,size=64m"]).arg(&disk).status().unwrap();
    assert!(larger.success());
    succeed(&backup);
    succeed(&["merge", text(&merged), "--full-at", "latest"]);
    succeed(&["copy", text(&large), text(&copied)]);
    assert_eq!(hash_at(&merged, "30"), before);
    let (revision, hash) = truth(&etcd.client());
    for archive in [&backed_up, &copied] {
        assert_eq!(hash_at(archive, &revision.to_string()), hash, "{}", archive.display());
        succeed(&["verify", text(archive)]);
    }
}
