//! Bytes of objects that are in a store, for threads that wait for them.
//!
//! [`Remote`] asks for what is wanted when it is wanted: right for a few reads here and there. [`Spool`] brings whole
//! objects to this machine, several parts at a time and in the order in which they will be wanted, and lets readers
//! wait for what is not there yet: right for whoever reads everything, more than once. Memory holds the parts that
//! are under way; the rest is in files without a name, which go when the spool does.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use etcd_data::restore::disk::free_bytes;
use store::{Fault, Key, Pieces, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::read_at::{ReadAt, ReadFailed};

/// An object in a store, read where it is.
pub struct Remote {
    store: Arc<dyn Store>,
    runtime: Handle,
    key: Key,
    size_bytes: u64,
}

impl Remote {
    /// The object `key` of `store`, which has `size_bytes`.
    pub fn new(store: Arc<dyn Store>, runtime: Handle, key: Key, size_bytes: u64) -> Self {
        Self { store, runtime, key, size_bytes }
    }
}

impl ReadAt for Remote {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let range = offset..offset.saturating_add(len as u64);
        let failed = |source: StoreError| ReadFailed::new(offset, len, source);
        let bytes = self.runtime.block_on(self.store.get(&self.key, range)).map_err(failed)?;
        if bytes.len() == len { Ok(bytes) } else { Err(self.cut_short(offset, len, bytes.len())) }
    }
}

impl Remote {
    /// Says that only `got` bytes came. What has none at all is damaged, as where only the parts beside it told of a size.
    fn cut_short(&self, offset: u64, len: usize, got: usize) -> ReadFailed {
        if offset == 0 && got == 0 {
            let fault = Fault::Damaged("it is empty".into());
            return ReadFailed::new(offset, len, fault.at("reading", self.store.place(), Some(&self.key)));
        }
        let what = format!("the store has {got} of them only");
        ReadFailed::new(offset, len, io::Error::new(io::ErrorKind::UnexpectedEof, what))
    }
}

/// What was fetched could not be kept on this machine.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be kept in {}", folder.display())]
pub struct Unkept {
    /// Where it was to be.
    pub folder: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// There is less room than what is to be fetched takes.
#[derive(Debug, thiserror::Error)]
#[error("{needed_bytes} bytes are needed, and {free_bytes} are free")]
struct NoRoom {
    needed_bytes: u64,
    free_bytes: u64,
}

/// Objects on their way to this machine.
pub struct Spool {
    objects: Vec<Arc<Spooled>>,
    bringing: Arc<Bringing>,
}

/// What brings the objects of a spool.
struct Bringing {
    wanted: Arc<Mutex<Wanted>>,
    /// Nothing until they are under way. Stopped when this is dropped.
    tasks: OnceLock<JoinSet<()>>,
}

/// Who still waits is told that nothing more comes.
impl Drop for Spool {
    fn drop(&mut self) {
        for object in &self.objects {
            let given_up = || ReadFailed::new(0, 0, "it is no longer being fetched");
            locked(&object.arrived).failed.get_or_insert_with(given_up);
            object.more.notify_all();
        }
    }
}

/// An object that may be brought to this machine. Until that has begun, what is read of it is asked for: so it can be
/// opened by its ends before all of it comes.
pub struct Spooled {
    remote: Remote,
    /// In what pieces it comes.
    pieces: Pieces,
    arrived: Mutex<Arrived>,
    more: Condvar,
}

/// Which parts of an object are there.
struct Arrived {
    /// Where they come to. Nothing until they are to come.
    file: Option<Arc<File>>,
    /// What brings them.
    bringing: Weak<Bringing>,
    /// The folder that it is in.
    folder: PathBuf,
    parts: Vec<bool>,
    failed: Option<ReadFailed>,
}

impl Spool {
    /// Begins to bring `objects` to files in the folder `scratch`, in this order. From now on, who reads one waits
    /// for what is not there yet. Where there is no room for all of them, nothing is begun.
    pub fn begin(objects: Vec<Arc<Spooled>>, scratch: &Path) -> io::Result<Self> {
        let spool = Self::prepare(objects, scratch)?;
        spool.bringing.begin();
        Ok(spool)
    }

    /// The same, and they come from when one of them is read: whoever finds before that that it cannot go on has fetched
    /// nothing.
    pub fn prepare(objects: Vec<Arc<Spooled>>, scratch: &Path) -> io::Result<Self> {
        if !objects.is_empty() {
            require_room(objects.iter().map(|object| object.remote.size_bytes), scratch)?;
        }
        let parts = objects.iter().flat_map(|object| (0..object.parts()).map(|part| (Arc::clone(object), part)));
        let wanted = Arc::new(Mutex::new(parts.collect()));
        let bringing = Arc::new(Bringing { wanted, tasks: OnceLock::new() });
        for object in &objects {
            let file = Some(Arc::new(tempfile::tempfile_in(scratch)?));
            let mut arrived = locked(&object.arrived);
            (arrived.file, arrived.folder) = (file, scratch.into());
            arrived.bringing = Arc::downgrade(&bringing);
        }
        Ok(Self { objects, bringing })
    }
}

impl Bringing {
    /// Begins, unless it has.
    fn begin(&self) {
        self.tasks.get_or_init(|| {
            let mut tasks = JoinSet::new();
            if let Some((first, _)) = locked(&self.wanted).front() {
                for _ in 0..first.pieces.at_once {
                    tasks.spawn_on(bring(Arc::clone(&self.wanted)), &first.remote.runtime);
                }
            }
            tasks
        });
    }
}

fn require_room(sizes: impl Iterator<Item = u64>, folder: &Path) -> io::Result<()> {
    let free_bytes = free_bytes(folder)?;
    let needed_bytes = sizes.fold(0, u64::saturating_add);
    match needed_bytes <= free_bytes {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::StorageFull, NoRoom { needed_bytes, free_bytes })),
    }
}

/// Parts of objects, in the order in which they will be wanted.
type Wanted = VecDeque<(Arc<Spooled>, u64)>;

/// Brings one part after the other until none is left.
async fn bring(wanted: Arc<Mutex<Wanted>>) {
    loop {
        let next = locked(&wanted).pop_front();
        let Some((object, part)) = next else { return };
        object.bring(part).await;
    }
}

impl Spooled {
    /// An object that is where it is, so far, and is to come in `pieces`.
    pub fn new(remote: Remote, pieces: Pieces) -> Self {
        let parts = usize::try_from(remote.size_bytes.div_ceil(pieces.bytes)).unwrap_or_default();
        let arrived = Arrived {
            file: None,
            bringing: Weak::new(),
            folder: PathBuf::new(),
            parts: vec![false; parts],
            failed: None,
        };
        let arrived = Mutex::new(arrived);
        Self { remote, pieces, arrived, more: Condvar::new() }
    }

    fn parts(&self) -> u64 {
        self.remote.size_bytes.div_ceil(self.pieces.bytes)
    }

    async fn bring(&self, part: u64) {
        let Some(file) = locked(&self.arrived).file.clone() else { return };
        let brought = self.bring_to(&file, part).await;
        let mut arrived = locked(&self.arrived);
        match brought {
            Ok(()) => arrived.parts.iter_mut().skip(part as usize).take(1).for_each(|there| *there = true),
            Err(failed) => arrived.failed = Some(failed),
        }
        self.more.notify_all();
    }

    async fn bring_to(&self, file: &File, part: u64) -> Result<(), ReadFailed> {
        let Remote { store, key, size_bytes, .. } = &self.remote;
        let offset = part * self.pieces.bytes;
        let end = (offset + self.pieces.bytes).min(*size_bytes);
        let len = (end - offset) as usize;
        let bytes = store.get(key, offset..end).await.map_err(|source| ReadFailed::new(offset, len, source))?;
        if bytes.len() != len {
            return Err(self.remote.cut_short(offset, len, bytes.len()));
        }
        // A file system takes it without waiting for the disk, mostly; a thread of its own would cost more.
        file.write_all_at(&bytes, offset).map_err(|source| {
            let folder = locked(&self.arrived).folder.clone();
            ReadFailed::new(offset, len, Unkept { folder, source })
        })
    }

    /// All of the object as a file, once it is there.
    pub fn whole(&self) -> Result<Arc<File>, ReadFailed> {
        self.wait(0, self.remote.size_bytes)?.ok_or_else(|| ReadFailed::new(0, 0, "it is not being fetched"))
    }

    /// The file, when the bytes from `offset` to `end` are there. Nothing if they are not on their way.
    fn wait(&self, offset: u64, end: u64) -> Result<Option<Arc<File>>, ReadFailed> {
        let first = (offset / self.pieces.bytes) as usize;
        let last = end.div_ceil(self.pieces.bytes) as usize;
        let mut arrived = locked(&self.arrived);
        if let Some(bringing) = arrived.bringing.upgrade() {
            bringing.begin();
        }
        loop {
            let Some(file) = &arrived.file else { return Ok(None) };
            if arrived.parts.get(first..last).is_some_and(|parts| parts.iter().all(|there| *there)) {
                return Ok(Some(Arc::clone(file)));
            }
            if let Some(failed) = &arrived.failed {
                return Err(failed.clone());
            }
            if end > self.remote.size_bytes {
                return Err(ReadFailed::new(offset, (end - offset) as usize, "they lie past the end"));
            }
            arrived = self.more.wait(arrived).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl ReadAt for Spooled {
    fn size_bytes(&self) -> u64 {
        self.remote.size_bytes
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        match self.wait(offset, offset.saturating_add(len as u64))? {
            Some(file) => ReadAt::read_at(&*file, offset, len),
            None => self.remote.read_at(offset, len),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use store::{Memory, Put};

    use super::*;
    use crate::budget::Budget;

    #[test]
    fn what_cannot_be_kept_is_no_fault_of_the_store() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (store, key) = (Arc::new(Memory::new()), Key::parse("full").unwrap());
        runtime.block_on(store.put(&key, "some bytes".into(), &Put::default())).unwrap();
        let spooled = |size_bytes| {
            let remote = Remote::new(store.clone(), runtime.handle().clone(), key.clone(), size_bytes);
            Arc::new(Spooled::new(remote, Budget::ALL.coming))
        };
        let full = File::options().write(true).open("/dev/full").unwrap();
        let object = spooled(10);
        {
            let mut arrived = locked(&object.arrived);
            (arrived.file, arrived.folder) = (Some(Arc::new(full)), "/scratch".into());
        }
        runtime.block_on(object.bring(0));
        let failed = object.whole().unwrap_err();
        let unkept = failed.source.downcast_ref::<Unkept>().unwrap_or_else(|| panic!("{failed:?}"));
        assert_eq!(
            (unkept.folder.as_path(), unkept.source.kind()),
            (Path::new("/scratch"), io::ErrorKind::StorageFull)
        );

        // What is larger than any disk is not begun.
        let folder = tempfile::tempdir().unwrap();
        let error = Spool::begin(vec![spooled(1 << 48)], folder.path()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
