//! The two meta pages, and the file's size against what they say.

use crate::error::Error;
use crate::file::BoltFile;
use crate::page::{HEADER_SIZE, PageHeader, PageId, PageKind};

use super::finding::{Finding, Findings, Problem};

pub(crate) fn check(file: &BoltFile, findings: &mut Findings) -> Result<(), Error> {
    let mut note = |page, problem| findings.add(Finding { page, bucket: None, problem });
    for (page, meta) in [PageId(0), PageId(1)].into_iter().zip(file.metas().pages) {
        match meta {
            Err(fault) => note(page, Problem::Meta(fault)),
            Ok(_) => {
                if let Some(problem) = header_problem(file, page)? {
                    note(page, problem);
                }
            }
        }
    }
    let newest = file.newest_meta_page();
    if let [Ok(first), Ok(second)] = file.metas().pages
        && first.txid.abs_diff(second.txid) != 1
    {
        note(newest, Problem::MetasApart { first: first.txid, second: second.txid });
    }
    if file.meta().sequence != 0 {
        note(newest, Problem::Sequence { index: 0, sequence: file.meta().sequence });
    }
    let layout = file.layout();
    let need = file.meta().high_water.saturating_mul(u64::from(layout.page_size));
    if need > layout.file_bytes {
        let first_missing = PageId(layout.file_bytes / u64::from(layout.page_size));
        note(first_missing, Problem::FileTooShort { need, have: layout.file_bytes });
    }
    Ok(())
}

/// What is wrong with the page header of a valid meta page. Opening does not look at it.
fn header_problem(file: &BoltFile, page: PageId) -> Result<Option<Problem>, Error> {
    let offset = page.0 * u64::from(file.layout().page_size);
    let mut bytes = [0; HEADER_SIZE];
    let read = file.storage().read_exact_at(&mut bytes, offset);
    read.map_err(|source| Error::Read { offset, len: HEADER_SIZE as u64, source })?;
    Ok(match PageHeader::parse(page, &bytes) {
        Ok(PageHeader { kind: PageKind::Meta, .. }) => None,
        Ok(PageHeader { kind, .. }) => {
            Some(Problem::MetaHeader(crate::error::Fault::WrongKind { found: kind, expected: "meta" }))
        }
        Err(corrupt) => Some(Problem::MetaHeader(corrupt.fault)),
    })
}
