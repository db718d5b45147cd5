//! Folders and files on this machine that nobody else reads or changes: what waits in them for the store holds every key
//! and value of the cluster, Secrets too, in the clear.
//!
//! A folder may be where others may make something, so what is there already is looked at before it is used.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Only for ourselves.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What lets group or others put something of theirs there, and what lets them in at all.
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;

/// Makes `folder`, and those above it that are not there, for ourselves only, so that no power cut takes them back. One that is
/// there has to be ours, or of the system, and nobody else may have put anything there; if others may read it, they no longer may.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    make_as(rustix::process::geteuid().as_raw(), folder)
}

/// The same for the user `us`.
fn make_as(us: u32, folder: &Path) -> io::Result<()> {
    store::folder::make(folder)?;
    // A link that somebody else has put there leads where they want it to.
    let (named, there) = (fs::symlink_metadata(folder)?, fs::metadata(folder)?);
    if let Some(owner) = [named.uid(), there.uid()].into_iter().find(|owner| ![us, ROOT].contains(owner)) {
        return Err(refused(format!("it belongs to user {owner}, who may read and change what is kept there")));
    }
    let mode = there.mode() & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        return Err(refused(format!(
            "others may write to it (mode {mode:04o}), and what they put there would be taken for ours; a folder in it \
             that is yet to be made would do"
        )));
    }
    if there.uid() == us && mode & OTHERS != 0 {
        fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(())
}

/// Makes `path`, or empties it if it is there; never what a link in its place leads to.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

const ROOT: u32 = 0;

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_made_is_ours_alone_and_what_is_there_becomes_so() {
        let scratch = tempfile::tempdir().unwrap();
        let (above, folder) = (scratch.path().join("above"), scratch.path().join("above/folder"));
        make(&folder).unwrap();
        assert_eq!((mode(&above), mode(&folder)), (0o700, 0o700));
        set_mode(&folder, 0o755);
        make(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);

        let file = folder.join("file");
        create_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn where_others_may_write_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        for open in [0o777, 0o1777, 0o770, 0o702] {
            set_mode(folder.path(), open);
            let refused = make(folder.path()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(refused.to_string().contains(&format!("{open:04o}")), "{refused}");
            assert_eq!(mode(folder.path()), open, "it is left as it is");
            // It is for ourselves what we make there.
            make(&folder.path().join(format!("own-{open:o}"))).unwrap();
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, link) = (folder.path().join("theirs"), folder.path().join("link"));
        // Root gives away what it has made. Whoever else made it is somebody else to the user with the next number.
        let (us, owner, of_the_system) = match rustix::process::geteuid().as_raw() {
            ROOT => (ROOT, 4711, folder.path()),
            own => (own + 1, own, Path::new("/usr")),
        };
        fs::create_dir(&theirs).unwrap();
        symlink(of_the_system, &link).unwrap();
        for path in [&theirs, &link] {
            lchown(path, Some(owner), None).unwrap();
            let refused = make_as(us, path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(refused.to_string().contains(&format!("belongs to user {owner}")), "{refused}");
        }
        // What the link leads to is well: whose link it is decides.
        make_as(owner, &link).unwrap();
    }

    #[test]
    fn what_a_link_leads_to_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, link) = (folder.path().join("precious"), folder.path().join("making"));
        fs::write(&precious, "all").unwrap();
        symlink(&precious, &link).unwrap();
        assert!(create_file(&link).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "all");
    }
}
