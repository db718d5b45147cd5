//! Pages, and the elements on them. All integers are little-endian, at any alignment.
//!
//! | offset | size | field of the page header                                    |
//! |--------|------|-------------------------------------------------------------|
//! | 0      | 8    | id, equal to the page's place in the file                   |
//! | 8      | 2    | kind: 1 branch, 2 leaf, 4 meta, 16 free list                |
//! | 10     | 2    | count of elements on the page                               |
//! | 12     | 4    | overflow, pages that follow and belong to this one          |
//!
//! | offset | size | field of a leaf element, from 16 on                         |
//! |--------|------|-------------------------------------------------------------|
//! | 0      | 4    | flags: 1 if the value is a bucket                           |
//! | 4      | 4    | distance from this element to its key; the value follows it |
//! | 8      | 4    | length of the key                                           |
//! | 12     | 4    | length of the value                                         |
//!
//! | offset | size | field of a branch element, from 16 on                       |
//! |--------|------|-------------------------------------------------------------|
//! | 0      | 4    | distance from this element to its key                       |
//! | 4      | 4    | length of the key                                           |
//! | 8      | 8    | id of the child, whose first key this key is                |

use std::fmt;

use crate::error::{Corrupt, Fault};

/// A page's place in the file, counted in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Keys and the pages below them.
    Branch,
    /// Keys and values.
    Leaf,
    /// The root of everything.
    Meta,
    /// The pages that are free.
    Freelist,
}

impl PageKind {
    /// The kind that `flags` name; exactly one flag must be set.
    pub fn from_flags(flags: u16) -> Option<Self> {
        match flags {
            0x01 => Some(Self::Branch),
            0x02 => Some(Self::Leaf),
            0x04 => Some(Self::Meta),
            0x10 => Some(Self::Freelist),
            _ => None,
        }
    }

    /// The flags that name this kind.
    pub fn flags(self) -> u16 {
        match self {
            Self::Branch => 0x01,
            Self::Leaf => 0x02,
            Self::Meta => 0x04,
            Self::Freelist => 0x10,
        }
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Branch => "branch",
            Self::Leaf => "leaf",
            Self::Meta => "meta",
            Self::Freelist => "free list",
        })
    }
}

/// Bytes before the elements of a page.
pub const HEADER_SIZE: usize = 16;
/// Bytes of a leaf or branch element, without its key and value.
pub const ELEMENT_SIZE: usize = 16;
/// Bytes before the pages of an inline bucket, or all of another bucket's value.
pub const BUCKET_HEADER_SIZE: usize = 16;
/// The longest key that bbolt takes.
pub const MAX_KEY_SIZE: u32 = 32_768;
/// The flag of a leaf element whose value is a bucket.
pub const BUCKET_FLAG: u32 = 0x01;

/// The fields at the start of every page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// The page's place in the file.
    pub id: PageId,
    /// What it is for.
    pub kind: PageKind,
    /// How many elements it claims.
    pub count: u16,
    /// How many pages after it belong to it.
    pub overflow: u32,
}

impl PageHeader {
    /// Reads the header of the page at `page`.
    pub fn parse(page: PageId, bytes: &[u8]) -> Result<Self, Corrupt> {
        let (Some(found), Some(flags), Some(count), Some(overflow)) =
            (u64_at(bytes, 0), u16_at(bytes, 8), u16_at(bytes, 10), u32_at(bytes, 12))
        else {
            let (need, have) = (HEADER_SIZE as u64, bytes.len() as u64);
            return Err(Fault::CutShort { need, have }.on(page));
        };
        if found != page.0 {
            return Err(Fault::WrongId { found }.on(page));
        }
        let kind = PageKind::from_flags(flags).ok_or(Fault::UnknownKind { flags }.on(page))?;
        Ok(Self { id: page, kind, count, overflow })
    }

    /// The bytes of this header, as [`PageHeader::parse`] reads them.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        let fields = self.id.0.to_le_bytes().into_iter();
        let fields = fields.chain(self.kind.flags().to_le_bytes()).chain(self.count.to_le_bytes());
        for (byte, field) in bytes.iter_mut().zip(fields.chain(self.overflow.to_le_bytes())) {
            *byte = field;
        }
        bytes
    }
}

/// One element of a leaf: a key with its value, or a bucket's name with its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; for a bucket its header, and its page if it is inline.
    pub value: &'a [u8],
    /// Whether the value is a bucket.
    pub is_bucket: bool,
}

/// A leaf page whose element table is known to fit. `bytes` begin at the page's header.
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'a> {
    page: PageId,
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Leaf<'a> {
    /// Takes `bytes` as a leaf of `count` elements.
    pub fn parse(page: PageId, count: u16, bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let count = require_table(page, count, bytes)?;
        Ok(Self { page, bytes, count })
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The element at `index`, or nothing past the end.
    pub fn get(&self, index: usize) -> Result<Option<Entry<'a>>, Corrupt> {
        if index >= self.len() {
            return Ok(None);
        }
        let element = HEADER_SIZE + index * ELEMENT_SIZE;
        let table = self.bytes.get(element..element + ELEMENT_SIZE).unwrap_or(&[0; ELEMENT_SIZE]);
        let [flags, pos, key_len, value_len] = quads(table);
        if flags > BUCKET_FLAG {
            return Err(Fault::ElementFlags { index: index as u32, flags }.on(self.page));
        }
        let key_start = element as u64 + u64::from(pos);
        let value_start = key_start + u64::from(key_len);
        let end = value_start + u64::from(value_len);
        if end > self.bytes.len() as u64 {
            return Err(self.outside(index, end));
        }
        // Both fit into `usize` now, for they are at most the length of the slice.
        let (key_start, value_start, end) = (key_start as usize, value_start as usize, end as usize);
        Ok(Some(Entry {
            key: self.bytes.get(key_start..value_start).unwrap_or_default(),
            value: self.bytes.get(value_start..end).unwrap_or_default(),
            is_bucket: flags == BUCKET_FLAG,
        }))
    }

    /// Where the key of the element at `index` begins, from the page's start, as the element says.
    pub(crate) fn key_start(&self, index: usize) -> u64 {
        let element = HEADER_SIZE + index * ELEMENT_SIZE;
        element as u64 + u64::from(u32_at(self.bytes, element + 4).unwrap_or_default())
    }

    /// Where the last byte that an element uses ends, from the page's start.
    pub fn used(&self) -> u64 {
        let table = self.bytes.get(HEADER_SIZE..).unwrap_or_default();
        let ends = table.chunks_exact(ELEMENT_SIZE).take(self.len()).enumerate().map(|(index, table)| {
            let [_, pos, key_len, value_len] = quads(table);
            let element = (HEADER_SIZE + index * ELEMENT_SIZE) as u64;
            element + u64::from(pos) + u64::from(key_len) + u64::from(value_len)
        });
        ends.max().unwrap_or(HEADER_SIZE as u64)
    }

    fn outside(&self, index: usize, end: u64) -> Corrupt {
        Fault::ElementOutside { index: index as u32, end, size: self.bytes.len() as u64 }.on(self.page)
    }
}

/// A branch page whose element table is known to fit. `bytes` begin at the page's header.
#[derive(Debug, Clone, Copy)]
pub struct Branch<'a> {
    page: PageId,
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Branch<'a> {
    /// Takes `bytes` as a branch of `count` elements.
    pub fn parse(page: PageId, count: u16, bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let count = require_table(page, count, bytes)?;
        if count == 0 {
            return Err(Fault::EmptyBranch.on(page));
        }
        Ok(Self { page, bytes, count })
    }

    /// How many children there are: at least one.
    #[allow(clippy::len_without_is_empty, reason = "a branch is never empty")]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// The first key and the page of the child at `index`, or nothing past the end.
    pub fn get(&self, index: usize) -> Result<Option<(&'a [u8], PageId)>, Corrupt> {
        if index >= self.len() {
            return Ok(None);
        }
        let element = HEADER_SIZE + index * ELEMENT_SIZE;
        let table = self.bytes.get(element..element + ELEMENT_SIZE).unwrap_or(&[0; ELEMENT_SIZE]);
        let [pos, key_len, low, high] = quads(table);
        let start = element as u64 + u64::from(pos);
        let end = start + u64::from(key_len);
        if end > self.bytes.len() as u64 {
            let (index, size) = (index as u32, self.bytes.len() as u64);
            return Err(Fault::ElementOutside { index, end, size }.on(self.page));
        }
        let key = self.bytes.get(start as usize..end as usize).unwrap_or_default();
        Ok(Some((key, PageId(u64::from(low) | u64::from(high) << 32))))
    }

    /// Where the key of the element at `index` begins, from the page's start, as the element says.
    pub(crate) fn key_start(&self, index: usize) -> u64 {
        let element = HEADER_SIZE + index * ELEMENT_SIZE;
        element as u64 + u64::from(u32_at(self.bytes, element).unwrap_or_default())
    }

    /// Where the last byte that an element uses ends, from the page's start.
    pub(crate) fn used(&self) -> u64 {
        let key_len = |index| u32_at(self.bytes, HEADER_SIZE + index * ELEMENT_SIZE + 4).unwrap_or_default();
        let ends = (0..self.len()).map(|index| self.key_start(index) + u64::from(key_len(index)));
        ends.max().unwrap_or(HEADER_SIZE as u64)
    }
}

/// The count of elements, if their table fits into `bytes`.
fn require_table(page: PageId, count: u16, bytes: &[u8]) -> Result<u32, Corrupt> {
    let count = u32::from(count);
    let end = HEADER_SIZE + count as usize * ELEMENT_SIZE;
    if end > bytes.len() {
        return Err(Fault::TableTooLong { count }.on(page));
    }
    Ok(count)
}

/// The four little-endian words of an element.
fn quads(element: &[u8]) -> [u32; 4] {
    match element {
        &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] => [
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
            u32::from_le_bytes([i, j, k, l]),
            u32::from_le_bytes([m, n, o, p]),
        ],
        _ => [0; 4],
    }
}

/// The little-endian number at `offset`, if the bytes reach that far.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(offset..)?.first_chunk().copied()?))
}

/// The little-endian number at `offset`, if the bytes reach that far.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..)?.first_chunk().copied()?))
}

/// The little-endian number at `offset`, if the bytes reach that far.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..)?.first_chunk().copied()?))
}
