//! Folders that are still there after the power has failed. A file that was synced is lost all the same with a folder above it whose
//! name never came to the disk.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::io::Errno;

/// Backups are nobody else's business.
pub(super) const FOLDER_MODE: u32 = 0o700;

/// Makes the folder at `path`, and those above it that are not there, for ourselves only. Returns when a power cut would not
/// take any of them back. One that is there is left as it is.
pub fn make(path: &Path) -> io::Result<()> {
    make_below(&std::path::absolute(path)?)
}

fn make_below(folder: &Path) -> io::Result<()> {
    let Some(above) = folder.parent().filter(|_| !folder.is_dir()) else { return Ok(()) };
    make_below(above)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        // Somebody else was quicker.
        Err(_) if folder.is_dir() => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let why = format!("{} is no folder", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
        made => made?,
    }
    Ok(sync(File::open(above)?)?)
}

/// Returns when the names in `folder` would survive a power cut.
pub(super) fn sync(folder: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::fsync(folder) {
        // Some network file systems cannot, and need not.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn all_that_is_missing_on_the_way_is_made_and_the_rest_left_as_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let (above, deep) = (scratch.path().join("above"), scratch.path().join("above/deep/down"));
        std::fs::create_dir(&above).unwrap();
        std::fs::set_permissions(&above, std::fs::Permissions::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            make(&deep).unwrap();
            assert_eq!((mode(&above), mode(&above.join("deep")), mode(&deep)), (0o755, 0o700, 0o700));
        }
        std::fs::write(deep.join("file"), "").unwrap();
        for path in ["file", "file/below"] {
            let refused = make(&deep.join(path)).unwrap_err().to_string();
            assert!(refused.ends_with("file is no folder"), "{refused}");
        }
    }
}
