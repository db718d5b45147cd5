//! Whose what is restored is. Only root can give something away, so these tests are root's.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use super::broken_disk::{BrokenDisk, names};
use super::*;
use crate::undo::undo;

const ETCD: Owner = Owner { uid: 4711, gid: 4712 };

fn give(path: &Path, owner: Owner) {
    lchown(path, Some(owner.uid), Some(owner.gid)).unwrap();
}

/// Everything from `path` down, with its user and its group.
fn owned(path: &Path) -> Vec<(PathBuf, u32, u32)> {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mut all = vec![(path.to_owned(), metadata.uid(), metadata.gid())];
    if metadata.is_dir() {
        all.extend(names(path).iter().flat_map(|name| owned(&path.join(name))));
    }
    all
}

/// All users and groups from `path` down.
fn owners(path: &Path) -> BTreeSet<(u32, u32)> {
    owned(path).into_iter().map(|(_, uid, gid)| (uid, gid)).collect()
}

/// A folder with a data directory that is etcd's, while a database in it is still that of whoever made it.
fn scene() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("member/snap")).unwrap();
    fs::write(data.join("member/snap/db"), b"old").unwrap();
    give(&data, ETCD);
    (folder, data)
}

fn aside(data: &Path) -> Options {
    Options { existing: Existing::KeepAside, ..options(data) }
}

#[test]
fn what_replaces_something_is_whose_that_was() {
    let (_folder, data) = scene();
    let before = owned(&data);
    let restored = restored(&puts_and_deletes().database(), &aside(&data));
    assert_eq!(restored.not_given_to, None);
    assert_eq!(owned(&data).len(), 8, "{:?}", owned(&data));
    assert_eq!(owners(&data), BTreeSet::from([(ETCD.uid, ETCD.gid)]));

    undo(&data, "later").unwrap();
    assert_eq!(owned(&data), before);
    assert_eq!(fs::read(data.join("member/snap/db")).unwrap(), b"old");
}

#[test]
fn a_log_elsewhere_is_too() {
    let (folder, data) = scene();
    let wal = folder.path().join("logs/wal");
    restored(&puts_and_deletes().database(), &Options { wal_dir: Some(wal.clone()), ..aside(&data) });
    for path in [&data, &wal] {
        assert_eq!(owners(path), BTreeSet::from([(ETCD.uid, ETCD.gid)]), "{}", path.display());
    }
}

/// Whose the folder above is, or one that is only filled, says nothing of who will run etcd.
#[test]
fn what_replaces_nothing_is_ours() {
    for is_filled in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let ours = owners(folder.path());
        let data = folder.path().join("data");
        give(folder.path(), ETCD);
        if is_filled {
            fs::create_dir(&data).unwrap();
            give(&data, ETCD);
        }
        restored(&puts_and_deletes().database(), &aside(&data));
        assert_eq!(owners(&data.join("member")), ours, "filled: {is_filled}");
    }
}

#[test]
fn where_it_cannot_be_given_away_it_is_restored_all_the_same_and_told() {
    let source = puts_and_deletes().database();
    let (_folder, data) = scene();
    for (stamp, told) in [("one", Some(ETCD)), ("two", None)] {
        let plan = Plan::make(&source, &Options { stamp: stamp.into(), ..aside(&data) }).unwrap();
        // The second replaces what the first has made, which is ours.
        let restored = restore_on(&BrokenDisk::that_gives_nothing_away(), &source, &plan, &mut |_| {}).unwrap();
        assert_eq!(restored.not_given_to, told, "{stamp}");
        assert_eq!(records(&database(&data)), records(&source), "{stamp}");
    }
}
