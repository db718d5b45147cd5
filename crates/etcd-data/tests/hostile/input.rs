//! Bytes as a source of choices: the same bytes, the same choices; at their end, zeros.

/// What is left of the bytes.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

/// Numbers at which something might turn over.
const EDGES: [i64; 16] = [
    0,
    -1,
    1,
    2,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i64::MIN + 1,
    u32::MAX as i64,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 53,
    1 << 62,
    4096,
    255,
    65_535,
];

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// One of `limit` choices.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    pub(crate) fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len())]
    }

    /// A small number mostly, else one of the edges.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            byte @ ..=199 => i64::from(byte),
            byte => EDGES[usize::from(byte) % EDGES.len()],
        }
    }

    /// Up to 239 bytes, or, of few choices, some thousands that are all alike.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        match self.byte() {
            len @ ..=239 => self.take(len.into()).to_vec(),
            len => vec![self.byte(); (usize::from(len) - 239) * 500],
        }
    }

    /// One of a few keys, so that records meet.
    pub(crate) fn key(&mut self) -> Vec<u8> {
        match self.byte() {
            byte @ ..=229 => vec![b'a' + byte % 12],
            _ => self.bytes(),
        }
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
