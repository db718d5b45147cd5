//! One block of the key index.

use crate::chunk::{KeyTable, Packer, Unpacker};
use crate::fields::{Fault, Fields, put_number};

/// Sorted keys, each with its chunks.
#[derive(Default)]
pub(crate) struct Block {
    keys: KeyTable,
    chunks: Vec<u8>,
}

/// Bytes of a block, unpacked, at the most: a single key may be large, or in very many chunks.
const MAX_BYTES: usize = 2 << 30;

impl Block {
    pub(super) fn push(&mut self, key: &[u8], chunks: &[u32]) {
        self.keys.push(key);
        put_number(&mut self.chunks, (chunks.len() as u64).saturating_sub(1));
        let mut next = 0;
        for &chunk in chunks {
            put_number(&mut self.chunks, u64::from(chunk.wrapping_sub(next)));
            next = chunk.wrapping_add(1);
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.keys.size_bytes() + self.chunks.len()
    }

    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        self.keys.get(0)
    }

    pub(crate) fn pack(&self, packer: &mut Packer) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.keys.pack(packer, &mut out)?;
        packer.pack(&self.chunks, &mut out)?;
        Ok(out)
    }

    pub(crate) fn unpack(stored: &[u8], unpacker: &mut Unpacker) -> Result<Self, Fault> {
        let mut fields = Fields::of(stored);
        let mut left = MAX_BYTES;
        let keys = KeyTable::unpack(unpacker, &mut fields, &mut left)?;
        let chunks = unpacker.unpack_within(&mut fields, &mut left)?;
        fields.end()?;
        Ok(Self { keys, chunks })
    }

    /// Shows `take` every key in order, and its chunks, of which there are `count`.
    pub(crate) fn entries(&self, count: usize, mut take: impl FnMut(&[u8], Chunks<'_>)) -> Result<(), Fault> {
        let mut fields = Fields::of(&self.chunks);
        for key in self.keys.iter() {
            let len = fields.size(count)? + 1;
            let chunks = Chunks { fields, last: None, left: len, count };
            let mut last = None;
            for _ in 0..len {
                last = Some(next_chunk(&mut fields, last, count)?);
            }
            take(key, chunks);
        }
        fields.end()
    }
}

/// The chunks of one key.
pub(crate) struct Chunks<'a> {
    fields: Fields<'a>,
    last: Option<usize>,
    left: usize,
    count: usize,
}

impl Iterator for Chunks<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        self.last = next_chunk(&mut self.fields, self.last, self.count).ok();
        self.last
    }
}

fn next_chunk(fields: &mut Fields<'_>, last: Option<usize>, count: usize) -> Result<usize, Fault> {
    let chunk = last.map_or(0, |last| last + 1) + fields.size(count)?;
    if chunk < count { Ok(chunk) } else { Err(Fault("a key is in a chunk that is not there")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_block_says_only_chunks_that_there_are_come_out(
            keys in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 0..6), 0..20),
            anything in proptest::collection::vec(any::<u8>(), 0..60),
            count in 0..100usize,
        ) {
            let mut block = Block::default();
            keys.iter().for_each(|key| block.push(key, &[0]));
            block.chunks.clone_from(&anything);
            let _ = block.entries(count, |_, mut chunks| assert!(chunks.all(|chunk| chunk < count)));
            let _ = Block::unpack(&anything, &mut Unpacker::new().unwrap());
        }
    }
}
