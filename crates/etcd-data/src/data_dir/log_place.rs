//! Where the log of a data directory lies: in it, or where somebody says that it does.
//!
//! What is said may be wrong. A directory is copied, and its record still names the log of the one that it is a copy of;
//! the log is moved, or replaced by that of the next restore. So a log that lies elsewhere is used only if the raft
//! snapshots of the directory know the member that it is of.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::read_snaps;
use super::record::Record;
use crate::member_id::MemberId;
use crate::raft::ConfState;
use crate::wal::{Log, WalError};

/// Where the log of a data directory lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPlace {
    /// In `member/wal`.
    Inside,
    /// In this folder, as the restore that made the directory recorded.
    Recorded(PathBuf),
    /// In this folder, as whoever asks says.
    Given(PathBuf),
}

impl LogPlace {
    /// Where the log of the data directory at `path` lies, as far as the directory knows.
    pub fn of(path: &Path) -> Self {
        // A link counts also if it leads nowhere: then the log is missing, and another is none the better for that.
        if path.join("member/wal").symlink_metadata().is_ok() {
            return Self::Inside;
        }
        recorded(path).map_or(Self::Inside, Self::Recorded)
    }

    /// The folder, for the data directory at `path`.
    pub fn folder(&self, path: &Path) -> PathBuf {
        match self {
            Self::Inside => path.join("member/wal"),
            Self::Recorded(folder) | Self::Given(folder) => folder.clone(),
        }
    }

    /// Opens the log of the data directory at `path`.
    pub fn open(&self, path: &Path) -> Result<Log<File>, WalError> {
        let folder = self.folder(path);
        match self {
            Self::Inside => return Log::open(&folder),
            Self::Recorded(_) if !folder.is_absolute() => {
                return Err(not_there(folder, "the record of the restore does not say where that begins"));
            }
            Self::Recorded(_) | Self::Given(_) => {}
        }
        let log = Log::open(&folder)?;
        match log.metadata.map(|metadata| MemberId(metadata.node_id)) {
            Some(member) if is_stranger(path, member) => {
                let why = format!("it is the log of member {member}, and no raft snapshot of the directory knows that");
                Err(not_there(folder, why))
            }
            _ => Ok(log),
        }
    }
}

fn recorded(path: &Path) -> Option<PathBuf> {
    let record = Record::read(&path.join("member"))?;
    match record.wal_inside {
        // From where the directory is now: it may have been moved.
        Some(inside) => std::path::absolute(path.join(inside)).ok(),
        None => record.wal.map(|wal| wal.dir),
    }
}

/// Whether there are raft snapshots that can be read, and none of them knows `member`.
fn is_stranger(path: &Path, member: MemberId) -> bool {
    let snaps = read_snaps(&path.join("member/snap")).unwrap_or_default();
    let mut sound = snaps.iter().filter_map(|(_, snap)| snap.as_ref().ok()).peekable();
    sound.peek().is_some() && !sound.any(|snap| knows(&snap.conf_state, member))
}

/// Whether `member` votes or learns.
pub(super) fn knows(conf_state: &ConfState, member: MemberId) -> bool {
    let ConfState { voters, learners, voters_outgoing, learners_next, auto_leave: _ } = conf_state;
    [voters, learners, voters_outgoing, learners_next].into_iter().any(|ids| ids.contains(&member.0))
}

fn not_there(path: PathBuf, why: impl Into<String>) -> WalError {
    WalError::List { path, source: io::Error::new(io::ErrorKind::NotFound, why.into()) }
}
