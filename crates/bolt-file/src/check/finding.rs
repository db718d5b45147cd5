//! What can be wrong with a whole file, one fact each.

use std::fmt;
use std::sync::Arc;

use crate::error::Fault;
use crate::meta::MetaFault;
use crate::page::{MAX_KEY_SIZE, PageId};

/// One thing that is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The page that shows it.
    pub page: PageId,
    /// The beginning of the name of the top-level bucket that the page belongs to, if it is known to be in one.
    pub bucket: Option<Arc<[u8]>>,
    /// What is wrong.
    pub problem: Problem,
}

/// How much a finding matters to a server that opens the file and writes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No version writes this, but nothing goes wrong with it.
    Harmless,
    /// The file contradicts itself, or a safeguard is gone; a server may get by.
    Unsound,
    /// A server crashes on it, reads wrong data, or destroys more when it writes.
    Fatal,
}

/// One way in which a file can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The page cannot be read as what it should be.
    #[error(transparent)]
    Page(#[from] Fault),

    /// A meta page is invalid; the other one stands in for it. Torn writes leave the newest like this.
    #[error("{0}")]
    Meta(MetaFault),
    /// The page header of a meta page is wrong, though its content is valid.
    #[error("header of a meta page: {0}")]
    MetaHeader(Fault),
    /// The two meta pages are not one transaction apart.
    #[error("the meta pages are of transactions {first} and {second}")]
    MetasApart {
        /// The transaction of page 0.
        first: u64,
        /// The transaction of page 1.
        second: u64,
    },
    /// The file ends before the last page in use.
    #[error("the file has {have} bytes, its pages need {need}")]
    FileTooShort {
        /// The bytes up to the high-water mark.
        need: u64,
        /// The bytes there are.
        have: u64,
    },

    /// A reference leads to no page that could be in a tree.
    #[error("element {index} leads to page {child}, which is no page of a tree")]
    Dangling {
        /// Which element; 0 on a meta page.
        index: u32,
        /// Where it leads.
        child: PageId,
    },
    /// The page is used more than once.
    #[error("used more than once, by pages {}", list(by))]
    UsedTwice {
        /// The pages that refer to it or overflow into it, a few of them.
        by: Vec<PageId>,
    },
    /// Pages from this one on are used, and are in the free list.
    #[error("in use and in the free list ({pages} in a row)")]
    FreeInUse {
        /// How many.
        pages: u64,
    },
    /// Pages from this one on are neither used nor free. Said only if every page that is used could be read.
    #[error("neither in use nor free ({pages} in a row)")]
    Unreachable {
        /// How many.
        pages: u64,
    },
    /// The free list names a page that cannot be free.
    #[error("the free list names page {id}, which cannot be free")]
    FreelistId {
        /// The page it names.
        id: PageId,
    },
    /// The free list names a page twice.
    #[error("the free list names page {id} more than once")]
    FreelistDoubled {
        /// The page it names.
        id: PageId,
    },
    /// The free list is not sorted.
    #[error("the free list is out of order at {index}")]
    FreelistUnsorted {
        /// The first id that is smaller than the one before it.
        index: u64,
    },

    /// A key is not greater than the one before it.
    #[error("key {index} is not greater than the one before it")]
    KeysOutOfOrder {
        /// Which element.
        index: u32,
    },
    /// A key belongs on a page further on, by what the branches above say.
    #[error("key {index} reaches past what the branches above allow")]
    KeyPastBound {
        /// The first such element.
        index: u32,
    },
    /// The key of a branch is not the first key of the child.
    #[error("key {index} is not the first key of page {child}, to which it leads")]
    Separator {
        /// Which element.
        index: u32,
        /// Where it leads.
        child: PageId,
    },
    /// A branch with a single child.
    #[error("a branch with a single child")]
    OneChild,
    /// A leaf without entries below a branch.
    #[error("an empty leaf below a branch")]
    EmptyLeaf,
    /// Keys and values are not packed in the order of the elements.
    #[error("element {index} begins at byte {start}, not at {expected}")]
    Misplaced {
        /// Which element.
        index: u32,
        /// Where its key begins.
        start: u64,
        /// Where the one before it ended.
        expected: u64,
    },
    /// The page has more overflow than its elements need.
    #[error("{pages} pages of overflow are not needed")]
    OverflowTooLong {
        /// How many.
        pages: u64,
    },
    /// Something other than zeros follows the last element.
    #[error("bytes after the last element, from {from} on, are not zero")]
    Slack {
        /// Where the last element ends.
        from: u64,
    },
    /// A key with a value stands where there can only be buckets, at the top.
    #[error("element {index} is no bucket")]
    PairAmongBuckets {
        /// The first such element.
        index: u32,
    },
    /// A bucket with pages of its own has more in its value than a header.
    #[error("the header of bucket {index} is followed by {bytes} bytes")]
    BucketTail {
        /// Which element.
        index: u32,
        /// How many.
        bytes: usize,
    },
    /// The sequence of a bucket is in use.
    #[error("bucket {index} has the sequence {sequence}")]
    Sequence {
        /// Which element; 0 on a meta page.
        index: u32,
        /// What stands there.
        sequence: u64,
    },
    /// Something is wrong inside an inline bucket on this page.
    #[error("inline bucket {index}: {problem}")]
    Inline {
        /// The element that holds the bucket.
        index: u32,
        /// What is wrong in it.
        problem: Box<Problem>,
    },
}

impl Problem {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Page(fault) => fault_severity(fault),
            Self::Inline { problem, .. } => problem.severity(),
            Self::Dangling { .. }
            | Self::FileTooShort { .. }
            | Self::UsedTwice { .. }
            | Self::FreeInUse { .. }
            | Self::FreelistId { .. }
            | Self::FreelistDoubled { .. }
            | Self::KeysOutOfOrder { .. }
            | Self::KeyPastBound { .. }
            | Self::Separator { .. }
            | Self::PairAmongBuckets { .. }
            | Self::OneChild => Severity::Fatal,
            Self::Meta(_)
            | Self::MetaHeader(_)
            | Self::Unreachable { .. }
            | Self::EmptyLeaf
            | Self::Misplaced { .. } => Severity::Unsound,
            Self::MetasApart { .. }
            | Self::FreelistUnsorted { .. }
            | Self::OverflowTooLong { .. }
            | Self::Slack { .. }
            | Self::BucketTail { .. }
            | Self::Sequence { .. } => Severity::Harmless,
        }
    }
}

/// bbolt ignores flags that it does not know, and refuses long keys only when they are put.
fn fault_severity(fault: &Fault) -> Severity {
    match fault {
        Fault::ElementFlags { .. } => Severity::Unsound,
        Fault::KeyLength { len, .. } if *len > MAX_KEY_SIZE => Severity::Unsound,
        _ => Severity::Fatal,
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bucket {
            Some(name) => write!(f, "page {}, bucket {}: {}", self.page, name.escape_ascii(), self.problem),
            None => write!(f, "page {}: {}", self.page, self.problem),
        }
    }
}

fn list(pages: &[PageId]) -> String {
    pages.iter().map(PageId::to_string).collect::<Vec<_>>().join(", ")
}

/// Findings as they come, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<Finding>,
    counts: [u64; 3],
}

/// Findings of each severity that are kept; the others are only counted.
pub(crate) const KEPT: u64 = 1000;

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        if let Some(count) = self.counts.get_mut(finding.problem.severity() as usize) {
            *count += 1;
            if *count <= KEPT {
                self.kept.push(finding);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        let dropped = other.dropped_of_each();
        for finding in other.kept {
            self.add(finding);
        }
        for (count, dropped) in self.counts.iter_mut().zip(dropped) {
            *count += dropped;
        }
    }

    /// What was kept, by page, and how many others there were.
    pub(crate) fn into_sorted(mut self) -> (Vec<Finding>, u64) {
        let dropped = self.dropped_of_each().iter().sum();
        self.kept.sort_by_key(|finding| finding.page);
        (self.kept, dropped)
    }

    fn dropped_of_each(&self) -> [u64; 3] {
        self.counts.map(|count| count.saturating_sub(KEPT))
    }
}
