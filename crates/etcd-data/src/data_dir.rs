//! A stopped member's data directory, as its member would find it when it starts.
//!
//! ```text
//! member/snap/db                     the database
//! member/snap/<term>-<index>.snap    raft snapshots: who is in the cluster
//! member/snap/<index>.snap.db        a database that the leader sent, not yet in its place
//! member/wal/<sequence>-<index>.wal  the log
//! ```
//!
//! The database is carried forward by the log in memory. Nothing on disk is changed, or made, or repaired.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::database::Database;
use crate::replay::{CaughtUp, ReplayError, catch_up};
use crate::snap::{Snap, SnapError, SnapName};
use crate::wal::{Log, WalError};

/// What is beside the database of a data directory.
pub struct DataDir {
    /// The log.
    pub log: Result<Log<File>, WalError>,
    /// The raft snapshots, oldest first.
    pub snaps: Vec<(SnapName, Result<Snap, SnapError>)>,
    /// How far the log was ahead of the database, or why that cannot be told.
    pub ahead: Result<Ahead, ReplayError>,
}

/// How far a log was ahead of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// The last entry that counts.
    pub applied: u64,
    /// The entries that only the log had.
    pub entries: u64,
    /// Entries behind the last applied one that may yet be taken back.
    pub uncommitted: u64,
    /// Users who cannot log in before their password is set again.
    pub lost_passwords: Vec<String>,
    /// Entries of which it depends on the release of etcd what they do.
    pub in_doubt: Vec<u64>,
}

impl DataDir {
    /// Where the database of the data directory at `path` is.
    pub fn database_path(path: &Path) -> PathBuf {
        path.join("member/snap/db")
    }

    /// The database that the leader sent to the member of the data directory at `path`, which it would put in the
    /// place of `database` when it starts: that of the newest raft snapshot, if the member died before it did.
    pub fn received_database(path: &Path, log: &Log<File>, database: &Database) -> Option<PathBuf> {
        let commit = log.hard_state.commit;
        let newest = log.snapshots.iter().map(|mark| mark.index).filter(|&index| index <= commit).max()?;
        let reached = database.tables().consistent_index().ok()?.unwrap_or_default();
        let received = path.join(format!("member/snap/{newest:016x}.snap.db"));
        (newest > reached && received.is_file()).then_some(received)
    }

    /// Opens the log of the data directory at `path`.
    pub fn open_log(path: &Path) -> Result<Log<File>, WalError> {
        Log::open(&path.join("member/wal"))
    }

    /// Reads what else is beside the database of the data directory at `path`, and carries `database` forward by
    /// `log`. If that cannot be done it comes back as it was.
    pub fn read(path: &Path, log: Result<Log<File>, WalError>, database: Database) -> io::Result<(Self, Database)> {
        let snaps = read_snaps(&path.join("member/snap"))?;
        let caught_up = match &log {
            Ok(log) => {
                let sound = snaps.iter().filter_map(|(_, snap)| snap.as_ref().ok().cloned());
                catch_up(database.clone(), log, &sound.collect::<Vec<_>>())
            }
            Err(_) => Err(ReplayError::NoLog),
        };
        let (ahead, database) = match caught_up {
            Ok(CaughtUp { database, applied, entries, uncommitted, lost_passwords, in_doubt }) => {
                (Ok(Ahead { applied, entries, uncommitted, lost_passwords, in_doubt }), database)
            }
            Err(error) => (Err(error), database),
        };
        Ok((Self { log, snaps, ahead }, database))
    }
}

fn read_snaps(folder: &Path) -> io::Result<Vec<(SnapName, Result<Snap, SnapError>)>> {
    let mut snaps = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(SnapName::parse) {
            snaps.push((name, read_snap(&entry.path())?));
        }
    }
    snaps.sort_by_key(|(name, _)| *name);
    Ok(snaps)
}

/// No cluster's membership comes near to this.
const MAX_SNAP_BYTES: u64 = 256 << 20;

fn read_snap(path: &Path) -> io::Result<Result<Snap, SnapError>> {
    let metadata = path.metadata()?;
    // Reading a pipe would wait for somebody to write to it.
    if !metadata.is_file() || metadata.len() > MAX_SNAP_BYTES {
        return Ok(Err(SnapError::NotASnapshot));
    }
    Ok(Snap::parse(fs::read(path)?.into()))
}
