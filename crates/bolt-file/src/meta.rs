//! The two meta pages, and how one of them wins.
//!
//! | offset | size | field, from the page's start                                    |
//! |--------|------|-----------------------------------------------------------------|
//! | 0      | 16   | page header, kind meta                                          |
//! | 16     | 4    | magic, 0xED0CDAED                                               |
//! | 20     | 4    | version, 2                                                      |
//! | 24     | 4    | page size                                                       |
//! | 28     | 4    | flags, 0                                                        |
//! | 32     | 8    | page of the root bucket                                         |
//! | 40     | 8    | sequence of the root bucket                                     |
//! | 48     | 8    | page of the free list, or all ones where none is kept           |
//! | 56     | 8    | high-water mark: the first page never used                      |
//! | 64     | 8    | transaction                                                     |
//! | 72     | 8    | FNV-1a of bytes 16 to 72                                        |
//!
//! Transaction T is committed to page T mod 2, so that the one before it survives a torn write. The valid page
//! with the larger transaction is the truth.

use std::fmt;

use crate::error::Fault;
use crate::page::{HEADER_SIZE, PageHeader, PageId, PageKind, u32_at, u64_at};

/// Bytes of a meta page that mean something.
pub const META_SIZE: usize = 80;
/// The largest page size that is looked for.
pub const MAX_PAGE_SIZE: u32 = 16 << 20;
/// The smallest page size that bbolt looks for.
pub const MIN_PAGE_SIZE: u32 = 1 << 10;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const NO_FREELIST: u64 = u64::MAX;

/// What one commit left behind: where everything else is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The size of every page.
    pub page_size: u32,
    /// The page at the root of the bucket that holds the buckets.
    pub root: PageId,
    /// The sequence of that bucket.
    pub sequence: u64,
    /// The page of the free list, where one is kept.
    pub freelist: Option<PageId>,
    /// The first page that was never used: the file's size in pages.
    pub high_water: u64,
    /// The transaction that wrote this.
    pub txid: u64,
}

impl Meta {
    /// Reads a meta page from its first bytes, believing nothing that the checksum does not cover.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetaFault> {
        let Some(stored) = u64_at(bytes, 72) else {
            return Err(MetaFault::CutShort);
        };
        let word = |offset| u32_at(bytes, offset).unwrap_or_default();
        let long = |offset| u64_at(bytes, offset).unwrap_or_default();
        if word(16) != MAGIC {
            return Err(MetaFault::Magic { found: word(16) });
        }
        if word(20) != VERSION {
            return Err(MetaFault::Version { found: word(20) });
        }
        if stored != checksum(bytes) {
            return Err(MetaFault::Checksum);
        }
        let page_size = word(24);
        if !page_size.is_power_of_two() || !(MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&page_size) {
            return Err(MetaFault::PageSize { found: page_size });
        }
        Ok(Self {
            page_size,
            root: PageId(long(32)),
            sequence: long(40),
            freelist: Some(long(48)).filter(|&page| page != NO_FREELIST).map(PageId),
            high_water: long(56),
            txid: long(64),
        })
    }

    /// The first bytes of meta page `page` (0 or 1), as [`Meta::parse`] reads them.
    pub fn encode(&self, page: PageId) -> [u8; META_SIZE] {
        let header = PageHeader { id: page, kind: PageKind::Meta, count: 0, overflow: 0 };
        let freelist = self.freelist.map_or(NO_FREELIST, |page| page.0);
        let mut bytes = Vec::with_capacity(META_SIZE);
        bytes.extend(header.encode());
        for word in [MAGIC, VERSION, self.page_size, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for long in [self.root.0, self.sequence, freelist, self.high_water, self.txid] {
            bytes.extend(long.to_le_bytes());
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes.first_chunk().copied().unwrap_or([0; META_SIZE])
    }
}

/// Why a meta page is not to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaFault {
    /// The file ends inside it.
    #[error("meta page cut short")]
    CutShort,
    /// It does not begin as one.
    #[error("meta page has magic {found:#010x}")]
    Magic {
        /// What stands there.
        found: u32,
    },
    /// Another version of the format.
    #[error("meta page has version {found}")]
    Version {
        /// What stands there.
        found: u32,
    },
    /// It was torn or changed.
    #[error("meta page does not match its checksum")]
    Checksum,
    /// A page size that no file has.
    #[error("meta page has page size {found}")]
    PageSize {
        /// What stands there.
        found: u32,
    },
    /// The page size of the file is unknown, so the page could not be found.
    #[error("no second meta page at any page size")]
    NotFound,
}

/// Both meta pages as they were found. At least one is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metas {
    /// Page 0 and page 1.
    pub pages: [Result<Meta, MetaFault>; 2],
}

impl Metas {
    /// Finds the meta pages with `read`, which gives up to [`META_SIZE`] bytes at an offset, fewer at the end.
    ///
    /// Page 0 says how large pages are. If it is torn, page 1 is looked for at every size that bbolt tries.
    pub fn find<E>(mut read: impl FnMut(u64) -> Result<Vec<u8>, E>) -> Result<Self, E> {
        let first = Meta::parse(&read(0)?);
        if let Ok(meta) = first {
            let second = Meta::parse(&read(u64::from(meta.page_size))?);
            return Ok(Self { pages: [first, second.and_then(|second| same_size(meta, second))] });
        }
        let mut size = MIN_PAGE_SIZE;
        while size <= MAX_PAGE_SIZE {
            let second = Meta::parse(&read(u64::from(size))?);
            if second.is_ok_and(|meta| meta.page_size == size) {
                return Ok(Self { pages: [first, second] });
            }
            size <<= 1;
        }
        Ok(Self { pages: [first, Err(MetaFault::NotFound)] })
    }

    /// The meta page that holds the truth: the valid one with the larger transaction.
    pub fn newest(&self) -> Result<Meta, Fault> {
        match self.pages {
            [Ok(first), Ok(second)] if second.txid > first.txid => Ok(second),
            [Ok(first), _] => Ok(first),
            [Err(_), Ok(second)] => Ok(second),
            [Err(first), Err(second)] => Err(Fault::NoMeta { first, second }),
        }
    }
}

fn same_size(first: Meta, second: Meta) -> Result<Meta, MetaFault> {
    if first.page_size == second.page_size { Ok(second) } else { Err(MetaFault::PageSize { found: second.page_size }) }
}

/// FNV-1a over what the checksum covers.
fn checksum(bytes: &[u8]) -> u64 {
    let covered = bytes.get(HEADER_SIZE..META_SIZE - 8).unwrap_or_default();
    covered
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}, root {}, {} pages of {}", self.txid, self.root, self.high_water, self.page_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(txid: u64) -> Meta {
        Meta { page_size: 4096, root: PageId(3), sequence: 0, freelist: None, high_water: 4, txid }
    }

    fn found(first: &[u8], second: &[u8], size: usize) -> Metas {
        let mut file = vec![0; size + META_SIZE];
        file[..first.len()].copy_from_slice(first);
        file[size..size + second.len()].copy_from_slice(second);
        let read = |at: u64| Ok::<_, ()>(file.iter().skip(at as usize).take(META_SIZE).copied().collect());
        Metas::find(read).unwrap()
    }

    #[test]
    fn a_meta_page_reads_as_it_was_written() {
        let listed = Meta { freelist: Some(PageId(2)), ..meta(7) };
        assert_eq!(Meta::parse(&meta(7).encode(PageId(1))), Ok(meta(7)));
        assert_eq!(Meta::parse(&listed.encode(PageId(0))), Ok(listed));
    }

    #[test]
    fn the_larger_transaction_wins() {
        let metas = found(&meta(8).encode(PageId(0)), &meta(7).encode(PageId(1)), 4096);
        assert_eq!(metas.newest().unwrap().txid, 8);
        let metas = found(&meta(8).encode(PageId(0)), &meta(9).encode(PageId(1)), 4096);
        assert_eq!(metas.newest().unwrap().txid, 9);
    }

    #[test]
    fn a_torn_newer_page_leaves_the_truth_to_the_older() {
        for byte in 16..META_SIZE {
            let mut torn = meta(8).encode(PageId(0));
            torn[byte] ^= 1;
            for page_size in [1024, 4096, 65536] {
                let older = Meta { page_size, ..meta(7) }.encode(PageId(1));
                let metas = found(&torn, &older, page_size as usize);
                assert_eq!(metas.newest().unwrap().txid, 7, "byte {byte}, pages of {page_size}");
                assert!(metas.pages[0].is_err());
            }
        }
    }

    #[test]
    fn two_torn_pages_are_no_bolt_file() {
        let metas = found(b"something else", b"", 4096);
        assert!(matches!(metas.newest(), Err(Fault::NoMeta { .. })));
    }
}
