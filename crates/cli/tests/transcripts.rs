//! What people type, and exactly what they see.
//!
//! Each file in `transcripts/` is a session in a folder of its own: commands for a shell after `$ `, then all that
//! they write, then the exit code if it is not 0. To write them anew: UPDATE_TRANSCRIPTS=1, then read what changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "desk/own_archive.rs"]
mod own_archive;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use testkit::{Ends, fixtures};

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
    archive
    archive_copy
    archive_damaged
    archive_k3s
    archive_merge
    archive_openshift
    archive_prune
    archive_unreached
    archive_verify
    bad_input
    data_dir
    defrag
    diff
    doctor
    export
    get
    hashkv
    history
    inspect
    keys
    recipients
    restore
    settings
    undo
    verify
}

fn folder() -> std::path::PathBuf {
    testkit::checkout::package().join("tests/transcripts")
}

#[track_caller]
fn replay(name: &str) {
    let file = folder().join(format!("{name}.txt"));
    let written = fs::read_to_string(&file).unwrap_or_default();
    let desk = desk(name);
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
    if let Some((at, (said, is))) = written.lines().zip(seen.lines()).enumerate().find(|(_, (said, is))| said != is) {
        panic!("line {} of {name}.txt is\n{said}\nand this is seen\n{is}\nin\n{seen}", at + 1);
    }
    assert!(seen == written, "{name}.txt goes on after what is seen\n{seen}");
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
        .output_in_time()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    let here = folder.canonicalize().unwrap();
    let mut seen = without_room(&without_times(&seen.replace(here.to_str().unwrap(), "/desk")));
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

/// `text` with every moment, like 20261121T031502-127Z, replaced by the same.
fn without_times(text: &str) -> String {
    const SHAPE: &[u8] = b"00000000T000000-000Z";
    let is_moment = |part: &str| {
        part.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            letter => byte == *letter,
        })
    };
    let mut shown = text.to_owned();
    for at in 0..shown.len().saturating_sub(SHAPE.len() - 1) {
        if shown.get(at..at + SHAPE.len()).is_some_and(is_moment) {
            shown.replace_range(at..at + SHAPE.len(), "20261121T031502-127Z");
        }
    }
    shown
}

/// `text` with the same room on every disk.
fn without_room(text: &str) -> String {
    let told = |line: &str| match line.split_once(", and ") {
        Some((takes, free)) if takes.starts_with("it takes about ") && free.ends_with(" are free\n") => {
            format!("{takes}, and 100.0 GiB are free\n")
        }
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(told).collect()
}

/// A folder with good and bad things to look at.
fn desk(session: &str) -> TempDir {
    let desk = tempfile::tempdir().unwrap();
    if session.starts_with("archive") {
        put_archives(desk.path());
        if matches!(session, "archive_merge" | "archive_verify") {
            own_archive::put(&desk.path().join("own"));
            own_archive::put(&desk.path().join("own2"));
        }
        if matches!(session, "archive_copy" | "archive_prune") {
            put_own_archive(&desk.path().join("ours"));
        }
        return desk;
    }
    if session == "data_dir" {
        put_data_dirs(desk.path());
    }
    if session == "recipients" {
        put_own_archive(&desk.path().join("plain"));
        put_own_archive(&desk.path().join("locked"));
        put_lockboxes(desk.path());
    }
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

/// Archives of other systems, whole and damaged. They are copied, so that nothing tells where they came from.
fn put_archives(desk: &Path) {
    for (name, fixture) in [
        ("small", "etcdbrctl/small-3.5.30"),
        ("compacted", "etcdbrctl/compacted-3.5.30"),
        ("damaged", "etcdbrctl/damaged"),
        ("clusters/one", "etcdbrctl/small-3.5.30"),
        ("clusters/two", "etcdbrctl/zlib-3.5.30"),
        ("k3s", "k3s/node-a/server/db"),
        ("openshift", "openshift"),
    ] {
        fixtures::copy_folder(&fixtures::path(fixture), &desk.join(name));
    }
    fs::write(desk.join("snap.db"), fs::read(fixtures::path("openshift/snapshot_2026-11-21_013642.db")).unwrap())
        .unwrap();
    fs::create_dir(desk.join("empty")).unwrap();
}

/// An archive of ours: a full, and a delta with all the history that the full has.
fn put_own_archive(place: &Path) {
    const CLUSTER: &str = r#"{ "format": 1, "cluster": { "name": "golden", "id": "00000000000000000000000000000007" },
        "made": "2026-11-21T09:30:00Z", "program": "refloat 0.1.0" }"#;
    const LINEAGE: &str = r#"{ "format": 1, "lineage": "20261121T093000Z-00000001", "parent": null,
        "began": "2026-11-21T09:30:00Z", "why": "the first", "program": "refloat 0.1.0" }"#;
    let golden = fixtures::testdata().join("golden/archive/1");
    let (full, delta) = (fs::read(golden.join("plain.full")).unwrap(), fs::read(golden.join("plain.delta")).unwrap());
    for (name, bytes) in [
        ("cluster.json", CLUSTER.as_bytes()),
        ("20261121T093000Z-00000001/lineage.json", LINEAGE.as_bytes()),
        ("20261121T093000Z-00000001/full/00000000000000000199-20261121T093000Z.full", &full),
        ("20261121T093000Z-00000001/delta/0/00000000000000000002-00000000000000000199.delta", &delta),
    ] {
        let path = place.join("golden").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Lockboxes of the archive `locked`: one for two key files, a later one for the second of them alone. The archive keys are 32
/// times the byte 1 and the byte 2.
fn put_lockboxes(desk: &Path) {
    const ONE: &str = "AAAAAAAAAAAAAAABshXvsz2LF1Zeky+a/gWQ+uG8AK9pxjh+of9+fNxwA/pSgqJD0OEwAu6ccxpQgVgh";
    const OTHER: &str = "AAAAAAAAAAAAAAABCaxHXCm0huGbkfjfAps++dDXUiGxs9nM7ELeH3ELllRhs3My6y7Qk1R9fus2pSdG";
    const LATER: &str = "AAAAAAAAAAAAAAAC4X42dV1OoXNefcnQfBkBRdRWHV5xlf1qKxi7d5/xugtOmBnYVZjmDCk1OURqYLVN";
    let lock = |name: &str, locked: &str| {
        format!(r#"{{ "method": "key-file", "recipient": "key-file:{name}", "locked": "{locked}" }}"#)
    };
    let (one, other, later) = ("158c184e497d0ef4", "39635ee2654172dc", "39635ee2654172dc");
    let keys = desk.join("locked/golden/keys");
    fs::create_dir_all(&keys).unwrap();
    for (id, hour, locks) in [
        ("123d83d64f09f9cf6a18473355b9f476", 9, [lock(one, ONE), lock(other, OTHER)].join(", ")),
        ("d6e7c1672fe2f5159a4ec06511a77591", 10, lock(later, LATER)),
    ] {
        let lockbox = format!(
            r#"{{ "format": 1, "cluster": {{ "name": "golden", "id": "00000000000000000000000000000007" }}, "id": "{id}",
                "created": "2026-11-21T{hour:02}:30:00Z", "superseded": null, "program": "refloat 0.1.0", "locks": [{locks}] }}"#
        );
        fs::write(keys.join(format!("{id}.json")), lockbox).unwrap();
    }
    for (name, text) in [("one", "2a".repeat(32)), ("other", "2b".repeat(32)), ("words", "correct horse".into())] {
        fs::write(desk.join(name), text).unwrap();
        fs::set_permissions(desk.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Members that were stopped or killed, and one whose log is damaged.
fn put_data_dirs(desk: &Path) {
    for (name, fixture) in [("clean", "3.6.16-clean"), ("killed", "3.5.30-killed"), ("damaged", "3.5.30-killed")] {
        fs::rename(fixtures::data_dir(fixture).keep(), desk.join(name)).unwrap();
    }
    let log = desk.join("damaged/member/wal/0000000000000000-0000000000000000.wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes[2000] ^= 1;
    fs::write(&log, bytes).unwrap();
}
