//! From where to where objects are sent: several at once, in the order of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use store::download::read_whole;
use store::{Fault, Key, Put, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use super::Outcome;
use crate::copy::plan::{CopyItem, Fate, Role};
use crate::copy::sending::{Arrived, Loaded, PIECES, PIECES_OF_ONE, SendError, hashed};
use crate::encryption::MAX_LOCKBOX_BYTES;
use crate::entry::Layout;
use crate::layout::etcdbrctl::EXCLUDE;

/// Pieces that are in memory on their way to the target, all objects together.
const PIECES_AT_ONCE: u64 = 16;
/// Objects that are read back at once.
const READ_BACK_AT_ONCE: usize = 4;

/// From where to where objects are sent, and how.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) from: Arc<dyn Store>,
    pub(super) to: Arc<dyn Store>,
    /// What is proven at the target already.
    pub(super) proven: Arc<BTreeSet<Key>>,
    pub(super) reads_all: bool,
    /// Whose the objects are: others' have metadata that tells something.
    pub(super) layout: Layout,
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
    pub(super) async fn send_all(&self, items: &[CopyItem]) -> Vec<Outcome> {
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
        let put = Put::lasting(self.to.abilities());
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
        self.to.put(&item.parcel.to, new, &Put { lasts: true, ..put }).await?;
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
    let pieces = size.div_ceil(PIECES.bytes).clamp(1, PIECES_OF_ONE);
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
