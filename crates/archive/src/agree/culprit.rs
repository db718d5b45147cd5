//! Which object is to blame when a point could not be read.
//!
//! Objects are compared with what they say of themselves when they are opened, but what is in the middle of one is
//! only seen by whoever reads it. Then the point may still be reached without that object.

use etcd_data::bolt_file;
use etcd_data::restore::RestoreError;
use etcd_data::view::ViewError;
use etcd_data::{Error, Kind, Revision};
use store::Key;

use crate::agree::{Agreed, Opened};
use crate::entry::Entry;
use crate::error::{deepest, is_its_own};
use crate::merge::plan::Merge;
use crate::plan::RestorePlan;

impl RestorePlan {
    /// The object of this plan whose fault `error` is, which came of reading or merging; nothing if it is no object's.
    pub fn culprit(&self, error: &crate::Error) -> Option<&Key> {
        culprit(self.objects(), error)
    }
}

impl Merge {
    /// The source whose fault it is that nothing was merged; nothing if it is none's.
    pub fn culprit(&self, error: &crate::Error) -> Option<&Key> {
        culprit(self.sources.iter().map(|part| &part.entry), error)
    }
}

fn culprit<'e>(objects: impl Iterator<Item = &'e Entry>, error: &crate::Error) -> Option<&'e Key> {
    let key = match error {
        crate::Error::Object { key, .. } | crate::Error::Snapshot { key, .. } if is_its_own(error.kind()) => key,
        crate::Error::Contradiction(contradiction) => &contradiction.key,
        crate::Error::Data(error) => return elsewhere(objects, error),
        _ => return None,
    };
    let mut keys = objects.map(|entry| &entry.key);
    keys.find(|object| *object == key)
}

/// Which of `objects` an error was in that tells only the place.
pub(crate) fn elsewhere<'e>(mut objects: impl Iterator<Item = &'e Entry>, error: &Error) -> Option<&'e Key> {
    let Error::Elsewhere { place, kind: Kind::Corrupt | Kind::Missing, .. } = error else { return None };
    // Of one of ours it is told which records of it, too.
    let is_in = |entry: &&Entry| {
        place.strip_prefix(entry.key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
    };
    objects.find(is_in).map(|entry| &entry.key)
}

impl Agreed {
    /// The object whose fault it is that nothing was built, and what is wrong with it; nothing if it is no object's.
    pub fn culprit(&self, error: &RestoreError) -> Option<(Key, String)> {
        let key = self.culprit_of_building(error)?;
        Some((key.clone(), deepest(error)))
    }

    /// The object whose fault it is that the point could not be opened, and what is wrong with it; nothing if it is no
    /// object's.
    pub(crate) fn culprit_of_opening(&self, error: &crate::Error) -> Option<(Key, String)> {
        let key = match error {
            crate::Error::Data(error) => self.culprit_of_reading(error)?,
            error => self.plan.culprit(error)?,
        };
        Some((key.clone(), deepest(error)))
    }

    fn culprit_of_building(&self, error: &RestoreError) -> Option<&Key> {
        match error {
            RestoreError::Source(error) | RestoreError::View(ViewError::Data(error)) => self.culprit_of_reading(error),
            RestoreError::Digest | RestoreError::Table(_) | RestoreError::View(ViewError::Table(_)) => self.snapshot(),
            RestoreError::Hole { missing, .. } => Some(self.holder(*missing)),
            _ => None,
        }
    }

    fn culprit_of_reading(&self, error: &Error) -> Option<&Key> {
        match error {
            Error::Elsewhere { .. } => elsewhere(self.plan.objects(), error),
            // These tell no place, because only one thing here is a database file.
            Error::Bolt(bolt_file::Error::Corrupt(_)) | Error::Record { .. } => self.snapshot(),
            _ => None,
        }
    }

    /// The full, if it is a snapshot.
    fn snapshot(&self) -> Option<&Key> {
        let key = &self.plan.base.key;
        matches!(self.objects.get(key), Some(Opened::Snapshot { .. })).then_some(key)
    }

    /// The object that should have had `revision`.
    fn holder(&self, revision: Revision) -> &Key {
        let holds = |part: &&crate::plan::Part| (part.take.from..=part.take.to).contains(&revision);
        self.plan.deltas.iter().find(holds).map_or(&self.plan.base.key, |part| &part.entry.key)
    }
}
