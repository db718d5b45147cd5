//! Files that somebody made to hurt: everything ends, having read no more than a few times what there is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod exercise;
mod hand;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bolt_file::check::{Problem, Report};
use bolt_file::{BoltFile, Storage, check};
use exercise::{agree, exercise};
use hand::{Hand, bucket, header, inline, meta, pair, sample};

/// Memory that counts the bytes read.
struct Counting(Vec<u8>, AtomicU64);

impl Storage for Counting {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(buf, offset)
    }
}

/// Everything ends; what a check found, which is something, and for which it did not read the file often.
#[track_caller]
fn survives(bytes: Vec<u8>) -> Report {
    exercise(bytes.clone());
    agree(bytes.clone());
    let size = bytes.len() as u64;
    let storage = Arc::new(Counting(bytes, AtomicU64::new(0)));
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    let report = check(&file, 2).unwrap();
    assert!(!report.is_sound());
    let read = storage.1.load(Ordering::Relaxed);
    assert!(read < 6 * size + 10_000, "{read} bytes read of {size}");
    report
}

fn has(report: &Report, wanted: impl Fn(&Problem) -> bool) -> bool {
    report.findings.iter().any(|finding| wanted(&finding.problem))
}

/// A file with one bucket, whose tree begins at `root`.
fn with_bucket(mut file: Hand, root: u64) -> Vec<u8> {
    let top = file.leaf(&[bucket("key", root)]);
    file.finish(top, None)
}

#[test]
fn a_branch_that_is_its_own_child_ends() {
    let mut file = Hand::new(1024);
    let own = file.next();
    file.branch(&[(b"a", own), (b"b", own)]);
    let report = survives(with_bucket(file, own));
    assert!(has(&report, |problem| matches!(problem, Problem::UsedTwice { .. })));
}

#[test]
fn a_root_that_is_in_its_own_bucket_ends() {
    let mut file = Hand::new(1024);
    let own = file.next();
    file.leaf(&[bucket("key", own)]);
    survives(file.finish(own, None));
}

/// Two ways down at each of 50 levels: 2^50 paths.
#[test]
fn a_tree_of_exponentially_many_paths_ends() {
    let mut file = Hand::new(1024);
    let mut below = file.leaf(&[pair("a", "1"), pair("b", "2")]);
    for _ in 0..50 {
        below = file.branch(&[(b"a", below), (b"b", below)]);
    }
    survives(with_bucket(file, below));

    let mut file = Hand::new(1024);
    let mut below = file.leaf(&[]);
    for _ in 0..50 {
        below = file.branch(&[(b"a", below), (b"b", below)]);
    }
    survives(with_bucket(file, below));
}

#[test]
fn depth_is_bounded() {
    let too_deep = |report: &Report| has(report, |problem| problem.to_string().contains("deeper than"));
    let mut file = Hand::new(1024);
    let mut below = file.leaf(&[pair("a", "1")]);
    for _ in 0..1000 {
        below = file.branch(&[(b"a", below)]);
    }
    assert!(too_deep(&survives(with_bucket(file, below))));

    let mut file = Hand::new(1024);
    let mut below = file.leaf(&[pair("a", "1")]);
    for _ in 0..1000 {
        below = file.leaf(&[bucket("a", below)]);
    }
    assert!(too_deep(&survives(with_bucket(file, below))));

    let mut file = Hand::new(1024);
    let mut inside = inline("a", vec![pair("a", "1")]);
    for _ in 0..100 {
        inside = inline("a", vec![inside]);
    }
    let root = file.leaf(&[inside]);
    assert!(too_deep(&survives(file.finish(root, None))));
}

#[test]
fn counts_and_overflows_are_not_believed() {
    for kind in [1, 2, 16] {
        for (count, overflow) in [(0xffff, 0), (2, 0xffff_ffff), (0xffff, 0xffff_ffff), (2, 0x7fff_ffff), (0xffff, 1)] {
            let mut file = Hand::new(1024);
            let page = file.push(header(2, kind, count, overflow));
            survives(with_bucket(file, page));

            let mut file = Hand::new(1024);
            let list = file.push(header(2, kind, count, overflow));
            let root = file.leaf(&[]);
            // A free list of 0xffff pages has its count in front of them, which is 0 here.
            exercise(file.finish(root, Some(list)));
        }
    }
}

#[test]
fn numbers_of_metas_are_not_believed() {
    let odd = [0, 1, 2, 17, 18, 1 << 32, 1 << 54, 1 << 60, 1 << 63, u64::MAX - 1, u64::MAX];
    let (sound, _) = sample();
    for root in odd {
        for freelist in odd {
            for high_water in odd {
                let mut file = sound.clone();
                file[..80].copy_from_slice(&meta(0, 1024, [root, 0, freelist, high_water, u64::MAX]));
                exercise(file).unwrap();
            }
        }
    }
    for page_size in (0..32).map(|shift| 1 << shift).chain([0, 3, 1000, 4097, u32::MAX]) {
        let mut file = sound.clone();
        file[..80].copy_from_slice(&meta(0, page_size, [17, 0, 2, 18, 8]));
        exercise(file);
    }
}

/// Elements that all claim the whole page: the work must not be their number times their size.
#[test]
fn overlapping_elements_are_not_looked_into() {
    for (kind, flags) in [(2, 0u32), (2, 1), (1, 0)] {
        let mut file = Hand::new(1024);
        let count = 0xfff0;
        let mut page = header(2, kind, count, 2047);
        for index in 0..count as u32 {
            let to_end = (count as u32 - index) * 16;
            let element = match kind {
                2 => [flags, to_end, 32_000, 900_000],
                _ => [to_end, 32_000, 3, 0],
            };
            page.extend(element.iter().flat_map(|word| word.to_le_bytes()));
        }
        page.resize(2 << 20, 0);
        file.push(page);
        let report = survives(with_bucket(file, 2));
        if kind == 2 {
            assert!(has(&report, |problem| matches!(problem, Problem::Misplaced { .. })));
        }
    }
}

/// Leaves that each claim all pages behind them as overflow, and branches that lead to all of them.
#[test]
fn overlapping_pages_are_read_once() {
    let mut file = Hand::new(1024);
    let leaves = 500;
    for index in 0..leaves {
        let page = file.next();
        file.push(header(page, 2, 0, leaves - index - 1));
    }
    let mut level: Vec<u64> = (2..2 + leaves as u64).rev().collect();
    while level.len() > 1 {
        level = level
            .chunks(20)
            .map(|children| {
                let children: Vec<(&[u8], u64)> = children.iter().map(|&child| (&b"a"[..], child)).collect();
                file.branch(&children)
            })
            .collect();
    }
    survives(with_bucket(file, level[0]));
}

#[test]
fn many_buckets_that_share_one_tree_are_walked_once() {
    let mut file = Hand::new(4096);
    let mut below = file.leaf(&[pair("a", vec![1; 100_000])]);
    for _ in 0..10 {
        below = file.branch(&[(b"a", below), (b"b", below)]);
    }
    let buckets: Vec<_> = (0..1000).map(|n| bucket(&format!("b{n:04}"), below)).collect();
    let root = file.leaf(&buckets);
    let report = survives(file.finish(root, None));
    assert!(has(&report, |problem| matches!(problem, Problem::UsedTwice { by } if by.len() == 8)));
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let mut file = Hand::new(1024);
    let pairs: Vec<_> = (0..5000).map(|_| pair("same", "")).collect();
    let root = file.leaf(&pairs);
    let report = survives(with_bucket(file, root));
    assert_eq!((report.findings.len(), report.further), (1000, 3999));
}

/// A file with a long hole at its end, which takes no room and says of itself what its first bytes say.
struct Sparse {
    bytes: Vec<u8>,
    size: u64,
    read: AtomicU64,
    largest: AtomicU64,
}

impl Storage for Sparse {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.largest.fetch_max(buf.len() as u64, Ordering::Relaxed);
        buf.fill(0);
        let there = self.bytes.get(offset as usize..).unwrap_or_default();
        let len = there.len().min(buf.len());
        buf[..len].copy_from_slice(&there[..len]);
        Ok(())
    }
}

/// The page `page` of `file` is made to claim all pages up to `pages`, which is the high-water mark then.
fn stretched(mut file: Vec<u8>, page: u64, root: u64, freelist: u64, pages: u64) -> Arc<Sparse> {
    let overflow = (pages - page - 1) as u32;
    file[page as usize * 1024 + 12..][..4].copy_from_slice(&overflow.to_le_bytes());
    for number in [0, 1] {
        let meta = meta(number, 1024, [root, 0, freelist, pages, 100 + number]);
        file[number as usize * 1024..][..meta.len()].copy_from_slice(&meta);
    }
    Arc::new(Sparse { bytes: file, size: pages * 1024, read: AtomicU64::new(0), largest: AtomicU64::new(0) })
}

#[test]
fn of_a_page_that_claims_a_hole_no_more_is_read_than_its_elements_take() {
    let pages = 6 << 20;
    let mut file = Hand::new(1024);
    let root = file.leaf(&[bucket("key", 3)]);
    let leaf = file.leaf(&[pair("a", vec![1; 3000]), pair("b", "2")]);
    let storage = stretched(file.finish(root, None), leaf, root, u64::MAX, pages);
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    let bucket = file.bucket(b"key").unwrap().unwrap();
    assert_eq!(bucket.get(b"b").unwrap().unwrap(), b"2");
    let report = check(&file, 2).unwrap();
    assert!(has(&report, |problem| matches!(problem, Problem::OverflowTooLong { .. })), "{:?}", report.findings);
    assert!(storage.read.load(Ordering::Relaxed) < 100_000, "{} bytes read", storage.read.load(Ordering::Relaxed));
}

#[test]
fn an_element_that_claims_a_hole_is_refused_and_takes_no_memory() {
    let mut file = Hand::new(1024);
    let root = file.leaf(&[bucket("key", 3)]);
    let leaf = file.leaf(&[pair("a", "1")]);
    let mut bytes = file.finish(root, None);
    bytes[leaf as usize * 1024 + 16 + 12..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let storage = stretched(bytes, leaf, root, u64::MAX, 6 << 20);
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    let error = file.bucket(b"key").unwrap().unwrap().get(b"a").unwrap_err();
    assert!(error.to_string().contains("larger than any value can be"), "{error}");
    let report = check(&file, 2).unwrap();
    assert!(has(&report, |problem| problem.to_string().contains("larger than any value can be")));
    assert!(storage.largest.load(Ordering::Relaxed) <= 4096);
}

#[test]
fn a_free_list_that_is_a_hole_is_read_little_by_little() {
    let (pages, ids) = (1 << 20, 10_000_000_u64);
    let mut file = Hand::new(1024);
    let root = file.leaf(&[]);
    let mut list = header(3, 16, 0xffff, 0);
    list.extend(ids.to_le_bytes());
    list.resize(1024, 0);
    let list = file.push(list);
    let storage = stretched(file.finish(root, Some(list)), list, root, list, pages);
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    let mut read = bolt_file::freelist::read(&file).unwrap().unwrap();
    assert!(read.all(|id| id.is_ok()));
    assert_eq!(bolt_file::freelist::read(&file).unwrap().unwrap().count() as u64, ids);
    assert!(storage.largest.load(Ordering::Relaxed) <= 64 << 10);
}
