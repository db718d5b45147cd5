//! What is checked in as the page is what its source makes, with just the packages that the lock file names.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use dashboard::FILES;

/// Runs `npm`, and shows what it said if it fails.
fn npm(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("npm");
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("npm, which comes with Node, is needed: {error}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "npm {arguments:?}:\n{}", String::from_utf8_lossy(&said));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == "node_modules" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &place);
        } else {
            fs::copy(&path, &place).unwrap();
        }
    }
}

#[test]
fn the_page_that_is_checked_in_is_what_its_source_makes() {
    let work = tempfile::tempdir().unwrap();
    let web = work.path().join("web");
    copy(Path::new("web"), &web);
    npm(&web, &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]);
    npm(&web, &["run", "check"]);
    npm(&web, &["run", "build"]);
    let made = fs::read_dir(work.path().join("dist")).unwrap();
    let mut made: Vec<String> = made.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    made.sort();
    let mut names: Vec<&str> = FILES.iter().map(|file| file.name).collect();
    names.sort_unstable();
    assert_eq!(made, names, "the program names all files, and no others");
    for file in FILES {
        let bytes = fs::read(work.path().join("dist").join(file.name)).unwrap();
        assert!(bytes == file.bytes, "{} differs: run `make page`, and check in what it makes", file.name);
    }
}

#[test]
fn nothing_in_the_page_is_fetched_from_elsewhere() {
    for file in FILES.iter().filter(|file| file.name != "icon.svg") {
        let text = std::str::from_utf8(file.bytes).unwrap();
        // Names of XML's own spaces, and links for people in messages of Svelte.
        let addresses =
            text.match_indices("://").map(|(at, _)| text[at.saturating_sub(6)..].chars().take(40).collect::<String>());
        let strange: Vec<String> =
            addresses.filter(|address| !address.contains("www.w3.org/") && !address.contains("svelte.dev/")).collect();
        assert!(strange.is_empty(), "{}: {strange:?}", file.name);
    }
    let lock = include_str!("../web/package-lock.json");
    assert!(!lock.contains("\"resolved\""), "a lock file names packages, and no host");
}
