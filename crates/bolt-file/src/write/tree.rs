//! A tree that grows from its leaves upwards, in key order.
//!
//! Where pages end follows bbolt's own splitting at the fill that etcd's defragmentation asks for, so that a
//! rebuilt file has the size and the room for growth that etcd would give it: a page ends before the element that
//! would fill more than nine tenths of it, but holds two at least; the last two pages become one if that is less than
//! a page or no more than four elements; else the last holds two at least. bbolt needs the two on every branch.
//!
//! In one thing it differs: an element that is larger than 16 pages gets a leaf of its own. What that wastes at
//! the end of the last page is little beside it, and nothing large needs to be held in memory.

use std::mem;

use super::WriteError;
use super::node::{Element, Node};
use super::pages::Pages;
use crate::page::{HEADER_SIZE, PageId};
use crate::sink::Sink;

/// A tree of which all but the right edge is written.
pub(super) struct Tree {
    shape: Shape,
    leaves: Level,
}

/// The right edge of one level.
#[derive(Default)]
struct Level {
    /// The page before the one being filled, until it is known whether that will hold enough.
    held: Node,
    filling: Node,
    above: Option<Box<Level>>,
}

/// When a page is full.
#[derive(Clone, Copy)]
struct Shape {
    page_size: usize,
}

/// bbolt's least number of elements on a page, before it goes on to the next.
const MIN_ELEMENTS: usize = 2;
/// The count of a page has 16 bits, and bbolt keeps the largest for something else.
const MAX_ELEMENTS: usize = 0xFFFE;
/// Elements larger than this many pages are written alone.
const PAGES_ALONE: usize = 16;

impl Tree {
    pub(super) fn new(page_size: usize) -> Self {
        Self { shape: Shape { page_size }, leaves: Level::default() }
    }

    /// Adds a leaf element. Its key must be greater than all before it.
    pub(super) fn push<S: Sink>(
        &mut self,
        element: Element,
        key: &[u8],
        value: &[u8],
        pages: &mut Pages<S>,
    ) -> Result<(), WriteError> {
        if self.shape.is_large(element) {
            self.leaves.write_out(self.shape, pages)?;
            let page = pages.write_alone(element, key, value)?;
            return self.leaves.above().add_child(key, page, self.shape, pages);
        }
        self.leaves.add(element, key, value, self.shape, pages)
    }

    /// The only leaf, if the tree has no other page and nothing of it is written yet.
    pub(super) fn only_leaf(&self) -> Option<&Node> {
        let only = self.leaves.above.is_none() && self.leaves.held.is_empty();
        only.then_some(&self.leaves.filling)
    }

    /// Writes the right edge, and returns the root.
    pub(super) fn finish<S: Sink>(self, pages: &mut Pages<S>) -> Result<PageId, WriteError> {
        self.leaves.finish(self.shape, pages)
    }
}

impl Level {
    fn add<S: Sink>(
        &mut self,
        element: Element,
        key: &[u8],
        value: &[u8],
        shape: Shape,
        pages: &mut Pages<S>,
    ) -> Result<(), WriteError> {
        if !shape.takes(&self.filling, element) {
            self.write_held(shape, pages)?;
            mem::swap(&mut self.held, &mut self.filling);
        }
        self.filling.add(element, key, value);
        Ok(())
    }

    fn add_child<S: Sink>(
        &mut self,
        key: &[u8],
        page: PageId,
        shape: Shape,
        pages: &mut Pages<S>,
    ) -> Result<(), WriteError> {
        self.add(Element::Child { page, key_len: key.len() as u32 }, key, &[], shape, pages)
    }

    fn above(&mut self) -> &mut Self {
        self.above.get_or_insert_default()
    }

    /// Writes the held page, if there is one, and tells the level above.
    fn write_held<S: Sink>(&mut self, shape: Shape, pages: &mut Pages<S>) -> Result<(), WriteError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let page = pages.write_node(&self.held)?;
        let above = self.above.get_or_insert_default();
        above.add_child(self.held.first_key(), page, shape, pages)?;
        self.held.clear();
        Ok(())
    }

    /// Writes both pages of the edge.
    fn write_out<S: Sink>(&mut self, shape: Shape, pages: &mut Pages<S>) -> Result<(), WriteError> {
        self.write_held(shape, pages)?;
        mem::swap(&mut self.held, &mut self.filling);
        self.write_held(shape, pages)
    }

    /// Writes what is left of this level and those above, and returns the root.
    fn finish<S: Sink>(mut self, shape: Shape, pages: &mut Pages<S>) -> Result<PageId, WriteError> {
        shape.balance(&mut self.held, &mut self.filling);
        if self.above.is_none() && self.held.is_empty() {
            return match self.filling.only_child() {
                Some(child) => Ok(child),
                None => pages.write_node(&self.filling),
            };
        }
        self.write_out(shape, pages)?;
        mem::take(self.above()).finish(shape, pages)
    }
}

impl Shape {
    fn is_large(self, element: Element) -> bool {
        element.size() > PAGES_ALONE * self.page_size
    }

    /// Whether `element` still belongs on the page that `node` fills.
    fn takes(self, node: &Node, element: Element) -> bool {
        let full = self.page_size * 9 / 10;
        node.len() < MIN_ELEMENTS || (node.size() + element.size() <= full && node.len() < MAX_ELEMENTS)
    }

    /// Settles what the last two pages of a level hold: if one is enough, `last` holds it.
    fn balance(self, before: &mut Node, last: &mut Node) {
        let count = before.len() + last.len();
        let size = before.size() + last.size() - HEADER_SIZE;
        if count <= 2 * MIN_ELEMENTS || (size < self.page_size && count <= MAX_ELEMENTS) {
            before.append(last);
            mem::swap(before, last);
        }
        while !before.is_empty() && last.len() < MIN_ELEMENTS {
            before.give_last(last);
        }
    }
}
