//! The archive that the agent writes, and what reaches it.

mod memory;
mod recalling;
#[cfg(test)]
mod together;
mod writing_key;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::about::ClusterNote;
use archive::archive::{Archive, Which};
use archive::catalogue::PickError;
use archive::encryption::{KeyError, Keyring, Recipient};
use archive::error::in_one_line;
use archive::fence::FenceError;
use archive::founding::{cluster_at, found_cluster};
use archive::header::{FORMAT, Header, PROGRAM};
use archive::headers::remembered::Remembered;
use archive::identity::ClusterUid;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Budget, Cluster, Epoch, Error};
use etcd_data::Kind;
use jiff::Timestamp;
use store::Store;
use store::counting::Counting;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::follow::spool::Spool;
use memory::Memory;
use recalling::{Recalled, Recalling};
use writing_key::Known;

/// Where an archive is, and how it is read and written there.
#[derive(Clone)]
pub struct Site {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What the archive calls the cluster, if that was said.
    pub cluster: Option<String>,
    /// What opens its objects.
    pub keyring: Arc<Keyring>,
    /// Whom new objects are encrypted for; nobody, and they are not.
    pub recipients: Vec<Recipient>,
    /// The folder for scratch files.
    pub scratch: PathBuf,
}

/// One cluster's archive at its place.
#[derive(Clone)]
pub struct Home {
    /// Where it is.
    pub store: Arc<dyn Store>,
    /// Whose it is.
    pub cluster: Cluster,
    /// What opens its objects.
    pub keyring: Arc<Keyring>,
    /// The folder for scratch files.
    pub scratch: PathBuf,
    /// What the store is asked.
    pub asked: Arc<Counting>,
    recipients: Arc<[Recipient]>,
    /// What new objects are encrypted with.
    archive_key: Arc<Mutex<Known>>,
    /// What was asked of it when it was opened before.
    remembered: Arc<Remembered>,
    /// What was read of it by whoever has not begun yet.
    recalled: Arc<Recalled>,
    runtime: Handle,
}

/// How long a store may take to tell whose archive it has, where that is remembered.
const SOON: Duration = Duration::from_secs(5);

impl Site {
    /// The one at `store`, if nothing in it is encrypted.
    pub fn open_to_all(store: Arc<dyn Store>, scratch: &Path) -> Self {
        Self { store, cluster: None, keyring: Arc::default(), recipients: Vec::new(), scratch: scratch.into() }
    }

    /// Whose archive is there, if there is one.
    async fn cluster(&self) -> Result<Option<Cluster>, Error> {
        let (store, which) = (Arc::clone(&self.store), Which { cluster: self.cluster.clone(), layout: None });
        let handle = Handle::current();
        let open = move || match Archive::open(store, handle, &which, Arc::new(NoKeys)) {
            Ok(archive) => Ok(archive.cluster().cloned()),
            Err(Error::Pick { source: PickError::Nothing | PickError::NotThere { .. }, .. }) => Ok(None),
            Err(error) => Err(error),
        };
        blocking(open).await
    }

    /// Makes an archive there. Another agent may make it at the same moment: then that one is it.
    async fn found(&self, now: Timestamp) -> Result<Cluster, Error> {
        let name = self.cluster.clone().unwrap_or_else(|| DEFAULT_NAME.into());
        let (folder, cluster) = (format!("{name}/"), Cluster { name, id: ClusterUid(rand::random()) });
        let note = ClusterNote { format: FORMAT, cluster, made: now, program: PROGRAM.into() };
        match found_cluster(&*self.store, &folder, &note).await {
            Ok(founded) => Ok(founded.cluster),
            // Whether it is of the same cluster is seen before anything is written.
            Err(Error::Fence(FenceError::OtherCluster { theirs, ours })) if theirs.name == ours.name => Ok(theirs),
            Err(error) => Err(error),
        }
    }
}

impl Home {
    /// The archive of `cluster` at `site`. Nothing is asked of the store.
    pub fn at(site: Site, cluster: Cluster) -> Self {
        let Site { store, keyring, recipients, scratch, .. } = site;
        let asked = Arc::new(Counting::new(store));
        Self {
            store: Arc::clone(&asked) as _,
            cluster,
            keyring,
            scratch,
            asked,
            recipients: recipients.into(),
            archive_key: Arc::default(),
            remembered: Arc::default(),
            recalled: Arc::default(),
            runtime: Handle::current(),
        }
    }

    /// Finds the archive at `site`, or makes it.
    pub async fn find(site: Site, now: Timestamp) -> Result<Self, Error> {
        let cluster = match site.cluster().await? {
            Some(cluster) => cluster,
            None => site.found(now).await?,
        };
        let home = Self::at(site, cluster);
        home.be_ready_to_write(now).await?;
        Ok(home)
    }

    /// The same; but where the store does not answer now, or has nothing now, the archive is the one whose spool is below
    /// `spools`, if there is one: it is waited for by whoever writes to it, and made a second time by nobody.
    pub async fn find_or_recall(site: Site, spools: &Path, now: Timestamp) -> Result<Self, Error> {
        let Some(recalled) = Memory::recall(spools, &site) else {
            let home = Self::find(site, now).await?;
            home.be_remembered(spools, now)?;
            return Ok(home);
        };
        let why = match timeout(SOON, site.cluster()).await {
            Ok(Ok(Some(cluster))) => {
                let home = Self::at(site, cluster);
                home.be_remembered(spools, now)?;
                return Ok(home);
            }
            Ok(Ok(None)) => "there is nothing".into(),
            Ok(Err(error)) if !matches!(error.kind(), Kind::Unavailable | Kind::Missing) => return Err(error),
            Ok(Err(error)) => in_one_line(&error),
            Err(_) => format!("it does not answer within {} s", SOON.as_secs()),
        };
        let place = site.store.place();
        tracing::warn!(place, cluster = recalled.name, why, "the archive is not there now, and is waited for");
        Ok(Self::at(site, recalled))
    }

    fn be_remembered(&self, spools: &Path, now: Timestamp) -> Result<(), Error> {
        let kept = Memory::keep(spools, self.store.place(), &self.cluster, now);
        kept.map_err(|source| Error::Scratch { folder: spools.into(), source })
    }

    /// The spool for what is on its way to it, below the folder of all spools.
    pub fn spool(&self, spools: &Path) -> PathBuf {
        memory::spool_of(spools, &self.cluster)
    }

    /// Requires that the archive is there, and still this cluster's.
    pub async fn require(&self) -> Result<(), Error> {
        match cluster_at(&*self.store, &self.folder()).await? {
            Some(note) if note.cluster == self.cluster => Ok(()),
            Some(note) => Err(FenceError::OtherCluster { theirs: note.cluster, ours: self.cluster.clone() }.into()),
            None => Err(Error::Pick { place: self.store.place().into(), source: PickError::Nothing }),
        }
    }

    /// The highest epoch that anybody had: what a later one writes counts only with a higher one. `writer.json` tells that, but
    /// it may be lost.
    pub async fn highest_epoch(&self) -> Result<Epoch, Error> {
        self.recalling().with(|archive, home| archive.highest_epoch(&home.scratch)).await
    }

    /// It for one look of whoever looks again when a request fails: what was read by then is not asked for once more.
    pub(crate) fn recalling(&self) -> Self {
        let store = Recalling::new(Arc::clone(&self.store), self.folder(), Arc::clone(&self.recalled));
        Self { store: Arc::new(store), ..self.clone() }
    }

    /// Forgets what such looks have read: it was enough, or there is nothing to begin.
    pub(crate) fn forget_what_was_read(&self) {
        self.recalled.forget();
    }

    /// The folder that it is in, with a slash at its end.
    pub fn folder(&self) -> String {
        format!("{}/", self.cluster.name)
    }

    /// It as it is listed now, for threads that may block.
    pub fn open(&self) -> Result<Archive, Error> {
        let which = Which { cluster: Some(self.cluster.name.clone()), layout: Some(archive::Layout::Refloat) };
        let mut archive = Archive::open(Arc::clone(&self.store), self.runtime.clone(), &which, Arc::new(NoKeys))?;
        archive.unlock_with(Arc::clone(&self.keyring));
        archive.remember_with(Arc::clone(&self.remembered));
        Ok(archive)
    }

    /// The same for what is done beside following, which must not be short of memory for it.
    pub fn open_beside(&self) -> Result<Archive, Error> {
        Ok(self.open()?.with_budget(Budget::BESIDE))
    }

    /// Does something with it as it is listed now, where waiting holds nobody up.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Archive, &Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let home = self.clone();
        blocking(move || work(&home.open()?, &home)).await
    }

    /// It for whoever cannot ask the store what new objects are encrypted with, and goes on where `spool` ends, with
    /// `before`: with the same key, if that can be opened and is for just those who are named; in the open, if that is, and
    /// nobody is named. Nothing if that does not show.
    pub(crate) async fn going_on_after(&self, before: &Header, spool: &Spool) -> Option<Self> {
        if !matches!(*self.known_key(), Known::NotYet) {
            return Some(self.clone());
        }
        let known = match &before.encryption {
            None if self.recipients.is_empty() => Known::InTheOpen,
            None => return None,
            Some(encryption) => Known::With(self.key_kept_in(spool, encryption.archive_key).await?),
        };
        Some(Self { archive_key: Arc::new(Mutex::new(known)), ..self.clone() })
    }

    /// How its objects are written at `now`.
    pub fn writing(&self, now: Timestamp) -> Result<Writing<'_>, KeyError> {
        let archive_key = match self.known_key().clone() {
            Known::NotYet => return Err(KeyError::NotYet),
            Known::InTheOpen => None,
            Known::With(key) => Some(key),
        };
        Ok(Writing { now, scratch: &self.scratch, archive_key })
    }
}

/// What an archive is called if nobody says.
const DEFAULT_NAME: &str = "etcd";

/// Runs what blocks where it may.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // Nobody takes it back, so it can only have panicked, or the program ends.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use archive::LineageId;
    use store::{Key, Memory as InMemory, Put};

    use super::*;
    use crate::follow::base::BasePlan;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn site(store: &Arc<InMemory>) -> Site {
        Site::open_to_all(Arc::clone(store) as _, &std::env::temp_dir())
    }

    #[tokio::test]
    async fn an_archive_that_was_there_before_is_waited_for_and_not_made_again() {
        let (store, spools) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let find = || Home::find_or_recall(site(&store), spools.path(), NOW);
        let first = find().await.unwrap();
        let note = Key::parse("etcd/cluster.json").unwrap();
        let bytes = store.get(&note, 0..1 << 20).await.unwrap();
        store.delete(std::slice::from_ref(&note)).await.remove(0).unwrap();

        let recalled = find().await.unwrap();
        assert_eq!(recalled.cluster, first.cluster);
        let nothing = recalled.require().await.unwrap_err();
        assert!(matches!(nothing, Error::Pick { source: PickError::Nothing, .. }), "{nothing}");
        assert!(store.get(&note, 0..1).await.is_err(), "nothing was made");

        store.put(&note, bytes, &Put::default()).await.unwrap();
        recalled.require().await.unwrap();
        assert_eq!(find().await.unwrap().cluster, first.cluster);

        // Somebody made another one there: that is not the one that was waited for.
        store.delete(std::slice::from_ref(&note)).await.remove(0).unwrap();
        let other = Home::find(site(&store), NOW).await.unwrap();
        assert!(matches!(recalled.require().await, Err(Error::Fence(FenceError::OtherCluster { .. }))));
        assert_eq!(find().await.unwrap().cluster, other.cluster);
    }

    #[tokio::test]
    async fn who_is_to_encrypt_writes_nothing_before_there_is_a_key() {
        let store = Arc::new(InMemory::new());
        let cluster = Home::find(site(&store), NOW).await.unwrap().cluster;
        let recipients = vec![Recipient::age(AGE).unwrap()];
        let site = Site { recipients, ..site(&store) };
        let home = Home::at(site.clone(), cluster.clone());
        assert!(matches!(home.writing(NOW), Err(KeyError::NotYet)));
        home.be_ready_to_write(NOW).await.unwrap();
        assert!(home.writing(NOW).unwrap().archive_key.is_some());

        // Nor is it known to whoever goes on without the store.
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(&folder.path().join("spool")).unwrap();
        let plan = BasePlan { member: 1, etcd_cluster: 2, lineage: LineageId::new(NOW, 1), epoch: Epoch(3) };
        let in_the_open = plan.header(&home.cluster, NOW);
        let (without_key, nobody) = (Home::at(site.clone(), cluster.clone()), Home::at(self::site(&store), cluster));
        assert!(without_key.going_on_after(&in_the_open, &spool).await.is_none());
        let open = nobody.going_on_after(&in_the_open, &spool).await.unwrap();
        assert!(open.writing(NOW).unwrap().archive_key.is_none());

        // Nor does anybody who was not told for whom go on with it in the open.
        let forgotten = Home::find(self::site(&store), NOW).await;
        assert!(matches!(forgotten, Err(Error::Key(KeyError::ForWhom { recipients })) if recipients.len() == 1));
    }

    /// A public key that nobody has the other half of.
    const AGE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
}
