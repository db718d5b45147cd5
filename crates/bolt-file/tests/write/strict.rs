//! A second reader, for the tests: slow, plain, sharing nothing with the crate, and panicking at whatever a file
//! that was built from nothing must not have.
//!
//! It holds a file to: both metas valid, equal but for the transaction; no byte past the high-water mark; every
//! page reached exactly once; ids, kinds and overflow right; elements packed, padding zero; keys ascending through
//! the whole bucket; at least two children per branch, each under exactly its first key; all leaves equally deep;
//! no empty leaf but a lone root; buckets inline exactly when bbolt would have them so.

use std::collections::BTreeMap;

pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What a file holds.
pub(crate) struct Contents {
    pub(crate) txids: [u64; 2],
    pub(crate) buckets: BTreeMap<Vec<u8>, Tree>,
}

/// One bucket, and the shape of its tree.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) pairs: Pairs,
    /// Levels of pages, 0 for an inline bucket.
    pub(crate) depth: usize,
    /// Elements on each leaf, left to right.
    pub(crate) leaves: Vec<usize>,
    /// Elements on each branch, in no order.
    pub(crate) branches: Vec<usize>,
    bucket_flags: Vec<bool>,
}

impl Contents {
    pub(crate) fn pairs(self) -> BTreeMap<Vec<u8>, Pairs> {
        self.buckets.into_iter().map(|(name, tree)| (name, tree.pairs)).collect()
    }
}

/// Whether at least one meta page is valid.
pub(crate) fn has_meta(file: &[u8], page_size: usize) -> bool {
    (0..2).any(|page| file.len() >= (page + 1) * page_size && meta_is_valid(&file[page * page_size..]))
}

/// Reads all of `file`.
pub(crate) fn read(file: &[u8]) -> Contents {
    let page_size = u32_at(file, 24) as usize;
    assert!(meta_is_valid(file), "meta 0");
    assert!(meta_is_valid(&file[page_size..]), "meta 1");
    let txids = [u64_at(file, 64), u64_at(file, page_size + 64)];
    assert_eq!(txids[0] % 2, 0, "the even transaction belongs to page 0");
    assert_eq!(txids[0], txids[1] + 1);
    assert_eq!(file[16..64], file[page_size + 16..page_size + 64], "the metas differ");
    for page in 0..2 {
        let meta = &file[page * page_size..(page + 1) * page_size];
        assert_eq!(header(meta), (page as u64, 4, 0, 0));
        assert_eq!(u32_at(meta, 28), 0, "meta flags");
        assert_eq!(u64_at(meta, 40), 0, "root sequence");
        assert!(meta[80..].iter().all(|&byte| byte == 0), "bytes after meta {page}");
    }
    let pages = u64_at(file, 56) as usize;
    assert_eq!(file.len(), pages * page_size, "the file does not end at its high-water mark");

    let mut walk = Walk { file, page_size, seen: vec![false; pages] };
    walk.claim(0, 0);
    walk.claim(1, 0);
    walk.freelist(u64_at(file, 48));
    let root = walk.tree(u64_at(file, 32));
    assert!(root.bucket_flags.iter().all(|&is_bucket| is_bucket), "a key beside the buckets");
    let buckets = root.pairs.into_iter().map(|(name, value)| (name, walk.bucket(&value))).collect();
    let lost: Vec<_> = (0..pages).filter(|&page| !walk.seen[page]).collect();
    assert!(lost.is_empty(), "pages {lost:?} are neither reached nor free");
    Contents { txids, buckets }
}

struct Walk<'a> {
    file: &'a [u8],
    page_size: usize,
    seen: Vec<bool>,
}

impl Walk<'_> {
    fn claim(&mut self, page: u64, overflow: u32) {
        for page in page..=page + u64::from(overflow) {
            assert!(!std::mem::replace(&mut self.seen[page as usize], true), "page {page} is used twice");
        }
    }

    fn freelist(&mut self, page: u64) {
        let bytes = &self.file[page as usize * self.page_size..][..self.page_size];
        assert_eq!(header(bytes), (page, 0x10, 0, 0), "the free list is not empty");
        assert!(bytes[16..].iter().all(|&byte| byte == 0));
        self.claim(page, 0);
    }

    fn bucket(&mut self, value: &[u8]) -> Tree {
        assert_eq!(u64_at(value, 8), 0, "sequence");
        let root = u64_at(value, 0);
        let mut tree = Tree::default();
        if root == 0 {
            let leaf = &value[16..];
            let (id, flags, count, overflow) = header(leaf);
            assert_eq!((id, flags, overflow), (0, 2, 0), "inline page header");
            assert!(leaf.len() <= self.page_size / 4, "inline bucket of {} bytes", leaf.len());
            assert_eq!(leaf_elements(leaf, count, &mut tree), leaf.len(), "inline bucket has bytes to spare");
        } else {
            assert_eq!(value.len(), 16);
            tree = self.tree(root);
            let size = 16 + tree.pairs.iter().map(|(key, value)| 16 + key.len() + value.len()).sum::<usize>();
            assert!(tree.depth > 1 || size > self.page_size / 4, "{size} bytes should be inline");
        }
        assert!(tree.bucket_flags.iter().all(|&is_bucket| !is_bucket));
        tree
    }

    fn tree(&mut self, root: u64) -> Tree {
        let mut tree = Tree::default();
        self.node(root, 1, &mut tree);
        assert!(tree.depth == 1 || tree.leaves.iter().all(|&len| len > 0), "an empty leaf that is no root");
        assert!(tree.pairs.is_sorted_by(|a, b| a.0 < b.0), "keys are not in order");
        tree
    }

    /// Reads the subtree at `page` and returns its first key.
    fn node(&mut self, page: u64, depth: usize, tree: &mut Tree) -> Vec<u8> {
        let bytes = &self.file[page as usize * self.page_size..];
        let (id, flags, count, overflow) = header(bytes);
        assert_eq!(id, page, "page id");
        self.claim(page, overflow);
        let run = &bytes[..(overflow as usize + 1) * self.page_size];
        let first_pair = tree.pairs.len();
        let used = match flags {
            1 => self.branch(run, count, depth, tree),
            2 => {
                assert!(tree.depth == 0 || tree.depth == depth, "leaves at depth {} and {depth}", tree.depth);
                tree.depth = depth;
                leaf_elements(run, count, tree)
            }
            _ => panic!("page {page} has flags {flags}"),
        };
        assert_eq!(used.div_ceil(self.page_size), overflow as usize + 1, "page {page} uses {used} bytes");
        assert!(run[used..].iter().all(|&byte| byte == 0), "padding of page {page}");
        tree.pairs.get(first_pair).map(|(key, _)| key.clone()).unwrap_or_default()
    }

    fn branch(&mut self, page: &[u8], count: u16, depth: usize, tree: &mut Tree) -> usize {
        assert!(count >= 2, "a branch with {count} children");
        tree.branches.push(usize::from(count));
        let mut at = 16 + 16 * usize::from(count);
        for element in (16..).step_by(16).take(usize::from(count)) {
            let (pos, key_len, child) =
                (u32_at(page, element) as usize, u32_at(page, element + 4) as usize, u64_at(page, element + 8));
            assert_eq!(element + pos, at, "branch keys are not packed");
            assert_eq!(self.node(child, depth + 1, tree), page[at..at + key_len], "separator is not the first key");
            at += key_len;
        }
        at
    }
}

/// Reads the elements of a leaf and returns where they end.
fn leaf_elements(page: &[u8], count: u16, tree: &mut Tree) -> usize {
    let mut at = 16 + 16 * usize::from(count);
    for element in (16..).step_by(16).take(usize::from(count)) {
        let flags = u32_at(page, element);
        let [pos, key_len, value_len] = [4, 8, 12].map(|field| u32_at(page, element + field) as usize);
        assert!(flags <= 1);
        assert_eq!(element + pos, at, "leaf elements are not packed");
        assert!((1..=32768).contains(&key_len), "a key of {key_len} bytes");
        let value = at + key_len;
        tree.pairs.push((page[at..value].to_vec(), page[value..value + value_len].to_vec()));
        tree.bucket_flags.push(flags == 1);
        at = value + value_len;
    }
    tree.leaves.push(usize::from(count));
    at
}

fn meta_is_valid(page: &[u8]) -> bool {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in &page[16..72] {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    u32_at(page, 16) == 0xED0C_DAED && u32_at(page, 20) == 2 && u64_at(page, 72) == hash
}

/// Id, flags, count and overflow.
fn header(page: &[u8]) -> (u64, u16, u16, u32) {
    let u16_at = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    (u64_at(page, 0), u16_at(8), u16_at(10), u32_at(page, 12))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
