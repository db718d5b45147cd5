//! The seam to where a new file goes: a file, or memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Takes bytes at offsets, and makes them last.
pub trait Sink {
    /// Writes all of `bytes` at `offset`. A sink that works in the background may report a failure at a later call.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything written so far would survive a crash.
    fn sync(&mut self) -> io::Result<()>;
}

/// Each write is a system call. Where there are many, [`WriteBehind`](crate::write_behind::WriteBehind) gathers them.
impl Sink for File {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Memory lasts as long as the process, so there is nothing to sync.
impl Sink for Vec<u8> {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if self.len() < end {
            self.resize(end, 0);
        }
        if let Some(place) = self.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        (**self).sync()
    }
}
