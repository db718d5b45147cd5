//! What can be restored.

use std::fmt;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;

use super::Known;
use crate::catalogue::{Catalogue, History, covered};
use crate::entry::Entry;
use crate::identity::LineageId;

/// Everything that can be restored, the newest history last.
#[derive(Debug, Clone)]
pub struct Points<'c> {
    /// History by history.
    pub lineages: Vec<LineagePoints<'c>>,
}

/// What can be restored of one history.
#[derive(Debug, Clone)]
pub struct LineagePoints<'c> {
    /// Which.
    pub lineage: Option<&'c LineageId>,
    /// Revisions any of which can be restored, in order.
    pub ranges: Vec<RevisionRange>,
    /// Changes before all of those, that no full leads to.
    pub baseless: Option<Baseless>,
    /// What lies between those.
    pub holes: Vec<Hole>,
    /// The objects that end at a point: every full, and the deltas that end where no full does; those that end at
    /// the same revision only once. Fulls whose revision only opening tells come first, by their time.
    pub listed: Vec<&'c Entry>,
}

/// Revisions that are missing, and what can be restored on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// What can be restored before it.
    pub before: RevisionRange,
    /// The first revision after it that some object has, if one has.
    pub next: Option<Revision>,
    /// What can be restored beyond it: after a hole that begins with the next full.
    pub beyond: Option<RevisionRange>,
}

/// Changes that come before everything that can be restored: what they followed on is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Baseless {
    /// The first revision that a delta has.
    pub from: Revision,
    /// The last.
    pub to: Revision,
}

impl<'c> Points<'c> {
    /// What can be restored of `catalogue`.
    pub fn of(catalogue: &'c Catalogue, known: &Known) -> Self {
        Self { lineages: catalogue.histories.iter().map(|history| LineagePoints::of(history, known)).collect() }
    }
}

impl<'c> LineagePoints<'c> {
    fn of(history: &'c History, known: &Known) -> Self {
        let ranges = ranges(history, known);
        let (ends, last) = (ranges.iter().map(|range| range.to), ranges.last().map(|range| range.to));
        let inner = ends.filter(|end| Some(*end) < last || last_named(history, known) > last);
        let holes = inner.filter_map(|end| hole_after(history, &ranges, end, known)).collect();
        let lineage = history.lineage.as_ref();
        let baseless = baseless(history, &ranges, known);
        Self { lineage, baseless, holes, listed: listed(history, &ranges, known), ranges }
    }

    /// Whether a hole is one. The full after it may still have what it lacks, which only opening it tells.
    pub fn is_sure(&self, hole: &Hole, known: &Known) -> bool {
        self.is_next_opened(hole.before.to.next(), known)
    }

    /// Whether changes are baseless. The full after them may have them too, which only opening it tells.
    pub fn is_surely_baseless(&self, baseless: &Baseless, known: &Known) -> bool {
        self.is_next_opened(baseless.to, known)
    }

    /// Whether it is known what the next full has that ends at `revision` or later, if there is one.
    fn is_next_opened(&self, revision: Revision, known: &Known) -> bool {
        let is_next = |entry: &&&Entry| entry.is_full() && known.last(entry) >= Some(revision);
        let next = self.listed.iter().find(is_next);
        next.is_none_or(|full| known.fulls.contains_key(&full.key))
    }
}

/// The deltas that end before the first of `ranges`, which are all that can be restored: all deltas, if nothing can.
fn baseless(history: &History, ranges: &[RevisionRange], known: &Known) -> Option<Baseless> {
    let first = ranges.first().map(|range| range.from);
    let usable = history.deltas().iter().filter(|delta| known.is_usable(delta));
    let before = usable.filter_map(|delta| known.changes(delta)).filter(|range| first.is_none_or(|it| range.to <= it));
    before.map(|range| Baseless { from: range.from, to: range.to }).reduce(Baseless::and)
}

fn listed<'c>(history: &'c History, ranges: &[RevisionRange], known: &Known) -> Vec<&'c Entry> {
    let fulls = history.fulls().iter().filter(|full| known.is_usable(full));
    let is_point = |end: Revision| {
        let at = ranges.partition_point(|range| range.to < end);
        ranges.get(at).is_some_and(|range| range.from <= end)
    };
    let deltas = history.deltas().iter().filter(|delta| known.is_usable(delta) && delta.to.is_some_and(is_point));
    let mut listed: Vec<(Option<Revision>, &Entry)> = fulls.map(|full| (known.last(full), full)).collect();
    listed.extend(deltas.map(|delta| (delta.to, delta)));
    // Fulls before deltas, then what was merged before what it was merged of.
    listed.sort_by_key(|(end, entry)| (*end, !entry.is_full(), std::cmp::Reverse(entry.level())));
    listed.dedup_by(|(end, entry), (end_before, _)| !entry.is_full() && end == end_before);
    listed.into_iter().map(|(_, entry)| entry).collect()
}

/// The revisions of a history that can be restored.
pub(super) fn ranges(history: &History, known: &Known) -> Vec<RevisionRange> {
    let runs = covered(
        history.deltas().iter().filter(|delta| known.is_usable(delta)).filter_map(|delta| known.changes(delta)),
    );
    let usable = history.fulls().iter().filter(|full| known.is_usable(full));
    let mut begins: Vec<(Revision, Revision)> = usable.filter_map(|full| begin_and_end(full, known)).collect();
    begins.sort();
    let mut ranges: Vec<RevisionRange> = Vec::new();
    for (from, last) in begins {
        let at = runs.partition_point(|run| run.to <= last);
        let carried = runs.get(at).filter(|run| run.from <= last.next());
        let to = carried.map_or(last, |run| run.to);
        match ranges.last_mut() {
            Some(range) if from <= range.to.next() => range.to = range.to.max(to),
            _ => ranges.push(RevisionRange { from, to }),
        }
    }
    ranges
}

/// The first point that a full leads to by itself, and the last.
fn begin_and_end(full: &Entry, known: &Known) -> Option<(Revision, Revision)> {
    let last = known.last(full)?;
    let first = match known.fulls.get(&full.key) {
        Some(facts) => facts.compact.unwrap_or(Revision::FIRST).max(Revision::FIRST),
        None => last,
    };
    Some((first.min(last), last))
}

/// What is missing after `reached`, which is the last of one of `ranges`. Nothing if that is simply the end.
pub(super) fn hole_after(
    history: &History,
    ranges: &[RevisionRange],
    reached: Revision,
    known: &Known,
) -> Option<Hole> {
    let at = ranges.partition_point(|range| range.to < reached);
    let before = *ranges.get(at).filter(|range| range.to == reached)?;
    let beyond = ranges.get(at + 1).copied();
    let next = next_after(history, reached, known).into_iter().chain(beyond.map(|range| range.from)).min();
    let is_lost = next.is_some() || last_named(history, known) > Some(reached);
    is_lost.then_some(Hole { before, next, beyond })
}

/// The first revision after `reached` that a delta begins with.
fn next_after(history: &History, reached: Revision, known: &Known) -> Option<Revision> {
    let deltas = history.deltas();
    let at = deltas.partition_point(|delta| delta.changes().is_none_or(|range| range.from <= reached));
    let later = deltas.iter().skip(at).find(|delta| known.is_usable(delta))?;
    later.changes().map(|range| range.from)
}

/// The last revision that any object claims, also of those that cannot be used: what was there once and is not is lost,
/// rather than not there yet.
pub(super) fn last_named(history: &History, known: &Known) -> Option<Revision> {
    let fulls = history.fulls().iter().filter_map(|full| known.last(full));
    fulls.chain(history.deltas().iter().filter_map(|delta| delta.to)).max()
}

impl Baseless {
    fn and(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

impl fmt::Display for Baseless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the changes from revision {} to {} have no full to start from", self.from, self.to)
    }
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self.before.to;
        match self.next {
            Some(next) if next.0 - 1 == after.next().0 => write!(f, "revision {} is missing", after.next())?,
            Some(next) => write!(f, "revisions {} to {} are missing", after.next(), next.0 - 1)?,
            None => write!(f, "what follows revision {after} cannot be used")?,
        }
        write!(f, "; {} to {after} can be restored", self.before.from)?;
        match self.beyond {
            Some(beyond) => write!(f, ", and {} to {}", beyond.from, beyond.to),
            None => Ok(()),
        }
    }
}
