//! Does everything that can be done with a file, whatever its bytes. It must end, and never panic.
//!
//! Shared by the damage test, the short fuzz run and the fuzz targets. Beyond not panicking, it holds:
//! - what a check calls sound reads the same in both directions, in order, and is found by key;
//! - a scan of a sound bucket shows the entries of its cursor.

use std::ops::ControlFlow;
use std::sync::Arc;

use bolt_file::check::Report;
use bolt_file::scan::{Direction, KeyRange, SpanReader};
use bolt_file::{BoltFile, Bucket, Error, check};

/// Buckets of each level that are walked, for many may lead to the same pages.
const BUCKETS: usize = 16;
/// Levels of buckets in buckets that are walked.
const LEVELS: usize = 3;

/// Holds that two threads find a file sound if one does.
pub(crate) fn agree(bytes: Vec<u8>) {
    let Ok(file) = BoltFile::open(Arc::new(bytes)) else { return };
    let [alone, together] = [1, 2].map(|threads| check(&file, threads).unwrap().is_sound());
    assert_eq!(alone, together);
}

type Pairs = Vec<(Vec<u8>, Vec<u8>, bool)>;

/// What a check says of `bytes`, if they can be opened.
pub(crate) fn exercise(bytes: Vec<u8>) -> Option<Report> {
    let file = BoltFile::open(Arc::new(bytes)).ok()?;
    let report = check(&file, 1).unwrap_or_else(|error| panic!("memory can be read, and does not change: {error}"));
    let _ = bolt_file::freelist::read(&file);
    let _ = file.bucket_names();
    walk(&file.root(), LEVELS, report.is_sound());
    Some(report)
}

fn walk(bucket: &Bucket, levels: usize, sound: bool) {
    let forwards = forwards(bucket);
    let backwards = backwards(bucket);
    let scanned = [Direction::Forwards, Direction::Backwards].map(|direction| scan(bucket, direction));
    let found = bucket.get(b"k");
    if sound {
        let (forwards, mut backwards) = (forwards.as_ref().unwrap(), backwards.unwrap());
        backwards.reverse();
        assert!(forwards.is_sorted_by(|a, b| a.0 < b.0), "keys ascend");
        assert_eq!(*forwards, backwards);
        for scanned in scanned {
            assert_eq!(scanned.unwrap(), *forwards);
        }
        found.unwrap();
        seek_each(bucket, forwards);
    }
    if levels > 0 {
        for (name, ..) in forwards.unwrap_or_default().iter().filter(|(.., is_bucket)| *is_bucket).take(BUCKETS) {
            match bucket.bucket(name) {
                Ok(Some(inner)) => walk(&inner, levels - 1, sound),
                Ok(None) | Err(_) => assert!(!sound, "a bucket that is there is found"),
            }
        }
    }
}

fn forwards(bucket: &Bucket) -> Result<Pairs, Error> {
    let mut cursor = bucket.cursor();
    let mut pairs = Pairs::new();
    while let Some(entry) = cursor.next()? {
        pairs.push((entry.key.to_vec(), entry.value.to_vec(), entry.is_bucket));
    }
    Ok(pairs)
}

fn backwards(bucket: &Bucket) -> Result<Pairs, Error> {
    let mut cursor = bucket.cursor();
    let mut pairs = Pairs::new();
    while let Some(entry) = cursor.previous()? {
        pairs.push((entry.key.to_vec(), entry.value.to_vec(), entry.is_bucket));
    }
    Ok(pairs)
}

/// What a scan shows, in key order.
fn scan(bucket: &Bucket, direction: Direction) -> Result<Pairs, Error> {
    let mut reader = SpanReader::new(bucket.file());
    let mut leaves = Vec::new();
    let mut spans = bucket.spans(KeyRange::default())?;
    if direction == Direction::Backwards {
        spans.reverse();
    }
    for span in &spans {
        let _ = reader.leaves(span, direction, &mut |leaf| {
            let mut pairs = Pairs::new();
            for index in 0..leaf.len() {
                let entry = leaf.get(index).map_err(Error::from)?;
                pairs.extend(entry.map(|entry| (entry.key.to_vec(), entry.value.to_vec(), entry.is_bucket)));
            }
            leaves.push(pairs);
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
    }
    if direction == Direction::Backwards {
        leaves.reverse();
    }
    Ok(leaves.concat())
}

fn seek_each(bucket: &Bucket, pairs: &Pairs) {
    let mut cursor = bucket.cursor();
    for (key, value, _) in pairs {
        let entry = cursor.seek(key).unwrap().unwrap();
        assert_eq!((entry.key, entry.value), (&key[..], &value[..]));
    }
}
