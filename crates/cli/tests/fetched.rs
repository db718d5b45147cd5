//! What commands fetch of an archive that is far away: what they show, and little more.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/bucket.rs"]
mod bucket;
#[path = "desk/founded.rs"]
mod founded;
#[path = "desk/running.rs"]
mod running;

use std::sync::Arc;
use std::time::Instant;

use archive::archive::{Archive, Which};
use archive::name::{FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Closing, Epoch, Header, Moment, ObjectKind};
use bucket::{BUCKET, Bucket};
use etcd_data::database::RevisionRange;
use etcd_data::{KeyValue, RevKey, Revision, Tables};
use founded::found;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use running::{refloat, succeed};
use store::Store;
use testkit::on_a_small_disk;
use tokio::runtime::Runtime;

/// Keys, a hundred below each prefix.
const KEYS: i64 = 10_000;

fn moment() -> Timestamp {
    Timestamp::from_second(1_793_491_200).unwrap()
}

fn key(number: i64) -> String {
    format!("/registry/things/{:03}/{number:05}", number / 100)
}

/// Text that does not become much shorter, always the same for the same key.
fn value(number: i64) -> String {
    let mut random = StdRng::seed_from_u64(number.unsigned_abs());
    (0..60).map(|_| format!("{:016x}", random.random::<u64>())).collect()
}

/// Puts an archive there that is one full of many chunks. Gives its size.
fn put_archive(store: Arc<dyn Store>) -> u64 {
    let runtime = Runtime::new().unwrap();
    let (cluster, lineage) = found(&runtime, &*store, moment());
    let archive = Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap();
    let last = Revision(KEYS + 1);
    let name = FullName { revision: last, time: moment(), form: FullForm::Logical };
    let (seen, revisions) = ((moment(), moment()), RevisionRange::up_to(last));
    let header = Header::original(ObjectKind::Full, cluster, lineage.clone(), Epoch(1), revisions, seen);
    let settings = WriteSettings { chunk_bytes: 64 << 10, ..WriteSettings::full() };
    let scratch = tempfile::tempdir().unwrap();
    let writing = Writing { now: moment(), scratch: scratch.path(), archive_key: None };
    let written = archive.publish(&Name::Full(lineage, name), header, settings, &writing, |making| {
        for number in 0..KEYS {
            let (main, key, value) = (Revision(number + 2), key(number), value(number));
            let put = KeyValue {
                key: key.as_bytes(),
                value: value.as_bytes(),
                create_revision: main,
                mod_revision: main,
                version: 1,
                ..KeyValue::default()
            };
            let mut encoded = Vec::new();
            put.encode(&mut encoded);
            making.push(RevKey { main, sub: 0, tombstone: false }, &encoded).unwrap();
        }
        let moments = vec![Moment { second: moment().as_second(), revision: last }];
        Ok((Closing { moments, ..Closing::default() }, Some(Tables::default())))
    });
    written.unwrap().unwrap().size_bytes
}

/// What `refloat` says, and how many bytes it fetched for that.
fn run(bucket: &Bucket, args: &[&str]) -> (String, u64) {
    let (before, reached) = (bucket.fetched(), bucket.reached());
    let args: Vec<&str> = args.iter().copied().chain(reached.iter().map(String::as_str)).collect();
    let said = succeed(&args);
    (said, bucket.fetched() - before)
}

#[test]
fn single_keys_are_shown_with_a_small_part_of_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let size = put_archive(bucket.open());
    assert!(size > 4 << 20, "{size} bytes");

    let one = key(5023);
    let (shown, fetched) = run(&bucket, &["get", BUCKET, &one]);
    assert_eq!(shown, value(5023));
    assert!(fetched < size / 8, "get fetched {fetched} of {size} bytes");

    let (shown, fetched) = run(&bucket, &["keys", BUCKET, "/registry/things/050/"]);
    let expected: Vec<String> = (5000..5100).map(key).collect();
    assert_eq!(shown.lines().collect::<Vec<&str>>(), expected);
    assert!(fetched < size / 8, "keys fetched {fetched} of {size} bytes");

    let (shown, fetched) = run(&bucket, &["history", BUCKET, &one, "-o", "json"]);
    assert!(shown.contains("5025"), "{shown}");
    assert!(fetched < size / 8, "history fetched {fetched} of {size} bytes");

    // All of it is fetched where all of it is needed, and counted.
    let (_, fetched) = run(&bucket, &["hashkv", BUCKET]);
    assert!(fetched >= size, "hashkv fetched {fetched} of {size} bytes");
}

#[test]
fn where_there_is_no_room_for_what_is_to_be_fetched_that_is_told_before_it_is() {
    let test = "where_there_is_no_room_for_what_is_to_be_fetched_that_is_told_before_it_is";
    let Some(disk) = on_a_small_disk(test, 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let size = put_archive(bucket.open());
    let (reached, disk) = (bucket.reached(), disk.to_str().unwrap());
    let target = format!("{disk}/etcd");
    for args in [&["hashkv", BUCKET, "--scratch", disk][..], &["restore", BUCKET, "--data-dir", &target]] {
        let before = bucket.fetched();
        let args: Vec<&str> = args.iter().copied().chain(reached.iter().map(String::as_str)).collect();
        let output = refloat(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(7), "{said}");
        let message = format!("what is fetched of {BUCKET} cannot be kept in {disk}\n  cause: {size} bytes are needed");
        assert!(said.contains(&message) && said.contains("hint: --scratch names another folder"), "{said}");
        assert!(bucket.fetched() - before < size / 8, "{said}");
        assert_eq!(std::fs::read_dir(disk).unwrap().count(), 0, "{said}");
    }
}

/// A command asks for no more than it may: the store would give it all at once.
#[test]
fn what_is_fetched_takes_the_time_that_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    put_archive(bucket.open());
    // The beginning and the end of the full, 64 KiB each, come before what is asked of its middle; four requests before the last.
    for (flag, limit, seconds) in [("--max-bytes-per-second", "100000", 1.0), ("--max-requests-per-second", "4", 0.75)]
    {
        let began = Instant::now();
        let (shown, _) = run(&bucket, &["get", BUCKET, &key(5023), flag, limit]);
        assert_eq!(shown, value(5023));
        assert!(began.elapsed().as_secs_f64() > seconds, "{flag}: it took {:?}", began.elapsed());
    }
}
