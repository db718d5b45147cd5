//! Copying an archive to another place: bytes as they are, under the same names.
//!
//! Several objects are under way at once, with a few pieces of each in memory. They appear in the order of the plan, and
//! only if nothing has their names. What has appeared is read back and compared; of an archive of ours that is recorded
//! as its proof there. An object that fails is told and the others go on, except for what would be of no use without it.
//! A copy that died is taken up by copying again: what is there is left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use store::download::{list_all, read_whole};
use store::{Fault, Info, Key, Listing, Put, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use crate::about::ClusterNote;
use crate::archive::{Archive, Which};
use crate::copy_plan::{CopyItem, CopyPlan, Fate, Role, Selection};
use crate::encryption::MAX_LOCKBOX_BYTES;
use crate::entry::Layout;
use crate::error::Error;
use crate::fence::FenceError;
use crate::founding;
use crate::identity::LineageId;
use crate::layout;
use crate::layout::etcdbrctl::EXCLUDE;
use crate::name::Name;
use crate::proof::{Evidence, Item, Level, ObjectDigest};
use crate::retention::{Ground, Policy, RetentionPlan};
use crate::sealing::NoKeys;
use crate::sending::{Arrived, Loaded, PIECES_OF_ONE, SendError, hashed};

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
    /// Why what was read back could not be recorded as proven, if it could not.
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

/// Pieces that are in memory on their way to the target, all objects together.
const PIECES_AT_ONCE: u64 = 16;
/// Objects that are read back at once.
const READ_BACK_AT_ONCE: usize = 4;

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
        let outcomes = self.runtime.block_on(way.send_all(&plan.items));
        let copied = plan.items.iter().cloned().zip(outcomes);
        let copied: Vec<Copied> = copied.map(|(item, outcome)| Copied { item, outcome }).collect();
        let unrecorded = self.record_at(target, &copied, now).err();
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

/// From where to where objects are sent, and how.
#[derive(Clone)]
struct Way {
    from: Arc<dyn Store>,
    to: Arc<dyn Store>,
    /// What is proven at the target already.
    proven: Arc<BTreeSet<Key>>,
    reads_all: bool,
    /// Whose the objects are: others' have metadata that tells something.
    layout: Layout,
}

/// How far an object came before it was its turn to appear.
enum Begun {
    /// It has only to appear.
    Loaded(Box<Loaded>),
    /// It is there, as far as its end tells.
    There,
    /// It is over with it.
    Over(Outcome),
}

/// An object that is being sent, with the room that it takes.
struct UnderWay(JoinHandle<(Begun, Option<OwnedSemaphorePermit>)>);

impl Way {
    /// Sends everything, and tells what became of each.
    async fn send_all(&self, items: &[CopyItem]) -> Vec<Outcome> {
        let room = Arc::new(Semaphore::new(PIECES_AT_ONCE as usize));
        let begun = stream::iter(items)
            .then(|item| {
                let (room, way, item) = (Arc::clone(&room), self.clone(), item.clone());
                // In the order of the plan, so that whoever waits for room waits for those before it alone.
                async move {
                    let permit = room.acquire_many_owned(pieces_of(&item)).await.ok();
                    UnderWay(tokio::spawn(async move { (way.begin(&item).await, permit) }))
                }
            })
            .map(|under_way| under_way.0)
            .buffered(PIECES_AT_ONCE as usize);
        let mut begun = std::pin::pin!(begun);

        let mut progress = Progress { outcomes: items.iter().map(|_| None).collect(), reading: JoinSet::new() };
        let mut lost = Lost::default();
        for (at, item) in items.iter().enumerate() {
            let Some(next) = begun.next().await else { break };
            let (begun, permit) = next.unwrap_or_else(|error| resume_unwind(error.into_panic()));
            if lost.keeps_back(item) {
                if let Begun::Loaded(loaded) = begun {
                    loaded.give_up().await;
                }
                progress.over(at, Outcome::NotBegun);
                continue;
            }
            self.go_on(at, item, begun, permit, &mut progress).await;
            if item.role != Role::Records {
                // What others need is known to be there before they are.
                progress.read_back(0).await;
            }
            lost.note(item, progress.outcomes.get(at).and_then(Option::as_ref));
        }
        progress.read_back(0).await;
        progress.outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::NotBegun)).collect()
    }

    /// Does what can be done before it is its turn.
    async fn begin(&self, item: &CopyItem) -> Begun {
        let begun = match item.fate {
            Fate::InTheWay => Err(SendError::InTheWay),
            Fate::Leave => Ok(Begun::Over(Outcome::There(None))),
            Fate::Refresh => self.refresh(item).await.map(Begun::Over),
            Fate::Compare => match item.parcel.has_same_end(&*self.from, &*self.to).await {
                Ok(true) => Ok(Begun::There),
                Ok(false) => Err(SendError::InTheWay),
                Err(error) => Err(error.into()),
            },
            Fate::Send => match self.put_of(item).await {
                Ok(put) => {
                    item.parcel.load(&self.from, &self.to, put).await.map(|loaded| Begun::Loaded(Box::new(loaded)))
                }
                Err(error) => Err(error.into()),
            },
        };
        begun.unwrap_or_else(|error| Begun::Over(Outcome::Failed(error)))
    }

    async fn put_of(&self, item: &CopyItem) -> Result<Put, StoreError> {
        let put = if self.to.abilities().put_if_absent { Put::if_absent() } else { Put::default() };
        if self.layout == Layout::Refloat || !self.from.abilities().metadata || !self.to.abilities().metadata {
            return Ok(put);
        }
        let metadata = self.from.head(&item.parcel.from).await?.metadata;
        Ok(Put { metadata, labels: self.mark_of(&item.parcel.from).await?, ..put })
    }

    /// The label that keeps an object from being restored from, if it has that: a copy without it would be restored from. What else
    /// people noted stays where they did.
    async fn mark_of(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        if self.layout != Layout::Etcdbrctl {
            return Ok(BTreeMap::new());
        }
        match self.from.labels(key).await {
            Ok(mut labels) => {
                labels.retain(|name, _| name == EXCLUDE);
                Ok(labels)
            }
            Err(StoreError { fault: Fault::Unable(_), .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    /// Replaces what changes by what it has become.
    async fn refresh(&self, item: &CopyItem) -> Result<Outcome, SendError> {
        let limit = MAX_LOCKBOX_BYTES as u64;
        let found = self.to.head(&item.parcel.to).await?;
        let old: Bytes = read_whole(&*self.to, &item.parcel.to, limit).await?;
        let new: Bytes = read_whole(&*self.from, &item.parcel.from, limit).await?;
        if old == new {
            return Ok(Outcome::There(None));
        }
        let put = match found.tag {
            Some(tag) if self.to.abilities().put_if_unchanged => Put::if_unchanged(tag),
            _ => Put::default(),
        };
        let size_bytes = new.len() as u64;
        self.to.put(&item.parcel.to, new, &put).await?;
        Ok(Outcome::Sent(Arrived { digest: None, size_bytes }))
    }

    /// Lets it appear, and has it read back.
    async fn go_on(
        &self,
        at: usize,
        item: &CopyItem,
        begun: Begun,
        permit: Option<OwnedSemaphorePermit>,
        progress: &mut Progress,
    ) {
        let checking = match begun {
            Begun::Over(outcome) => return progress.over(at, outcome),
            Begun::There if self.is_known(item) => return progress.over(at, Outcome::There(None)),
            Begun::There => Check::Found,
            Begun::Loaded(loaded) => {
                let (hash, published) = loaded.publish().await;
                match published {
                    Ok(()) => Check::Sent(hash.whole()),
                    Err(error) if matches!(error.fault, Fault::Exists) => Check::Taken(hash.whole()),
                    Err(error) => return progress.over(at, Outcome::Failed(error.into())),
                }
            }
        };
        drop(permit);
        progress.read_back(READ_BACK_AT_ONCE - 1).await;
        let (way, item) = (self.clone(), item.clone());
        progress.reading.spawn(async move {
            let checked = way.check(&item, checking).await;
            (at, checked.unwrap_or_else(Outcome::Failed))
        });
    }

    /// Whether what is there needs not be read to be known.
    fn is_known(&self, item: &CopyItem) -> bool {
        !self.reads_all && (!item.parcel.is_sealed || self.proven.contains(&item.parcel.to))
    }

    async fn check(&self, item: &CopyItem, checking: Check) -> Result<Outcome, SendError> {
        let parcel = &item.parcel;
        let found = parcel.read_back(&self.to).await?;
        let arrived = found.arrived();
        match checking {
            Check::Sent(sent) if sent == found.whole() => Ok(Outcome::Sent(arrived)),
            Check::Sent(_) => {
                // It was put there a moment ago, and nobody can want it.
                let _ = self.to.delete(std::slice::from_ref(&parcel.to)).await;
                Err(SendError::NotAsSent)
            }
            Check::Taken(sent) if sent == found.whole() => Ok(Outcome::There(Some(arrived))),
            Check::Found if parcel.is_sealed && arrived.digest.is_some() => Ok(Outcome::There(Some(arrived))),
            Check::Found if parcel.is_sealed => Err(SendError::InTheWay),
            Check::Found if hashed(&self.from, &parcel.from, parcel.size_bytes).await?.whole() == found.whole() => {
                Ok(Outcome::There(Some(arrived)))
            }
            Check::Taken(_) | Check::Found => Err(SendError::InTheWay),
        }
    }
}

/// What an object at the target has to be.
enum Check {
    /// What was just put there.
    Sent([u8; 32]),
    /// What was to be put there when somebody else was quicker.
    Taken([u8; 32]),
    /// What it was found to be.
    Found,
}

/// How much room an object takes while it is on its way.
fn pieces_of(item: &CopyItem) -> u32 {
    let size = if item.fate == Fate::Send { item.parcel.size_bytes } else { 0 };
    let pieces = size.div_ceil(crate::sending::PIECES.bytes).clamp(1, PIECES_OF_ONE);
    u32::try_from(pieces).unwrap_or(1)
}

/// What is known of objects so far, and those that are being read back.
struct Progress {
    outcomes: Vec<Option<Outcome>>,
    reading: JoinSet<(usize, Outcome)>,
}

impl Progress {
    fn over(&mut self, at: usize, outcome: Outcome) {
        if let Some(place) = self.outcomes.get_mut(at) {
            *place = Some(outcome);
        }
    }

    /// Waits until no more than `most` are being read back.
    async fn read_back(&mut self, most: usize) {
        while self.reading.len() > most {
            let Some(next) = self.reading.join_next().await else { return };
            let (at, outcome) = next.unwrap_or_else(|error| resume_unwind(error.into_panic()));
            self.over(at, outcome);
        }
    }
}

/// What could not be copied, as far as others need it.
#[derive(Default)]
struct Lost {
    has_sign: bool,
    beside: BTreeSet<Key>,
}

impl Lost {
    fn keeps_back(&self, item: &CopyItem) -> bool {
        self.has_sign || self.beside.contains(&item.parcel.to)
    }

    fn note(&mut self, item: &CopyItem, outcome: Option<&Outcome>) {
        if !matches!(outcome, Some(Outcome::Failed(_) | Outcome::NotBegun)) {
            return;
        }
        match &item.role {
            Role::Sign => self.has_sign = true,
            // Snapshots of other systems are of use without what goes with them.
            Role::Beside(of) if item.lineage.is_some() => drop(self.beside.insert(of.clone())),
            Role::Beside(_) | Role::Records => {}
        }
    }
}
