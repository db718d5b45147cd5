use std::fs;

use super::*;
use crate::database::RevisionRange;
use crate::digest::{self, Digest};
use crate::error::Kind;
use crate::restore::PlanError;
use crate::restore::sample::{Sample, records};
use crate::source::{Source, SourceKind};

fn sample() -> Sample {
    let mut sample = Sample::new();
    sample.put("a", "1").put("b", "2").delete("a").put("c", vec![3; 20_000]);
    sample.tables.set_cluster_version(Some("3.5.0"));
    sample
}

#[test]
fn an_export_is_a_snapshot_of_that_revision() {
    let folder = tempfile::tempdir().unwrap();
    let source = sample().database();
    for at in 1..=5 {
        let path = folder.path().join(format!("{at}.db"));
        let exported = export(&source, Some(Revision(at)), &Against::default(), &path, &mut |_| {}).unwrap();
        let opened = Source::open(&path, folder.path()).unwrap();
        assert_eq!(opened.kind, SourceKind::Snapshot);
        assert_eq!(exported.size_bytes % 512, 32);
        assert_eq!(exported.size_bytes, fs::metadata(&path).unwrap().len());
        let digest = digest::check(&**opened.database.file().unwrap().storage()).unwrap();
        assert_eq!(digest, Digest::Matches(exported.sha256));
        assert_eq!(opened.database.tables(), source.tables());
        let mut expected = records(&source);
        expected.retain(|(key, _)| key.main.0 <= at);
        assert_eq!(records(&opened.database), expected);
        assert_eq!(exported.hash, crate::hash::hash_kv(&source, Some(Revision(at)), None).unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}

#[test]
fn what_nobody_knows_is_carried_along() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = sample();
    sample.tables.bucket_mut("quotas").insert(b"a".to_vec(), b"1".to_vec());
    sample.tables.bucket_mut("empty");
    sample.tables.bucket_mut("meta").insert(b"unheard of".to_vec(), b"2".to_vec());
    let source = sample.database();
    for at in [3, 5] {
        let path = folder.path().join(format!("{at}.db"));
        export(&source, Some(Revision(at)), &Against::default(), &path, &mut |_| {}).unwrap();
        let opened = Source::open(&path, folder.path()).unwrap();
        assert_eq!(opened.database.tables(), source.tables(), "{at}");
    }
}

#[test]
fn what_the_source_lacks_up_to_the_revision_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = sample();
    sample.lose(|at| at.main == Revision(3));
    let source = sample.database();
    let missing = Holes { count: 1, first: RevisionRange { from: Revision(3), to: Revision(3) } };
    for (at, told) in [(Some(2), None), (Some(4), Some(missing)), (None, Some(missing))] {
        let path = folder.path().join(format!("{at:?}.db"));
        let exported = export(&source, at.map(Revision), &Against::default(), &path, &mut |_| {}).unwrap();
        assert_eq!(exported.holes, told, "{at:?}");
        let mut expected = records(&source);
        expected.retain(|(key, _)| at.is_none_or(|at| key.main.0 <= at));
        assert_eq!(records(&Source::open(&path, folder.path()).unwrap().database), expected, "{at:?}");
    }
}

#[test]
fn what_is_there_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    fs::write(&path, b"precious").unwrap();
    let error = export(&sample().database(), None, &Against::default(), &path, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_revision_that_is_not_there_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    let error = export(&sample().database(), Some(Revision(6)), &Against::default(), &path, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_exported_that_a_live_member_contradicts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    let source = sample().database();
    let anchor = crate::hash::hash_kv(&source, Some(Revision(3)), None).unwrap();
    let wrong = HashKv { hash: !anchor.hash, ..anchor };
    let against =
        |anchor| Against { anchored: Some(Anchored { source: source.clone(), anchor }), ..Against::default() };
    let error = export(&source, None, &against(wrong), &path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RestoreError::Anchor { found, .. } if found == anchor.hash), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    export(&source, None, &against(anchor), &path, &mut |_| {}).unwrap();
}

#[test]
fn nothing_is_exported_of_which_something_would_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    let source = sample().database_with_nested_bucket();
    let error = export(&source, None, &Against::default(), &path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RestoreError::Plan(PlanError::NestedBucket(_))), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let source = sample().database_with_pair_among_buckets();
    let error = export(&source, None, &Against::default(), &path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RestoreError::Plan(PlanError::PairAmongBuckets(_))), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
