//! Does everything that can be done with a file, whatever its bytes. It must end, and never panic.
//!
//! Shared by the damage test, the short fuzz run and the fuzz targets. Beyond not panicking, it holds:
//! - what a check calls sound reads the same in both directions, in order, and is found by key;
//! - a scan of a sound bucket shows the entries of its cursor;
//! - what is called sound while it comes in is what a check calls sound.

#![allow(dead_code, reason = "each test uses its part")]

use std::ops::ControlFlow;
use std::sync::Arc;

use bolt_file::check::Report;
use bolt_file::check::rising::Rising;
use bolt_file::scan::{Direction, KeyRange, SpanReader};
use bolt_file::{BoltFile, Bucket, Cursor, Entry, Error, check};

/// Buckets of each level that are walked, for many may lead to the same pages.
const BUCKETS: usize = 16;
/// Levels of buckets in buckets that are walked.
const LEVELS: usize = 3;

/// What a check says of `bytes`, if they can be opened.
pub(crate) fn exercise(bytes: Vec<u8>) -> Option<Report> {
    let file = BoltFile::open(Arc::new(bytes)).ok()?;
    let report = check(&file, 1).unwrap_or_else(|error| panic!("memory can be read, and does not change: {error}"));
    assert!(!rises(&file) || report.is_sound(), "{:?}", report.findings);
    let _ = bolt_file::freelist::read(&file).map(|list| list.map(Iterator::count));
    let _ = file.bucket_names();
    walk(&file.root(), LEVELS, report.is_sound());
    Some(report)
}

/// Whether `file` is one that could have been written from its leaves up.
pub(crate) fn rises(file: &BoltFile) -> bool {
    let layout = file.layout();
    let mut rising = Rising::new(Arc::clone(file.storage()), layout.page_size);
    let bytes = file.used_bytes().min(layout.file_bytes);
    let read = [bytes / 3, bytes / 2, bytes].into_iter().all(|end| rising.read_up_to(end, &mut |_, _| ()).is_ok());
    read && rising.finish(file).is_ok()
}

/// Holds that two threads find a file sound if one does.
pub(crate) fn agree(bytes: Vec<u8>) {
    let Ok(file) = BoltFile::open(Arc::new(bytes)) else { return };
    let [alone, together] = [1, 2].map(|threads| check(&file, threads).unwrap().is_sound());
    assert_eq!(alone, together);
}

type Pair = (Vec<u8>, Vec<u8>, bool);

/// Reads all of `bucket` in every way, and of a sound one holds that all ways agree.
fn walk(bucket: &Bucket, levels: usize, sound: bool) {
    let mut names = Vec::new();
    // Values of a broken file may overlap, and be far more together than the file is.
    let mut ways: [Vec<Pair>; 4] = Default::default();
    let [forwards, backwards, scanned, scanned_back] = &mut ways;
    let ended = [
        step_through(bucket, Cursor::next, &mut |entry| {
            if entry.is_bucket && names.len() < BUCKETS {
                names.push(entry.key.to_vec());
            }
            keep(forwards, entry, sound);
        }),
        step_through(bucket, Cursor::previous, &mut |entry| keep(backwards, entry, sound)),
        scan(bucket, Direction::Forwards, &mut |entry| keep(scanned, entry, sound)),
        scan(bucket, Direction::Backwards, &mut |entry| keep(scanned_back, entry, sound)),
    ];
    let found = bucket.get(b"k");
    if sound {
        found.unwrap();
        ended.into_iter().for_each(Result::unwrap);
        backwards.reverse();
        scanned_back.sort();
        assert!(forwards.is_sorted_by(|a, b| a.0 < b.0), "keys ascend");
        assert!(forwards == backwards && forwards == scanned && forwards == scanned_back);
        seek_each(bucket, forwards);
    }
    for name in names.iter().filter(|_| levels > 0) {
        match bucket.bucket(name) {
            Ok(Some(inner)) => walk(&inner, levels - 1, sound),
            Ok(None) | Err(_) => assert!(!sound, "a bucket that is there is found"),
        }
    }
}

fn keep(pairs: &mut Vec<Pair>, entry: Entry<'_>, sound: bool) {
    if sound {
        pairs.push((entry.key.to_vec(), entry.value.to_vec(), entry.is_bucket));
    }
}

fn step_through(
    bucket: &Bucket,
    step: for<'c> fn(&'c mut Cursor) -> Result<Option<Entry<'c>>, Error>,
    visit: &mut dyn FnMut(Entry<'_>),
) -> Result<(), Error> {
    let mut cursor = bucket.cursor();
    while let Some(entry) = step(&mut cursor)? {
        visit(entry);
    }
    Ok(())
}

fn scan(bucket: &Bucket, direction: Direction, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Error> {
    let mut reader = SpanReader::new(bucket.file());
    for span in bucket.spans(KeyRange::default())? {
        let _ = reader.leaves(&span, direction, &mut |leaf| {
            for index in 0..leaf.len() {
                if let Some(entry) = leaf.get(index).map_err(Error::from)? {
                    visit(entry);
                }
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
    }
    Ok(())
}

fn seek_each(bucket: &Bucket, pairs: &[Pair]) {
    let mut cursor = bucket.cursor();
    for (key, value, _) in pairs {
        let entry = cursor.seek(key).unwrap().unwrap();
        assert_eq!((entry.key, entry.value), (&key[..], &value[..]));
    }
}
