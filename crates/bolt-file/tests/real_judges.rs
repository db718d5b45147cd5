//! Files of the bulk writer before those who must live with them: `bbolt check`, `bbolt compact`, etcdutl, and
//! etcd itself, which deletes and compacts until little of the tree is left.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::write::{Builder, Options};
use bolt_file::write_behind::WriteBehind;
use testkit::client::Kv;
use testkit::{Client, Ends, Etcd, Version, judges, servers};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Builds a file at `path` whose bucket `key` holds `pairs`, beside the other buckets that etcd has.
fn build(path: &Path, page_size: u32, pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
    let sink = WriteBehind::new(File::create(path).unwrap()).unwrap();
    let mut builder = Builder::create(sink, Options { page_size, ..Options::default() }).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    for (key, value) in pairs {
        bucket.push(&key, &value).unwrap();
    }
    bucket.finish().unwrap();
    for name in ["alarm", "auth", "authRoles", "authUsers", "cluster", "lease", "members", "members_removed", "meta"] {
        builder.bucket(name.as_bytes()).unwrap().finish().unwrap();
    }
    builder.finish().unwrap();
}

/// `count` entries with keys of `key_len` bytes and values of `value_len`.
fn pairs(count: usize, key_len: usize, value_len: usize) -> Pairs {
    let key = |n: usize| format!("{n:08}").bytes().chain(std::iter::repeat(b'k')).take(key_len).collect();
    (0..count).map(|n| (key(n), vec![n as u8; value_len])).collect()
}

fn read(path: &Path, bucket: &str) -> Pairs {
    let file = BoltFile::open(Arc::new(File::open(path).unwrap())).unwrap();
    let mut cursor = file.bucket(bucket.as_bytes()).unwrap().unwrap().cursor();
    let mut pairs = Pairs::new();
    while let Some(entry) = cursor.next().unwrap() {
        pairs.push((entry.key.to_vec(), entry.value.to_vec()));
    }
    pairs
}

/// Every shape that a tree can have: how many entries, with keys and values of which size.
const SHAPES: [(usize, usize, usize); 12] = [
    (0, 8, 0),
    (1, 8, 0),
    (4, 8, 204),
    (5, 8, 5000),
    (64, 8, 40),
    (2, 32768, 0),
    (11, 32768, 70_000),
    (300, 450, 100),
    (3, 8, 300_000),
    (20_000, 17, 0),
    (20_000, 17, 300),
    (2, 8, 110 << 20),
];

#[test]
fn bbolt_finds_nothing_wrong_and_copies_every_entry() {
    for page_size in [1024, 4096, 16384] {
        for (count, key_len, value_len) in SHAPES {
            let shape = format!("{count} entries of {key_len} and {value_len} bytes on pages of {page_size}");
            let folder = tempfile::tempdir().unwrap();
            let (file, copy) = (folder.path().join("built.db"), folder.path().join("copied.db"));
            let pairs = pairs(count, key_len, value_len);
            build(&file, page_size, pairs.iter().cloned());

            judges::bbolt_check(&file).unwrap_or_else(|said| panic!("{shape}: {said}"));
            let compact = Command::new(servers::bbolt()).args(["compact", "-o"]).arg(&copy).arg(&file).output_in_time();
            assert!(compact.unwrap().status.success(), "{shape}");
            assert!(read(&copy, "key") == pairs, "{shape}");
        }
    }
}

/// A history, and what is live at its end.
struct History {
    records: Pairs,
    live: BTreeMap<Vec<u8>, Kv>,
}

const KEYS: usize = 6000;

/// Every key put three times, in different orders and with values of different lengths.
fn history() -> History {
    let mut history = History { records: Pairs::new(), live: BTreeMap::new() };
    for (round, stride) in (1..).zip([1, 1361, 4001]) {
        for number in 0..KEYS {
            let key = number * stride % KEYS;
            let value_len = if key == 77 { 1_200_000 } else { 60 + key * round % 160 };
            history.put(format!("/registry/{key:06}").into_bytes(), vec![b'a' + round as u8; value_len]);
        }
    }
    history
}

impl History {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let revision = self.records.len() as i64 + 2;
        let before = self.live.get(&key);
        let kv = Kv {
            create_revision: before.map_or(revision, |kv| kv.create_revision),
            version: before.map_or(1, |kv| kv.version + 1),
            mod_revision: revision,
            lease: 0,
            key: key.clone(),
            value,
        };
        self.records.push((record_key(revision), record_value(&kv)));
        self.live.insert(key, kv);
    }
}

fn record_key(revision: i64) -> Vec<u8> {
    [&revision.to_be_bytes()[..], b"_", &[0; 8]].concat()
}

/// A key-value message as etcd keeps it: fields 1 and 5 are bytes, 2 to 4 numbers.
fn record_value(kv: &Kv) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 2];
    push_varint(&mut bytes, kv.key.len() as i64);
    bytes.extend(&kv.key);
    for (field, number) in [(2, kv.create_revision), (3, kv.mod_revision), (4, kv.version)] {
        bytes.push(field << 3);
        push_varint(&mut bytes, number);
    }
    bytes.push(5 << 3 | 2);
    push_varint(&mut bytes, kv.value.len() as i64);
    bytes.extend(&kv.value);
    bytes
}

fn push_varint(bytes: &mut Vec<u8>, mut number: i64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn require_live(client: &Client, live: &BTreeMap<Vec<u8>, Kv>) {
    let found = client.all(0).unwrap();
    assert_eq!(found.len(), live.len());
    assert!(found.iter().eq(live.values()), "live keys differ");
}

/// A member that was started from a file of ours by way of etcdutl, whose own additions to it are the first.
fn start_from(file: &Path, version: Version, folder: &Path) -> Etcd {
    let data_dir = folder.join(format!("data-{version}"));
    judges::etcdutl_restore(version, file, &data_dir, &["--skip-hash-check=true"]).unwrap();
    Etcd::start(version, &data_dir)
}

#[test]
fn etcd_writes_deletes_and_compacts_in_our_file_until_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for page_size in [1024, 4096] {
        let History { records, live } = history();
        let last = records.len() as i64 + 1;
        let file = folder.path().join(format!("{page_size}.db"));
        build(&file, page_size, records);

        for version in Version::ALL {
            let folder = tempfile::tempdir_in(folder.path()).unwrap();
            let mut live = live.clone();
            let etcd = start_from(&file, version, folder.path());
            let client = etcd.client();
            assert_eq!(client.status().unwrap().revision, last, "{version}");
            require_live(&client, &live);

            // Two of three records go, from every leaf, then whole stretches of the tree, at both ends and between.
            client.compact(last).unwrap();
            for (from, to) in [("/registry/0000", "/registry/0010"), ("/registry/0020", "/registry/0037")] {
                client.delete_range(from, to).unwrap();
                live.retain(|key, _| !(from.as_bytes()..to.as_bytes()).contains(&key.as_slice()));
            }
            client.compact(client.status().unwrap().revision).unwrap();
            for number in 0..50 {
                client.put(format!("/new/{number}"), vec![b'n'; 300]).unwrap();
            }
            let member = etcd.stop();
            judges::bbolt_check(member.db()).unwrap();

            let etcd = member.start();
            let client = etcd.client();
            client.delete_range("/new", "/nex").unwrap();
            require_live(&client, &live);
            client.delete_range([0], [0]).unwrap();
            client.compact(client.status().unwrap().revision).unwrap();
            judges::bbolt_check(etcd.stop().db()).unwrap();
        }
    }
}

#[test]
fn every_version_hashes_our_file_alike_and_etcdutl_accepts_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("built.db");
    let History { records, live } = history();
    let (count, last) = (records.len() as i64, records.len() as i64 + 1);
    build(&file, 4096, records);
    let hashes = Version::ALL.map(|version| {
        let status = judges::snapshot_status(version, &file).unwrap();
        let keys = if version >= Version::V36 { live.len() as i64 } else { count };
        assert_eq!((status.revision, status.total_key), (last, keys), "{version}");
        start_from(&file, version, folder.path()).client().hash_kv(last).unwrap().hash
    });
    assert_eq!(hashes, [hashes[0]; 4]);
}

#[test]
fn our_file_is_as_large_as_the_one_that_etcd_defragments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("built.db");
    build(&file, 4096, history().records);
    let ours = fs::metadata(&file).unwrap().len() as f64;
    for version in Version::ALL {
        let etcd = start_from(&file, version, folder.path());
        etcd.client().defragment().unwrap();
        let theirs = etcd.client().status().unwrap().db_size_in_use as f64;
        // What etcd keeps in the other buckets takes a few pages.
        assert!((0.99..1.01).contains(&(ours / theirs)), "{version}: ours {ours}, etcd's {theirs}");
    }
}
