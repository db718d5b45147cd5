//! What a path holds: a snapshot file, a database file or a data directory, opened for reading only. What it is, and what
//! it is wrapped in, is found out here alone.
//!
//! Nothing of what is opened is ever changed. A database that a running etcd holds is refused, for its pages change
//! under the reader; while ours is open, an etcd that is started on it waits. Who writes to a file all the same, because it
//! knows no locks or is out of their reach, is noticed when it was read.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bolt_file::{BoltFile, SharedFile, Storage};

use crate::container::{Container, ExpandError};
use crate::data_dir::{DataDir, LogPlace};
use crate::database::Database;
use crate::digest;
use crate::error::{Error, Kind, kind_of};
use crate::replay::ReplayError;

/// Something that a database was read from.
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: SourceKind,
    /// What it was wrapped in.
    pub container: Container,
    /// The file's own size, as it lies there.
    pub size_bytes: u64,
    /// The database in it, carried forward by the log where there is one.
    pub database: Database,
    /// What is beside it in a data directory.
    pub data_dir: Option<DataDir>,
}

/// What a path can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A snapshot file: a database that ends with its digest.
    Snapshot,
    /// A database file without a digest.
    Database,
    /// A member's data directory.
    DataDir,
}

/// A path could not be opened as any of these.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file or folder could not be used.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done, as in "opening".
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder without a database.
    #[error("{} is not a data directory: it has no member/snap/db", path.display())]
    NoDataDir {
        /// The folder.
        path: PathBuf,
    },
    /// An etcd holds the database.
    #[error("{} is in use by a running etcd", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// Neither a file nor a folder.
    #[error("{} is neither a file nor a folder", path.display())]
    Special {
        /// What it is.
        path: PathBuf,
    },
    /// A wrapped file could not be unwrapped.
    #[error("{}", path.display())]
    Expand {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: ExpandError,
    },
    /// The log of a data directory could not be applied to its database.
    #[error("{}", path.display())]
    Log {
        /// The data directory.
        path: PathBuf,
        /// Why not.
        source: ReplayError,
    },
    /// The database in it could not be read.
    #[error("{}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
}

impl OpenError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Io { source, .. } => kind_of(source),
            Self::NoDataDir { .. } => Kind::Missing,
            Self::InUse { .. } => Kind::Conflict,
            Self::Special { .. } => Kind::Usage,
            Self::Expand { source: ExpandError::Scratch { source, .. }, .. } => kind_of(source),
            Self::Expand { source: ExpandError::NoRoom { .. }, .. } => Kind::Unavailable,
            Self::Expand { .. } => Kind::Corrupt,
            Self::Log { source, .. } => source.kind(),
            Self::Database { source, .. } => source.kind(),
        }
    }
}

impl Source {
    /// Opens what is at `path`. What is wrapped is unwrapped into `scratch`.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, OpenError> {
        let mut source = Self::open_damaged(path, scratch)?;
        match source.data_dir.take_if(|data_dir| data_dir.ahead.is_err()).map(|data_dir| data_dir.ahead) {
            Some(Err(source)) => Err(OpenError::Log { path: path.into(), source }),
            _ => Ok(source),
        }
    }

    /// Opens what is at `path`, also if it is a data directory whose log cannot be applied: its database is then as
    /// the file has it, and `data_dir` says why.
    pub fn open_damaged(path: &Path, scratch: &Path) -> Result<Self, OpenError> {
        let metadata = path.metadata().map_err(io_error("opening", path))?;
        if metadata.is_dir() {
            Self::open_data_dir(path, LogPlace::of(path))
        } else if metadata.is_file() {
            Self::open_file(path, scratch)
        } else {
            Err(OpenError::Special { path: path.into() })
        }
    }

    /// Opens the data directory at `path`, whose log is in the folder `wal`, also if that log cannot be applied: see
    /// [`Source::open_damaged`]. A log in the directory itself is left alone, as by an etcd that is told where its log is.
    pub fn open_damaged_with_log(path: &Path, wal: &Path) -> Result<Self, OpenError> {
        Self::open_data_dir(path, LogPlace::Given(wal.into()))
    }

    /// Opens only the pages of the database at `path`: for one that is too damaged to be opened as such.
    pub fn open_pages(path: &Path, scratch: &Path) -> Result<BoltFile, OpenError> {
        let storage: Arc<dyn Storage> = match path.is_dir() {
            true => Arc::new(open_shared(&DataDir::database_path(path))?),
            false => unwrapped(path, open_shared(path)?, scratch)?.1,
        };
        BoltFile::open(storage).map_err(|error| OpenError::Database { path: path.into(), source: error.into() })
    }

    fn open_file(path: &Path, scratch: &Path) -> Result<Self, OpenError> {
        Self::read_file(path, open_shared(path)?, scratch)
    }

    fn read_file(path: &Path, file: SharedFile, scratch: &Path) -> Result<Self, OpenError> {
        let size_bytes = file.size().map_err(io_error("reading", path))?;
        let (container, storage) = unwrapped(path, file, scratch)?;
        let database = open_database(path, storage)?;
        let has_digest = database.file().is_some_and(|file| digest::covered_bytes(file.layout().file_bytes).is_some());
        let kind = if has_digest { SourceKind::Snapshot } else { SourceKind::Database };
        Ok(Self { path: path.into(), kind, container, size_bytes, database, data_dir: None })
    }

    fn open_data_dir(path: &Path, log_place: LogPlace) -> Result<Self, OpenError> {
        let db = DataDir::database_path(path);
        if !db.is_file() {
            return Err(OpenError::NoDataDir { path: path.into() });
        }
        let file = open_shared(&db)?;
        let size_bytes = file.size().map_err(io_error("reading", &db))?;
        let mut database = open_database(&db, Arc::new(file))?;
        let log = log_place.open(path);
        if let Ok(log) = &log
            && let Some(received) = DataDir::received_database(path, log, &database)
        {
            database = open_database(&received, Arc::new(open_shared(&received)?))?;
        }
        let read = DataDir::read_with(path, log_place, log, database);
        let (data_dir, database) = read.map_err(io_error("reading", path))?;
        Ok(Self {
            path: path.into(),
            kind: SourceKind::DataDir,
            container: Container::Plain,
            size_bytes,
            database,
            data_dir: Some(data_dir),
        })
    }
}

/// Opens `path` for reading, with a lock that keeps an etcd from opening it for writing.
fn open_shared(path: &Path) -> Result<SharedFile, OpenError> {
    let file = File::open(path).map_err(io_error("opening", path))?;
    match file.try_lock_shared() {
        // Some file systems know no locks; an etcd could not hold one there either.
        Ok(()) | Err(TryLockError::Error(_)) => SharedFile::new(file).map_err(io_error("reading", path)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
    }
}

/// What the file at `path` is wrapped in, and what is in that: unwrapped into `scratch`, or the file itself.
fn unwrapped(path: &Path, file: SharedFile, scratch: &Path) -> Result<(Container, Arc<dyn Storage>), OpenError> {
    let container = Container::detect(file.file()).map_err(io_error("reading", path))?;
    let expanded = container.expand(file.file(), scratch);
    let expanded = expanded.map_err(|source| OpenError::Expand { path: path.into(), source });
    Ok(match unless_written(path, &file, expanded)? {
        Some(expanded) => (container, Arc::new(expanded)),
        None => (container, Arc::new(file)),
    })
}

fn open_database(path: &Path, storage: Arc<dyn Storage>) -> Result<Database, OpenError> {
    let opened = BoltFile::open(Arc::clone(&storage)).map_err(Error::from).and_then(Database::open);
    unless_written(path, &*storage, opened.map_err(|source| OpenError::Database { path: path.into(), source }))
}

/// What was `read` of the file at `path`, unless somebody wrote to it meanwhile. Whatever else went wrong, that is why.
fn unless_written<T>(path: &Path, storage: &dyn Storage, read: Result<T, OpenError>) -> Result<T, OpenError> {
    match storage.was_written().map_err(io_error("reading", path))? {
        true => Err(OpenError::Database { path: path.into(), source: bolt_file::Error::Changed.into() }),
        false => read,
    }
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> OpenError + use<'a> {
    move |source| OpenError::Io { action, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, SystemTime};

    use flate2::Compression;
    use flate2::read::GzEncoder;
    use tempfile::TempDir;
    use testkit::{Golden, Version};

    use super::*;

    /// Writes to what was opened, and reads it then: what comes of unwrapping it, and of looking for a database in it.
    #[track_caller]
    fn written_to(bytes: &[u8], write: impl Fn(&File)) -> [OpenError; 2] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        // So that a write at once does not fall into the same tick of the file system's clock.
        other.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        assert!(Source::read_file(&path, open_shared(&path).unwrap(), folder.path()).is_ok());
        let opened = [open_shared(&path).unwrap(), open_shared(&path).unwrap()];
        write(&other);
        let [file, storage] = opened;
        let read = Source::read_file(&path, file, folder.path()).err().unwrap();
        [read, open_database(&path, Arc::new(storage)).err().unwrap()]
    }

    /// What is unwrapped of it may be half of before and half of after, and what is found in it no damage.
    #[test]
    fn a_file_that_is_written_to_while_it_is_opened_is_refused() {
        let plain = std::fs::read(Golden::get(Version::ALL[0], "leases").db()).unwrap();
        let mut wrapped = Vec::new();
        GzEncoder::new(&plain[..], Compression::fast()).read_to_end(&mut wrapped).unwrap();
        for bytes in [plain, wrapped] {
            let as_it_was = |file: &File| file.write_all_at(&bytes[..1], 0).unwrap();
            let damaged = |file: &File| file.write_all_at(&[0xaa; 9000][..bytes.len().min(9000)], 0).unwrap();
            let cut = |file: &File| file.set_len(100).unwrap();
            let errors = [written_to(&bytes, as_it_was), written_to(&bytes, damaged), written_to(&bytes, cut)];
            for error in errors.as_flattened() {
                assert!(
                    matches!(error, OpenError::Database { source: Error::Bolt(bolt_file::Error::Changed), .. }),
                    "{error:?}"
                );
                assert_eq!(error.kind(), Kind::Conflict);
            }
        }
    }
}
