//! The archive that the agent writes, and what reaches it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::about::ClusterNote;
use archive::archive::{Archive, Which};
use archive::catalogue::PickError;
use archive::encryption::{Keyring, Lockboxes, Recipient, WritingKey};
use archive::fence::FenceError;
use archive::founding::found_cluster;
use archive::header::{FORMAT, PROGRAM};
use archive::identity::ClusterUid;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Cluster, Error};
use jiff::Timestamp;
use store::Store;
use store::counting::Counting;
use tokio::runtime::Handle;

/// One cluster's archive at its place.
#[derive(Clone)]
pub struct Home {
    /// Where it is.
    pub store: Arc<dyn Store>,
    /// Whose it is.
    pub cluster: Cluster,
    /// What opens its objects.
    pub keyring: Arc<Keyring>,
    /// What new objects are encrypted with, if they are.
    pub archive_key: Option<WritingKey>,
    /// The folder for scratch files.
    pub scratch: PathBuf,
    /// What the store is asked.
    pub asked: Arc<Counting>,
    runtime: Handle,
}

impl Home {
    /// Finds the archive of the cluster that is called `name` at `store`, or makes it. A name need not be given where
    /// there is one archive only.
    pub async fn find(
        store: Arc<dyn Store>,
        name: Option<&str>,
        keyring: Arc<Keyring>,
        scratch: &Path,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let asked = Arc::new(Counting::new(store));
        let store: Arc<dyn Store> = Arc::clone(&asked) as _;
        let (place, which) = (Arc::clone(&store), Which { cluster: name.map(str::to_owned), layout: None });
        let handle = Handle::current();
        let found = blocking(move || match Archive::open(place, handle, &which, Arc::new(NoKeys)) {
            Ok(archive) => Ok(archive.cluster().cloned()),
            Err(Error::Pick { source: PickError::Nothing | PickError::NotThere { .. }, .. }) => Ok(None),
            Err(error) => Err(error),
        });
        let cluster = match found.await? {
            Some(cluster) => cluster,
            None => {
                let cluster = Cluster { name: name.unwrap_or(DEFAULT_NAME).into(), id: ClusterUid(rand::random()) };
                let folder = format!("{}/", cluster.name);
                let note = ClusterNote { format: FORMAT, cluster, made: now, program: PROGRAM.into() };
                match found_cluster(&*store, &folder, &note).await {
                    Ok(founded) => founded.cluster,
                    // Another agent made it a moment ago. Whether it is of the same cluster is seen before anything is written.
                    Err(Error::Fence(FenceError::OtherCluster { theirs, ours })) if theirs.name == ours.name => theirs,
                    Err(error) => return Err(error),
                }
            }
        };
        let (scratch, runtime) = (scratch.into(), Handle::current());
        Ok(Self { store, cluster, keyring, archive_key: None, scratch, asked, runtime })
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
        Ok(archive)
    }

    /// From now on, what is written is for `recipients` only.
    pub async fn encrypt_for(&mut self, recipients: &[Recipient], now: Timestamp) -> Result<(), Error> {
        let folder = self.folder();
        let lockboxes =
            Lockboxes { store: &*self.store, folder: &folder, cluster: &self.cluster, keyring: &self.keyring };
        self.archive_key = Some(lockboxes.to_write(recipients, now).await?);
        Ok(())
    }

    /// Does something with it as it is listed now, where waiting holds nobody up.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Archive, &Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let home = self.clone();
        blocking(move || work(&home.open()?, &home)).await
    }

    /// How its objects are written at `now`.
    pub fn writing(&self, now: Timestamp) -> Writing<'_> {
        Writing { now, scratch: &self.scratch, archive_key: self.archive_key.clone() }
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
    use std::collections::BTreeSet;

    use futures::future::join_all;
    use store::Memory;

    use super::*;

    #[tokio::test]
    async fn of_those_who_begin_together_one_makes_the_archive_and_all_have_it() {
        let (store, scratch): (Arc<dyn Store>, _) = (Arc::new(Memory::new()), std::env::temp_dir());
        let find = || Home::find(Arc::clone(&store), None, Arc::new(Keyring::new()), &scratch, Timestamp::UNIX_EPOCH);
        let homes = join_all((0..20).map(|_| find())).await;
        let ids: BTreeSet<String> = homes.into_iter().map(|home| home.unwrap().cluster.id.to_string()).collect();
        assert_eq!(ids.len(), 1);
    }
}
