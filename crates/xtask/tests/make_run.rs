//! `make run`, with a cargo and a refloat that only note what they are asked.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use testkit::Ends;

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs it where there is no etcd and where `cargo run`, which fetches one, ends with `fetching`. Gives whether it succeeded,
/// and what refloat was started with.
fn make_run(folder: &Path, fetching: i32) -> (bool, Option<String>) {
    let (bin, cache, asked) = (folder.join("bin"), folder.join("cache"), folder.join("asked"));
    script(&bin.join("cargo"), &format!("[ \"$1\" = build ] || exit {fetching}"));
    script(&cache.join("target/release/refloat"), &format!("echo \"$@\" > {}", asked.display()));
    for tool in ["make", "sh", "ls", "sort", "tail"] {
        let there = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
        if let Some(there) = there.iter().find(|there| there.exists()) {
            let _ = symlink(there, bin.join(tool));
        }
    }
    let root = testkit::checkout::root();
    let mut make = Command::new("make");
    make.arg("run").current_dir(root).env("PATH", &bin).env("REFLOAT_CACHE", &cache);
    for name in ["CARGO_TARGET_DIR", "MAKEFLAGS", "MAKELEVEL"] {
        make.env_remove(name);
    }
    let output = make.output_in_time().unwrap();
    (output.status.success(), fs::read_to_string(asked).ok())
}

#[test]
fn where_no_etcd_can_be_fetched_nothing_is_started() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(make_run(folder.path(), 3), (false, None));
}

#[test]
fn of_several_releases_that_were_fetched_the_newest_is_started() {
    let folder = tempfile::tempdir().unwrap();
    for release in ["3.5.9", "3.5.30", "3.5.21"] {
        script(&folder.path().join(format!("cache/servers/etcd-{release}/etcd")), "");
    }
    let newest = folder.path().join("cache/servers/etcd-3.5.30/etcd");
    let expected = format!("standalone --etcd {}\n", newest.display());
    assert_eq!(make_run(folder.path(), 0), (true, Some(expected)));
}
