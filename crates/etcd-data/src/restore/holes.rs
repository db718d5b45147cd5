//! Revisions that should be there and are not. Up to the compact revision history has holes; after it, every revision has
//! its records, and each of these its place in the transaction.
//!
//! What a file lacks is counted and told: the file may be all that there is, so what it has is taken. Whatever comes in
//! layers after it was put there to follow on it, and is refused where it does not.

use super::error::RestoreError;
use crate::database::{Database, RevisionRange};
use crate::revision::{RevKey, Revision};

/// Revisions that a file lacks, or has only some changes of, though no compaction took any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holes {
    /// How many there are.
    pub count: u64,
    /// The first, and those that follow on it.
    pub first: RevisionRange,
}

/// Follows the records of a database, each after those before it, and sees where changes were left out.
pub(crate) struct Unbroken {
    /// The last revision before which a compaction may have taken any.
    compact: Revision,
    /// The last revision of the file.
    file: Revision,
    last: Option<RevKey>,
    holes: Option<Holes>,
    /// The last revision that was counted.
    counted: Revision,
}

impl Unbroken {
    pub(crate) fn of(source: &Database) -> Result<Self, RestoreError> {
        let compact = source.tables().compact_revision()?.unwrap_or_default().max(Revision::FIRST);
        let file = source.last_of_file()?.map(|last| last.main).unwrap_or_default();
        Ok(Self { compact, file, last: None, holes: None, counted: Revision::default() })
    }

    /// Takes the next record. What is missing before it is noted if it is of the file, and refused if not.
    pub(crate) fn follow(&mut self, at: RevKey) -> Result<(), RestoreError> {
        let before = self.last.replace(at);
        if at.main <= self.compact {
            return Ok(());
        }
        let last = before.map_or(self.compact, |before| before.main.max(self.compact));
        let expected = before.filter(|before| before.main == at.main).map_or(0, |before| before.sub.saturating_add(1));
        let lacks_changes = at.sub != expected;
        if at.main <= last.next() && !lacks_changes {
            return Ok(());
        }
        let missing = last.next().min(at.main);
        if at.main > self.file {
            return Err(RestoreError::Hole { missing, last });
        }
        let to = if lacks_changes { at.main } else { Revision(at.main.0.saturating_sub(1)) };
        self.note(RevisionRange { from: missing, to });
        Ok(())
    }

    /// What the file lacks, of what was followed so far.
    pub(crate) fn holes(&self) -> Option<Holes> {
        self.holes
    }

    fn note(&mut self, missing: RevisionRange) {
        // A transaction may lack changes in several places.
        let (from, to) = (missing.from.max(self.counted.next()), missing.to);
        if from > to {
            return;
        }
        self.counted = to;
        let count = to.0.abs_diff(from.0).saturating_add(1);
        match &mut self.holes {
            None => self.holes = Some(Holes { count, first: RevisionRange { from, to } }),
            Some(holes) => {
                holes.count = holes.count.saturating_add(count);
                if holes.first.to.next() == from {
                    holes.first.to = to;
                }
            }
        }
    }
}
