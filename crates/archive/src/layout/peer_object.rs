//! Objects of other systems, opened with the digest compared that each of them ends with.

use std::path::Path;
use std::sync::Arc;

use etcd_data::bolt_file::check::check as check_pages;
use etcd_data::bolt_file::scan::cores;
use etcd_data::soundness::{self, Severity};
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision};

use crate::agree::Opened;
use crate::archive::Archive;
use crate::entry::{Entry, Form, Layout};
use crate::error::{Error, ObjectError, SnapshotError};
use crate::layout::etcdbrctl::{Events, lacks_leases};

/// A snapshot, open.
pub(crate) struct Snapshot {
    pub(crate) database: Database,
    pub(crate) horizon: Horizon,
    /// Whether etcdbrctl's compaction took the leases off its keys.
    pub(crate) lost_leases: bool,
}

impl Archive {
    /// Reads all of an object of another system, and compares it with the digest at its end, if it has one, and with its
    /// name: a full may hold more than that, because it goes on while it is taken, and never less.
    pub(crate) fn require_whole(&self, entry: &Entry, scratch: &Path) -> Result<(), Error> {
        match entry.form {
            Form::Events { .. } => {
                let damaged = |source| Error::Object { key: entry.key.clone(), source };
                self.open_delta(entry, scratch)?.facts().map(|_| ()).map_err(damaged)
            }
            _ => {
                let snapshot = self.open_whole_snapshot(entry, scratch)?;
                require_named(entry, snapshot.horizon.current)?;
                require_sound(&snapshot.database).map_err(|source| Error::Snapshot { key: entry.key.clone(), source })
            }
        }
    }

    pub(crate) fn open_whole_snapshot(&self, entry: &Entry, scratch: &Path) -> Result<Snapshot, Error> {
        Snapshot::of(entry, self.open_entry(entry, scratch)?)
    }

    /// A delta, of which the digest is compared once all of it was read.
    pub(crate) fn open_delta(&self, entry: &Entry, scratch: &Path) -> Result<Arc<Events>, Error> {
        events_of(entry, self.open_entry(entry, scratch)?)
    }
}

impl Snapshot {
    /// The snapshot that `entry` was opened to be.
    pub(crate) fn of(entry: &Entry, opened: Opened) -> Result<Self, Error> {
        let refused = |source| Error::Snapshot { key: entry.key.clone(), source };
        let Opened::Snapshot { database, .. } = opened else { return Err(unlike(entry)) };
        let horizon = Horizon::of(&database).map_err(|error| refused(error.into()))?;
        let lost_leases =
            entry.layout == Layout::Etcdbrctl && lacks_leases(&database).map_err(|e| refused(e.into()))?;
        Ok(Self { database: *database, horizon, lost_leases })
    }
}

/// The delta that `entry` was opened to be, of which the digest is compared once all of it was read.
pub(crate) fn events_of(entry: &Entry, opened: Opened) -> Result<Arc<Events>, Error> {
    match opened {
        Opened::Events { events, .. } => Ok(events),
        _ => Err(unlike(entry)),
    }
}

/// Refuses a snapshot that ends at `current`, before its name says that it does. Not all names tell.
fn require_named(entry: &Entry, current: Revision) -> Result<(), Error> {
    let Some(named) = entry.to.filter(|named| current < *named) else { return Ok(()) };
    let source = ObjectError::Misplaced {
        name: format!("all up to revision {named}"),
        itself: format!("all up to revision {current}"),
    };
    Err(Error::Object { key: entry.key.clone(), source })
}

/// Requires that nothing of a snapshot is damaged. Not all have a digest.
fn require_sound(database: &Database) -> Result<(), SnapshotError> {
    let is_fatal = |severity| severity == Severity::Fatal;
    if let Some(file) = database.file() {
        let pages = check_pages(file, cores()).map_err(etcd_data::Error::from)?;
        if let Some(damage) = pages.findings.iter().find(|finding| is_fatal(finding.problem.severity())) {
            return Err(SnapshotError::Unsound(damage.to_string()));
        }
    }
    let report = soundness::check(database)?;
    match report.findings.iter().find(|finding| is_fatal(finding.severity())) {
        Some(damage) => Err(SnapshotError::Unsound(damage.to_string())),
        None => Ok(()),
    }
}

/// That an object is not what its name says.
pub(crate) fn unlike(entry: &Entry) -> Error {
    let source = ObjectError::Misplaced { name: entry.name.clone(), itself: "something else".into() };
    Error::Object { key: entry.key.clone(), source }
}
