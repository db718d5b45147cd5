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
use crate::page::{HEADER_SIZE, PageHeader, PageId, PageKind, u64_at};

/// Reads the free list of `file`, as it stands there; nothing if none is kept.
pub fn read(file: &BoltFile) -> Result<Option<Vec<PageId>>, Error> {
    let Some(page) = file.meta().freelist else { return Ok(None) };
    let mut reader = file.pages();
    let (header, bytes) = reader.run(page)?;
    if header.kind != PageKind::Freelist {
        return Err(Fault::WrongKind { found: header.kind, expected: "free list" }.on(page).into());
    }
    let ids = ids(header, bytes).ok_or_else(|| {
        let count = match header.count {
            u16::MAX => u64_at(bytes, HEADER_SIZE).unwrap_or_default(),
            count => u64::from(count),
        };
        Fault::FreelistTooLong { count }.on(page)
    })?;
    let id = |bytes: &[u8]| PageId(u64_at(bytes, 0).unwrap_or_default());
    Ok(Some(ids.chunks_exact(8).map(id).collect()))
}

/// The bytes of the ids, if all are there.
fn ids(header: PageHeader, bytes: &[u8]) -> Option<&[u8]> {
    let (count, start) = match header.count {
        u16::MAX => (usize::try_from(u64_at(bytes, HEADER_SIZE)?).ok()?, HEADER_SIZE + 8),
        count => (usize::from(count), HEADER_SIZE),
    };
    bytes.get(start..start.checked_add(count.checked_mul(8)?)?)
}
