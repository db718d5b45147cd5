//! The keys of a chunk, sorted, each told by what it shares with the one before.

use super::column::{Packer, Unpacker};
use crate::fields::{Fault, Fields, put_number};

/// Sorted keys, each once.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Bytes that several keys of a chunk may have together. A single one may be longer.
pub(super) const MAX_KEY_BYTES: usize = 32 << 20;

impl KeyTable {
    /// Keys that come in order.
    pub(super) fn of<'a>(sorted: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut table = Self::default();
        sorted.for_each(|key| table.push(key));
        table
    }

    /// Adds a key that comes after all others.
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The bytes of all keys, and of what it takes to tell them apart.
    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * 2
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(index)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn pack(&self, packer: &mut Packer, out: &mut Vec<u8>) -> std::io::Result<()> {
        let (mut sizes, mut rests) = (Vec::new(), Vec::new());
        let mut before: &[u8] = &[];
        for key in self.iter() {
            let shared = shared(before, key);
            let rest = key.get(shared..).unwrap_or_default();
            put_number(&mut sizes, shared as u64);
            put_number(&mut sizes, rest.len() as u64);
            rests.extend_from_slice(rest);
            before = key;
        }
        packer.pack(&sizes, out)?;
        packer.pack(&rests, out)
    }

    pub(crate) fn unpack(unpacker: &mut Unpacker, fields: &mut Fields<'_>, limit: &mut usize) -> Result<Self, Fault> {
        let sizes = unpacker.unpack_within(fields, limit)?;
        let rests = unpacker.unpack_within(fields, limit)?;
        let (mut sizes, mut rests) = (Fields::of(&sizes), Fields::of(&rests));
        let mut table = Self::default();
        let mut start = 0;
        while !sizes.is_empty() {
            let end = table.bytes.len();
            let shared = sizes.size(end - start)?;
            let rest = rests.bytes(sizes.size(rests.rest().len())?)?;
            if table.len() > 0 && end + shared + rest.len() > MAX_KEY_BYTES {
                return Err(Fault("the keys are larger than they can be"));
            }
            table.bytes.extend_from_within(start..start + shared);
            table.bytes.extend_from_slice(rest);
            let [before, key] = [start..end, end..table.bytes.len()].map(|range| table.bytes.get(range));
            if table.len() > 0 && before >= key {
                return Err(Fault("the keys are not in order"));
            }
            start = end;
            table.ends.push(table.bytes.len());
        }
        rests.end()?;
        Ok(table)
    }
}

/// How many bytes both begin with.
pub(crate) fn shared(before: &[u8], key: &[u8]) -> usize {
    before.iter().zip(key).take_while(|(before, key)| before == key).count()
}
