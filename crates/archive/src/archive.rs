//! An archive that is open for reading: whose it is, and what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use store::download::list_all;
use store::key::NotAKey;
use store::{Info, Key, Listing, Store};
use tokio::runtime::Handle;

use crate::about::{ClusterNote, FullNote, LineageNote};
use crate::catalogue::{Catalogue, PickError, Stranger, Survey};
use crate::entry::Layout;
use crate::error::{Error, ObjectError};
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
        let listed = runtime.block_on(list_all(&*store, Listing::default()))?;
        let (folder, catalogue) =
            choose(&listed, which).map_err(|source| Error::Pick { place: store.place().into(), source })?;
        let (cluster, parents) = (None, BTreeMap::new());
        let mut archive = Self { store, runtime, keys, folder, cluster, catalogue, parents };
        if archive.catalogue.layout == Layout::Refloat {
            archive.cluster = Some(archive.read_cluster()?);
            archive.parents = archive.read_parents()?;
        }
        Ok(archive)
    }

    /// What it has.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Whose it is. Other systems' archives do not tell.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The store that it is in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The folder that it is in, below the place of the store. Empty if it is all of that place.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The key of what is called `name` here.
    pub fn key(&self, name: &Name) -> Key {
        let path = if self.folder.is_empty() { name.to_string() } else { format!("{}/{name}", self.folder) };
        #[allow(clippy::expect_used, reason = "the folder comes of a key, and names are made of what keys may have")]
        Key::parse(path).expect("names are keys")
    }

    fn read_cluster(&self) -> Result<Cluster, Error> {
        let key = self.key(&Name::Cluster);
        let note: ClusterNote = self.read_json(&key)?;
        require_known(note.format, &key)?;
        Ok(note.cluster)
    }

    fn read_parents(&self) -> Result<BTreeMap<LineageId, Parent>, Error> {
        let mut parents = BTreeMap::new();
        let described = self.catalogue.histories.iter().filter(|history| history.is_described);
        for lineage in described.filter_map(|history| history.lineage.clone()) {
            let key = self.key(&Name::Lineage(lineage.clone()));
            let note: LineageNote = self.read_json(&key)?;
            require_known(note.format, &key)?;
            parents.extend(note.parent.map(|parent| (lineage, parent)));
        }
        Ok(parents)
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
        let bytes = self.store.get(key, 0..SMALL_BYTES).await?;
        let damaged = |error: serde_json::Error| ObjectError::Damaged { offset: 0, what: error.to_string() };
        serde_json::from_slice(&bytes).map_err(damaged).map_err(|source| Error::Object { key: key.clone(), source })
    }
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
        (Some(archive), None, _) => {
            let known: BTreeSet<&Key> = archive.entries.iter().map(|entry| &entry.key).collect();
            let strangers = listed.iter().filter(|info| !known.contains(&info.key));
            let strangers = strangers.map(|info| Stranger { key: info.key.clone(), size_bytes: info.size_bytes });
            let strangers = strangers.collect();
            let PeerArchive { layout, folder, entries, .. } = archive;
            Ok((folder, Catalogue::of_peer(layout, entries, strangers)))
        }
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
