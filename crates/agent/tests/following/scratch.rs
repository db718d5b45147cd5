//! Folders for a while.

use tempfile::{TempDir, tempdir, tempdir_in};

/// In memory, if the system has a place for that: what a disk keeps is tried elsewhere.
pub(crate) fn scratch() -> TempDir {
    tempdir_in("/dev/shm").or_else(|_| tempdir()).unwrap()
}
