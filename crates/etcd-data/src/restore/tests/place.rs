//! What may be in the way, and what becomes of it.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::broken_disk::names;
use super::*;
use crate::error::Kind;
use crate::undo::{UndoPlan, undo};

struct Place {
    folder: TempDir,
    source: Database,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), source: puts_and_deletes().database() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self) -> Options {
        options(self.path("data"))
    }

    fn try_restore(&self, options: &Options) -> Result<Restored, RestoreError> {
        let plan = Plan::make(&self.source, options)?;
        restore(&self.source, &plan, &mut |_| {})
    }

    /// A member's directory that is not ours.
    fn make_old(&self, name: &str) {
        fs::create_dir_all(self.path(name).join("member/snap")).unwrap();
        fs::write(self.path(name).join("member/snap/db"), b"old").unwrap();
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, RestoreError>, kind: Kind, expected: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(expected), "{error}\nshould have {expected:?}");
    assert_eq!(error.kind(), kind, "{error}");
}

#[test]
fn what_is_there_is_not_replaced_unless_told() {
    let place = Place::new();
    place.make_old("data");
    refused(place.try_restore(&place.options()), Kind::Conflict, "data exists already");
    assert_eq!(fs::read(place.path("data/member/snap/db")).unwrap(), b"old");
    fs::remove_dir_all(place.path("data")).unwrap();
    fs::write(place.path("data"), b"a file").unwrap();
    refused(place.try_restore(&place.options()), Kind::Conflict, "exists");
    let aside = Options { existing: Existing::KeepAside, ..place.options() };
    refused(place.try_restore(&aside), Kind::Conflict, "is no folder");
}

#[test]
fn what_is_replaced_is_kept_until_it_is_put_back() {
    let place = Place::new();
    place.make_old("data");
    let restored = place.try_restore(&Options { existing: Existing::KeepAside, ..place.options() }).unwrap();
    let resolved = place.folder.path().canonicalize().unwrap();
    assert_eq!(restored.kept, Some(resolved.join("data.before-now")));
    assert_eq!(names(place.folder.path()), ["data", "data.before-now"]);

    let undone = undo(&place.path("data"), "later").unwrap();
    assert_eq!(undone.restored_revision, 8);
    assert_eq!(names(place.folder.path()), ["data", "data.undone-later"]);
    assert_eq!(fs::read(place.path("data/member/snap/db")).unwrap(), b"old");
    assert_eq!(database(&place.path("data.undone-later")).last_record().unwrap().unwrap().main, Revision(8));
    refused(undo(&place.path("data"), "again"), Kind::Missing, "did not replace anything");
}

#[test]
fn two_restores_are_undone_one_after_the_other() {
    let place = Place::new();
    for (stamp, at) in [("one", 3), ("two", 4), ("three", 5)] {
        let (stamp, at) = (stamp.to_owned(), Some(Revision(at)));
        place.try_restore(&Options { existing: Existing::KeepAside, stamp, at, ..place.options() }).unwrap();
    }
    for (stamp, main) in [("four", 4), ("five", 3)] {
        undo(&place.path("data"), stamp).unwrap();
        assert_eq!(database(&place.path("data")).last_record().unwrap().unwrap().main, Revision(main));
    }
    refused(undo(&place.path("data"), "six"), Kind::Missing, "did not replace anything");
}

#[test]
fn an_empty_folder_is_filled_and_stays_who_it_was() {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    fs::create_dir(place.path("data/lost+found")).unwrap();
    fs::set_permissions(place.path("data"), fs::Permissions::from_mode(0o750)).unwrap();
    let before = fs::metadata(place.path("data")).unwrap();
    place.try_restore(&place.options()).unwrap();
    let after = fs::metadata(place.path("data")).unwrap();
    assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()));
    assert_eq!(names(&place.path("data")), ["lost+found", "member"]);
}

#[test]
fn only_the_owner_may_read_what_is_restored() {
    let place = Place::new();
    place.try_restore(&place.options()).unwrap();
    for folder in ["data", "data/member", "data/member/snap", "data/member/wal"] {
        assert_eq!(fs::metadata(place.path(folder)).unwrap().mode() & 0o777, 0o700, "{folder}");
        for name in names(&place.path(folder)) {
            let metadata = fs::metadata(place.path(folder).join(&name)).unwrap();
            assert!(metadata.is_dir() || metadata.mode() & 0o777 == 0o600, "{folder}/{name}");
        }
    }
}

#[test]
fn a_link_stays_a_link() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    place.make_old("disk/etcd");
    symlink(place.path("disk/etcd"), place.path("data")).unwrap();
    place.try_restore(&Options { existing: Existing::KeepAside, ..place.options() }).unwrap();
    assert!(fs::symlink_metadata(place.path("data")).unwrap().is_symlink());
    assert_eq!(names(&place.path("disk")), ["etcd", "etcd.before-now"]);

    symlink(place.path("nowhere"), place.path("dangling")).unwrap();
    refused(place.try_restore(&options(place.path("dangling"))), Kind::Missing, "finding");
}

#[test]
fn folders_above_are_made() {
    let place = Place::new();
    place.try_restore(&options(place.path("not/yet/there"))).unwrap();
    assert_eq!(names(&place.path("not/yet")), ["there"]);
}

/// Everything below `folder`: what it is called, which file or folder it is, and what is in it.
fn contents(folder: &Path) -> Vec<(PathBuf, u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in names(&next).iter().map(|name| next.join(name)) {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = if metadata.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.push((path, metadata.ino(), bytes));
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn a_running_member_is_left_alone() {
    let place = Place::new();
    place.make_old("data");
    let starts = || {
        let etcd = File::open(place.path("data/member/snap/db")).unwrap();
        etcd.lock().unwrap();
        etcd
    };
    let in_use = |attempt: &dyn Fn() -> Result<(), RestoreError>| {
        let before = contents(place.folder.path());
        refused(attempt(), Kind::Conflict, "in use by a running etcd");
        assert!(contents(place.folder.path()) == before, "something was touched");
    };
    let aside = Options { existing: Existing::KeepAside, ..place.options() };
    let etcd = starts();
    in_use(&|| place.try_restore(&aside).map(drop));
    drop(etcd);
    let plan = Plan::make(&place.source, &aside).unwrap();
    let etcd = starts();
    in_use(&|| restore(&place.source, &plan, &mut |_| {}).map(drop));
    drop(etcd);
    place.try_restore(&aside).unwrap();
    let _etcd = starts();
    in_use(&|| undo(&place.path("data"), "later").map(drop));
}

#[test]
fn what_came_after_the_plan_is_not_replaced() {
    let place = Place::new();
    let plan = Plan::make(&place.source, &place.options()).unwrap();
    place.make_old("data");
    refused(restore(&place.source, &plan, &mut |_| {}), Kind::Conflict, "exists already");
    assert_eq!(names(place.folder.path()), ["data"]);

    let aside = Options { existing: Existing::KeepAside, ..place.options() };
    let plan = Plan::make(&place.source, &aside).unwrap();
    fs::remove_dir_all(place.path("data")).unwrap();
    refused(restore(&place.source, &plan, &mut |_| {}), Kind::Conflict, "has changed");
    assert_eq!(names(place.folder.path()), [""; 0]);
}

#[test]
fn of_two_at_the_same_time_one_is_refused() {
    let place = Place::new();
    let plan = Plan::make(&place.source, &place.options()).unwrap();
    let mut second = None;
    restore(&place.source, &plan, &mut |_| {
        second.get_or_insert_with(|| restore(&place.source, &plan, &mut |_| {}));
    })
    .unwrap();
    refused(second.unwrap(), Kind::Conflict, "another restore");
    assert_eq!(names(place.folder.path()), ["data"]);
}

#[test]
fn of_many_at_the_same_time_one_wins() {
    let place = Place::new();
    let results: Vec<_> = std::thread::scope(|scope| {
        let run = || {
            let source = puts_and_deletes().database();
            let plan = Plan::make(&source, &place.options())?;
            restore(&source, &plan, &mut |_| {})
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(names(place.folder.path()), ["data"]);
    assert_eq!(records(&database(&place.path("data"))), records(&place.source));
}

#[test]
fn the_log_can_lie_elsewhere() {
    let place = Place::new();
    let elsewhere = Options { wal_dir: Some(place.path("wal")), ..place.options() };
    place.try_restore(&elsewhere).unwrap();
    assert_eq!(names(place.folder.path()), ["data", "wal"]);
    assert_eq!(names(&place.path("data/member")), ["refloat-restore.json", "snap"]);
    assert_eq!(names(&place.path("wal")), ["0000000000000000-0000000000000000.wal"]);
    refused(place.try_restore(&elsewhere), Kind::Conflict, "data exists");
    fs::remove_dir_all(place.path("data")).unwrap();
    refused(place.try_restore(&elsewhere), Kind::Conflict, "wal exists");

    let aside = Options { existing: Existing::KeepAside, ..elsewhere };
    let restored = place.try_restore(&aside).unwrap();
    assert!(restored.kept_wal.unwrap().ends_with("wal.before-now"));
}

#[test]
fn the_log_can_lie_in_the_data_directory_but_not_around_it() {
    for (inside, is_fine) in
        [("member/wal", true), ("wal", true), ("member/log", true), ("member", false), ("a/b", false), ("..", false)]
    {
        let place = Place::new();
        let options = Options { wal_dir: Some(place.path("data").join(inside)), ..place.options() };
        match place.try_restore(&options) {
            Ok(_) => assert_eq!(names(&place.path("data").join(inside)).len(), 1, "{inside}"),
            Err(error) => assert_eq!((is_fine, error.kind()), (false, Kind::Usage), "{inside}: {error}"),
        }
    }
}

/// Wherever the log lies, a restore that replaced another is read with it, and what it replaced comes back with its own.
#[test]
fn an_undo_brings_the_log_back_wherever_it_lies() {
    for wal in ["data/member/wal", "data/member/log", "data/wal", "logs/wal"] {
        let place = Place::new();
        fs::create_dir(place.path("logs")).unwrap();
        let wal_dir = Some(place.path(wal));
        let options = Options { existing: Existing::KeepAside, wal_dir, ..place.options() };
        for (stamp, at) in [("one", 4), ("two", 8)] {
            let (stamp, at) = (stamp.to_owned(), Some(Revision(at)));
            place.try_restore(&Options { stamp, at, ..options.clone() }).unwrap();
        }
        let seen = |data: &str| {
            let source = Source::open(&place.path(data), place.folder.path()).unwrap();
            let findings = source.data_dir.unwrap().findings;
            assert_eq!(findings, [], "{wal}");
            source.database.last_record().unwrap().unwrap().main
        };
        assert_eq!(seen("data"), Revision(8), "{wal}");
        undo(&place.path("data"), "three").unwrap();
        assert_eq!(seen("data"), Revision(4), "{wal}");
        if wal.starts_with("data") {
            assert_eq!(seen("data.undone-three"), Revision(8), "{wal}");
        }
    }
}

#[test]
fn a_source_may_be_what_is_replaced() {
    let place = Place::new();
    place.try_restore(&place.options()).unwrap();
    let source = database(&place.path("data"));
    let options = Options { existing: Existing::KeepAside, at: Some(Revision(4)), ..place.options() };
    restored(&source, &options);
    assert_eq!(database(&place.path("data")).last_record().unwrap().unwrap().main, Revision(4));
}

#[test]
fn a_stamp_cannot_lead_elsewhere() {
    let place = Place::new();
    for stamp in ["", "../x", "a/b", ".", "a b"] {
        let options = Options { stamp: stamp.into(), ..place.options() };
        refused(place.try_restore(&options), Kind::Usage, "cannot be part of a name");
    }
}

#[test]
fn an_undo_says_what_it_will_do() {
    let place = Place::new();
    place.make_old("data");
    place.try_restore(&Options { existing: Existing::KeepAside, ..place.options() }).unwrap();
    let plan = UndoPlan::look(&place.path("data"), "later").unwrap();
    assert!(plan.comes_back.ends_with("data.before-now"));
    assert!(plan.goes_to.ends_with("data.undone-later"));
    assert_eq!(names(place.folder.path()), ["data", "data.before-now"]);
}
