//! Data directories and snapshot files that the program builds from the archives of other systems hash as the live
//! servers did.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::Ends;
use testkit::fixtures::{self, Point};

/// The archives that etcdbrctl wrote.
const ETCDBRCTL: [&str; 6] =
    ["plain-3.5.30", "gzip-3.4.23", "lzw-3.5.30", "zlib-3.5.30", "compacted-3.5.30", "small-3.5.30"];

/// With its history, also where that of Kubernetes would be left out because the archive has gone on.
const AS_IT_WAS: [&str; 2] = ["--bump-revision", "0"];

/// What `refloat args` answers in JSON, and its exit code.
#[track_caller]
fn refloat(args: &[&str]) -> (Value, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    let output = command.args(args).args(["-o", "json"]).stdin(Stdio::null()).output_in_time().unwrap();
    let json = serde_json::from_slice(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    (json.unwrap_or_else(|error| panic!("{args:?}: {error}: {said}")), output.status.code().unwrap())
}

/// Compares every hash of `point` that what is at `built` can have with its own. Returns how many those are.
#[track_caller]
fn require_hashes(built: &Path, point: &Point) -> usize {
    let built = built.to_str().unwrap();
    let (own, _) = refloat(&["hashkv", built]);
    assert_eq!(own["revision"], point.revision);
    let begins = own["compact_revision"].as_i64().unwrap();
    let comparable = point.hashes.iter().filter(|hash| hash.compact_revision >= begins);
    comparable
        .map(|hash| {
            let compact = hash.compact_revision.to_string();
            let as_of = ["hashkv", built, "--compact-revision", &compact];
            let args = if hash.compact_revision > 0 { &as_of[..] } else { &as_of[..2] };
            assert_eq!(refloat(args).0["hash"], hash.hash, "at {} compacted at {compact}", point.revision);
        })
        .count()
}

#[test]
fn what_is_restored_of_every_point_hashes_as_the_live_server_did() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for name in ETCDBRCTL {
        let archive = fixtures::path(format!("etcdbrctl/{name}"));
        for point in fixtures::points(&fixtures::truth(format!("etcdbrctl/{name}.truth.json"))) {
            println!("{name} at {}", point.revision);
            let target = folder.path().join(format!("{name}-{}", point.revision));
            let (at, archive) = (point.revision.to_string(), archive.to_str().unwrap());
            let args = ["restore", archive, "--at", &at, "--data-dir", target.to_str().unwrap()];
            let (told, code) = refloat(&[&args[..], &AS_IT_WAS].concat());
            assert_eq!((told["restored_revision"].as_i64(), code), (Some(point.revision), 0));
            compared += require_hashes(&target, &point);
            std::fs::remove_dir_all(&target).unwrap();
        }
    }
    println!("{compared} hashes compared");
    assert!(compared > 60, "{compared}");
}

#[test]
fn who_watched_kubernetes_meets_no_revision_twice_after_a_restore_to_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let archive = fixtures::path("etcdbrctl/small-3.5.30");
    let archive = archive.to_str().unwrap();
    // The archive has seen revisions up to 320. What leads to less than that, whoever asked for it, leads back.
    for (at, begins, compacted) in
        [("150", 1_000_000_320, 1_000_000_320), ("319", 1_000_000_320, 1_000_000_320), ("latest", 320, 100)]
    {
        let target = folder.path().join(at);
        let (told, code) = refloat(&["restore", archive, "--at", at, "--data-dir", target.to_str().unwrap()]);
        assert_eq!((told["revision"].as_i64(), code), (Some(begins), 0), "{at}");
        let (own, _) = refloat(&["hashkv", target.to_str().unwrap()]);
        let found = (own["revision"].as_i64(), own["compact_revision"].as_i64());
        assert_eq!(found, (Some(begins), Some(compacted)), "{at}");
    }
}

#[test]
fn what_is_exported_hashes_as_the_live_server_did() {
    let folder = tempfile::tempdir().unwrap();
    let archive = fixtures::path("etcdbrctl/zlib-3.5.30");
    for point in fixtures::points(&fixtures::truth("etcdbrctl/zlib-3.5.30.truth.json")) {
        let target = folder.path().join(format!("{}.db", point.revision));
        let (at, archive) = (point.revision.to_string(), archive.to_str().unwrap());
        let (_, code) = refloat(&["export", archive, "--at", &at, "--output", target.to_str().unwrap()]);
        assert_eq!(code, 0);
        require_hashes(&target, &point);
    }
}

#[test]
fn the_latest_point_before_a_hole_is_built_and_counts_as_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let archive = fixtures::path("etcdbrctl/damaged/missing-delta");
    let target = folder.path().join("etcd");
    let args = ["restore", archive.to_str().unwrap(), "--data-dir", target.to_str().unwrap()];
    let (told, code) = refloat(&[&args[..], &AS_IT_WAS].concat());
    assert_eq!((told["restored_revision"].as_i64(), code), (Some(257), 1));
    let points = fixtures::points(&fixtures::truth("etcdbrctl/small-3.5.30.truth.json"));
    let point = points.iter().find(|point| point.revision == 257).unwrap();
    assert!(require_hashes(&target, point) > 0);
}

/// What is built of `small-3.5.30` after it was damaged, at `at`: its revision, and the exit code.
#[track_caller]
fn built_of_damaged(case: &str, at: &str) -> (i64, i32) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("etcd");
    let archive = fixtures::path(format!("etcdbrctl/damaged/{case}"));
    let args = ["restore", archive.to_str().unwrap(), "--at", at, "--data-dir", target.to_str().unwrap()];
    let (told, code) = refloat(&[&args[..], &AS_IT_WAS].concat());
    let revision = told["restored_revision"].as_i64().unwrap();
    let points = fixtures::points(&fixtures::truth("etcdbrctl/small-3.5.30.truth.json"));
    let point =
        points.iter().find(|point| point.revision == revision).unwrap_or_else(|| panic!("no truth at {revision}"));
    assert!(require_hashes(&target, point) > 0);
    (revision, code)
}

#[test]
fn damage_that_only_shows_when_it_is_read_is_gone_around() {
    // Of a delta, what comes before it is left.
    assert_eq!(built_of_damaged("flipped-delta", "latest"), (257, 1));
    assert_eq!(built_of_damaged("flipped-delta-inside", "latest"), (257, 1));
    // Of a full, the chain of the one before.
    assert_eq!(built_of_damaged("flipped-full-inside", "latest"), (205, 1));
    // What does not need it is not concerned.
    assert_eq!(built_of_damaged("flipped-full-inside", "205"), (205, 0));
}

/// A copy of the archive `name`, of which a bit is flipped in the middle of `object`.
fn flipped(name: &str, object: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fixtures::copy_folder(&fixtures::path(name), folder.path());
    let path = folder.path().join(object);
    let mut bytes = read(&path);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
    folder
}

/// Nobody knows which revisions it had, but there were some.
#[test]
fn a_newest_snapshot_that_is_damaged_is_told_and_revisions_go_on_after_all_that_it_may_have_had() {
    for (archive, newest, older) in [
        ("k3s/node-a/server/db", "snapshots/before-upgrade-node-a-1795224996", 251),
        ("openshift", "backup-nightly-2026-11-21_013644/snapshot_2026-11-21_013644.db", 131),
    ] {
        let damaged = flipped(archive, newest);
        let target = damaged.path().join("etcd");
        let args = ["restore", damaged.path().to_str().unwrap(), "--data-dir", target.to_str().unwrap()];
        let (told, code) = refloat(&args);
        assert_eq!((told["restored_revision"].as_i64(), code), (Some(older), 1), "{archive}");
        assert_eq!(told["revision"].as_i64(), Some(1_000_000_000 + older), "{archive}");
        let notes = told["plan"]["notes"].to_string();
        let name = Path::new(newest).file_name().unwrap().to_str().unwrap();
        assert!(notes.contains(&format!("{name} is of no use")), "{notes}");
        assert!(notes.contains("later snapshots are in the archive, but none of them can be used"), "{notes}");
        // One that was asked for is not less than what was asked for.
        let sound = told["plan"]["full"].as_str().unwrap();
        assert_eq!(refloat(&["hashkv", damaged.path().to_str().unwrap(), "--at", sound]).1, 0, "{archive}");
    }
}

/// What is built of the K3s snapshots in `archive` at `at`: its revision, how it is covered, and the exit code.
#[track_caller]
fn built_at(archive: &Path, at: &str) -> (i64, String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("etcd");
    let (told, code) =
        refloat(&["restore", archive.to_str().unwrap(), "--at", at, "--data-dir", target.to_str().unwrap()]);
    (told["restored_revision"].as_i64().unwrap(), told["plan"]["covered"].as_str().unwrap().to_owned(), code)
}

#[test]
fn a_moment_for_which_a_snapshot_is_damaged_gets_the_one_before_and_is_not_called_exact() {
    let archive = fixtures::path("k3s/node-a/server/db");
    let [taken, between, after] = ["2026-11-21T01:36:36Z", "2026-11-21T01:36:34Z", "2026-11-21T02:00:00Z"];
    assert_eq!(built_at(&archive, taken), (321, "exactly".into(), 0));
    assert_eq!(built_at(&archive, between), (181, "up_to".into(), 1));
    assert_eq!(built_at(&archive, after), (321, "beyond".into(), 1));
    let damaged = flipped("k3s/node-a/server/db", "snapshots/before-upgrade-node-a-1795224996");
    assert_eq!(built_at(damaged.path(), taken), (251, "up_to".into(), 1));
}

#[test]
fn what_only_damaged_objects_lead_to_is_refused_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("etcd");
    let archive = fixtures::path("etcdbrctl/damaged/flipped-delta-inside");
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    let args = ["restore", archive.to_str().unwrap(), "--at", "298", "--data-dir", target.to_str().unwrap()];
    let output = command.args(args).output_in_time().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Incr-00000258-00000278-1795224146.gz is of no use"), "{said}");
    assert!(said.contains("revisions 258 to 278 are missing"), "{said}");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_delta_of_another_cluster_is_gone_around_by_whoever_looks_for_keys_too() {
    let [sound, joined] =
        ["small-3.5.30", "damaged/foreign-cluster"].map(|name| fixtures::path(format!("etcdbrctl/{name}")));
    // The other cluster's delta changes this key at revision 337.
    for (command, key) in [("get", "rng/0"), ("history", "rng/0"), ("keys", "rng/")] {
        let told_of = |archive: &Path| refloat(&[command, archive.to_str().unwrap(), key]);
        let ((found, code), (expected, _)) = (told_of(&joined), told_of(&sound));
        // As of a restore: what comes after it is of no use.
        assert_eq!((found, code), (expected, 1), "{command}");
    }
    let (differing, code) = refloat(&["diff", joined.to_str().unwrap(), "rng/", "--from", "320"]);
    assert_eq!((differing, code), (serde_json::json!([]), 1));
}

#[test]
fn a_hole_before_a_full_that_has_its_history_is_none() {
    let archive = fixtures::path("etcdbrctl/zlib-3.5.30");
    let points = fixtures::points(&fixtures::truth("etcdbrctl/zlib-3.5.30.truth.json"));
    let folder = tempfile::tempdir().unwrap();
    for at in [782, 900, 959, 960] {
        let target = folder.path().join(at.to_string());
        let (archive, revision) = (archive.to_str().unwrap(), at.to_string());
        let args = ["restore", archive, "--at", &revision, "--data-dir", target.to_str().unwrap()];
        assert_eq!(refloat(&[&args[..], &AS_IT_WAS].concat()).1, 0);
        if let Some(point) = points.iter().find(|point| point.revision == at) {
            require_hashes(&target, point);
        }
    }
}

#[test]
fn a_point_is_exported_to_where_other_systems_look_for_it() {
    let archive = fixtures::path("etcdbrctl/small-3.5.30");
    let archive = archive.to_str().unwrap();
    for (system, container) in
        [("etcdbrctl", "none"), ("etcdbrctl", "lzw"), ("k3s", "none"), ("k3s", "zip"), ("openshift", "none")]
    {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("backups");
        let output = ["--output", there.to_str().unwrap(), "--for", system, "--container", container];
        let node = if system == "k3s" { &["--node", "n0"][..] } else { &[] };
        let args = [&["export", archive, "--at", "257"], node, &output[..]].concat();
        let (dry, code) = refloat(&[&args[..], &["--dry-run"]].concat());
        assert_eq!((&dry["hash"], code), (&Value::Null, 0));
        assert!(!there.exists(), "{system}");

        let (told, code) = refloat(&args);
        assert_eq!((told["revision"].as_i64(), code), (Some(257), 0));
        let path = Path::new(told["path"].as_str().unwrap());
        assert_eq!(path.metadata().unwrap().len(), told["stored_bytes"].as_u64().unwrap());
        assert_eq!(refloat(&["hashkv", path.to_str().unwrap()]).0["hash"], told["hash"]);
        let (points, code) = refloat(&["points", there.to_str().unwrap(), "--long"]);
        assert_eq!((points["layout"].as_str(), code), (Some(system), 0), "{points}");
        assert_eq!(points["points"][0]["revision"], 257);
        assert_eq!(points["points"].as_array().unwrap().len(), 1);
        let left = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
        assert_eq!(left(path.parent().unwrap()), 1, "{system}");
    }
}

#[test]
fn a_container_that_a_system_does_not_read_is_refused() {
    let archive = fixtures::path("etcdbrctl/small-3.5.30");
    let folder = tempfile::tempdir().unwrap();
    for (system, container) in [("etcdbrctl", "zip"), ("k3s", "gzip"), ("openshift", "zlib")] {
        let args = ["--output", "backups", "--for", system, "--container", container];
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        let output = command.arg("export").arg(&archive).args(args).current_dir(&folder).output_in_time().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("does not read snapshots in {container}")), "{said}");
        assert_eq!(output.status.code(), Some(2));
        assert!(!folder.path().join("backups").exists());
    }
}

/// What stands in the file at `path`.
fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_lies_beside_a_snapshot_goes_along_to_the_same_system() {
    let run = "openshift/backup-nightly-2026-11-21_013644";
    let resources = fixtures::path(run).join("static_kuberesources_2026-11-21_013644.tar.gz");
    let name = "before-upgrade-node-a-1795224996";
    let metadata = fixtures::path("k3s/node-a/server/db/.metadata").join(name);
    for (source, at, system, beside) in
        [("openshift", "latest", "openshift", resources), ("k3s/node-a/server/db", name, "k3s", metadata)]
    {
        let (folder, archive) = (tempfile::tempdir().unwrap(), fixtures::path(source));
        let there = folder.path().join("backups");
        let node = if system == "k3s" { &["--node", "n"][..] } else { &[] };
        let args = ["export", archive.to_str().unwrap(), "--at", at, "--for", system];
        let (told, code) = refloat(&[&args[..], node, &["--output", there.to_str().unwrap()]].concat());
        assert_eq!(code, 0, "{system}");
        assert!(read(told["beside"].as_str().unwrap()) == read(beside), "{system}");
        let (checked, code) = refloat(&["verify", there.to_str().unwrap()]);
        assert_eq!(code, 0, "{system}: {checked}");
    }
}

#[test]
fn what_a_system_needs_and_does_not_get_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("backups");
    let output = ["--output", there.to_str().unwrap()];
    let lacks = |source: &str, system: &str| {
        let source = fixtures::path(source);
        let node = if matches!(system, "k3s" | "rke2") { &["--node", "n"][..] } else { &[] };
        let args = ["export", source.to_str().unwrap(), "--dry-run", "--for", system];
        let (told, code) = refloat(&[&args[..], node, &output].concat());
        assert_eq!((code, &told["beside"]), (0, &Value::Null), "{system}");
        told["lacks"].as_str().map(str::to_owned)
    };
    let told = lacks("etcdbrctl/small-3.5.30", "openshift").unwrap();
    let resources = format!("{}/static_kuberesources_", there.display());
    assert!(told.starts_with(&format!("cluster-restore.sh needs {resources}")), "{told}");
    let told = lacks("etcdbrctl/small-3.5.30", "k3s").unwrap();
    assert!(told.starts_with("K3s cannot restore it"), "{told}");
    let truth = fixtures::truth("k3s/node-a.truth.json");
    let told = lacks("k3s/node-a/server/db/snapshots/on-demand-node-a-1795224993", "rke2").unwrap();
    assert!(
        told.starts_with("RKE2 asks for the token") && told.contains(truth["token_hash"].as_str().unwrap()),
        "{told}"
    );
    assert_eq!(lacks("openshift", "etcdbrctl"), None);
}

#[test]
fn resources_that_are_damaged_do_not_go_along() {
    let folder = tempfile::tempdir().unwrap();
    let (source, there) = (folder.path().join("openshift"), folder.path().join("there"));
    std::fs::create_dir(&source).unwrap();
    let (snapshot, resources) = ("snapshot_2026-11-21_013642.db", "static_kuberesources_2026-11-21_013642.tar.gz");
    let [whole, tar] = [snapshot, resources].map(|name| read(fixtures::path("openshift").join(name)));
    std::fs::write(source.join(snapshot), whole).unwrap();
    std::fs::write(source.join(resources), &tar[..tar.len() / 2]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    let command = command.arg("export").arg(&source).args(["--for", "openshift", "--output"]).arg(&there);
    let output = command.stdin(Stdio::null()).output_in_time().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("{resources} is damaged")), "{said}");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
}
