//! Things that workers hand over together, each with some bytes: few allocations however small the things.

use crate::database::Next;

/// Things of one kind, each with bytes.
pub(crate) struct Batch<T> {
    items: Vec<(T, usize)>,
    bytes: Vec<u8>,
}

/// What a batch grows to before it is handed over. Those of several threads are under way at once, and are to stay in
/// the processor's cache.
const ITEMS: usize = 4096;
const BYTES: usize = 256 << 10;

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: Vec::new() }
    }
}

impl<T> Batch<T> {
    /// Adds a thing; says whether it is time to hand the batch over.
    pub(crate) fn push(&mut self, item: T, bytes: &[u8]) -> Next {
        if self.bytes.is_empty() && !bytes.is_empty() {
            // Else it grows by doubling, and copies every byte once more.
            self.bytes.reserve_exact(BYTES + bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        self.items.push((item, self.bytes.len()));
        if self.items.len() < ITEMS && self.bytes.len() < BYTES { Next::More } else { Next::Cut }
    }

    /// The things and their bytes, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&T, &[u8])> {
        let mut start = 0;
        self.items.iter().map(move |(item, end)| {
            let bytes = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (item, bytes)
        })
    }
}
