//! What happens when there is too little room, or just enough.

use super::broken_disk::{BrokenDisk, End, Exchange, names};
use super::*;
use crate::defrag::defrag_on;
use crate::error::Kind;
use crate::export::{Against, export_on};
use crate::restore::options::DigestRule;

/// About 4 MiB of which a compaction leaves a quarter.
fn large() -> Sample {
    let mut sample = Sample::new();
    for number in 0..4000 {
        sample.put(&format!("key{}", number % 1000), vec![7; 1000]);
    }
    sample
}

fn restore_with(disk: &BrokenDisk, change: impl FnOnce(&mut Options)) -> (TempDir, Result<Restored, RestoreError>) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path().join("data"));
    change(&mut options);
    let source = large().database();
    let plan = Plan::make(&source, &options).unwrap();
    let result = restore_on(disk, &source, &plan, &mut |_| {});
    (folder, result)
}

#[track_caller]
fn needed(result: Result<Restored, RestoreError>) -> u64 {
    match result {
        Err(error @ RestoreError::NoSpace { needed_bytes, .. }) => {
            assert_eq!(error.kind(), Kind::Unavailable);
            needed_bytes
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_little_room_is_noticed_before_anything_large_is_written() {
    let (folder, result) = restore_with(&BrokenDisk::with_room(1 << 20), |_| {});
    let needed = needed(result);
    // Three records to a page of 4 KiB, and the log.
    assert!((69_400_000..70_000_000).contains(&needed), "{needed}");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_source_with_much_waste_needs_no_room_for_it() {
    // Half of what the source takes, and twice what is left of it.
    let disk = BrokenDisk::with_room(2 << 20);
    let (_folder, result) = restore_with(&disk, |options| options.compact_at = Some(Revision(4001)));
    let restored = result.unwrap();
    assert!(restored.size_bytes < 3 << 19, "{}", restored.size_bytes);
}

#[test]
fn what_is_said_to_be_needed_is_enough() {
    for compact_at in [None, Some(Revision(3001))] {
        let change = |options: &mut Options| options.compact_at = compact_at;
        let (_folder, result) = restore_with(&BrokenDisk::with_room(1 << 10), change);
        let needed = needed(result);
        let (_folder, result) = restore_with(&BrokenDisk::with_room(needed), change);
        let size = result.unwrap().size_bytes + 64_000_000;
        assert!((size..size + size / 20 + 300_000).contains(&needed), "{needed} for {size}");
    }
}

#[test]
fn a_disk_that_is_full_all_the_same_is_told_how_much_was_needed() {
    let mut seen = 0;
    // Wherever it happens: at the log, which is allocated as a whole, or at the database.
    for steps in 0..40 {
        let (folder, result) = restore_with(&BrokenDisk::new(steps, End::Full, Exchange::Works), |_| {});
        if let Err(RestoreError::NoSpace { needed_bytes, .. }) = result {
            assert!(needed_bytes > 68_000_000);
            assert_eq!(names(folder.path()), [""; 0]);
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_disk_that_is_full_has_nothing_half_made_of_an_export_or_a_defragmentation() {
    type Work = fn(&BrokenDisk, &Path) -> Option<RestoreError>;
    let export: Work = |disk, path| {
        let against = Against::default();
        export_on(disk, &puts_and_deletes().database(), None, &against, path, &mut |_| {}).err()
    };
    let defrag: Work = |disk, path| {
        let database = puts_and_deletes().database();
        defrag_on(disk, database.file().unwrap(), DigestRule::MustMatch, path, &mut |_| {}).err()
    };
    for (name, work) in [("export", export), ("defrag", defrag)] {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole.db");
        assert!(work(&BrokenDisk::new(usize::MAX, End::Full, Exchange::Works), &whole).is_none());
        let whole = fs::read(whole).unwrap();
        let mut told = 0;
        for steps in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let disk = BrokenDisk::new(steps, End::Full, Exchange::Works);
            let path = folder.path().join("new.db");
            let failed = work(&disk, &path);
            if !disk.is_over() {
                assert!(failed.is_none(), "{name}: {failed:?}");
                break;
            }
            let Some(error) = failed else { continue };
            // Where only its name could not be made to last, it is there.
            let left = fs::read(&path).ok();
            assert!(left.is_none_or(|left| left == whole), "{name}, full at step {steps}: {error:?}");
            let others = names(folder.path()).into_iter().filter(|name| name != "new.db");
            assert_eq!(others.count(), 0, "{name}, full at step {steps}: {error:?}");
            told += usize::from(matches!(error, RestoreError::NoSpace { needed_bytes, .. } if needed_bytes > 4096));
        }
        assert!(told > 5, "{name}: {told}");
    }
}
