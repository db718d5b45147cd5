//! Deltas of the source that are read more than once: to see whether they follow on what comes before them, to bring them in,
//! and to compare the next full with. What is far is fetched once, and stays here until the next full.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use store::Key;

use crate::agree::Opened;
use crate::archive::Archive;
use crate::entry::Entry;
use crate::error::{Error, is_its_own};
use crate::fetch::Spool;
use crate::layout::etcdbrctl::Events;

/// Deltas that are open, and what brings them here.
pub(super) struct BroughtDeltas<'a> {
    source: &'a Archive,
    scratch: &'a Path,
    opened: BTreeMap<Key, Arc<Events>>,
    spools: Vec<Spool>,
}

impl<'a> BroughtDeltas<'a> {
    /// None so far. They come from `source` to files in the folder `scratch`.
    pub(super) fn none(source: &'a Archive, scratch: &'a Path) -> Self {
        Self { source, scratch, opened: BTreeMap::new(), spools: Vec::new() }
    }

    /// Opens `entries`, up to one that is of no use, and begins to bring them here in that order.
    pub(super) fn bring<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>) -> Result<(), Error> {
        let mut on_the_way = Vec::new();
        for entry in entries {
            if self.opened.contains_key(&entry.key) {
                continue;
            }
            match self.source.open_entry(entry, self.scratch) {
                Ok(Opened::Events { events, far }) => {
                    on_the_way.extend(far);
                    self.opened.insert(entry.key.clone(), events);
                }
                Ok(_) => break,
                Err(error) if is_its_own(error.kind()) => break,
                Err(error) => return Err(error),
            }
        }
        if !on_the_way.is_empty() {
            let spool = Spool::begin(on_the_way, self.scratch);
            self.spools.push(spool.map_err(|source| Error::Scratch { folder: self.scratch.into(), source })?);
        }
        Ok(())
    }

    /// A delta, of which the digest is compared once all of it was read.
    pub(super) fn open(&self, entry: &Entry) -> Result<Arc<Events>, Error> {
        match self.opened.get(&entry.key) {
            Some(events) => Ok(Arc::clone(events)),
            None => self.source.open_delta(entry, self.scratch),
        }
    }
}
