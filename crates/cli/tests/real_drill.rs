//! Drills with real etcds, and with programs that are none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/bucket.rs"]
mod bucket;
#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/running.rs"]
mod running;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bucket::{BUCKET, Bucket};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use running::succeed;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Ends, Etcd, PATIENCE, Version, ended_within, fixtures, on_a_small_disk, until};

/// A folder with an archive of ours, and one for sandboxes.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        own_archive::put(&folder.path().join("own"));
        fs::create_dir(folder.path().join("scratch")).unwrap();
        Self { folder }
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    fn command(&self, src: &Path, etcd: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        command.arg("drill").arg(src).arg("--etcd").arg(etcd).arg("--scratch").arg(self.scratch());
        command.stdin(Stdio::null());
        command
    }

    /// What a drill answers in JSON. Nothing may be left of its sandbox.
    #[track_caller]
    fn drilled(&self, src: &Path, etcd: &Path, more: &[&str]) -> Value {
        let output = self.command(src, etcd).args(more).args(["-o", "json"]).output_in_time().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        self.require_clean();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Why a drill does not succeed. Nothing may be left of its sandbox.
    #[track_caller]
    fn refused(&self, src: &Path, etcd: &Path, code: i32) -> String {
        let output = self.command(src, etcd).output_in_time().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        self.require_clean();
        said
    }

    #[track_caller]
    fn require_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.scratch()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [] as [PathBuf; 0]);
    }

    /// A program that says that it is etcd 3.6.99, and does `then` when it is to start.
    fn program(&self, name: &str, then: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'etcd Version: 3.6.99'; exit; }}\n{then}\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// The proofs of an archive, as text.
fn proofs(archive: &Path) -> Vec<String> {
    let proofs = files(archive).into_iter().filter(|path| path.to_string_lossy().contains("/proof/"));
    proofs.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_point_that_every_version_of_etcd_agrees_with_is_recorded_as_drilled() {
    for version in Version::ALL {
        let desk = Desk::new();
        let told = desk.drilled(&desk.own(), &version.etcd(), &[]);
        println!("etcd {version}: {} ms", told["took_ms"]);
        assert_eq!(told["revision"], 30);
        assert_eq!((&told["recorded"], &told["not_recorded"]), (&Value::Bool(true), &Value::Null));
        let parts: u64 = ["build_ms", "start_ms", "answer_ms"].iter().map(|part| told[part].as_u64().unwrap()).sum();
        assert!(told["took_ms"].as_u64().unwrap().abs_diff(parts) <= 3, "{told}");
        let mut hashkv = Command::new(env!("CARGO_BIN_EXE_refloat"));
        let hashed = hashkv.arg("hashkv").arg(desk.own()).args(["-o", "json"]).output_in_time().unwrap();
        let hashed: Value = serde_json::from_slice(&hashed.stdout).unwrap();
        assert_eq!(told["hash"], hashed["hash"]);

        let [proof] = &proofs(&desk.own())[..] else { panic!("one proof") };
        let proof: Value = serde_json::from_str(proof).unwrap();
        let items = proof["items"].as_array().unwrap();
        assert_eq!(items.len(), 3, "a full and two deltas");
        for item in items {
            let evidence = &item["evidence"];
            assert_eq!((&evidence["level"], &evidence["revision"]), (&"drilled".into(), &30.into()));
            assert_eq!(evidence["version"], told["etcd_version"]);
            assert_eq!(evidence["steps"]["start_ms"], told["start_ms"]);
        }
    }
}

#[test]
fn what_is_no_archive_of_ours_is_drilled_and_nothing_is_recorded() {
    let desk = Desk::new();
    let etcd = Version::V36.etcd();
    let told = desk.drilled(&fixtures::path("etcdbrctl/small-3.5.30"), &etcd, &[]);
    assert_eq!(told["not_recorded"], "the archive is another system's");
    let snapshot = fixtures::path("openshift/snapshot_2026-11-21_013642.db");
    assert_eq!(desk.drilled(&snapshot, &etcd, &[])["not_recorded"], "SRC is no archive");
    let told = desk.drilled(&desk.own(), &etcd, &["--no-record", "--at", "15"]);
    assert_eq!((&told["not_recorded"], &told["revision"]), (&"it was not to be".into(), &15.into()));
    let told = desk.drilled(&desk.own(), &etcd, &["--dry-run"]);
    assert_eq!((&told["dry_run"], &told["revision"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(proofs(&desk.own()), [] as [String; 0]);
}

#[test]
fn damage_is_gone_around_and_what_it_costs_is_told() {
    let (desk, name) = (Desk::new(), "00000000000000000011-00000000000000000020.delta");
    let delta = find(&desk.own(), name);
    let mut bytes = fs::read(&delta).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 16].iter_mut().for_each(|byte| *byte ^= 0xff);
    fs::write(&delta, bytes).unwrap();
    let output = desk.command(&desk.own(), &Version::V36.etcd()).args(["-o", "json"]).output_in_time().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["revision"]), (Some(1), &10.into()), "{output:?}");
    desk.require_clean();

    let said = String::from_utf8_lossy(&output.stderr);
    let (useless, lost) = (format!("{name} is of no use: "), " to 10 can be restored");
    assert!(said.contains(&useless), "{said}");
    assert!(said.contains("later changes are in the archive, but ") && said.contains(lost), "{said}");
    let tells = |field: &str, what: &str| {
        told["plan"][field].as_array().unwrap().iter().any(|told| told.as_str().unwrap().contains(what))
    };
    assert!(tells("set_aside", name) && tells("notes", &useless) && tells("notes", lost), "{told:#}");
}

#[test]
fn without_an_etcd_that_fits_nothing_is_done() {
    let desk = Desk::new();
    let said = desk.refused(&desk.own(), &desk.folder.path().join("none"), 3);
    assert!(said.contains("there is no etcd at") && said.contains("--etcd"), "{said}");
    let output = Command::new(env!("CARGO_BIN_EXE_refloat"))
        .arg("drill")
        .arg(desk.own())
        .env("PATH", "/nowhere")
        .output_in_time();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no etcd on the PATH"), "{output:?}");
    let said = desk.refused(&desk.own(), Path::new("/bin/true"), 2);
    assert!(said.contains("is no etcd of a version that is known"), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let etcd = Etcd::start(Version::V37, folder.path().join("data"));
    etcd.client().put("a", "1").unwrap();
    let snapshot = folder.path().join("snapshot.db");
    etcd.client().snapshot_to(&snapshot).unwrap();
    let said = desk.refused(&snapshot, &Version::V35.etcd(), 5);
    assert!(said.contains("the data is of etcd 3.7") && said.contains("--etcd names one of 3.7 or later"), "{said}");
}

#[test]
fn an_etcd_that_does_not_start_or_does_not_agree_is_told_and_recorded_nowhere() {
    let desk = Desk::new();
    let broken = desk.program("broken", "echo 'panic: tocommit is out of range' >&2; exit 2");
    let said = desk.refused(&desk.own(), &broken, 4);
    assert!(said.contains("etcd 3.6.99 does not start on it") && said.contains("tocommit is out of range"), "{said}");

    let other = Etcd::start(Version::V36, desk.folder.path().join("other"));
    for number in 0..40 {
        other.client().put("a", number.to_string()).unwrap();
    }
    let other = other.stop();
    let real = Version::V36.etcd();
    let liar =
        desk.program("liar", &format!("exec {} \"$@\" --data-dir {}", real.display(), other.data_dir().display()));
    let said = desk.refused(&desk.own(), &liar, 4);
    assert!(said.contains("etcd gives HashKV") && said.contains("does not become what it says"), "{said}");
    assert_eq!(proofs(&desk.own()), [] as [String; 0]);
}

#[test]
fn a_folder_without_room_is_refused_before_anything_is_fetched() {
    let Some(disk) = on_a_small_disk("a_folder_without_room_is_refused_before_anything_is_fetched", 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (bucket, etcd) = (Bucket::new(folder.path()), Etcd::start(Version::V36, folder.path().join("etcd")));
    // Nothing makes it shorter.
    let (mut random, mut value) = (StdRng::seed_from_u64(1), vec![0_u8; 200_000]);
    for at in 0..40 {
        random.fill(&mut value[..]);
        etcd.client().put(at.to_string(), &value).unwrap();
    }
    let (size, url, reached) = (40 * 200_000, etcd.client_url(), bucket.reached());
    let reached: Vec<&str> = reached.iter().map(String::as_str).collect();
    succeed(&[&["backup", BUCKET, "--endpoints", &url][..], &reached].concat());

    let before = bucket.fetched();
    let mut drill = Command::new(env!("CARGO_BIN_EXE_refloat"));
    drill.args(["drill", BUCKET]).args(&reached).arg("--etcd").arg(Version::V36.etcd()).arg("--scratch").arg(&disk);
    let output = drill.stdin(Stdio::null()).output_in_time().unwrap();
    let (said, fetched) = (String::from_utf8_lossy(&output.stderr), bucket.fetched() - before);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("are needed") && said.contains("--scratch names another folder"), "{said}");
    assert!(fetched < size / 40, "{fetched} of {size} bytes were fetched");
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "something is left");

    // Whoever reads all of it fetches all of it, and is counted.
    succeed(&[&["hashkv", BUCKET][..], &reached].concat());
    assert!(bucket.fetched() - before > size, "{} of {size} bytes were fetched", bucket.fetched() - before);
}

#[test]
fn an_interrupted_drill_leaves_neither_files_nor_processes() {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    let desk = Desk::new();
    let etcd = desk.program("slow", "echo $$ > \"$0.pid\"; exec sleep 1000");
    for signal in [Signal::INT, Signal::TERM] {
        let note = desk.folder.path().join("slow.pid");
        let _ = fs::remove_file(&note);
        let said = desk.folder.path().join("said");
        let log = fs::File::create(&said).unwrap();
        let mut drill = desk.command(&desk.own(), &etcd).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let said = || fs::read_to_string(&said).unwrap();
        let started = until("an etcd is started", || {
            let pid = fs::read_to_string(&note).ok().and_then(|text| text.trim().parse().ok()).and_then(Pid::from_raw);
            pid.ok_or_else(said)
        });
        kill_process(Pid::from_child(&drill), signal).unwrap();
        let ended = ended_within(&mut drill, PATIENCE);
        let said = said();
        assert_eq!(ended.and_then(|status| status.code()), Some(7), "{said}");
        assert!(said.contains("the drill was interrupted"), "{said}");
        assert!(test_kill_process(started).is_err(), "the etcd goes on");
        desk.require_clean();
    }
}

#[test]
fn the_etcd_of_a_drill_that_is_killed_ends_with_it_and_the_next_one_clears_up() {
    use rustix::process::{Pid, Signal, kill_process};

    let desk = Desk::new();
    // A real one, which goes on: it is asked where nobody listens.
    let real = Version::V36.etcd();
    let elsewhere = "--listen-client-urls http://127.0.0.1:0";
    let then = format!("echo $$ > \"$0.pid\"; exec {} \"$@\" {elsewhere}", real.display());
    let etcd = desk.program("elsewhere", &then);
    let note = desk.folder.path().join("elsewhere.pid");
    let mut drill = desk.command(&desk.own(), &etcd).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = || fs::read_to_string(&note).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let real = fs::canonicalize(&real).unwrap();
    let pid = until("an etcd is started", || {
        let pid = started();
        pid.filter(|pid| program(*pid).as_ref() == Some(&real)).ok_or(pid)
    });

    kill_process(Pid::from_child(&drill), Signal::KILL).unwrap();
    drill.wait().unwrap();
    until("the etcd has ended too", || program(pid).map_or(Ok(()), Err));
    assert_eq!(fs::read_dir(desk.scratch()).unwrap().count(), 1, "what it was built in is left");
    desk.drilled(&desk.own(), &Version::V36.etcd(), &[]);
}

fn find(folder: &Path, name: &str) -> PathBuf {
    files(folder).into_iter().find(|path| path.ends_with(name)).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
