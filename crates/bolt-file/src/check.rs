//! Everything that is wrong with a file, as typed findings, all of them and not the first.
//!
//! bbolt keeps no checksum of data, so a value whose bytes have changed is sound here. What is checked is what holds
//! the file together: meta pages, every page that they lead to, every key and its order, which pages are used once,
//! twice or never, and the free list. A sound file has no findings; bytes after its last page are none either.
//!
//! Memory is two bits per page of the file as it is, a window per thread, and a bounded number of findings. Every
//! page is read once, or twice where pages are found to be used twice, to learn by whom.

mod elements;
mod finding;
mod freelist;
mod metas;
mod page_set;
mod statistics;
mod walk;

pub use finding::{Finding, Problem, Severity};
pub use statistics::Statistics;

use crate::error::{Error, Fault};
use crate::file::BoltFile;
use crate::page::{Leaf, PageId};

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

/// Who looks at the leaves of a file while they are checked, so that they need not be read once more.
pub trait Witness: Sync {
    /// What it makes of neighbouring leaves.
    type Seen: Default + Send;

    /// Looks at a leaf, which need not be sound, of the top bucket called `bucket` or of what is nested in that; of none
    /// where the names of the buckets are. The leaves of a bucket of a sound file come in the order of their keys.
    fn leaf(&self, bucket: Option<&[u8]>, leaf: &Leaf<'_>, seen: &mut Self::Seen);
}

/// Nobody looks.
struct Nobody;

impl Witness for Nobody {
    type Seen = ();

    fn leaf(&self, _: Option<&[u8]>, _: &Leaf<'_>, (): &mut ()) {}
}

/// Checks all that the newest commit of `file` consists of, with `threads` workers.
///
/// Fails only if the bytes cannot be read, or if the file changes meanwhile.
pub fn check(file: &BoltFile, threads: usize) -> Result<Report, Error> {
    check_before(file, threads, &Nobody, |()| {})
}

/// Like [`check`], with a `witness`. What it makes of the leaves reaches `take` in their order.
pub fn check_before<W: Witness>(
    file: &BoltFile,
    threads: usize,
    witness: &W,
    mut take: impl FnMut(W::Seen),
) -> Result<Report, Error> {
    let mut findings = Findings::default();
    metas::check(file, &mut findings)?;

    let used = pages_of(file)?;
    let mut found = walk(file, threads, &[], &used, witness, &mut take)?;
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
    let mut users = walk(file, threads, &doubled, &pages_of(file)?, &Nobody, &mut |()| {})?.users;
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
