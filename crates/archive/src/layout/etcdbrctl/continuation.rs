//! Whether the deltas of etcdbrctl follow on what comes before them.
//!
//! Nothing chains them but the revisions in their names. A delta of another cluster whose revisions happen to fit shows
//! only in what its changes say of their keys: which version they make, and since when the key is there.

use std::sync::Arc;

use etcd_data::database::RevisionRange;
use etcd_data::soundness::{Misfit, first_misfit};
use etcd_data::{Database, Kind, Revision};

use crate::agree::culprit::elsewhere;
use crate::entry::Entry;
use crate::error::{Error, ObjectError, is_its_own};
use crate::layout::etcdbrctl::Events;
use crate::plan::Part;

/// What was found of deltas that carry a database on.
pub(crate) struct Continuation {
    /// How far they were looked at: not up to one that cannot be read, nor beyond it. Whoever reads that tells.
    pub(crate) to: Revision,
    /// The first change that does not follow on what comes before it.
    misfit: Option<Misfit>,
}

impl Continuation {
    /// Looks whether `parts`, one after the other, follow on what `database` has before them. It has them, too.
    pub(crate) fn of(database: &Database, mut parts: &[Part]) -> Result<Self, Error> {
        let after = parts.first().map_or(Revision(0), |part| Revision(part.take.from.0.saturating_sub(1)));
        while let Some(last) = parts.last() {
            match first_misfit(&database.clone().cut_after(last.take.to), after) {
                Ok(misfit) => return Ok(Self { to: last.take.to, misfit }),
                Err(error) if error.kind() == Kind::Corrupt => parts = those_before(parts, &error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self { to: after, misfit: None })
    }

    /// The same of `parts`, which carry `database` on and are opened with `open`. One that cannot be opened ends it.
    pub(crate) fn of_closed(
        mut database: Database,
        parts: &[Part],
        open: impl Fn(&Entry) -> Result<Arc<Events>, Error>,
    ) -> Result<Self, Error> {
        let mut opened = 0;
        for part in parts {
            match open(&part.entry) {
                Ok(events) => database = database.followed_by(part.take, events),
                Err(error) if is_its_own(error.kind()) => break,
                Err(error) => return Err(error),
            }
            opened += 1;
        }
        Self::of(&database, parts.get(..opened).unwrap_or_default())
    }

    /// Refuses the one of `parts` that has the first change which does not follow.
    pub(crate) fn require(&self, parts: &[Part]) -> Result<(), Error> {
        let Some(misfit) = self.misfit else { return Ok(()) };
        let has_it = |part: &&Part| (part.take.from..=part.take.to).contains(&misfit.at);
        match parts.iter().find(has_it) {
            Some(part) => Err(Error::Object { key: part.entry.key.clone(), source: ObjectError::OtherHistory(misfit) }),
            None => Ok(()),
        }
    }
}

/// Those before the one that `error` was in. None, if it was in what they carry on.
fn those_before<'p>(parts: &'p [Part], error: &etcd_data::Error) -> &'p [Part] {
    let culprit = elsewhere(parts.iter().map(|part| &part.entry), error);
    let at = culprit.and_then(|key| parts.iter().position(|part| part.entry.key == *key));
    parts.get(..at.unwrap_or_default()).unwrap_or_default()
}

/// Those of `deltas`, which come by their first revision, that carry a database on which ends at `reached`: as far as there
/// is no hole, and up to `until`, where a full begins a chain of its own.
pub(crate) fn chain<'e>(
    deltas: impl IntoIterator<Item = &'e Entry>,
    mut reached: Revision,
    until: Option<Revision>,
) -> Vec<Part> {
    let mut parts = Vec::new();
    for (delta, changes) in deltas.into_iter().filter_map(|delta| Some((delta, delta.changes()?))) {
        if changes.from > reached.next() || until.is_some_and(|until| until <= reached) {
            break;
        }
        if changes.to > reached {
            let take = RevisionRange { from: reached.next(), to: changes.to };
            parts.push(Part { entry: delta.clone(), take });
            reached = changes.to;
        }
    }
    parts
}
