//! The seam to where bytes are: a file, or memory.
//!
//! Reading goes through `pread`, not a map: a file that shrinks while it is read gives an error then, where a
//! map would end the process, and what is resident stays what the readers hold.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any offset, from several threads at once.
pub trait Storage: Send + Sync {
    /// How many bytes there are now.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buf` with the bytes at `offset`; fails with `UnexpectedEof` if there are fewer.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Storage for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }
}

impl Storage for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}
