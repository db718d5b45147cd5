//! Deleting what retention lets go.
//!
//! A plan is made of what is listed and what is proven, and what it stands on is read whole before it is believed: see
//! `ground`. Before anything goes the archive is listed again and planned again, and only what both plans delete, and nobody
//! has touched in between, is deleted: so an object that somebody wrote, took away or locked meanwhile is never decided
//! about by an old listing. Deltas that nothing replaces go one after the other, the last first; the rest goes many at a
//! time. When one cannot be deleted, what comes before it in its lineage stays.

mod ground;
mod lockboxes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_data::Kind;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use store::{Fault, Key, Retention, StoreError, Upload};

use crate::agree::Opened;
use crate::archive::{Archive, Which};
use crate::catalogue::{Aside, Catalogue};
use crate::entry::{Entry, Layout};
use crate::error::{Error, is_its_own, reason};
use crate::identity::LineageId;
use crate::retention::{Cause, Decision, Policy, RetentionPlan, Verdict};

use ground::Basis;

/// What pruning would do, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// What is decided about objects.
    pub retention: RetentionPlan,
    /// What of the archive turned out to be of no use, and why.
    pub unusable: Vec<(Key, String)>,
    /// Uploads that were begun so long ago that nobody goes on with them.
    pub uploads: Vec<Upload>,
    /// Claims that others came after long ago, the first ones first. How many of them the store lets go shows when it is tried.
    pub claims: Vec<Key>,
    /// Whether something goes where the store may refuse that: it has a policy that does not tell until when it keeps what.
    pub may_be_refused: bool,
    /// What it was made by.
    basis: Basis,
    /// The folder for scratch files.
    scratch: PathBuf,
}

/// What became of something that was to be deleted.
#[derive(Debug)]
pub enum Gone {
    /// It is gone.
    Deleted,
    /// It stays: it, or what the plan rests on, was changed since the plan was made.
    Changed,
    /// It stays: something that follows on it could not be deleted.
    HeldUp,
    /// It could not be deleted.
    Failed(StoreError),
}

/// What pruning did.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Object by object, in the order of the plan.
    pub objects: Vec<(Key, Gone)>,
    /// Uploads that were given up, and those that could not be.
    pub uploads: Vec<(Upload, Result<(), StoreError>)>,
    /// What is kept from being deleted for longer now, or could not be.
    pub extended: Vec<Extended>,
    /// How many claims were deleted.
    pub claims: usize,
    /// Why one could not be, if not because the store keeps it.
    pub claims_failed: Option<StoreError>,
    /// Why it could not be recorded what is no longer as it was proven to be, if it could not.
    pub unrecorded: Option<Error>,
}

/// An object that is kept from being deleted for longer, or could not be.
pub type Extended = (Key, Result<(), StoreError>);

/// An object that is to be kept from being deleted for longer, and how, or why that cannot be told.
pub type DueExtension = (Key, Result<Retention, StoreError>);

/// How many objects are asked for at once.
const HEADS_AT_ONCE: usize = 16;
/// How many objects are deleted with one request, at the most.
const AT_ONCE: usize = 500;
/// So long after it was put a claim may go, unless it is the last. It says nothing then, and nobody relies on it.
const OLD_CLAIM: SignedDuration = SignedDuration::from_hours(24);

impl Archive {
    /// What pruning by `policy` would do. Of our own archives what is recorded counts as proven, and what the plan stands on
    /// is read again unless somebody has just done that. For other systems' nothing can be recorded, so what is to stay is
    /// read and compared now, in the folder `scratch`.
    pub fn plan_prune(&self, policy: &Policy, now: Timestamp, scratch: &Path) -> Result<PrunePlan, Error> {
        if let Some((key, error)) = self.unread.first() {
            return Err(Error::Undecided { key: key.clone(), why: reason(error) });
        }
        let mut basis = match self.catalogue().layout {
            Layout::Refloat => self.recorded_basis(now, scratch)?,
            _ => self.read_basis(policy, now, scratch)?,
        };
        basis.ground.retained = self.remembered.retained(now);
        let retention = self.settle(policy, &mut basis, now)?;
        self.remembered.note_retained(&basis.ground.retained);
        let uploads = self.left_uploads(policy, now)?;
        let may_be_refused =
            retention.deletions().next().is_some() && self.runtime.block_on(self.store.keeps_untold())?;
        let unusable = basis.unusable.clone();
        let claims = self.old_claims(now);
        Ok(PrunePlan { retention, unusable, uploads, claims, may_be_refused, basis, scratch: scratch.into() })
    }

    /// What keeps `keys` from being deleted, where the store knows such a thing.
    ///
    /// It is asked beforehand, though Google and Azure would refuse the deletion, and Google with the time: S3, where versions
    /// are kept, deletes nothing and says that it has, and what is kept would be out of sight behind a delete marker. And a plan
    /// is to tell what goes.
    fn retained(&self, keys: &[Key]) -> Result<BTreeMap<Key, Retention>, Error> {
        if !self.store.abilities().retention {
            return Ok(BTreeMap::new());
        }
        let asking = keys.iter().map(async |key| match self.store.retention(key).await {
            Ok(retention) => Ok(retention.map(|retention| (key.clone(), retention))),
            Err(StoreError { fault: Fault::NotFound, .. }) => Ok(None),
            Err(error) => Err(Error::from(error)),
        });
        let asking = stream::iter(asking).buffer_unordered(HEADS_AT_ONCE);
        let found: Vec<Option<(Key, Retention)>> = self.runtime.block_on(asking.try_collect())?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Uploads in the folder of this archive that were begun long ago. Of those that do not tell when, nobody can say.
    fn left_uploads(&self, policy: &Policy, now: Timestamp) -> Result<Vec<Upload>, Error> {
        if !self.store.abilities().uploads {
            return Ok(Vec::new());
        }
        let within = self.within();
        let mut uploads = self.runtime.block_on(self.store.uploads(&within))?;
        let end = now.checked_sub(policy.failed_grace).unwrap_or(Timestamp::MIN);
        uploads.retain(|upload| upload.begun.is_some_and(|begun| begun <= end));
        Ok(uploads)
    }

    /// Claims that are not the last, and old. The first number is none: it stays for good.
    fn old_claims(&self, now: Timestamp) -> Vec<Key> {
        let claims = &self.catalogue().claims;
        let last = claims.iter().map(|claim| claim.about).max().unwrap_or_default();
        let is_old =
            |claim: &&Aside<u64>| (1..last).contains(&claim.about) && now.duration_since(claim.modified) > OLD_CLAIM;
        let old: BTreeMap<u64, Key> = claims.iter().filter(is_old).map(|old| (old.about, old.key.clone())).collect();
        old.into_values().collect()
    }

    /// Deletes them until the store keeps one: it keeps those after that one, too. More and more at a time, as it may keep nearly all.
    fn delete_claims(&self, claims: &[Key], pruned: &mut Pruned) {
        let (mut rest, mut count) = (claims, 1);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(count.min(rest.len()));
            let results = self.runtime.block_on(self.store.delete(now));
            pruned.claims += results.iter().filter(|result| result.is_ok()).count();
            if let Some(error) = results.into_iter().find_map(Result::err) {
                let is_kept = matches!(error.fault, Fault::Retained { .. });
                pruned.claims_failed = Some(error).filter(|_| !is_kept);
                return;
            }
            (rest, count) = (later, AT_ONCE.min(2 * count));
        }
    }

    /// Carries out `plan`, which was made by `policy`.
    pub fn prune(&self, plan: &PrunePlan, policy: &Policy, now: Timestamp) -> Result<Pruned, Error> {
        // First what speaks against something: whoever goes by proofs has to know.
        let unrecorded = self.record_decay(&plan.basis, now).err();
        let mut pruned = Pruned { unrecorded, ..Pruned::default() };
        if plan.retention.deletions().next().is_some() {
            let still = self.still_doomed(plan, policy, now)?;
            pruned.objects = self.delete_in_order(plan, &still);
        }
        for upload in &plan.uploads {
            let given_up = self.runtime.block_on(self.store.abort(upload));
            pruned.uploads.push((upload.clone(), given_up));
        }
        self.delete_claims(&plan.claims, &mut pruned);
        Ok(pruned)
    }

    /// What a fresh look at the archive deletes as well, and nobody has touched since the plan was made.
    fn still_doomed(&self, plan: &PrunePlan, policy: &Policy, now: Timestamp) -> Result<BTreeSet<Key>, Error> {
        let which = Which { cluster: Some(self.folder().to_owned()), layout: Some(self.catalogue().layout) };
        let fresh = Self::open(Arc::clone(&self.store), self.runtime.clone(), &which, Arc::clone(&self.keys))?;
        let (then, there) = (marks(self.catalogue()), marks(fresh.catalogue()));
        let is_untouched = |key: &&Key| then.get(key) == there.get(key);
        let mut basis = plan.basis.clone();
        basis.whole.retain(|key| is_untouched(&key));
        basis.ground.failed = fresh.failed_again(plan)?;
        if !plan.retention.asides.is_empty() {
            // An object may have come since, of which a proof says something after all.
            (_, basis.ground.superseded) = fresh.proven_and_superseded()?;
        }
        let again = fresh.settle(policy, &mut basis, now)?;
        Ok(again.deletions().filter(is_untouched).cloned().collect())
    }

    /// What the plan deletes because it is of no use, and is found so again: a store may have answered wrongly once.
    fn failed_again(&self, plan: &PrunePlan) -> Result<BTreeSet<Key>, Error> {
        let is_failed = |decision: &&Decision| decision.verdict == Verdict::Delete(Cause::Failed);
        let doomed: Vec<&Decision> = plan.retention.decisions.iter().filter(is_failed).collect();
        if doomed.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut failed = match self.catalogue().layout {
            Layout::Refloat => self.heard()?.failed,
            _ => BTreeSet::new(),
        };
        for Decision { entry, .. } in doomed {
            match self.require_readable(entry, &plan.scratch) {
                Err(error) if error.kind() == Kind::Corrupt => drop(failed.insert(entry.key.clone())),
                Err(error) if !is_its_own(error.kind()) => return Err(error),
                _ => {}
            }
        }
        Ok(failed)
    }

    /// Reads of an object what whoever plans with it reads.
    fn require_readable(&self, entry: &Entry, scratch: &Path) -> Result<(), Error> {
        if entry.layout != Layout::Refloat {
            return self.require_whole(entry, scratch);
        }
        let opened = self.open_entries(std::iter::once(entry), scratch)?;
        let Some(Opened::Ours { object, .. }) = opened.get(&entry.key) else { return Ok(()) };
        let read = object.closing().and_then(|_| object.tables());
        read.map(drop).map_err(|source| Error::Object { key: entry.key.clone(), source })
    }

    /// Deletes in the order of the plan what is in `still`.
    fn delete_in_order(&self, plan: &PrunePlan, still: &BTreeSet<Key>) -> Vec<(Key, Gone)> {
        let follows = follows(self.catalogue());
        let (mut told, mut stays, mut group) = (Vec::new(), Stays::default(), Group::default());
        for next in all_doomed(&plan.retention, &follows) {
            if group.ends_before(&next) {
                self.delete_group(&mut group, &mut told, &mut stays);
                group.is_aside = next.is_aside;
            }
            if !still.contains(next.key) {
                stays.note(&next);
                told.push((next.key.clone(), Gone::Changed));
            } else if stays.holds_up(&next) {
                told.push((next.key.clone(), Gone::HeldUp));
            } else {
                group.add(next);
            }
        }
        self.delete_group(&mut group, &mut told, &mut stays);
        told
    }

    fn delete_group(&self, group: &mut Group<'_>, told: &mut Vec<(Key, Gone)>, stays: &mut Stays) {
        let Group { all, .. } = std::mem::take(group);
        if all.is_empty() {
            return;
        }
        let keys: Vec<Key> = all.iter().map(|doomed| doomed.key.clone()).collect();
        let results = self.runtime.block_on(self.store.delete(&keys));
        for (doomed, result) in all.iter().zip(results) {
            let gone = match result {
                Ok(()) => Gone::Deleted,
                Err(error) => {
                    stays.note(doomed);
                    Gone::Failed(error)
                }
            };
            told.push((doomed.key.clone(), gone));
        }
    }

    /// The same, after everything that stays was kept from being deleted until `until`. Where something could not be, nothing
    /// is deleted.
    pub fn prune_keeping(
        &self,
        plan: &PrunePlan,
        policy: &Policy,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Pruned, Error> {
        let extended = self.extend(self.due_extensions(plan, until));
        let pruned = match extended.iter().all(|(_, kept)| kept.is_ok()) {
            true => self.prune(plan, policy, now)?,
            false => Pruned::default(),
        };
        Ok(Pruned { extended, ..pruned })
    }

    /// What has to be kept from being deleted for longer, so that all that `plan` keeps is until `until`. What goes as soon as
    /// the store lets it is left to that: kept for longer each time, it would never go.
    pub fn due_extensions(&self, plan: &PrunePlan, until: Timestamp) -> Vec<DueExtension> {
        let goes: BTreeSet<&Key> = plan.retention.deletions().chain(plan.retention.awaited()).collect();
        let entries = self.catalogue().entries().map(|entry| &entry.key);
        let stays: BTreeSet<&Key> = entries.filter(|key| !goes.contains(key)).collect();
        // Without these nothing can be read: a lockbox has the only copy of its key.
        let signs = self.catalogue().signs.iter().map(|sign| &sign.key);
        let beside = follows(self.catalogue()).into_iter().filter(|(_, of)| stays.contains(of)).map(|(key, _)| key);
        let kept: Vec<&Key> = stays.iter().copied().chain(signs).chain(beside).collect();
        let asking = kept.into_iter().map(async |key| Some((key.clone(), self.due_extension(key, until).await?)));
        let asking = stream::iter(asking).buffered(HEADS_AT_ONCE);
        let due: Vec<Option<DueExtension>> = self.runtime.block_on(asking.collect());
        due.into_iter().flatten().collect()
    }

    async fn due_extension(&self, key: &Key, until: Timestamp) -> Option<Result<Retention, StoreError>> {
        match self.store.retention(key).await.map(Option::unwrap_or_default) {
            Ok(old) if old.until.is_some_and(|old| old >= until) => None,
            told => Some(told.map(|old| Retention { until: Some(until), ..old })),
        }
    }

    fn extend(&self, due: Vec<DueExtension>) -> Vec<Extended> {
        let extending = due.into_iter().map(async |(key, retention)| {
            let kept = match retention {
                Ok(retention) => self.store.retain(&key, retention).await,
                Err(error) => Err(error),
            };
            (key, kept)
        });
        self.runtime.block_on(stream::iter(extending).buffered(HEADS_AT_ONCE).collect())
    }
}

/// A lineage whose deltas nothing replaces, so that their order matters.
type Chain = Option<LineageId>;

/// Something that is to be deleted.
struct Doomed<'p> {
    key: &'p Key,
    /// The object that it goes with: itself, or the one that it lies beside.
    of: &'p Key,
    /// The chain that it is of, if nothing replaces it.
    chain: Option<Chain>,
    /// The same, if it is a delta of it.
    link: Option<Chain>,
    is_aside: bool,
}

/// What `plan` deletes, in its order. `follows` tells what goes with what.
fn all_doomed<'p>(plan: &'p RetentionPlan, follows: &BTreeMap<&'p Key, &'p Key>) -> Vec<Doomed<'p>> {
    let decisions: BTreeMap<&Key, &Decision> = plan.decisions.iter().map(|one| (&one.entry.key, one)).collect();
    let doomed = |key: &'p Key| {
        let decision = decisions.get(key).copied();
        let chained = decision.filter(|one| one.verdict == Verdict::Delete(Cause::Expired));
        let chain = chained.map(|one| one.entry.lineage.clone());
        let link = chain.clone().filter(|_| chained.is_some_and(|one| !one.entry.is_full()));
        let of = follows.get(key).copied().unwrap_or(key);
        Doomed { key, of, chain, link, is_aside: decision.is_none() }
    };
    plan.deletions().map(doomed).collect()
}

/// What is deleted with one request.
#[derive(Default)]
struct Group<'p> {
    all: Vec<Doomed<'p>>,
    /// The chains of which a link is among them.
    links: BTreeSet<Chain>,
    is_aside: bool,
}

impl<'p> Group<'p> {
    /// Whether it is deleted before anything becomes of `next`: deltas of one lineage that nothing replaces go one by one.
    fn ends_before(&self, next: &Doomed<'_>) -> bool {
        let is_next_link = next.link.as_ref().is_some_and(|link| self.links.contains(link));
        self.all.len() == AT_ONCE || is_next_link || next.is_aside != self.is_aside
    }

    fn add(&mut self, next: Doomed<'p>) {
        self.links.extend(next.link.clone());
        self.all.push(next);
    }
}

/// What could not be deleted.
#[derive(Default)]
struct Stays {
    keys: BTreeSet<Key>,
    chains: BTreeSet<Chain>,
}

impl Stays {
    fn note(&mut self, doomed: &Doomed<'_>) {
        self.keys.insert(doomed.of.clone());
        self.chains.extend(doomed.link.clone());
    }

    /// Whether it goes with something that stays, or comes before it.
    fn holds_up(&self, doomed: &Doomed<'_>) -> bool {
        self.keys.contains(doomed.of) || doomed.chain.as_ref().is_some_and(|chain| self.chains.contains(chain))
    }
}

/// What tells whether an object was touched: when it was written, and its size.
fn marks(catalogue: &Catalogue) -> BTreeMap<&Key, (Timestamp, u64)> {
    let entries = catalogue.entries().map(|entry| (&entry.key, (entry.modified, entry.size_bytes)));
    let notes = catalogue.notes.iter().map(|note| (&note.key, (note.modified, note.size_bytes)));
    let proofs = catalogue.proofs.iter().map(|proof| (&proof.key, (proof.modified, proof.size_bytes)));
    let left = catalogue.leftovers.iter().map(|left| (&left.key, (left.modified, left.size_bytes)));
    let companions = catalogue.companions.iter().map(|one| (&one.key, (Timestamp::MIN, one.size_bytes)));
    entries.chain(notes).chain(proofs).chain(left).chain(companions).collect()
}

/// The objects that notes and companions go with.
fn follows(catalogue: &Catalogue) -> BTreeMap<&Key, &Key> {
    let notes = catalogue.notes.iter().map(|note| (&note.key, &note.about));
    notes.chain(catalogue.companions.iter().map(|companion| (&companion.key, &companion.of))).collect()
}
