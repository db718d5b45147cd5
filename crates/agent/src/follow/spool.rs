//! Sealed deltas on this machine's disk until the store has them, in order.
//!
//! Each is an object as it will be in the archive, under the name that it will have. So a spool outlives its agent: what
//! was seen while the store was away is sent when it is back, also by the next one. Nobody else on this machine may look:
//! unless the archive is encrypted, what is in it is every key and value.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::encryption::{KeyId, Lockbox};
use archive::header::Header;
use archive::name::{DeltaName, Name};
use archive::object::{WriteSettings, Written, read_header};
use archive::publish::{Writing, make};
use archive::{Closing, Error, LineageId};
use store::{Folder, Key, Store};
use tokio::sync::watch;

use crate::follow::sealer::Sealer;
use crate::follow::segment::Segment;
use crate::private_folder;

/// A sealed delta that the store may not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// What it will be called.
    pub name: Name,
    /// What it says of itself.
    pub header: Header,
    /// Its size.
    pub size_bytes: u64,
}

/// What a spool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    /// How many objects.
    pub objects: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// How many are set aside, because they follow on nothing in the archive.
    pub aside: usize,
    /// The bytes of those.
    pub aside_bytes: u64,
}

impl Fill {
    /// Whether more may be sealed where `limit` bytes may lie here. What is set aside counts too, until a person takes it away;
    /// but half of the limit is left to what is on its way, whatever lies beside it.
    pub fn has_room(&self, limit: u64) -> bool {
        self.bytes.saturating_add(self.aside_bytes.min(limit / 2)) < limit
    }
}

/// A folder with the deltas of one cluster that are on their way.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    /// Held, so that no other agent uses the folder.
    _lock: File,
    store: Arc<dyn Store>,
    queue: Mutex<VecDeque<Sealed>>,
    fill: watch::Sender<Fill>,
    sealer: Sealer,
}

/// What is in the making is called so, and nothing else here is.
const MAKING: &str = "making";
/// The folder of lockboxes, as in an archive.
const KEYS: &str = "keys";
/// What the store has got last.
const LAST: &str = "last";
/// Which lineage has no full yet: what was captured for it follows on nothing.
const UNFOUNDED: &str = "unfounded";
/// What cannot be delivered is kept here.
const ASIDE: &str = "set-aside";
/// Whoever uses the folder has this file locked.
const LOCK: &str = "lock";

/// A spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another agent uses it.
    #[error("{} is used by another agent", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The disk does not do what it is asked, or it is not for ourselves alone.
    #[error("using the folder {}", folder.display())]
    Disk {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Spool {
    /// The spool in `folder`, which is made if need be, with what is in it. What was in the making is thrown away: its
    /// changes are still in etcd.
    pub fn open(folder: &Path) -> Result<Self, SpoolError> {
        let disk = |source| SpoolError::Disk { folder: folder.into(), source };
        private_folder::make(folder).map_err(disk)?;
        let lock = lock(folder)?;
        removed(&folder.join(MAKING)).map_err(disk)?;
        let found = deltas_in(folder).map_err(disk)?;
        let store: Arc<dyn Store> = Arc::new(Folder::at(folder).map_err(|error| disk(io::Error::other(error)))?);
        let spool = Self {
            folder: folder.into(),
            _lock: lock,
            store,
            queue: Mutex::new(found.into()),
            fill: watch::Sender::default(),
            sealer: Sealer::start().map_err(disk)?,
        };
        spool.tell(&spool.lock());
        spool.forget_unfounded().map_err(|error| disk(io::Error::other(error)))?;
        spool.forget_other_lockboxes();
        Ok(spool)
    }

    /// Removes lockboxes of keys that nothing here is encrypted with: who cannot open what it has written draws a key at
    /// every start.
    fn forget_other_lockboxes(&self) {
        let headers = self.all().into_iter().chain(self.last().map(|(last, _)| last)).map(|sealed| sealed.header);
        let used: BTreeSet<KeyId> = headers.filter_map(|header| Some(header.encryption?.archive_key)).collect();
        for file in fs::read_dir(self.folder.join(KEYS)).into_iter().flatten().flatten() {
            let name = Name::parse(&format!("{KEYS}/{}", file.file_name().display()));
            if matches!(name, Some(Name::Lockbox(id)) if !used.contains(&id)) {
                // It is small, and tells nobody anything who has not its key.
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// Notes that what comes is of `lineage`, which has no full yet.
    pub(crate) fn begin(&self, lineage: &LineageId) -> Result<(), Error> {
        self.keep(lineage.to_string().as_bytes(), &self.folder.join(UNFOUNDED))
    }

    /// Notes that the full is there, and that what was captured goes on after it.
    pub(crate) fn founded(&self) -> Result<(), Error> {
        match removed(&self.folder.join(UNFOUNDED)) {
            Ok(true) => File::open(&self.folder).and_then(|folder| folder.sync_all()),
            removed => removed.map(drop),
        }
        .map_err(|source| self.failed(source))
    }

    /// Throws away what was captured for a full that never came, or that it does not go on after.
    pub(crate) fn forget_unfounded(&self) -> Result<(), Error> {
        let lineage = match fs::read_to_string(self.folder.join(UNFOUNDED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(|source| self.failed(source))?,
        };
        for kept in self.all().into_iter().filter(|kept| kept.header.lineage.to_string() == lineage) {
            self.remove(&kept)?;
        }
        self.founded()
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Scratch { folder: self.folder.clone(), source }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it holds, whenever that changes.
    pub fn fill(&self) -> watch::Receiver<Fill> {
        self.fill.subscribe()
    }

    /// Everything in it, in order.
    pub fn all(&self) -> Vec<Sealed> {
        self.lock().iter().cloned().collect()
    }

    /// What is to be sent next.
    pub fn first(&self) -> Option<Sealed> {
        self.lock().front().cloned()
    }

    /// What it ends with: what was sealed last, delivered or not. Whoever has to do without the store goes on from there.
    pub fn end(&self) -> Option<(Sealed, File)> {
        let newest = self.lock().back().cloned();
        match newest {
            Some(newest) => Some((newest.clone(), File::open(self.path(&newest).ok()?).ok()?)),
            None => self.last(),
        }
    }

    /// What the store has got last from here, unless another agent has written since, as far as is known.
    pub fn last(&self) -> Option<(Sealed, File)> {
        let file = File::open(self.folder.join(LAST)).ok()?;
        let (header, size_bytes) = (read_header(&file).ok()?, file.metadata().ok()?.len());
        Some((Sealed { name: name_of(&header), header, size_bytes }, file))
    }

    /// Forgets what the store has got last from here: the archive does not end there any more.
    pub fn forget_last(&self) {
        if let Err(error) = removed(&self.folder.join(LAST)) {
            tracing::warn!(%error, folder = %self.folder.display(), "what was delivered last is not forgotten");
        }
    }

    /// The folder as a store, to send from.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Where a delta of it is in [`Spool::store`].
    pub fn key(&self, sealed: &Sealed) -> Result<Key, Error> {
        Ok(sealed.name.below("")?)
    }

    /// Where it is sealed.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Waits for what is being sealed. A session that is given up in the middle of that does not see it come, and it would
    /// follow on nothing that the next one knows of.
    pub(crate) async fn settle(&self) {
        self.sealer.rest().await;
    }

    /// Seals `segment`: makes its delta, and keeps it on the disk.
    pub fn seal(
        &self,
        header: Header,
        segment: &Segment,
        closing: Closing,
        writing: &Writing<'_>,
    ) -> Result<Written, Error> {
        let name = name_of(&header);
        let key = name.below("")?;
        if let Some(lockbox) = writing.archive_key.as_ref().and_then(|key| key.lockbox.as_ref()) {
            self.keep_lockbox(lockbox)?;
        }
        let making = self.folder.join(MAKING);
        let file = private_folder::create_file(&making).map_err(|source| self.failed(source))?;
        let settings = WriteSettings { chunk_bytes: CHUNK_BYTES, ..WriteSettings::delta() };
        let written = make(BufWriter::new(&file), &key, header.clone(), settings, writing, |object| {
            object.reserve(segment.size_bytes());
            for (at, value) in segment.records() {
                object.push(at, value).map_err(|source| Error::Write { key: key.clone(), source })?;
            }
            Ok((closing, None))
        })?;
        self.publish(&file, &making, &self.folder.join(key.as_str())).map_err(|source| self.failed(source))?;
        let mut queue = self.lock();
        // What had its place is gone.
        queue.retain(|other| other.name != name);
        queue.push_back(Sealed { name, header, size_bytes: written.size_bytes });
        self.tell(&queue);
        Ok(written)
    }

    /// Keeps the lockbox of the key that a delta is encrypted with: whoever starts while the store is away goes on with
    /// that key.
    fn keep_lockbox(&self, lockbox: &Lockbox) -> Result<(), Error> {
        let path = self.folder.join(Name::Lockbox(lockbox.id).below("")?.as_str());
        let bytes = lockbox.to_bytes();
        if fs::read(&path).is_ok_and(|kept| kept == bytes) {
            return Ok(());
        }
        self.keep(&bytes, &path)
    }

    /// Writes a small file, whole or not at all.
    fn keep(&self, bytes: &[u8], path: &Path) -> Result<(), Error> {
        let making = self.folder.join(MAKING);
        let kept = private_folder::create_file(&making).and_then(|mut file| {
            file.write_all(bytes)?;
            self.publish(&file, &making, path)
        });
        kept.map_err(|source| self.failed(source))
    }

    fn publish(&self, file: &File, making: &Path, path: &Path) -> io::Result<()> {
        file.sync_all()?;
        let folder = path.parent().unwrap_or(&self.folder);
        private_folder::make(folder)?;
        fs::rename(making, path)?;
        File::open(folder)?.sync_all()
    }

    /// Where that is kept which cannot be delivered.
    pub fn aside(&self) -> PathBuf {
        self.folder.join(ASIDE)
    }

    /// Takes out what cannot be delivered, and keeps it beside. Gives where.
    pub fn set_aside(&self, sealed: &Sealed) -> Result<PathBuf, Error> {
        let key = self.key(sealed)?;
        let aside = self.aside();
        let path = unused(aside.join(key.as_str().replace('/', "-")));
        private_folder::make(&aside)
            .and_then(|()| fs::rename(self.folder.join(key.as_str()), &path))
            .map_err(|source| self.failed(source))?;
        self.forget(sealed, &mut self.lock());
        Ok(path)
    }

    fn forget(&self, sealed: &Sealed, queue: &mut VecDeque<Sealed>) {
        queue.retain(|other| other.name != sealed.name);
        self.tell(queue);
    }

    /// Takes out what the store has now, and keeps it as the last. Nothing is synced for that: whichever of its two places
    /// it is in after the power has failed, it is known to have been sealed.
    pub fn delivered(&self, sealed: &Sealed) -> Result<(), Error> {
        self.take_out(sealed, |path| fs::rename(path, self.folder.join(LAST)))
    }

    /// Takes out what somebody else has written, or cannot be sent.
    pub fn remove(&self, sealed: &Sealed) -> Result<(), Error> {
        self.take_out(sealed, |path| fs::remove_file(path))
    }

    fn take_out(&self, sealed: &Sealed, how: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
        let path = self.path(sealed)?;
        let mut queue = self.lock();
        match how(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed(error));
            }
            _ => {}
        }
        self.forget(sealed, &mut queue);
        Ok(())
    }

    fn path(&self, sealed: &Sealed) -> Result<PathBuf, Error> {
        Ok(self.folder.join(self.key(sealed)?.as_str()))
    }

    fn tell(&self, queue: &VecDeque<Sealed>) {
        let bytes = queue.iter().map(|sealed| sealed.size_bytes).sum();
        // A person may have taken some of it away.
        let aside = fs::read_dir(self.aside()).into_iter().flatten().flatten().filter_map(|file| file.metadata().ok());
        let (aside, aside_bytes) = aside.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.len()));
        self.fill.send_replace(Fill { objects: queue.len(), bytes, aside, aside_bytes });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sealed>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a file, if it is there. Whether it was.
fn removed(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Takes the folder for ourselves.
fn lock(folder: &Path) -> Result<File, SpoolError> {
    let disk = |source| SpoolError::Disk { folder: folder.into(), source };
    let lock = private_folder::create_file(&folder.join(LOCK)).map_err(disk)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(SpoolError::InUse { folder: folder.into() }),
        Err(TryLockError::Error(source)) => Err(disk(source)),
    }
}

/// The deltas in the folder of a spool, in order.
fn deltas_in(folder: &Path) -> io::Result<Vec<Sealed>> {
    let mut found = Vec::new();
    for lineage in fs::read_dir(folder)? {
        let lineage = lineage?;
        let listed = match fs::read_dir(lineage.path().join("delta/0")) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            listed => listed?,
        };
        for file in listed {
            found.extend(delta_in(&lineage.file_name(), &file?)?);
        }
    }
    found.sort_by(|a: &Sealed, b: &Sealed| {
        (&a.header.lineage, a.header.from, a.header.to).cmp(&(&b.header.lineage, b.header.from, b.header.to))
    });
    Ok(found)
}

/// The delta in `file`, if it is one, of the lineage whose folder is called so. One that is damaged is not sent, and is not
/// thrown away either: a person may look at it.
fn delta_in(lineage: &OsStr, file: &DirEntry) -> io::Result<Option<Sealed>> {
    let path = format!("{}/delta/0/{}", lineage.display(), file.file_name().display());
    let Some(name) = Name::parse(&path) else { return Ok(None) };
    let size_bytes = file.metadata()?.len();
    match read_header(&File::open(file.path())?) {
        Ok(header) => Ok(Some(Sealed { name, header, size_bytes })),
        Err(error) => {
            tracing::warn!(place = %file.path().display(), %error, "what was sealed is damaged, and is not sent");
            Ok(None)
        }
    }
}

/// `path`, or one like it where something is there already.
fn unused(path: PathBuf) -> PathBuf {
    let other = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    let is_free = |path: &PathBuf| !path.exists();
    let found = std::iter::once(path.clone()).chain((2..).map(other)).find(is_free);
    found.unwrap_or(path)
}

fn name_of(header: &Header) -> Name {
    Name::Delta(header.lineage.clone(), DeltaName { level: 0, from: header.from, to: header.to })
}

/// More than is sealed at once, so that it is packed where it is gathered, and nothing else is gathered meanwhile.
const CHUNK_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests;
