//! Bringing another system's archive into one of ours.
//!
//! Object by object, in the order in which they were taken: a snapshot becomes a full with all the history that it has, a
//! delta of etcdbrctl one of ours, which follows on what was brought before. So whoever reads what is half done finds
//! shorter chains and no holes. Everything is compared before it is taken: the digest of a snapshot, that of a delta,
//! and whether a later snapshot tells the same history as what comes before it. Where it does not, because the cluster
//! was restored in between or is another one, a new lineage begins.
//!
//! What is made of an object depends on that object and those before it alone, and not on when it is made. So bringing
//! an archive again makes what is missing, and nothing twice.

mod line;
mod same_history;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use store::Key;

use crate::about::ClusterNote;
use crate::archive::{Archive, Which};
use crate::copy::CopyTarget;
use crate::copy::sending::hashed;
use crate::encryption::{Keyring, Lockboxes, Recipient, WritingKey};
use crate::entry::{Entry, Layout};
use crate::error::{Error, is_its_own};
use crate::fence::FenceError;
use crate::founding::{self, put_once};
use crate::header::{FORMAT, PROGRAM};
use crate::identity::{Cluster, ClusterUid, LineageId};
use crate::name::Name;
use crate::object::{FOOTER_BYTES, digest_at_end};
use crate::proof::{Evidence, Item, Level, ObjectDigest};
use crate::publish::Writing;
use crate::sealing::NoKeys;

use line::Line;

/// What became of an object.
#[derive(Debug)]
pub struct Imported {
    /// The object.
    pub from: Entry,
    /// What became of it.
    pub outcome: Brought,
}

/// What became of an object.
#[derive(Debug)]
pub enum Brought {
    /// It was made into this, which was read back.
    Made(Key),
    /// What it would be made into is there.
    There(Key),
    /// Nothing is made of it.
    NotNeeded(NotNeeded),
    /// It could not be brought.
    Failed(Error),
}

/// Why nothing is made of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotNeeded {
    /// What it has is in others.
    Covered,
    /// It was put together by etcdbrctl's compaction, which takes the leases off keys, and what it was made of is there.
    LostLeases,
    /// No full comes before it.
    NoFull,
    /// Revisions before it are missing, so nothing leads to it.
    BeyondHole,
}

impl NotNeeded {
    /// Whether somebody should look into it.
    pub fn is_loss(self) -> bool {
        matches!(self, Self::NoFull | Self::BeyondHole)
    }
}

/// For whom what is brought in is encrypted, and what opens what is there already.
#[derive(Default)]
pub struct Locking {
    /// Those; nobody, and it is not.
    pub recipients: Vec<Recipient>,
    /// The keys at hand.
    pub keyring: Arc<Keyring>,
}

/// An archive that was brought in, as far as it could be.
#[derive(Debug)]
pub struct Importing {
    /// Object by object, in the order in which they were taken.
    pub imported: Vec<Imported>,
    /// The lineages that were begun where snapshots tell another history than those before, each with the snapshot that
    /// it begins with.
    pub splits: Vec<(LineageId, Key)>,
}

impl Archive {
    /// Looks at where this archive is to be brought in, as that of a cluster called `name`.
    pub fn import_target(&self, store: Arc<dyn store::Store>, name: &str) -> Result<CopyTarget, Error> {
        let listing = store::Listing::default();
        let listed = self.runtime.block_on(store::list_all(&*store, listing))?;
        let is_archive = listed.iter().any(|info| info.key.as_str() == Name::Cluster.to_string());
        let folder = if is_archive { String::new() } else { name.to_owned() };
        let there = listed.into_iter().map(|info| (info.key.clone(), info)).collect();
        Ok(CopyTarget { store, folder, there })
    }

    /// Brings what this archive of another system has into ours at `target`, which is made if it is not there. A place
    /// that has the archive of a cluster with another name, or nothing that this one continues, is refused.
    pub fn import(
        &self,
        target: &CopyTarget,
        name: &str,
        locking: &Locking,
        writing: &Writing<'_>,
    ) -> Result<Importing, Error> {
        let mut into = self.open_import(target, name, writing.now)?;
        let archive_key = into.key_to_go_on(locking, writing.now)?;
        into.unlock_with(Arc::clone(&locking.keyring));
        let writing = &Writing { archive_key, ..writing.clone() };
        let mut entries: Vec<&Entry> = self.catalogue().entries().collect();
        // Of one second, what ends first comes first; a full comes after the delta that ends where it does.
        entries.sort_by_key(|entry| (entry.time(), entry.to, entry.is_full(), &entry.key));
        let recorded = into.proven()?;
        let proven = into.proven_objects(&recorded.proven, Level::Sealed)?.into_keys().collect();
        let mut line = Line::new(self, &into, writing, proven);
        let mut imported = Vec::with_capacity(entries.len());
        let mut ended = Ok(());
        for entry in entries {
            let outcome = match line.take(entry) {
                Ok(outcome) => outcome,
                Err(error) if is_of_the_object(&error) => Brought::Failed(error),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            };
            imported.push(Imported { from: entry.clone(), outcome });
        }
        let (splits, sealed) = line.finish();
        // Also what was brought before it ended early: whoever takes it up need not read that again.
        let proven = into.prove(sealed, writing.now);
        ended.and(proven).map(|()| Importing { imported, splits })
    }

    /// The archive to bring it into, which is made if it is not there.
    fn open_import(&self, target: &CopyTarget, name: &str, now: Timestamp) -> Result<Self, Error> {
        let within = if target.folder.is_empty() { String::new() } else { format!("{}/", target.folder) };
        let cluster = Cluster { name: name.into(), id: ClusterUid(rand::random()) };
        let ours = ClusterNote { format: FORMAT, cluster, made: now, program: PROGRAM.into() };
        let key = Name::Cluster.below(&within)?;
        // Somebody who brings in the same at the same time may be first: then it is the same cluster.
        let found = self.runtime.block_on(put_once(&*target.store, &key, &ours))?;
        if found.cluster.name != ours.cluster.name {
            return Err(FenceError::OtherCluster { theirs: found.cluster, ours: ours.cluster }.into());
        }
        let which = Which { cluster: Some(target.folder.clone()), layout: Some(Layout::Refloat) };
        Self::open(Arc::clone(&target.store), self.runtime.clone(), &which, Arc::new(NoKeys))
    }

    /// The key that what is written here is encrypted with. None, if nobody is named and nothing here is encrypted.
    pub fn key_to_go_on(&self, locking: &Locking, now: Timestamp) -> Result<Option<WritingKey>, Error> {
        let Some(cluster) = self.cluster() else { return Ok(None) };
        let folder = self.within();
        let lockboxes = Lockboxes { store: &*self.store, folder: &folder, cluster, keyring: &locking.keyring };
        self.runtime.block_on(lockboxes.to_go_on(&locking.recipients, now))
    }

    /// The digest that an object ends with.
    pub fn digest_at(&self, key: &Key) -> Result<[u8; 32], Error> {
        let end = self.runtime.block_on(async {
            let size = self.store.head(key).await?.size_bytes;
            self.store.get(key, size.saturating_sub(FOOTER_BYTES as u64)..size.max(1)).await
        })?;
        let no_end = || crate::error::ObjectError::Damaged { offset: 0, what: "it has no end".into() };
        digest_at_end(&end).ok_or_else(no_end).map_err(|source| Error::Object { key: key.clone(), source })
    }

    /// Reads back what was written as `key`, and gives what that shows.
    fn read_back(&self, key: &Key, size_bytes: u64, digest: [u8; 32], now: Timestamp) -> Result<Item, Error> {
        let found = self.runtime.block_on(hashed(&self.store, key, size_bytes))?;
        if found.sealed() != Some(digest) {
            let what = "what was read back is not what was written".into();
            let source = crate::error::ObjectError::Damaged { offset: 0, what };
            return Err(Error::Object { key: key.clone(), source });
        }
        let evidence = Evidence::Sealed { bytes: size_bytes };
        Ok(Item { object: self.name_of(key).into(), digest: ObjectDigest(digest), time: now, evidence })
    }

    fn prove(&self, sealed: BTreeMap<LineageId, Vec<Item>>, now: Timestamp) -> Result<(), Error> {
        sealed.iter().try_for_each(|(lineage, items)| self.record(lineage, items, now).map(|_| ()))
    }

    /// Begins a lineage with what is brought in.
    fn begin_lineage(&self, note: &crate::about::LineageNote) -> Result<(), Error> {
        let within = self.within();
        self.runtime.block_on(founding::found_lineage(&*self.store, &within, note))
    }
}

/// Whether others can go on.
fn is_of_the_object(error: &Error) -> bool {
    matches!(error, Error::Object { .. } | Error::Snapshot { .. } | Error::Data(_)) && is_its_own(error.kind())
}

impl std::fmt::Display for NotNeeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Covered => "all of it is in others",
            Self::LostLeases => "its keys lost their leases when etcdbrctl compacted it, and others lead there exactly",
            Self::NoFull => "no full comes before it, so nothing can be restored with it",
            Self::BeyondHole => "revisions before it are missing, so nothing leads to it",
        })
    }
}
