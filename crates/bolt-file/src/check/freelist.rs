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
    let ids = match freelist::read(file) {
        Ok(ids) => ids.into_iter().flatten().enumerate(),
        Err(Error::Corrupt(corrupt)) => {
            note(corrupt.page, corrupt.fault.into());
            return Ok(0);
        }
        Err(error) => return Err(error),
    };
    let (mut before, mut is_sorted) = (PageId(0), true);
    for (index, id) in ids {
        let id = match id {
            Ok(id) => id,
            Err(Error::Corrupt(corrupt)) => {
                note(corrupt.page, corrupt.fault.into());
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
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
    for (page, pages) in runs(2, used.limit(), |page| used.contains(page) && free.contains(page)) {
        note(page, Problem::FreeInUse { pages });
    }
    let unreachable = |page: PageId| !used.contains(page) && !free.contains(page);
    for (page, pages) in runs(2, used.limit(), unreachable).take_while(|_| !lost) {
        note(page, Problem::Unreachable { pages });
    }
    Ok(free.len())
}
