//! Listing a tree of folders in the order that the keys have as a whole: `a-b` comes before `a/b`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use rustix::io::Errno;

use super::place::{HIDDEN, Place, folder_name, open_beneath, timestamp};
use crate::error::Fault;
use crate::key::Key;
use crate::object::{Info, Listing, Page};

/// A folder is read anew for every page, so pages are large.
const PAGE_OBJECTS: usize = 16 << 10;

pub(super) fn list(place: &Place, listing: &Listing) -> Result<Page, Fault> {
    let root = place.root()?;
    let base = listing.prefix.rfind('/').and_then(|slash| listing.prefix.get(..=slash)).unwrap_or("");
    let folder = base.trim_end_matches('/');
    if !folder.is_empty() && (Key::parse(folder).is_err() || folder.split('/').any(|segment| segment == HIDDEN)) {
        return Ok(Page::default());
    }
    let opened = match open_beneath(root.as_fd(), folder_name(folder), OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Page::default()),
        Err(error) => return Err(Fault::of_disk(error.into())),
    };

    let mut walk = Walk { root: root.as_fd(), listing, objects: Vec::new(), more: false };
    walk.folder(opened, base)?;
    let last = walk.objects.last().filter(|_| walk.more);
    let next = last.map(|last| Listing { after: Some(last.key.to_string()), ..listing.clone() });
    Ok(Page { objects: walk.objects, next })
}

struct Walk<'l> {
    root: BorrowedFd<'l>,
    listing: &'l Listing,
    objects: Vec<Info>,
    /// Whether there was another object when the page was full.
    more: bool,
}

impl Walk<'_> {
    /// Takes up what is in a folder whose keys begin with `base`.
    fn folder(&mut self, folder: OwnedFd, base: &str) -> Result<(), Fault> {
        let mut names = self.names(folder.as_fd(), base)?;
        names.sort_unstable();
        for name in names {
            if self.more {
                return Ok(());
            }
            match name.strip_suffix('/') {
                Some(below) => match open_beneath(folder.as_fd(), below, OFlags::RDONLY | OFlags::DIRECTORY) {
                    Ok(opened) => self.folder(opened, &format!("{base}{name}"))?,
                    // It was emptied and removed a moment ago.
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(Fault::of_disk(error.into())),
                },
                None => self.file(folder.as_fd(), base, &name)?,
            }
        }
        Ok(())
    }

    /// What may lead to objects of this page; folders end with a slash, which puts them into the order of keys.
    fn names(&self, folder: BorrowedFd<'_>, base: &str) -> Result<Vec<String>, Fault> {
        let failed = |error: Errno| Fault::of_disk(error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Names that no key can have were not written by us.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | ".." | HIDDEN) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            let mut name = name.to_owned();
            match kind {
                FileType::Directory => name.push('/'),
                FileType::RegularFile | FileType::Symlink => {}
                _ => continue,
            }
            if self.is_wanted(&format!("{base}{name}")) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether this key, or one below this folder, belongs to what is listed.
    fn is_wanted(&self, path: &str) -> bool {
        let after = self.listing.after.as_deref().unwrap_or("");
        let prefix = self.listing.prefix.as_str();
        let is_folder = path.ends_with('/');
        let within = path.starts_with(prefix) || is_folder && prefix.starts_with(path);
        within && (path > after || is_folder && after.starts_with(path))
    }

    fn file(&mut self, folder: BorrowedFd<'_>, base: &str, name: &str) -> Result<(), Fault> {
        let Ok(key) = Key::parse(format!("{base}{name}")) else { return Ok(()) };
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {
                // What it leads to is an object if it is a file within the place.
                open_beneath(self.root, key.as_str(), OFlags::PATH).and_then(|file| rustix::fs::fstat(&file)).ok()
            }
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(Fault::of_disk(error.into())),
        };
        let Some(stat) = stat.filter(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) else { return Ok(()) };
        if self.objects.len() == PAGE_OBJECTS {
            self.more = true;
            return Ok(());
        }
        self.objects.push(Info {
            key,
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified: timestamp(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0))?,
            tag: None,
            metadata: Default::default(),
            retention: None,
        });
        Ok(())
    }
}
