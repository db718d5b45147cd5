//! Whatever a database is wrapped in or lies beside, it is the same database.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use etcd_data::container::Container;
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::source::{OpenError, Source, SourceKind};
use etcd_data::{Kind, tables::Tables};
use tempfile::TempDir;
use testkit::fixtures;

const SNAPSHOT: &str = "openshift/snapshot_2026-11-21_013642.db";

fn open(path: &Path) -> Result<Source, OpenError> {
    Source::open(path, &std::env::temp_dir())
}

fn hash(source: &Source) -> HashKv {
    hash_kv(&source.database, None, None).unwrap()
}

fn snapshot() -> (TempDir, Vec<u8>) {
    (TempDir::new().unwrap(), fs::read(fixtures::path(SNAPSHOT)).unwrap())
}

/// Every way to wrap a snapshot.
fn wrapped(plain: &[u8]) -> Vec<(Container, Vec<u8>)> {
    let read = |mut stream: Box<dyn Read + '_>| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("snapshot", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(plain).unwrap();
    let level = flate2::Compression::default();
    vec![
        (Container::Plain, plain.to_vec()),
        (Container::Gzip, read(Box::new(flate2::read::GzEncoder::new(plain, level)))),
        (Container::Zlib, read(Box::new(flate2::read::ZlibEncoder::new(plain, level)))),
        (Container::Zstd, zstd::encode_all(plain, 3).unwrap()),
        (Container::Zip, zip.finish().unwrap().into_inner()),
        (Container::Lzw, weezl::encode::Encoder::new(weezl::BitOrder::Lsb, 8).encode(plain).unwrap()),
    ]
}

#[test]
fn every_container_holds_the_same_database() {
    let (folder, plain) = snapshot();
    let truth = hash(&open(&fixtures::path(SNAPSHOT)).unwrap());
    for (container, bytes) in wrapped(&plain) {
        let path = folder.path().join("wrapped");
        fs::write(&path, &bytes).unwrap();
        let source = open(&path).unwrap();
        assert_eq!((source.container, source.kind), (container, SourceKind::Snapshot));
        assert_eq!(source.size_bytes, bytes.len() as u64, "{container}");
        assert_eq!(hash(&source), truth, "{container}");
    }
}

#[test]
fn a_container_that_is_cut_anywhere_is_damaged() {
    let (folder, plain) = snapshot();
    for (container, bytes) in wrapped(&plain).into_iter().skip(1) {
        for len in [bytes.len() - 1, bytes.len() / 2, 20] {
            let path = folder.path().join("cut");
            fs::write(&path, &bytes[..len]).unwrap();
            let opened = open(&path).err().map(|error| error.kind());
            assert_eq!(opened, Some(Kind::Corrupt), "{container} cut at {len}");
        }
    }
}

#[test]
fn opening_changes_nothing() {
    for name in fixtures::DATA_DIRS {
        let dir = fixtures::data_dir(name);
        let before = contents(dir.path());
        hash(&open(dir.path()).unwrap());
        assert_eq!(contents(dir.path()), before, "{name}");
    }
}

/// Every file below `folder`: where, its size, its time, and its first and last bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.metadata().unwrap();
            found.push((path.clone(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_database_that_an_etcd_holds_is_refused() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let db = dir.path().join("member/snap/db");
    let held = File::open(&db).unwrap();
    held.lock().unwrap();
    for path in [dir.path(), &db] {
        let error = open(path).err().unwrap();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        assert_eq!(error.kind(), Kind::Conflict);
    }
    held.unlock().unwrap();
    assert!(open(dir.path()).is_ok());
}

#[test]
fn what_is_no_database_says_what_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    assert_eq!(open(&path).err().unwrap().kind(), Kind::Missing);
    assert!(matches!(open(folder.path()), Err(OpenError::NoDataDir { .. })));
    for (bytes, kind) in [(&b""[..], Kind::Corrupt), (b"text", Kind::Corrupt), (&[0x1f, 0x8b, 8], Kind::Corrupt)] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(open(&path).err().unwrap().kind(), kind, "{bytes:?}");
    }
}

#[test]
fn a_log_that_is_gone_or_damaged_is_said_and_the_database_can_still_be_looked_at() {
    let dir = fixtures::data_dir("3.6.16-killed");
    let alone = open(&dir.path().join("member/snap/db")).unwrap();
    let whole = open(dir.path()).unwrap();
    assert!(hash(&whole).revision > hash(&alone).revision);

    fs::rename(dir.path().join("member/wal"), dir.path().join("member/lost")).unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::Log { .. }), "{error}");
    let damaged = Source::open_damaged(dir.path(), &std::env::temp_dir()).unwrap();
    assert_eq!(hash(&damaged), hash(&alone));
    assert!(damaged.data_dir.unwrap().ahead.is_err());
}

/// A member that died between receiving a database from the leader and putting it in its place.
#[test]
fn a_database_that_the_leader_sent_takes_its_place() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let truth = hash(&open(dir.path()).unwrap());
    let snap = dir.path().join("member/snap");
    let index = fs::read_dir(&snap).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        Some(name.strip_suffix(".snap")?.split_once('-')?.1.to_owned())
    });
    fs::rename(snap.join("db"), snap.join(format!("{}.snap.db", index.unwrap()))).unwrap();
    empty_database(&snap.join("db"));
    assert_eq!(hash(&open(dir.path()).unwrap()), truth);
}

fn empty_database(path: &Path) {
    let file = File::create(path).unwrap();
    let mut builder = bolt_file::write::Builder::create(file, Default::default()).unwrap();
    let mut tables = Tables::default();
    tables.set_consistent_index(3);
    builder.bucket(b"key").unwrap().finish().unwrap();
    for (name, table) in tables.buckets() {
        let mut bucket = builder.bucket(name).unwrap();
        table.iter().for_each(|(key, value)| bucket.push(key, value).unwrap());
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
}
