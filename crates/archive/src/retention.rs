//! What can be deleted of an archive, and why.
//!
//! Rules say which fulls are kept; whatever any rule keeps stays, with the deltas that carry it on. Above every rule
//! stands what no policy can give up: the newest point that is proven, with all that leads to it and all that came
//! after it; what nobody has proven takes no slot from what is; and where nothing is proven, nothing is deleted.
//!
//! Deltas go before the fulls that they follow on, the last ones first, so whoever dies in between leaves shorter
//! chains and no holes. Every decision has its reason, for `prune --dry-run`.

mod display;
mod footing;
mod keeps;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use store::{Key, Retention};

use crate::catalogue::{Catalogue, History};
use crate::entry::Entry;
use crate::merge;
use crate::plan::Known;

use keeps::Keeps;
pub use rules::{Generations, Rule};

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// A full that any of these keeps is kept. Without any rule, every point is.
    pub rules: Vec<Rule>,
    /// How many of the newest proven fulls are kept in any case. At least one is.
    pub minimum: u32,
    /// Which deltas are kept besides.
    pub deltas: Deltas,
    /// Only objects whose names begin with this are subject to the rules.
    pub prefix: String,
    /// How old what cannot be used must be before it is deleted.
    pub failed_grace: SignedDuration,
    /// How long deltas stay after what they were merged into was written: restores may still be reading them.
    pub merged_grace: SignedDuration,
}

/// Which deltas are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deltas {
    /// Those that follow on a full that is kept, up to the next full.
    WithFulls,
    /// Of those, the chains whose last change is no older than this. A chain is never cut in the middle.
    For(SignedDuration),
}

/// What is known of an archive, besides what is listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ground {
    /// What was learned of its objects: those that cannot be used are in [`Known::without`].
    pub known: Known,
    /// Of those, the ones that never will be of use: damaged, or not what their place says. What was only not there when
    /// it was asked for, or is not understood, is not among them.
    pub failed: BTreeSet<Key>,
    /// Proofs that say nothing of what is there that others do not say as well.
    pub superseded: BTreeSet<Key>,
    /// The objects that are proven, to whichever level is asked for.
    pub proven: BTreeSet<Key>,
    /// What keeps objects from being deleted, where the listing does not tell.
    pub retained: BTreeMap<Key, Retention>,
}

/// What is to be deleted, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPlan {
    /// On every object that holds records: history by history, fulls before deltas.
    pub decisions: Vec<Decision>,
    /// What else goes: notes and proofs of what is no longer there.
    pub asides: Vec<Key>,
    /// How many objects are none of ours. They are left alone.
    pub strangers: usize,
    order: Vec<usize>,
}

/// What is done with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The object.
    pub entry: Entry,
    /// What is done with it.
    pub verdict: Verdict,
}

/// What is done with an object, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Vec<Reason>),
    /// It goes.
    Delete(Cause),
    /// It would go, but cannot yet.
    Blocked(Cause, Block),
}

/// Why an object stays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The newest proven point needs it.
    NewestProven,
    /// It is younger than the newest proven full, so nothing replaces it yet.
    AfterNewestProven,
    /// It is one of the newest proven fulls that are always kept.
    Minimum,
    /// This rule keeps it.
    Rule(Rule),
    /// It carries on a full that is kept.
    Chain,
    /// The policy is not about objects of its name.
    NotSubject,
    /// The policy keeps every point.
    NoRule,
}

/// Why an object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No rule keeps it.
    Expired,
    /// All of it is in another that is proven.
    Merged {
        /// In which.
        into: Key,
    },
    /// It cannot be used: it is damaged, or not what it seems.
    Failed,
}

/// Why an object cannot go yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Nothing in the archive is proven.
    NothingProven,
    /// The store keeps it until then.
    RetainedUntil(Timestamp),
    /// Somebody holds it.
    LegalHold,
    /// It could not be found, does not go with others, or is not as it was proven to be: some of it may be of use yet.
    Unsure,
    /// It is not old enough.
    Grace {
        /// When it will be.
        until: Timestamp,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            minimum: 1,
            deltas: Deltas::WithFulls,
            prefix: String::new(),
            failed_grace: SignedDuration::from_hours(7 * 24),
            merged_grace: SignedDuration::from_hours(1),
        }
    }
}

impl Policy {
    /// Gardener's `Exponential`: the newest full of every hour of today, every day of a week, every week of a month;
    /// deltas of old chains for `deltas`.
    pub fn exponential(deltas: SignedDuration) -> Self {
        Self { rules: vec![Rule::Exponential], deltas: Deltas::For(deltas), ..Self::default() }
    }

    /// Gardener's `LimitBased`: the newest `fulls`; deltas of old chains for `deltas`.
    pub fn limit_based(fulls: u32, deltas: SignedDuration) -> Self {
        Self { rules: vec![Rule::Number(fulls)], deltas: Deltas::For(deltas), ..Self::default() }
    }

    /// OpenShift's `RetentionNumber`.
    pub fn retention_number(backups: u32) -> Self {
        Self { rules: vec![Rule::Number(backups)], ..Self::default() }
    }

    /// OpenShift's `RetentionSize`, which counts in GiB. Unlike there, the newest stays however large it is.
    pub fn retention_size(size_bytes: u64) -> Self {
        Self { rules: vec![Rule::SizeBytes(size_bytes)], ..Self::default() }
    }

    /// What K3s does with the snapshots whose names begin with `base_name`.
    pub fn k3s(base_name: &str, snapshots: u32) -> Self {
        Self { rules: vec![Rule::Number(snapshots)], prefix: base_name.into(), ..Self::default() }
    }
}

impl RetentionPlan {
    /// What `policy` leaves of `catalogue` at `now`.
    pub fn choose(catalogue: &Catalogue, policy: &Policy, ground: &Ground, now: Timestamp) -> Self {
        let keeps = Keeps::choose(catalogue, policy, ground, now);
        let mut decisions = Vec::new();
        for history in &catalogue.histories {
            let merged = merged(history, policy, ground, now);
            for entry in history.fulls().iter().chain(history.deltas()) {
                let verdict = verdict(entry, &keeps, merged.get(&entry.key), policy, ground, now);
                let verdict = held_back(catalogue, entry, verdict, &keeps, ground, now);
                decisions.push(Decision { entry: entry.clone(), verdict });
            }
        }
        let order = order(&decisions);
        let asides = if keeps.has_proven { asides(catalogue, &decisions, policy, ground, now) } else { Vec::new() };
        Self { decisions, asides, strangers: catalogue.strangers.len(), order }
    }

    /// The objects to delete, in the order in which they are deleted. Whoever stops in between leaves everything
    /// that is kept restorable.
    pub fn deletions(&self) -> impl Iterator<Item = &Key> {
        let records = self.order.iter().filter_map(|at| self.decisions.get(*at));
        records.map(|decision| &decision.entry.key).chain(&self.asides)
    }

    /// The objects that stay for a reason, and not because they cannot go yet.
    pub fn kept(&self) -> impl Iterator<Item = &Key> {
        let kept = self.decisions.iter().filter(|decision| matches!(decision.verdict, Verdict::Keep(_)));
        kept.map(|decision| &decision.entry.key)
    }

    /// The objects that go once the store keeps them no longer.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &Key> {
        let awaited = |one: &&Decision| matches!(one.verdict, Verdict::Blocked(_, Block::RetainedUntil(_)));
        self.decisions.iter().filter(awaited).map(|decision| &decision.entry.key)
    }

    /// The bytes that deleting frees, without notes and proofs.
    pub fn freed_bytes(&self) -> u64 {
        let gone = self.decisions.iter().filter(|decision| decision.verdict.is_delete());
        gone.map(|decision| decision.entry.size_bytes).fold(0, u64::saturating_add)
    }
}

impl Verdict {
    fn is_delete(&self) -> bool {
        matches!(self, Self::Delete(_))
    }
}

/// Deltas that lie wholly in one that is proven and no longer new, and in which.
fn merged(history: &History, policy: &Policy, ground: &Ground, now: Timestamp) -> BTreeMap<Key, Key> {
    let stays =
        |whole: &Entry| ground.proven.contains(&whole.key) && whole.modified <= before(now, policy.merged_grace);
    let merged = merge::plan::merged(history, &ground.known, stays);
    merged.into_iter().map(|merged| (merged.entry.key, merged.into)).collect()
}

fn verdict(
    entry: &Entry,
    keeps: &Keeps,
    merged: Option<&Key>,
    policy: &Policy,
    ground: &Ground,
    now: Timestamp,
) -> Verdict {
    let reasons = keeps.reasons.get(&entry.key);
    let is_needed = |reason: &Reason| matches!(reason, Reason::NewestProven | Reason::NotSubject);
    if let Some(reasons) = reasons.filter(|reasons| reasons.iter().any(is_needed)) {
        return Verdict::Keep(reasons.clone());
    }
    if !ground.known.is_usable(entry) {
        if !ground.failed.contains(&entry.key) {
            return blocked(Cause::Failed, Block::Unsure);
        }
        let until = entry.modified.checked_add(policy.failed_grace).unwrap_or(Timestamp::MAX);
        return if until <= now {
            Verdict::Delete(Cause::Failed)
        } else {
            blocked(Cause::Failed, Block::Grace { until })
        };
    }
    match (merged, reasons) {
        (Some(into), _) => Verdict::Delete(Cause::Merged { into: into.clone() }),
        (None, Some(reasons)) => Verdict::Keep(reasons.clone()),
        (None, None) => Verdict::Delete(Cause::Expired),
    }
}

/// A deletion that is not possible yet says so.
fn held_back(
    catalogue: &Catalogue,
    entry: &Entry,
    verdict: Verdict,
    keeps: &Keeps,
    ground: &Ground,
    now: Timestamp,
) -> Verdict {
    let Verdict::Delete(cause) = verdict else { return verdict };
    if !keeps.has_proven {
        return blocked(cause, Block::NothingProven);
    }
    match kept_by_store(catalogue, &entry.key, ground, now) {
        Some(block) => blocked(cause, block),
        None => Verdict::Delete(cause),
    }
}

/// What in the store keeps an object, if anything does.
fn kept_by_store(catalogue: &Catalogue, key: &Key, ground: &Ground, now: Timestamp) -> Option<Block> {
    let retentions = [ground.retained.get(key).copied(), catalogue.retention(key)];
    let held = retentions.iter().flatten();
    if held.clone().any(|retention| retention.legal_hold) {
        return Some(Block::LegalHold);
    }
    held.filter_map(|retention| retention.until).max().filter(|until| *until > now).map(Block::RetainedUntil)
}

fn blocked(cause: Cause, block: Block) -> Verdict {
    Verdict::Blocked(cause, block)
}

/// Deltas before fulls, the last deltas first, the oldest fulls first.
fn order(decisions: &[Decision]) -> Vec<usize> {
    let gone = decisions.iter().enumerate().filter(|(_, decision)| decision.verdict.is_delete());
    let (mut fulls, mut deltas): (Vec<usize>, Vec<usize>) =
        gone.map(|(at, _)| at).partition(|at| decisions.get(*at).is_some_and(|decision| decision.entry.is_full()));
    let end = |at: &usize| decisions.get(*at).map(|decision| (decision.entry.to, decision.entry.level()));
    deltas.sort_by_key(|at| std::cmp::Reverse(end(at)));
    fulls.sort_by_key(|at| decisions.get(*at).map(|decision| decision.entry.time()));
    deltas.append(&mut fulls);
    deltas
}

/// Notes whose full goes, or has gone some time ago, and proofs that say nothing more; what goes with an entry that goes,
/// and what runs left that died some time ago.
fn asides(catalogue: &Catalogue, decisions: &[Decision], policy: &Policy, ground: &Ground, now: Timestamp) -> Vec<Key> {
    let gone = decisions.iter().filter(|decision| decision.verdict.is_delete());
    let gone: BTreeSet<&Key> = gone.map(|decision| &decision.entry.key).collect();
    let notes = catalogue.notes.iter().filter(|note| gone.contains(&note.about));
    let is_old = |modified: Timestamp| modified <= before(now, policy.failed_grace);
    let lone = catalogue.lone_notes().filter(|note| is_old(note.modified));
    let proofs = catalogue.proofs.iter().filter(|proof| ground.superseded.contains(&proof.key));
    let notes = notes.chain(lone).map(|note| note.key.clone());
    let proofs = proofs.filter(|proof| is_old(proof.modified)).map(|proof| proof.key.clone());
    let companions = catalogue.companions.iter().filter(|companion| gone.contains(&companion.of));
    let companions = companions.map(|companion| companion.key.clone());
    let left = catalogue.leftovers.iter().filter(|left| is_old(left.modified)).map(|left| left.key.clone());
    let all = notes.chain(proofs).chain(companions).chain(left);
    all.filter(|key| kept_by_store(catalogue, key, ground, now).is_none()).collect()
}

/// `span` before `now`, or the beginning of time.
fn before(now: Timestamp, span: SignedDuration) -> Timestamp {
    now.checked_sub(span).unwrap_or(Timestamp::MIN)
}
