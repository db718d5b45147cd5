//! Random buckets go in and come out the same, by the strict reader and by the crate's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::write::{Builder, Options};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::strict::{self, Pairs};

pub(crate) type Buckets = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

pub(crate) fn build(page_size: u32, buckets: &Buckets) -> Vec<u8> {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options { page_size, ..Options::default() }).unwrap();
    // Against their order, which must not matter.
    for (name, pairs) in buckets.iter().rev() {
        let mut bucket = builder.bucket(name).unwrap();
        for (key, value) in pairs {
            bucket.push(key, value).unwrap();
        }
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
    file
}

fn read_with_cursors(file: Vec<u8>) -> BTreeMap<Vec<u8>, Pairs> {
    let file = BoltFile::open(Arc::new(file)).unwrap();
    let names = file.bucket_names().unwrap();
    names.into_iter().map(|name| (name.clone(), bucket_pairs(&file, &name))).collect()
}

fn bucket_pairs(file: &BoltFile, name: &[u8]) -> Pairs {
    let mut cursor = file.bucket(name).unwrap().unwrap().cursor();
    let mut pairs = Pairs::new();
    while let Some(entry) = cursor.next().unwrap() {
        pairs.push((entry.key.to_vec(), entry.value.to_vec()));
    }
    pairs
}

/// Mostly short, now and then long enough for pages of its own.
fn bytes(least: usize, long: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => vec(any::<u8>(), least..40),
        4 => vec(any::<u8>(), least..700),
        1 => (any::<u8>(), least..long).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

pub(crate) fn buckets() -> impl Strategy<Value = Buckets> {
    let pairs = prop_oneof![
        btree_map(bytes(1, 32768), bytes(0, 100_000), 0..8),
        btree_map(bytes(1, 2000), bytes(0, 20_000), 0..400),
    ];
    btree_map(bytes(1, 3000), pairs, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_in_comes_out(page_shift in 10u32..15, buckets in buckets()) {
        let file = build(1 << page_shift, &buckets);
        let expected: BTreeMap<Vec<u8>, Pairs> =
            buckets.into_iter().map(|(name, pairs)| (name, pairs.into_iter().collect())).collect();
        prop_assert!(strict::read(&file).pairs() == expected);
        prop_assert!(read_with_cursors(file) == expected);
    }

    #[test]
    fn entries_out_of_order_are_refused_and_the_others_come_out(keys in vec(bytes(1, 3000), 0..300)) {
        let mut file = Vec::new();
        let mut builder = Builder::create(&mut file, Options { page_size: 1024, ..Options::default() }).unwrap();
        let mut bucket = builder.bucket(b"key").unwrap();
        let mut taken = BTreeSet::new();
        for key in keys {
            let follows = taken.last().is_none_or(|last| *last < key);
            prop_assert_eq!(bucket.push(&key, b"value").is_ok(), follows);
            taken.extend(follows.then_some(key));
        }
        bucket.finish().unwrap();
        builder.finish().unwrap();
        let pairs = strict::read(&file).pairs().remove(b"key".as_slice()).unwrap();
        prop_assert!(pairs.into_iter().map(|(key, _)| key).eq(taken));
    }
}
