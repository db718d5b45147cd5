//! Whether the deltas of etcdbrctl follow on the full before them: nothing says so but their changes.

use std::collections::BTreeSet;
use std::path::Path;

use etcd_data::Revision;
use store::Key;

use super::finding::Finding;
use super::kept::Kept;
use super::report::{Looked, ObjectReport, Report};
use crate::agree::Opened;
use crate::archive::Archive;
use crate::catalogue::History;
use crate::entry::Entry;
use crate::error::{Error, ObjectError, is_its_own};
use crate::layout::etcdbrctl::continuation::{Continuation, chain};
use crate::layout::peer_object::{Snapshot, events_of};

/// Checks the deltas that were looked at and are right by themselves, as far as they were `kept` without fetching them
/// again. What was found is told of the delta that it is about.
pub(super) fn check(
    archive: &Archive,
    looked: &[Looked],
    kept: &Kept,
    scratch: &Path,
    report: &mut Report,
) -> Vec<(Key, Finding)> {
    let is_right = |report: &ObjectReport| !report.is_wrong() && report.unreached.is_none();
    // What is wrong with a full may be nothing that keeps it from being opened.
    let right = looked.iter().filter(|looked| looked.facts.is_some() || is_right(&looked.report));
    let right: BTreeSet<&Key> = right.map(|looked| &looked.report.entry.key).collect();
    let mut desk = Desk { archive, kept, scratch, found: Vec::new(), report };
    for history in &archive.catalogue().histories {
        desk.check(history, |entry| right.contains(&entry.key));
    }
    desk.found
}

struct Desk<'a> {
    archive: &'a Archive,
    kept: &'a Kept,
    scratch: &'a Path,
    found: Vec<(Key, Finding)>,
    report: &'a mut Report,
}

impl Desk<'_> {
    /// Checks what follows on each full, up to the next one that is of use.
    fn check(&mut self, history: &History, is_right: impl Fn(&Entry) -> bool) {
        let deltas: Vec<&Entry> = history.deltas().iter().filter(|delta| is_right(delta)).collect();
        let mut until: Option<Revision> = None;
        for full in history.fulls().iter().rev().filter(|full| !deltas.is_empty() && is_right(full)) {
            match self.follow(full, &deltas, until) {
                Ok(()) => until = full.to,
                Err(Error::Object { key, source: source @ ObjectError::OtherHistory(_) }) => {
                    self.found.push((key, Finding::Object(source)));
                    until = full.to;
                }
                // What is wrong with it was told when it was looked at.
                Err(error) if is_its_own(error.kind()) => {}
                Err(error) => self.report.unreached.push((full.key.clone(), error)),
            }
        }
    }

    fn follow(&self, full: &Entry, deltas: &[&Entry], until: Option<Revision>) -> Result<(), Error> {
        let Snapshot { database, horizon, .. } = Snapshot::of(full, self.opened(full)?)?;
        let parts = chain(deltas.iter().copied(), horizon.current, until);
        let open = |delta: &Entry| events_of(delta, self.opened(delta)?);
        Continuation::of_closed(database, &parts, open)?.require(&parts)
    }

    fn opened(&self, entry: &Entry) -> Result<Opened, Error> {
        match self.kept.get(&entry.key) {
            Some(brought) => self.archive.open_brought(entry, &brought, self.scratch),
            None => self.archive.open_entry(entry, self.scratch),
        }
    }
}
