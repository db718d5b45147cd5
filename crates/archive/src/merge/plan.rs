//! Which deltas are due to be merged into larger ones, and when a new full is put together of them.
//!
//! Every level has a window of time, each a multiple of the one before. When a window has passed, the deltas that ended
//! in it become one of that level; a delta that came alone waits for the next level. So a plan hangs on nothing but the
//! listing and the windows that have passed: two who merge make the same objects, and one who comes late skips the
//! levels that nobody needs any more.
//!
//! Merging deletes nothing. What was merged is still there, and plans know both; it is retired by
//! [`crate::retention`], once what replaces it is proven. A merge that died left nothing that a listing shows.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fmt;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::{SignedDuration, Timestamp};
use store::Key;

use crate::catalogue::{Catalogue, History};
use crate::entry::Entry;
use crate::identity::LineageId;
use crate::name::{DeltaName, FullForm, FullName, MAX_LEVEL, Name};
use crate::plan::{Chain, Known, Part, RestorePlan, Target, Wanted, rivals};

/// When what is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergePolicy {
    /// The windows of level 1 and on, each a multiple of the one before.
    pub windows: Vec<SignedDuration>,
    /// The window after which a new full is put together. Nothing if none ever is.
    pub full_window: Option<SignedDuration>,
    /// How long after its end a window counts as passed, so that what was sealed last in it is listed.
    pub settle: SignedDuration,
    /// Only of this lineage; of all, if nothing is said.
    pub lineage: Option<LineageId>,
}

/// What is due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergePlan {
    /// Deltas to make, history by history, the highest level first.
    pub merges: Vec<Merge>,
    /// A full to make.
    pub full: Option<NewFull>,
    /// Deltas that have been merged into others that are there.
    pub merged: Vec<Merged>,
}

/// A delta to make of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// What it is to be.
    pub into: Name,
    /// What it is made of, in order and without gaps.
    pub sources: Vec<Part>,
    /// Deltas that claim the same revisions; see [`RestorePlan::rivals`].
    pub rivals: Vec<Entry>,
}

/// A full to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFull {
    /// What it is to be. Its time is that of its last change, as far as is known, whoever makes it.
    pub into: Name,
    /// What it is made of.
    pub plan: RestorePlan,
}

/// A delta that another has wholly in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The delta.
    pub entry: Entry,
    /// What it was merged into.
    pub into: Key,
}

/// A policy that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("each window must be a multiple of the one before, and there are at most {MAX_LEVEL}")]
pub struct BadWindows;

impl Default for MergePolicy {
    /// Twenty seconds to twelve hours, and a full every day: of a chain of 5-second deltas, a restore opens about a
    /// dozen objects. Small steps cost more writing, but of little: each change is written once per level.
    fn default() -> Self {
        let windows = [20, 60, 300, 900, 3600, 4 * 3600, 12 * 3600].map(SignedDuration::from_secs).to_vec();
        Self {
            windows,
            full_window: Some(SignedDuration::from_hours(24)),
            settle: SignedDuration::from_secs(10),
            lineage: None,
        }
    }
}

impl MergePolicy {
    /// Whether the windows fit into each other.
    pub fn check(&self) -> Result<(), BadWindows> {
        let windows: Vec<i64> = self.windows.iter().chain(&self.full_window).map(SignedDuration::as_secs).collect();
        let fits = |pair: &[i64]| matches!(pair, [a, b] if *a > 0 && b > a && b % a == 0);
        let is_good = windows.windows(2).all(fits) && windows.first().is_none_or(|first| *first > 0);
        if is_good && self.windows.len() <= usize::from(MAX_LEVEL) { Ok(()) } else { Err(BadWindows) }
    }

    /// Which window a time is in, if that has passed.
    fn passed(&self, window: SignedDuration, time: Timestamp, now: Timestamp) -> Option<i64> {
        let seconds = window.as_secs().max(1);
        let index = time.as_second().div_euclid(seconds);
        let end = (index + 1).saturating_mul(seconds).saturating_add(self.settle.as_secs());
        (end <= now.as_second()).then_some(index)
    }
}

impl Merge {
    /// Its sources, to be compared with what they say.
    pub(crate) fn chain(&self) -> Chain<'_> {
        Chain { base: None, deltas: &self.sources, rivals: &self.rivals }
    }
}

impl MergePlan {
    /// What is due at `now`. Of deltas that were merged already, `known` should have when their changes were seen.
    pub fn choose(catalogue: &Catalogue, policy: &MergePolicy, known: &Known, now: Timestamp) -> Self {
        let mut plan = Self::default();
        let is_meant = |lineage: &LineageId| policy.lineage.as_ref().is_none_or(|only| only == lineage);
        for history in &catalogue.histories {
            // Only our own know levels.
            let Some(lineage) = history.lineage.as_ref().filter(|lineage| is_meant(lineage)) else { continue };
            plan.merges.append(&mut merges(history, lineage, policy, known, now));
            plan.merged.append(&mut merged(history, known, |_| true));
        }
        // Older histories have ended: nothing goes on from a new full of theirs.
        let newest = catalogue.histories.last();
        let newest = newest.filter(|history| history.lineage.as_ref().is_none_or(is_meant));
        plan.full = newest.and_then(|history| new_full(catalogue, history, policy, known, now));
        plan
    }

    /// Whether nothing is due.
    pub fn is_empty(&self) -> bool {
        self.merges.is_empty() && self.full.is_none()
    }
}

fn merges(history: &History, lineage: &LineageId, policy: &MergePolicy, known: &Known, now: Timestamp) -> Vec<Merge> {
    let mut merges = Vec::new();
    let mut made: Vec<DeltaName> = Vec::new();
    for (level, window) in (1..=MAX_LEVEL).zip(&policy.windows).rev() {
        let sources = sources(history, level, &made, known);
        let groups = groups(&sources, |entry| policy.passed(*window, known.time(entry), now));
        for sources in groups {
            let (Some(first), Some(last)) = (sources.first(), sources.last()) else { continue };
            let name = DeltaName { level, from: first.take.from, to: last.take.to };
            made.push(name);
            let rivals = rivals(history, &sources);
            merges.push(Merge { into: Name::Delta(lineage.clone(), name), sources, rivals });
        }
    }
    merges
}

/// A delta, and what counts of it.
type Source<'h> = (&'h Entry, RevisionRange);

/// The deltas below `level` that are not in one of that level or above, nor in another below it, in order.
fn sources<'h>(history: &'h History, level: u8, made: &[DeltaName], known: &Known) -> Vec<Source<'h>> {
    let usable = history.deltas().iter().filter(|delta| known.is_usable(delta));
    let all = usable.filter_map(|entry| Some((entry, known.changes(entry)?)));
    let (upper, mut lower): (Vec<Source<'_>>, Vec<_>) = all.partition(|(entry, _)| entry.level() >= Some(level));

    let mut wholes: Vec<RevisionRange> = upper.into_iter().map(|(_, range)| range).collect();
    wholes.extend(made.iter().map(|name| RevisionRange { from: name.from, to: name.to }));
    wholes.sort_by_key(|whole| whole.from);
    let mut wholes = wholes.into_iter().peekable();
    let mut covered = Revision(0);

    lower.sort_by_key(|(entry, range)| (range.from, Reverse(range.to), Reverse(entry.level())));
    lower.retain(|(_, range)| {
        while let Some(whole) = wholes.next_if(|whole| whole.from <= range.from) {
            covered = covered.max(whole.to);
        }
        let is_new = range.to > covered;
        covered = covered.max(range.to);
        is_new
    });
    lower
}

/// Neighbours without a gap or an overlap that are in the same window, two or more. What counts only in part is left
/// alone: its end is not the one that its successor follows on.
fn groups(sources: &[Source<'_>], window: impl Fn(&Entry) -> Option<i64>) -> Vec<Vec<Part>> {
    let whole_in = |(entry, range): &Source<'_>| window(entry).filter(|_| entry.changes() == Some(*range));
    let belong = |a: &Source<'_>, b: &Source<'_>| {
        let (one, other) = (whole_in(a), whole_in(b));
        one.is_some() && one == other && b.1.from == a.1.to.next()
    };
    let part = |(entry, take): &Source<'_>| Part { entry: (*entry).clone(), take: *take };
    let several = sources.chunk_by(belong).filter(|group| group.len() > 1);
    several.map(|group| group.iter().map(part).collect()).collect()
}

/// Deltas that lie wholly in another of a higher level which `counts`.
pub(crate) fn merged(history: &History, known: &Known, counts: impl Fn(&Entry) -> bool) -> Vec<Merged> {
    let usable = history.deltas().iter().filter(|delta| known.is_usable(delta));
    let mut by_first: Vec<(&Entry, RevisionRange)> =
        usable.filter_map(|delta| Some((delta, known.changes(delta)?))).collect();
    by_first.sort_by_key(|(delta, range)| (range.from, Reverse(range.to), Reverse(delta.level())));
    let mut merged = Vec::new();
    // Those that may still have later ones in them, the largest first.
    let mut open: Vec<(&Entry, RevisionRange)> = Vec::new();
    for (delta, range) in by_first {
        open.retain(|(_, whole)| whole.to >= range.from);
        let into = open.iter().find(|(whole, has)| has.to >= range.to && whole.level() > delta.level());
        match into {
            Some((whole, _)) => merged.push(Merged { entry: delta.clone(), into: whole.key.clone() }),
            None if counts(delta) => open.push((delta, range)),
            None => {}
        }
    }
    merged
}

fn new_full(
    catalogue: &Catalogue,
    history: &History,
    policy: &MergePolicy,
    known: &Known,
    now: Timestamp,
) -> Option<NewFull> {
    let (lineage, window) = (history.lineage.as_ref()?, policy.full_window?);
    let usable = history.deltas().iter().filter(|delta| known.is_usable(delta));
    let passed = usable.filter(|delta| policy.passed(window, known.time(delta), now).is_some());
    let (to, last) = passed.filter_map(|delta| Some((known.changes(delta)?.to, delta))).max_by_key(|(to, _)| *to)?;
    if history.fulls().iter().any(|full| known.is_usable(full) && known.last(full) >= Some(to)) {
        return None;
    }
    let choose = |target| {
        let wanted = Wanted { lineage: Some(lineage.clone()), target };
        let plan = RestorePlan::choose(catalogue, &wanted, known).ok()?;
        (plan.base.lineage.as_ref() == Some(lineage)).then_some(plan)
    };
    // Where something on the way there is of no use, the newest point that there is will do: it spares what leads to it.
    let (plan, last) = match choose(Target::Revision(to)) {
        Some(plan) => (plan, last),
        None => {
            let plan = choose(Target::Latest)?;
            let last =
                history.deltas().iter().find(|delta| plan.deltas.last().is_some_and(|part| part.entry == **delta))?;
            (plan, last)
        }
    };
    let name = FullName { revision: plan.target?, time: known.time(last), form: FullForm::Logical };
    Some(NewFull { into: Name::Full(lineage.clone(), name), plan })
}

impl fmt::Display for MergePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Merge { into, sources, .. } in &self.merges {
            let bytes = sources.iter().map(|part| part.entry.size_bytes).fold(0, u64::saturating_add);
            writeln!(f, "merge {into}: {} deltas, {bytes} bytes", sources.len())?;
        }
        if let Some(NewFull { into, plan }) = &self.full {
            writeln!(f, "merge {into}: a full and {} deltas, {} bytes", plan.deltas.len(), plan.size_bytes())?;
        }
        if self.is_empty() { writeln!(f, "nothing is due") } else { Ok(()) }
    }
}
