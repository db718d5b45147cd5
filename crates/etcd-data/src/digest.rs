//! The SHA-256 that ends a snapshot file.
//!
//! | offset | size | field                                      |
//! |--------|------|--------------------------------------------|
//! | 0      | n    | the database, a multiple of 512 bytes      |
//! | n      | 32   | SHA-256 of the n bytes before              |
//!
//! A file whose length is no multiple of 512 plus 32 has none: it was copied from a data directory.

use bolt_file::Storage;
use bolt_file::aligned::AlignedBytes;
use sha2::{Digest as _, Sha256};
use std::io;

/// The bytes of the digest.
pub const DIGEST_SIZE: u64 = 32;

/// What the end of a file says about the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// There is none.
    Absent,
    /// It matches.
    Matches([u8; 32]),
    /// It does not: the file was changed or damaged after it was made.
    Differs {
        /// What the file says.
        stored: [u8; 32],
        /// What it should say.
        computed: [u8; 32],
    },
}

/// The length of the database in a file of `size` bytes that ends with a digest; nothing if it does not.
pub fn covered_bytes(size: u64) -> Option<u64> {
    (size % 512 == DIGEST_SIZE).then(|| size - DIGEST_SIZE)
}

/// Compares the end of a file with the rest.
pub fn check(storage: &dyn Storage) -> io::Result<Digest> {
    let Some(covered) = covered_bytes(storage.size()?) else { return Ok(Digest::Absent) };
    let mut stored = [0; 32];
    storage.read_exact_at(&mut stored, covered)?;
    let computed = sha256(storage, covered)?;
    Ok(if stored == computed { Digest::Matches(stored) } else { Digest::Differs { stored, computed } })
}

/// SHA-256 of the first `len` bytes.
pub fn sha256(storage: &dyn Storage, len: u64) -> io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut buffer = AlignedBytes::of_len(1 << 18).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut offset = 0;
    while offset < len {
        let size = (len - offset).min(buffer.len() as u64) as usize;
        let part = buffer.get_mut(..size).unwrap_or_default();
        storage.read_exact_at(part, offset)?;
        hasher.update(&*part);
        offset += size as u64;
    }
    Ok(hasher.finalize().into())
}
