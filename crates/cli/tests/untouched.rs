//! Whatever is asked of it, the data directory of a member that was killed stays as it was found.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use testkit::Ends;
use testkit::fixtures::{DATA_DIRS, data_dir, data_dir_truth};

/// What a file or folder is: its bytes, if it has any, its mode, and when it was changed last.
#[derive(PartialEq)]
struct Found {
    bytes: Option<Vec<u8>>,
    mode: u32,
    modified: SystemTime,
}

/// All that is in `folder`, and the folder itself.
fn found(folder: &Path) -> BTreeMap<PathBuf, Found> {
    let mut found = BTreeMap::new();
    let mut paths = vec![folder.to_owned()];
    while let Some(path) = paths.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let bytes = if metadata.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            None
        } else {
            Some(fs::read(&path).unwrap())
        };
        let (mode, modified) = (metadata.permissions().mode(), metadata.modified().unwrap());
        found.insert(path, Found { bytes, mode, modified });
    }
    found
}

/// Requires that `now` is as `before`. The bytes are too many to be shown.
fn require_same(now: &BTreeMap<PathBuf, Found>, before: &BTreeMap<PathBuf, Found>, what: &str) {
    assert!(now.keys().eq(before.keys()), "{what}: {:?}, and before {:?}", now.keys(), before.keys());
    for (path, before) in before {
        assert!(now[path] == *before, "{what}: {} is not as it was", path.display());
    }
}

#[test]
fn no_command_changes_the_directory_of_a_killed_member() {
    for name in DATA_DIRS.into_iter().filter(|name| name.ends_with("-killed")) {
        let (killed, out) = (data_dir(name), tempfile::tempdir().unwrap());
        let dir = killed.path().to_str().unwrap();
        let place = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
        let earlier = (data_dir_truth(name)["final"]["revision"].as_i64().unwrap() - 5).to_string();
        let before = found(killed.path());
        let commands: [(&[&str], i32); 11] = [
            (&["inspect", dir], 0),
            (&["verify", dir], 0),
            (&["keys", dir], 0),
            (&["get", dir, "compact_rev_key"], 0),
            (&["history", dir, "compact_rev_key"], 0),
            (&["hashkv", dir], 0),
            // There are differences.
            (&["diff", dir, "--from", &earlier], 1),
            (&["restore", dir, "--data-dir", &place("etcd"), "--dry-run"], 0),
            (&["restore", dir, "--data-dir", &place("etcd")], 0),
            (&["export", dir, "--output", &place("snapshot.db")], 0),
            (&["defrag", dir, "--output", &place("defragmented.db")], 0),
        ];
        for (args, code) in commands {
            let what = format!("{} of {name}", args[0]);
            let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
            let output = command.args(args).stdin(Stdio::null()).output_in_time().unwrap();
            assert_eq!(output.status.code(), Some(code), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            require_same(&found(killed.path()), &before, &what);
        }
    }
}
