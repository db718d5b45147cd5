//! Objects of other systems, opened with the digest compared that each of them ends with.

use std::path::Path;
use std::sync::Arc;

use etcd_data::Database;
use etcd_data::view::Horizon;

use crate::agree::Opened;
use crate::archive::Archive;
use crate::entry::{Entry, Form, Layout};
use crate::error::{Error, ObjectError};
use crate::layout::etcdbrctl::{Events, lacks_leases};

/// A snapshot, open.
pub(crate) struct Snapshot {
    pub(crate) database: Database,
    pub(crate) horizon: Horizon,
    /// Whether etcdbrctl's compaction took the leases off its keys.
    pub(crate) lost_leases: bool,
}

impl Archive {
    /// Reads all of an object of another system, and compares it with the digest at its end.
    pub(crate) fn require_whole(&self, entry: &Entry, scratch: &Path) -> Result<(), Error> {
        match entry.form {
            Form::Events { .. } => {
                let damaged = |source| Error::Object { key: entry.key.clone(), source };
                self.open_delta(entry, scratch)?.facts().map(|_| ()).map_err(damaged)
            }
            _ => self.open_whole_snapshot(entry, scratch).map(|_| ()),
        }
    }

    pub(crate) fn open_whole_snapshot(&self, entry: &Entry, scratch: &Path) -> Result<Snapshot, Error> {
        let refused = |source| Error::Snapshot { key: entry.key.clone(), source };
        let mut opened = self.open_entries(std::iter::once(entry), scratch)?;
        let Some(Opened::Snapshot { database, .. }) = opened.remove(&entry.key) else { return Err(unlike(entry)) };
        let horizon = Horizon::of(&database).map_err(|error| refused(error.into()))?;
        let lost_leases =
            entry.layout == Layout::Etcdbrctl && lacks_leases(&database).map_err(|e| refused(e.into()))?;
        Ok(Snapshot { database: *database, horizon, lost_leases })
    }

    /// A delta, of which the digest is compared once all of it was read.
    pub(crate) fn open_delta(&self, entry: &Entry, scratch: &Path) -> Result<Arc<Events>, Error> {
        let mut opened = self.open_entries(std::iter::once(entry), scratch)?;
        match opened.remove(&entry.key) {
            Some(Opened::Events(events)) => Ok(events),
            _ => Err(unlike(entry)),
        }
    }
}

/// That an object is not what its name says.
pub(crate) fn unlike(entry: &Entry) -> Error {
    let source = ObjectError::Misplaced { name: entry.name.clone(), itself: "something else".into() };
    Error::Object { key: entry.key.clone(), source }
}
