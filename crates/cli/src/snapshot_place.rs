//! Where a snapshot goes: to a file, or to where another system looks for it. It is put together beside that, or in the
//! folder for scratch files where that is far away, and appears with what goes with it.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::layout::deliver::{DeliverError, Files};
use archive::layout::openshift::resources;
use archive::layout::plain::PlainFull;
use archive::layout::{Beside, Companion};
use etcd_data::Kind;
use etcd_data::error::kind_of;
use store::download::read_to_file;
use store::{Key, Pieces, Settings, Store};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::archive_point::OpenArchive;
use crate::failure::Failure;
use crate::failure::archive::store_failure;
use crate::failure::build::in_the_way;
use crate::runtime::runtime;

/// Where a snapshot goes.
pub enum Place {
    /// To a file, as it is.
    File(PathBuf),
    /// To the folder of all of a system's snapshots.
    Folder {
        /// What it is there.
        full: PlainFull,
        /// The folder, which is made if it is not there.
        folder: PathBuf,
    },
    /// To a store that has them.
    Store {
        /// What it is there.
        full: PlainFull,
        /// The store.
        store: Arc<dyn Store>,
        /// What waits for it.
        runtime: Runtime,
    },
}

impl Place {
    /// As `full` in the store at `url`.
    pub fn in_store(full: PlainFull, url: &str, settings: &Settings) -> Result<Self, Failure> {
        let store = store::open(url, settings).map_err(|error| store_failure(&error))?;
        Ok(Self::Store { full, store, runtime: runtime()? })
    }

    /// The path, or the URL.
    pub fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Folder { full, .. } | Self::Store { full, .. } => self.shown_key(&full.key),
        }
    }

    /// Where what goes with it belongs; nothing if nothing can.
    pub fn shown_beside(&self) -> Option<String> {
        match self {
            Self::File(_) => None,
            Self::Folder { full, .. } | Self::Store { full, .. } => {
                full.beside.as_ref().map(|(_, key)| self.shown_key(key))
            }
        }
    }

    fn shown_key(&self, key: &Key) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Folder { folder, .. } => folder.join(key.as_str()).display().to_string(),
            Self::Store { store, .. } => format!("{}/{key}", store.place().trim_end_matches('/')),
        }
    }

    /// Requires that nothing is there yet.
    pub fn require_free(&self) -> Result<(), Failure> {
        match self {
            Self::File(path) if path.symlink_metadata().is_ok() => Err(in_the_way(path)),
            Self::Folder { full, folder } if folder.join(full.key.as_str()).symlink_metadata().is_ok() => {
                Err(in_the_way(&folder.join(full.key.as_str())))
            }
            Self::Store { full, store, runtime } => {
                runtime.block_on(full.require_absent(&**store)).map_err(|error| undelivered(&error))
            }
            Self::File(_) | Self::Folder { .. } => Ok(()),
        }
    }

    /// Begins to put it together: in the place itself, beside it, or in `scratch`.
    pub fn begin(&self, scratch: &Path) -> Result<Draft<'_>, Failure> {
        let folder = match self {
            Self::File(path) => return Ok(Draft { place: self, plain: path.clone(), beside: None, _folder: None }),
            Self::Folder { folder, .. } => {
                store::folder::make(folder).map_err(|error| failed("make", folder, &error))?;
                folder.as_path()
            }
            Self::Store { .. } => scratch,
        };
        let made = tempfile::Builder::new().prefix(".refloat-export-").tempdir_in(folder);
        let made = made.map_err(|error| failed("write to", folder, &error))?;
        Ok(Draft { place: self, plain: made.path().join("snapshot.db"), beside: None, _folder: Some(made) })
    }
}

/// A snapshot before it is in its place.
pub struct Draft<'p> {
    place: &'p Place,
    /// Where it is written.
    pub plain: PathBuf,
    beside: Option<PathBuf>,
    /// Gone when this is dropped.
    _folder: Option<TempDir>,
}

impl Draft<'_> {
    /// Takes `companion` of the archive `open` along.
    pub fn take_along(&mut self, open: &OpenArchive, companion: &Companion) -> Result<(), Failure> {
        let path = self.plain.with_file_name("beside");
        let file = File::create_new(&path).map_err(|error| failed("write", &path, &error))?;
        let store = open.archive.store();
        let read = read_to_file(&**store, &companion.key, companion.size_bytes, Arc::new(file), Pieces::default());
        open.wait_for(read).map_err(|error| store_failure(&error))?;
        if companion.what == Beside::StaticResources {
            require_resources(&path, companion)?;
        }
        self.beside = Some(path);
        Ok(())
    }

    /// Makes it appear at its place, wrapped and whole. Gives its size there.
    pub fn finish(self) -> Result<u64, Failure> {
        let files = Files { snapshot: &self.plain, beside: self.beside.as_deref() };
        let written = match self.place {
            Place::File(path) => {
                return path.metadata().map(|found| found.len()).map_err(|error| failed("read", path, &error));
            }
            Place::Folder { full, folder } => full.write_to_folder(files, folder),
            Place::Store { full, store, runtime } => full.write_to_store(files, store, runtime.handle()),
        };
        written.map_err(|error| undelivered(&error))
    }
}

/// Refuses what the restore script would only find out about when it has moved the data away.
fn require_resources(path: &Path, companion: &Companion) -> Result<(), Failure> {
    let file = File::open(path).map_err(|error| failed("read", path, &error))?;
    resources::check(BufReader::new(file)).map_err(|error| {
        Failure::because(Kind::Corrupt, format!("{} is damaged", companion.key), &error)
            .hint("another backup may have it whole; moved away from there, the snapshot is written without it")
    })
}

fn undelivered(error: &DeliverError) -> Failure {
    match error {
        DeliverError::Exists { place } => in_the_way(Path::new(place)),
        DeliverError::Io { action, path, source } => {
            Failure::because(error.kind(), format!("{action} {} failed", path.display()), source)
                .hint("make room, or choose an --output where there is some and this user may write")
        }
        DeliverError::Store(error) => store_failure(error),
        error => Failure::new(error.kind(), error.to_string())
            .hint("the store does not keep what it is given: `refloat doctor` tries it; remove what is there"),
    }
}

fn failed(action: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::because(kind_of(error), format!("cannot {action} {}", path.display()), error)
}
