//! Hands out page ids and writes each page once, in order.

use std::io;

use super::WriteError;
use super::node::{Element, Node, encode_head};
use crate::meta::Meta;
use crate::page::{HEADER_SIZE, PageHeader, PageId, PageKind};
use crate::sink::Sink;

/// The pages of a new file, as they come.
pub(super) struct Pages<S> {
    out: Out<S>,
    page_size: usize,
    next: PageId,
    /// Header and table of the page being written.
    head: Vec<u8>,
    zeros: Vec<u8>,
}

/// A sink that is left alone once it has failed: nobody knows what it holds, so no meta page may follow.
struct Out<S> {
    sink: S,
    failed: bool,
}

/// Pages 0 and 1 are written last.
const FIRST_PAGE: PageId = PageId(2);

impl<S: Sink> Pages<S> {
    pub(super) fn new(sink: S, page_size: u32) -> Self {
        let page_size = page_size as usize;
        let out = Out { sink, failed: false };
        Self { out, page_size, next: FIRST_PAGE, head: Vec::new(), zeros: vec![0; page_size] }
    }

    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    /// The first page that was not written.
    pub(super) fn high_water(&self) -> u64 {
        self.next.0
    }

    /// Writes a list of no free pages.
    pub(super) fn write_freelist(&mut self) -> Result<PageId, WriteError> {
        let header = PageHeader { id: self.next, kind: PageKind::Freelist, count: 0, overflow: 0 };
        self.head.clear();
        self.head.extend_from_slice(&header.encode());
        self.write_run(&[])
    }

    /// Writes `node`.
    pub(super) fn write_node(&mut self, node: &Node) -> Result<PageId, WriteError> {
        let overflow = self.overflow(node.size());
        self.head.clear();
        node.encode_head(self.next, overflow, &mut self.head);
        self.write_run(&[node.data()])
    }

    /// Writes a leaf that holds nothing but `key` and `value`, which are not copied on the way.
    pub(super) fn write_alone(&mut self, element: Element, key: &[u8], value: &[u8]) -> Result<PageId, WriteError> {
        let overflow = self.overflow(HEADER_SIZE + element.size());
        self.head.clear();
        encode_head(&[element], self.next, overflow, &mut self.head);
        self.write_run(&[key, value])
    }

    /// Makes the pages last, and only then says where they are.
    pub(super) fn commit(mut self, metas: [Meta; 2]) -> Result<(), WriteError> {
        self.out.sync("syncing the pages")?;
        let mut bytes = Vec::with_capacity(2 * self.page_size);
        for (page, meta) in (0..).zip(metas) {
            bytes.extend_from_slice(&meta.encode(PageId(page)));
            bytes.resize(bytes.len().next_multiple_of(self.page_size), 0);
        }
        self.out.write("writing the meta pages", &bytes, 0)?;
        self.out.sync("syncing the meta pages")
    }

    /// The pages that `size` bytes take beyond the first.
    fn overflow(&self, size: usize) -> u32 {
        size.div_ceil(self.page_size).saturating_sub(1) as u32
    }

    /// Writes the head and `parts` one behind the other, and zeros up to the end of the last page.
    fn write_run(&mut self, parts: &[&[u8]]) -> Result<PageId, WriteError> {
        let id = self.next;
        let page_size = self.page_size as u64;
        let mut offset = id.0 * page_size;
        for bytes in std::iter::once(&self.head.as_slice()).chain(parts) {
            self.out.write("writing a page", bytes, offset)?;
            offset += bytes.len() as u64;
        }
        let padding = offset.next_multiple_of(page_size) - offset;
        let zeros = self.zeros.get(..padding as usize).unwrap_or_default();
        self.out.write("writing a page", zeros, offset)?;
        self.next = PageId((offset + padding) / page_size);
        Ok(id)
    }
}

impl<S: Sink> Out<S> {
    fn write(&mut self, doing: &'static str, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.attempt(doing, |sink| sink.write_all_at(bytes, offset))
    }

    fn sync(&mut self, doing: &'static str) -> Result<(), WriteError> {
        self.attempt(doing, S::sync)
    }

    fn attempt(&mut self, doing: &'static str, what: impl FnOnce(&mut S) -> io::Result<()>) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::Failed);
        }
        what(&mut self.sink).map_err(|source| {
            self.failed = true;
            WriteError::Io { doing, source }
        })
    }
}
