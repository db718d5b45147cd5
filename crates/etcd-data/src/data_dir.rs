//! A stopped member's data directory, as its member would find it when it starts.
//!
//! ```text
//! member/snap/db                     the database
//! member/snap/<term>-<index>.snap    raft snapshots: who is in the cluster
//! member/snap/<index>.snap.db        a database that the leader sent, not yet in its place
//! member/wal/<sequence>-<index>.wal  the log
//! ```
//!
//! The log may also lie elsewhere: see [`LogPlace`]. The database is carried forward by the log in memory. Nothing on
//! disk is changed, or made, or repaired.

mod check;
mod finding;
mod log_place;
pub mod record;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::database::Database;
use crate::replay::{CaughtUp, ReplayError, catch_up};
use crate::snap::{Snap, SnapError, SnapName};
use crate::wal::{Log, WalError};

pub use finding::Finding;
pub use log_place::LogPlace;

/// What is beside the database of a data directory.
pub struct DataDir {
    /// Where the log lies.
    pub log_place: LogPlace,
    /// The log.
    pub log: Result<Log<File>, WalError>,
    /// The raft snapshots, oldest first.
    pub snaps: Vec<(SnapName, Result<Snap, SnapError>)>,
    /// How far the log was ahead of the database, or why that cannot be told.
    pub ahead: Result<Ahead, ReplayError>,
    /// Where database, log and raft snapshots do not go together.
    pub findings: Vec<Finding>,
}

/// How far a log was ahead of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// The last entry that counts.
    pub applied: u64,
    /// The entries that only the log had.
    pub entries: u64,
    /// How many revisions these have made.
    pub revisions: u64,
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

    /// Opens the log of the data directory at `path`: that in it, or else the one that the record of a restore names.
    pub fn open_log(path: &Path) -> Result<Log<File>, WalError> {
        LogPlace::of(path).open(path)
    }

    /// Reads what else is beside the database of the data directory at `path`, and carries `database` forward by
    /// `log`. If that cannot be done it comes back as it was.
    pub fn read(path: &Path, log: Result<Log<File>, WalError>, database: Database) -> io::Result<(Self, Database)> {
        Self::read_with(path, LogPlace::of(path), log, database)
    }

    /// Reads what is beside a database that cannot be opened, with the log in `log_place`. How they go together is not known.
    pub fn read_alone(path: &Path, log_place: LogPlace) -> io::Result<Self> {
        let snaps = read_snaps(&path.join("member/snap"))?;
        let findings = check::snaps(&snaps);
        let log = log_place.open(path);
        Ok(Self { log_place, log, snaps, ahead: Err(ReplayError::NoDatabase), findings })
    }

    /// The same with the log of `log_place`.
    pub(crate) fn read_with(
        path: &Path,
        log_place: LogPlace,
        log: Result<Log<File>, WalError>,
        database: Database,
    ) -> io::Result<(Self, Database)> {
        let snaps = read_snaps(&path.join("member/snap"))?;
        let mut findings = check::snaps(&snaps);
        let caught_up = match &log {
            Ok(log) => {
                let sound: Vec<Snap> = snaps.iter().filter_map(|(_, snap)| snap.as_ref().ok().cloned()).collect();
                findings.extend(check::log(log, &sound, database.tables()));
                let caught_up = catch_up(database.clone(), log, &sound);
                // Who is in the cluster may be known from the log alone.
                let latest = caught_up.as_ref().map_or(&database, |caught_up| &caught_up.database);
                findings.extend(check::members(log, &sound, latest.tables()));
                caught_up
            }
            Err(_) => Err(ReplayError::NoLog),
        };
        let (ahead, database) = match caught_up {
            Ok(_) if check::are_strangers(&findings, database.tables()) => (Err(ReplayError::Stranger), database),
            Ok(CaughtUp { database, applied, entries, revisions, uncommitted, lost_passwords, in_doubt }) => {
                (Ok(Ahead { applied, entries, revisions, uncommitted, lost_passwords, in_doubt }), database)
            }
            Err(error) => (Err(error), database),
        };
        Ok((Self { log_place, log, snaps, ahead, findings }, database))
    }
}

fn read_snaps(folder: &Path) -> io::Result<Vec<(SnapName, Result<Snap, SnapError>)>> {
    let mut snaps = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(SnapName::parse) {
            snaps.push((name, read_snap(&entry.path())));
        }
    }
    snaps.sort_by_key(|(name, _)| *name);
    Ok(snaps)
}

/// No cluster's membership comes near to this.
const MAX_SNAP_BYTES: u64 = 256 << 20;

/// One that cannot be read is as good as one that is damaged: etcd passes over both, and who votes the database knows too.
fn read_snap(path: &Path) -> Result<Snap, SnapError> {
    let metadata = path.metadata().map_err(SnapError::Read)?;
    // Reading a pipe would wait for somebody to write to it.
    if !metadata.is_file() || metadata.len() > MAX_SNAP_BYTES {
        return Err(SnapError::NotASnapshot);
    }
    Snap::parse(fs::read(path).map_err(SnapError::Read)?.into())
}

#[cfg(test)]
mod tests;
