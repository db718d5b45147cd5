//! Bytes of an object, from wherever it is. Who reads them may have to wait, so this is for threads that may.

use std::error::Error as StdError;
use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

/// An object's bytes, by place.
pub trait ReadAt: Send + Sync {
    /// How many there are.
    fn size_bytes(&self) -> u64;

    /// The `len` bytes at `offset`. Fewer than that is an error.
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed>;

    /// Whether they are on this machine, so that it is not worth the memory to keep what was read.
    fn is_near(&self) -> bool {
        false
    }
}

/// Bytes could not be had, for a reason that has nothing to do with what they are.
#[derive(Debug, Clone, thiserror::Error)]
#[error("reading {len} bytes at {offset}")]
pub struct ReadFailed {
    /// Where.
    pub offset: u64,
    /// How many.
    pub len: usize,
    /// Why: an error of a disk or of a store.
    #[source]
    pub source: std::sync::Arc<dyn StdError + Send + Sync>,
}

impl ReadFailed {
    /// Reading failed by `source`.
    pub fn new(offset: u64, len: usize, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { offset, len, source: source.into().into() }
    }
}

impl ReadAt for File {
    fn size_bytes(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        let mut bytes = vec![0; len];
        self.read_exact_at(&mut bytes, offset).map_err(|source| ReadFailed::new(offset, len, source))?;
        Ok(bytes.into())
    }

    fn is_near(&self) -> bool {
        true
    }
}

impl ReadAt for Bytes {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        match start.checked_add(len).filter(|&end| end <= self.len()) {
            Some(end) => Ok(self.slice(start..end)),
            None => Err(ReadFailed::new(offset, len, "they lie past the end")),
        }
    }
}
