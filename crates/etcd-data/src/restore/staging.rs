//! Where something is built before it has its name: a hidden folder beside, with a lock.
//!
//! For `<parent>/<name>` the folder is `<parent>/.<name>.refloat`, so that a rename is enough to publish, and so that
//! a second run finds it: locked, the other run is alive; not locked, it is dead, and what it left is taken away.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::RestoreError;

const LOCK: &str = "lock";
/// Another run may take its folder away just as we find it; that often in a row it does not.
const TRIES: usize = 100;

/// A staging folder that is ours until it is closed.
pub(crate) struct Staging {
    folder: PathBuf,
    _lock: File,
}

/// The name of the staging folder of what is called `name`.
pub(crate) fn folder_name(name: &OsStr) -> OsString {
    let mut folder = OsString::from(".");
    folder.push(name);
    folder.push(".refloat");
    folder
}

/// The staging folder of what will be at `target`.
pub(crate) fn folder_for(target: &Path) -> PathBuf {
    target.with_file_name(folder_name(target.file_name().unwrap_or_default()))
}

impl Staging {
    /// Makes the staging folder of what will be at `target`, or takes over what a dead run left.
    pub(crate) fn open(disk: &dyn Disk, target: &Path) -> Result<Self, RestoreError> {
        let folder = folder_for(target);
        let io_error = |action| {
            let path = folder.clone();
            move |source| RestoreError::Io { action, path, source }
        };
        for _ in 0..TRIES {
            match disk.create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(io_error("making")(error));
                }
                _ => {}
            }
            let path = folder.join(LOCK);
            // Not part of the seam: an empty file that nobody reads.
            let lock = match OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lock => lock.map_err(io_error("locking"))?,
            };
            match lock.try_lock() {
                Ok(()) if is_at(&lock, &path) => return Ok(Self { folder, _lock: lock }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(RestoreError::Busy { path: target.into() }),
                Err(TryLockError::Error(error)) => return Err(io_error("locking")(error)),
            }
        }
        Err(RestoreError::Busy { path: target.into() })
    }

    /// The path of what is called `name` in it.
    pub(crate) fn entry(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The names of everything in it but the lock.
    pub(crate) fn entries(&self) -> Result<Vec<String>, RestoreError> {
        let io_error = |source| RestoreError::Io { action: "listing", path: self.folder.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io_error)? {
            let name = entry.map_err(io_error)?.file_name();
            names.extend(name.into_string().ok().filter(|name| name != LOCK));
        }
        Ok(names)
    }

    /// Removes everything in it.
    pub(crate) fn clear(&self, disk: &dyn Disk) -> Result<(), RestoreError> {
        for name in self.entries()? {
            self.remove(disk, &name)?;
        }
        Ok(())
    }

    /// Removes what is called `name` in it.
    pub(crate) fn remove(&self, disk: &dyn Disk, name: &str) -> Result<(), RestoreError> {
        let path = self.entry(name);
        disk.remove(&path).map_err(|source| RestoreError::Io { action: "removing", path, source })
    }

    /// Removes the folder, unless something is left in it.
    pub(crate) fn close(self) {
        // What stays is found by the next run.
        let _ = fs::remove_file(self.folder.join(LOCK));
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Whether `file` is what `path` names: else its name was taken away before it was locked.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |ours: &fs::Metadata, theirs: &fs::Metadata| (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino());
    matches!((file.metadata(), path.metadata()), (Ok(ours), Ok(theirs)) if same(&ours, &theirs))
}
