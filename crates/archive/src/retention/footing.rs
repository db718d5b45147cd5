//! What a plan stands on: what has to be as it was written, lest a point be lost with what goes.

use std::collections::BTreeSet;

use store::Key;

use super::{Cause, Decision, Reason, RetentionPlan, Verdict};
use crate::entry::Entry;
use crate::identity::LineageId;

impl RetentionPlan {
    /// The objects by whose proofs it is as it is, each once: those that it stands on, and those that the newest proven
    /// point needs, whatever goes.
    pub(crate) fn decisive(&self, proven: &BTreeSet<Key>) -> impl Iterator<Item = &Entry> {
        let footing: BTreeSet<&Key> = self.footing(proven).map(|entry| &entry.key).collect();
        let is_decisive =
            move |one: &&Decision| one.verdict.is_kept_as(&Reason::NewestProven) || footing.contains(&one.entry.key);
        self.decisions.iter().filter(is_decisive).map(|decision| &decision.entry)
    }

    /// The objects that it stands on, each once: of what was merged, what it was merged into; and where something goes because
    /// no rule keeps it, all that leads to the newest proven point, and the next full of `proven` that stays after each
    /// full that goes. What cannot be used goes without anything in its place.
    pub(crate) fn footing(&self, proven: &BTreeSet<Key>) -> impl Iterator<Item = &Entry> {
        let decisions = || self.decisions.iter();
        let mut keys: BTreeSet<&Key> = decisions().filter_map(|decision| decision.verdict.merged_into()).collect();
        if decisions().any(|decision| decision.verdict == Verdict::Delete(Cause::Expired)) {
            let needed = decisions().filter(|decision| decision.verdict.is_kept_as(&Reason::NewestProven));
            keys.extend(needed.map(|decision| &decision.entry.key));
            keys.extend(self.successors(proven));
        }
        // What goes as well, or would, needs not be read.
        let stays = self.decisions.iter().filter(|decision| matches!(decision.verdict, Verdict::Keep(_)));
        stays.map(|decision| &decision.entry).filter(move |entry| keys.contains(&entry.key))
    }

    /// Of each full that no rule keeps, the next one of its history that is proven and stays: from there on, that is what
    /// points begin with which could begin with the one that goes as well.
    fn successors(&self, proven: &BTreeSet<Key>) -> Vec<&Key> {
        let mut successors = Vec::new();
        let mut of: Option<&Option<LineageId>> = None;
        for Decision { entry, verdict } in self.decisions.iter().filter(|decision| decision.entry.is_full()) {
            match verdict {
                Verdict::Delete(Cause::Expired) => of = Some(&entry.lineage),
                Verdict::Keep(_) if of == Some(&entry.lineage) && proven.contains(&entry.key) => {
                    successors.push(&entry.key);
                    of = None;
                }
                _ => {}
            }
        }
        successors
    }
}

impl Verdict {
    fn merged_into(&self) -> Option<&Key> {
        match self {
            Self::Delete(Cause::Merged { into }) => Some(into),
            _ => None,
        }
    }

    fn is_kept_as(&self, reason: &Reason) -> bool {
        matches!(self, Self::Keep(reasons) if reasons.contains(reason))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::retention::{Ground, Policy, Rule};
    use crate::sketch::{catalogue, key, moment, sketched};

    #[track_caller]
    fn check(archive: &str, rules: &[Rule], unproven: &[&str], expected: &str) {
        let (archive, unproven) = (catalogue(archive), unproven.iter().map(|object| key(0, object)));
        let unproven: BTreeSet<Key> = unproven.collect();
        let keys = archive.entries().map(|entry| entry.key.clone());
        let ground = Ground { proven: keys.filter(|key| !unproven.contains(key)).collect(), ..Ground::default() };
        let policy = Policy { rules: rules.to_vec(), merged_grace: SignedDuration::ZERO, ..Policy::default() };
        let plan = RetentionPlan::choose(&archive, &policy, &ground, moment(500));
        let footing: Vec<String> = plan.footing(&ground.proven).map(sketched).collect();
        assert_eq!(footing.join(" "), expected, "{plan}");
    }

    const FOUR: &str = "0-100 101-200 0-200 201-300 0-300 301-400 0-400 401-450";

    #[test]
    fn what_goes_because_no_rule_keeps_it_stands_on_what_is_left() {
        check(FOUR, &[Rule::Number(1)], &[], "0-400 401-450");
        check(FOUR, &[Rule::Number(3)], &[], "0-200 0-400 401-450");
        check(FOUR, &[Rule::Number(2)], &["0-300"], "0-200 0-400 401-450");
        check(FOUR, &[Rule::Window(SignedDuration::from_secs(150))], &[], "0-300 0-400 401-450");
    }

    #[test]
    fn what_was_merged_stands_on_what_it_was_merged_into() {
        let merged = "0-100 101-150 151-200 1:101-200 201-250";
        check(merged, &[], &[], "1:101-200");
        check(merged, &[], &["1:101-200"], "");
    }

    #[test]
    fn where_nothing_goes_nothing_has_to_be_read() {
        check(FOUR, &[], &[], "");
        check(FOUR, &[Rule::Number(4)], &[], "");
    }
}
