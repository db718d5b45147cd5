//! Folders of drills: each is locked as long as its drill goes on, so what a drill leaves that is killed is known to be
//! nobody's.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::TempDir;

/// What their names begin with.
const PREFIX: &str = "refloat-drill-";
/// How often one is made anew that somebody who cleans up took for left: that is a matter of an instant.
const TRIES: usize = 10;

/// A new folder in `scratch`, for ourselves, and the lock on it.
pub(super) fn make_locked(scratch: &Path) -> io::Result<(TempDir, File)> {
    for _ in 0..TRIES {
        let ours = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(ours).tempdir_in(scratch)?;
        if let Some(lock) = lock(folder.path()) {
            return Ok((folder, lock));
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Removes those in `scratch` that are ours, and that nobody has locked. What cannot be removed stays.
pub(super) fn remove(scratch: &Path) {
    let Ok(found) = fs::read_dir(scratch) else { return };
    for entry in found.filter_map(Result::ok) {
        let is_ours = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == rustix::process::geteuid().as_raw());
        if !is_ours || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let folder = entry.path();
        if let Some(_lock) = lock(&folder) {
            match fs::remove_dir_all(&folder) {
                Ok(()) => tracing::info!(folder = %folder.display(), "removed what a drill has left that was killed"),
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "cannot remove what a drill has left"),
            }
        }
    }
}

/// The lock on a folder that is there and that nobody else has locked.
fn lock(folder: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let lock = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(folder).ok()?;
    lock.try_lock().ok()?;
    // Whoever had it before may have removed it.
    folder.exists().then_some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_locked_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (held, _lock) = make_locked(scratch.path()).unwrap();
        let (left, lock) = make_locked(scratch.path()).unwrap();
        fs::write(left.path().join("etcd.log"), "").unwrap();
        let (left, other) = (left.keep(), scratch.path().join("other"));
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, scratch.path().join("refloat-drill-link")).unwrap();
        remove(scratch.path());
        assert!(left.exists());
        drop(lock);
        remove(scratch.path());
        assert!(!left.exists() && held.path().exists() && other.exists());
        assert_eq!(fs::metadata(held.path()).unwrap().mode() & 0o777, 0o700);
    }
}
