//! What can be wrong on a single page: its elements, their order, how they are packed, and inline buckets.
//!
//! Elements that overlap are told and not looked into, so that the work on a page is bounded by its bytes.

use crate::cursor::{MAX_DEPTH, inline_header};
use crate::error::{Error, Fault};
use crate::file::{Root, parse_bucket};
use crate::page::{BUCKET_HEADER_SIZE, Branch, ELEMENT_SIZE, HEADER_SIZE, Leaf, MAX_KEY_SIZE, PageId};

use super::finding::Problem;
use super::statistics::Statistics;

/// The keys that a page may hold, as the branches above say: from `first`, which it must have, to below `end`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds<'k> {
    pub(crate) first: Option<&'k [u8]>,
    pub(crate) end: Option<&'k [u8]>,
}

/// A reference to a page.
pub(crate) struct Child<'a> {
    pub(crate) index: u32,
    pub(crate) page: PageId,
    /// The key that stands with it, if it can be believed: the name of a bucket or the first key below a branch.
    pub(crate) key: Option<&'a [u8]>,
}

/// What was found on a page.
#[derive(Default)]
pub(crate) struct Elements<'a> {
    pub(crate) problems: Vec<Problem>,
    pub(crate) statistics: Statistics,
    /// Where the last element ends.
    pub(crate) used: u64,
    /// The first element that is no bucket.
    pub(crate) first_pair: Option<u32>,
    /// The first key, if it can be believed.
    pub(crate) first: Option<&'a [u8]>,
    /// The pages that the elements lead to, in order.
    pub(crate) children: Vec<Child<'a>>,
    /// Whether an element could not be read, so that what it leads to is unknown.
    pub(crate) lost: bool,
}

/// Looks at the elements of a leaf, and into inline buckets.
pub(crate) fn leaf<'a>(page: PageId, leaf: &Leaf<'a>, bounds: Bounds<'_>, depth: usize) -> Elements<'a> {
    let mut found = Elements::default();
    let mut order = Order::new(leaf.len());
    for index in 0..leaf.len() {
        let entry = match leaf.get(index) {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(corrupt) => {
                found.lose(corrupt.fault);
                continue;
            }
        };
        let packed =
            order.next(&mut found, (index as u32, leaf.key_start(index)), entry.key, entry.value.len(), bounds);
        match (entry.is_bucket, packed) {
            (false, _) => {
                found.statistics.entries += 1;
                found.first_pair.get_or_insert(index as u32);
            }
            (true, true) => bucket(page, index as u32, entry.key, entry.value, depth, &mut found),
            (true, false) => found.lost = true,
        }
    }
    found.used = order.end;
    found
}

/// Looks at the elements of a branch.
pub(crate) fn branch<'a>(branch: &Branch<'a>, bounds: Bounds<'_>) -> Elements<'a> {
    let mut found = Elements::default();
    let mut order = Order::new(branch.len());
    for index in 0..branch.len() {
        match branch.get(index) {
            Ok(Some((key, page))) => {
                let packed = order.next(&mut found, (index as u32, branch.key_start(index)), key, 0, bounds);
                found.children.push(Child { index: index as u32, page, key: packed.then_some(key) });
            }
            Ok(None) => break,
            Err(corrupt) => found.lose(corrupt.fault),
        }
    }
    if branch.len() == 1 {
        found.problems.push(Problem::OneChild);
    }
    found.used = order.end;
    found
}

fn bucket<'a>(page: PageId, index: u32, name: &'a [u8], value: &'a [u8], depth: usize, found: &mut Elements<'a>) {
    found.statistics.buckets += 1;
    let (root, sequence) = match parse_bucket(value, page, index) {
        Ok(parsed) => parsed,
        Err(error) => return found.lose_to(error),
    };
    if sequence != 0 {
        found.problems.push(Problem::Sequence { index, sequence });
    }
    let tail = value.get(BUCKET_HEADER_SIZE..).unwrap_or_default();
    match root {
        Root::Page(child) => {
            if !tail.is_empty() {
                found.problems.push(Problem::BucketTail { index, bytes: tail.len() });
            }
            found.children.push(Child { index, page: child, key: Some(name) });
        }
        Root::Inline(..) => inline(page, index, name, tail, depth + 1, found),
    }
}

/// Looks at the page inside the value at `index`.
fn inline<'a>(page: PageId, index: u32, name: &'a [u8], bytes: &'a [u8], depth: usize, found: &mut Elements<'a>) {
    if depth >= MAX_DEPTH {
        return found.lose(Fault::TooDeep { limit: MAX_DEPTH });
    }
    let parsed = inline_header(bytes, page).and_then(|header| Ok((header, Leaf::parse(page, header.count, bytes)?)));
    let (header, inner) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let mut inside = Elements::default();
            inside.lose_to(error);
            return found.take_in(index, name, inside);
        }
    };
    let mut inside = leaf(page, &inner, Bounds::default(), depth);
    inside.statistics.inline_buckets += 1;
    if header.overflow > 0 {
        inside.problems.push(Problem::OverflowTooLong { pages: header.overflow.into() });
    }
    if inside.used < bytes.len() as u64 {
        inside.problems.push(Problem::Slack { from: inside.used });
    }
    found.take_in(index, name, inside);
}

impl<'a> Elements<'a> {
    /// What is wrong with how much room they take on `bytes`, which is what was read of the page and its overflow: together
    /// `pages` pages.
    pub(crate) fn packing(&self, bytes: &[u8], pages: u64, page_size: u64) -> Vec<Problem> {
        let mut problems = Vec::new();
        // Older versions take one page more than they need where the elements fill the last one.
        let needed = self.used / page_size + 1;
        if pages > needed {
            problems.push(Problem::OverflowTooLong { pages: pages - needed });
        }
        let slack = bytes.get(self.used as usize..).unwrap_or_default();
        if slack.iter().fold(0, |all, byte| all | byte) != 0 {
            problems.push(Problem::Slack { from: self.used });
        }
        problems
    }

    fn lose(&mut self, fault: Fault) {
        self.problems.push(fault.into());
        self.lost = true;
    }

    fn lose_to(&mut self, error: Error) {
        self.lost = true;
        if let Error::Corrupt(corrupt) = error {
            self.problems.push(corrupt.fault.into());
        }
    }

    /// Takes what was found in the inline bucket at `index`. What it leads to hangs from that element.
    fn take_in(&mut self, index: u32, name: &'a [u8], inside: Self) {
        let inline = |problem| Problem::Inline { index, problem: Box::new(problem) };
        self.problems.extend(inside.problems.into_iter().map(inline));
        self.statistics.add(inside.statistics);
        self.children.extend(inside.children.into_iter().map(|child| Child { index, key: Some(name), ..child }));
        self.lost |= inside.lost;
    }
}

/// Follows the keys of a page from element to element.
struct Order<'a> {
    last: Option<&'a [u8]>,
    end: u64,
    past_bound: bool,
}

impl<'a> Order<'a> {
    fn new(count: usize) -> Self {
        Self { last: None, end: (HEADER_SIZE + count * ELEMENT_SIZE) as u64, past_bound: false }
    }

    /// Judges the next element that could be read. Whether it lies behind the ones before it.
    fn next(
        &mut self,
        found: &mut Elements<'a>,
        (index, start): (u32, u64),
        key: &'a [u8],
        value_len: usize,
        bounds: Bounds<'_>,
    ) -> bool {
        let expected = self.end;
        if start != expected {
            found.problems.push(Problem::Misplaced { index, start, expected });
        }
        if key.is_empty() || key.len() > MAX_KEY_SIZE as usize {
            found.problems.push(Fault::KeyLength { index, len: key.len() as u32 }.into());
        }
        self.end = expected.max(start + key.len() as u64 + value_len as u64);
        if start < expected {
            return false;
        }
        if self.last.is_some_and(|last| last >= key) {
            found.problems.push(Problem::KeysOutOfOrder { index });
        }
        if !self.past_bound && bounds.end.is_some_and(|end| key >= end) {
            self.past_bound = true;
            found.problems.push(Problem::KeyPastBound { index });
        }
        if index == 0 {
            found.first = Some(key);
        }
        self.last = Some(key);
        true
    }
}
