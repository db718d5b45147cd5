//! The edges of what etcd itself writes: each is opened, checked, hashed as a slow reading does, and looked into.

use std::env;
use std::fs::File;
use std::os::unix::fs::FileExt;

use etcd_data::bolt_file::check;
use etcd_data::facts::Facts;
use etcd_data::hash::hash_kv;
use etcd_data::live::{self, Keys};
use etcd_data::soundness::{self, Severity};
use etcd_data::{Database, KeyValue, Revision, Source};
use testkit::{Golden, Version};

use crate::entry::exercise::{look_at, open_bolt};
use crate::entry::hand::{Buckets, bolt_file, key_space, put, record};

/// Looks at all of `database`, in which nothing is wrong.
#[track_caller]
fn sound(database: &Database) {
    look_at(database, &[0, 1, 2]);
    checked(database);
}

#[track_caller]
pub(crate) fn checked(database: &Database) {
    assert!(check(database.file().unwrap(), 2).unwrap().is_sound());
    let report = soundness::check(database).unwrap();
    assert!(report.worst() <= Some(Severity::Harmless), "{:?}", report.findings);
    assert_eq!(report.hash, Some(hash_kv(database, None, None).unwrap()));
}

pub(crate) fn database(buckets: &Buckets) -> Database {
    open_bolt(bolt_file(buckets)).unwrap()
}

fn golden(version: Version, case: &str) -> Database {
    let db = Golden::get(version, case).db();
    Source::open(&db, &env::temp_dir()).unwrap().database
}

/// What every version answers to HashKV of an empty store: the CRC of the bucket's name.
const HASH_OF_NOTHING: u32 = 1_084_519_789;

#[test]
fn a_member_that_has_just_begun_is_empty_and_sound() {
    assert_eq!(crc32c::crc32c(b"key"), HASH_OF_NOTHING);
    let fresh = Version::ALL.map(|version| golden(version, "empty"));
    for database in fresh.iter().chain([&database(&key_space([]))]) {
        sound(database);
        let hash = hash_kv(database, None, None).unwrap();
        assert_eq!((hash.hash, hash.revision, hash.compact_revision), (HASH_OF_NOTHING, Revision(1), None));
        let facts = Facts::of(database, None).unwrap();
        assert_eq!((facts.revision, facts.key_space.records), (Revision(1), 0));
        assert_eq!(live::get(database, b"a", None).unwrap(), None);
        assert!(hash_kv(database, Some(Revision(2)), None).is_err());
    }
}

#[test]
fn revision_1_comes_before_all_changes() {
    let database = database(&key_space([record(2, 0, put(2, b"a", b"1", 2, 1))]));
    sound(&database);
    assert_eq!(hash_kv(&database, Some(Revision(1)), None).unwrap().hash, HASH_OF_NOTHING);
    assert_eq!(live::count(&database, Some(Revision(1)), Keys::All).unwrap(), 0);
    assert_eq!(live::get(&database, b"a", Some(Revision(1))).unwrap(), None);
    assert_eq!(live::count(&database, None, Keys::All).unwrap(), 1);
}

#[test]
fn behind_a_torn_newest_meta_stands_the_commit_before() {
    for version in Version::ALL {
        let path = Golden::get(version, "history").db();
        let whole = Source::open(&path, &env::temp_dir()).unwrap().database;
        let page = whole.file().unwrap().newest_meta_page().0;
        let at = page * u64::from(whole.file().unwrap().layout().page_size) + 40;
        let (txid, newest) = (whole.file().unwrap().meta().txid, hash_kv(&whole, None, None).unwrap().revision);
        File::options().write(true).open(&path).unwrap().write_all_at(&[0xff; 20], at).unwrap();
        let torn = Source::open(&path, &env::temp_dir()).unwrap().database;
        assert_eq!(torn.file().unwrap().meta().txid, txid - 1);
        look_at(&torn, &[0, 2]);
        // No page of a commit is used anew by the one after it, so all of it is still there.
        assert!(soundness::check(&torn).unwrap().worst() <= Some(Severity::Harmless));
        assert!(hash_kv(&torn, None, None).unwrap().revision <= newest);
        let found = check(torn.file().unwrap(), 2).unwrap().findings;
        assert!(!found.is_empty() && found.iter().all(|finding| finding.page.0 == page), "{found:?}");
    }
}

#[test]
fn a_3_4_database_has_neither_term_nor_voters_and_nothing_is_wrong_with_it() {
    for case in ["history", "leases", "compacted"] {
        let database = golden(Version::ALL[0], case);
        let tables = database.tables();
        assert_eq!((tables.term(), tables.conf_state(), tables.storage_version()), (Ok(None), Ok(None), Ok(None)));
        assert!(tables.consistent_index().unwrap().is_some());
        sound(&database);
        assert_eq!(Facts::of(&database, None).unwrap().etcd_version, "3.4");
    }
}

#[test]
fn a_key_of_32_kib_is_a_key() {
    let long = vec![b'k'; 32 << 10];
    let longer = [&long[..], b"k"].concat();
    let database = database(&key_space([
        record(2, 0, put(2, &long, b"1", 2, 1)),
        record(3, 0, put(3, &longer, b"2", 3, 1)),
        record(4, 0, put(4, &long, b"3", 2, 2)),
        record(5, 0, KeyValue { key: &longer, ..KeyValue::default() }),
    ]));
    sound(&database);
    assert_eq!(live::get(&database, &long, None).unwrap().unwrap().value, b"3");
    assert_eq!(live::get(&database, &longer, None).unwrap(), None);
    assert_eq!(live::get(&database, &longer, Some(Revision(4))).unwrap().unwrap().value, b"2");
    assert_eq!(live::count(&database, Some(Revision(4)), Keys::Prefix(&long)).unwrap(), 2);
}
