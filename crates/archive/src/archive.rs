//! An archive that is open for reading: whose it is, and what it has.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use store::download::list_all;
use store::key::NotAKey;
use store::{Info, Key, Listing, Store};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::about::{ClusterNote, FullNote, LineageNote};
use crate::budget::Budget;
use crate::catalogue::{Catalogue, PickError, Survey};
use crate::digested;
use crate::encryption::in_the_open::Closed;
use crate::entry::Layout;
use crate::error::{Error, ObjectError, is_its_own};
use crate::fence::Claim;
use crate::headers::remembered::Remembered;
use crate::identity::{Cluster, LineageId};
use crate::layout::{self, PeerArchive};
use crate::name::Name;
use crate::plan::{Parent, Told};
use crate::sealing::Keys;

/// Which of the archives at a place is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// The cluster, or the folder in it of another system's archive; nothing if there is only one.
    pub cluster: Option<String>,
    /// Who laid it out, where that is not to be found out.
    pub layout: Option<Layout>,
}

/// One cluster's archive, ours or another system's. Its listing was read once and is not looked at again.
pub struct Archive {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Handle,
    pub(crate) keys: Arc<dyn Keys + Send + Sync>,
    folder: String,
    cluster: Option<Cluster>,
    catalogue: Catalogue,
    pub(crate) parents: BTreeMap<LineageId, Parent>,
    /// What should tell where lineages came from, and cannot be read.
    pub(crate) unread: Vec<(Key, Error)>,
    /// Since when it is encrypted, once somebody asked.
    pub(crate) closed: OnceCell<Option<Closed>>,
    /// What tells of the last writer, once somebody asked.
    pub(crate) last_claim: OnceCell<Option<Claim>>,
    /// What was asked before.
    pub(crate) remembered: Arc<Remembered>,
    /// What work on it may take.
    pub(crate) budget: Budget,
    /// Why it is not told which objects are marked as not to be restored from, once the store has refused to. It is not
    /// asked again then.
    pub(crate) marks_untold: OnceLock<String>,
}

/// The largest of the small objects.
const SMALL_BYTES: u64 = 1 << 20;

impl Archive {
    /// Opens the archive at the place of `store`. What waits for the store does so on `runtime`, so this is for
    /// threads that may block.
    pub fn open(
        store: Arc<dyn Store>,
        runtime: Handle,
        which: &Which,
        keys: Arc<dyn Keys + Send + Sync>,
    ) -> Result<Self, Error> {
        let (archive, unknown) = Self::open_damaged(store, runtime, which, keys)?;
        unknown.map_or(Ok(archive), Err)
    }

    /// Opens it also if what tells whose it is cannot be used, and says why not. Of such an archive nothing is to be
    /// believed: this is for those who look for what is wrong.
    pub fn open_damaged(
        store: Arc<dyn Store>,
        runtime: Handle,
        which: &Which,
        keys: Arc<dyn Keys + Send + Sync>,
    ) -> Result<(Self, Option<Error>), Error> {
        let listed = runtime.block_on(list_all(&*store, Listing::default()))?;
        let (folder, catalogue) =
            choose(&listed, which).map_err(|source| Error::Pick { place: store.place().into(), source })?;
        let mut archive = Self {
            store,
            runtime,
            keys,
            folder,
            cluster: None,
            catalogue,
            parents: BTreeMap::new(),
            unread: Vec::new(),
            closed: OnceCell::new(),
            last_claim: OnceCell::new(),
            remembered: Arc::default(),
            budget: Budget::ALL,
            marks_untold: OnceLock::new(),
        };
        if archive.catalogue.layout != Layout::Refloat {
            return Ok((archive, None));
        }
        let unknown = match archive.read_cluster() {
            Ok(cluster) => archive.cluster.replace(cluster).and(None),
            Err(error) if is_its_own(error.kind()) => Some(error),
            Err(error) => return Err(error),
        };
        archive.read_parents()?;
        Ok((archive, unknown))
    }

    /// Goes by what whoever opened it before has asked, and notes there what it asks.
    pub fn remember_with(&mut self, remembered: Arc<Remembered>) {
        self.remembered = remembered;
    }

    /// The archive, for work that takes no more than `budget`.
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// What it has.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Whose it is. Other systems' archives do not tell.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The point that a lineage came from, if that is told.
    pub fn parent(&self, lineage: &LineageId) -> Option<&Parent> {
        self.parents.get(lineage)
    }

    /// The store that it is in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The folder that it is in, below the place of the store. Empty if it is all of that place.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// That folder, with the slash that what is in it begins with.
    pub(crate) fn within(&self) -> String {
        if self.folder.is_empty() { String::new() } else { format!("{}/", self.folder) }
    }

    /// The key of what is called `name` here.
    pub fn key(&self, name: &Name) -> Key {
        let path = format!("{}{name}", self.within());
        #[allow(clippy::expect_used, reason = "the folder comes of a key, and names are made of what keys may have")]
        Key::parse(path).expect("names are keys")
    }

    /// The bytes of the small object `name`, up to `limit` of them.
    pub fn read_small(&self, name: &Name, limit: u64) -> Result<bytes::Bytes, Error> {
        Ok(self.runtime.block_on(self.store.get(&self.key(name), 0..limit))?)
    }

    fn read_cluster(&self) -> Result<Cluster, Error> {
        let key = self.key(&Name::Cluster);
        let note: ClusterNote = self.read_json(&key)?;
        require_known(note.format, &key)?;
        Ok(note.cluster)
    }

    /// Where a lineage came from matters only to who wants a point before it began: not to know it stops nobody else.
    fn read_parents(&mut self) -> Result<(), Error> {
        let described = self.catalogue.histories.iter().filter(|history| history.is_described);
        let lineages: Vec<LineageId> = described.filter_map(|history| history.lineage.clone()).collect();
        for lineage in lineages {
            let key = self.key(&Name::Lineage(lineage.clone()));
            match self.read_parent(&key) {
                Ok(parent) => self.parents.extend(parent.map(|parent| (lineage, parent))),
                Err(error) if is_its_own(error.kind()) => self.unread.push((key, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A parent that is not the one that was written would lead into another history.
    fn read_parent(&self, key: &Key) -> Result<Option<Parent>, Error> {
        let bytes = self.runtime.block_on(self.store.get(key, 0..SMALL_BYTES))?;
        let note: LineageNote = parsed(key, &bytes)?;
        require_known(note.format, key)?;
        digested::check(&bytes).map_err(|what| damaged(key, what))?;
        Ok(note.parent)
    }

    /// What is told beside the full `key`.
    pub(crate) fn read_note(&self, key: &Key) -> Result<Told, Error> {
        self.runtime.block_on(self.note(key))
    }

    pub(crate) async fn note(&self, key: &Key) -> Result<Told, Error> {
        let unnamed = |text: NotAKey| ObjectError::Misplaced { name: text.text, itself: "a note".into() };
        let beside = Key::parse(format!("{key}.json")).map_err(unnamed);
        let beside = beside.map_err(|source| Error::Object { key: key.clone(), source })?;
        let note: FullNote = self.json(&beside).await?;
        require_known(note.header.format, &beside)?;
        Ok(Told { header: note.header, digest: note.sha256.0 })
    }

    fn read_json<T: for<'a> Deserialize<'a>>(&self, key: &Key) -> Result<T, Error> {
        self.runtime.block_on(self.json(key))
    }

    async fn json<T: for<'a> Deserialize<'a>>(&self, key: &Key) -> Result<T, Error> {
        parsed(key, &self.store.get(key, 0..SMALL_BYTES).await?)
    }
}

fn parsed<T: for<'a> Deserialize<'a>>(key: &Key, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| damaged(key, error.to_string()))
}

fn damaged(key: &Key, what: String) -> Error {
    Error::Object { key: key.clone(), source: ObjectError::Damaged { offset: 0, what } }
}

/// The folder of the archive that is meant, and what it has.
fn choose(listed: &[Info], which: &Which) -> Result<(String, Catalogue), PickError> {
    let mut survey = Survey::default();
    survey.take(listed);
    let is_ours = survey.clusters().next().is_some();
    match which.layout {
        Some(Layout::Refloat) => survey.pick(which.cluster.as_deref()),
        None if is_ours => survey.pick(which.cluster.as_deref()),
        None => pick_peer(layout::find(listed).archives, which, listed),
        Some(layout) => pick_peer(layout::find_only(layout, listed), which, listed),
    }
}

fn pick_peer(found: Vec<PeerArchive>, which: &Which, listed: &[Info]) -> Result<(String, Catalogue), PickError> {
    let there: Vec<String> = found.iter().map(|archive| archive.folder.clone()).collect();
    let mut meant =
        found.into_iter().filter(|archive| which.cluster.as_ref().is_none_or(|name| archive.folder == *name));
    match (meant.next(), meant.next(), &which.cluster) {
        (Some(archive), None, _) => Ok((archive.folder.clone(), Catalogue::of_peer_archive(archive, listed))),
        (None, _, _) if there.is_empty() => Err(PickError::Nothing),
        (None, _, Some(wanted)) => Err(PickError::NotThere { wanted: wanted.clone(), there }),
        _ => Err(PickError::Several { there }),
    }
}

fn require_known(format: u32, key: &Key) -> Result<(), Error> {
    if format <= crate::header::FORMAT {
        return Ok(());
    }
    let source = ObjectError::Newer { found: format, known: crate::header::FORMAT };
    Err(Error::Object { key: key.clone(), source })
}
