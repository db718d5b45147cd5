//! `refloat` with nothing of the environment but what it is given, and a small archive to copy and to read back.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::Ends;

use crate::own_archive;

/// Variables of an environment.
pub(crate) type Variables<'v> = &'v [(&'v str, &'v str)];

/// Runs `refloat` to its end.
pub(crate) fn refloat(args: &[&str], variables: Variables<'_>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command.args(args).env_clear().envs(variables.iter().copied()).stdin(Stdio::null()).output_in_time().unwrap()
}

/// The same, where it has to succeed. Gives what it printed.
#[track_caller]
pub(crate) fn succeed(args: &[&str], variables: Variables<'_>) -> String {
    let output = refloat(args, variables);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "refloat {args:?} ended with {}:\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The same, where it has to fail. Gives the exit code, and what it said.
#[track_caller]
pub(crate) fn fail(args: &[&str], variables: Variables<'_>) -> (i32, String) {
    let output = refloat(args, variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "refloat {args:?} succeeded:\n{said}");
    (output.status.code().unwrap(), said)
}

/// An archive in a folder, and how it hashes at a revision.
pub(crate) struct Original {
    folder: TempDir,
    hash: u64,
}

/// The revision at which archives are compared.
const AT: &str = "20";

impl Original {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        own_archive::put(&folder.path().join("archive"));
        let hash = hash_at(folder.path().join("archive").to_str().unwrap(), &[], &[]);
        Self { folder, hash }
    }

    /// Where it is.
    pub(crate) fn archive(&self) -> String {
        self.beside("archive").to_str().unwrap().to_owned()
    }

    /// A path beside it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies it to `place`, which is reached by `flags` as they are for SRC.
    #[track_caller]
    pub(crate) fn copy_to(&self, place: &str, flags: &[&str], variables: Variables<'_>) {
        let (archive, flags) = (self.archive(), for_dest(flags));
        let args = ["copy", &archive, place].into_iter().chain(flags.iter().map(String::as_str));
        succeed(&args.collect::<Vec<_>>(), variables);
    }

    /// Requires that the same is at `place`.
    #[track_caller]
    pub(crate) fn require_same(&self, place: &str, flags: &[&str], variables: Variables<'_>) {
        assert_eq!(hash_at(place, flags, variables), self.hash, "{place}");
    }
}

/// What reads from `place`.
pub(crate) fn reading<'a>(place: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [&["hashkv", place, "--at", AT, "-o", "json"][..], flags].concat()
}

#[track_caller]
fn hash_at(place: &str, flags: &[&str], variables: Variables<'_>) -> u64 {
    let told: Value = serde_json::from_str(&succeed(&reading(place, flags), variables)).unwrap();
    told["hash"].as_u64().unwrap()
}

/// Flags as they are for DEST.
pub(crate) fn for_dest(flags: &[&str]) -> Vec<String> {
    let of_dest = |flag: &&str| flag.strip_prefix("--").map_or((*flag).to_owned(), |name| format!("--dest-{name}"));
    flags.iter().map(of_dest).collect()
}

/// Writes what only its owner may read, and gives back where.
pub(crate) fn write_secret(path: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;

    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}
