//! What a plan of pruning is made by, and whether that is still so.
//!
//! A proof tells that an object was as it was written when somebody read it. Bytes decay, and what is at the end of an
//! object, which tells whether it is the one that the proof means, may be as it was. So whatever a plan stands on is read
//! whole before anything goes for it, each object at most once: the newest proven full and what leads from there to the
//! newest point, what deltas were merged into, and what comes next after a full that no rule keeps. What turns out to be
//! otherwise is done without, and it is planned anew.
//!
//! What somebody read whole within the last day, as a proof tells, is not read again: an agent reads what is new within
//! minutes, and prunes each hour. So what decays within that day is not seen before the day is over. Where nothing goes,
//! nothing is read.
//!
//! Of fulls, of what the newest proven point needs, and of what the plan stands on, the ends are asked for: they tell whether
//! that is still what was proven. What other deltas are proven to be decides nothing, so of those it is enough that nobody has
//! written them since, as far as the listing tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use etcd_data::Kind;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use store::{Fault, Key, StoreError};

use super::lockboxes::Lost;
use crate::archive::Archive;
use crate::copy::sending::{Hashed, hashed};
use crate::entry::{Entry, Form};
use crate::error::{Error, ObjectError, is_its_own, kind_of, reason};
use crate::headers::Heard;
use crate::identity::LineageId;
use crate::name::FullForm;
use crate::plan::{Known, Wanted};
use crate::point::At;
use crate::proof::proven::Presumed;
use crate::proof::{Level, ObjectDigest, Refutation};
use crate::retention::{Ground, Policy, RetentionPlan, Verdict};

/// For how long what was read whole counts as it was. A time that is still to come is that of a clock that goes wrong, and
/// counts for nothing.
const FRESH: SignedDuration = SignedDuration::from_hours(24);
/// How many objects are read whole at once. Of each, a few pieces are in memory.
const READ_AT_ONCE: usize = 2;

/// What a plan is made by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Basis {
    /// What is known and proven.
    pub(super) ground: Ground,
    /// What turned out to be of no use, and why.
    pub(super) unusable: Vec<(Key, String)>,
    /// Those of what is proven of which all was read, now or within [`FRESH`].
    pub(super) whole: BTreeSet<Key>,
    /// By which digest something is proven. Of other systems' objects nothing is recorded.
    digests: BTreeMap<Key, ObjectDigest>,
    /// Those of what is proven whose ends were not asked for.
    presumed: BTreeSet<Key>,
    /// What is no longer as it was proven to be.
    decayed: Vec<Entry>,
}

/// What stands in the way of the newest point.
struct InTheWay {
    unusable: Vec<(Key, String)>,
    damaged: BTreeSet<Key>,
}

impl Archive {
    /// What is recorded as proven of objects, as far as they are still what a restore takes: the bytes of a writer who
    /// had been replaced are proven as well as any.
    pub(super) fn recorded_basis(&self, now: Timestamp, scratch: &Path) -> Result<Basis, Error> {
        let heard = self.heard()?;
        if let Some((key, error)) = heard.newer.first() {
            return Err(Error::Undecided { key: key.clone(), why: reason(error) });
        }
        let InTheWay { unusable, damaged } = self.look_at_latest(&heard, scratch)?;
        let Heard { mut known, mut failed, doubtful, .. } = heard;
        failed.extend(damaged);
        known.without.extend(doubtful);
        known.without.extend(unusable.iter().map(|(key, _)| key.clone()));
        let mut basis = Basis { unusable, ..Basis::default() };
        let (recorded, superseded) = self.proven_and_superseded()?;
        let Presumed { objects, unasked } = self.presumed_proven(&recorded, Level::Sealed)?;
        for (key, item) in objects.into_iter().filter(|(key, _)| !known.without.contains(key)) {
            let read = recorded.proven.last_read(&item.object, item.digest);
            if read.is_some_and(|read| read <= now && now.duration_since(read) <= FRESH) {
                basis.whole.insert(key.clone());
            }
            basis.digests.insert(key, item.digest);
        }
        basis.presumed = unasked.into_iter().filter(|key| basis.digests.contains_key(key)).collect();
        // Rules compare fulls with each other, so one that is not what was proven would change what becomes of others.
        let fulls = self.catalogue().entries().filter(|entry| entry.is_full());
        let fulls: Vec<Entry> = fulls.filter(|full| basis.presumed.contains(&full.key)).cloned().collect();
        self.ask_ends(&fulls, &mut basis)?;
        let proven = basis.digests.keys().cloned().collect();
        basis.ground = Ground { known, failed, superseded, proven, ..Ground::default() };
        Ok(basis)
    }

    /// Opens the newest point, and tells what had to be gone around. What claims an epoch that nobody had, and what lies in
    /// lockboxes that are of no use, takes no part in that.
    fn look_at_latest(&self, heard: &Heard, scratch: &Path) -> Result<InTheWay, Error> {
        let mut lost = self.lost_lockboxes(&heard.locked)?;
        loop {
            let set_aside: Vec<_> = heard.overreaching.iter().cloned().chain(locked_away(heard, &lost)).collect();
            let error = match self.agree_without(&Wanted::default(), &At::Latest, scratch, set_aside.clone()) {
                Ok(agreed) => return Ok(InTheWay { unusable: agreed.set_aside, damaged: agreed.damaged }),
                Err(error) => error,
            };
            let unusable = match error {
                // Where nothing can be restored, nothing is deleted; but if a lockbox is why, that has to be told.
                Error::Plan(_) => set_aside,
                Error::NothingLeft { set_aside, .. } => set_aside.into_vec(),
                Error::Object { source: ObjectError::NoKey { .. }, .. } => {
                    let known = lost.len();
                    lost.extend(self.tampered_lockboxes(&heard.locked));
                    if lost.len() > known {
                        continue;
                    }
                    // What is encrypted can be deleted without being read, by whoever has no key to it.
                    return Ok(InTheWay { unusable: set_aside, damaged: BTreeSet::new() });
                }
                error => return Err(error),
            };
            self.require_lockboxes(&lost)?;
            return Ok(InTheWay { unusable, damaged: BTreeSet::new() });
        }
    }

    /// Reads what would stay, and does without what is of no use, until all that stays is as it was written.
    pub(super) fn read_basis(&self, policy: &Policy, now: Timestamp, scratch: &Path) -> Result<Basis, Error> {
        let (mut known, mut unusable, mut failed) = (Known::default(), Vec::new(), BTreeSet::new());
        let mut whole: BTreeSet<Key> = BTreeSet::new();
        loop {
            let usable = self.catalogue().entries().map(|entry| &entry.key).filter(|key| !known.without.contains(*key));
            let hoped = Ground { proven: usable.cloned().collect(), known: known.clone(), ..Ground::default() };
            let plan = RetentionPlan::choose(self.catalogue(), policy, &hoped, now);
            let stays = plan.decisions.iter().filter(|one| matches!(one.verdict, Verdict::Keep(_)));
            let unread = stays
                .map(|one| &one.entry)
                .filter(|entry| !whole.contains(&entry.key) && !known.without.contains(&entry.key));
            let unread: Vec<&Entry> = unread.collect();
            if unread.is_empty() {
                let ground = Ground { known, failed, proven: whole.clone(), ..Ground::default() };
                return Ok(Basis { ground, unusable, whole, ..Basis::default() });
            }
            for entry in unread {
                match self.require_whole(entry, scratch) {
                    Ok(()) => drop(whole.insert(entry.key.clone())),
                    Err(error) if is_its_own(error.kind()) => {
                        known.without.insert(entry.key.clone());
                        if is_of_no_use(&error) {
                            failed.insert(entry.key.clone());
                        }
                        unusable.push((entry.key.clone(), reason(&error)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// What `policy` leaves by `basis`, once all that it stands on was read.
    pub(super) fn settle(&self, policy: &Policy, basis: &mut Basis, now: Timestamp) -> Result<RetentionPlan, Error> {
        loop {
            let hoped = RetentionPlan::choose(self.catalogue(), policy, &basis.ground, now);
            let decisive = hoped.decisive(&basis.ground.proven);
            let presumed: Vec<Entry> = decisive.filter(|entry| basis.presumed.contains(&entry.key)).cloned().collect();
            if !presumed.is_empty() {
                self.ask_ends(&presumed, basis)?;
                continue;
            }
            // What is known to be kept goes not, and so is not among these.
            let doomed: Vec<Key> = hoped.deletions().cloned().collect();
            basis.ground.retained.extend(self.retained(&doomed)?);
            let plan = RetentionPlan::choose(self.catalogue(), policy, &basis.ground, now);
            let footing = plan.footing(&basis.ground.proven);
            let unread: Vec<Entry> = footing.filter(|entry| !basis.whole.contains(&entry.key)).cloned().collect();
            if unread.is_empty() {
                return Ok(plan);
            }
            self.read_whole(unread, basis)?;
        }
    }

    /// Asks for the ends of `entries`, which are only presumed to be proven. What turns out to be something else is not.
    fn ask_ends(&self, entries: &[Entry], basis: &mut Basis) -> Result<(), Error> {
        for (entry, digest) in self.digests_of(entries)? {
            basis.presumed.remove(&entry.key);
            if basis.digests.get(&entry.key).copied() != digest {
                basis.digests.remove(&entry.key);
                basis.whole.remove(&entry.key);
                basis.ground.proven.remove(&entry.key);
            }
        }
        Ok(())
    }

    /// Reads all of `entries`. What is not what it was proven by is not proven any more, and done without.
    fn read_whole(&self, entries: Vec<Entry>, basis: &mut Basis) -> Result<(), Error> {
        let reading = entries.into_iter().map(async |entry| {
            let read = hashed(&self.store, &entry.key, entry.size_bytes).await;
            (entry, read)
        });
        let read: Vec<_> = self.runtime.block_on(stream::iter(reading).buffered(READ_AT_ONCE).collect());
        for (entry, read) in read {
            let proven_by = basis.digests.get(&entry.key).copied();
            match read {
                Ok(read) if proven_by.is_some() && digest(&entry, &read) == proven_by => {
                    basis.whole.insert(entry.key);
                }
                Ok(_) => {
                    basis.lose(&entry.key, OTHER_BYTES.into());
                    basis.decayed.push(entry);
                }
                // It is gone, or became shorter.
                Err(StoreError { fault: fault @ (Fault::NotFound | Fault::Invalid(_)), .. }) => {
                    basis.lose(&entry.key, fault.to_string());
                }
                Err(error) if kind_of(&error.fault) == Kind::Corrupt => {
                    basis.lose(&entry.key, error.fault.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Records what is no longer as it was proven to be, so that nobody goes by that before it was read again.
    pub(super) fn record_decay(&self, basis: &Basis, now: Timestamp) -> Result<(), Error> {
        if basis.decayed.is_empty() {
            return Ok(());
        }
        let proven = self.proven()?.proven;
        let mut lineages: BTreeMap<&LineageId, Vec<Refutation>> = BTreeMap::new();
        for entry in &basis.decayed {
            let (Some(lineage), Some(digest)) = (&entry.lineage, basis.digests.get(&entry.key)) else { continue };
            let object = self.name_of(&entry.key).to_owned();
            let time = proven.found_at(&object, *digest, now);
            let refutation = Refutation { object, digest: *digest, time, finding: OTHER_BYTES.into() };
            lineages.entry(lineage).or_default().push(refutation);
        }
        lineages.into_iter().try_for_each(|(lineage, refuted)| self.refute(lineage, &refuted, now).map(drop))
    }
}

/// What is told of an object that was proven and has decayed.
const OTHER_BYTES: &str = "its bytes are no longer those that were proven";

impl Basis {
    fn lose(&mut self, key: &Key, why: String) {
        self.ground.proven.remove(key);
        self.ground.known.without.insert(key.clone());
        self.unusable.push((key.clone(), why));
    }
}

/// The digest that proofs name an object by, if its bytes are those that it was made of.
fn digest(entry: &Entry, read: &Hashed) -> Option<ObjectDigest> {
    match entry.form {
        Form::Full(form) if form != FullForm::Logical => Some(ObjectDigest(read.whole())),
        _ => read.sealed().map(ObjectDigest),
    }
}

/// The objects that lie in the `lost` lockboxes, and why they are of no use.
fn locked_away(heard: &Heard, lost: &Lost) -> impl Iterator<Item = (Key, String)> {
    lost.iter().flat_map(move |(id, error)| {
        let objects = heard.locked.get(id).into_iter().flat_map(|locked| &locked.objects);
        objects.map(move |key| (key.clone(), error.to_string()))
    })
}

/// Whether an object of another system will never be of use. One that holds less than its name says can be restored from, as
/// far as it goes.
fn is_of_no_use(error: &Error) -> bool {
    let is_misnamed = matches!(error, Error::Object { source: ObjectError::Misplaced { .. }, .. });
    error.kind() == Kind::Corrupt && !is_misnamed
}
