//! Databases that real servers wrote are sound.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::File;
use std::sync::Arc;

use bolt_file::check::{Witness, check_before};
use bolt_file::page::Leaf;
use bolt_file::{BoltFile, check};
use testkit::fixtures;

/// The database of a data directory, which stays open when its name is gone.
fn database(name: &str) -> BoltFile {
    let folder = fixtures::data_dir(name);
    let storage = File::open(folder.path().join("member/snap/db")).unwrap();
    BoltFile::open(Arc::new(storage)).unwrap()
}

#[test]
fn what_real_servers_wrote_has_no_findings() {
    for name in fixtures::DATA_DIRS {
        let file = database(name);
        for threads in [1, 2] {
            let report = check(&file, threads).unwrap();
            assert_eq!((report.findings, report.further), (vec![], 0), "{name}");
            assert_eq!(report.statistics.buckets, 10, "{name}");
        }
    }
}

/// Notes every pair, with the bucket that it is in.
struct Noting;

type Pair = (Vec<u8>, Vec<u8>, Vec<u8>);

impl Witness for Noting {
    type Seen = Vec<Pair>;

    fn leaf(&self, bucket: Option<&[u8]>, leaf: &Leaf<'_>, seen: &mut Vec<Pair>) {
        let Some(bucket) = bucket else { return };
        for entry in (0..leaf.len()).map(|index| leaf.get(index).unwrap().unwrap()) {
            seen.push((bucket.to_vec(), entry.key.to_vec(), entry.value.to_vec()));
        }
    }
}

#[test]
fn a_witness_sees_every_pair_of_every_bucket_once_and_in_order() {
    for name in fixtures::DATA_DIRS {
        let file = database(name);
        let mut expected = Vec::new();
        let mut buckets = file.root().cursor();
        let mut found = buckets.first().unwrap().map(|entry| entry.key.to_vec());
        while let Some(bucket) = found {
            let mut pairs = file.bucket(&bucket).unwrap().unwrap().cursor();
            let mut pair = pairs.first().unwrap();
            while let Some(entry) = pair {
                expected.push((bucket.clone(), entry.key.to_vec(), entry.value.to_vec()));
                pair = pairs.next().unwrap();
            }
            found = buckets.next().unwrap().map(|entry| entry.key.to_vec());
        }
        for threads in [1, 2] {
            let mut seen = Vec::new();
            assert!(check_before(&file, threads, &Noting, |part| seen.extend(part)).unwrap().is_sound());
            // Inline buckets are seen with the leaf that they are on, before those that have pages.
            seen.sort_by(|(one, ..), (other, ..)| one.cmp(other));
            assert!(seen == expected, "{name}");
        }
    }
}
