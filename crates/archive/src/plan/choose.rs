//! Choosing a plan from names.
//!
//! Two facts make this short. Whatever leads from an older full past a newer one leads on from the newer one too, so
//! the newest full at or below the target is the one to begin with. And of all deltas that carry on, the one that
//! reaches furthest leaves the fewest to come.

use std::cmp::Reverse;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use store::Key;

use super::points::{hole_after, last_named, ranges};
use super::{Known, Part, PlanError, Remark, RestorePlan, Target, Wanted};
use crate::catalogue::{Catalogue, History};
use crate::entry::{Entry, Form, Layout};
use crate::identity::LineageId;
use crate::name::FullForm;

impl RestorePlan {
    /// The fewest objects that lead to what is `wanted`; of those, the smallest to end with.
    pub fn choose(catalogue: &Catalogue, wanted: &Wanted, known: &Known) -> Result<Self, PlanError> {
        let candidates = candidates(catalogue, wanted, known)?;
        match &wanted.target {
            Target::Latest => latest(&candidates, known),
            Target::Revision(target) => at_revision(&candidates, *target, known),
            Target::Name(name) => named(&candidates, name, known),
        }
    }
}

/// A later full that may still have the history that is wanted, which only opening it tells.
pub(crate) fn perhaps(catalogue: &Catalogue, wanted: &Wanted, known: &Known) -> Option<Key> {
    let Target::Revision(target) = wanted.target else { return None };
    let candidates = candidates(catalogue, wanted, known).ok()?;
    let may_have_it = |candidate: &&Candidate<'_>| target <= candidate.limit;
    let mut histories = candidates.iter().filter(may_have_it).map(|candidate| candidate.history);
    histories.find_map(|history| nearest_unopened_after(history, target, known))
}

/// A history that may be used, up to a revision of it.
struct Candidate<'c> {
    history: &'c History,
    limit: Revision,
}

/// The histories to look at, the one to prefer first.
fn candidates<'c>(catalogue: &'c Catalogue, wanted: &Wanted, known: &Known) -> Result<Vec<Candidate<'c>>, PlanError> {
    let Some(lineage) = &wanted.lineage else {
        let newest_first = catalogue.histories.iter().rev();
        return Ok(newest_first.map(|history| Candidate { history, limit: Revision(i64::MAX) }).collect());
    };
    let history = catalogue.history(lineage).ok_or_else(|| PlanError::NoLineage { lineage: lineage.clone() })?;
    let mut line = vec![Candidate { history, limit: Revision(i64::MAX) }];
    let mut parent = known.parents.get(lineage);
    // What is told of parents may lead in circles; there are no more than there are histories.
    while let Some(origin) = parent.filter(|_| line.len() < catalogue.histories.len()) {
        let limit = line.last().map_or(origin.revision, |child| child.limit.min(origin.revision));
        line.extend(catalogue.history(&origin.lineage).map(|history| Candidate { history, limit }));
        parent = known.parents.get(&origin.lineage);
    }
    Ok(line)
}

fn latest(candidates: &[Candidate<'_>], known: &Known) -> Result<RestorePlan, PlanError> {
    let mut lost = None;
    for candidate in candidates {
        let history = candidate.history;
        let newest = match last_reached(history, candidate.limit, known) {
            Some(target) => within(history, target, known)?,
            None => match newest_unopened(history, known) {
                Some(full) => alone(full, None),
                None => {
                    // One that has only just begun has nothing yet, and nothing is lost with it.
                    let has_some = !history.fulls().is_empty();
                    lost = lost.or_else(|| history.lineage.clone().filter(|_| has_some));
                    continue;
                }
            },
        };
        let hole = newest.target.and_then(|target| hole_after(history, &ranges(history, known), target, known));
        let mut plan = with_lineage_remark(newest, candidates, known);
        plan.remarks.extend(hole.map(Remark::HoleBeyond));
        plan.remarks.extend(has_lost_after(history, &plan.base, known).then_some(Remark::LaterLost));
        plan.remarks.extend(lost.map(|lineage| Remark::NewerLost { lineage }));
        return Ok(plan);
    }
    Err(PlanError::NoFull)
}

/// The last revision that can be restored of a history.
fn last_reached(history: &History, limit: Revision, known: &Known) -> Option<Revision> {
    ranges(history, known).iter().rev().find(|range| range.from <= limit).map(|range| range.to.min(limit))
}

/// The newest snapshot, where only opening them would tell their revisions.
fn newest_unopened<'h>(history: &'h History, known: &Known) -> Option<&'h Entry> {
    history.fulls().iter().filter(|full| known.is_usable(full) && full.to.is_none()).max_by_key(|full| full.time())
}

/// Whether snapshots cannot be used that were taken after `base`, and whose revisions nobody knows.
fn has_lost_after(history: &History, base: &Entry, known: &Known) -> bool {
    let mut lost = history.fulls().iter().filter(|full| !known.is_usable(full) && known.last(full).is_none());
    lost.any(|full| full.time() > base.time())
}

/// The newest history that has the revision. One with a hole there has lost it: an older one would tell another story.
fn at_revision(candidates: &[Candidate<'_>], target: Revision, known: &Known) -> Result<RestorePlan, PlanError> {
    let mut first_error = None;
    for candidate in candidates.iter().filter(|candidate| target <= candidate.limit) {
        match within(candidate.history, target, known) {
            Ok(plan) => return Ok(with_lineage_remark(plan, candidates, known)),
            Err(error @ (PlanError::NoFull | PlanError::Before { .. } | PlanError::After { .. })) => {
                first_error = first_error.filter(|first| *first != PlanError::NoFull).or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(first_error.unwrap_or(PlanError::NoFull))
}

fn named(candidates: &[Candidate<'_>], name: &str, known: &Known) -> Result<RestorePlan, PlanError> {
    let is_it = |entry: &&Entry| {
        let key = entry.key.as_str();
        entry.name == name || key == name || key.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'))
    };
    let all = candidates.iter().flat_map(|candidate| {
        let history = candidate.history;
        history.fulls().iter().chain(history.deltas()).filter(is_it).map(move |entry| (history, entry))
    });
    let found: Vec<(&History, &Entry)> = all.collect();
    let (history, entry) = match found.as_slice() {
        [] => return Err(PlanError::NoName { name: name.into() }),
        [one] => *one,
        several => {
            let keys: Vec<Key> = several.iter().map(|(_, entry)| entry.key.clone()).collect();
            return Err(PlanError::Ambiguous { name: name.into(), keys });
        }
    };
    let target = if entry.is_full() { known.last(entry) } else { entry.to };
    let plan = match target {
        _ if entry.is_full() && known.is_usable(entry) => alone(entry, target),
        Some(target) => within(history, target, known)?,
        None => return Err(PlanError::NoFull),
    };
    Ok(with_lineage_remark(plan, candidates, known))
}

fn with_lineage_remark(mut plan: RestorePlan, candidates: &[Candidate<'_>], known: &Known) -> RestorePlan {
    let newest = candidates.first().and_then(|candidate| candidate.history.lineage.as_ref());
    remark_on_lineage(&mut plan, newest, known);
    plan
}

/// Remarks on it if `plan` is of another lineage than the `newest`, instead of what was remarked on that before.
pub(crate) fn remark_on_lineage(plan: &mut RestorePlan, newest: Option<&LineageId>, known: &Known) {
    plan.remarks.retain(|remark| !matches!(remark, Remark::OlderLineage { .. }));
    if let Some(newest) = newest.filter(|newest| plan.base.lineage.as_ref() != Some(newest)) {
        let parent = known.parents.get(newest).filter(|parent| plan.base.lineage.as_ref() == Some(&parent.lineage));
        let left_at = parent.map(|parent| parent.revision);
        plan.remarks.push(Remark::OlderLineage { newest: newest.clone(), left_at });
    }
}

/// The plan that leads to `target` within one history.
fn within(history: &History, target: Revision, known: &Known) -> Result<RestorePlan, PlanError> {
    require_opened(history, known)?;
    let usable = |full: &&Entry| known.is_usable(full);
    let bases = || history.fulls().iter().filter(usable).filter(|full| can_begin(full, target, known));
    // The one whose records are quickest to load, where several end at the same revision.
    let order = |full: &&Entry| {
        (known.last(full), full.form == Form::Full(FullForm::Logical), full.time(), Reverse(full.key.clone()))
    };
    let newest = bases().max_by_key(order);
    let exact = bases().filter(|full| !may_lack_leases(full, history, known)).max_by_key(order);

    let chosen = [exact, newest].into_iter().flatten().find_map(|base| chain(history, base, target, known));
    let Some(mut plan) = chosen else {
        return later_full(history, target, known).ok_or_else(|| unreachable(history, target, known));
    };
    if let Some(newest) = newest.filter(|newest| exact != Some(newest)) {
        let is_base = plan.base.key == newest.key;
        plan.remarks.push(if is_base { Remark::LessExact } else { Remark::Avoided { full: newest.key.clone() } });
    }
    Ok(plan)
}

fn require_opened(history: &History, known: &Known) -> Result<(), PlanError> {
    let unknown = history.fulls().iter().filter(|full| known.is_usable(full) && known.last(full).is_none());
    let fulls: Vec<Key> = unknown.map(|full| full.key.clone()).collect();
    if fulls.is_empty() { Ok(()) } else { Err(PlanError::Unopened { fulls }) }
}

/// Whether a restore to `target` can begin with `full`. etcdbrctl's may hold more than their names say, which is then
/// left out.
fn can_begin(full: &Entry, target: Revision, known: &Known) -> bool {
    let named = full.to.is_some_and(|to| to <= target);
    let has_it = known.compact(full).is_none_or(|compact| compact <= target);
    has_it && (named || known.last(full).is_some_and(|last| last <= target))
}

/// Whether a full may be one of etcdbrctl's compacted ones, whose keys lost their leases. Those end where a delta does
/// that was written some time before. Opening it tells for sure.
pub(super) fn may_lack_leases(full: &Entry, history: &History, known: &Known) -> bool {
    if let Some(facts) = known.fulls.get(&full.key) {
        return facts.lost_leases;
    }
    let is_source = |delta: &Entry| delta.to == full.to && delta.time() < full.time();
    full.layout == Layout::Etcdbrctl && history.deltas().iter().any(is_source)
}

/// `base` and the deltas that carry it to `target`, if they do.
fn chain(history: &History, base: &Entry, target: Revision, known: &Known) -> Option<RestorePlan> {
    let begin = known.last(base)?.min(target);
    let deltas = carry_on(history, begin, target, known)?;
    let mut plan = alone(base, Some(target));
    plan.rivals = rivals(history, &deltas);
    plan.deltas = deltas;
    Some(plan)
}

/// The fewest deltas that lead from `reached` to `target`.
fn carry_on(history: &History, mut reached: Revision, target: Revision, known: &Known) -> Option<Vec<Part>> {
    let missing = RevisionRange { from: reached.next(), to: target };
    let usable = history.deltas_about(missing).iter().filter(|delta| known.is_usable(delta));
    let mut deltas = usable.filter_map(|delta| Some((delta, known.changes(delta)?))).peekable();
    let mut parts = Vec::new();
    let mut best: Option<(&Entry, RevisionRange)> = None;
    while reached < target {
        let merit = |(delta, range): &(&Entry, RevisionRange)| {
            (range.to.min(target), Reverse(delta.size_bytes), delta.level(), Reverse(delta.key.clone()))
        };
        // Sorted by their first revision, so each is looked at once on the whole way.
        while let Some(next) = deltas.next_if(|(_, range)| range.from <= reached.next()) {
            if best.as_ref().is_none_or(|best| merit(best) < merit(&next)) {
                best = Some(next);
            }
        }
        let (delta, range) = best.take().filter(|(_, range)| range.to > reached)?;
        let take = RevisionRange { from: reached.next(), to: range.to.min(target) };
        reached = take.to;
        parts.push(Part { entry: delta.clone(), take });
    }
    Some(parts)
}

/// Deltas that claim what the plan takes elsewhere: all but those that lie in one of a higher level that is taken, which
/// are what that was merged from. In an archive that had one writer there are few: what others of less bytes were merged
/// into, where those are enough.
pub(crate) fn rivals(history: &History, parts: &[Part]) -> Vec<Entry> {
    let is_rival = |delta: &&Entry| {
        let Some(range) = delta.changes() else { return false };
        let first = parts.partition_point(|part| part.take.to < range.from);
        let mut touched = parts.iter().skip(first).take_while(|part| part.take.from <= range.to).peekable();
        let is_part = touched.clone().any(|part| part.entry.key == delta.key);
        !is_part && touched.any(|part| !is_source(delta, range, &part.entry))
    };
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Vec::new() };
    let taken = RevisionRange { from: first.take.from, to: last.take.to };
    history.deltas_about(taken).iter().filter(is_rival).cloned().collect()
}

/// Whether `whole` may have been merged from `delta`, among others.
fn is_source(delta: &Entry, range: RevisionRange, whole: &Entry) -> bool {
    let is_within = |whole: RevisionRange| whole.from <= range.from && range.to <= whole.to;
    delta.level() < whole.level() && whole.changes().is_some_and(is_within)
}

/// A later full whose history goes back to `target`: the nearest, which is the likest to what was there.
fn later_full(history: &History, target: Revision, known: &Known) -> Option<RestorePlan> {
    let later = history.fulls().iter().filter(|full| known.is_usable(full) && known.last(full) > Some(target));
    let whole = later.filter(|full| known.compact(full).is_some_and(|compact| compact <= target));
    let mut plan = alone(whole.min_by_key(|full| known.last(full))?, Some(target));
    plan.remarks.push(Remark::LaterFull);
    Some(plan)
}

fn unreachable(history: &History, target: Revision, known: &Known) -> PlanError {
    let ranges = ranges(history, known);
    let Some(last) = ranges.last().map(|range| range.to) else { return PlanError::NoFull };
    // What was there once is lost, and no other history has it.
    if target > last && last_named(history, known) < Some(target) {
        return PlanError::After { target, last };
    }
    let before = ranges.iter().rev().find(|range| range.to < target);
    let perhaps = nearest_unopened_after(history, target, known);
    match before.and_then(|before| hole_after(history, &ranges, before.to, known)) {
        Some(hole) => PlanError::Hole { target, hole, perhaps },
        None => PlanError::Before { target, first: ranges.first().map(|range| range.from) },
    }
}

/// The nearest later full, if it is not known whether its history goes back far enough. Later ones go back less.
fn nearest_unopened_after(history: &History, target: Revision, known: &Known) -> Option<Key> {
    let later = history.fulls().iter().filter(|full| known.is_usable(full) && known.last(full) > Some(target));
    let nearest = later.min_by_key(|full| known.last(full))?;
    known.compact(nearest).is_none().then(|| nearest.key.clone())
}

fn alone(base: &Entry, target: Option<Revision>) -> RestorePlan {
    RestorePlan { target, base: base.clone(), deltas: Vec::new(), rivals: Vec::new(), remarks: Vec::new() }
}
