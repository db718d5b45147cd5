//! Checks a file from its leaves up, while it is being written.
//!
//! That takes a file whose pages come one behind the other, children before parents, with a free list of no pages, as
//! [`crate::write`] makes it. Each page is read once, soon after it was written; what overwrites it later is not seen.
//! What is known of a page waits for the branch that leads to it, so memory holds about two branches per level, the
//! root of each bucket, and the largest value. What a file must be like is otherwise the same as for
//! [`check`](super::check()), but the first thing that is wrong ends it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::elements::{self, Bounds, Child, Elements};
use super::finding::{Finding, Findings, Problem};
use super::metas;
use crate::error::{Error, Fault};
use crate::file::BoltFile;
use crate::page::{Branch, HEADER_SIZE, Leaf, PageHeader, PageId, PageKind};
use crate::reader::{Layout, PageReader};
use crate::storage::Storage;

/// What is read at once, at the most: little enough to be in the processor's cache still.
const WINDOW_BYTES: u64 = 256 << 10;

/// A file that is checked while it grows.
pub struct Rising {
    reader: PageReader,
    page_size: u64,
    /// The first page that was not looked at.
    next: u64,
    /// The first page that was not fetched.
    fetched: u64,
    trees: Trees,
}

/// Why a file is not sound, or cannot be told to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsound {
    /// It cannot be read.
    #[error(transparent)]
    Read(Error),
    /// Something is wrong with it.
    #[error("{0}")]
    Found(Finding),
}

/// A bucket of a file that was found to be sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risen {
    /// Its name.
    pub name: Vec<u8>,
    /// How many entries it has on pages of its own.
    pub entries: u64,
}

impl Rising {
    /// Of `storage`, of which nothing need be written yet.
    pub fn new(storage: Arc<dyn Storage>, page_size: u32) -> Self {
        // How long it becomes is not known, and nothing is read of what was not said to be there.
        let pages = u64::MAX / u64::from(page_size);
        let reader = PageReader::new(storage, Layout { page_size, pages, file_bytes: u64::MAX });
        let first = 2;
        Self { reader, page_size: page_size.into(), next: first, fetched: first, trees: Trees::default() }
    }

    /// Looks at what has come since the last time, up to `end_bytes`, and shows `see` every leaf and its page.
    pub fn read_up_to(&mut self, end_bytes: u64, see: &mut dyn FnMut(PageId, &Leaf<'_>)) -> Result<(), Unsound> {
        let end = end_bytes / self.page_size;
        while self.next < end {
            let page = PageId(self.next);
            if self.next >= self.fetched {
                self.fetch(end)?;
            }
            let header = self.reader.header(page)?;
            let after = page.0 + u64::from(header.overflow) + 1;
            if after > end {
                // The rest of it is to come.
                return Ok(());
            }
            if after > self.fetched {
                self.fetch(end)?;
            }
            let bytes = self.reader.run_of(header)?;
            self.trees.add(header, bytes, self.page_size, see)?;
            self.next = after;
        }
        Ok(())
    }

    /// Fetches what comes next, as far as it was written.
    fn fetch(&mut self, end: u64) -> Result<(), Error> {
        let pages = (end - self.next).min((WINDOW_BYTES / self.page_size).max(1));
        self.fetched = self.next + pages;
        self.reader.fetch_ahead(PageId(self.next), pages)
    }

    /// Requires that the whole of `file`, the same that was read so far, is one tree, without gaps. Returns its buckets.
    pub fn finish(self, file: &BoltFile) -> Result<Vec<Risen>, Unsound> {
        let mut findings = Findings::default();
        metas::check(file, &mut findings)?;
        if let Some(finding) = findings.into_sorted().0.into_iter().next() {
            return Err(Unsound::Found(finding));
        }
        let (meta, by) = (file.meta(), file.newest_meta_page());
        if meta.high_water != self.next {
            let (first, last) = (meta.high_water.min(self.next), meta.high_water.max(self.next));
            return Err(found(PageId(first), Problem::Unreachable { pages: last - first }));
        }
        if meta.freelist != self.trees.freelist {
            let child = meta.freelist.or(self.trees.freelist).unwrap_or(by);
            return Err(found(by, Problem::Dangling { index: 0, child }));
        }
        self.trees.finish(meta.root, by)
    }
}

/// Trees that are not known to hang together yet.
#[derive(Default)]
struct Trees {
    /// By height, those that nothing leads to so far, in the order of the file.
    loose: Vec<VecDeque<Tree>>,
    freelist: Option<PageId>,
    buckets: Vec<Risen>,
}

/// A page and all below it.
struct Tree {
    page: PageId,
    /// The first key and the last, one behind the other.
    keys: Box<[u8]>,
    first_len: usize,
    /// Of all leaves, without buckets.
    entries: u64,
    /// Whether the leaves name buckets, as only those at the top do.
    names_buckets: bool,
}

impl Trees {
    /// Adds the next page of the file.
    fn add(
        &mut self,
        header: PageHeader,
        bytes: &[u8],
        page_size: u64,
        see: &mut dyn FnMut(PageId, &Leaf<'_>),
    ) -> Result<(), Unsound> {
        let page = header.id;
        match header.kind {
            PageKind::Leaf => {
                let leaf = Leaf::parse(page, header.count, bytes).map_err(Error::from)?;
                let elements = elements::leaf(page, &leaf, Bounds::default(), 0);
                require_none(page, &elements, bytes, page_size)?;
                see(page, &leaf);
                self.leaf(page, &elements, &leaf)
            }
            PageKind::Branch => {
                let branch = Branch::parse(page, header.count, bytes).map_err(Error::from)?;
                let elements = elements::branch(&branch, Bounds::default());
                require_none(page, &elements, bytes, page_size)?;
                self.branch(page, &elements.children)
            }
            PageKind::Freelist if self.freelist.is_none() && header.count == 0 => {
                let from = HEADER_SIZE as u64;
                if bytes.iter().skip(HEADER_SIZE).any(|&byte| byte != 0) {
                    return Err(found(page, Problem::Slack { from }));
                }
                self.freelist = Some(page);
                Ok(())
            }
            kind => Err(found(page, Fault::WrongKind { found: kind, expected: "branch or leaf" }.into())),
        }
    }

    fn leaf(&mut self, page: PageId, elements: &Elements<'_>, leaf: &Leaf<'_>) -> Result<(), Unsound> {
        let names_buckets = elements.statistics.buckets > 0;
        if let (Some(index), true) = (elements.first_pair, names_buckets) {
            return Err(found(page, Problem::PairAmongBuckets { index }));
        }
        for child in &elements.children {
            let name = child.key.unwrap_or_default().to_vec();
            let root = self.claim(page, child)?;
            self.buckets.push(Risen { name, entries: root.entries });
        }
        let first = elements.first.unwrap_or_default();
        let last = leaf.get(leaf.len().saturating_sub(1)).map_err(Error::from)?.map_or(first, |entry| entry.key);
        let entries = if names_buckets { 0 } else { elements.statistics.entries };
        self.hold(0, Tree::new(page, (first, last), entries, names_buckets));
        Ok(())
    }

    /// Takes the tree that hangs from a bucket's element.
    fn claim(&mut self, page: PageId, child: &Child<'_>) -> Result<Tree, Unsound> {
        let (height, place) = self.find(page, child)?;
        let tree = self.loose.get_mut(height).and_then(|loose| loose.remove(place));
        match tree {
            Some(tree) if !tree.names_buckets => Ok(tree),
            _ => Err(dangling(page, child)),
        }
    }

    /// Takes the trees below the branch at `page`.
    fn branch(&mut self, page: PageId, children: &[Child<'_>]) -> Result<(), Unsound> {
        let Some(leftmost) = children.first() else { return Err(found(page, Fault::EmptyBranch.into())) };
        let (height, place) = self.find(page, leftmost)?;
        let Some(loose) = self.loose.get_mut(height) else { return Err(dangling(page, leftmost)) };
        if let Some(missing) = children.get(loose.len().saturating_sub(place)) {
            return Err(dangling(page, missing));
        }
        let below: Vec<Tree> = loose.drain(place..place + children.len()).collect();
        let whole = joined(page, children, &below)?;
        self.hold(height + 1, whole);
        Ok(())
    }

    /// The height and the place of the loose tree at `child`.
    fn find(&self, page: PageId, child: &Child<'_>) -> Result<(usize, usize), Unsound> {
        // What a branch leads to has come last.
        let place = |loose: &VecDeque<Tree>| loose.iter().rposition(|tree| tree.page == child.page);
        let found = self.loose.iter().enumerate().find_map(|(height, loose)| Some((height, place(loose)?)));
        found.ok_or_else(|| dangling(page, child))
    }

    fn hold(&mut self, height: usize, tree: Tree) {
        if self.loose.len() <= height {
            self.loose.resize_with(height + 1, VecDeque::new);
        }
        if let Some(loose) = self.loose.get_mut(height) {
            loose.push_back(tree);
        }
    }

    /// Requires that all hangs from `root`, which stands on the meta page `by`.
    fn finish(self, root: PageId, by: PageId) -> Result<Vec<Risen>, Unsound> {
        let mut loose = self.loose.into_iter().flatten();
        match (loose.next(), loose.next()) {
            (Some(tree), None) if tree.page == root && tree.entries == 0 => Ok(self.buckets),
            (Some(tree), None) if tree.page == root => Err(found(root, Problem::PairAmongBuckets { index: 0 })),
            (Some(tree), Some(other)) => {
                let page = if tree.page == root { other.page } else { tree.page };
                Err(found(page, Problem::Unreachable { pages: 1 }))
            }
            _ => Err(found(by, Problem::Dangling { index: 0, child: root })),
        }
    }
}

/// What the trees `below` are together, to which the branch at `page` leads as `children`.
fn joined(page: PageId, children: &[Child<'_>], below: &[Tree]) -> Result<Tree, Unsound> {
    let (Some(first), Some(last)) = (below.first(), below.last()) else {
        return Err(found(page, Fault::EmptyBranch.into()));
    };
    for (child, tree) in children.iter().zip(below) {
        let index = child.index;
        if tree.page != child.page || tree.names_buckets != first.names_buckets {
            return Err(dangling(page, child));
        }
        if child.key != Some(tree.first()) {
            return Err(found(page, Problem::Separator { index, child: child.page }));
        }
    }
    if let Some([_, after]) = below.array_windows().find(|[before, after]| before.last() >= after.first()) {
        return Err(found(after.page, Problem::KeysOutOfOrder { index: 0 }));
    }
    let entries = below.iter().map(|tree| tree.entries).sum();
    Ok(Tree::new(page, (first.first(), last.last()), entries, first.names_buckets))
}

impl Tree {
    fn new(page: PageId, (first, last): (&[u8], &[u8]), entries: u64, names_buckets: bool) -> Self {
        Self { page, keys: [first, last].concat().into(), first_len: first.len(), entries, names_buckets }
    }

    fn first(&self) -> &[u8] {
        self.keys.get(..self.first_len).unwrap_or_default()
    }

    fn last(&self) -> &[u8] {
        self.keys.get(self.first_len..).unwrap_or_default()
    }
}

/// Requires that nothing is wrong with a page by itself.
fn require_none(page: PageId, elements: &Elements<'_>, bytes: &[u8], page_size: u64) -> Result<(), Unsound> {
    let packing = || elements.packing(bytes, bytes.len() as u64 / page_size, page_size).into_iter().next();
    let problem = elements.problems.first().cloned().or_else(packing);
    problem.map_or(Ok(()), |problem| Err(found(page, problem)))
}

fn dangling(page: PageId, child: &Child<'_>) -> Unsound {
    found(page, Problem::Dangling { index: child.index, child: child.page })
}

fn found(page: PageId, problem: Problem) -> Unsound {
    Unsound::Found(Finding { page, bucket: None, problem })
}

impl From<Error> for Unsound {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt(corrupt) => found(corrupt.page, corrupt.fault.into()),
            error => Self::Read(error),
        }
    }
}
