//! The pages that a file says are free.
//!
//! | offset | size  | field, from the page's start                                             |
//! |--------|-------|--------------------------------------------------------------------------|
//! | 0      | 16    | page header, kind free list; count 0xFFFF means that the next field is it |
//! | 16     | 8     | the true count, only if the header's is 0xFFFF                            |
//! | 16, 24 | 8 × n | ids of free pages, ascending                                              |
//!
//! etcd keeps no free list on disk: what its trees do not reach is free.

use crate::error::{Error, Fault};
use crate::file::BoltFile;
use crate::page::{HEADER_SIZE, PageId, PageKind, u64_at};
use crate::reader::PageReader;

/// The free list of `file`, as it stands there; nothing if none is kept.
pub fn read(file: &BoltFile) -> Result<Option<FreePages>, Error> {
    let Some(page) = file.meta().freelist else { return Ok(None) };
    let page_size = u64::from(file.layout().page_size);
    let mut reader = file.pages();
    let header = reader.header(page)?;
    if header.kind != PageKind::Freelist {
        return Err(Fault::WrongKind { found: header.kind, expected: "free list" }.on(page).into());
    }
    let start = page.0 * page_size;
    let (count, ids) = match header.count {
        u16::MAX => {
            let bytes = reader.fetch(page, start, page_size)?;
            (u64_at(bytes, HEADER_SIZE).unwrap_or_default(), HEADER_SIZE as u64 + 8)
        }
        count => (u64::from(count), HEADER_SIZE as u64),
    };
    let room = (u64::from(header.overflow) + 1) * page_size - ids;
    if count > room / 8 {
        return Err(Fault::FreelistTooLong { count }.on(page).into());
    }
    Ok(Some(FreePages { reader, page, begin: start + ids, next: start + ids, end: start + ids + count * 8 }))
}

/// The ids on a free list, in the order in which they stand there. They are read little by little: a list that says it is
/// large may be a hole in a file.
pub struct FreePages {
    reader: PageReader,
    page: PageId,
    /// Where the first id stands, where the next, and where they end.
    begin: u64,
    next: u64,
    end: u64,
}

/// So much is read at once.
const WINDOW_BYTES: u64 = 64 << 10;

impl Iterator for FreePages {
    type Item = Result<PageId, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let inside = (self.next - self.begin) % WINDOW_BYTES;
        let window = self.next - inside;
        match self.reader.fetch(self.page, window, WINDOW_BYTES.min(self.end - window)) {
            Ok(bytes) => {
                self.next += 8;
                Some(Ok(PageId(u64_at(bytes, inside as usize).unwrap_or_default())))
            }
            Err(error) => {
                self.next = self.end;
                Some(Err(error))
            }
        }
    }
}
