//! What is so large that it takes seconds: `make test-fast` goes without.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use etcd_data::bolt_file::check;
use etcd_data::bolt_file::write::{Builder, Options};
use etcd_data::container::ExpandError;
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::history::history;
use etcd_data::live::{self, Keys};
use etcd_data::request::{Command, Op};
use etcd_data::source::OpenError;
use etcd_data::{KeyValue, Kind, LeaseId, RevKey, Revision, Source, soundness};
use tempfile::TempDir;

use crate::edges::{checked, database};
use crate::entry::hand::{key_space, put, record};
use crate::entry::naive::{Naive, tail};
use crate::logs;
use crate::sources::{gzip, plain, refused, with_pages, zip_of};

#[test]
fn a_value_of_more_than_100_mib_is_a_value() {
    let large: Vec<u8> = (0..110u32 << 20).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let database = database(&key_space([
        record(2, 0, put(2, b"small", b"1", 2, 1)),
        record(3, 0, put(3, b"large", &large, 3, 1)),
        record(4, 0, put(4, b"small", b"2", 2, 2)),
    ]));
    checked(&database);
    let expected = Naive::of(&database).unwrap().hash_kv(4);
    assert_eq!(hash_kv(&database, None, None).unwrap().hash, expected);
    assert!(live::get(&database, b"large", None).unwrap().unwrap().value == large);
    assert_eq!(live::get(&database, b"small", None).unwrap().unwrap().value, b"2");
    assert_eq!(live::get(&database, b"large", Some(Revision(2))).unwrap(), None);
}

#[test]
fn ten_million_tiny_keys_are_read() {
    let keys = 10_000_000;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    let expected = write_tiny(keys, &path);
    let database = Source::open(&path, folder.path()).unwrap().database;
    assert!(check(database.file().unwrap(), 2).unwrap().is_sound());
    let report = soundness::check(&database).unwrap();
    assert_eq!((report.findings, report.hash.map(|hash| hash.hash)), (vec![], Some(expected)));
    assert_eq!(live::count(&database, None, Keys::All).unwrap(), keys as u64);
    let middle = Revision(keys / 2 + 1);
    assert_eq!(live::count(&database, Some(middle), Keys::All).unwrap(), keys as u64 / 2);
    let found = live::get(&database, &tiny_key(keys / 2), None).unwrap().unwrap();
    assert_eq!((found.mod_revision, found.version), (Revision(keys / 2 + 2), 1));
    let mut seen = 0;
    let count = |_: RevKey, _: KeyValue<'_>| {
        seen += 1;
        ControlFlow::Continue(())
    };
    history(&database, RevisionRange::ALL, Keys::One(&tiny_key(7)), count).unwrap();
    assert_eq!(seen, 1);
}

fn tiny_key(number: i64) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

/// Writes a database of `keys` keys of 4 bytes, each put once, and returns its HashKV, taken on the way.
fn write_tiny(keys: i64, path: &Path) -> u32 {
    let mut builder = Builder::create(File::create(path).unwrap(), Options::default()).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    let mut hash = crc32c::crc32c(b"key");
    let mut value = Vec::new();
    for number in 0..keys {
        let (main, key) = (Revision(number + 2), tiny_key(number));
        let kv = KeyValue {
            key: &key,
            create_revision: main,
            mod_revision: main,
            version: 1,
            value: b"",
            lease: LeaseId(0),
        };
        value.clear();
        kv.encode(&mut value);
        let at = RevKey { main, sub: 0, tombstone: false }.encode();
        bucket.push(&at, &value).unwrap();
        hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, &at), &value);
    }
    bucket.finish().unwrap();
    builder.finish().unwrap();
    hash
}

#[test]
fn a_transaction_of_a_million_operations_is_carried_out() {
    let ops = (0..1_000_000).map(|n| Op::Put(logs::put_of(&format!("{:03}", n % 1000)))).collect();
    let caught_up = logs::carried(logs::database(1), vec![Command::Txn(logs::txn(ops))]).unwrap();
    let tail = tail(&caught_up.database);
    assert_eq!(tail.len(), 1_000_000);
    assert_eq!(tail.last().map(|last| (last.at.main, last.at.sub)), Some((Revision(3), 999_999)));
}

/// A gzip stream of 20 GiB of zeros behind `head`.
fn bomb(head: &[u8]) -> Vec<u8> {
    let zeros = gzip(&vec![0; 64 << 20]);
    [gzip(head), zeros.repeat(320)].concat()
}

#[test]
fn a_bomb_of_zeros_ends_at_the_first_of_them() {
    let error = refused(&bomb(b""));
    assert!(matches!(error, OpenError::Expand { source: ExpandError::NoDatabase { .. }, .. }), "{error:?}");
    assert_eq!(error.kind(), Kind::Corrupt);
}

#[test]
fn a_bomb_behind_a_database_ends_where_the_database_must() {
    let file = plain();
    let OpenError::Expand { source: ExpandError::TooLong { limit }, .. } = refused(&bomb(&file)) else {
        panic!("not too long");
    };
    assert_eq!(limit, file.len() as u64 + (1 << 30));
}

#[test]
fn a_bomb_that_claims_to_be_a_huge_database_needs_more_room_than_there_is() {
    let error = refused(&bomb(&with_pages(plain(), 1 << 50)));
    let OpenError::Expand { source: ExpandError::NoRoom { needed, .. }, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(needed, 1 << 60);
}

#[test]
fn a_zip_bomb_ends_where_the_database_must() {
    let file = with_pages(plain(), 40);
    let bomb = [file, vec![0; (1 << 30) + (1 << 20)]].concat();
    let error = refused(&zip_of(&[("snapshot", &bomb)]));
    assert!(matches!(error, OpenError::Expand { source: ExpandError::TooLong { .. }, .. }), "{error:?}");
}
