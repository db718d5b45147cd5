//! A single new file, built beside its place and published like a directory.

use std::path::Path;

use super::destination::{exists, resolve};
use super::disk::Disk;
use super::error::RestoreError;
use super::publish::rename;
use super::staging::Staging;

/// Lets `build` make a file, and gives it the name `path`, which must be free, once it is whole and synced.
pub(crate) fn publish_file<T>(
    disk: &dyn Disk,
    path: &Path,
    build: impl FnOnce(&Path) -> Result<T, RestoreError>,
) -> Result<T, RestoreError> {
    let path = resolve(path)?;
    require_absent(&path)?;
    let staging = Staging::open(disk, &path)?;
    let built = staging.clear(disk).and_then(|()| {
        let new = staging.entry("new");
        let built = build(&new)?;
        require_absent(&path)?;
        rename(disk, &new, &path)?;
        Ok(built)
    });
    let cleared = staging.clear(disk);
    staging.close();
    let built = built?;
    cleared.map(|()| built)
}

fn require_absent(path: &Path) -> Result<(), RestoreError> {
    if exists(path)? { Err(RestoreError::Exists { path: path.into() }) } else { Ok(()) }
}
