//! What people type, and exactly what they see.
//!
//! Each file in `transcripts/` is a session in a folder of its own: commands for a shell after `$ `, then all that
//! they write, then the exit code if it is not 0. To write them anew: UPDATE_TRANSCRIPTS=1, then read what changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::fixtures;

macro_rules! sessions {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })+

        #[test]
        fn every_transcript_is_replayed() {
            let mut there: Vec<_> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
            there.sort();
            let mut replayed = vec![$(folder().join(concat!(stringify!($name), ".txt"))),+];
            replayed.sort();
            assert_eq!(there, replayed);
        }
    };
}

sessions! {
    bad_input
    diff
    get
    hashkv
    history
    inspect
    keys
    verify
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

#[track_caller]
fn replay(name: &str) {
    let file = folder().join(format!("{name}.txt"));
    let written = fs::read_to_string(&file).unwrap_or_default();
    let desk = desk();
    let mut seen = String::new();
    for line in written.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            seen.push_str(&format!("$ {command}\n{}", run(desk.path(), command)));
        } else if line.starts_with('#') {
            seen.push_str(&format!("{line}\n"));
        }
    }
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::write(&file, &seen).unwrap();
    }
    assert!(seen == written, "{name}.txt says\n{written}\nbut this is seen\n{seen}");
}

/// What `command` writes in `folder`, and how it ends.
fn run(folder: &Path, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_refloat"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", program.parent().unwrap().display());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut seen = String::from_utf8_lossy(&output.stdout).into_owned();
    if !seen.is_empty() && !seen.ends_with('\n') {
        seen.push_str("[no line end]\n");
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => seen.push_str(&format!("[exit {code}]\n")),
        None => seen.push_str(&format!("[{}]\n", output.status)),
    }
    seen.push('\n');
    seen
}

/// A folder with good and bad things to look at.
fn desk() -> tempfile::TempDir {
    let desk = tempfile::tempdir().unwrap();
    let put = |name: &str, fixture: &str| {
        let at = fixtures::path(fixture).canonicalize().unwrap();
        symlink(at, desk.path().join(name)).unwrap();
    };
    put("snap.db", "k3s/node-a/server/db/snapshots/before-upgrade-node-a-1795224996");
    put("older.db", "k3s/node-a/server/db/snapshots/on-demand-node-a-1795224993");
    put("snap.zip", "k3s/node-a/server/db/snapshots/etcd-snapshot-node-a-1795224995.zip");
    put("openshift.db", "openshift/snapshot_2026-11-21_013642.db");

    put("cut-short.part", "openshift/backup-cut-short-2026-11-21_013645/snapshot_2026-11-21_013645.db.part");

    let whole = fs::read(desk.path().join("snap.db")).unwrap();
    fs::write(desk.path().join("cut.db"), &whole[..whole.len() / 2]).unwrap();
    let flipped: Vec<u8> = whole.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 70_000)).collect();
    fs::write(desk.path().join("flipped.db"), flipped).unwrap();
    fs::write(desk.path().join("database.db"), &whole[..whole.len() - 32]).unwrap();
    fs::write(desk.path().join("empty.db"), b"").unwrap();
    fs::write(desk.path().join("notes.txt"), "not a snapshot\n".repeat(1000)).unwrap();
    fs::create_dir(desk.path().join("folder")).unwrap();
    File::create_new(desk.path().join("folder/file")).unwrap();
    desk
}
