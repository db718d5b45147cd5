//! The records of a delta in a scratch file, for who reads them more than once, or backwards.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use etcd_data::Error;
use etcd_data::database::Direction;
use etcd_data::records::Visit;

use super::block::Block;

/// Blocks of records in a file without a name, which goes when this does.
pub(super) struct Spool {
    file: File,
    /// Where each block ends.
    ends: Vec<u64>,
}

impl Spool {
    /// An empty one in `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, ends: Vec::new() })
    }

    /// Appends a block.
    pub(super) fn push(&mut self, block: &Block) -> io::Result<()> {
        self.file.write_all(block.bytes())?;
        self.ends.push(self.size_bytes() + block.bytes().len() as u64);
        Ok(())
    }

    /// Shows every record to `visit`, until it breaks. Several threads may do so at once.
    pub(super) fn read(&self, direction: Direction, folder: &Path, visit: &mut Visit<'_>) -> Result<(), Error> {
        for index in direction.places(self.ends.len()) {
            let failed = |source| Error::Io { action: "reading scratch space in", path: folder.into(), source };
            if self.block(index).map_err(failed)?.read(direction, visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn block(&self, index: usize) -> io::Result<Block> {
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(Block::of(bytes))
    }

    fn size_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}
