//! Lockboxes that are of no use. Who holds no key can still delete, by what is proven; but where the lockbox itself is gone,
//! nobody reads what it locked, whichever keys they have, however well that is proven.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_data::Kind;

use crate::archive::Archive;
use crate::encryption::{KeyError, KeyId, Keyring, Lockboxes};
use crate::error::{Error, is_its_own};
use crate::headers::Locked;
use crate::name::Name;

/// Lockboxes that are of no use, by their archive key, and what is wrong with each.
pub(super) type Lost = BTreeMap<KeyId, Arc<Error>>;

impl Archive {
    /// Those of the archive keys `named` whose lockbox nobody can open, whoever has which keys.
    pub(super) fn lost_lockboxes(&self, named: &BTreeMap<KeyId, Locked>) -> Result<Lost, Error> {
        let mut lost = Lost::new();
        for (id, locked) in named {
            if let Some(error) = self.lockbox_fault(*id, locked)? {
                lost.insert(*id, Arc::new(error));
            }
        }
        Ok(lost)
    }

    /// Those of the archive keys `named` whose lockbox turned out to be damaged when it was to be opened: it takes a key to find
    /// that out.
    pub(super) fn tampered_lockboxes(&self, named: &BTreeMap<KeyId, Locked>) -> Lost {
        let refused = named.keys().filter_map(|id| Some((*id, self.keys.refusal(*id)?)));
        refused.filter(|(_, error)| error.kind() == Kind::Corrupt).collect()
    }

    /// The error that tells of one of the lockboxes in `lost`, if any is.
    pub(super) fn require_lockboxes(&self, lost: &Lost) -> Result<(), Error> {
        match lost.first_key_value() {
            Some((id, source)) => {
                Err(Error::Lockbox { key: self.key(&Name::Lockbox(*id)), source: Arc::clone(source) })
            }
            None => Ok(()),
        }
    }

    fn lockbox_fault(&self, id: KeyId, locked: &Locked) -> Result<Option<Error>, Error> {
        let Some(cluster) = self.cluster() else { return Ok(None) };
        let (folder, nobody) = (self.within(), Keyring::new());
        let lockboxes = Lockboxes { store: &*self.store, folder: &folder, cluster, keyring: &nobody };
        let (lockbox, _) = match self.runtime.block_on(lockboxes.read(id)) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Some(KeyError::Missing { id, recipients: locked.recipients.clone() }.into())),
            Err(error) if is_its_own(error.kind()) => return Ok(Some(error)),
            Err(error) => return Err(error),
        };
        let malformed = |what: String| Ok(Some(KeyError::Malformed { id, what }.into()));
        if lockbox.cluster.id != cluster.id {
            return malformed(format!("it is of the cluster {} ({})", lockbox.cluster.name, lockbox.cluster.id));
        }
        // Who was handed the key in another way needs no lock.
        if lockbox.locks.is_empty() && self.keys.archive_key(id).is_none() {
            return malformed("it is locked for nobody".into());
        }
        Ok(None)
    }
}
