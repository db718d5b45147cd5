//! Walks everything that the newest meta page leads to, each page once.
//!
//! The caller's thread walks down to the branches just above the leaves and hands those on as spans; workers take
//! the spans of a batch in turn. A page is claimed when a reference to it is met, before it is read, so that circles
//! end there and no page is read for two references.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cursor::MAX_DEPTH;
use crate::error::{Corrupt, Error, Fault};
use crate::file::BoltFile;
use crate::page::{Branch, Leaf, MAX_KEY_SIZE, PageHeader, PageId, PageKind};
use crate::reader::{Layout, PageReader};
use crate::scan::{in_order, neighbours};

use super::elements::{self, Bounds, Child, Elements};
use super::finding::{Finding, Findings, KEPT, Problem};
use super::page_set::PageSet;
use super::statistics::Statistics;

/// What a walk found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) findings: Findings,
    pub(crate) statistics: Statistics,
    /// Pages that a second reference was met to, some of them.
    pub(crate) doubled: Vec<PageId>,
    /// Users of the watched pages, as they are met.
    pub(crate) users: Vec<(PageId, PageId)>,
    /// The header of the free list, if it could be read.
    pub(crate) freelist: Option<PageHeader>,
    /// Whether a page could not be followed, so that more may be in use than was reached.
    pub(crate) lost: bool,
}

impl Found {
    /// Takes over what `other` found.
    fn merge(&mut self, other: Self) {
        self.findings.merge(other.findings);
        self.statistics.add(other.statistics);
        extend(&mut self.doubled, other.doubled);
        extend(&mut self.users, other.users);
        self.lost |= other.lost;
    }
}

/// Adds to a list of which only the first thousand matter.
fn extend<T>(list: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    let room = (KEPT as usize).saturating_sub(list.len());
    list.extend(more.into_iter().take(room));
}

/// Walks `file` with `threads` workers, and notes who uses the `watched` pages, which are sorted. The pages in use go
/// into `used`, which is empty.
pub(crate) fn walk(file: &BoltFile, threads: usize, watched: &[PageId], used: &PageSet) -> Result<Found, Error> {
    let shared = Shared { file, watched, used };
    let spans = Spans { threads, waiting: Vec::new(), key_bytes: 0 };
    let mut walker = Walker::new(&shared, Some(spans));
    used.insert(PageId(0));
    used.insert(PageId(1));
    let meta = file.meta();
    let by = Reference { page: file.newest_meta_page(), index: 0 };
    if let Some(page) = meta.freelist {
        walker.freelist(page, by)?;
    }
    if walker.claim(meta.root, by) {
        walker.tree(Place { page: meta.root, by, bounds: Bounds::default(), depth: 0 }, usize::MAX)?;
    }
    walker.work_off_spans()?;
    Ok(walker.found)
}

struct Shared<'f> {
    file: &'f BoltFile,
    watched: &'f [PageId],
    used: &'f PageSet,
}

/// Where a reference to a page stands.
#[derive(Debug, Clone, Copy)]
struct Reference {
    page: PageId,
    index: u32,
}

/// A page to visit, and what is known about it from above. It has been claimed.
#[derive(Clone, Copy)]
struct Place<'k> {
    page: PageId,
    by: Reference,
    bounds: Bounds<'k>,
    depth: usize,
}

/// A subtree for a worker.
struct Span {
    page: PageId,
    by: Reference,
    first: Option<Box<[u8]>>,
    end: Option<Box<[u8]>>,
    depth: usize,
    bucket: Option<Arc<[u8]>>,
}

/// Subtrees that wait for workers.
struct Spans {
    threads: usize,
    waiting: Vec<Span>,
    key_bytes: usize,
}

/// Spans in a batch: many more than there are cores, and few enough to forget their keys soon.
const BATCH: usize = 256;
/// Bytes of keys in a batch, after which it is full.
const BATCH_KEY_BYTES: usize = 1 << 20;
/// bbolt splits branches of more than four keys at the page size.
const MAX_BRANCH_BYTES: u64 = 5 * (MAX_KEY_SIZE as u64 + 16);
/// What is kept of a bucket's name.
const NAME_BYTES: usize = 256;

struct Walker<'f> {
    shared: &'f Shared<'f>,
    layout: Layout,
    reader: PageReader,
    found: Found,
    bucket: Option<Arc<[u8]>>,
    /// Where subtrees are handed on; who does not have it walks alone.
    spans: Option<Spans>,
}

impl<'f> Walker<'f> {
    fn new(shared: &'f Shared<'f>, spans: Option<Spans>) -> Self {
        let (layout, reader) = (shared.file.layout(), shared.file.pages());
        Self { shared, layout, reader, found: Found::default(), bucket: None, spans }
    }

    /// Visits a page and all below it. `height` is the levels that there seem to be.
    fn tree(&mut self, place: Place<'_>, height: usize) -> Result<(), Error> {
        if height <= 2 && self.spans.is_some() {
            return self.hand_on(place);
        }
        if place.depth >= MAX_DEPTH {
            self.lose(place.page, Fault::TooDeep { limit: MAX_DEPTH });
            return Ok(());
        }
        let Some(header) = self.enter(place.page)? else { return Ok(()) };
        match header.kind {
            PageKind::Leaf => self.leaf(place, header),
            PageKind::Branch => self.branch(place, header, height),
            found => {
                self.lose(place.page, Fault::WrongKind { found, expected: "branch or leaf" });
                Ok(())
            }
        }
    }

    fn leaf(&mut self, place: Place<'_>, header: PageHeader) -> Result<(), Error> {
        let bytes = match self.reader.run(place.page) {
            Ok((_, bytes)) => bytes,
            Err(Error::Corrupt(corrupt)) => {
                self.lose(place.page, corrupt.fault);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let leaf = match Leaf::parse(place.page, header.count, bytes) {
            Ok(leaf) => leaf,
            Err(corrupt) => {
                self.lose(place.page, corrupt.fault);
                return Ok(());
            }
        };
        let found = elements::leaf(place.page, &leaf, place.bounds, place.depth);
        let judged = Judged::new(place, header, &found, bytes, self.layout.page_size.into());
        let below_branch = place.bounds.first.is_some();
        // The names must outlive the reader's window.
        let own = |child: &Child<'_>| (child.index, child.page, self.bucket.is_none().then(|| name_of(child)));
        let buckets: Vec<_> = found.children.iter().map(own).collect();

        self.found.statistics.leaf_pages += 1;
        self.found.statistics.leaf_bytes += found.used;
        let first_pair = found.first_pair.filter(|_| self.bucket.is_none());
        let (problems, statistics, lost) = (found.problems, found.statistics, found.lost);
        self.take(place, problems, statistics, lost, judged);
        if let Some(index) = first_pair {
            self.note(place.page, Problem::PairAmongBuckets { index });
        }
        if header.count == 0 && below_branch {
            self.note(place.page, Problem::EmptyLeaf);
        }
        for (index, root, name) in buckets {
            self.bucket(Reference { page: place.page, index }, root, name, place.depth + 1)?;
        }
        Ok(())
    }

    fn branch(&mut self, place: Place<'_>, header: PageHeader, height: usize) -> Result<(), Error> {
        if let Err(corrupt) = self.require_branch_size(header) {
            self.lose(place.page, corrupt.fault);
            return Ok(());
        }
        let bytes = match self.reader.run(place.page) {
            Ok((_, bytes)) => bytes.to_vec(),
            Err(Error::Corrupt(corrupt)) => {
                self.lose(place.page, corrupt.fault);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let branch = match Branch::parse(place.page, header.count, &bytes) {
            Ok(branch) => branch,
            Err(corrupt) => {
                self.lose(place.page, corrupt.fault);
                return Ok(());
            }
        };
        let found = elements::branch(&branch, place.bounds);
        let judged = Judged::new(place, header, &found, &bytes, self.layout.page_size.into());
        self.found.statistics.branch_pages += 1;
        self.found.statistics.branch_bytes += found.used;
        self.take(place, found.problems, found.statistics, found.lost, judged);
        self.children(place, &found.children, height.saturating_sub(1))
    }

    /// Visits what a branch leads to, neighbours in the file together.
    fn children(&mut self, place: Place<'_>, children: &[Child<'_>], height: usize) -> Result<(), Error> {
        let ends = children.iter().skip(1).map(|next| next.key).chain([place.bounds.end]);
        let by = |child: &Child<'_>| Reference { page: place.page, index: child.index };
        let fresh: Vec<_> = children.iter().zip(ends).filter(|(child, _)| self.claim(child.page, by(child))).collect();
        let pages: Vec<PageId> = fresh.iter().map(|(child, _)| child.page).collect();
        let mut fresh = fresh.into_iter();
        for (group, pages) in neighbours(&pages, u64::from(self.layout.page_size)) {
            if let (None, [first, _, ..]) = (&self.spans, group) {
                self.fetch_ahead(*first, pages)?;
            }
            for (child, end) in fresh.by_ref().take(group.len()) {
                let bounds = Bounds { first: child.key, end };
                self.tree(Place { page: child.page, by: by(child), bounds, depth: place.depth + 1 }, height)?;
            }
        }
        Ok(())
    }

    /// Visits the tree of a bucket; `name` if it is one of the top.
    fn bucket(&mut self, by: Reference, root: PageId, name: Option<Arc<[u8]>>, depth: usize) -> Result<(), Error> {
        let inside = name.is_some();
        if inside {
            self.bucket = name;
        }
        if self.claim(root, by) {
            let height = if self.spans.is_some() { self.height(root)? } else { usize::MAX };
            self.tree(Place { page: root, by, bounds: Bounds::default(), depth }, height)?;
        }
        if inside {
            self.bucket = None;
        }
        Ok(())
    }

    /// The levels of the tree at `root` along its first children, as far as they are new.
    fn height(&mut self, root: PageId) -> Result<usize, Error> {
        let mut page = root;
        for height in 1..MAX_DEPTH {
            match self.first_child(page) {
                Ok(Some(child)) if !self.shared.used.contains(child) => page = child,
                Ok(_) | Err(Error::Corrupt(_)) => return Ok(height),
                Err(error) => return Err(error),
            }
        }
        Ok(MAX_DEPTH)
    }

    /// The first child of `page`, if that is a branch.
    fn first_child(&mut self, page: PageId) -> Result<Option<PageId>, Error> {
        let header = self.reader.header(page)?;
        if header.kind != PageKind::Branch {
            return Ok(None);
        }
        self.require_branch_size(header)?;
        let (_, bytes) = self.reader.run(page)?;
        Ok(Branch::parse(page, header.count, bytes)?.get(0)?.map(|(_, child)| child))
    }

    fn require_branch_size(&self, header: PageHeader) -> Result<(), Corrupt> {
        let page_size = u64::from(self.layout.page_size);
        let size = (u64::from(header.overflow) + 1) * page_size;
        if header.overflow > 0 && size > MAX_BRANCH_BYTES + page_size {
            return Err(Fault::TooLarge { size }.on(header.id));
        }
        Ok(())
    }

    /// The free list's own pages. What stands on them is another matter.
    fn freelist(&mut self, page: PageId, by: Reference) -> Result<(), Error> {
        if !self.claim(page, by) {
            return Ok(());
        }
        self.found.freelist = self.enter(page)?;
        if let Some(header) = self.found.freelist {
            self.found.statistics.freelist_pages += u64::from(header.overflow) + 1;
            self.found.statistics.overflow_pages -= u64::from(header.overflow);
        }
        Ok(())
    }

    /// Claims `page`, to which `by` refers. False if there is nothing to visit.
    fn claim(&mut self, page: PageId, by: Reference) -> bool {
        if page.0 < 2 || page.0 >= self.layout.pages {
            self.found.lost = true;
            self.note(by.page, Problem::Dangling { index: by.index, child: page });
            return false;
        }
        if page.0 >= self.shared.used.limit() {
            let size = u64::from(self.layout.page_size);
            let have = self.layout.file_bytes.saturating_sub(page.0 * size);
            self.lose(page, Fault::CutShort { need: size, have });
            return false;
        }
        self.occupy(page, by.page)
    }

    /// Marks `page` as used. False if it was before.
    fn occupy(&mut self, page: PageId, user: PageId) -> bool {
        if self.shared.watched.binary_search(&page).is_ok() {
            extend(&mut self.found.users, [(page, user)]);
        }
        let new = self.shared.used.insert(page);
        if !new {
            extend(&mut self.found.doubled, [page]);
        }
        new
    }

    /// Reads the header of a claimed page and claims its overflow. Nothing if the page cannot be read.
    fn enter(&mut self, page: PageId) -> Result<Option<PageHeader>, Error> {
        let header = match self.reader.header(page) {
            Ok(header) => header,
            Err(Error::Corrupt(corrupt)) => {
                self.lose(page, corrupt.fault);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let pages = u64::from(header.overflow) + 1;
        // The header was in bounds, so the sum is one that is too.
        let last = page.0 + pages - 1;
        if last >= self.shared.used.limit() {
            let (need, start) = (pages * u64::from(self.layout.page_size), page.0 * u64::from(self.layout.page_size));
            let have = self.layout.file_bytes.saturating_sub(start);
            self.lose(page, Fault::CutShort { need, have });
            return Ok(None);
        }
        for overflow in page.0 + 1..=last {
            if !self.occupy(PageId(overflow), page) {
                self.found.lost = true;
                return Ok(None);
            }
        }
        self.found.statistics.overflow_pages += pages - 1;
        Ok(Some(header))
    }

    fn fetch_ahead(&mut self, first: PageId, pages: u64) -> Result<(), Error> {
        match self.reader.fetch_ahead(first, pages) {
            // Each page tells for itself when it is visited.
            Err(Error::Corrupt(_)) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, place: Place<'_>, problems: Vec<Problem>, mut counted: Statistics, lost: bool, judged: Judged) {
        counted.depth = place.depth as u64 + 1;
        self.found.statistics.add(counted);
        self.found.lost |= lost;
        for problem in problems.into_iter().chain(judged.on_page) {
            self.note(place.page, problem);
        }
        if let Some(problem) = judged.on_parent {
            self.note(place.by.page, problem);
        }
    }

    fn lose(&mut self, page: PageId, fault: Fault) {
        self.found.lost = true;
        self.note(page, fault.into());
    }

    fn note(&mut self, page: PageId, problem: Problem) {
        self.found.findings.add(Finding { page, bucket: self.bucket.clone(), problem });
    }

    /// Leaves a subtree to the workers.
    fn hand_on(&mut self, place: Place<'_>) -> Result<(), Error> {
        let Place { page, by, bounds, depth } = place;
        let Some(spans) = &mut self.spans else { return Ok(()) };
        let (first, end) = (bounds.first.map(Box::from), bounds.end.map(Box::from));
        spans.key_bytes += bounds.first.map_or(0, <[u8]>::len) + bounds.end.map_or(0, <[u8]>::len);
        spans.waiting.push(Span { page, by, first, end, depth, bucket: self.bucket.clone() });
        if spans.waiting.len() < BATCH && spans.key_bytes < BATCH_KEY_BYTES {
            return Ok(());
        }
        self.work_off_spans()
    }

    fn work_off_spans(&mut self) -> Result<(), Error> {
        let Some(spans) = &mut self.spans else { return Ok(()) };
        let batch = std::mem::take(&mut spans.waiting);
        spans.key_bytes = 0;
        let (shared, found) = (self.shared, &mut self.found);
        in_order(
            &batch,
            spans.threads,
            || Walker::new(shared, None),
            |walker, span, emit| {
                walker.bucket.clone_from(&span.bucket);
                let bounds = Bounds { first: span.first.as_deref(), end: span.end.as_deref() };
                walker.tree(Place { page: span.page, by: span.by, bounds, depth: span.depth }, usize::MAX)?;
                let _ = emit(std::mem::take(&mut walker.found));
                Ok(())
            },
            |part| {
                found.merge(part);
                Ok(ControlFlow::Continue(()))
            },
        )
    }
}

/// What a page as a whole shows to be wrong.
struct Judged {
    on_page: Vec<Problem>,
    on_parent: Option<Problem>,
}

impl Judged {
    fn new(place: Place<'_>, header: PageHeader, found: &Elements<'_>, bytes: &[u8], page_size: u64) -> Self {
        let separates = found.first.is_none() || place.bounds.first.is_none_or(|first| found.first == Some(first));
        let on_parent = (!separates).then_some(Problem::Separator { index: place.by.index, child: place.page });
        Self { on_page: found.packing(bytes, u64::from(header.overflow) + 1, page_size), on_parent }
    }
}

fn name_of(child: &Child<'_>) -> Arc<[u8]> {
    let name = child.key.unwrap_or_default();
    name.get(..NAME_BYTES).unwrap_or(name).into()
}
