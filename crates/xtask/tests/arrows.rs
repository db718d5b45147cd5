//! The arrows between the crates point down, as `ARCHITECTURE.md` draws them. What only tests use is not asked for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Each crate, those below first, and the crates that it is made with.
const ARROWS: [(&str, &[&str]); 11] = [
    ("bolt-file", &[]),
    ("etcd-data", &["bolt-file"]),
    ("store", &[]),
    ("archive", &["etcd-data", "store"]),
    ("api", &[]),
    ("dashboard", &[]),
    ("etcd-rpc", &[]),
    ("agent", &["api", "archive", "dashboard", "etcd-data", "etcd-rpc", "store"]),
    ("cli", &["agent", "archive", "bolt-file", "etcd-data", "etcd-rpc", "store"]),
    ("testkit", &["etcd-rpc", "store"]),
    ("xtask", &["archive", "bolt-file", "etcd-data", "etcd-rpc", "store", "testkit"]),
];

/// What a crate is to do without: no waiting and no clock in the files, no network in what is read from them, no etcd
/// in the stores, and no way to send what programs tell each other.
const ABSENT: [(&str, &[&str]); 4] = [
    ("bolt-file", &["async-trait", "futures", "jiff", "prost", "tokio"]),
    ("etcd-data", &["async-trait", "futures", "http", "hyper", "reqwest", "tokio", "tonic"]),
    ("store", &["prost", "tonic"]),
    ("api", &["http", "reqwest", "tokio"]),
];

fn crates() -> PathBuf {
    testkit::checkout::root().join("crates")
}

/// What `name` cannot be built without: its dependencies, those of its build script, and those on some platforms only.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let (mut found, mut is_asked_for) = (BTreeSet::new(), false);
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            assert!(!section.contains("dependencies."), "{name}: each on one line, please: {line}");
            is_asked_for = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        } else if is_asked_for && !line.is_empty() && !line.starts_with('#') {
            found.insert(line.split(['.', ' ', '=']).next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn every_crate_is_made_with_those_below_it_and_no_others() {
    let entries = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.filter(|path| path.join("Cargo.toml").exists());
    let found: BTreeSet<String> = folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(found, BTreeSet::from(ARROWS.map(|(name, _)| name.to_owned())));

    let mut before = BTreeSet::new();
    for (name, below) in ARROWS {
        assert!(below.iter().all(|below| before.contains(below)), "{name} stands above what it is made with");
        before.insert(name);
        let dependencies = dependencies(name);
        let used: BTreeSet<&str> = dependencies.intersection(&found).map(String::as_str).collect();
        assert_eq!(used, below.iter().copied().collect::<BTreeSet<_>>(), "{name}");
    }
}

#[test]
fn what_a_crate_does_without_is_not_there() {
    for (name, absent) in ABSENT {
        let dependencies = dependencies(name);
        assert!(!dependencies.is_empty(), "{name}");
        for absent in absent {
            assert!(!dependencies.contains(*absent), "{name} is made with {absent}");
        }
    }
}
