//! What was told to be done is done though the power fails the moment after: all of it was on the disk by then, and
//! nothing had its name before it was.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/running.rs"]
mod running;

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use running::Running;
use tempfile::TempDir;
use testkit::power_cut::{Traced, traced, tracing};
use testkit::{Member, Port, Version};

/// A folder in which everything happens.
struct Desk {
    _folder: TempDir,
    /// Without links on the way.
    root: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        Self { _folder: folder, root }
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    /// Runs `refloat`, and requires that a power cut would take nothing away of what it did in the folder `name`.
    #[track_caller]
    fn require_safe(&self, name: &str, args: &[&str]) -> Traced {
        let (output, traced) = traced(env!("CARGO_BIN_EXE_refloat"), args, &self.root.join(name));
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(traced.too_early.is_empty(), "{args:?}: it was relied on too early: {:#?}", traced.too_early);
        assert!(traced.lost().is_empty(), "{args:?}: a power cut takes back {:#?}", traced.lost());
        traced
    }
}

/// Requires that something whose name ends with `end` appeared.
#[track_caller]
fn require_published(traced: &Traced, end: &str) {
    let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(end);
    assert!(traced.published.iter().any(is_it), "no {end} in {:#?}", traced.published);
}

fn require_file(path: &str) {
    assert!(Path::new(path).is_file(), "{path}");
}

/// Fulls that are large enough to come in parts, deltas, notes, proofs, and the right to write.
#[test]
fn what_a_folder_has_acknowledged_is_on_the_disk() {
    let desk = Desk::new();
    let etcd = Member::new(Version::V36, desk.path("etcd")).without_fsync().start();
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..12 {
        let mut value = vec![0; 900_000];
        random.fill_bytes(&mut value);
        etcd.client().put(format!("key {number}"), value).unwrap();
    }
    let (archive, copy, url) = (desk.path("archive"), desk.path("copy"), etcd.client_url());
    for folder in [&archive, &copy] {
        fs::create_dir(folder).unwrap();
    }
    let backup = desk.require_safe("archive", &["backup", &archive, "--endpoints", &url]);
    for end in ["cluster.json", "lineage.json", "writer.json", ".full"] {
        require_published(&backup, end);
    }
    let copied = desk.require_safe("copy", &["copy", &archive, &copy]);
    for end in ["cluster.json", "lineage.json", ".full", ".json"] {
        require_published(&copied, end);
    }

    // An archive with deltas: merged, and pruned of what was merged.
    let (small, other) = (desk.path("small"), desk.path("other"));
    own_archive::put(Path::new(&small));
    fs::create_dir(&other).unwrap();
    require_published(&desk.require_safe("other", &["copy", &small, &other]), ".delta");
    require_published(&desk.require_safe("other", &["merge", &other]), ".full");
    desk.require_safe("other", &["verify", &other]);
    desk.require_safe("other", &["prune", &other, "--keep-last", "1"]);
}

#[test]
fn what_is_restored_is_on_the_disk_before_it_has_its_name_and_so_is_what_it_replaces() {
    let desk = Desk::new();
    let archive = desk.path("archive");
    own_archive::put(Path::new(&archive));
    fs::create_dir(desk.root.join("here")).unwrap();
    // Folders above it that are made on the way are nothing that may be lost either.
    let (data, far, wal) = (desk.path("here/data"), desk.path("here/deep/down/data"), desk.path("here/log/of/it"));
    for (args, named) in [
        (&["--data-dir", &data][..], "here/data"),
        (&["--data-dir", &data, "--replace", "--at", "15"][..], "here/data"),
        (&["--data-dir", &far, "--wal-dir", &wal][..], "here/deep/down/data"),
        (&["--data-dir", &far, "--wal-dir", &wal, "--replace", "--at", "15"][..], "here/deep/down/data"),
    ] {
        let traced = desk.require_safe("here", &[&["restore", &archive][..], args].concat());
        require_published(&traced, named);
        require_file(&desk.path(&format!("{named}/member/snap/db")));
    }
    require_published(&desk.require_safe("here", &["undo", "--data-dir", &data]), "here/data");
    require_published(&desk.require_safe("here", &["undo", "--data-dir", &far]), "here/deep/down/data");
}

#[test]
fn a_file_that_is_made_of_a_point_is_on_the_disk_before_it_has_its_name() {
    let desk = Desk::new();
    let archive = desk.path("archive");
    own_archive::put(Path::new(&archive));
    fs::create_dir(desk.root.join("here")).unwrap();
    let snapshot = desk.path("here/snapshot.db");
    require_published(&desk.require_safe("here", &["export", &archive, "--output", &snapshot]), "here/snapshot.db");
    require_file(&snapshot);
}

/// With its first change in it, the folder that one command made for its archive is there to stay, and so are those above it.
#[test]
fn the_folder_that_is_made_for_an_archive_is_on_the_disk_before_anything_in_it_has_a_name() {
    let desk = Desk::new();
    let etcd = Member::new(Version::V36, desk.path("etcd")).without_fsync().start();
    etcd.client().put("key", "value").unwrap();
    fs::create_dir(desk.root.join("here")).unwrap();
    let (dir, spool, trace, page) =
        (desk.path("here/deep/down"), desk.path("spool"), desk.root.join("trace"), Port::reserve());
    let (url, listen) = (etcd.client_url(), page.address().to_string());
    let args =
        ["standalone", "--dir", &dir, "--spool", &spool, "--endpoints", &url, "--listen", &listen, "--no-upkeep"];
    let mut command = tracing(env!("CARGO_BIN_EXE_refloat"), &args, &trace);
    let mut running = Running::spawn(&mut command, page.address(), &desk.root.join("log"));
    running.until_sealed(etcd.client().status().unwrap().revision);
    assert!(running.stop().success());

    let traced = Traced::of_stopped(&trace, &desk.root.join("here"));
    require_published(&traced, "here/deep/down/archive/etcd/cluster.json");
    // An empty file that nobody misses.
    let lock = Path::new(&dir).join("lock");
    let early: Vec<_> = traced.too_early.iter().filter(|(path, _)| *path != lock).collect();
    assert!(early.is_empty(), "it was relied on too early: {early:#?}");
    assert_eq!(traced.lost(), [&lock], "a power cut takes more than a lock back");
}

/// Likewise those in which another system's snapshots are to be.
#[test]
fn the_folders_that_are_made_for_another_systems_snapshot_are_on_the_disk() {
    let desk = Desk::new();
    let archive = desk.path("archive");
    own_archive::put(Path::new(&archive));
    fs::create_dir(desk.root.join("here")).unwrap();
    let to = desk.path("here/deep/down");
    for container in ["none", "gzip"] {
        let args = ["export", &archive, "--for", "etcdbrctl", "--container", container, "--output", &to];
        let traced = desk.require_safe("here", &args);
        assert!(traced.published.iter().any(|path| path.starts_with(&to)), "{:#?}", traced.published);
    }
}
