//! Bolt files made by hand, page by page, so that they can be as wrong as a test needs. Shares no code with the crate.

#![allow(dead_code, reason = "each test uses its part")]

use std::ops::Range;

/// A file in the making. Page numbers are handed out in the order of the calls.
pub(crate) struct Hand {
    page_size: usize,
    bytes: Vec<u8>,
    /// Where the data of leaves is.
    pub(crate) data: Data,
}

/// Where keys, names of buckets, and values are that are no buckets.
#[derive(Clone, Default)]
pub(crate) struct Data {
    pub(crate) keys: Vec<Range<usize>>,
    pub(crate) values: Vec<Range<usize>>,
}

/// An element of a leaf.
pub(crate) enum Element {
    Pair(Vec<u8>, Vec<u8>),
    /// A bucket's name, and the page where its tree begins.
    Bucket(Vec<u8>, u64),
    /// A bucket's name, and what stands in its only leaf, which is in the value.
    Inline(Vec<u8>, Vec<Element>),
}

pub(crate) fn pair(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Element {
    Element::Pair(key.as_ref().to_vec(), value.as_ref().to_vec())
}

/// A bucket whose tree begins at page `root`.
pub(crate) fn bucket(name: &str, root: u64) -> Element {
    Element::Bucket(name.as_bytes().to_vec(), root)
}

/// A bucket whose only leaf stands in the value.
pub(crate) fn inline(name: &str, elements: Vec<Element>) -> Element {
    Element::Inline(name.as_bytes().to_vec(), elements)
}

/// The page size of [`sample`].
pub(crate) const SAMPLE_PAGE_SIZE: usize = 1024;

/// A file with all there is, and where its values are.
///
/// ```text
/// 2      free list: 3, 4
/// 17     root: inline bucket `inline`, bucket `key`, bucket `outer`
/// 14       `key`: branch
/// 12         branch: leaves 5 (k000 to k003) and 6 (k004 to k007, overflows to 9)
/// 13         branch: leaves 10 (k008 to k011) and 11 (k012 to k015)
/// 16       `outer`: leaf with bucket `nested`
/// 15         `nested`: leaf
/// ```
pub(crate) fn sample() -> (Vec<u8>, Data) {
    let key = |n: usize| format!("k{n:03}");
    let value = |n: usize| vec![b'a' + n as u8; 40 + n];
    let mut file = Hand::new(SAMPLE_PAGE_SIZE);
    file.freelist(&[3, 4]);
    file.blank();
    file.blank();
    let leaf = |file: &mut Hand, from: usize, large: usize| {
        let pairs = (from..from + 4).map(|n| pair(key(n), if n == large { vec![b'x'; 3000] } else { value(n) }));
        file.leaf(&pairs.collect::<Vec<_>>())
    };
    let leaves = [leaf(&mut file, 0, 99), leaf(&mut file, 4, 6), leaf(&mut file, 8, 99), leaf(&mut file, 12, 99)];
    let left = file.branch(&[(b"k000", leaves[0]), (b"k004", leaves[1])]);
    let right = file.branch(&[(b"k008", leaves[2]), (b"k012", leaves[3])]);
    let tree = file.branch(&[(b"k000", left), (b"k008", right)]);
    let nested = file.leaf(&[pair("n1", "one"), pair("n2", "two")]);
    let outer = file.leaf(&[bucket("nested", nested), pair("o", "value")]);
    let small = inline("inline", vec![pair("i1", "one"), pair("i2", "two")]);
    let root = file.leaf(&[small, bucket("key", tree), bucket("outer", outer)]);
    let data = file.data.clone();
    (file.finish(root, Some(2)), data)
}

impl Hand {
    pub(crate) fn new(page_size: usize) -> Self {
        Self { page_size, bytes: vec![0; 2 * page_size], data: Data::default() }
    }

    /// The page that comes next.
    pub(crate) fn next(&self) -> u64 {
        (self.bytes.len() / self.page_size) as u64
    }

    pub(crate) fn leaf(&mut self, elements: &[Element]) -> u64 {
        let (bytes, data) = leaf_bytes(self.next(), elements, self.page_size);
        self.data.add(&data, self.bytes.len());
        self.push(bytes)
    }

    pub(crate) fn branch(&mut self, children: &[(&[u8], u64)]) -> u64 {
        let mut table = Vec::new();
        let mut keys = Vec::new();
        for (index, (key, child)) in children.iter().enumerate() {
            let pos = (children.len() - index) * 16 + keys.len();
            table.extend((pos as u32).to_le_bytes());
            table.extend((key.len() as u32).to_le_bytes());
            table.extend(child.to_le_bytes());
            keys.extend(*key);
        }
        let size = 16 + table.len() + keys.len();
        let overflow = size.div_ceil(self.page_size) - 1;
        let header = header(self.next(), 1, children.len(), overflow);
        self.push([header, table, keys].concat())
    }

    pub(crate) fn freelist(&mut self, ids: &[u64]) -> u64 {
        let bytes = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.push([header(self.next(), 16, ids.len(), 0), bytes].concat())
    }

    /// A page of zeros.
    pub(crate) fn blank(&mut self) -> u64 {
        self.push(Vec::new())
    }

    /// Any bytes, as the next page or pages.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) -> u64 {
        let page = self.next();
        let pages = bytes.len().div_ceil(self.page_size).max(1);
        self.bytes.extend(bytes);
        self.bytes.resize((page as usize + pages) * self.page_size, 0);
        page
    }

    /// Both meta pages, of transactions 8 and 7, and the file's bytes.
    pub(crate) fn finish(mut self, root: u64, freelist: Option<u64>) -> Vec<u8> {
        let pages = self.next();
        for (page, txid) in [(0, 8), (1, 7)] {
            let longs = [root, 0, freelist.unwrap_or(u64::MAX), pages, txid];
            let meta = meta(page, self.page_size as u32, longs);
            let start = page as usize * self.page_size;
            self.bytes[start..start + meta.len()].copy_from_slice(&meta);
        }
        self.bytes
    }
}

/// A meta page with `longs`: root, sequence, free list, high-water mark, transaction.
pub(crate) fn meta(page: u64, page_size: u32, longs: [u64; 5]) -> Vec<u8> {
    let mut bytes = header(page, 4, 0, 0);
    for word in [0xED0C_DAED, 2, page_size, 0] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    let hash = fnv(&bytes[16..72]);
    bytes.extend(hash.to_le_bytes());
    bytes
}

/// Makes page 0 a meta page that opens, with whatever else stands there.
pub(crate) fn mend_meta(bytes: &mut [u8], page_size: u32) {
    let Some(meta) = bytes.get_mut(..80) else { return };
    for (word, at) in [(0xED0C_DAED, 16), (2, 20), (page_size, 24)] {
        meta[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    let hash = fnv(&meta[16..72]);
    meta[72..].copy_from_slice(&hash.to_le_bytes());
}

pub(crate) fn header(id: u64, flags: u16, count: usize, overflow: usize) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend(flags.to_le_bytes());
    bytes.extend((count as u16).to_le_bytes());
    bytes.extend((overflow as u32).to_le_bytes());
    bytes
}

/// A leaf and where its data is; of a page size of 0, an inline one.
fn leaf_bytes(id: u64, elements: &[Element], page_size: usize) -> (Vec<u8>, Data) {
    let mut table = Vec::new();
    let mut bytes = Vec::new();
    let mut data = Data::default();
    let start = 16 + elements.len() * 16;
    for (index, element) in elements.iter().enumerate() {
        let (flags, key, value, inside) = element.parts();
        let pos = (elements.len() - index) * 16 + bytes.len();
        for word in [flags, pos as u32, key.len() as u32, value.len() as u32] {
            table.extend(word.to_le_bytes());
        }
        data.keys.push(start + bytes.len()..start + bytes.len() + key.len());
        bytes.extend(key);
        data.add(&inside, start + bytes.len());
        bytes.extend(value);
    }
    let overflow = (start + bytes.len()).div_ceil(page_size.max(1)) - 1;
    let header = header(id, 2, elements.len(), if page_size == 0 { 0 } else { overflow });
    ([header, table, bytes].concat(), data)
}

impl Element {
    /// Flags, key, value, and where the data is in the value.
    fn parts(&self) -> (u32, &[u8], Vec<u8>, Data) {
        match self {
            Self::Pair(key, value) => {
                let whole = Data { keys: Vec::new(), values: vec![Range { start: 0, end: value.len() }] };
                (0, key, value.clone(), whole)
            }
            Self::Bucket(name, root) => (1, name, [root.to_le_bytes(), [0; 8]].concat(), Data::default()),
            Self::Inline(name, elements) => {
                let (page, data) = leaf_bytes(0, elements, 0);
                let mut inside = Data::default();
                inside.add(&data, 16);
                (1, name, [vec![0; 16], page].concat(), inside)
            }
        }
    }
}

impl Data {
    fn add(&mut self, other: &Self, offset: usize) {
        let moved = |range: &Range<usize>| range.start + offset..range.end + offset;
        self.keys.extend(other.keys.iter().map(moved));
        self.values.extend(other.values.iter().map(moved));
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for &byte in bytes {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x100_0000_01b3);
    }
    hash
}
