//! The edges: nothing at all, a value larger than any request, pages of other sizes, a database as large as its quota.
//!
//! A 3.4 database without term and voters is no edge here: [`crate::versions`] starts every version from those.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use etcd_data::bolt_file::write::{self, Builder};
use etcd_data::database::{Record, RevisionRange};
use etcd_data::records::TailRecord;
use etcd_data::restore::Options;
use etcd_data::restore::options::Bump;
use etcd_data::{Database, Error, KeyValue, RevKey, Revision, Source};
use testkit::fixtures::points;
use testkit::{Golden, Member, Version, judges};

use crate::judged::{carries_on, runs_and_says, works};
use crate::origin::{options, restored, target};

/// Whatever changed in what etcd keeps, and how, did so between these.
const OLDEST_AND_NEWEST: [Version; 2] = [Version::V34, Version::V37];

#[test]
fn a_store_that_nobody_ever_wrote_to_takes_its_first_write() {
    for golden in OLDEST_AND_NEWEST.map(|version| Golden::get(version, "empty")) {
        let (db, folder) = (golden.db(), tempfile::tempdir().unwrap());
        let source = Source::open(&db, folder.path()).unwrap().database;
        let points = points(&golden.truth());
        assert_eq!((points.len(), points[0].revision), (1, 1));
        for version in OLDEST_AND_NEWEST {
            let member = Member::new(version, folder.path().join(version.minor()));
            restored(&source, &Options { version: target(version), ..options(&member) });
            runs_and_says(member, &points, &format!("nothing of {} for {version}", golden.version));
        }
    }
}

#[test]
fn a_store_that_nobody_ever_wrote_to_goes_on_from_a_higher_revision() {
    for version in OLDEST_AND_NEWEST {
        let (db, folder) = (Golden::get(version, "empty").db(), tempfile::tempdir().unwrap());
        let source = Source::open(&db, folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("bumped"));
        let done = restored(&source, &Options { bump: Bump::By(1_000_000), ..options(&member) });
        let etcd = member.start();
        assert_eq!(etcd.client().status().unwrap().revision, 1_000_001, "{version}");
        assert_eq!(etcd.client().hash_kv(0).unwrap().hash, done.hash.hash, "{version}");
        works(etcd, &format!("nothing of {version}, bumped"));
    }
}

/// As a crash in the middle of a commit leaves it.
#[test]
fn what_stands_behind_a_torn_newest_meta_runs() {
    for version in Version::ALL {
        let golden = Golden::get(version, "history");
        let (db, folder) = (golden.db(), tempfile::tempdir().unwrap());
        let whole = Source::open(&db, folder.path()).unwrap().database;
        let file = whole.file().unwrap();
        let at = file.newest_meta_page().0 * u64::from(file.layout().page_size) + 40;
        File::options().write(true).open(&db).unwrap().write_all_at(&[0xff; 20], at).unwrap();
        let torn = Source::open(&db, folder.path()).unwrap().database;
        assert_eq!(torn.file().unwrap().meta().txid, file.meta().txid - 1, "{version}");

        let member = Member::new(version, folder.path().join("restored"));
        let done = restored(&torn, &options(&member));
        judges::bbolt_check(member.db()).unwrap_or_else(|error| panic!("{version}: {error}"));
        let mut points = points(&golden.truth());
        points.retain(|point| point.revision <= done.revision.0);
        assert!(!points.is_empty(), "{version}: nothing is known up to revision {}", done.revision);
        runs_and_says(member, &points, &format!("{version} behind a torn meta"));
    }
}

/// More leaves than a branch has room for, many times over.
#[test]
fn ten_million_tiny_keys_are_what_bbolt_calls_sound_and_are_served() {
    let keys = 10_000_000_i64;
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let mut builder = Builder::create(File::create(&db).unwrap(), Default::default()).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    for number in 0..keys {
        let TailRecord { at, value } = first_put(Revision(number + 2), &(number as u32).to_be_bytes(), b"");
        bucket.push(&at.encode(), &value).unwrap();
    }
    bucket.finish().unwrap();
    builder.finish().unwrap();
    let source = Source::open(&db, folder.path()).unwrap().database;
    let member = Member::new(Version::V37, folder.path().join("restored"));
    let done = restored(&source, &options(&member));
    assert_eq!(done.records, keys as u64);
    judges::bbolt_check(member.db()).unwrap();
    let etcd = member.start();
    let client = etcd.client();
    assert_eq!(client.hash_kv(0).unwrap().hash, done.hash.hash);
    for number in [0, keys / 2, keys - 1] {
        let found = client.get((number as u32).to_be_bytes()).unwrap().unwrap();
        assert_eq!((found.mod_revision, found.version), (number + 2, 1));
    }
    assert_eq!(client.put("after", "1").unwrap(), keys + 2);
}

/// What no request can bring: etcd takes 1.5 MiB.
const LARGE_BYTES: u32 = 110 << 20;

#[test]
fn a_value_of_more_than_100_mib_is_served() {
    let large: Vec<u8> = (0..LARGE_BYTES).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let revisions = RevisionRange { from: Revision(87), to: Revision(88) };
    let added = Arc::new(vec![first_put(revisions.from, b"large", &large), first_put(revisions.to, b"small", b"1")]);
    drop(large);
    for version in OLDEST_AND_NEWEST {
        let golden = Golden::get(version, "history");
        let (db, folder) = (golden.db(), tempfile::tempdir().unwrap());
        let points = points(&golden.truth());
        let last = points.last().unwrap();
        assert_eq!((last.revision, last.hashes[0].compact_revision), (86, -1), "{version}");
        // Where nothing was ever compacted, the hash of a revision goes on from that of the one before.
        let expected = added.iter().fold(last.hashes[0].hash, |hash, record| {
            crc32c::crc32c_append(crc32c::crc32c_append(hash, &record.at.encode()), &record.value)
        });

        let source = Source::open(&db, folder.path()).unwrap().database.followed_by(revisions, added.clone());
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));
        let etcd = member.start();
        let said = etcd.client().hash_kv(88).unwrap();
        assert_eq!((said.hash, said.compact_revision), (expected, -1), "{version}");
        carries_on(etcd, &format!("{version} with a large value"), |client| client.get("after").unwrap());
    }
}

fn first_put(main: Revision, key: &[u8], value: &[u8]) -> TailRecord {
    let record = KeyValue { key, create_revision: main, mod_revision: main, version: 1, value, ..KeyValue::default() };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    TailRecord { at: RevKey { main, sub: 0, tombstone: false }, value: bytes }
}

/// Such as machines have whose own pages are larger.
#[test]
fn a_file_of_large_pages_runs_and_so_does_what_is_restored_of_it() {
    for version in OLDEST_AND_NEWEST {
        let golden = Golden::get(version, "large");
        let (db, folder) = (golden.db(), tempfile::tempdir().unwrap());
        let source = Source::open(&db, folder.path()).unwrap().database;
        for page_size in [16 << 10, 64 << 10] {
            let what = format!("{version} on pages of {page_size}");
            let large = folder.path().join(format!("large-{page_size}"));
            write_on_pages_of(page_size, &source, &large);
            let source = Source::open(&large, folder.path()).unwrap().database;
            let member = Member::new(version, folder.path().join(format!("again-{page_size}")));
            restored(&source, &options(&member));
            assert_eq!(page_size_of(&member.db()), page_size, "{what}");
            runs_and_says(member, &points(&golden.truth()), &what);
        }
    }
}

/// Writes what is in `source` to the new file `path`, on pages of another size.
fn write_on_pages_of(page_size: u32, source: &Database, path: &Path) {
    let options = write::Options { page_size, ..write::Options::default() };
    let mut builder = Builder::create(File::create(path).unwrap(), options).unwrap();
    let mut records = builder.bucket(b"key").unwrap();
    let visit = |record: Record<'_>| {
        records.push(&record.at.encode(), record.value).unwrap();
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    source.visit(RevisionRange::ALL, visit).unwrap();
    records.finish().unwrap();
    for (name, table) in source.tables().buckets() {
        let mut bucket = builder.bucket(name).unwrap();
        table.iter().for_each(|(key, value)| bucket.push(key, value).unwrap());
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
}

/// What the first meta of a bolt file says of its pages.
fn page_size_of(db: &Path) -> u32 {
    let mut bytes = [0; 4];
    File::open(db).unwrap().read_exact_at(&mut bytes, 24).unwrap();
    u32::from_le_bytes(bytes)
}

/// So whoever restores can tell beforehand whether a quota will do.
#[test]
fn a_quota_counts_the_size_that_is_told_of_a_restore() {
    for version in OLDEST_AND_NEWEST {
        let (db, folder) = (Golden::get(version, "history").db(), tempfile::tempdir().unwrap());
        let source = Source::open(&db, folder.path()).unwrap().database;
        for (room_bytes, is_enough) in [(0, false), (16 << 20, true)] {
            let what = format!("{version} with room for {room_bytes} bytes");
            let member = Member::new(version, folder.path().join(format!("room-{room_bytes}")));
            let done = restored(&source, &options(&member));
            let etcd = member.flag(format!("--quota-backend-bytes={}", done.size_bytes + room_bytes)).start();
            let put = etcd.client().put("a", "1").map_err(|error| error.message);
            match is_enough {
                true => assert_eq!(put, Ok(87), "{what}"),
                false => assert!(put.as_ref().is_err_and(|said| said.contains("space exceeded")), "{what}: {put:?}"),
            }
            let alarms: Vec<String> = etcd.client().alarms().unwrap().into_iter().map(|alarm| alarm.kind).collect();
            assert_eq!(alarms.is_empty(), is_enough, "{what}: {alarms:?}");
        }
    }
}
