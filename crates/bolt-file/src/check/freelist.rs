//! The free list against reality.

use crate::error::Error;
use crate::file::BoltFile;
use crate::freelist;
use crate::page::PageId;

use super::finding::{Finding, Findings, Problem};
use super::page_set::{PageSet, runs};
use super::pages_of;

/// Holds the free list at page `list` against the pages in use, and counts its pages. If some pages in use are `lost`,
/// pages that nothing leads to are not told.
pub(crate) fn check(
    file: &BoltFile,
    list: PageId,
    used: &PageSet,
    lost: bool,
    findings: &mut Findings,
) -> Result<u64, Error> {
    let free = pages_of(file)?;
    let mut note = |page, problem| findings.add(Finding { page, bucket: None, problem });
    match take_ids(file, list, &free, &mut note) {
        Ok(()) => {}
        Err(Error::Corrupt(corrupt)) => {
            note(corrupt.page, corrupt.fault.into());
            return Ok(0);
        }
        Err(error) => return Err(error),
    }
    for (page, pages) in runs(2, used.limit(), |page| used.contains(page) && free.contains(page)) {
        note(page, Problem::FreeInUse { pages });
    }
    let unreachable = |page: PageId| !used.contains(page) && !free.contains(page);
    for (page, pages) in runs(2, used.limit(), unreachable).take_while(|_| !lost) {
        note(page, Problem::Unreachable { pages });
    }
    Ok(free.len())
}

/// Adds the pages on the list to those that are `free`.
fn take_ids(
    file: &BoltFile,
    list: PageId,
    free: &PageSet,
    note: &mut impl FnMut(PageId, Problem),
) -> Result<(), Error> {
    let (mut before, mut is_sorted) = (PageId(0), true);
    for (index, id) in freelist::read(file)?.into_iter().flatten().enumerate() {
        let id = id?;
        if before > id && is_sorted {
            is_sorted = false;
            note(list, Problem::FreelistUnsorted { index: index as u64 });
        }
        before = id;
        if id.0 < 2 || id.0 >= file.layout().pages {
            note(list, Problem::FreelistId { id });
        } else if !free.insert(id) && id.0 < free.limit() {
            note(list, Problem::FreelistDoubled { id });
        }
    }
    Ok(())
}
