//! Looking ahead whether deltas follow on what was brought: those up to the next full all at once, for it takes reading what
//! they follow on.

use std::slice;

use etcd_data::Revision;

use super::{Current, Line};
use crate::entry::Entry;
use crate::error::Error;
use crate::layout::etcdbrctl::continuation::{Continuation, chain};
use crate::plan::Part;

/// The deltas that were looked at, and what came of it.
pub(super) struct Ahead {
    parts: Vec<Part>,
    continuation: Continuation,
}

impl Line<'_> {
    /// Refuses a delta that does not follow on what was brought before. What of it cannot be read, whoever brings it
    /// tells.
    pub(super) fn require_continued(&mut self, part: &Part) -> Result<(), Error> {
        let is_known = |ahead: &Ahead| part.take.to <= ahead.continuation.to && ahead.parts.contains(part);
        if !self.current.as_ref().and_then(|current| current.ahead.as_ref()).is_some_and(is_known) {
            let ahead = self.look_ahead(part)?;
            if let Some(current) = &mut self.current {
                current.ahead = Some(ahead);
            }
        }
        match &self.current {
            Some(Current { ahead: Some(ahead), .. }) => ahead.continuation.require(slice::from_ref(part)),
            _ => Ok(()),
        }
    }

    fn look_ahead(&mut self, next: &Part) -> Result<Ahead, Error> {
        let parts = self.coming(next);
        let state = self.state()?;
        if let Some(current) = &mut self.current {
            current.deltas.bring(parts.iter().map(|part| &part.entry))?;
        }
        let continuation = Continuation::of_closed(state, &parts, |entry| self.delta(entry))?;
        Ok(Ahead { parts, continuation })
    }

    /// The deltas up to the next full, of which `next` is the first.
    fn coming(&self, next: &Part) -> Vec<Part> {
        let reached = Revision(next.take.from.0.saturating_sub(1));
        let histories = &self.source.catalogue().histories;
        let ends = histories.iter().flat_map(|history| history.fulls()).filter_map(|full| full.to);
        let until = ends.filter(|end| *end > reached).min();
        let after = |delta: &&Entry| delta.changes().is_some_and(|changes| changes.from >= next.take.from);
        let deltas = histories.iter().flat_map(|history| history.deltas()).filter(after);
        let others = deltas.filter(|delta| delta.key != next.entry.key);
        let mut parts = vec![next.clone()];
        parts.extend(chain(others, next.take.to, until));
        parts
    }
}
