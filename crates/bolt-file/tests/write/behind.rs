//! Files written by a thread of their own hold what a plain one would, and do not hide failures.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use bolt_file::sink::Sink;
use bolt_file::write::{Builder, Options, WriteError};
use bolt_file::write_behind::WriteBehind;

use crate::strict;

fn build<S: Sink>(sink: S, values: &[Vec<u8>]) -> Result<(), WriteError> {
    let mut builder = Builder::create(sink, Options::default())?;
    let mut bucket = builder.bucket(b"key")?;
    for (number, value) in values.iter().enumerate() {
        bucket.push(format!("{number:08}").as_bytes(), value)?;
    }
    bucket.finish()?;
    builder.finish().map(drop)
}

/// About 50 MB: more than all buffers, and with values that are larger than one.
fn values() -> Vec<Vec<u8>> {
    let len = |number: usize| if number.is_multiple_of(700) { 3 << 20 } else { number % 5000 };
    (0..10_000).map(|number| vec![number as u8; len(number)]).collect()
}

#[test]
fn a_file_written_behind_is_the_file_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let values = values();
    let mut expected = Vec::new();
    build(&mut expected, &values).unwrap();
    for reserved in [0, 1 << 20, expected.len() as u64, 200 << 20] {
        let path = folder.path().join(format!("{reserved}.db"));
        let mut sink = WriteBehind::new(File::create(&path).unwrap()).unwrap();
        sink.reserve(reserved).unwrap();
        build(sink, &values).unwrap();
        assert!(fs::read(&path).unwrap() == expected, "with {reserved} bytes reserved");
        let kept_bytes = fs::metadata(&path).unwrap().blocks() * 512;
        assert!(kept_bytes < expected.len() as u64 + (1 << 20), "{kept_bytes} bytes kept of {reserved} reserved");
    }
    assert_eq!(strict::read(&expected).pairs()[b"key".as_slice()].len(), values.len());
}

#[test]
fn writes_anywhere_come_out_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut sink = WriteBehind::new(File::create(&path).unwrap()).unwrap();
    let mut expected = Vec::new();
    for (offset, len) in [(5 << 20, 3 << 20), (0, 10), (10, 0), (10, 1 << 20), (100, 7), (9 << 20, 1), (1, 2)] {
        let bytes = vec![offset as u8 ^ len as u8 ^ 0x5A; len];
        sink.write_all_at(&bytes, offset).unwrap();
        expected.write_all_at(&bytes, offset).unwrap();
    }
    sink.sync().unwrap();
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    File::create(&path).unwrap();
    let read_only = || WriteBehind::new(File::open(&path).unwrap()).unwrap();

    // Little enough to fit into the buffers: the sync tells.
    let Err(WriteError::Io { doing: "syncing the pages", source }) = build(read_only(), &[]) else { panic!() };
    assert_eq!(source.raw_os_error(), Some(9));
    // Too much for that: a write tells.
    let Err(WriteError::Io { doing: "writing a page", source }) = build(read_only(), &values()) else { panic!() };
    assert_eq!(source.raw_os_error(), Some(9));
}

#[test]
fn after_a_failure_nothing_succeeds() {
    let mut sink = WriteBehind::new(File::options().write(true).open("/dev/full").unwrap()).unwrap();
    sink.write_all_at(b"something", 0).unwrap();
    assert_eq!(sink.sync().unwrap_err().kind(), io::ErrorKind::StorageFull);
    for _ in 0..5 {
        assert!(sink.write_all_at(b"more", 0).and_then(|()| sink.sync()).is_err());
    }
    let more = vec![1; 10 << 20];
    assert!(sink.write_all_at(&more, 0).is_err());
}

#[test]
fn more_than_the_disk_holds_is_refused_and_none_of_it_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut sink = WriteBehind::new(File::create(&path).unwrap()).unwrap();
    assert_eq!(sink.reserve(1 << 60).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(fs::metadata(&path).unwrap().blocks(), 0);
}

#[test]
fn what_is_said_to_be_readable_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut sink = WriteBehind::new(File::create(&path).unwrap()).unwrap();
    let mut expected = Vec::new();
    let mut readable_before = 0;
    for number in 0..4000usize {
        let bytes = vec![number as u8; number % 3000];
        sink.write_all_at(&bytes, expected.len() as u64).unwrap();
        expected.extend(bytes);
        let readable = sink.readable_bytes().unwrap() as usize;
        assert!((readable_before..=expected.len()).contains(&readable));
        if readable > readable_before {
            assert!(fs::read(&path).unwrap()[..readable] == expected[..readable]);
            readable_before = readable;
        }
    }
    sink.flush().unwrap();
    assert_eq!(sink.readable_bytes().unwrap(), expected.len() as u64);
    // What is written at the beginning at last takes nothing back.
    sink.write_all_at(b"meta", 0).unwrap();
    sink.flush().unwrap();
    assert_eq!(sink.readable_bytes().unwrap(), expected.len() as u64);
}
