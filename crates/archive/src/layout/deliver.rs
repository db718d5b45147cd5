//! Writing a plain full where another system looks for it: into a folder of this machine, or into a store.
//!
//! What goes with it is written first, so that who finds the full finds all. Nothing is replaced, and each file appears
//! whole or not at all. The snapshot is wrapped on its way, so memory holds a few pieces of it and the disk no second
//! copy. What a store was given is read back from there, all of it, and compared.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_data::Kind;
use etcd_data::container::Container;
use etcd_data::error::kind_of;
use store::upload::{Uploader, writer};
use store::{Fault, Key, Put, Store, StoreError};
use tempfile::NamedTempFile;
use tokio::runtime::Handle;

use crate::copy::sending::{Hashed, PIECES, hashed};
use crate::layout::plain::PlainFull;
use crate::layout::wrap::wrap;

/// What is written, as files of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// etcd's snapshot file.
    pub snapshot: &'a Path,
    /// What goes with it, if that is at hand.
    pub beside: Option<&'a Path>,
}

/// Why it was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliverError {
    /// Its name is taken. Nothing is replaced.
    #[error("{place} exists")]
    Exists {
        /// The path, or the URL.
        place: String,
    },
    /// This machine's disk failed.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done, as in "writing".
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store gives back something else.
    #[error("what was read back of {place} is not what was written")]
    NotAsWritten {
        /// The URL.
        place: String,
    },
}

impl DeliverError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Exists { .. } => Kind::Conflict,
            Self::Io { source, .. } => kind_of(source),
            Self::Store(error) => crate::error::kind_of(&error.fault),
            Self::NotAsWritten { .. } => Kind::Corrupt,
        }
    }
}

impl PlainFull {
    /// Writes it below `folder`, in folders that are made if they are not there. A snapshot that stays as it is becomes
    /// a second name of the file that is there, where it is on the same disk. Gives its size.
    pub fn write_to_folder(&self, files: Files<'_>, folder: &Path) -> Result<u64, DeliverError> {
        if let (Some((_, key)), Some(file)) = (&self.beside, files.beside) {
            publish(&folder.join(key.as_str()), |out| copy(file, out))?;
        }
        let path = folder.join(self.key.as_str());
        if self.container != Container::Plain || !link(files.snapshot, &path)? {
            publish(&path, |out| self.wrapped(files.snapshot, out))?;
        }
        Ok(path.metadata().map_err(|error| unwritten(&path, error))?.len())
    }

    /// Writes it to `store`, whose place is the folder of the archive. What waits does so on `runtime`, so this is for
    /// threads that may block. Gives its size there.
    pub fn write_to_store(
        &self,
        files: Files<'_>,
        store: &Arc<dyn Store>,
        runtime: &Handle,
    ) -> Result<u64, DeliverError> {
        let desk = Desk { full: self, store, runtime };
        if let (Some((_, key)), Some(file)) = (&self.beside, files.beside) {
            desk.put(key, file, |out| copy(file, out))?;
        }
        desk.put(&self.key, files.snapshot, |out| self.wrapped(files.snapshot, out))
    }

    /// Requires that nothing in `store` has its name yet.
    pub async fn require_absent(&self, store: &dyn Store) -> Result<(), DeliverError> {
        require_absent(store, &self.key).await
    }

    fn wrapped(&self, snapshot: &Path, out: &mut dyn Write) -> io::Result<()> {
        let mut file = File::open(snapshot)?;
        let size_bytes = file.metadata()?.len();
        wrap(&mut file, size_bytes, self.container, (&self.inner, self.taken), out)
    }
}

fn copy(file: &Path, out: &mut dyn Write) -> io::Result<()> {
    io::copy(&mut File::open(file)?, out).map(drop)
}

/// Gives the file at `from` the name `to` as well. False if that cannot be: on another disk, or one without links.
fn link(from: &Path, to: &Path) -> Result<bool, DeliverError> {
    let folder = to.parent().unwrap_or(to);
    store::folder::make(folder).map_err(|error| unwritten(to, error))?;
    match fs::hard_link(from, to) {
        Ok(()) => {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map(|()| true).map_err(|error| unwritten(to, error))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(unwritten(to, error)),
        Err(_) => Ok(false),
    }
}

/// Makes the file at `path` appear, complete and on the disk, if there is none.
fn publish(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), DeliverError> {
    let folder = path.parent().unwrap_or(path);
    let work = || {
        store::folder::make(folder)?;
        let mut file = NamedTempFile::new_in(folder)?;
        write(file.as_file_mut())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    work().map_err(|error| unwritten(path, error))
}

fn unwritten(path: &Path, source: io::Error) -> DeliverError {
    match source.kind() {
        io::ErrorKind::AlreadyExists => DeliverError::Exists { place: path.display().to_string() },
        _ => DeliverError::Io { action: "writing", path: path.into(), source },
    }
}

fn shown(store: &dyn Store, key: &Key) -> String {
    format!("{}/{key}", store.place().trim_end_matches('/'))
}

/// A full on its way to a store.
struct Desk<'a> {
    full: &'a PlainFull,
    store: &'a Arc<dyn Store>,
    runtime: &'a Handle,
}

impl Desk<'_> {
    /// Writes what `fill` makes of `file` under `key`, and reads it back. Gives its size.
    fn put(
        &self,
        key: &Key,
        file: &Path,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, DeliverError> {
        let put = self.runtime.block_on(self.put_once(key))?;
        let (out, sending) = writer(Uploader::new(Arc::clone(self.store), key.clone(), put, PIECES));
        let sending = self.runtime.spawn(sending);
        let mut hashing = Hashing { out, hash: Hashed::default() };
        let filled = fill(&mut hashing);
        let Hashing { out, hash } = hashing;
        let filled = match filled {
            Ok(()) => out.finish(),
            Err(error) => {
                // Without its end it is given up, which is waited for below.
                drop(out);
                Err(error)
            }
        };
        let lost = |error| Err(Fault::unavailable(error).at("writing", self.store.place(), Some(key)));
        let sent = self.runtime.block_on(sending).unwrap_or_else(lost);
        match (filled, sent) {
            // A pipe that is broken is an upload that failed; anything else is of this machine.
            (Err(source), _) if source.kind() != io::ErrorKind::BrokenPipe => {
                Err(DeliverError::Io { action: "reading", path: file.into(), source })
            }
            (_, Ok(_)) if self.is_there(key, &hash)? => Ok(hash.arrived().size_bytes),
            (_, Ok(_)) => Err(DeliverError::NotAsWritten { place: shown(&**self.store, key) }),
            // After an answer that was lost, a put finds what it wrote itself the first time.
            (Ok(()), Err(StoreError { fault: Fault::Exists, .. })) if self.is_there(key, &hash)? => {
                Ok(hash.arrived().size_bytes)
            }
            (_, Err(StoreError { fault: Fault::Exists, .. })) => {
                Err(DeliverError::Exists { place: shown(&**self.store, key) })
            }
            (_, Err(error)) => Err(error.into()),
        }
    }

    /// How to put what is put once. A store that cannot put conditionally is looked at before, and must not write over
    /// what is there.
    async fn put_once(&self, key: &Key) -> Result<Put, DeliverError> {
        let abilities = self.store.abilities();
        if !abilities.put_if_absent {
            require_absent(&**self.store, key).await?;
        }
        Ok(Put { metadata: self.full.told.clone(), ..Put::lasting(abilities) })
    }

    /// Whether what is at `key` is what was written, all of it and no more.
    fn is_there(&self, key: &Key, written: &Hashed) -> Result<bool, StoreError> {
        let size_bytes = written.arrived().size_bytes;
        let look = async {
            let is_as_large = self.store.head(key).await?.size_bytes == size_bytes;
            Ok::<bool, StoreError>(is_as_large && hashed(self.store, key, size_bytes).await?.whole() == written.whole())
        };
        self.runtime.block_on(look)
    }
}

async fn require_absent(store: &dyn Store, key: &Key) -> Result<(), DeliverError> {
    match store.head(key).await {
        Ok(_) => Err(DeliverError::Exists { place: shown(store, key) }),
        Err(StoreError { fault: Fault::NotFound, .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What is written, hashed as it goes by.
struct Hashing<W> {
    out: W,
    hash: Hashed,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.out.write(bytes)?;
        self.hash.add(bytes.get(..taken).unwrap_or_default());
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
