use std::fs::File;
use std::sync::Arc;

use super::*;
use crate::error::{Error, RecordFault};
use crate::restore::PlanError;
use crate::restore::sample::{Sample, records};
use crate::soundness::{self, Finding};

fn open(path: &Path) -> BoltFile {
    BoltFile::open(Arc::new(File::open(path).unwrap())).unwrap()
}

#[test]
fn everything_is_there_again_what_nobody_knows_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = Sample::new();
    sample.put("a", "1").put("b", "2").delete("a").put("c", "3").compact(4);
    sample.tables.set_scheduled_compaction(Revision(5));
    sample.tables.bucket_mut("quotas").insert(b"a".to_vec(), b"1".to_vec());
    sample.tables.bucket_mut("empty");
    let source = sample.database_of(16384);
    let path = folder.path().join("db");
    defrag(source.file().unwrap(), DigestRule::MustMatch, &path, &mut |_| {}).unwrap();
    let new = Database::open(open(&path)).unwrap();
    assert_eq!(new.tables(), source.tables());
    assert_eq!(records(&new), records(&source));
    assert_eq!(new.page_size(), 16384);
}

#[test]
fn real_files_lose_their_waste_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in testkit::fixtures::DATA_DIRS {
        let data_dir = testkit::fixtures::data_dir(name);
        let path = folder.path().join(name);
        let before = data_dir.path().join("member/snap/db");
        let done = defrag(&open(&before), DigestRule::MustMatch, &path, &mut |_| {}).unwrap();
        assert!(done.size_bytes < done.size_bytes_before, "{name}: {done:?}");
        let (old, new) = (Database::open(open(&before)).unwrap(), Database::open(open(&path)).unwrap());
        assert_eq!(new.tables(), old.tables(), "{name}");
        assert_eq!(records(&new), records(&old), "{name}");
    }
}

#[test]
fn a_snapshot_with_a_byte_that_changed_becomes_no_file_that_nothing_tells_it_of() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (folder.path().join("snapshot.db"), folder.path().join("db"));
    let sample = Sample::new().put("a", "the value of a").database();
    crate::export::export(&sample, None, &Default::default(), &source, &mut |_| {}).unwrap();
    let whole = std::fs::read(&source).unwrap();
    let at = whole.windows(5).position(|bytes| bytes == b"value").unwrap();

    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    std::fs::write(&source, &damaged).unwrap();
    let error = defrag(&open(&source), DigestRule::MustMatch, &path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RestoreError::Digest), "{error}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    defrag(&open(&source), DigestRule::Ignored, &path, &mut |_| {}).unwrap();

    std::fs::write(&source, &whole).unwrap();
    let path = folder.path().join("whole");
    assert_eq!(defrag(&open(&source), DigestRule::MustMatch, &path, &mut |_| {}).unwrap().holes, None);
}

#[test]
fn what_a_file_lacks_is_told_of_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = Sample::new();
    sample.put("a", "1").put("a", "2").put("a", "3").lose(|at| at.main == Revision(3));
    let path = folder.path().join("db");
    let done = defrag(sample.database().file().unwrap(), DigestRule::MustMatch, &path, &mut |_| {}).unwrap();
    assert_eq!(done.holes.map(|holes| (holes.count, holes.first.from)), Some((1, Revision(3))));
}

#[test]
fn a_bucket_inside_a_bucket_is_found_and_not_made_a_pair() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let source = Sample::new().put("a", "1").database_with_nested_bucket();
    assert_eq!(source.tables().bucket("quotas").unwrap()[&b"inner"[..]], b"");
    let report = soundness::check(&source).unwrap();
    assert!(report.findings.iter().any(|finding| matches!(finding, Finding::NestedBucket(_))), "{:?}", report.findings);

    let error = defrag(source.file().unwrap(), DigestRule::MustMatch, &path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RestoreError::Plan(PlanError::NestedBucket(_))), "{error}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_pair_among_the_buckets_is_named_and_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let source = Sample::new().put("a", "1").database_with_pair_among_buckets();
    assert!(source.tables().bucket("quotas").is_none());
    assert_eq!(records(&source).len(), 1, "everything else can be read all the same");

    let error = defrag(source.file().unwrap(), DigestRule::MustMatch, &path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RestoreError::Plan(PlanError::PairAmongBuckets(_))), "{error}");
    assert_eq!(error.to_string(), "among the buckets there is a pair, quotas, which cannot be carried along");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_bucket_among_the_records_is_found_and_not_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let source = Sample::new().put("a", "1").database_with_bucket_among_records();
    let report = soundness::check(&source).unwrap();
    let is_told = |finding: &Finding| matches!(finding, Finding::BucketAmongRecords { .. });
    assert!(report.findings.iter().any(is_told), "{:?}", report.findings);
    assert_eq!(report.hash, None);

    let error = defrag(source.file().unwrap(), DigestRule::MustMatch, &path, &mut |_| {}).unwrap_err();
    let is_refused = matches!(error, RestoreError::Source(Error::Record { fault: RecordFault::Bucket, .. }));
    assert!(is_refused, "{error}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
