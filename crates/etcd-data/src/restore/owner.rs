//! Whose a data directory is. What takes the place of another belongs to whom that belonged to: an etcd that runs as a
//! user of its own starts on it, though root restored it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::destination::Destination;
use super::disk::{Disk, NewFile};
use super::error::RestoreError;

/// A user and a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// Whose that is what `destination` replaces. Nobody's if that is nothing: whose a folder above is says little.
    pub(crate) fn of_replaced(destination: &Destination) -> Result<Option<Self>, RestoreError> {
        if destination.kept.is_none() {
            return Ok(None);
        }
        let path = destination.target();
        match Self::of(&path) {
            Ok(owner) => Ok(Some(owner)),
            Err(source) => Err(RestoreError::Io { action: "finding the owner of", path, source }),
        }
    }

    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self { uid: metadata.uid(), gid: metadata.gid() })
    }
}

/// As `chown` takes it.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

/// A file system on which everything that is made is given to an owner at once, and so before it is synced.
pub(crate) struct OwnedDisk<'a> {
    disk: &'a dyn Disk,
    owner: Option<Owner>,
    is_refused: AtomicBool,
}

impl<'a> OwnedDisk<'a> {
    /// `disk`, where what is made is `owner`'s; that of whoever makes it if there is none.
    pub(crate) fn new(disk: &'a dyn Disk, owner: Option<Owner>) -> Self {
        Self { disk, owner, is_refused: AtomicBool::new(false) }
    }

    /// The owner, if something that was made could not be given to them.
    pub(crate) fn refused(&self) -> Option<Owner> {
        self.owner.filter(|_| self.is_refused.load(Ordering::Relaxed))
    }

    fn give_away(&self, path: &Path) -> io::Result<()> {
        let Some(owner) = self.owner else { return Ok(()) };
        match self.disk.give(path, owner) {
            Err(error) if is_refusal(&error) => {
                // Some file systems refuse also what changes nothing.
                if Owner::of(path)? != owner {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            given => given,
        }
    }
}

/// Whether it is not for us to give something away, or to that owner, or on that file system.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

impl Disk for OwnedDisk<'_> {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)?;
        self.give_away(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let file = self.disk.create_file(path)?;
        self.give_away(path)?;
        Ok(file)
    }

    fn give(&self, path: &Path, owner: Owner) -> io::Result<()> {
        self.disk.give(path, owner)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.disk.exchange(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.disk.free_bytes(folder)
    }
}
