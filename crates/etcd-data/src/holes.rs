//! Revisions that should be there and are not. Up to the compact revision history has holes; after it, every revision has
//! its records, and each of these its place in the transaction.
//!
//! What a file lacks is counted and told: the file may be all that there is, so what it has is taken. Whatever comes in
//! layers after it was put there to follow on it, and is refused where it does not.

use std::ops::ControlFlow;

use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::revision::{RevKey, Revision};

/// Revisions that a file lacks, or has only some changes of, though no compaction took any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holes {
    /// How many there are.
    pub count: u64,
    /// The first, and those that follow on it.
    pub first: RevisionRange,
}

/// What comes in a layer after the file does not follow on what is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    /// The first revision that is missing, or lacks some changes.
    pub(crate) missing: Revision,
    /// The last that is there before it.
    pub(crate) last: Revision,
}

/// Where every revision is to have its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dense {
    /// The last revision before which a compaction may have taken any.
    compact: Revision,
    /// The last revision of the file.
    file: Revision,
}

impl Dense {
    /// Where that is in `database`: nowhere, if it cannot be read where history begins.
    pub(crate) fn of(database: &Database) -> Result<Self, Error> {
        let compact = database.tables().compact_revision().map_or(Revision(i64::MAX), Option::unwrap_or_default);
        let file = database.last_of_file()?.map(|last| last.main).unwrap_or_default();
        Ok(Self { compact: compact.max(Revision::FIRST), file })
    }

    /// The same, for whoever looks at no revision before `first`.
    pub(crate) fn from(self, first: Revision) -> Self {
        Self { compact: self.compact.max(Revision(first.0.saturating_sub(1))), ..self }
    }

    /// The revisions that lack all or some changes between the record `before`, if there is one, and the next one, `at`.
    fn missing(&self, before: Option<RevKey>, at: RevKey) -> Option<RevisionRange> {
        if at.main <= self.compact {
            return None;
        }
        let last = self.last(before);
        let lacks_changes = at.sub != place_in_transaction(before, at);
        if at.main <= last.next() && !lacks_changes {
            return None;
        }
        let to = if lacks_changes { at.main } else { Revision(at.main.0.saturating_sub(1)) };
        Some(RevisionRange { from: last.next().min(at.main), to })
    }

    /// The last revision up to the record `before` of which nothing more is expected.
    fn last(&self, before: Option<RevKey>) -> Revision {
        before.map_or(self.compact, |before| before.main.max(self.compact))
    }
}

/// Which change of its transaction the record `at` is to be, after the record `before`, if there is one.
pub(crate) fn place_in_transaction(before: Option<RevKey>, at: RevKey) -> i64 {
    before.filter(|before| before.main == at.main).map_or(0, |before| before.sub.saturating_add(1))
}

/// What is missing of some stretch.
#[derive(Debug, Clone, Copy)]
struct Missing {
    holes: Holes,
    /// The last revision that was counted.
    last: Revision,
}

impl Missing {
    fn of(missing: RevisionRange) -> Self {
        let count = missing.to.0.abs_diff(missing.from.0).saturating_add(1);
        Self { holes: Holes { count, first: missing }, last: missing.to }
    }

    /// What is missing of both, the second of which is the later one. A transaction that lacks changes in several places may
    /// be in both.
    fn joined(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
        let (mut first, then) = (one.holes.first, other.holes.first);
        let twice = u64::from(one.last == then.from);
        if first.to.next() >= then.from {
            first.to = then.to;
        }
        let count = one.holes.count.saturating_add(other.holes.count).saturating_sub(twice);
        Some(Self { holes: Holes { count, first }, last: other.last })
    }
}

/// Follows the records of a database, each after those before it, and sees where changes were left out.
pub(crate) struct Unbroken {
    dense: Dense,
    last: Option<RevKey>,
    missing: Option<Missing>,
}

impl Unbroken {
    pub(crate) fn of(source: &Database) -> Result<Self, Error> {
        Ok(Self { dense: Dense::of(source)?, last: None, missing: None })
    }

    /// Takes the next record. What is missing before it is noted if it is of the file, and refused if not.
    pub(crate) fn follow(&mut self, at: RevKey) -> Result<(), Hole> {
        let before = self.last.replace(at);
        let Some(missing) = self.dense.missing(before, at) else { return Ok(()) };
        if at.main > self.dense.file {
            return Err(Hole { missing: missing.from, last: self.dense.last(before) });
        }
        self.missing = Missing::joined(self.missing, Some(Missing::of(missing)));
        Ok(())
    }

    /// What the file lacks, of what was followed so far.
    pub(crate) fn holes(&self) -> Option<Holes> {
        self.missing.map(|missing| missing.holes)
    }
}

/// Neighbouring records that somebody comes by in either direction, and what a file lacks of them. It costs no pass of its own.
#[derive(Default)]
pub(crate) struct Stretch {
    /// The first and the last record.
    ends: Option<(RevKey, RevKey)>,
    missing: Option<Missing>,
}

impl Stretch {
    /// Takes the record `at`, a neighbour of those so far, on either side. What comes after the file does not count.
    pub(crate) fn take(&mut self, dense: &Dense, at: RevKey) {
        if at.main <= dense.file {
            self.join(dense, Self { ends: Some((at, at)), missing: None });
        }
    }

    /// Takes the neighbouring stretch `other`, on either side.
    pub(crate) fn join(&mut self, dense: &Dense, other: Self) {
        let Some((first, last)) = other.ends else { return };
        let Some((own_first, own_last)) = self.ends else {
            *self = other;
            return;
        };
        let (ends, before, between, after) = match first > own_last {
            true => ((own_first, last), self.missing, dense.missing(Some(own_last), first), other.missing),
            false => ((first, own_last), other.missing, dense.missing(Some(last), own_first), self.missing),
        };
        self.ends = Some(ends);
        self.missing = Missing::joined(Missing::joined(before, between.map(Missing::of)), after);
    }

    /// What the file lacks within the stretch.
    pub(crate) fn holes(&self) -> Option<Holes> {
        self.missing.map(|missing| missing.holes)
    }

    /// What the file lacks from where history begins to the end of the stretch, before which there is no record.
    pub(crate) fn holes_from_the_beginning(&self, dense: &Dense) -> Option<Holes> {
        let before = self.ends.and_then(|(first, _)| dense.missing(None, first)).map(Missing::of);
        Missing::joined(before, self.missing).map(|missing| missing.holes)
    }
}

/// Like [`Database::scan`], for whoever also wants to know what the file lacks of `range`.
pub(crate) fn scan<P: Default + Send, E: From<Error> + Send>(
    database: &Database,
    range: RevisionRange,
    direction: Direction,
    step: impl Fn(&mut P, Record<'_>) -> Result<Next, Error> + Sync,
    mut take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
) -> Result<Option<Holes>, E> {
    let dense = Dense::of(database)?.from(range.from);
    let mut stretch = Stretch::default();
    let step = |(part, collected): &mut (Stretch, P), record: Record<'_>| {
        part.take(&dense, record.at);
        step(collected, record)
    };
    let take_both = |(part, collected): (Stretch, P)| {
        stretch.join(&dense, part);
        take(collected)
    };
    database.scan(range, direction, step, take_both)?;
    Ok(stretch.holes_from_the_beginning(&dense))
}
