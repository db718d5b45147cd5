//! Opening objects: a few requests for each, several at once, and snapshots brought here whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use etcd_data::Database;
use etcd_data::bolt_file::BoltFile;
use etcd_data::container::{Container, ExpandError};
use etcd_data::digest::{self, Digest};
use store::Key;

use crate::archive::Archive;
use crate::entry::{Entry, Form, Layout};
use crate::error::{Error, ObjectError, SnapshotError};
use crate::fetch::{Remote, Spool, Spooled};
use crate::layout::etcdbrctl::{Events, is_excluded};
use crate::name::FullForm;
use crate::object::Object;
use crate::plan::Told;
use crate::read_at::ReadAt;

/// An object that is open.
#[derive(Clone)]
pub(crate) enum Opened {
    /// One of ours, and what brings it here, unless it is on this machine.
    Ours { object: Object, far: Option<Arc<Spooled>> },
    /// A snapshot file: all of it is on this machine. Of one of ours, what is told beside it.
    Snapshot { database: Box<Database>, told: Option<Box<Told>> },
    /// A delta of etcdbrctl, and what brings it here, unless it is on this machine.
    Events { events: Arc<Events>, far: Option<Arc<Spooled>> },
}

impl Opened {
    /// What it says of itself, if it is one of ours.
    pub(crate) fn told(&self) -> Option<Told> {
        match self {
            Self::Ours { object, .. } => Some(Told { header: object.header().clone(), digest: object.digest() }),
            Self::Snapshot { told, .. } => told.as_deref().cloned(),
            Self::Events { .. } => None,
        }
    }

    /// What brings it here, if it is still where it is.
    pub(crate) fn far(&self) -> Option<Arc<Spooled>> {
        match self {
            Self::Ours { far, .. } | Self::Events { far, .. } => far.clone(),
            Self::Snapshot { .. } => None,
        }
    }
}

/// How many objects are opened at once.
const AT_ONCE: usize = 8;

impl Archive {
    /// Opens `entries`, several at once. One that is of no use fails all.
    pub(crate) fn open_entries<'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry>,
        scratch: &Path,
    ) -> Result<BTreeMap<Key, Opened>, Error> {
        let entries: Vec<&Entry> = entries.collect();
        let opened = open_several(self, &entries, scratch);
        entries.iter().zip(opened).map(|(entry, opened)| Ok((entry.key.clone(), opened?))).collect()
    }

    /// Opens the object of `entry`, where it is.
    pub(crate) fn open_entry(&self, entry: &Entry, scratch: &Path) -> Result<Opened, Error> {
        open(self, entry, scratch)
    }

    /// Opens the object of `entry`, which is another system's, of which all was `brought` to this machine.
    pub(crate) fn open_brought(&self, entry: &Entry, brought: &Arc<Spooled>, scratch: &Path) -> Result<Opened, Error> {
        let damaged = |source| Error::Object { key: entry.key.clone(), source };
        if self.is_excluded(entry)? {
            return Err(damaged(ObjectError::Excluded));
        }
        if let Form::Events { .. } = entry.form {
            let bytes = Arc::clone(brought) as Arc<dyn ReadAt>;
            let events = Arc::new(Events::open(&entry.key, bytes, scratch).map_err(damaged)?);
            return Ok(Opened::Events { events, far: None });
        }
        let opened = file_of(brought).and_then(|file| unwrap(file, scratch));
        let database = opened.map_err(|source| Error::Snapshot { key: entry.key.clone(), source })?;
        Ok(Opened::Snapshot { database: Box::new(database), told: None })
    }

    /// The bytes of an object, where they are.
    pub(crate) fn bytes_of(&self, entry: &Entry) -> (Arc<dyn ReadAt>, Option<Arc<Spooled>>) {
        if let Some(file) = self.store.file(&entry.key) {
            return (Arc::new(file), None);
        }
        let far = self.far(entry);
        (Arc::clone(&far) as Arc<dyn ReadAt>, Some(far))
    }

    fn far(&self, entry: &Entry) -> Arc<Spooled> {
        let (store, runtime) = (Arc::clone(&self.store), self.runtime.clone());
        let remote = Remote::new(store, runtime, entry.key.clone(), entry.size_bytes);
        Arc::new(Spooled::new(remote, self.budget.coming))
    }

    /// Whether an object of etcdbrctl is marked as not to be restored from. No listing tells that to everybody, so it is asked of
    /// each object that is opened, and of no other. Where the store does not let us ask, the object is used all the same, and that
    /// is remarked on: a cluster that is lost cannot wait for a permission.
    fn is_excluded(&self, entry: &Entry) -> Result<bool, Error> {
        let is_told = entry.layout == Layout::Etcdbrctl && self.store.file(&entry.key).is_none();
        if !is_told || self.marks_untold.get().is_some() {
            return Ok(false);
        }
        let error = match self.runtime.block_on(self.store.labels(&entry.key)) {
            Ok(labels) => return Ok(is_excluded(&labels)),
            Err(error) => error,
        };
        match &error.fault {
            // Nothing can be marked there. An object that is gone shows when it is read.
            store::Fault::Unable(_) | store::Fault::NotFound => Ok(false),
            store::Fault::Forbidden(_) | store::Fault::Credentials(_) => {
                self.marks_untold.get_or_init(|| error.fault.to_string());
                Ok(false)
            }
            _ => Err(error.into()),
        }
    }

    /// Brings a snapshot to this machine, unwraps it, and opens the database in it. Its pages have no digest of their
    /// own, so all of it is compared with what is `told` beside it, and with what it ends with, before any is believed.
    fn open_snapshot(&self, entry: &Entry, told: Option<&Told>, scratch: &Path) -> Result<Database, Error> {
        let refused = |source| Error::Snapshot { key: entry.key.clone(), source };
        let opened = |file: File| {
            require_told(&file, told)?;
            unwrap(file, scratch)
        };
        let near = self.store.file(&entry.key);
        let far = match near {
            Some(file) => return opened(file).map_err(refused),
            None => self.far(entry),
        };
        let kept = |source| Error::Scratch { folder: scratch.into(), source };
        let _spool = Spool::begin(vec![Arc::clone(&far)], scratch).map_err(kept)?;
        file_of(&far).and_then(opened).map_err(refused)
    }
}

/// All of what is brought, as a file that is read from its beginning, once it is there. Whoever reads it next shares how far it
/// was read.
fn file_of(brought: &Spooled) -> Result<File, SnapshotError> {
    let mut file = brought.whole()?.try_clone().map_err(SnapshotError::Look)?;
    file.rewind().map_err(SnapshotError::Look)?;
    Ok(file)
}

/// Refuses a file that is not what is told beside it.
fn require_told(file: &File, told: Option<&Told>) -> Result<(), SnapshotError> {
    let Some(told) = told else { return Ok(()) };
    let size = file.metadata().map_err(SnapshotError::Look)?.len();
    let found = digest::sha256(file, size).map_err(SnapshotError::Look)?;
    if found == told.digest { Ok(()) } else { Err(SnapshotError::Digest) }
}

fn unwrap(file: File, scratch: &Path) -> Result<Database, SnapshotError> {
    let container = Container::detect(&file).map_err(SnapshotError::Look)?;
    let file = container.expand(&file, scratch)?.unwrap_or(file);
    if let Digest::Differs { .. } = digest::check(&file).map_err(SnapshotError::Look)? {
        return Err(SnapshotError::Digest);
    }
    Ok(Database::open(BoltFile::open(Arc::new(file)).map_err(etcd_data::Error::from)?)?)
}

/// Opens objects, a few at once: each is a few requests, and a store takes its time to answer.
pub(super) fn open_several(archive: &Archive, entries: &[&Entry], scratch: &Path) -> Vec<Result<Opened, Error>> {
    let mut opened = Vec::with_capacity(entries.len());
    for group in entries.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let opening: Vec<_> = group.iter().map(|entry| scope.spawn(|| open(archive, entry, scratch))).collect();
            let done = opening.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
            opened.extend(done);
        });
    }
    opened
}

pub(super) fn open(archive: &Archive, entry: &Entry, scratch: &Path) -> Result<Opened, Error> {
    let damaged = |source| Error::Object { key: entry.key.clone(), source };
    if archive.is_excluded(entry)? {
        return Err(damaged(ObjectError::Excluded));
    }
    match entry.form {
        Form::Full(FullForm::Logical) | Form::Delta { .. } => {
            let (bytes, far) = archive.bytes_of(entry);
            let object = Object::open(entry.key.as_str(), bytes, &*archive.keys).map_err(damaged)?;
            archive.runtime.block_on(archive.require_closed(&entry.key, object.header()))?;
            let object = if archive.budget.ends_stay { object } else { object.without_ends() };
            Ok(Opened::Ours { object, far })
        }
        Form::Full(_) => {
            let told = Box::new(archive.read_note(&entry.key)?);
            archive.runtime.block_on(archive.require_closed(&entry.key, &told.header))?;
            let database = Box::new(archive.open_snapshot(entry, Some(&told), scratch)?);
            Ok(Opened::Snapshot { database, told: Some(told) })
        }
        Form::Snapshot => {
            let database = Box::new(archive.open_snapshot(entry, None, scratch)?);
            Ok(Opened::Snapshot { database, told: None })
        }
        Form::Events { .. } => {
            let (bytes, far) = archive.bytes_of(entry);
            let events = Arc::new(Events::open(&entry.key, bytes, scratch).map_err(damaged)?);
            Ok(Opened::Events { events, far })
        }
    }
}

/// Whether it is not the object that failed but what it was to be kept in here.
pub(super) fn is_of_this_machine(error: &Error) -> bool {
    match error {
        Error::Scratch { .. } => true,
        Error::Snapshot { source: SnapshotError::Look(_), .. } => true,
        Error::Snapshot { source: SnapshotError::Expand(error), .. } => {
            matches!(error, ExpandError::Scratch { .. } | ExpandError::NoRoom { .. })
        }
        _ => false,
    }
}
