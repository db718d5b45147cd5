//! Bytes in memory that the kernel copies to and from at full speed.
//!
//! Pages of the page cache begin at multiples of 64 bytes. Where the buffer on the other side does not, some
//! processors copy at a fifth of their speed (2.6 instead of 14 GB/s, measured on a Zen 3), and what the allocator
//! gives out never does by itself.

use std::collections::TryReserveError;

/// What copies like to begin at a multiple of.
const ALIGNMENT: usize = 64;

/// Bytes that begin at a multiple of 64, where the allocator lets them.
#[derive(Default)]
pub struct AlignedBytes {
    /// The bytes, behind as many unused ones as it takes.
    bytes: Vec<u8>,
    unused: usize,
    /// As asked for: what the allocator gave beyond it would make reads and writes of odd sizes.
    capacity: usize,
}

impl AlignedBytes {
    /// No bytes yet, and room for `capacity`.
    pub fn with_capacity(capacity: usize) -> Result<Self, TryReserveError> {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(capacity.saturating_add(ALIGNMENT))?;
        let unused = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        bytes.resize(unused, 0);
        Ok(Self { bytes, unused, capacity })
    }

    /// `len` bytes to be overwritten: what they are now means nothing.
    pub fn of_len(len: usize) -> Result<Self, TryReserveError> {
        let mut bytes = Self::with_capacity(len)?;
        bytes.set_len(len)?;
        Ok(bytes)
    }

    /// Makes it `len` bytes to be overwritten, in the memory it has if they fit there.
    pub fn set_len(&mut self, len: usize) -> Result<(), TryReserveError> {
        if self.capacity() < len {
            *self = Self::with_capacity(len)?;
        }
        // Only bytes that were never used need to be zeroed.
        self.bytes.resize(self.unused + len, 0);
        Ok(())
    }

    /// Appends as many of `more` as there is room for, and returns the others.
    pub fn fill<'a>(&mut self, more: &'a [u8]) -> &'a [u8] {
        let (now, later) = more.split_at(more.len().min(self.capacity.saturating_sub(self.len())));
        self.bytes.extend_from_slice(now);
        later
    }

    /// Forgets the bytes and keeps the room.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.unused);
    }

    /// How many bytes there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.unused..).unwrap_or_default()
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.unused..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_begin_where_copies_are_fast_and_stay_there() {
        let mut bytes = AlignedBytes::with_capacity(1000).unwrap();
        for len in [0, 1, 1000, 10, 100_000, 3, 5000] {
            bytes.set_len(len).unwrap();
            assert_eq!(bytes.len(), len);
            assert!(bytes.as_ptr().addr().is_multiple_of(ALIGNMENT), "{len}");
        }
    }

    #[test]
    fn filling_takes_what_there_is_room_for() {
        let mut bytes = AlignedBytes::with_capacity(4).unwrap();
        assert_eq!(bytes.fill(b"abcdef"), b"ef");
        assert_eq!(&bytes[..], b"abcd");
        bytes.clear();
        assert_eq!(bytes.fill(b"ab"), b"");
        assert_eq!(&bytes[..], b"ab");
    }
}
