//! Everything that is wrong with a file, as typed findings, all of them and not the first.
//!
//! bbolt keeps no checksum of data, so a value whose bytes have changed is sound here. What is checked is what holds
//! the file together: meta pages, every page that they lead to, every key and its order, which pages are used once,
//! twice or never, and the free list. A sound file has no findings; bytes after its last page are none either.
//!
//! [`rising`] checks a file while it is written, and stops at the first finding.
//!
//! Memory is two bits per page of the file as it is, a window per thread, and a bounded number of findings. Every
//! page is read once, or twice where pages are found to be used twice, to learn by whom.

mod elements;
mod finding;
mod freelist;
mod metas;
mod page_set;
pub mod rising;
mod statistics;
mod walk;

pub use finding::{Finding, Problem, Severity};
pub use statistics::Statistics;

use crate::error::{Error, Fault};
use crate::file::BoltFile;
use crate::page::PageId;

use finding::Findings;
use page_set::PageSet;
use walk::walk;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, by page: up to a thousand findings of each severity.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub further: u64,
    /// How the pages are used.
    pub statistics: Statistics,
}

impl Report {
    /// Whether nothing is wrong at all.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// The gravest severity among the findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.problem.severity()).max()
    }
}

/// Checks all that the newest commit of `file` consists of, with `threads` workers.
///
/// Fails only if the bytes cannot be read, or if the file changes meanwhile.
pub fn check(file: &BoltFile, threads: usize) -> Result<Report, Error> {
    let mut findings = Findings::default();
    metas::check(file, &mut findings)?;

    let used = pages_of(file)?;
    let mut found = walk(file, threads, &[], &used)?;
    findings.merge(std::mem::take(&mut found.findings));
    name_users(file, threads, &found.doubled, &mut findings)?;

    let mut statistics = found.statistics;
    statistics.free_pages = match (file.meta().freelist, found.freelist) {
        (None, _) => file.layout().pages.saturating_sub(used.len()),
        (Some(list), Some(_)) => freelist::check(file, list, &used, found.lost, &mut findings)?,
        // The walk has told why it cannot be read.
        (Some(_), None) => 0,
    };
    statistics.trailing_bytes = file.layout().file_bytes.saturating_sub(file.used_bytes());

    file.require_unchanged()?;
    let (findings, further) = findings.into_sorted();
    Ok(Report { findings, further, statistics })
}

/// Walks again to learn who uses the pages that are used twice.
fn name_users(file: &BoltFile, threads: usize, doubled: &[PageId], findings: &mut Findings) -> Result<(), Error> {
    if doubled.is_empty() {
        return Ok(());
    }
    let mut doubled = doubled.to_vec();
    doubled.sort_unstable();
    doubled.dedup();
    let mut users = walk(file, threads, &doubled, &pages_of(file)?)?.users;
    users.sort_unstable();
    for page in doubled {
        let by = users.iter().filter(|(used, _)| *used == page).map(|&(_, user)| user).take(NAMED_USERS).collect();
        findings.add(Finding { page, bucket: None, problem: Problem::UsedTwice { by } });
    }
    Ok(())
}

/// Users of a page that are named.
const NAMED_USERS: usize = 8;

/// An empty set of the pages that are in use and in the file.
fn pages_of(file: &BoltFile) -> Result<PageSet, Error> {
    let layout = file.layout();
    let pages = layout.pages.min(layout.file_bytes.div_ceil(u64::from(layout.page_size)));
    PageSet::below(pages).ok_or_else(|| Fault::TooLarge { size: layout.file_bytes }.on(PageId(0)).into())
}
