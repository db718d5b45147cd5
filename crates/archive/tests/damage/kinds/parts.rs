//! The parts of an object of ours, and fields that lie.

use std::sync::Arc;

use archive::Object;
use bytes::Bytes;

use super::{Changed, MAGIC};
use crate::sound::Subject;

/// What can be done to one part of an object. Nothing if it is none that has parts.
pub(super) fn of(subject: &Subject, victim: &Bytes) -> Vec<Changed> {
    if !victim.starts_with(MAGIC) {
        return Vec::new();
    }
    let len = victim.len();
    let is_encrypted = subject.key_file.is_some();
    let header_len = u32::from_le_bytes(victim[12..16].try_into().unwrap()) as usize;
    let body = 20 + header_len;
    let object = Object::open("", Arc::new(victim.clone()), &*subject.keys).unwrap();
    let chunks: Vec<_> = object.chunk_facts().collect();
    let (first, last) = (chunks[0], chunks[chunks.len() - 1]);
    let chunks_end = (last.stored_at + last.stored_bytes) as usize;
    let tail = len - 40 - 52;
    let index = if is_encrypted {
        tail - 100
    } else {
        body + u64::from_le_bytes(victim[tail..tail + 8].try_into().unwrap()) as usize
    };
    let flips = [
        ("magic flipped", 3),
        ("version flipped", 8),
        ("length of the header flipped", 13),
        ("header flipped", 16 + header_len / 2),
        ("sum of the header flipped", 17 + header_len),
        ("first chunk flipped", first.stored_at as usize + first.stored_bytes as usize / 2),
        ("last chunk flipped", last.stored_at as usize + last.stored_bytes as usize / 2),
        ("tables or closing flipped", chunks_end + 6),
        ("closing flipped", chunks_end + (index - chunks_end) / 2),
        ("key index flipped", index - 3),
        ("index flipped", index + 10),
        ("tail flipped", tail + 20),
        ("digest flipped", len - 30),
        ("end mark flipped", len - 4),
    ];
    let mut all: Vec<Changed> = Vec::new();
    for (what, at) in flips {
        let mut bytes = victim.to_vec();
        bytes[at] ^= 0x01;
        all.push((what, bytes));
    }
    for (what, at) in [
        ("cut after the header", body),
        ("cut after the chunks", chunks_end),
        ("cut before the index", index),
        ("cut before the tail", tail),
        ("cut before the digest", len - 40),
    ] {
        all.push((what, victim[..at].to_vec()));
    }
    let mut put = |what: &'static str, at: usize, field: &[u8], sums_tail: bool| {
        let mut bytes = victim.to_vec();
        bytes[at..at + field.len()].copy_from_slice(field);
        if sums_tail {
            let sum = crc32c::crc32c(&bytes[tail..tail + 48]);
            bytes[tail + 48..tail + 52].copy_from_slice(&sum.to_le_bytes());
        }
        all.push((what, bytes));
    };
    put("a newer format", 8, &7u32.to_le_bytes(), false);
    put("a header of 4 GiB", 12, &u32::MAX.to_le_bytes(), false);
    if !is_encrypted {
        put("an index of 16 EiB", tail + 8, &u64::MAX.to_le_bytes(), true);
        put("an index far away", tail, &(1u64 << 60).to_le_bytes(), true);
    } else {
        // Two sealed segments change places, as far as there are two; otherwise two halves of one do.
        let mut bytes = victim.to_vec();
        let half = (tail - body) / 2;
        let (one, other) = bytes[body..body + 2 * half].split_at_mut(half);
        one.swap_with_slice(other);
        all.push(("sealed parts change places", bytes));
        let mut bytes = victim.to_vec();
        bytes.drain(body..body + 64);
        all.push(("a sealed part is cut out", bytes));
    }
    all
}
