//! Walks a bucket in key order, in both directions.
//!
//! A cursor holds one page per level of the tree, so a seek in a file of any size reads a handful of pages.

use crate::error::{Error, Fault};
use crate::file::{Bucket, Root};
use crate::page::{Branch, Entry, Leaf, PageHeader, PageId, PageKind};
use crate::reader::PageReader;

/// No tree that bbolt writes is deeper: at the least two children per branch and 2^64 pages.
pub const MAX_DEPTH: usize = 64;

/// A place in a bucket.
///
/// Moving past either end leaves the cursor there: the next step in the other direction comes back to the last
/// or first entry. After an error it stands nowhere.
pub struct Cursor {
    reader: PageReader,
    root: Root,
    /// The path from the root to the leaf.
    path: Vec<Level>,
    stands: Stands,
    heading: Side,
    /// Pages that going one way can read before the tree must have led in circles.
    pages: u64,
}

/// A page on the path, copied out of the reader's window.
struct Level {
    page: PageId,
    kind: PageKind,
    count: u16,
    bytes: Vec<u8>,
    index: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    Nowhere,
    On,
    BeforeFirst,
    AfterLast,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Last,
}

impl Cursor {
    pub(crate) fn new(bucket: &Bucket) -> Self {
        Self {
            reader: bucket.file.pages(),
            pages: bucket.file.layout().pages,
            root: bucket.root.clone(),
            path: Vec::new(),
            stands: Stands::Nowhere,
            heading: Side::First,
        }
    }

    /// Moves to the first entry.
    pub fn first(&mut self) -> Result<Option<Entry<'_>>, Error> {
        self.go_to_end(Side::First)?;
        self.settle_forwards()
    }

    /// Moves to the last entry.
    pub fn last(&mut self) -> Result<Option<Entry<'_>>, Error> {
        self.go_to_end(Side::Last)?;
        self.settle_backwards()
    }

    /// Moves to the first entry whose key is not less than `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Error> {
        self.stands = Stands::Nowhere;
        self.push_root()?;
        while let Some(child) = self.child_for(key)? {
            self.push(child)?;
        }
        if let Some(level) = self.path.last_mut() {
            level.index = lower_bound(&level.leaf()?, key)?;
        }
        self.settle_forwards()
    }

    /// Moves to the entry after this one; from nowhere, to the first.
    #[allow(clippy::should_implement_trait, reason = "entries borrow from the cursor")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        match self.stands {
            Stands::Nowhere | Stands::BeforeFirst => return self.first(),
            Stands::AfterLast => return Ok(None),
            Stands::On => {}
        }
        self.head(Side::First);
        if let Some(level) = self.path.last_mut() {
            level.index += 1;
        }
        self.settle_forwards()
    }

    /// Moves to the entry before this one; from nowhere, to the last.
    pub fn previous(&mut self) -> Result<Option<Entry<'_>>, Error> {
        match self.stands {
            Stands::Nowhere | Stands::AfterLast => return self.last(),
            Stands::BeforeFirst => return Ok(None),
            Stands::On => {}
        }
        self.head(Side::Last);
        match self.path.last_mut() {
            Some(level) if level.index > 0 => level.index -= 1,
            _ => {
                if !self.go_to_neighbour(Side::Last)? {
                    self.stands = Stands::BeforeFirst;
                    return Ok(None);
                }
            }
        }
        self.settle_backwards()
    }

    /// The page and the index of the entry that the cursor stands on.
    pub fn place(&self) -> (PageId, u32) {
        self.path.last().map_or((PageId(0), 0), |level| (level.page, level.index as u32))
    }

    /// Goes forward from the leaf position at hand to an entry, over empty leaves.
    fn settle_forwards(&mut self) -> Result<Option<Entry<'_>>, Error> {
        while self.path.last().is_some_and(|level| level.index >= usize::from(level.count)) {
            if !self.go_to_neighbour(Side::First)? {
                self.stands = Stands::AfterLast;
                return Ok(None);
            }
        }
        self.stand()
    }

    /// Goes backwards from the leaf position at hand to an entry, over empty leaves.
    fn settle_backwards(&mut self) -> Result<Option<Entry<'_>>, Error> {
        while self.path.last().is_some_and(|level| level.count == 0) {
            if !self.go_to_neighbour(Side::Last)? {
                self.stands = Stands::BeforeFirst;
                return Ok(None);
            }
        }
        self.stand()
    }

    fn stand(&mut self) -> Result<Option<Entry<'_>>, Error> {
        self.stands = Stands::On;
        match self.path.last() {
            Some(level) => Ok(level.leaf()?.get(level.index)?),
            None => Ok(None),
        }
    }

    /// Goes on forwards for `First`, backwards for `Last`. One way reads no page twice; turning round starts anew.
    fn head(&mut self, side: Side) {
        if self.heading != side {
            self.heading = side;
            self.reader.allow(self.pages);
        }
    }

    fn go_to_end(&mut self, side: Side) -> Result<(), Error> {
        self.stands = Stands::Nowhere;
        self.push_root()?;
        self.descend(side)
    }

    /// Moves to the leaf next to this one, standing at its first or last entry: forwards for `First`, backwards
    /// for `Last`. False if there is none; the path is then as it was.
    fn go_to_neighbour(&mut self, side: Side) -> Result<bool, Error> {
        let turn = self.path.iter().rposition(|level| match side {
            _ if level.kind == PageKind::Leaf => false,
            Side::First => level.index + 1 < usize::from(level.count),
            Side::Last => level.index > 0,
        });
        let Some(turn) = turn else { return Ok(false) };
        self.stands = Stands::Nowhere;
        self.path.truncate(turn + 1);
        if let Some(level) = self.path.last_mut() {
            match side {
                Side::First => level.index += 1,
                Side::Last => level.index -= 1,
            }
        }
        self.descend_child(side)?;
        Ok(true)
    }

    /// From the last level down to a leaf, along one side.
    fn descend(&mut self, side: Side) -> Result<(), Error> {
        if let Some(level) = self.path.last_mut() {
            level.stand_at(side);
        }
        self.descend_child(side)
    }

    /// From the child that the last level points at down to a leaf, along one side.
    fn descend_child(&mut self, side: Side) -> Result<(), Error> {
        while let Some(child) = self.child()? {
            self.push(child)?;
            if let Some(level) = self.path.last_mut() {
                level.stand_at(side);
            }
        }
        Ok(())
    }

    /// The page that the last level points at, if it is a branch.
    fn child(&self) -> Result<Option<PageId>, Error> {
        match self.path.last() {
            Some(level) if level.kind == PageKind::Branch => {
                Ok(level.branch()?.get(level.index)?.map(|(_, child)| child))
            }
            _ => Ok(None),
        }
    }

    /// Points the last level, if it is a branch, at the child that can hold `key`, and returns that.
    fn child_for(&mut self, key: &[u8]) -> Result<Option<PageId>, Error> {
        let Some(level) = self.path.last_mut().filter(|level| level.kind == PageKind::Branch) else {
            return Ok(None);
        };
        level.index = child_index(&level.branch()?, key)?;
        self.child()
    }

    fn push_root(&mut self) -> Result<(), Error> {
        self.path.clear();
        self.reader.allow(self.pages);
        match self.root.clone() {
            Root::Page(page) => self.push(page),
            Root::Inline(bytes, page) => {
                let header = inline_header(&bytes, page)?;
                Leaf::parse(page, header.count, &bytes)?;
                let level = Level { page, kind: PageKind::Leaf, count: header.count, bytes: bytes.to_vec(), index: 0 };
                self.path.push(level);
                Ok(())
            }
        }
    }

    fn push(&mut self, page: PageId) -> Result<(), Error> {
        if self.path.len() >= MAX_DEPTH {
            return Err(Fault::TooDeep { limit: MAX_DEPTH }.on(page).into());
        }
        let (header, bytes) = self.reader.run(page)?;
        match header.kind {
            PageKind::Branch => {
                Branch::parse(page, header.count, bytes)?;
            }
            PageKind::Leaf => {
                Leaf::parse(page, header.count, bytes)?;
            }
            found => return Err(Fault::WrongKind { found, expected: "branch or leaf" }.on(page).into()),
        }
        let level = Level { page, kind: header.kind, count: header.count, bytes: bytes.to_vec(), index: 0 };
        self.path.push(level);
        Ok(())
    }
}

impl Level {
    fn leaf(&self) -> Result<Leaf<'_>, Error> {
        Ok(Leaf::parse(self.page, self.count, &self.bytes)?)
    }

    fn branch(&self) -> Result<Branch<'_>, Error> {
        Ok(Branch::parse(self.page, self.count, &self.bytes)?)
    }

    fn stand_at(&mut self, side: Side) {
        self.index = match side {
            Side::First => 0,
            Side::Last => usize::from(self.count).saturating_sub(1),
        };
    }
}

/// The header of an inline bucket's leaf, which carries the id 0.
pub(crate) fn inline_header(bytes: &[u8], page: PageId) -> Result<PageHeader, Error> {
    let at_place = |mut corrupt: crate::error::Corrupt| {
        corrupt.page = page;
        corrupt
    };
    let header = PageHeader::parse(PageId(0), bytes).map_err(at_place)?;
    match header.kind {
        PageKind::Leaf => Ok(header),
        found => Err(Fault::WrongKind { found, expected: "inline leaf" }.on(page).into()),
    }
}

/// The child of `branch` that can hold `key`: the last whose first key is not greater, or the first.
pub(crate) fn child_index(branch: &Branch<'_>, key: &[u8]) -> Result<usize, Error> {
    let after = partition_point(branch.len(), |index| Ok(branch.get(index)?.is_some_and(|(first, _)| first <= key)))?;
    Ok(after.saturating_sub(1))
}

/// The first element of `leaf` whose key is not less than `key`.
fn lower_bound(leaf: &Leaf<'_>, key: &[u8]) -> Result<usize, Error> {
    partition_point(leaf.len(), |index| Ok(leaf.get(index)?.is_some_and(|entry| entry.key < key)))
}

/// How many of the first of `len` elements are `before`, if none is after one that is not.
fn partition_point(len: usize, mut before: impl FnMut(usize) -> Result<bool, Error>) -> Result<usize, Error> {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
