//! Opening the archive keys that objects name, with the keys that somebody has.
//!
//! Objects are opened several at a time, and they mostly name the same archive key: it is asked for once, whatever
//! comes of it, because a passphrase takes its time and a key service has to be paid.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use store::Store;
use tokio::runtime::Handle;

use crate::archive::Archive;
use crate::encryption::{ArchiveKey, KeyError, KeyId, Keyring, Lockboxes};
use crate::error::Error;
use crate::identity::Cluster;
use crate::sealing::Keys;

/// The archive keys of one archive, as far as a keyring opens them.
pub struct Unlocking {
    store: Arc<dyn Store>,
    runtime: Handle,
    /// As [`Lockboxes::folder`].
    folder: String,
    /// Whose archive it is. Other systems' archives have no keys.
    cluster: Option<Cluster>,
    keyring: Arc<Keyring>,
    asked: Mutex<BTreeMap<KeyId, Result<ArchiveKey, Arc<Error>>>>,
}

impl Archive {
    /// Opens what is encrypted with `keyring` from now on. What comes back tells why a key could not be had.
    pub fn unlock_with(&mut self, keyring: Arc<Keyring>) -> Arc<Unlocking> {
        let folder = self.within();
        let unlocking = Arc::new(Unlocking {
            store: Arc::clone(&self.store),
            runtime: self.runtime.clone(),
            folder,
            cluster: self.cluster().cloned(),
            keyring,
            asked: Mutex::default(),
        });
        self.keys = Arc::clone(&unlocking) as Arc<dyn Keys + Send + Sync>;
        unlocking
    }
}

impl Unlocking {
    /// Why an archive key that an object named could not be had, if that happened.
    pub fn refused(&self) -> Option<Arc<Error>> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.values().find_map(|key| key.as_ref().err().cloned())
    }

    fn open(&self, id: KeyId) -> Result<ArchiveKey, Error> {
        let missing = || KeyError::Missing { id, recipients: Vec::new() };
        let cluster = self.cluster.as_ref().ok_or_else(missing)?;
        let lockboxes = Lockboxes { store: &*self.store, folder: &self.folder, cluster, keyring: &self.keyring };
        self.runtime.block_on(async {
            let (lockbox, _) = lockboxes.read(id).await?.ok_or_else(missing)?;
            Ok(self.keyring.open(cluster, &lockbox).await?.key)
        })
    }
}

impl Keys for Unlocking {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        // Held meanwhile, so that the others wait for what comes of the first.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.entry(id).or_insert_with(|| self.open(id).map_err(Arc::new)).as_ref().ok().cloned()
    }

    fn refusal(&self, id: KeyId) -> Option<Arc<Error>> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(&id)?.as_ref().err().cloned()
    }
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret;
    use age::x25519::Identity;
    use bytes::Bytes;
    use jiff::Timestamp;
    use store::{Key, Memory, Put};

    use super::*;
    use crate::about::ClusterNote;
    use crate::archive::Which;
    use crate::encryption::Recipient;
    use crate::identity::ClusterUid;
    use crate::sealing::NoKeys;

    #[test]
    fn the_key_that_an_object_names_is_opened_or_it_is_told_why_not() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let store: Arc<Memory> = Arc::new(Memory::new());
        let cluster = Cluster { name: "prod".into(), id: ClusterUid(1) };
        let made: Timestamp = "2026-11-21T09:30:00Z".parse().unwrap();
        let note = ClusterNote { format: 1, cluster: cluster.clone(), made, program: "test".into() };
        let identity = Identity::generate();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), identity.to_string().expose_secret()).unwrap();
        let mut mine = Keyring::new();
        mine.add_age_file(file.path()).unwrap();
        let written = runtime.block_on(async {
            let bytes = Bytes::from(serde_json::to_vec(&note).unwrap());
            store.put(&Key::parse("prod/cluster.json").unwrap(), bytes, &Put::default()).await.unwrap();
            let nobody = Keyring::new();
            let lockboxes = Lockboxes { store: &*store, folder: "prod/", cluster: &cluster, keyring: &nobody };
            lockboxes.to_write(&[Recipient::Age(identity.to_public())], made).await.unwrap()
        });

        let open = || {
            let store = Arc::clone(&store) as Arc<dyn Store>;
            Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap()
        };
        let unlocking = open().unlock_with(Arc::new(mine));
        assert_eq!(unlocking.archive_key(written.key.id()).unwrap().id(), written.key.id());
        assert!(unlocking.refused().is_none());

        let unlocking = open().unlock_with(Arc::new(Keyring::new()));
        assert!(unlocking.archive_key(written.key.id()).is_none());
        assert!(matches!(&*unlocking.refused().unwrap(), Error::Key(KeyError::NoKey { .. })));
    }
}
