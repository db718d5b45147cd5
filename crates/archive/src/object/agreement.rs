//! Whether the key index of an object agrees with its chunks.
//!
//! The pairs of a key and a chunk that has it are the same seen from either side. They are compared by their number and
//! by the sum of their hashes, under a secret drawn for it: however large an object is, that takes two numbers.

use std::hash::{BuildHasher, RandomState};

use super::open::{Object, unpacker};
use crate::chunk::keys_of;
use crate::error::ObjectError;

/// Pairs of a key and a chunk, in any order.
struct Pairs<'s> {
    secret: &'s RandomState,
    count: u64,
    sum: u64,
}

impl Pairs<'_> {
    fn add(&mut self, key: &[u8], chunk: usize) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(self.secret.hash_one((key, chunk)));
    }
}

impl Object {
    /// Whether the key index tells of just the keys that the chunks have, each where it is, and in order.
    pub fn key_index_agrees(&self) -> Result<bool, ObjectError> {
        let secret = RandomState::new();
        let none = || Pairs { secret: &secret, count: 0, sum: 0 };
        let (mut there, mut told) = (none(), none());
        let chunks = self.chunk_facts().len();
        for index in 0..chunks {
            let (entry, stored) = self.stored_chunk(index)?;
            let keys = keys_of(&stored, &mut unpacker()?).map_err(|fault| self.fault(entry.part, fault))?;
            keys.iter().for_each(|key| there.add(key, index));
        }
        let mut last: Option<Vec<u8>> = None;
        let mut is_in_order = true;
        for index in 0.. {
            let Some((entry, block)) = self.key_block(index)? else { break };
            is_in_order &= block.first_key() == Some(&entry.first_key);
            let read = block.entries(chunks, |key, of| {
                is_in_order &= last.as_deref().is_none_or(|last| last < key);
                last = Some(key.to_vec());
                of.for_each(|chunk| told.add(key, chunk));
            });
            read.map_err(|fault| self.fault(entry.part, fault))?;
        }
        Ok(is_in_order && (there.count, there.sum) == (told.count, told.sum))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use etcd_data::{KeyValue, RevKey, Revision};
    use sha2::{Digest, Sha256};

    use super::super::frame::{FOOTER_BYTES, TAIL_BYTES, Tail, digest, footer, head_bytes};
    use super::super::index::{Index, KeyBlock, MAX_INDEX_BYTES, Part};
    use super::super::write::{ObjectWriter, WriteSettings};
    use super::*;
    use crate::chunk::{KeyTable, Packer};
    use crate::closing::Closing;
    use crate::fields::Fields;
    use crate::header::Kind;
    use crate::key_index::Gather;
    use crate::sealing::NoKeys;
    use crate::sketch::header;

    /// A delta of the revisions 1 to 300, which change the keys `a`, `b` and `c` in turn, in several chunks.
    fn delta() -> Vec<u8> {
        let mut out = Vec::new();
        let settings = WriteSettings { chunk_bytes: 1000, ..WriteSettings::delta() };
        let mut writer = ObjectWriter::create(&mut out, header(Kind::Delta, 1, 300), None, settings).unwrap();
        for main in 1..=300 {
            let key = [b"a", b"b", b"c"][main as usize % 3];
            let main = Revision(main);
            let put = KeyValue {
                key,
                value: &[7; 40],
                create_revision: main,
                mod_revision: main,
                version: 1,
                ..KeyValue::default()
            };
            let mut value = Vec::new();
            put.encode(&mut value);
            writer.push(RevKey { main, sub: 0, tombstone: false }, &value).unwrap();
        }
        writer.finish(&Closing::default(), None).unwrap();
        out
    }

    fn open(bytes: Vec<u8>) -> Object {
        Object::open("test", Arc::new(Bytes::from(bytes)), &NoKeys).unwrap()
    }

    /// The same object with another key index: `of` are the keys of each chunk. All digests are right.
    fn with_keys(bytes: &[u8], of: &[&[&str]]) -> Vec<u8> {
        let head = head_bytes(bytes).unwrap();
        let tail_at = bytes.len() - FOOTER_BYTES - TAIL_BYTES;
        let tail = Tail::parse(&bytes[tail_at..tail_at + TAIL_BYTES]).unwrap();
        let packed = &bytes[head + tail.index_at as usize..tail_at];
        let plain = unpacker().unwrap().unpack(&mut Fields::of(packed), MAX_INDEX_BYTES).unwrap();
        let mut index = Index::parse(&plain).unwrap();
        let end = index.closing.offset + index.closing.stored_bytes;
        let mut out = bytes[..head + end as usize].to_vec();
        index.key_blocks.clear();
        let (mut gather, mut packer) = (Gather::new(std::env::temp_dir(), 1 << 20), Packer::new(1).unwrap());
        for (chunk, keys) in of.iter().enumerate() {
            let mut table = KeyTable::default();
            keys.iter().for_each(|key| table.push(key.as_bytes()));
            gather.add(chunk as u32, &table).unwrap();
        }
        let place = |out: &mut Vec<u8>, stored: &[u8]| {
            let part =
                Part { offset: (out.len() - head) as u64, stored_bytes: stored.len() as u64, digest: digest(stored) };
            out.extend_from_slice(stored);
            part
        };
        gather
            .finish(|block| {
                let part = place(&mut out, &block.pack(&mut packer)?);
                index.key_blocks.push(KeyBlock { first_key: block.first_key().unwrap().to_vec(), part });
                Ok(())
            })
            .unwrap();
        let mut stored = Vec::new();
        Packer::new(1).unwrap().pack(&index.encode(), &mut stored).unwrap();
        let part = place(&mut out, &stored);
        let tail = Tail { index_at: part.offset, index_bytes: part.stored_bytes, index_digest: part.digest, ..tail };
        out.extend_from_slice(&tail.encode());
        let digest = Sha256::digest(&out).into();
        out.extend_from_slice(&footer(digest));
        out
    }

    #[test]
    fn an_index_that_tells_of_other_keys_or_chunks_does_not_agree() {
        let bytes = delta();
        let chunks = open(bytes.clone()).chunk_facts().len();
        assert!(chunks > 1, "{chunks}");
        let all = vec![&["a", "b", "c"][..]; chunks];
        assert!(open(bytes.clone()).key_index_agrees().unwrap());
        assert!(open(with_keys(&bytes, &all)).key_index_agrees().unwrap());
        for wrong in [&["a", "b"][..], &["a", "b", "c", "d"], &["a", "b", "d"], &[]] {
            let of: Vec<&[&str]> =
                all.iter().enumerate().map(|(at, keys)| if at == 1 { wrong } else { keys }).collect();
            let object = open(with_keys(&bytes, &of));
            assert!(object.verify_digest().unwrap());
            assert!(!object.key_index_agrees().unwrap(), "{wrong:?}");
        }
    }
}
