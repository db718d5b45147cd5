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

    /// What is said where a revision is asked for that it lacks.
    fn is_not_in(&self, at: i64) -> String {
        format!("revision {at} is not in {}", self.source.display())
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
        assert!(stderr.contains(&lacking.is_not_in(40)), "{stderr}");
    }
}

#[test]
fn nobody_is_shown_another_state_in_place_of_one_that_a_file_lacks() {
    let lacking = Lacking::without(&[40, 41]);
    let src = lacking.source.to_str().unwrap();
    let out = lacking._folder.path().join("out");
    let (key, place) = ("/registry/pods/4", out.to_str().unwrap());
    for (at, last) in [("40", 39), ("41", 39), ("39", 39), ("42", 42)] {
        let commands: [&[&str]; 11] = [
            &["get", src, key, "--at", at],
            &["keys", src, "--at", at],
            &["keys", src, "/registry/", "--long", "--at", at],
            &["hashkv", src, "--at", at],
            &["hashkv", src, "--compact-revision", at],
            &["inspect", src, "--at", at],
            &["history", src, key, "--at", at],
            &["diff", src, "--from", at],
            &["diff", src, "--from", "30", "--to", at],
            &["restore", src, "--at", at, "--data-dir", place, "--dry-run"],
            &["export", src, "--at", at, "--output", place, "--dry-run"],
        ];
        let is_there = last.to_string() == at;
        for command in commands {
            let output = Command::new(env!("CARGO_BIN_EXE_refloat")).args(command).output_in_time().unwrap();
            let (code, stderr) = (output.status.code(), String::from_utf8(output.stderr).unwrap());
            assert_eq!(stderr.contains(&lacking.is_not_in(at.parse().unwrap())), !is_there, "{command:?}: {stderr}");
            assert_eq!(stderr.contains("the last before it is 39"), !is_there, "{command:?}: {stderr}");
            match is_there {
                true => assert!(matches!(code, Some(0 | 1 | 3)), "{command:?}: {code:?}, {stderr}"),
                false => assert_eq!((code, output.stdout.len()), (Some(4), 0), "{command:?}"),
            }
        }
        // What is wrong is listed all the same.
        let mut verify = Command::new(env!("CARGO_BIN_EXE_refloat"));
        let output = verify.args(["verify", src, "--at", at, "-o", "json"]).output_in_time().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), told["hash"].is_null()), (Some(1), !is_there), "{told}");
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
fn whoever_comes_by_what_is_missing_is_told() {
    let lacking = Lacking::without(&[40, 41, 60]);
    let src = lacking.source.to_str().unwrap();
    let out = lacking._folder.path().join("out");
    let (place, three) = (out.to_str().unwrap(), Some("3 revisions are missing, 40 to 41 first"));
    let missing = json!({ "count": 3, "from": 40, "to": 41 });
    // What was put last: the last change of all is a deletion.
    let newest = key_at(src, NEWEST - 1);
    let cases: [(&[&str], i32, Option<&str>); 17] = [
        (&["inspect", src], 0, three),
        (&["inspect", src, "--at", "59"], 0, Some("2 revisions are missing, 40 to 41,")),
        (&["inspect", src, "--at", "39"], 0, None),
        (&["keys", src], 0, three),
        (&["keys", src, "--at", "39", "--long"], 0, None),
        (&["history", src, &newest], 0, three),
        (&["get", src, &newest], 0, None),
        (&["get", src, "/nowhere"], 3, three),
        (&["diff", src, "--from", "39"], 1, three),
        // What changed since had changed before that, and may have in what is missing between.
        (&["diff", src, "--from", "61"], 1, Some("revision 60 is missing,")),
        (&["diff", src, "--from", "39", "--to", "38"], 1, None),
        (&["hashkv", src], 0, three),
        (&["hashkv", src, "--compact-revision", "59"], 0, three),
        (&["hashkv", src, "--at", "59"], 0, Some("2 revisions are missing, 40 to 41,")),
        (&["hashkv", src, "--at", "39"], 0, None),
        (&["diff", src, "--from", "59", "--other", src, "--to", "59"], 0, Some("2 revisions are missing, 40 to 41,")),
        (&["restore", src, "--data-dir", place, "--bump-revision", "0", "--dry-run"], 1, three),
    ];
    for (command, code, said) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_refloat")).args(command).output_in_time().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
        assert_eq!(stderr.contains(LACKS), said.is_some(), "{command:?}: {stderr}");
        assert!(said.is_none_or(|said| stderr.contains(said)), "{command:?}: {stderr}");
    }
    for command in [&["inspect", src][..], &["restore", src, "--data-dir", place, "--dry-run"]] {
        let told = json_of(command);
        assert_eq!(told["missing_revisions"], missing, "{command:?}");
    }
    assert_eq!(json_of(&["inspect", src, "--at", "39"])["missing_revisions"], Value::Null);
}

#[test]
fn before_a_record_that_cannot_be_read_there_is_a_point_that_can_be_built() {
    let damaged = Lacking::without(&[]);
    let mut bytes = fs::read(&damaged.source).unwrap();
    // The value of the record of revision 60 follows on its key, and begins with the tag of a field.
    let name = RevKey { main: etcd_data::Revision(60), sub: 0, tombstone: false }.encode();
    let at = bytes.windows(name.len()).position(|found| found == &*name).unwrap();
    let value = at + bytes[at..].iter().skip(name.len()).position(|byte| *byte == 0x0a).unwrap() + name.len();
    bytes[value] = 0xff;
    fs::write(&damaged.source, bytes).unwrap();
    let built = damaged.build("restore", NEWEST, "text");
    let stderr = String::from_utf8(built.output.stderr).unwrap();
    assert_eq!(built.output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("--at 59 build what was before that"), "{stderr}");
    let built = damaged.build("restore", 59, "text");
    assert_eq!((built.output.status.code(), revision(&built.place)), (Some(0), 59));
}

#[test]
fn a_dry_run_tells_how_much_room_a_restore_takes() {
    let whole = Lacking::without(&[]);
    let out = whole._folder.path().join("out");
    let restore = ["restore", whole.source.to_str().unwrap(), "--data-dir", out.to_str().unwrap()];
    let told = json_of(&[&restore[..], &["--dry-run"]].concat());
    let (needed, free) = (told["needed_bytes"].as_u64().unwrap(), told["free_bytes"].as_u64().unwrap());
    assert!(!out.exists() && needed < free, "{told}");
    let done = json_of(&restore);
    // The database and the log that is allocated beside it.
    let taken = done["size_bytes"].as_u64().unwrap() + 64_000_000;
    assert!((taken..taken + taken / 20).contains(&needed), "{needed} for {taken}");
    assert_eq!((&done["needed_bytes"], &done["free_bytes"]), (&Value::Null, &Value::Null));
}

/// What `refloat` tells of this to a program.
#[track_caller]
fn json_of(command: &[&str]) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_refloat")).args(command).args(["-o", "json"]).output_in_time().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The key that was changed at a revision.
#[track_caller]
fn key_at(src: &str, revision: i64) -> String {
    let keys = json_of(&["keys", src]);
    let keys = keys.as_array().unwrap();
    let found = keys.iter().find(|found| found["mod_revision"] == revision).unwrap_or_else(|| panic!("{keys:?}"));
    found["key"].as_str().unwrap().to_owned()
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
