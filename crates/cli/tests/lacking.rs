//! A file that lacks revisions, and a member that crashed: what there is of them is built, and what a person has to know of
//! that is told.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::write::{Builder, Options};
use etcd_data::RevKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fixtures::{DATA_DIRS, data_dir, data_dir_truth};
use testkit::{Ends, Golden, Version};

/// Revisions 2 to 86, never compacted.
const NEWEST: i64 = 86;

/// What is told of every file that lacks something, and of no other.
const LACKS: &str = "lacks history";

/// A file that a real server wrote, copied without some of its revisions.
struct Lacking {
    _folder: TempDir,
    source: PathBuf,
}

/// What came of building something, as long as it is needed: a log takes much room.
struct Built {
    output: Output,
    place: PathBuf,
    _folder: TempDir,
}

impl Lacking {
    fn without(lost: &[i64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source.db");
        copy_without(&Golden::get(Version::V35, "history").db(), &source, lost);
        Self { _folder: folder, source }
    }

    /// Has `command` build the source at `at`, and tell of it in `format`.
    fn build(&self, command: &str, at: i64, format: &str) -> Built {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("built");
        let target = if command == "restore" { "--data-dir" } else { "--output" };
        let mut refloat = Command::new(env!("CARGO_BIN_EXE_refloat"));
        refloat.arg(command).arg(&self.source).args(["--at", &at.to_string(), "-o", format, target]).arg(&place);
        if command == "restore" {
            // With its history, whatever it looks like.
            refloat.args(["--bump-revision", "0"]);
        }
        Built { output: refloat.output_in_time().unwrap(), place, _folder: folder }
    }

    /// Requires that what is built at `at` is that revision, and that `missing` is told of it in JSON, and `said` to people.
    #[track_caller]
    fn check(&self, at: i64, missing: &Value, said: Option<&str>) {
        for command in ["restore", "export"] {
            let what = format!("{command} at {at}");
            let code = Some(i32::from(said.is_some()));

            let built = self.build(command, at, "json");
            let told: Value = serde_json::from_slice(&built.output.stdout).unwrap();
            assert_eq!((built.output.status.code(), &told["missing_revisions"]), (code, missing), "{what}");
            assert_eq!(revision(&built.place), at, "{what}");

            let built = self.build(command, at, "text");
            let stderr = String::from_utf8_lossy(&built.output.stderr);
            assert_eq!((built.output.status.code(), revision(&built.place)), (code, at), "{what}: {stderr}");
            match said {
                Some(said) => {
                    let remedy = format!("`refloat verify {}`", self.source.display());
                    assert!(stderr.contains(LACKS) && stderr.contains(&remedy), "{what}: {stderr}");
                    assert!(stderr.contains(said), "{what} does not say {said:?}: {stderr}");
                }
                None => assert!(!stderr.contains(LACKS), "{what}: {stderr}"),
            }
        }
    }
}

/// Copies the database at `source` to the new file `place`, all but the revisions that are `lost`.
fn copy_without(source: &Path, place: &Path, lost: &[i64]) {
    let file = BoltFile::open(Arc::new(File::open(source).unwrap())).unwrap();
    let mut bytes = Vec::new();
    let mut builder = Builder::create(&mut bytes, Options::default()).unwrap();
    for name in file.bucket_names().unwrap() {
        let is_lost = |key: &[u8]| name == b"key" && lost.contains(&RevKey::parse(key).unwrap().main.0);
        let mut copy = builder.bucket(&name).unwrap();
        let bucket = file.bucket(&name).unwrap().unwrap();
        let mut cursor = bucket.cursor();
        let mut entry = cursor.first().unwrap();
        while let Some(found) = entry {
            if !is_lost(found.key) {
                copy.push(found.key, found.value).unwrap();
            }
            entry = cursor.next().unwrap();
        }
        copy.finish().unwrap();
    }
    builder.finish().unwrap();
    fs::write(place, bytes).unwrap();
}

/// The revision of what was built at `place`.
#[track_caller]
fn revision(place: &Path) -> i64 {
    let mut refloat = Command::new(env!("CARGO_BIN_EXE_refloat"));
    let output = refloat.arg("hashkv").arg(place).args(["-o", "json"]).output_in_time().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["revision"].as_i64().unwrap()
}

#[test]
fn a_revision_that_a_file_lacks_is_told_at_every_point_after_it() {
    let lacking = Lacking::without(&[40]);
    let missing = json!({ "count": 1, "from": 40, "to": 40 });
    for at in [NEWEST, 60, 41] {
        lacking.check(at, &missing, Some("revision 40 is missing"));
    }
    lacking.check(39, &Value::Null, None);
    // Nobody can say what was there then.
    for command in ["restore", "export"] {
        let Built { output, place, _folder } = lacking.build(command, 40, "text");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), place.exists()), (Some(4), false), "{stderr}");
        assert!(stderr.contains("revision 40 is not in the source"), "{stderr}");
    }
}

#[test]
fn of_many_revisions_that_a_file_lacks_the_first_are_told_and_how_many_there_are() {
    let together = Lacking::without(&[20, 21, 22]);
    together.check(NEWEST, &json!({ "count": 3, "from": 20, "to": 22 }), Some("3 revisions are missing, 20 to 22,"));
    let scattered = Lacking::without(&[20, 21, 22, 30, 50]);
    let said = "5 revisions are missing, 20 to 22 first";
    scattered.check(NEWEST, &json!({ "count": 5, "from": 20, "to": 22 }), Some(said));
    let first = Lacking::without(&[2, 30]);
    first.check(NEWEST, &json!({ "count": 2, "from": 2, "to": 2 }), Some("2 revisions are missing, 2 first"));
}

#[test]
fn of_a_file_that_lacks_nothing_nothing_is_told() {
    let whole = Lacking::without(&[]);
    for at in [NEWEST, 60] {
        whole.check(at, &Value::Null, None);
    }
}

#[test]
fn how_much_of_a_member_that_crashed_comes_from_its_log_is_told() {
    for name in DATA_DIRS {
        let (member, truth, folder) = (data_dir(name), data_dir_truth(name), tempfile::tempdir().unwrap());
        let number = |of: &Value| of.as_i64().unwrap();
        let ahead =
            number(&truth["after_restart_of_a_copy"]["revision"]) - number(&truth["db_alone"]["highest_revision"]);
        for (command, target) in [("restore", "--data-dir"), ("export", "--output")] {
            let mut refloat = Command::new(env!("CARGO_BIN_EXE_refloat"));
            refloat.arg(command).arg(member.path()).arg(target).arg(folder.path().join(command));
            let output = refloat.output_in_time().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{command} of {name}: {stderr}");
            let note = format!("the log of {} has, and that count: {ahead}\n", member.path().display());
            assert_eq!(stderr.contains(&note), ahead > 0, "{command} of {name}: {stderr}");
            assert_eq!(stderr.contains("only the log of"), ahead > 0, "{command} of {name}: {stderr}");
        }
    }
}
