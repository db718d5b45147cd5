//! Builds a file from sorted pairs, bottom up.
//!
//! Every page is written once, one behind the other, when its last element is known; the metas come last, after
//! everything that they lead to has been synced, so a file that was not finished is no bolt file. Memory holds two
//! pages per level of a tree and the sink's buffers, however large the file.
//!
//! ```text
//! 0, 1   metas       the transaction with an even number in page 0, the one before it in page 1
//! 2      free list   empty; kept, so that the first to open the file need not walk it
//! 3 ..   pages of the buckets, in the order in which these were built, each level as its pages fill
//! last   root bucket
//! ```
//!
//! Only buckets at the top are built, for etcd has no others.

mod node;
mod pages;
mod tree;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;

use self::node::Element;
use self::pages::Pages;
use self::tree::Tree;
use crate::meta::{MAX_PAGE_SIZE, MIN_PAGE_SIZE, Meta};
use crate::page::{BUCKET_FLAG, BUCKET_HEADER_SIZE, MAX_KEY_SIZE, PageId};
use crate::sink::Sink;

/// The longest value that bbolt takes.
pub const MAX_VALUE_SIZE: u32 = (1 << 31) - 2;

/// What a new file is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of every page: a power of two between 1 KiB and 16 MiB. etcd's own files have 4 KiB on most machines.
    pub page_size: u32,
    /// The transaction that the file is the work of: an even number, at least 2.
    pub txid: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { page_size: 4096, txid: 2 }
    }
}

/// A file in the making.
pub struct Builder<S> {
    options: Options,
    pages: Pages<S>,
    freelist: PageId,
    /// The element of each bucket in the root; nothing while it is being built.
    buckets: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// What was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// The pages of the file.
    pub pages: u64,
    /// Its size.
    pub size_bytes: u64,
}

impl<S: Sink> Builder<S> {
    /// Begins a file in `sink`, which must be empty.
    pub fn create(sink: S, options: Options) -> Result<Self, WriteError> {
        let Options { page_size, txid } = options;
        if !page_size.is_power_of_two() || !(MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&page_size) {
            return Err(WriteError::PageSize { page_size });
        }
        if txid < 2 || !txid.is_multiple_of(2) {
            return Err(WriteError::Transaction { txid });
        }
        let mut pages = Pages::new(sink, page_size);
        let freelist = pages.write_freelist()?;
        Ok(Self { options, pages, freelist, buckets: BTreeMap::new() })
    }

    /// Begins the bucket called `name`. Buckets may come in any order, one after the other.
    pub fn bucket(&mut self, name: &[u8]) -> Result<BucketBuilder<'_, S>, WriteError> {
        require_key(name).map_err(|len| WriteError::BucketName { len })?;
        match self.buckets.entry(name.to_vec()) {
            Entry::Occupied(_) => return Err(WriteError::BucketTwice { name: name.to_vec() }),
            Entry::Vacant(entry) => entry.insert(None),
        };
        let tree = Tree::new(self.pages.page_size());
        Ok(BucketBuilder { builder: self, name: name.to_vec(), tree, last_key: Vec::new(), entries: 0 })
    }

    /// Writes the root and, when all else has been synced, the metas. The file is whole once this returns.
    pub fn finish(mut self) -> Result<Built, WriteError> {
        let root = self.write_root()?;
        let Options { page_size, txid } = self.options;
        let high_water = self.pages.high_water();
        let meta = Meta { page_size, root, sequence: 0, freelist: Some(self.freelist), high_water, txid };
        self.pages.commit([meta, Meta { txid: txid - 1, ..meta }])?;
        Ok(Built { pages: high_water, size_bytes: high_water * u64::from(page_size) })
    }

    fn write_root(&mut self) -> Result<PageId, WriteError> {
        let mut tree = Tree::new(self.pages.page_size());
        for (name, value) in std::mem::take(&mut self.buckets) {
            let Some(value) = value else { return Err(WriteError::BucketUnfinished { name }) };
            let (key_len, value_len) = (name.len() as u32, value.len() as u32);
            tree.push(Element::Value { flags: BUCKET_FLAG, key_len, value_len }, &name, &value, &mut self.pages)?;
        }
        tree.finish(&mut self.pages)
    }
}

/// A bucket in the making. Dropped before it is finished, it leaves a file that cannot be finished.
pub struct BucketBuilder<'a, S> {
    builder: &'a mut Builder<S>,
    name: Vec<u8>,
    tree: Tree,
    last_key: Vec<u8>,
    entries: u64,
}

impl<S: Sink> BucketBuilder<'_, S> {
    /// Adds an entry. Its key must be greater than that of the entry before; what is refused leaves no trace.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
        let entry = self.entries;
        let key_len = require_key(key).map_err(|len| WriteError::KeyLength { entry, len })?;
        let value_len = require_value(value).map_err(|len| WriteError::ValueLength { entry, len })?;
        if key <= self.last_key.as_slice() {
            return Err(WriteError::Order { entry });
        }
        self.tree.push(Element::Value { flags: 0, key_len, value_len }, key, value, &mut self.builder.pages)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    /// Writes what is left of the bucket. Returns the last page of it, which is its root, if it has pages of its own.
    pub fn finish(self) -> Result<Option<PageId>, WriteError> {
        let (root, value) = match self.inline_leaf() {
            Some(leaf) => (None, bucket_value(PageId(0), &leaf)),
            None => {
                let root = self.tree.finish(&mut self.builder.pages)?;
                (Some(root), bucket_value(root, &[]))
            }
        };
        self.builder.buckets.insert(self.name, Some(value));
        Ok(root)
    }

    /// The bucket as one leaf inside the element that names it, if bbolt would keep it there: as long as it takes
    /// no more than a quarter of a page.
    fn inline_leaf(&self) -> Option<Vec<u8>> {
        let leaf = self.tree.only_leaf()?;
        if leaf.size() > self.builder.pages.page_size() / 4 {
            return None;
        }
        let mut bytes = Vec::with_capacity(leaf.size());
        leaf.encode_head(PageId(0), 0, &mut bytes);
        bytes.extend_from_slice(leaf.data());
        Some(bytes)
    }
}

/// The value of a bucket's element: where its root is, sequence 0, and its leaf if it has no page of its own.
fn bucket_value(root: PageId, leaf: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(BUCKET_HEADER_SIZE + leaf.len());
    value.extend_from_slice(&root.0.to_le_bytes());
    value.extend_from_slice(&0u64.to_le_bytes());
    value.extend_from_slice(leaf);
    value
}

/// The length of `key`, as an error if no key can have it.
fn require_key(key: &[u8]) -> Result<u32, usize> {
    match u32::try_from(key.len()) {
        Ok(len @ 1..=MAX_KEY_SIZE) => Ok(len),
        _ => Err(key.len()),
    }
}

/// The length of `value`, as an error if no value can have it.
fn require_value(value: &[u8]) -> Result<u32, usize> {
    match u32::try_from(value.len()) {
        Ok(len @ ..=MAX_VALUE_SIZE) => Ok(len),
        _ => Err(value.len()),
    }
}

/// A file could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Pages of no such size exist.
    #[error("{page_size} is no page size")]
    PageSize {
        /// What was asked for.
        page_size: u32,
    },
    /// The first transaction must be even.
    #[error("{txid} is not an even transaction")]
    Transaction {
        /// What was asked for.
        txid: u64,
    },
    /// A bucket's name is empty or too long.
    #[error("a bucket name of {len} bytes")]
    BucketName {
        /// Its length.
        len: usize,
    },
    /// A bucket was begun a second time.
    #[error("bucket \"{}\" for the second time", name.escape_ascii())]
    BucketTwice {
        /// Its name.
        name: Vec<u8>,
    },
    /// A bucket was begun and not finished.
    #[error("bucket \"{}\" was not finished", name.escape_ascii())]
    BucketUnfinished {
        /// Its name.
        name: Vec<u8>,
    },
    /// A key is empty or too long.
    #[error("entry {entry} has a key of {len} bytes")]
    KeyLength {
        /// How many entries of its bucket came before.
        entry: u64,
        /// Its length.
        len: usize,
    },
    /// A value is too long.
    #[error("entry {entry} has a value of {len} bytes")]
    ValueLength {
        /// How many entries of its bucket came before.
        entry: u64,
        /// Its length.
        len: usize,
    },
    /// A key is not greater than the one before.
    #[error("the key of entry {entry} is not greater than the one before")]
    Order {
        /// How many entries of its bucket came before.
        entry: u64,
    },
    /// The sink failed.
    #[error("{doing}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the sink said.
        source: io::Error,
    },
    /// The sink had failed before.
    #[error("an earlier write failed")]
    Failed,
}
