//! What a restore does to the file system.
//!
//! A seam, so that a test can stop a restore at each of these steps and look at what is left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown};
use std::path::Path;

use bolt_file::sink::Sink;
use bolt_file::write_behind::WriteBehind;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::owner::Owner;
use crate::wal::fresh::allocate_segment;

/// The steps that change a file system.
pub trait Disk: Sync {
    /// Makes a folder that only its owner may enter.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that only its owner may read. There must be none.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Makes what is at `path` the property of `owner`.
    fn give(&self, path: &Path, owner: Owner) -> io::Result<()>;

    /// Returns when the names in a folder would survive a crash.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives what is at `from` the name `to`, which must be free, in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives each the name of the other, in one step. Fails with `Unsupported` where the file system cannot.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Removes a file, or a folder with all that is in it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The bytes that may still be written in a folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// A file in the making.
pub trait NewFile: Sink + Send {
    /// Reserves room for `bytes`, the most that will be written. Fails if there is none.
    fn reserve(&mut self, bytes: u64) -> io::Result<()>;

    /// How far it can be read back by now, as long as it is written one behind the other.
    fn readable_bytes(&mut self) -> io::Result<u64>;

    /// Returns when everything written so far can be read back.
    fn flush(&mut self) -> io::Result<()>;

    /// Sees to it that a log segment can grow to its full size without asking for space.
    fn allocate_segment(&mut self) -> io::Result<()>;
}

/// The file system itself.
#[derive(Debug, Clone, Copy)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        // Readable too, for what was written is read back.
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(RealFile { allocating: file.try_clone()?, written: WriteBehind::new(file)? }))
    }

    fn give(&self, path: &Path, owner: Owner) -> io::Result<()> {
        lchown(path, Some(owner.uid), Some(owner.gid))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(error) if cannot(error) => rename_plainly(from, to),
            result => Ok(result?),
        }
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Err(error) if cannot(error) => Err(io::ErrorKind::Unsupported.into()),
            result => Ok(result?),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        free_bytes(folder)
    }
}

/// How much room there is for whoever runs this, on the file system of `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether a file system that lacks a way to rename says so.
fn cannot(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// For file systems that cannot refuse to replace. A folder never replaces one that holds something, and a link
/// never replaces a file.
fn rename_plainly(from: &Path, to: &Path) -> io::Result<()> {
    if from.symlink_metadata()?.is_dir() {
        return fs::rename(from, to);
    }
    fs::hard_link(from, to)?;
    fs::remove_file(from)
}

struct RealFile {
    written: WriteBehind,
    allocating: File,
}

impl Sink for RealFile {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.written.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.written.sync()
    }
}

impl NewFile for RealFile {
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        self.written.reserve(bytes)
    }

    fn readable_bytes(&mut self) -> io::Result<u64> {
        self.written.readable_bytes()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written.flush()
    }

    fn allocate_segment(&mut self) -> io::Result<()> {
        allocate_segment(&self.allocating)
    }
}
