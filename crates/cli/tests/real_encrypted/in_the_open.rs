//! What is encrypted is not gone on with in the open.

use std::fs;

use testkit::fixtures;

use crate::brought_in::{AgeKey, age_key};
use crate::command::{refloat, require_ok, require_refusal};

#[test]
fn what_is_brought_in_is_encrypted_and_never_gone_on_with_in_the_open() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("ours");
    fs::create_dir(&dest).unwrap();
    let AgeKey { file, recipient } = age_key(folder.path(), "age.txt");
    let source = fixtures::path("etcdbrctl/small-3.5.30");
    let (source, dest, keys) = (source.to_str().unwrap(), dest.to_str().unwrap(), file.as_str());

    let copy = ["copy", source, dest, "--name", "prod"];
    require_ok(&refloat(&[&copy[..], &["--encrypt-for", &recipient]].concat(), &[]));
    let points = require_ok(&refloat(&["points", dest, "--long", "-o", "json", "--identity", keys], &[]));
    assert!(points.contains("\"encrypted\": true") && !points.contains("\"encrypted\": false"), "{points}");
    // Where the newest deltas are asked for their times, they tell that too, and nothing is told of what was not asked.
    let points = require_ok(&refloat(&["points", dest, "-o", "json"], &[]));
    assert!(points.contains("\"encrypted\": true") && !points.contains("\"encrypted\": false"), "{points}");
    require_refusal(&refloat(&["hashkv", dest], &[]), 8, &recipient);
    let hash = require_ok(&refloat(&["hashkv", source], &[]));
    assert_eq!(require_ok(&refloat(&["hashkv", dest, "--identity", keys], &[])), hash);

    // Again, and nobody is named.
    require_refusal(&refloat(&copy, &[]), 2, "--encrypt-for");
    let again = [&copy[..], &["--encrypt-for", &recipient, "--identity", keys]].concat();
    require_ok(&refloat(&again, &[]));
    assert_eq!(require_ok(&refloat(&["hashkv", dest, "--identity", keys], &[])), hash);
}
