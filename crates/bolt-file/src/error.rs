//! What can be wrong with a file, as facts: where, and what. Advice is for those above.

use std::io;

use crate::page::PageId;

/// Reading a file failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes contradict the format.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),

    /// The storage did not give the bytes.
    #[error("reading {len} bytes at offset {offset}")]
    Read {
        /// Where the read began.
        offset: u64,
        /// How much was asked for.
        len: u64,
        /// What the storage said.
        source: io::Error,
    },

    /// Someone wrote to the file.
    #[error("the file was written to while it was being read")]
    Changed,

    /// The file is shorter than it was when it was opened.
    #[error("the file shrank from {opened} to {now} bytes while it was being read")]
    Shrank {
        /// The size when it was opened.
        opened: u64,
        /// The size now.
        now: u64,
    },
}

/// The bytes of a page contradict the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("page {page}: {fault}")]
pub struct Corrupt {
    /// The page that holds the fault.
    pub page: PageId,
    /// What is wrong with it.
    pub fault: Fault,
}

/// One way in which bytes can contradict the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No file can be this small.
    #[error("the file has {size} bytes, too few for two meta pages")]
    TooSmall {
        /// The size of the file.
        size: u64,
    },
    /// Neither meta page is valid.
    #[error("not a bolt file: {first}; {second}")]
    NoMeta {
        /// What is wrong with the first.
        first: crate::meta::MetaFault,
        /// What is wrong with the second.
        second: crate::meta::MetaFault,
    },
    /// The page lies outside the file, or past the high-water mark.
    #[error("outside the file, which has {pages} pages")]
    OutOfBounds {
        /// How many pages there are.
        pages: u64,
    },
    /// The file, or the value that holds an inline bucket, ends inside the page.
    #[error("cut short: {have} of {need} bytes are there")]
    CutShort {
        /// The bytes the page needs.
        need: u64,
        /// The bytes that are there.
        have: u64,
    },
    /// The page says it is another one.
    #[error("the page says it is page {found}")]
    WrongId {
        /// The id it carries.
        found: u64,
    },
    /// The flags are none of the four kinds.
    #[error("flags {flags:#06x} name no kind of page")]
    UnknownKind {
        /// The flags it carries.
        flags: u16,
    },
    /// A page of this kind has no business here.
    #[error("a {found} page where {expected} is needed")]
    WrongKind {
        /// What is there.
        found: crate::page::PageKind,
        /// What should be.
        expected: &'static str,
    },
    /// The element table does not fit on the page.
    #[error("{count} elements do not fit on the page")]
    TableTooLong {
        /// The elements it claims.
        count: u32,
    },
    /// An element points outside its page.
    #[error("element {index} reaches to byte {end} of a page of {size}")]
    ElementOutside {
        /// Which element.
        index: u32,
        /// Where it would end.
        end: u64,
        /// What the page holds.
        size: u64,
    },
    /// An element has flags that no version writes.
    #[error("element {index} has flags {flags:#x}")]
    ElementFlags {
        /// Which element.
        index: u32,
        /// The flags it carries.
        flags: u32,
    },
    /// A key that bbolt cannot have written.
    #[error("element {index} has a key of {len} bytes")]
    KeyLength {
        /// Which element.
        index: u32,
        /// The length it carries.
        len: u32,
    },
    /// A branch without children.
    #[error("a branch without children")]
    EmptyBranch,
    /// The tree is deeper than any that bbolt can have written.
    #[error("the tree is deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The tree has more pages than the file: some are reached twice.
    #[error("the tree is larger than the file: pages are reached more than once")]
    Tangled,
    /// The page is larger than any that bbolt can have written.
    #[error("a page of {size} bytes is larger than any value can be")]
    TooLarge {
        /// The bytes it claims.
        size: u64,
    },
    /// A bucket's value is shorter than its header.
    #[error("bucket {index} has a header of {len} bytes, not 16")]
    BucketHeader {
        /// Which element.
        index: u32,
        /// The bytes of its value.
        len: usize,
    },
    /// What a bucket's name leads to is no bucket.
    #[error("a key where a bucket is needed")]
    NotABucket,
    /// The free list claims more pages than its page holds.
    #[error("a free list of {count} pages does not fit on its page")]
    FreelistTooLong {
        /// The pages it claims.
        count: u64,
    },
}

impl Fault {
    /// The fault at its place.
    pub fn on(self, page: PageId) -> Corrupt {
        Corrupt { page, fault: self }
    }
}
