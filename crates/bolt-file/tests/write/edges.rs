//! The edges of the bulk writer: sizes at which pages end, levels begin and buckets move inside their parent.
//! Every file is read back by the strict reader.

use std::io;

use bolt_file::sink::Sink;
use bolt_file::write::{Builder, MAX_VALUE_SIZE, Options, WriteError};

use crate::strict::{self, Pairs, Tree};

/// The only bucket of a file of `page_size` pages that was built from `pairs`.
fn built(page_size: u32, pairs: &Pairs) -> Tree {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options { page_size, ..Options::default() }).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    for (key, value) in pairs {
        bucket.push(key, value).unwrap();
    }
    bucket.finish().unwrap();
    let built = builder.finish().unwrap();
    assert_eq!(built.size_bytes, file.len() as u64);
    let tree = strict::read(&file).buckets.remove(b"key".as_slice()).unwrap();
    assert!(tree.pairs == *pairs, "{} entries came back, not the {} put in", tree.pairs.len(), pairs.len());
    tree
}

/// `count` entries with keys of `key_len` bytes and values of `value_len`.
fn pairs(count: usize, key_len: usize, value_len: usize) -> Pairs {
    let key = |n: usize| format!("{n:08}").bytes().chain(std::iter::repeat(b'k')).take(key_len).collect();
    (0..count).map(|n| (key(n), vec![n as u8; value_len])).collect()
}

#[test]
fn a_file_without_buckets_is_a_file() {
    let mut file = Vec::new();
    let built = Builder::create(&mut file, Options::default()).unwrap().finish().unwrap();
    assert_eq!((built.pages, built.size_bytes), (4, 4 * 4096));
    assert!(strict::read(&file).buckets.is_empty());
}

#[test]
fn buckets_come_in_any_order_and_stand_in_theirs() {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options::default()).unwrap();
    for name in ["meta", "alarm", "key", "members"] {
        let mut bucket = builder.bucket(name.as_bytes()).unwrap();
        for (key, value) in pairs(name.len() * 20, 10, 100) {
            bucket.push(&key, &value).unwrap();
        }
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
    let buckets = strict::read(&file).pairs();
    let found: Vec<_> = buckets.iter().map(|(name, pairs)| (name.as_slice(), pairs.len())).collect();
    assert_eq!(found, [(&b"alarm"[..], 100), (b"key", 60), (b"members", 140), (b"meta", 80)]);
}

#[test]
fn so_many_buckets_that_the_root_has_branches() {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options { page_size: 1024, ..Options::default() }).unwrap();
    for n in 0..2000 {
        let mut bucket = builder.bucket(format!("bucket {n}").as_bytes()).unwrap();
        bucket.push(b"number", n.to_string().as_bytes()).unwrap();
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
    let buckets = strict::read(&file).pairs();
    assert_eq!(buckets.len(), 2000);
    assert_eq!(buckets[b"bucket 1234".as_slice()], [(b"number".to_vec(), b"1234".to_vec())]);
}

#[test]
fn a_bucket_moves_out_of_its_parent_past_a_quarter_of_a_page() {
    assert_eq!(built(4096, &pairs(0, 0, 0)).depth, 0, "empty");
    assert_eq!(built(4096, &pairs(1, 8, 0)).depth, 0, "one key without a value");
    // Header 16, element 16, key 8: the value fills the quarter exactly, or by one byte too many.
    assert_eq!(built(4096, &pairs(1, 8, 1024 - 40)).depth, 0);
    assert_eq!(built(4096, &pairs(1, 8, 1024 - 39)).depth, 1);
    assert_eq!(built(4096, &pairs(4, 8, 252 - 24)).depth, 0);
    assert_eq!(built(4096, &pairs(4, 8, 252 - 23)).depth, 1);
}

#[test]
fn a_leaf_ends_where_bbolt_ends_it() {
    // 64 bytes per entry: nine tenths of a page, 3686 bytes, hold the header and 57.
    let leaves = |count| built(4096, &pairs(count, 8, 40)).leaves;
    assert_eq!(leaves(57), [57]);
    // What fits on one page stays on one: 63 entries have 4048 bytes. 64 would have 4112.
    assert_eq!(leaves(58), [58]);
    assert_eq!(leaves(63), [63]);
    assert_eq!(leaves(64), [57, 7]);
    assert_eq!(leaves(57 * 3), [57, 57, 57]);
    assert_eq!(leaves(57 * 3 + 1), [57, 57, 58]);
}

#[test]
fn a_page_may_be_filled_to_its_last_byte() {
    // Two entries end a page whatever their size: 16 + 2 * (16 + 8 + 2016) = 4096.
    assert_eq!(built(4096, &pairs(8, 8, 2016)).leaves, [2, 2, 4]);
    assert_eq!(built(4096, &pairs(9, 8, 2016)).leaves, [2, 2, 2, 3]);
}

#[test]
fn entries_larger_than_a_page_go_in_twos() {
    assert_eq!(built(4096, &pairs(1, 8, 5000)).leaves, [1]);
    assert_eq!(built(4096, &pairs(4, 8, 5000)).leaves, [4]);
    assert_eq!(built(4096, &pairs(5, 8, 5000)).leaves, [2, 3]);
}

#[test]
fn large_entries_get_leaves_of_their_own() {
    let mut entries = pairs(40, 8, 600);
    for large in [0, 1, 17, 39] {
        entries[large].1 = vec![b'x'; 16 * 4096];
    }
    let tree = built(4096, &entries);
    assert_eq!(tree.leaves[..3], [1, 1, 5]);
    assert_eq!(tree.leaves.last(), Some(&1));
    assert_eq!(built(4096, &pairs(1, 8, 100_000)).leaves, [1], "the only entry");
    assert_eq!(built(4096, &pairs(3, 8, 100_000)).leaves, [1, 1, 1]);
}

#[test]
fn a_value_of_more_than_100_mib() {
    let value: Vec<u8> = (0..(100 << 20) + 12_345_usize).map(|n| (n % 251) as u8).collect();
    let entries = vec![(b"a".to_vec(), vec![1; 9]), (b"b".to_vec(), value), (b"c".to_vec(), vec![2; 9])];
    let tree = built(4096, &entries);
    assert_eq!((tree.depth, tree.leaves, tree.branches), (2, vec![1, 1, 1], vec![3]));
}

#[test]
fn the_longest_keys_make_branches_of_many_pages() {
    for count in [1, 2, 3, 4, 5, 6, 7, 20, 50] {
        for page_size in [1024, 4096, 65536] {
            built(page_size, &pairs(count, 32768, 3));
        }
    }
}

#[test]
fn every_number_of_entries_up_to_five_levels() {
    // Two to four entries fill a leaf, two to six children a branch, so every few entries end a level differently.
    for (key_len, counts, depth) in [(500, 150, 5), (400, 150, 5), (250, 150, 4), (130, 400, 4)] {
        let mut depths = [0; 9];
        for count in 0..counts {
            depths[built(1024, &pairs(count, key_len, 100)).depth] += 1;
        }
        assert!(depths[depth] > 0, "depths {depths:?} for keys of {key_len} bytes");
    }
}

#[test]
fn branches_hold_what_they_can_and_never_less_than_two() {
    // Four children of 16 + 200 bytes fill nine tenths of 1024.
    let tree = built(1024, &pairs(2000, 200, 100));
    let full = tree.branches.iter().filter(|&&len| len == 4).count();
    assert!(full * 10 > tree.branches.len() * 9, "{:?}", tree.branches);
}

#[test]
fn any_page_size_that_bbolt_knows() {
    for shift in 10..=24 {
        built(1 << shift, &pairs(300, 20, 500));
    }
}

#[test]
fn a_page_never_holds_more_elements_than_its_count_can_say() {
    let tree = built(16 << 20, &pairs(200_000, 8, 0));
    assert_eq!(tree.leaves, [65534, 65534, 65534, 3398]);
}

#[test]
fn transactions_stand_on_the_page_of_their_parity() {
    for txid in [2, 4, 1 << 40] {
        let mut file = Vec::new();
        let options = Options { txid, ..Options::default() };
        Builder::create(&mut file, options).unwrap().finish().unwrap();
        assert_eq!(strict::read(&file).txids, [txid, txid - 1]);
    }
    for txid in [0, 1, 7] {
        let refused = Builder::create(Vec::new(), Options { txid, ..Options::default() });
        assert!(matches!(refused, Err(WriteError::Transaction { .. })));
    }
}

#[test]
fn page_sizes_that_no_file_has_are_refused() {
    for page_size in [0, 512, 4095, 5000, 32 << 20] {
        let refused = Builder::create(Vec::new(), Options { page_size, ..Options::default() });
        assert!(matches!(refused, Err(WriteError::PageSize { .. })));
    }
}

#[test]
fn entries_that_bbolt_would_not_take_are_refused_and_leave_no_trace() {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options::default()).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    bucket.push(b"b", b"1").unwrap();
    // Pages of zeros that nobody touches: the system gives them only when they are.
    let huge = vec![0; MAX_VALUE_SIZE as usize + 1];
    assert!(matches!(bucket.push(b"c", &huge), Err(WriteError::ValueLength { entry: 1, len: 0x7FFF_FFFF })));
    assert!(matches!(bucket.push(b"", b""), Err(WriteError::KeyLength { entry: 1, len: 0 })));
    assert!(matches!(bucket.push(&[b'c'; 32769], b""), Err(WriteError::KeyLength { entry: 1, len: 32769 })));
    assert!(matches!(bucket.push(b"b", b"2"), Err(WriteError::Order { entry: 1 })));
    assert!(matches!(bucket.push(b"a", b"2"), Err(WriteError::Order { entry: 1 })));
    bucket.push(b"bb", b"2").unwrap();
    bucket.finish().unwrap();
    builder.finish().unwrap();
    let pairs = strict::read(&file).pairs();
    assert_eq!(pairs[b"key".as_slice()], [(b"b".to_vec(), b"1".to_vec()), (b"bb".to_vec(), b"2".to_vec())]);
}

#[test]
fn bucket_names_are_keys_and_come_once() {
    let mut builder = Builder::create(Vec::new(), Options::default()).unwrap();
    assert!(matches!(builder.bucket(b"").err(), Some(WriteError::BucketName { len: 0 })));
    assert!(matches!(builder.bucket(&[b'n'; 32769]).err(), Some(WriteError::BucketName { len: 32769 })));
    builder.bucket(b"key").unwrap().finish().unwrap();
    assert!(matches!(builder.bucket(b"key").err(), Some(WriteError::BucketTwice { name }) if name == b"key"));
}

#[test]
fn a_file_with_an_unfinished_bucket_is_not_finished() {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options::default()).unwrap();
    builder.bucket(b"meta").unwrap().finish().unwrap();
    drop(builder.bucket(b"key").unwrap());
    assert!(matches!(builder.finish(), Err(WriteError::BucketUnfinished { name }) if name == b"key"));
    assert!(!strict::has_meta(&file, 4096));
}

/// A disk with room for so many bytes.
struct FullDisk {
    bytes: Vec<u8>,
    room: usize,
    syncs: usize,
}

impl Sink for FullDisk {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs = self.syncs.checked_sub(1).ok_or_else(|| io::Error::other("the disk is gone"))?;
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_is_finished_on_it() {
    let mut disk = FullDisk { bytes: Vec::new(), room: 50_000, syncs: 9 };
    let mut builder = Builder::create(&mut disk, Options::default()).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    let refused = pairs(1000, 8, 100).iter().find_map(|(key, value)| bucket.push(key, value).err()).unwrap();
    let WriteError::Io { doing: "writing a page", source } = refused else { panic!("{refused}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    assert!(matches!(bucket.finish(), Err(WriteError::Failed)));
    assert!(builder.finish().is_err());
    assert!(!strict::has_meta(&disk.bytes, 4096));
}

#[test]
fn a_sync_that_fails_is_told() {
    for (syncs, step) in [(0, "syncing the pages"), (1, "syncing the meta pages")] {
        let mut disk = FullDisk { bytes: Vec::new(), room: usize::MAX, syncs };
        let builder = Builder::create(&mut disk, Options::default()).unwrap();
        assert!(matches!(builder.finish(), Err(WriteError::Io { doing, .. }) if doing == step));
        assert_eq!(strict::has_meta(&disk.bytes, 4096), syncs == 1);
    }
}
