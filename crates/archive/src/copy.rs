//! Copying an archive to another place: bytes as they are, under the same names.
//!
//! Several objects are under way at once, with a few pieces of each in memory. They appear in the order of the plan, and
//! only if nothing has their names. What has appeared is read back and compared; of an archive of ours that is recorded
//! as its proof there, and before that the last epoch that was handed out here. An object that fails is told and the others go on, except for what would be of no use without it.
//! A copy that died is taken up by copying again: what is there is left as it is.
//!
//! - [`plan`]: what is sent, and in which order
//! - [`sending`]: one object on its way

mod last_writer;
pub mod plan;
pub mod sending;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use store::download::list_all;
use store::{Info, Key, Listing, Store};

use crate::about::ClusterNote;
use crate::archive::{Archive, Which};
use crate::copy::plan::{CopyItem, CopyPlan, Fate, Selection};
use crate::copy::sending::{Arrived, SendError};
use crate::entry::Layout;
use crate::error::Error;
use crate::fence::FenceError;
use crate::founding;
use crate::identity::LineageId;
use crate::layout;
use crate::name::Name;
use crate::proof::{Evidence, Item, Level, ObjectDigest};
use crate::retention::{Ground, Policy, RetentionPlan};
use crate::sealing::NoKeys;
use way::Way;

/// Where an archive is copied to.
#[derive(Debug, Clone)]
pub struct CopyTarget {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The folder that the archive has there. Empty if it is all of that place.
    pub folder: String,
    /// What is there, by key.
    pub there: BTreeMap<Key, Info>,
}

/// What became of an object.
#[derive(Debug)]
pub struct Copied {
    /// What was to be done with it.
    pub item: CopyItem,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an object.
#[derive(Debug)]
pub enum Outcome {
    /// It was sent, and read back.
    Sent(Arrived),
    /// It was there already. All of it was read if that is told.
    There(Option<Arrived>),
    /// It could not be copied.
    Failed(SendError),
    /// It was not begun, because what it needs could not be copied.
    NotBegun,
}

/// A copy that is done, as far as it could be.
#[derive(Debug)]
pub struct Copying {
    /// Object by object, in the order of the plan.
    pub copied: Vec<Copied>,
    /// Why it could not be recorded there what was read back, or which writers there were, if it could not.
    pub unrecorded: Option<Error>,
}

impl Copying {
    /// How many objects were sent, and their bytes.
    pub fn sent(&self) -> (usize, u64) {
        let sent = self.copied.iter().filter(|copied| matches!(copied.outcome, Outcome::Sent(_)));
        sent.fold((0, 0), |(count, bytes), copied| (count + 1, bytes.saturating_add(copied.item.parcel.size_bytes)))
    }

    /// The first that could not be copied, if one could not, and how many could not be.
    pub fn failed(&self) -> Option<(&SendError, usize)> {
        let is_missing = |copied: &&Copied| matches!(copied.outcome, Outcome::Failed(_) | Outcome::NotBegun);
        let count = self.copied.iter().filter(is_missing).count();
        let first = self.copied.iter().find_map(|copied| match &copied.outcome {
            Outcome::Failed(error) => Some(error),
            _ => None,
        });
        first.map(|error| (error, count))
    }
}

impl Archive {
    /// Looks at where this archive is to be copied to. Its folder is kept, and named like its cluster if it has none, unless
    /// the place itself is an archive already. A place that another cluster has is refused.
    pub fn copy_target(&self, store: Arc<dyn Store>) -> Result<CopyTarget, Error> {
        let listed = self.runtime.block_on(list_all(&*store, Listing::default()))?;
        let is_archive = || listed.iter().any(|info| info.key.as_str() == Name::Cluster.to_string());
        let folder = match self.cluster() {
            Some(_) if is_archive() => String::new(),
            Some(cluster) if self.folder().is_empty() => cluster.name.clone(),
            _ => self.folder().to_owned(),
        };
        self.require_same_cluster(&*store, &folder, &listed)?;
        let there = listed.into_iter().map(|info| (info.key.clone(), info)).collect();
        Ok(CopyTarget { store, folder, there })
    }

    fn require_same_cluster(&self, store: &dyn Store, folder: &str, listed: &[Info]) -> Result<(), Error> {
        let Some(cluster) = self.cluster() else { return self.require_shared_objects(store, folder, listed) };
        let key = Name::Cluster.below(&within(folder))?;
        if !listed.iter().any(|info| info.key == key) {
            return Ok(());
        }
        let found: Option<ClusterNote> = self.runtime.block_on(founding::read(store, &key))?;
        match found {
            Some(note) if note.cluster != *cluster => {
                Err(FenceError::OtherCluster { theirs: note.cluster, ours: cluster.clone() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Other systems' archives do not tell whose they are. Where one is there that has nothing of this one, it is
    /// another's: two chains in one folder are of no use to anybody.
    fn require_shared_objects(&self, store: &dyn Store, folder: &str, listed: &[Info]) -> Result<(), Error> {
        let found = layout::find_only(self.catalogue().layout, listed);
        let Some(theirs) = found.into_iter().find(|archive| archive.folder == folder) else { return Ok(()) };
        let ours: BTreeSet<&Key> = self.catalogue().entries().map(|entry| &entry.key).collect();
        if theirs.entries.is_empty() || theirs.entries.iter().any(|entry| ours.contains(&entry.key)) {
            return Ok(());
        }
        Err(Error::NothingShared { place: store.place().into(), folder: folder.into() })
    }

    /// What copying `selection` to `target` sends. Where `lineages` are given, only those are copied.
    pub fn plan_copy(
        &self,
        target: &CopyTarget,
        selection: &Selection,
        lineages: Option<&BTreeSet<LineageId>>,
    ) -> CopyPlan {
        let to = |key: &Key| self.key_at(target, key);
        CopyPlan::choose(self.catalogue(), selection, lineages, &target.there, to)
    }

    /// What of this archive `policy` would keep at a place that has all of it, and has proven it. So what was merged meanwhile
    /// is not sent twice, and what the policy let go there is not sent again.
    pub fn kept_by(&self, policy: &Policy, now: Timestamp) -> Selection {
        let proven = self.catalogue().entries().map(|entry| entry.key.clone()).collect();
        let ground = Ground { proven, ..Ground::default() };
        Selection::These(RetentionPlan::choose(self.catalogue(), policy, &ground, now).kept().cloned().collect())
    }

    /// What is `key` here is called at `target`. Only our archives change their folder.
    fn key_at(&self, target: &CopyTarget, key: &Key) -> Key {
        if self.catalogue().layout != Layout::Refloat {
            return key.clone();
        }
        let path = format!("{}{}", within(&target.folder), self.name_of(key));
        #[allow(clippy::expect_used, reason = "a folder of a store and a name below another make a key")]
        Key::parse(path).expect("names are keys")
    }

    /// Carries out `plan`. What is there already is read whole if `reads_all`, and otherwise if it is not proven there.
    pub fn copy(
        &self,
        target: &CopyTarget,
        plan: &CopyPlan,
        reads_all: bool,
        now: Timestamp,
    ) -> Result<Copying, Error> {
        // It takes long to ask, and matters only for what is there already.
        let is_compared = plan.items.iter().any(|item| item.fate == Fate::Compare);
        let proven = if is_compared && !reads_all { self.proven_at(target)? } else { BTreeSet::new() };
        let way = Way {
            from: Arc::clone(&self.store),
            to: Arc::clone(&target.store),
            proven: Arc::new(proven),
            reads_all,
            layout: self.catalogue().layout,
        };
        // Also where nothing is sent: what was, may have come there when this could not be told.
        let told = if plan.items.is_empty() { Ok(()) } else { self.tell_last_writer(target, now) };
        let outcomes = self.runtime.block_on(way.send_all(&plan.items));
        let copied = plan.items.iter().cloned().zip(outcomes);
        let copied: Vec<Copied> = copied.map(|(item, outcome)| Copied { item, outcome }).collect();
        let unrecorded = told.and(self.record_at(target, &copied, now)).err();
        Ok(Copying { copied, unrecorded })
    }

    /// The objects at `target` that are proven there.
    fn proven_at(&self, target: &CopyTarget) -> Result<BTreeSet<Key>, Error> {
        let has_archive = self.cluster().is_some() && target.there.contains_key(&self.key_at_cluster(target)?);
        if !has_archive {
            return Ok(BTreeSet::new());
        }
        let archive = self.open_at(target)?;
        let recorded = archive.proven()?;
        Ok(archive.proven_objects(&recorded.proven, Level::Sealed)?.into_keys().collect())
    }

    fn key_at_cluster(&self, target: &CopyTarget) -> Result<Key, Error> {
        Ok(Name::Cluster.below(&within(&target.folder))?)
    }

    fn open_at(&self, target: &CopyTarget) -> Result<Self, Error> {
        let which = Which { cluster: Some(target.folder.clone()), layout: Some(Layout::Refloat) };
        Self::open(Arc::clone(&target.store), self.runtime.clone(), &which, Arc::new(NoKeys))
    }

    /// Records what was read back at `target`, lineage by lineage.
    fn record_at(&self, target: &CopyTarget, copied: &[Copied], now: Timestamp) -> Result<(), Error> {
        let mut items: BTreeMap<&LineageId, Vec<Item>> = BTreeMap::new();
        for Copied { item, outcome } in copied {
            let (Some(lineage), Outcome::Sent(arrived) | Outcome::There(Some(arrived))) = (&item.lineage, outcome)
            else {
                continue;
            };
            let Some(digest) = arrived.digest else { continue };
            let object = self.name_of(&item.parcel.from).to_owned();
            let evidence = Evidence::Sealed { bytes: arrived.size_bytes };
            items.entry(lineage).or_default().push(Item { object, digest: ObjectDigest(digest), time: now, evidence });
        }
        if items.is_empty() {
            return Ok(());
        }
        let archive = self.open_at(target)?;
        items.into_iter().try_for_each(|(lineage, items)| archive.record(lineage, &items, now).map(|_| ()))
    }
}

/// A folder as the beginning of keys.
fn within(folder: &str) -> String {
    if folder.is_empty() { String::new() } else { format!("{folder}/") }
}
