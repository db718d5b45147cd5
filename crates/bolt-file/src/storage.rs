//! The seam to where bytes are: a file, or memory.
//!
//! Reading goes through `pread`, not a map: a file that shrinks while it is read gives an error then, where a
//! map would end the process, and what is resident stays what the readers hold.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Bytes that can be read at any offset, from several threads at once.
pub trait Storage: Send + Sync {
    /// How many bytes there are now.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buf` with the bytes at `offset`; fails with `UnexpectedEof` if there are fewer.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Where, from `offset` on, there may be anything but zeros. A file of which most was never written knows it, and need not
    /// be read.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }

    /// Whether somebody wrote to it since it was opened. Where nobody else can, nobody did.
    fn was_written(&self) -> io::Result<bool> {
        Ok(false)
    }
}

/// A file that others may write to while it is read.
///
/// A write shows in the size, or in the time of the last one, both asked of the file that is open: under its name there may
/// be another by now, which is of no matter. The time at which anything changed (ctime) is not asked for: a rename, a link, an
/// owner, a mode or a label sets it too, and leaves the bytes alone. So whoever writes and sets the time back is not seen, nor
/// is one who writes twice within a tick of the file system's clock and is read in between, nor one who writes through a map
/// until the system takes note of it. What etcd commits shows in the meta pages all the same.
///
/// What is built here is read back as a [`File`]: over a network, its time may be set as late as when it is synced.
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    opened: Stamp,
}

/// What is another after a write.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { size: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }
}

impl SharedFile {
    /// `file` as it is now.
    pub fn new(file: File) -> io::Result<Self> {
        let opened = Stamp::of(&file)?;
        Ok(Self { file, opened })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Storage for SharedFile {
    fn size(&self) -> io::Result<u64> {
        Storage::size(&self.file)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Storage::read_exact_at(&self.file, buf, offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Storage::next_data(&self.file, offset)
    }

    fn was_written(&self) -> io::Result<bool> {
        Ok(Stamp::of(&self.file)? != self.opened)
    }
}

impl Storage for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        match rustix::fs::seek(self, SeekFrom::Data(offset)) {
            // Nothing was written from there on.
            Err(Errno::NXIO) => Ok(offset.max(Storage::size(self)?)),
            // Where the file system does not know, reading tells.
            found => Ok(found.unwrap_or(offset)),
        }
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
