//! An archive of another system, brought in for whom it is wanted, and the keys to it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use age::secrecy::ExposeSecret;
use serde_json::Value;
use testkit::fixtures;

use crate::command::{refloat, require_ok};

/// An age key: its identity in a file, and its recipient.
pub(crate) struct AgeKey {
    pub(crate) file: String,
    pub(crate) recipient: String,
}

pub(crate) fn age_key(folder: &Path, name: &str) -> AgeKey {
    let identity = age::x25519::Identity::generate();
    let file = secret(folder, name, identity.to_string().expose_secret());
    AgeKey { file, recipient: identity.to_public().to_string() }
}

/// A file that its owner alone can read.
pub(crate) fn secret(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An archive of etcdbrctl, brought in for `recipients`, and what its newest point hashes to.
pub(crate) fn brought_in(
    folder: &Path,
    recipients: &[&str],
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (String, String) {
    let source = fixtures::path("etcdbrctl/small-3.5.30");
    let (source, dest) = (source.to_str().unwrap(), folder.join("ours"));
    fs::create_dir(&dest).unwrap();
    let dest = dest.to_str().unwrap().to_owned();
    let named: Vec<&str> = recipients.iter().flat_map(|recipient| ["--encrypt-for", recipient]).collect();
    let copy = ["copy", source, &dest, "--name", "prod"];
    require_ok(&refloat(&[&copy, &named[..], flags].concat(), environment));
    (dest, require_ok(&refloat(&["hashkv", source], &[])))
}

/// What lies in the folder of lockboxes.
pub(crate) fn lockboxes_of(archive: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fs::read_dir(Path::new(archive).join("prod/keys")).unwrap();
    let mut found: Vec<_> =
        folder.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    found.sort();
    found
}

pub(crate) fn keys_of(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["keys"].as_array().unwrap().clone()
}
