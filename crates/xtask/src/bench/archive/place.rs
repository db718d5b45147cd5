//! Where the archives are that are measured: made once, and kept in the cache until what makes them changes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{Result, say};

/// To be raised whenever the bytes that are made change.
const VERSION: u32 = 2;

/// A folder `name` of the cache, which `make` fills if it is not there. One that was not filled whole is not there.
pub(super) fn made(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let root = testkit::cache::root().join(format!("bench/archive-{VERSION}"));
    let folder = root.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    say(&format!("making {}", folder.display()));
    fs::create_dir_all(&root)?;
    let making = tempfile::tempdir_in(&root)?;
    make(making.path())?;
    // What was made is not the disk's work while something is measured.
    rustix::fs::sync();
    fs::rename(making.keep(), &folder)?;
    Ok(folder)
}

/// A folder for what is measured to write to, on the same file system.
pub(in crate::bench) fn scratch() -> Result<tempfile::TempDir> {
    let root = testkit::cache::root().join("bench");
    fs::create_dir_all(&root)?;
    Ok(tempfile::tempdir_in(root)?)
}

/// Refuses to begin what would fill the disk.
pub(super) fn require_room(bytes: u64) -> Result<()> {
    let root = testkit::cache::root();
    fs::create_dir_all(&root)?;
    let stat = rustix::fs::statvfs(&root)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    match free >= bytes {
        true => Ok(()),
        false => Err(format!("{} has {free} bytes free, and {bytes} are needed", root.display()).into()),
    }
}

/// The bytes of all files below `folder` that have `part` in their path.
pub(in crate::bench) fn bytes_of(folder: &Path, part: &str) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_of(&path, part)?,
            false if path.to_string_lossy().contains(part) => entry.metadata()?.len(),
            false => 0,
        };
    }
    Ok(bytes)
}

/// Makes `to` of everything in `from`, without copying a byte where the file system can.
pub(in crate::bench) fn link_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &target)?;
        } else {
            fs::hard_link(entry.path(), &target).or_else(|_| fs::copy(entry.path(), &target).map(drop))?;
        }
    }
    Ok(())
}

/// Makes a file and the folders that it is in.
pub(super) fn create(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(File::create_new(path)?)
}
