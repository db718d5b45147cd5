//! The elements of one page while it is being filled, and their encoding.

use crate::page::{ELEMENT_SIZE, HEADER_SIZE, PageHeader, PageId, PageKind};

/// A leaf or branch in the making. Cleared and filled again, it allocates nothing.
#[derive(Default)]
pub(super) struct Node {
    elements: Vec<Element>,
    /// Keys and values, packed in the order of the elements.
    data: Vec<u8>,
}

/// What a page's table says about one key.
#[derive(Clone, Copy)]
pub(super) enum Element {
    /// On a leaf: a key with a value.
    Value { flags: u32, key_len: u32, value_len: u32 },
    /// On a branch: the first key of a child.
    Child { page: PageId, key_len: u32 },
}

impl Node {
    pub(super) fn add(&mut self, element: Element, key: &[u8], value: &[u8]) {
        self.elements.push(element);
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
    }

    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.elements.clear();
        self.data.clear();
    }

    /// Bytes on a page, header included.
    pub(super) fn size(&self) -> usize {
        HEADER_SIZE + self.elements.len() * ELEMENT_SIZE + self.data.len()
    }

    pub(super) fn first_key(&self) -> &[u8] {
        let len = self.elements.first().map_or(0, |element| element.key_len() as usize);
        self.data.get(..len).unwrap_or_default()
    }

    /// The child of a branch that has only one.
    pub(super) fn only_child(&self) -> Option<PageId> {
        match self.elements.as_slice() {
            &[Element::Child { page, .. }] => Some(page),
            _ => None,
        }
    }

    /// Keys and values, as they stand behind the head.
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Writes the page's header and table, all that stands before the data, to the end of `out`.
    pub(super) fn encode_head(&self, id: PageId, overflow: u32, out: &mut Vec<u8>) {
        encode_head(&self.elements, id, overflow, out);
    }

    /// Takes over all elements of `next`, whose keys follow these.
    pub(super) fn append(&mut self, next: &mut Self) {
        self.elements.append(&mut next.elements);
        self.data.append(&mut next.data);
    }

    /// Moves the last element to the front of `next`, whose keys follow these.
    pub(super) fn give_last(&mut self, next: &mut Self) {
        let Some(element) = self.elements.pop() else { return };
        let start = self.data.len().saturating_sub(element.data_len());
        next.elements.insert(0, element);
        next.data.splice(0..0, self.data.drain(start..));
    }
}

impl Element {
    /// Bytes on a page, with key and value.
    pub(super) fn size(self) -> usize {
        ELEMENT_SIZE + self.data_len()
    }

    fn key_len(self) -> u32 {
        match self {
            Self::Value { key_len, .. } | Self::Child { key_len, .. } => key_len,
        }
    }

    /// Bytes of key and value. Both are held in memory, so their sum fits.
    fn data_len(self) -> usize {
        match self {
            Self::Value { key_len, value_len, .. } => key_len as usize + value_len as usize,
            Self::Child { key_len, .. } => key_len as usize,
        }
    }

    fn encode(self, pos: u32) -> [u32; 4] {
        match self {
            Self::Value { flags, key_len, value_len } => [flags, pos, key_len, value_len],
            Self::Child { page, key_len } => [pos, key_len, page.0 as u32, (page.0 >> 32) as u32],
        }
    }
}

/// Writes the header and the table of a page with `elements` to the end of `out`.
pub(super) fn encode_head(elements: &[Element], id: PageId, overflow: u32, out: &mut Vec<u8>) {
    // No elements: the root of an empty bucket, which is a leaf.
    let kind = match elements.first() {
        Some(Element::Child { .. }) => PageKind::Branch,
        Some(Element::Value { .. }) | None => PageKind::Leaf,
    };
    // `Shape::takes` ends a page long before its count could not be told.
    let count = elements.len() as u16;
    out.extend_from_slice(&PageHeader { id, kind, count, overflow }.encode());
    // Positions are counted from the element they stand in, so each comes nearer to the data by one element.
    let mut pos = elements.len() * ELEMENT_SIZE;
    for element in elements {
        for word in element.encode(pos as u32) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        pos = pos + element.data_len() - ELEMENT_SIZE;
    }
}
