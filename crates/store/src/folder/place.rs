//! What blocks: files below a folder, opened so that nothing leads out of it.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base16ct::lower::encode_string;
use bytes::Bytes;
use jiff::Timestamp;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::{Errno, pread};
use sha2::{Digest, Sha256};

use super::lasting;
use crate::error::{Fault, KEEPING};
use crate::key::Key;
use crate::memory::clip;
use crate::object::{Info, Put, Tag, When};

/// The folder for what is in the making, and for the lock. No segment of a key is called so.
pub const HIDDEN: &str = ".refloat";
const TEMPORARY: &str = ".refloat/tmp";
const LOCK: &str = ".refloat/lock";

/// So long one process waits for another that writes. Between taking the lock and letting go there are only renames.
const LOCK_DEADLINE: Duration = Duration::from_secs(20);

/// Up to this size the tag of a file is the digest of what is in it: small files are those that are replaced, and the clock of
/// a file system is too coarse to tell two versions apart.
const DIGESTED_BYTES: u64 = 64 << 10;

/// Backups are nobody else's business.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(lasting::FOLDER_MODE);

/// The folder.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Orders the writers of this process before the lock orders all.
    writers: Mutex<()>,
}

/// A file in the making. It is removed unless it is published.
pub(super) struct Temporary<'r> {
    pub(super) file: File,
    root: BorrowedFd<'r>,
    name: String,
    published: bool,
}

impl Place {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, writers: Mutex::new(()) }
    }

    /// Opens the folder itself, anew for every request: it may be a volume that comes and goes.
    pub(super) fn root(&self) -> Result<OwnedFd, Fault> {
        match rustix::fs::open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(root) => Ok(root),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(Fault::NoSuchPlace),
            Err(error) => Err(Fault::of_disk(error.into())),
        }
    }

    pub(super) fn put(&self, key: &Key, bytes: &[u8], put: &Put) -> Result<Tag, Fault> {
        check(key, put)?;
        let root = self.root()?;
        let mut temporary = Temporary::create(root.as_fd(), key)?;
        temporary.file.write_all(bytes).map_err(Fault::of_disk)?;
        self.publish(temporary, key, &put.when)
    }

    /// Makes what was written the object `key`, if it may be.
    pub(super) fn publish(&self, mut temporary: Temporary<'_>, key: &Key, when: &When) -> Result<Tag, Fault> {
        temporary.file.sync_all().map_err(Fault::of_disk)?;
        let tag = tag_of(&temporary.file)?;
        let root = temporary.root;
        let (parent, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));

        let _alone = self.lock(root)?;
        let parent = create_folders(root, parent)?;
        match when {
            When::Always => temporary.replace(parent.as_fd(), name)?,
            When::Absent => temporary.place_beside_nothing(parent.as_fd(), name)?,
            When::Unchanged(expected) => {
                let there = match open_beneath(parent.as_fd(), name, OFlags::RDONLY) {
                    Ok(file) => tag_of(&File::from(file))?,
                    Err(Errno::NOENT) => return Err(Fault::Changed),
                    Err(error) => return Err(Fault::of_disk(error.into())),
                };
                if there != *expected {
                    return Err(Fault::Changed);
                }
                temporary.replace(parent.as_fd(), name)?;
            }
        }
        sync(parent.as_fd())?;
        Ok(tag)
    }

    pub(super) fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, Fault> {
        let file = self.open_object(key)?;
        let size = file.metadata().map_err(Fault::of_disk)?.len();
        let range = clip(&range, size)?;
        let len =
            usize::try_from(range.end - range.start).map_err(|_| Fault::Invalid("the range is too long".into()))?;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = range.start + bytes.len() as u64;
            match pread(&file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(Fault::Nonsense("the file became shorter while it was read".into())),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Fault::of_disk(error.into())),
            }
        }
        bytes.truncate(len);
        Ok(bytes.into())
    }

    pub(super) fn head(&self, key: &Key) -> Result<Info, Fault> {
        let file = self.open_object(key)?;
        let metadata = file.metadata().map_err(Fault::of_disk)?;
        let modified = timestamp(metadata.mtime(), metadata.mtime_nsec())?;
        let tag = Some(tag_of(&file)?);
        let (metadata, size_bytes) = (Default::default(), metadata.len());
        Ok(Info { key: key.clone(), size_bytes, modified, tag, metadata, retention: None })
    }

    pub(super) fn open_object(&self, key: &Key) -> Result<File, Fault> {
        check(key, &Put::default())?;
        let root = self.root()?;
        // Without NONBLOCK, somebody's pipe would be waited for.
        let file = open_beneath(root.as_fd(), key.as_str(), OFlags::RDONLY | OFlags::NONBLOCK);
        let file = File::from(file.map_err(|error| Fault::of_disk(error.into()))?);
        if file.metadata().map_err(Fault::of_disk)?.is_file() { Ok(file) } else { Err(Fault::NotFound) }
    }

    /// Deletes files, and folders that are empty after that.
    pub(super) fn delete(&self, keys: &[Key]) -> Vec<Result<(), Fault>> {
        let mut touched = BTreeSet::new();
        let mut results: Vec<_> = keys.iter().map(|key| self.delete_one(key, &mut touched)).collect();

        // A deletion is told when the power cannot undo it.
        let synced = self.root().and_then(|root| {
            touched.iter().try_for_each(|folder: &String| {
                match open_beneath(root.as_fd(), folder_name(folder), OFlags::RDONLY | OFlags::DIRECTORY) {
                    Ok(folder) => sync(folder.as_fd()),
                    Err(Errno::NOENT) => Ok(()),
                    Err(error) => Err(Fault::of_disk(error.into())),
                }
            })
        });
        if let Err(fault) = synced {
            let what = fault.to_string();
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(Fault::Unavailable { what: what.clone(), source: None });
            }
        }
        results
    }

    fn delete_one(&self, key: &Key, touched: &mut BTreeSet<String>) -> Result<(), Fault> {
        check(key, &Put::default())?;
        let root = self.root()?;
        let (mut parent, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));
        let folder = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = match open_beneath(root.as_fd(), folder_name(parent), folder) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            other => other.map_err(|error| Fault::of_disk(error.into()))?,
        };
        // Before the lock, whose file may be impossible to write: what is not there is deleted already.
        match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => return Ok(()),
            _ => {}
        }

        let _alone = self.lock(root.as_fd())?;
        match rustix::fs::unlinkat(&opened, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(error) => return Err(Fault::of_disk(error.into())),
        }
        touched.insert(parent.to_owned());
        // Other stores have no folders, so none outlives what was in it.
        while !parent.is_empty() && rustix::fs::unlinkat(&root, parent, AtFlags::REMOVEDIR).is_ok() {
            parent = parent.rsplit_once('/').map_or("", |(above, _)| above);
            touched.insert(parent.to_owned());
        }
        Ok(())
    }

    /// Waits until no other process writes here.
    fn lock(&self, root: BorrowedFd<'_>) -> Result<Alone<'_>, Fault> {
        let own = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        create_folders(root, HIDDEN)?;
        let file = rustix::fs::openat(root, LOCK, OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC, FILE_MODE);
        let file = File::from(file.map_err(|error| Fault::of_disk(error.into()))?);
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Alone { _own: own, _file: file }),
                Err(TryLockError::Error(error)) => return Err(Fault::of_disk(error)),
                Err(TryLockError::WouldBlock) if begin.elapsed() > LOCK_DEADLINE => {
                    return Err(Fault::TimedOut { after: LOCK_DEADLINE });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// As long as this lives, nobody else writes.
struct Alone<'p> {
    _own: std::sync::MutexGuard<'p, ()>,
    _file: File,
}

impl<'r> Temporary<'r> {
    pub(super) fn create(root: BorrowedFd<'r>, key: &Key) -> Result<Self, Fault> {
        create_folders(root, TEMPORARY)?;
        // The key is in the name, so that a person and `uploads` see what this was to become.
        let name = format!("{TEMPORARY}/{}.{:016x}", flat_name(key.as_str()), rand::random::<u64>());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, &name, flags, FILE_MODE);
        let file = File::from(file.map_err(|error| Fault::of_disk(error.into()))?);
        // Who can take this lock knows that the writer is gone.
        file.lock().map_err(Fault::of_disk)?;
        Ok(Self { file, root, name, published: false })
    }

    fn replace(&mut self, parent: BorrowedFd<'_>, name: &str) -> Result<(), Fault> {
        match rustix::fs::renameat(self.root, &self.name, parent, name) {
            Ok(()) => self.published = true,
            Err(Errno::ISDIR) => return Err(Fault::Invalid("there is a folder of that name".into())),
            Err(error) => return Err(Fault::of_disk(error.into())),
        }
        Ok(())
    }

    fn place_beside_nothing(&mut self, parent: BorrowedFd<'_>, name: &str) -> Result<(), Fault> {
        match rustix::fs::renameat_with(self.root, &self.name, parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.published = true;
                Ok(())
            }
            // Some file systems, network ones above all, cannot rename so. A link is refused just as well if there is
            // something, and the temporary name goes when this is dropped.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(self.root, &self.name, parent, name, AtFlags::empty())
                    .map_err(|error| Fault::of_disk(error.into()))
            }
            Err(error) => Err(Fault::of_disk(error.into())),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = rustix::fs::unlinkat(self.root, &self.name, AtFlags::empty());
        }
    }
}

/// Opens what is at `path` below `folder`, wherever links within it lead.
pub(super) fn open_beneath(folder: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        // A kernel or a sandbox that does not know this call: then no links at all.
        Err(Errno::NOSYS | Errno::PERM) => open_without_links(folder, path, flags),
        other => other,
    }
}

fn open_without_links(folder: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let step = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(folder, ".", step, Mode::empty())?;
    for segment in parents.split('/').filter(|segment| !segment.is_empty()) {
        at = rustix::fs::openat(&at, segment, step, Mode::empty())?;
    }
    rustix::fs::openat(&at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens the folder `path` below `root`, created where it is missing, and made to last.
pub(super) fn create_folders(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Fault> {
    let folder = OFlags::RDONLY | OFlags::DIRECTORY;
    match open_beneath(root, folder_name(path), folder) {
        Ok(opened) => return Ok(opened),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(blocked(error)),
    }
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let above = create_folders(root, above)?;
    match rustix::fs::mkdirat(&above, name, FOLDER_MODE) {
        Ok(()) => sync(above.as_fd())?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(blocked(error)),
    }
    open_beneath(root, path, folder).map_err(blocked)
}

fn blocked(error: Errno) -> Fault {
    match error {
        Errno::NOTDIR => Fault::Invalid("there is an object where a folder is needed".into()),
        other => Fault::of_disk(other.into()),
    }
}

/// The name under which a folder is opened from the top: the top itself has none.
pub(super) fn folder_name(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

fn sync(folder: BorrowedFd<'_>) -> Result<(), Fault> {
    lasting::sync(folder).map_err(|error| Fault::of_disk(error.into()))
}

/// Which content a file has.
fn tag_of(file: &File) -> Result<Tag, Fault> {
    let metadata = file.metadata().map_err(Fault::of_disk)?;
    if metadata.len() > DIGESTED_BYTES {
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        return Ok(Tag(format!("{:x}-{:x}-{seconds:x}.{nanoseconds:x}", metadata.ino(), metadata.len())));
    }
    let mut bytes = vec![0; metadata.len() as usize];
    file.read_exact_at(&mut bytes, 0).map_err(Fault::of_disk)?;
    let digest = Sha256::digest(&bytes);
    Ok(Tag(encode_string(&digest)))
}

fn check(key: &Key, put: &Put) -> Result<(), Fault> {
    if put.retention.is_some() {
        return Err(Fault::Unable(KEEPING));
    }
    match key.as_str().split('/').any(|segment| segment == HIDDEN) {
        true => Err(Fault::Invalid(format!("{HIDDEN} is kept for what is in the making"))),
        false => Ok(()),
    }
}

/// A key in one name of a file, cut where it is long.
fn flat_name(key: &str) -> String {
    let flat = key.replace('%', "%25").replace('/', "%2F");
    let mut end = flat.len().min(200);
    while !flat.is_char_boundary(end) {
        end -= 1;
    }
    flat.get(..end).unwrap_or_default().to_owned()
}

/// The key that [`flat_name`] was made of, or its beginning.
fn key_of(flat: &str) -> String {
    flat.replace("%2F", "/").replace("%25", "%")
}

/// What writers that are gone have left behind: the key, the name, and when it was last written.
pub(super) fn abandoned(root: BorrowedFd<'_>) -> Result<Vec<(String, String, Timestamp)>, Fault> {
    let mut found = Vec::new();
    for name in names(root, TEMPORARY)? {
        let path = format!("{TEMPORARY}/{name}");
        let Ok(file) = open_beneath(root, &path, OFlags::RDONLY) else { continue };
        let file = File::from(file);
        let (Ok(()), Ok(metadata)) = (file.try_lock(), file.metadata()) else { continue };
        let flat = name.rsplit_once('.').map_or(name.as_str(), |(flat, _)| flat);
        found.push((key_of(flat), name, timestamp(metadata.mtime(), metadata.mtime_nsec())?));
    }
    Ok(found)
}

/// Removes what [`abandoned`] has found.
pub(super) fn remove_abandoned(root: BorrowedFd<'_>, name: &str) -> Result<(), Fault> {
    match rustix::fs::unlinkat(root, format!("{TEMPORARY}/{name}"), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Fault::of_disk(error.into())),
    }
}

/// The names in a folder, in order; none if it is not there.
pub(super) fn names(root: BorrowedFd<'_>, folder: &str) -> Result<Vec<String>, Fault> {
    let opened = match open_beneath(root, folder, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(Fault::of_disk(error.into())),
    };
    let entries = rustix::fs::Dir::new(opened).map_err(|error| Fault::of_disk(error.into()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Fault::of_disk(error.into()))?;
        if let Ok(name) = entry.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The time of a file, as its file system has it.
pub(super) fn timestamp(seconds: i64, nanoseconds: i64) -> Result<Timestamp, Fault> {
    // A guess would be old, and what is old is deleted.
    let no_time = |_| Fault::Nonsense(format!("it was written {seconds} s after 1970"));
    Timestamp::new(seconds, i32::try_from(nanoseconds).unwrap_or(0)).map_err(no_time)
}

/// Reads a small file of ours, up to `limit` bytes.
pub(super) fn read_small(root: BorrowedFd<'_>, path: &str, limit: u64) -> Result<Vec<u8>, Errno> {
    let file = File::from(open_beneath(root, path, OFlags::RDONLY)?);
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(bytes)
}

/// Writes a small file of ours, which appears when it is whole.
pub(super) fn write_file(folder: BorrowedFd<'_>, name: &str, bytes: &[u8]) -> Result<(), Fault> {
    let write = || {
        let making = format!(".{name}.{:08x}", rand::random::<u32>());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(folder, &making, flags, FILE_MODE)?);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| Ok(rustix::fs::renameat(folder, &making, folder, name)?));
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(folder, &making, AtFlags::empty());
        }
        placed
    };
    write().map_err(Fault::of_disk)?;
    sync(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_cannot_be_is_not_taken_for_an_old_one() {
        assert_eq!(timestamp(1_795_276_710, 500_000_000).unwrap().to_string(), "2026-11-21T15:58:30.5Z");
        let fault = timestamp(i64::MAX, 0).unwrap_err();
        assert!(matches!(&fault, Fault::Nonsense(what) if what.contains("9223372036854775807")), "{fault:?}");
    }
}
