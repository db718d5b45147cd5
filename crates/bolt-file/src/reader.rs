//! Fetches pages, many with one system call where the caller knows what comes next.

use std::sync::Arc;

use crate::aligned::AlignedBytes;
use crate::error::{Error, Fault};
use crate::page::{Branch, ELEMENT_SIZE, HEADER_SIZE, Leaf, PageHeader, PageId, PageKind};
use crate::storage::Storage;

/// No page is read further than that. etcd takes requests of 1.5 MiB, or of what its `--max-request-bytes` says, and warns
/// of more than 10 MiB; what is in one request is one entry of its log, which is held in memory whole. So a page with a GiB of
/// elements is none of etcd's, and a large number costs nothing to write.
const MAX_RUN_BYTES: u64 = 1 << 30;

/// A page of a tree, with the pages that overflow from it.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// Keys and children.
    Branch(Branch<'a>),
    /// Keys and values.
    Leaf(Leaf<'a>),
}

/// How the pages of a file are laid out, for bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The size of every page.
    pub page_size: u32,
    /// The first page that is not part of the file.
    pub pages: u64,
    /// The size of the file when it was opened.
    pub file_bytes: u64,
}

/// Reads runs of pages.
///
/// What a caller says it will need is fetched at once into a window; any other page is fetched by itself and
/// leaves the window as it is.
pub struct PageReader {
    storage: Arc<dyn Storage>,
    layout: Layout,
    window: Bytes,
    single: Bytes,
    /// Pages that may still be read before the tree must have led in circles.
    allowed: u64,
}

/// A stretch of the file that was read.
#[derive(Default)]
struct Bytes {
    start: u64,
    bytes: AlignedBytes,
}

impl PageReader {
    /// A reader of `storage` with nothing read yet.
    pub fn new(storage: Arc<dyn Storage>, layout: Layout) -> Self {
        Self { storage, layout, window: Bytes::default(), single: Bytes::default(), allowed: u64::MAX }
    }

    /// Fails with [`Fault::Tangled`] once more than `pages` further pages were asked for, overflow included. A walk
    /// over a sound tree reads every page of the file at most once.
    pub(crate) fn allow(&mut self, pages: u64) {
        self.allowed = pages;
    }

    /// The branch or leaf at `page`.
    pub fn node(&mut self, page: PageId) -> Result<Node<'_>, Error> {
        let (header, bytes) = self.run(page)?;
        match header.kind {
            PageKind::Branch => Ok(Node::Branch(Branch::parse(page, header.count, bytes)?)),
            PageKind::Leaf => Ok(Node::Leaf(Leaf::parse(page, header.count, bytes)?)),
            found => Err(Fault::WrongKind { found, expected: "branch or leaf" }.on(page).into()),
        }
    }

    /// The header of the page at `page`, and the bytes of it and of what overflows from it, as far as its elements go.
    pub fn run(&mut self, page: PageId) -> Result<(PageHeader, &[u8]), Error> {
        let header = self.header(page)?;
        Ok((header, self.run_of(header)?))
    }

    /// The bytes of the page whose header was read to be `header`, and of what overflows from it, up to the end of the page in
    /// which its elements end: how much overflows is said by the file alone.
    pub(crate) fn run_of(&mut self, header: PageHeader) -> Result<&[u8], Error> {
        let page = header.id;
        let page_size = u64::from(self.layout.page_size);
        let start = page.0 * page_size;
        let pages = u64::from(header.overflow) + 1;
        self.allowed = self.allowed.checked_sub(pages).ok_or(Fault::Tangled.on(page))?;
        if header.overflow == 0 {
            return self.fetch(page, start, page_size);
        }
        let size = self.used(header, page_size * pages)?;
        if size > MAX_RUN_BYTES {
            return Err(Fault::TooLarge { size }.on(page).into());
        }
        self.fetch(page, start, size)
    }

    /// How much of the `size` bytes that the page says it has its elements take, in whole pages. Of a page that has none, one.
    fn used(&mut self, header: PageHeader, size: u64) -> Result<u64, Error> {
        let (page, page_size) = (header.id, u64::from(self.layout.page_size));
        let table = (HEADER_SIZE + usize::from(header.count) * ELEMENT_SIZE) as u64;
        if table > size {
            return Err(Fault::TableTooLong { count: header.count.into() }.on(page).into());
        }
        let bytes = self.fetch(page, page.0 * page_size, table.max(page_size))?;
        let end = match header.kind {
            PageKind::Leaf => Leaf::parse(page, header.count, bytes)?.used(),
            PageKind::Branch => Branch::parse(page, header.count, bytes)?.used(),
            PageKind::Meta | PageKind::Freelist => 0,
        };
        Ok(((end.max(table) / page_size + 1) * page_size).min(size))
    }

    /// The header of the page at `page`, which lies inside the file with all that overflows from it.
    pub fn header(&mut self, page: PageId) -> Result<PageHeader, Error> {
        let start = self.require_inside(page)?;
        let header = PageHeader::parse(page, self.fetch(page, start, u64::from(self.layout.page_size))?)?;
        let last = page.0.checked_add(u64::from(header.overflow));
        if last.is_none_or(|last| last >= self.layout.pages) {
            return Err(Fault::OutOfBounds { pages: self.layout.pages }.on(page).into());
        }
        Ok(header)
    }

    /// Fetches `pages` pages from `first` on, as far as the file goes, because they will be asked for next.
    pub fn fetch_ahead(&mut self, first: PageId, pages: u64) -> Result<(), Error> {
        let start = self.require_inside(first)?;
        let bytes = pages.saturating_mul(u64::from(self.layout.page_size));
        let len = bytes.min(self.layout.file_bytes.saturating_sub(start));
        if len == 0 {
            return Ok(());
        }
        self.window.read(&*self.storage, self.layout, first, start, len)
    }

    /// Where `page` starts, if it is part of the file.
    fn require_inside(&self, page: PageId) -> Result<u64, Error> {
        let pages = self.layout.pages;
        if page.0 >= pages {
            return Err(Fault::OutOfBounds { pages }.on(page).into());
        }
        // `pages` times the page size was checked when the file was opened.
        Ok(page.0 * u64::from(self.layout.page_size))
    }

    /// `len` bytes from `start`, where `page` is.
    pub(crate) fn fetch(&mut self, page: PageId, start: u64, len: u64) -> Result<&[u8], Error> {
        if self.window.holds(start, len) {
            return Ok(self.window.get(start, len));
        }
        if !self.single.holds(start, len) {
            let have = self.layout.file_bytes.saturating_sub(start);
            if have < len {
                return Err(Fault::CutShort { need: len, have }.on(page).into());
            }
            self.single.read(&*self.storage, self.layout, page, start, len)?;
        }
        Ok(self.single.get(start, len))
    }
}

impl Bytes {
    fn holds(&self, start: u64, len: u64) -> bool {
        start >= self.start && start.saturating_add(len) <= self.start + self.bytes.len() as u64
    }

    fn get(&self, start: u64, len: u64) -> &[u8] {
        let from = start.saturating_sub(self.start) as usize;
        self.bytes.get(from..from.saturating_add(len as usize)).unwrap_or_default()
    }

    fn read(&mut self, storage: &dyn Storage, layout: Layout, page: PageId, start: u64, len: u64) -> Result<(), Error> {
        let too_large = || Fault::TooLarge { size: len }.on(page);
        let size = usize::try_from(len).map_err(|_| too_large())?;
        if self.bytes.capacity() > LARGEST_KEPT && size < LARGEST_KEPT {
            self.bytes = AlignedBytes::default();
        }
        // A length of many megabytes may be a lie: memory is asked for, not demanded.
        self.bytes.set_len(size).map_err(|_| too_large())?;
        self.start = start;
        storage.read_exact_at(&mut self.bytes, start).map_err(|source| {
            self.bytes.clear();
            match storage.size() {
                Ok(now) if now < start + len => Error::Shrank { opened: layout.file_bytes, now },
                _ => Error::Read { offset: start, len, source },
            }
        })
    }
}

/// A buffer that a large value made larger than this is given back at the next read.
const LARGEST_KEPT: usize = 4 << 20;
