//! What is kept, and why: the newest point that is proven with all that leads to it, what a rule names, and what carries that on.

use std::collections::BTreeMap;

use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use store::Key;

use super::{Deltas, Ground, Policy, Reason, Rule, before};
use crate::catalogue::{Catalogue, History};
use crate::entry::Entry;
use crate::layout::Beside;
use crate::plan::{RestorePlan, Wanted};

/// What is kept, by key, and why.
pub(super) struct Keeps {
    pub(super) reasons: BTreeMap<Key, Vec<Reason>>,
    pub(super) has_proven: bool,
}

impl Keeps {
    pub(super) fn choose(catalogue: &Catalogue, policy: &Policy, ground: &Ground, now: Timestamp) -> Self {
        let mut keeps = Self { reasons: BTreeMap::new(), has_proven: false };
        keeps.protect_newest(catalogue, ground);
        keeps.apply_rules(catalogue, policy, ground, now);
        for history in &catalogue.histories {
            keeps.carry_on(history, policy, ground, now);
        }
        keeps
    }

    fn add(&mut self, entry: &Entry, reason: Reason) {
        let reasons = self.reasons.entry(entry.key.clone()).or_default();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// The newest point that is proven, what leads to it, and everything after the full that it begins with.
    fn protect_newest(&mut self, catalogue: &Catalogue, ground: &Ground) {
        let unproven = catalogue.entries().filter(|entry| !ground.proven.contains(&entry.key));
        let mut known = ground.known.clone();
        known.without.extend(unproven.map(|entry| entry.key.clone()));
        let Ok(plan) = RestorePlan::choose(catalogue, &Wanted::default(), &known) else { return };
        self.has_proven = true;
        plan.objects().for_each(|entry| self.add(entry, Reason::NewestProven));
        let base = ground.known.last(&plan.base);
        for history in catalogue.histories.iter().filter(|history| history.lineage >= plan.base.lineage) {
            let is_newer = history.lineage > plan.base.lineage;
            let after = |entry: &&Entry| {
                let end = if entry.is_full() { ground.known.last(entry) } else { entry.to };
                // Where names tell no revisions, the order is that of time.
                is_newer || if end.is_some() && base.is_some() { end > base } else { entry.time() > plan.base.time() }
            };
            let usable = history.fulls().iter().chain(history.deltas()).filter(|entry| ground.known.is_usable(entry));
            usable.filter(after).for_each(|entry| self.add(entry, Reason::AfterNewestProven));
        }
    }

    fn apply_rules(&mut self, catalogue: &Catalogue, policy: &Policy, ground: &Ground, now: Timestamp) {
        let is_subject = |entry: &&Entry| entry.name.starts_with(&policy.prefix);
        catalogue.entries().filter(|entry| !is_subject(entry)).for_each(|entry| self.add(entry, Reason::NotSubject));
        if policy.rules.is_empty() {
            catalogue.entries().for_each(|entry| self.add(entry, Reason::NoRule));
        }
        let all = catalogue.histories.iter().flat_map(|history| history.fulls());
        let usable = all.filter(is_subject).filter(|full| ground.known.is_usable(full));
        let mut fulls: Vec<&Entry> = usable.collect();
        fulls.sort_by(|a, b| (b.time(), &b.name).cmp(&(a.time(), &a.name)));
        let proven: Vec<&Entry> = fulls.iter().filter(|full| ground.proven.contains(&full.key)).copied().collect();

        let sizes = sizes(catalogue);
        let minimum = policy.minimum.max(1) as usize;
        proven.iter().take(minimum).for_each(|full| self.add(full, Reason::Minimum));
        for rule in &policy.rules {
            // Once among all, and once among those that are proven: what is not takes no slot from what is.
            for full in rule.keeps(&fulls, &sizes, now).into_iter().chain(rule.keeps(&proven, &sizes, now)) {
                self.add(full, Reason::Rule(rule.clone()));
            }
            if let Rule::Window(span) = rule {
                for kept in within_window(catalogue, ground, *span, now) {
                    self.add(kept, Reason::Rule(rule.clone()));
                }
            }
        }
    }

    /// The deltas that carry on what is kept.
    fn carry_on(&mut self, history: &History, policy: &Policy, ground: &Ground, now: Timestamp) {
        let mut fulls: Vec<(Revision, &Entry)> = Vec::new();
        let usable = history.fulls().iter().filter(|full| ground.known.is_usable(full));
        fulls.extend(usable.filter_map(|full| Some((ground.known.last(full)?, full))));
        fulls.sort_by_key(|(last, _)| *last);
        let youngest = youngest_of_chains(history, &fulls);
        for delta in history.deltas() {
            let carried = carried(&fulls, delta);
            let mut kept = carried.clone().filter(|at| fulls.get(*at).is_some_and(|(_, full)| self.is_kept(full)));
            let is_young = |at: usize| match policy.deltas {
                Deltas::WithFulls => true,
                Deltas::For(span) => youngest.get(&at).is_some_and(|time| *time >= before(now, span)),
            };
            if kept.any(is_young) {
                self.add(delta, Reason::Chain);
            }
        }
    }

    fn is_kept(&self, entry: &Entry) -> bool {
        self.reasons.contains_key(&entry.key)
    }
}

/// The bytes of what goes with each entry and lies beside it.
fn sizes(catalogue: &Catalogue) -> BTreeMap<&Key, u64> {
    let mut sizes: BTreeMap<&Key, u64> = BTreeMap::new();
    // Parts that a store keeps are what the object was put together from: it has their bytes once more.
    for companion in catalogue.companions.iter().filter(|companion| companion.what != Beside::Part) {
        let size = sizes.entry(&companion.of).or_default();
        *size = size.saturating_add(companion.size_bytes);
    }
    sizes
}

/// The fulls, by their place, that a delta carries on: the last one before it, and those in the middle of it.
fn carried(fulls: &[(Revision, &Entry)], delta: &Entry) -> std::ops::Range<usize> {
    let Some(range) = delta.changes() else { return 0..0 };
    let first = fulls.partition_point(|(last, _)| last.next() < range.from);
    let end = fulls.partition_point(|(last, _)| *last < range.to);
    let begins_at_one = fulls.get(first).is_some_and(|(last, _)| last.next() == range.from);
    (if begins_at_one { first } else { first.saturating_sub(1) })..end
}

/// When the last change came that carries a full on, by the place of the full.
fn youngest_of_chains(history: &History, fulls: &[(Revision, &Entry)]) -> BTreeMap<usize, Timestamp> {
    let mut youngest: BTreeMap<usize, Timestamp> = BTreeMap::new();
    for delta in history.deltas() {
        for at in carried(fulls, delta) {
            let time = youngest.entry(at).or_insert(delta.time());
            *time = delta.time().max(*time);
        }
    }
    youngest
}

/// What every moment of the last `span` needs: in each history that was going on in it, the last full before it and
/// everything after that.
fn within_window<'c>(
    catalogue: &'c Catalogue,
    ground: &Ground,
    span: SignedDuration,
    now: Timestamp,
) -> Vec<&'c Entry> {
    let start = before(now, span);
    let mut kept = Vec::new();
    let begins = |history: &History| history.fulls().iter().map(Entry::time).min();
    for (at, history) in catalogue.histories.iter().enumerate() {
        let next_begins = catalogue.histories.iter().skip(at + 1).filter_map(begins).min();
        let all = || history.fulls().iter().chain(history.deltas());
        let is_over = next_begins.is_some_and(|next| next <= start) && all().all(|entry| entry.time() <= start);
        if is_over {
            continue;
        }
        let earlier = history.fulls().iter().filter(|full| full.time() <= start && ground.known.is_usable(full));
        let order = |full: &&Entry| (ground.known.last(full), full.time());
        let base = earlier.clone().filter(|full| ground.proven.contains(&full.key)).max_by_key(order);
        let base = base.or_else(|| earlier.max_by_key(order)).map(|full| order(&full));
        let is_after = |entry: &Entry| match base {
            None => true,
            Some((Some(last), _)) => entry.to > Some(last) || (entry.is_full() && entry.to == Some(last)),
            Some((None, time)) => entry.time() >= time,
        };
        kept.extend(all().filter(|entry| ground.known.is_usable(entry) && is_after(entry)));
    }
    kept
}
