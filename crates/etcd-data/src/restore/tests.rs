//! What a restore makes, and what it leaves when it is stopped.

mod anchors;
mod broken_disk;
mod crash;
mod lacking;
mod lying;
mod owners;
mod place;
mod room;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::options::{Bump, EtcdVersion, ForVersion, Leases, Token};
use super::sample::{Change, Sample, live, records};
use super::*;
use crate::source::Source;
use crate::tables::{Lease, Member, Tables};

pub(super) fn options(data_dir: impl Into<PathBuf>) -> Options {
    Options::new(data_dir, Token::Named("token".into()), "now")
}

#[track_caller]
pub(super) fn restored(source: &Database, options: &Options) -> Restored {
    let plan = Plan::make(source, options).unwrap();
    restore(source, &plan, &mut |_| {}).unwrap()
}

/// The database of a data directory, its log left aside.
pub(super) fn database(data_dir: &Path) -> Database {
    let file = fs::File::open(data_dir.join("member/snap/db")).unwrap();
    Database::open(bolt_file::BoltFile::open(std::sync::Arc::new(file)).unwrap()).unwrap()
}

/// Restores `sample` into a new folder with what `change` makes of the options.
#[track_caller]
fn restore_sample(sample: &Sample, change: impl FnOnce(&mut Options)) -> (TempDir, Restored, Database) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path().join("data"));
    change(&mut options);
    let restored = restored(&sample.database(), &options);
    let database = database(&restored.data_dir);
    (folder, restored, database)
}

fn puts_and_deletes() -> Sample {
    let mut sample = Sample::new();
    sample.put("a", "1").put("b", "1").delete("a").put("a", "2");
    sample.txn(&[Change::Put("c", b"1", 0), Change::Delete("b"), Change::Put("d", b"", 0)]);
    sample.put("a", "3").delete("d");
    sample
}

#[test]
fn every_record_is_there_again() {
    let sample = puts_and_deletes();
    let (_folder, restored, database) = restore_sample(&sample, |_| {});
    assert_eq!(records(&database), records(&sample.database()));
    assert_eq!((restored.records, restored.revision), (10 - 1, Revision(8)));
    assert_eq!(restored.hash, crate::hash::hash_kv(&sample.database(), None, None).unwrap());
}

#[test]
fn what_nobody_knows_is_carried_along() {
    let mut sample = puts_and_deletes();
    sample.tables.bucket_mut("quotas").insert(b"a".to_vec(), b"1".to_vec());
    sample.tables.bucket_mut("empty");
    sample.tables.bucket_mut("meta").insert(b"unheard of".to_vec(), b"2".to_vec());
    // For another version than the source's it is refused: nobody knows whether that can live with it.
    for bump in [Bump::No, Bump::By(1000)] {
        let (_folder, _, database) = restore_sample(&sample, |options| options.bump = bump);
        for bucket in ["quotas", "empty"] {
            assert_eq!(database.tables().bucket(bucket), sample.tables.bucket(bucket), "{bucket}");
        }
        assert_eq!(database.tables().bucket("meta").unwrap()[&b"unheard of"[..]], b"2");
    }
}

#[test]
fn every_revision_is_restored_as_it_was() {
    let sample = puts_and_deletes();
    for at in 1..=8 {
        let (_folder, restored, database) = restore_sample(&sample, |options| options.at = Some(Revision(at)));
        let mut expected = records(&sample.database());
        expected.retain(|(key, _)| key.main.0 <= at);
        assert_eq!(records(&database), expected, "{at}");
        assert_eq!(restored.hash.revision, Revision(at));
    }
}

#[test]
fn history_ends_where_it_is_compacted() {
    for at in 2..=8 {
        let (_folder, restored, database) =
            restore_sample(&puts_and_deletes(), |options| options.compact_at = Some(Revision(at)));
        let mut compacted = puts_and_deletes();
        compacted.compact(at);
        assert_eq!(records(&database), records(&compacted.database()), "{at}");
        assert_eq!(restored.hash.compact_revision, Some(Revision(at)));
        let marks = (database.tables().scheduled_compaction(), database.tables().finished_compaction());
        assert_eq!(marks, (Ok(Some(Revision(at))), Ok(Some(Revision(at)))));
    }
}

#[test]
fn an_unfinished_compaction_is_finished() {
    let mut begun = puts_and_deletes();
    begun.tables.set_scheduled_compaction(Revision(6));
    let (_folder, _, database) = restore_sample(&begun, |_| {});
    let mut finished = puts_and_deletes();
    finished.compact(6);
    assert_eq!(records(&database), records(&finished.database()));
    assert_eq!(database.tables().finished_compaction(), Ok(Some(Revision(6))));
}

#[test]
fn a_bumped_store_has_what_is_live_and_no_history() {
    let sample = puts_and_deletes();
    for at in [5, 8] {
        let change = |options: &mut Options| (options.at, options.bump) = (Some(Revision(at)), Bump::By(1000));
        let (_folder, restored, database) = restore_sample(&sample, change);
        let (_other, _, then) = restore_sample(&sample, |options| options.at = Some(Revision(at)));
        assert_eq!(live(&database), live(&then));
        assert_eq!(restored.records, live(&then).len() as u64);
        assert_eq!(restored.hash.revision, Revision(1008));
        assert_eq!(database.tables().compact_revision(), Ok(Some(Revision(1008))));
    }
}

#[test]
fn an_empty_store_is_restored() {
    let (_folder, restored, database) = restore_sample(&Sample::new(), |_| {});
    assert_eq!((restored.records, restored.revision), (0, Revision(1)));
    assert_eq!(restored.hash.hash, 1_084_519_789);
    assert_eq!(records(&database), []);
}

#[test]
fn a_store_without_live_keys_is_restored() {
    let mut sample = Sample::new();
    sample.put("a", "1").delete("a");
    for (at, count) in [(1, 0), (2, 1), (3, 2)] {
        let (_folder, restored, _) = restore_sample(&sample, |options| options.at = Some(Revision(at)));
        assert_eq!(restored.records, count);
    }
    let (_folder, restored, _) = restore_sample(&sample, |options| options.compact_at = Some(Revision(3)));
    assert_eq!(restored.records, 1, "a deletion at the compact revision is kept");
    let (_folder, restored, _) = restore_sample(&sample, |options| options.bump = Bump::By(1));
    assert_eq!(restored.records, 0);
}

#[test]
fn the_largest_keys_and_values_are_restored() {
    let mut sample = Sample::new();
    sample.put(&"k".repeat(32 << 10), "long key").put("small", "1");
    sample.put("large", vec![7; 110 << 20]).put("small", "2");
    let (_folder, _, database) = restore_sample(&sample, |_| {});
    let live = live(&database);
    assert_eq!(live[&b"large"[..]].len(), 110 << 20);
    assert_eq!(live[&vec![b'k'; 32 << 10]], b"long key");
    assert_eq!(live[&b"small"[..]], b"2");
}

#[test]
fn pages_have_the_size_of_those_of_the_source() {
    let mut sample = Sample::new();
    for number in 0..2000 {
        sample.put(&format!("key{number}"), "value");
    }
    let folder = tempfile::tempdir().unwrap();
    for page_size in [1024, 16384] {
        let options = options(folder.path().join(page_size.to_string()));
        assert_eq!(restored(&sample.database_of(page_size), &options).records, 2000);
        assert_eq!(database(&options.data_dir).page_size(), page_size);
    }
}

#[test]
fn the_cluster_is_another_one() {
    let mut sample = puts_and_deletes();
    let old = Member {
        id: 5,
        peer_urls: vec!["http://old:2380".into()],
        is_learner: true,
        name: "old".into(),
        client_urls: Vec::new(),
    };
    sample.tables.put_member(&old);
    sample.tables.remove_member(crate::MemberId(9));
    let (folder, _, database) = restore_sample(&sample, |options| {
        options.name = "b".into();
        options.initial_cluster = Some("a=http://a:1,b=http://b:1,b=http://b:2,c=http://c:1".into());
    });
    let tables = database.tables();
    let members: Vec<Member> = tables.members().map(Result::unwrap).collect();
    let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(tables.removed_members().count(), 0);
    assert_eq!((tables.consistent_index(), tables.term()), (Ok(Some(3)), Ok(Some(1))));
    assert_eq!(tables.conf_state().unwrap().unwrap().voters.len(), 3);

    let wal = fs::read(folder.path().join("data/member/wal/0000000000000000-0000000000000000.wal")).unwrap();
    assert_eq!(wal.len(), 64_000_000);
    let log = crate::wal::read_segment(wal).unwrap();
    let itself = members.iter().find(|member| member.name == "b").unwrap();
    assert_eq!(log.metadata.unwrap().node_id, itself.id);
    let snap = fs::read(folder.path().join("data/member/snap/0000000000000001-0000000000000003.snap")).unwrap();
    assert_eq!(crate::snap::Snap::parse(snap.into()).unwrap().membership.members.len(), 3);
}

/// What a version cannot hold or would stumble over is gone; the rest stays.
#[track_caller]
fn check_version(version: ForVersion, expected: &str) {
    let mut sample = puts_and_deletes();
    let tables = &mut sample.tables;
    tables.set_storage_version(Some("3.6.0"));
    tables.set_cluster_version(Some("3.6.0"));
    let downgrade = crate::tables::Downgrade { target_version: "3.5.0".into(), enabled: true };
    tables.set_downgrade(Some(&downgrade));
    let (_folder, _, database) = restore_sample(&sample, |options| options.version = version);
    let tables = database.tables();
    let kept = [
        ("storage", tables.storage_version().unwrap().is_some()),
        ("cluster", tables.cluster_version().unwrap().is_some()),
        ("downgrade", tables.downgrade().unwrap().is_some()),
        ("term", tables.term().unwrap().is_some()),
        ("voters", tables.conf_state().unwrap().is_some()),
    ];
    let kept: Vec<&str> = kept.into_iter().filter_map(|(name, is_kept)| is_kept.then_some(name)).collect();
    assert_eq!(kept.join(" "), expected);
}

#[test]
fn each_version_gets_what_it_knows() {
    check_version(ForVersion::AsSource, "storage cluster downgrade term voters");
    check_version(ForVersion::Version(EtcdVersion::V34), "");
    check_version(ForVersion::Version(EtcdVersion::V35), "downgrade term voters");
    check_version(ForVersion::Version(EtcdVersion::V36), "term voters");
    check_version(ForVersion::Version(EtcdVersion::V37), "term voters");
}

fn leased() -> Sample {
    let mut sample = Sample::new();
    sample.tables.put_lease(&Lease { id: 1, ttl_seconds: 60, remaining_seconds: 0 });
    sample.put_leased("kept", 1).put_leased("gone", 2).put_leased("gone too", 2);
    sample.put_leased("overwritten", 3).put("overwritten", "no lease");
    sample.put_leased("deleted", -4).delete("deleted");
    sample.put_leased("negative", -5);
    sample
}

fn lease_ids(tables: &Tables) -> Vec<i64> {
    tables.leases().map(|lease| lease.unwrap().id).collect()
}

#[test]
fn a_deletion_at_the_compact_revision_is_kept_for_versions_that_keep_it() {
    let mut sample = Sample::new();
    sample.put("a", "1").delete("a").put("b", "1");
    for version in EtcdVersion::ALL {
        let (_folder, _, database) = restore_sample(&sample, |options| {
            options.compact_at = Some(Revision(3));
            options.version = ForVersion::Version(version);
        });
        let left: Vec<i64> = records(&database).into_iter().map(|(at, _)| at.main.0).collect();
        let expected: &[i64] = if version == EtcdVersion::V34 { &[4] } else { &[3, 4] };
        assert_eq!(left, expected, "{version}");
    }
}

#[test]
fn leases_that_live_keys_name_and_nobody_knows_are_told() {
    let (_folder, restored, database) = restore_sample(&leased(), |_| {});
    let expected = BTreeMap::from([(LeaseId(2), 2), (LeaseId(-5), 1)]);
    assert_eq!(restored.missing_leases, expected);
    assert_eq!(lease_ids(database.tables()), [1]);
    let (_folder, restored, _) = restore_sample(&leased(), |options| options.at = Some(Revision(5)));
    assert_eq!(restored.missing_leases, BTreeMap::from([(LeaseId(2), 2), (LeaseId(3), 1)]));
}

#[test]
fn without_leases_every_key_stays() {
    let (_folder, _, database) = restore_sample(&leased(), |options| options.leases = Leases::Drop);
    assert_eq!(lease_ids(database.tables()), [0i64; 0]);
    assert_eq!(records(&database), records(&leased().database()));
}

#[test]
fn a_hole_in_the_source_is_named() {
    let mut sample = puts_and_deletes();
    sample.skip_to(20).put("late", "1");
    let folder = tempfile::tempdir().unwrap();
    let options = Options { at: Some(Revision(15)), ..options(folder.path().join("data")) };
    let source = sample.database();
    let error = Plan::make(&source, &options).unwrap_err();
    assert_eq!(error.to_string(), "revision 15 is missing: the last before it is 8");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn real_directories_are_restored_from_what_they_hold() {
    let scratch = tempfile::tempdir().unwrap();
    for name in testkit::fixtures::DATA_DIRS {
        let data_dir = testkit::fixtures::data_dir(name);
        let source = Source::open(data_dir.path(), scratch.path()).unwrap();
        let (_folder, restored, database) = {
            let folder = tempfile::tempdir().unwrap();
            let restored = restored(&source.database, &options(folder.path().join("data")));
            let database = database(&restored.data_dir);
            (folder, restored, database)
        };
        assert_eq!(live(&database).len() as u64, count_live(&source.database), "{name}");
        let expected = crate::hash::hash_kv(&source.database, None, None).unwrap();
        assert_eq!(restored.hash, expected, "{name}");
        assert_eq!(restored.holes, None, "{name}");
        // What the truth says a running server answered at this revision, if it was asked.
        let truth = testkit::fixtures::data_dir_truth(name);
        for point in testkit::fixtures::points(&truth) {
            for said in point.hashes {
                let compact = restored.hash.compact_revision.map_or(-1, |revision| revision.0);
                if said.compact_revision == compact && point.revision <= restored.revision.0 {
                    let at = Some(Revision(point.revision));
                    assert_eq!(crate::hash::hash_kv(&database, at, None).unwrap().hash, said.hash, "{name}");
                }
            }
        }
    }
}

fn count_live(database: &Database) -> u64 {
    let mut live = std::collections::BTreeSet::new();
    let step = |part: &mut Vec<(Vec<u8>, bool)>, record: crate::database::Record<'_>| {
        part.push((record.key()?.to_vec(), record.at.tombstone));
        Ok(crate::database::Next::More)
    };
    let take = |part: Vec<(Vec<u8>, bool)>| {
        for (key, tombstone) in part {
            if tombstone {
                live.remove(&key)
            } else {
                live.insert(key)
            };
        }
        Ok::<_, crate::Error>(std::ops::ControlFlow::Continue(()))
    };
    let all = crate::database::RevisionRange::ALL;
    database.scan(all, crate::database::Direction::Forwards, step, take).unwrap();
    live.len() as u64
}

#[test]
fn a_source_that_somebody_writes_to_meanwhile_is_not_restored_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("source.db");
    let storage = puts_and_deletes().database().file().unwrap().storage().clone();
    let mut bytes = vec![0; storage.size().unwrap() as usize];
    storage.read_exact_at(&mut bytes, 0).unwrap();
    fs::write(&path, &bytes).unwrap();
    let file = bolt_file::BoltFile::open(std::sync::Arc::new(fs::File::open(&path).unwrap())).unwrap();
    let source = Database::open(file.clone()).unwrap();
    let options = options(folder.path().join("data"));
    let plan = Plan::make(&source, &options).unwrap();
    // As a commit does it, in the other meta page.
    let commit = |progress: Progress| {
        if progress.step == Step::Building {
            let meta = bolt_file::Meta { txid: file.meta().txid + 1, ..file.meta() };
            let meta = meta.encode(bolt_file::PageId(1));
            bytes[4096..4096 + meta.len()].copy_from_slice(&meta);
            fs::write(&path, &bytes).unwrap();
        }
    };
    let error = restore(&source, &plan, &mut { commit }).unwrap_err();
    assert!(matches!(error, RestoreError::Source(crate::Error::Bolt(bolt_file::Error::Changed))), "{error:?}");
    assert!(!options.data_dir.exists());
}
