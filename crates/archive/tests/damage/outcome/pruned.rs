//! What is left of a damaged archive once it was pruned, as the program and the agent do it.
//!
//! What has to stay is told by the policy and by what is true, not by the plan: the newest full that is sound by itself,
//! and every point after it that could be brought back, whichever way. What comes before that may go.
//!
//! Where what tells of the cluster, of a lineage or of a key is damaged, that is judged after it was put back: while it is not,
//! what hangs on it cannot be read, and is not lost.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use archive::archive::Archive;
use archive::name::Name;
use archive::point::At;
use archive::prune::{Gone, Pruned};
use archive::retention::Rule;
use archive::{Entry, Layout, Policy};
use etcd_data::Revision;
use store::Store;

use super::{Case, Outcome, Rebuilt, read_all};
use crate::sound::{all, keys_in, store_of};
use crate::world::moment;

/// When everything is read again: after all that was recorded.
const VERIFIED_AT: i64 = 300;
/// When it is pruned: nothing is too young to go.
const PRUNED_AT: i64 = 10_000_000;

/// What could be brought back before.
pub(super) struct Before {
    there: BTreeSet<i64>,
    /// What of that the policy keeps.
    must_stay: BTreeSet<i64>,
}

impl Case<'_> {
    /// Prunes by what was recorded when all was sound.
    pub(super) fn prune(&self) -> Outcome {
        self.pruned(&self.store())
    }

    /// Reads everything first, and records what is found. Of what others wrote nothing can be recorded: pruning reads
    /// that by itself.
    pub(super) fn verify_and_prune(&self) -> Outcome {
        let store = self.store();
        let archive = self.open(&store)?;
        if archive.catalogue().layout != Layout::Refloat {
            return Ok("-".into());
        }
        let report = self.check(&archive, Some(moment(VERIFIED_AT)))?;
        assert!(report.not_recorded.is_none(), "{:?}", report.not_recorded);
        self.pruned(&store)
    }

    fn pruned(&self, store: &Arc<dyn Store>) -> Outcome {
        let before = self.before.get_or_init(|| self.look_before());
        let Before { there, must_stay } = before.as_ref().map_err(Clone::clone)?;
        let listed = keys_in(&**store, self.handle);
        let pruned = self.carry_out(store);
        let left = keys_in(&**store, self.handle);
        let gone = listed.difference(&left).count();
        let told = match &pruned {
            Ok(pruned) => {
                let objects = pruned.objects.iter().filter(|(_, gone)| matches!(gone, Gone::Deleted)).count();
                objects + pruned.claims
            }
            Err(_) => 0,
        };
        if told != gone {
            return Ok(format!("UNTOLD: {gone} gone, and {told} told"));
        }
        pruned?;
        let after = if gone == 0 { there.clone() } else { self.there(&self.put_back(store), there)? };
        let lost: Vec<&i64> = must_stay.difference(&after).collect();
        if !lost.is_empty() {
            return Ok(format!("LOST {lost:?}"));
        }
        Ok(format!("{gone} gone, {} of {} points left", after.len(), there.len()))
    }

    /// Plans, and does what is planned, with one full as all that is to be kept.
    fn carry_out(&self, store: &Arc<dyn Store>) -> Result<Pruned, String> {
        let archive = self.open(store)?;
        let policy = Policy { rules: vec![Rule::Number(1)], ..Policy::default() };
        let now = moment(PRUNED_AT);
        let plan = archive.plan_prune(&policy, now, self.scratch);
        let pruned = plan.and_then(|plan| archive.prune(&plan, &policy, now));
        pruned.map_err(|error| self.refused(error.kind(), &error))
    }

    fn look_before(&self) -> Result<Before, String> {
        let store = self.put_back(&self.store());
        let there = self.there(&store, &self.subject.points)?;
        let must_stay = match self.open(&store) {
            Ok(archive) => self.must_stay(&archive, &there),
            Err(_) => BTreeSet::new(),
        };
        Ok(Before { there, must_stay })
    }

    /// What is in `store`, where the damaged object is as it was if it is one that others cannot be read without.
    fn put_back(&self, store: &Arc<dyn Store>) -> Arc<dyn Store> {
        let mut objects = all(&**store, self.handle);
        let was = &self.subject.objects;
        let is_damaged = |key: &String| self.damage.objects.get(key) != was.get(key);
        let damaged = was.iter().filter(|(key, _)| is_sign(key) && is_damaged(key));
        objects.extend(damaged.map(|(key, bytes)| (key.clone(), bytes.clone())));
        store_of(&objects, self.handle)
    }

    /// Those of `points` that can be brought back. It is an error if one is brought back otherwise than it was.
    fn there(&self, store: &Arc<dyn Store>, points: &BTreeSet<i64>) -> Result<BTreeSet<i64>, String> {
        let mut there = BTreeSet::new();
        let Ok(archive) = self.open(store) else { return Ok(there) };
        for &point in points {
            let Ok(rebuilt) = self.rebuilt(&archive, &At::Revision(Revision(point)), read_all) else { continue };
            if rebuilt.revision.0 != point || !self.is_true(&rebuilt) {
                return Err("WRONG".into());
            }
            there.insert(point);
        }
        Ok(there)
    }

    /// What of `there` one full keeps: where deltas carry it on everything after it, and otherwise its own point.
    fn must_stay(&self, archive: &Archive, there: &BTreeSet<i64>) -> BTreeSet<i64> {
        let entries = || archive.catalogue().entries();
        let mut fulls: Vec<&Entry> = entries().filter(|entry| entry.is_full()).collect();
        fulls.sort_by_key(|full| Reverse(full.time()));
        let Some(begin) = fulls.into_iter().find_map(|full| self.end_alone(archive, full)) else {
            return BTreeSet::new();
        };
        let is_carried_on = entries().any(|entry| !entry.is_full());
        let stays = |point: &&i64| **point == begin || (is_carried_on && **point > begin);
        there.iter().filter(stays).copied().collect()
    }

    /// The last revision of a full, if that is brought back from it alone, as it was, and its name promises no more.
    fn end_alone(&self, archive: &Archive, full: &Entry) -> Option<i64> {
        let rebuilt = self.rebuilt(archive, &At::Name(full.key.to_string()), read_all).ok()?;
        let Rebuilt { agreed, revision, .. } = &rebuilt;
        let is_alone = agreed.plan.base.key == full.key && agreed.plan.deltas.is_empty();
        let has_all = full.to.is_none_or(|named| *revision >= named);
        (is_alone && has_all && self.is_true(&rebuilt)).then_some(revision.0)
    }
}

fn is_sign(key: &str) -> bool {
    let name = key.strip_prefix("prod/").and_then(Name::parse);
    matches!(name, Some(Name::Cluster | Name::Lineage(_) | Name::Lockbox(_)))
}
