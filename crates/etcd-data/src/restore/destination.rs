//! Where a data directory will appear, decided by what is there now. Looking changes nothing.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::error::RestoreError;

/// What may be done with a data directory that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// Nothing: it is in the way.
    Refuse,
    /// It is given another name, from which `undo` brings it back.
    KeepAside,
}

/// Where a data directory will appear.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Destination {
    /// The data directory, links resolved.
    pub data_dir: PathBuf,
    /// What of it appears at once.
    pub unit: Unit,
    /// The name that what is there now gets, beside the unit.
    pub kept: Option<String>,
    /// Where the log goes.
    pub wal: WalPlace,
}

/// What appears at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// The data directory.
    DataDir,
    /// The `member` folder in it, which is all that etcd has there. For a data directory that exists already with
    /// an owner and a mode that somebody chose, or that cannot be renamed because it is a mount point.
    Member,
}

/// Where a member's log lies.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WalPlace {
    /// In a folder that appears with the unit, by its path from the data directory.
    Inside(PathBuf),
    /// In a folder that has to appear by itself.
    Elsewhere {
        /// The folder.
        dir: PathBuf,
        /// The name that what is there now gets, beside it.
        kept: Option<String>,
    },
}

impl Destination {
    /// Decides where the data directory `data_dir` appears, and its log if that is to lie in `wal_dir`. `stamp` tells
    /// what is kept aside now from what was kept at other times.
    pub fn look(
        data_dir: &Path,
        wal_dir: Option<&Path>,
        existing: Existing,
        stamp: &str,
    ) -> Result<Self, RestoreError> {
        if stamp.is_empty() || !stamp.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(RestoreError::Stamp { stamp: stamp.into() });
        }
        let data_dir = resolve(data_dir)?;
        let unit = match State::of(&data_dir)? {
            State::Absent | State::Folder => Unit::DataDir,
            State::Empty | State::Mount => Unit::Member,
            State::Taken if existing == Existing::Refuse => return Err(RestoreError::Exists { path: data_dir }),
            State::Taken => return Err(RestoreError::NotAFolder { path: data_dir }),
        };
        let mut destination = Self { data_dir, unit, kept: None, wal: WalPlace::Inside("member/wal".into()) };
        if exists(&destination.target())? {
            destination.kept = Some(destination.keep(&destination.target(), existing, stamp)?);
        } else if holds_something(&destination.data_dir)? && existing == Existing::Refuse {
            return Err(RestoreError::Exists { path: destination.data_dir });
        }
        require_stopped(&destination.member())?;
        if let Some(wal_dir) = wal_dir {
            destination.wal = destination.wal_place(wal_dir, existing, stamp)?;
        }
        Ok(destination)
    }

    /// What appears at once.
    pub fn target(&self) -> PathBuf {
        self.unit.of(&self.data_dir)
    }

    /// The member's folder.
    pub fn member(&self) -> PathBuf {
        self.data_dir.join("member")
    }

    fn keep(&self, path: &Path, existing: Existing, stamp: &str) -> Result<String, RestoreError> {
        if existing == Existing::Refuse {
            return Err(RestoreError::Exists { path: self.data_dir.clone() });
        }
        free_name(path, "before", stamp)
    }

    fn wal_place(&self, wal_dir: &Path, existing: Existing, stamp: &str) -> Result<WalPlace, RestoreError> {
        let dir = resolve(wal_dir)?;
        let in_member = dir.parent() == Some(&self.member());
        let in_data_dir = dir.parent() == Some(&self.data_dir) && dir != self.member();
        if let Ok(inside) = dir.strip_prefix(&self.data_dir)
            && (in_member || (in_data_dir && self.unit == Unit::DataDir))
        {
            return Ok(WalPlace::Inside(inside.into()));
        }
        if (dir.starts_with(&self.data_dir) && !in_data_dir) || self.data_dir.starts_with(&dir) || dir == self.member()
        {
            return Err(RestoreError::WalInside { wal_dir: dir, data_dir: self.data_dir.clone() });
        }
        let kept = match State::of(&dir)? {
            State::Absent | State::Empty if is_mount_point(&dir) => return Err(RestoreError::WalMount { path: dir }),
            State::Absent | State::Empty => None,
            State::Folder if existing == Existing::KeepAside => Some(free_name(&dir, "before", stamp)?),
            State::Mount if existing == Existing::KeepAside => return Err(RestoreError::WalMount { path: dir }),
            State::Folder | State::Mount | State::Taken => return Err(RestoreError::Exists { path: dir }),
        };
        Ok(WalPlace::Elsewhere { dir, kept })
    }
}

impl Unit {
    /// The path of what appears at once, of the data directory `data_dir`.
    pub(crate) fn of(self, data_dir: &Path) -> PathBuf {
        match self {
            Self::DataDir => data_dir.into(),
            Self::Member => data_dir.join("member"),
        }
    }

    /// The path in a unit at `unit` of what has the path `inside` in the data directory.
    pub(crate) fn path_in(self, unit: &Path, inside: &Path) -> PathBuf {
        match self {
            Self::DataDir => unit.join(inside),
            Self::Member => unit.join(inside.strip_prefix("member").unwrap_or(inside)),
        }
    }

    /// The member's folder in a unit at `unit`.
    pub(crate) fn member_in(self, unit: &Path) -> PathBuf {
        match self {
            Self::DataDir => unit.join("member"),
            Self::Member => unit.into(),
        }
    }
}

/// What stands at a path.
enum State {
    /// Nothing.
    Absent,
    /// A folder with nothing in it.
    Empty,
    /// A folder with something in it, where a file system begins.
    Mount,
    /// Another folder with something in it.
    Folder,
    /// No folder.
    Taken,
}

impl State {
    fn of(path: &Path) -> Result<Self, RestoreError> {
        if !exists(path)? {
            return Ok(Self::Absent);
        }
        if !path.is_dir() {
            return Ok(Self::Taken);
        }
        Ok(match (holds_something(path)?, is_mount_point(path)) {
            (false, _) => Self::Empty,
            (true, true) => Self::Mount,
            (true, false) => Self::Folder,
        })
    }
}

/// `path` from the root, with links resolved as far as it exists. A link to nowhere is refused, for etcd cannot use
/// it, and a way back up from a folder that does not exist.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, RestoreError> {
    let io_error = |source| RestoreError::Io { action: "finding", path: path.into(), source };
    let absolute = std::path::absolute(path).map_err(io_error)?;
    if absolute.symlink_metadata().is_ok() {
        return absolute.canonicalize().map_err(io_error);
    }
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(RestoreError::Name { path: path.into() });
    };
    match parent.canonicalize() {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(resolve(parent)?.join(name)),
        Err(error) => Err(io_error(error)),
    }
}

/// Refuses a member folder whose database an etcd holds.
pub(crate) fn require_stopped(member: &Path) -> Result<(), RestoreError> {
    let db = member.join("snap/db");
    let Ok(file) = File::open(&db) else { return Ok(()) };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(RestoreError::InUse { path: db }),
        // Some file systems know no locks; an etcd could not hold one there either.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The name `<name>.<what>-<stamp>` of something beside `path`, which nothing may have yet.
pub(crate) fn free_name(path: &Path, what: &str, stamp: &str) -> Result<String, RestoreError> {
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| RestoreError::Name { path: path.into() })?;
    let name = format!("{name}.{what}-{stamp}");
    let taken = path.with_file_name(&name);
    if exists(&taken)? { Err(RestoreError::Exists { path: taken }) } else { Ok(name) }
}

/// Whether anything has the name `path`, a link to nowhere too.
pub(crate) fn exists(path: &Path) -> Result<bool, RestoreError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(RestoreError::Io { action: "finding", path: path.into(), source }),
    }
}

/// Whether there is anything in `folder` that somebody put there: not what a fresh file system has, nor what a run
/// of ours left.
fn holds_something(folder: &Path) -> Result<bool, RestoreError> {
    let io_error = |source| RestoreError::Io { action: "listing", path: folder.into(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(io_error)?,
    };
    for entry in entries {
        let name = entry.map_err(io_error)?.file_name();
        if name != "lost+found" && name != super::staging::folder_name(OsStr::new("member")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `path` is where a file system begins, so that it cannot be renamed.
fn is_mount_point(path: &Path) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
