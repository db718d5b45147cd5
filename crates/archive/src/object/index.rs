//! The index of an object: what its parts are.
//!
//! | part of it   | field                                                                                       |
//! |--------------|---------------------------------------------------------------------------------------------|
//! | chunks       | their number, and for each:                                                                 |
//! |              | main of its first record less that of the last record of the chunk before, signed; its sub  |
//! |              | one byte: 1 if the first record deletes, 2 if the last does, 4 if there are records whose key cannot be read |
//! |              | main of its last record less that of its first; its sub                                     |
//! |              | records, bytes as stored, bytes of the records; 16 bytes, digest                            |
//! | tables       | one byte: 1 if there are any; and then bytes as stored; 16 bytes, digest                     |
//! | closing      | bytes as stored; 16 bytes, digest                                                           |
//! | key index    | the number of blocks, and for each: length of the first key, the key, bytes as stored; 16 bytes, digest |
//!
//! Numbers are varints. Before the first chunk main is 0. The bytes of the records are 18 for each, and those of its value. A
//! digest is the first half of the SHA-256 of the bytes as stored. Parts follow each other from the beginning of the plain body
//! on, so where they are is told by how long they are.

use etcd_data::{RevKey, Revision};

use crate::fields::{Fault, Fields, put_number, put_signed, put_sized_bytes};

/// The size of an index, unpacked, at the most: that of an object of some terabytes.
pub(super) const MAX_INDEX_BYTES: usize = 512 << 20;

/// What the parts of an object are.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) chunks: Vec<ChunkEntry>,
    pub(super) tables: Option<Part>,
    pub(super) closing: Part,
    pub(super) key_blocks: Vec<KeyBlock>,
}

/// A part: where it is, and its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Part {
    /// In the plain body.
    pub(super) offset: u64,
    pub(super) stored_bytes: u64,
    pub(super) digest: [u8; 16],
}

/// A chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkEntry {
    pub(super) first: RevKey,
    pub(super) last: RevKey,
    pub(super) records: u32,
    pub(super) raw_bytes: u64,
    /// Whether it has records whose key cannot be read.
    pub(super) keyless: bool,
    pub(super) part: Part,
}

/// A block of the key index.
#[derive(Debug)]
pub(super) struct KeyBlock {
    pub(super) first_key: Vec<u8>,
    pub(super) part: Part,
}

const FIRST_DELETES: u8 = 1;
const LAST_DELETES: u8 = 2;
const HAS_KEYLESS: u8 = 4;

impl Index {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, self.chunks.len() as u64);
        let mut before = 0;
        for ChunkEntry { first, last, records, raw_bytes, keyless, part } in &self.chunks {
            put_signed(&mut out, first.main.0.wrapping_sub(before));
            put_number(&mut out, first.sub as u64);
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            out.push(
                flag(first.tombstone, FIRST_DELETES) | flag(last.tombstone, LAST_DELETES) | flag(*keyless, HAS_KEYLESS),
            );
            put_number(&mut out, last.main.0.wrapping_sub(first.main.0) as u64);
            put_number(&mut out, last.sub as u64);
            put_number(&mut out, u64::from(*records));
            put_number(&mut out, part.stored_bytes);
            put_number(&mut out, *raw_bytes);
            out.extend_from_slice(&part.digest);
            before = last.main.0;
        }
        out.push(u8::from(self.tables.is_some()));
        for part in self.tables.iter().chain([&self.closing]) {
            put_number(&mut out, part.stored_bytes);
            out.extend_from_slice(&part.digest);
        }
        put_number(&mut out, self.key_blocks.len() as u64);
        for block in &self.key_blocks {
            put_sized_bytes(&mut out, &block.first_key);
            put_number(&mut out, block.part.stored_bytes);
            out.extend_from_slice(&block.part.digest);
        }
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut parts = Parts { fields: Fields::of(bytes), offset: 0 };
        let mut index = Self::default();
        let mut before: Option<RevKey> = None;
        for _ in 0..parts.fields.size(usize::MAX)? {
            let chunk = parts.chunk(before)?;
            before = Some(chunk.last);
            index.chunks.push(chunk);
        }
        index.tables = match parts.fields.byte()? {
            0 => None,
            1 => Some(parts.part()?),
            _ => return Err(Fault("the index does not say whether there are tables")),
        };
        index.closing = parts.part()?;
        for _ in 0..parts.fields.size(usize::MAX)? {
            let first_key = parts.fields.sized_bytes()?.to_vec();
            if index.key_blocks.last().is_some_and(|last: &KeyBlock| last.first_key >= first_key) {
                return Err(Fault("the blocks of the key index are not in order"));
            }
            index.key_blocks.push(KeyBlock { first_key, part: parts.part()? });
        }
        parts.fields.end()?;
        Ok(index)
    }

    /// Where the parts end.
    pub(super) fn end(&self) -> u64 {
        let last = self.key_blocks.last().map_or(self.closing, |block| block.part);
        last.offset.saturating_add(last.stored_bytes)
    }
}

/// Parts, one behind the other.
struct Parts<'a> {
    fields: Fields<'a>,
    offset: u64,
}

impl Parts<'_> {
    /// The part that is next, of which the length and the digest are.
    fn part(&mut self) -> Result<Part, Fault> {
        let stored_bytes = self.fields.number()?;
        let digest = self.fields.array()?;
        self.place(stored_bytes, digest)
    }

    fn place(&mut self, stored_bytes: u64, digest: [u8; 16]) -> Result<Part, Fault> {
        let part = Part { offset: self.offset, stored_bytes, digest };
        self.offset = self.offset.checked_add(stored_bytes).ok_or(Fault("a part is too long"))?;
        Ok(part)
    }

    fn chunk(&mut self, before: Option<RevKey>) -> Result<ChunkEntry, Fault> {
        let beyond = Fault("a revision is beyond what can be");
        let fields = &mut self.fields;
        let step = fields.signed()?;
        let first = before.map_or(0, |before| before.main.0).checked_add(step).filter(|&main| main >= 0);
        let first = first.ok_or(beyond)?;
        let first_sub = i64::try_from(fields.number()?).map_err(|_| beyond)?;
        let flags = fields.byte()?;
        let length = i64::try_from(fields.number()?).map_err(|_| beyond)?;
        let last = first.checked_add(length).ok_or(beyond)?;
        let last_sub = i64::try_from(fields.number()?).map_err(|_| beyond)?;
        let records = u32::try_from(fields.number()?).map_err(|_| Fault("a chunk has too many records"))?;
        let stored_bytes = fields.number()?;
        let raw_bytes = fields.number()?;
        let digest = fields.array()?;
        let key = |main, sub, flag| RevKey { main: Revision(main), sub, tombstone: flags & flag != 0 };
        let first = key(first, first_sub, FIRST_DELETES);
        let last = key(last, last_sub, LAST_DELETES);
        if before.is_some_and(|before| before >= first) || first > last || records == 0 {
            return Err(Fault("the chunks are not in order"));
        }
        let keyless = flags & HAS_KEYLESS != 0;
        Ok(ChunkEntry { first, last, records, raw_bytes, keyless, part: self.place(stored_bytes, digest)? })
    }
}
