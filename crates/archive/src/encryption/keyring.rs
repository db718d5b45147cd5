//! The keys that somebody has, and opening lockboxes with them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use age::x25519;

use crate::encryption::age_key::{self, AskPassphrase, PASSPHRASE, Passphrase};
use crate::encryption::archive_key::{ArchiveKey, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::kms::Kms;
use crate::encryption::local_key::LocalKey;
use crate::encryption::lockbox::{Lock, Lockbox, method};
use crate::encryption::recipient::{Recipient, takes_a_secret};
use crate::encryption::vault::Vault;
use crate::identity::Cluster;
use crate::sealing::Keys;

/// What somebody has to open archives with. Services and people are asked only when nothing else helps, and once for
/// each archive key.
#[derive(Default)]
pub struct Keyring {
    identities: Vec<x25519::Identity>,
    local: Vec<LocalKey>,
    kms: Vec<Kms>,
    vaults: Vec<Vault>,
    ask: Option<AskPassphrase>,
    opened: Mutex<BTreeMap<KeyId, Opened>>,
}

/// An archive key that was opened.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The key.
    pub key: ArchiveKey,
    /// Whether only somebody with a secret can have made the lock that opened, so that it is not a stranger's key.
    pub is_ours: bool,
}

impl Keyring {
    /// One that opens nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets who is asked for passphrases: those of identity files that are added later, and of archives.
    pub fn ask(&mut self, ask: AskPassphrase) {
        self.ask = Some(ask);
    }

    /// Adds the age identities of a file.
    pub fn add_age_file(&mut self, path: &Path) -> Result<(), KeyError> {
        self.identities.extend(age_key::read_identities(path, self.ask.as_ref())?);
        Ok(())
    }

    /// Adds the key of a file.
    pub fn add_key_file(&mut self, path: &Path) -> Result<(), KeyError> {
        self.local.push(LocalKey::read(path)?);
        Ok(())
    }

    /// Adds the keys of a KMS.
    pub fn add_kms(&mut self, kms: Kms) {
        self.kms.push(kms);
    }

    /// Adds the keys of a Vault.
    pub fn add_vault(&mut self, vault: Vault) {
        self.vaults.push(vault);
    }

    /// Adds what things are locked for `recipient` with, if that opens them too: whoever locks with a secret has it.
    pub fn add_recipient(&mut self, recipient: &Recipient) {
        match recipient {
            Recipient::Age(_) => {}
            Recipient::Passphrase(Passphrase { secret, .. }) => {
                let secret = secret.clone();
                self.ask = Some(Arc::new(move |_| Ok(secret.clone())));
            }
            Recipient::KeyFile(key) => self.local.push(key.clone()),
            Recipient::AwsKms(key) => self.kms.push(key.kms.clone()),
            Recipient::Vault(key) => self.vaults.push(key.vault.clone()),
        }
    }

    /// The names of what it has, none of them secret.
    pub fn names(&self) -> Vec<String> {
        let identities = self.identities.iter().map(|identity| identity.to_public().to_string());
        let services = self.kms.iter().map(|kms| format!("{kms:?}"));
        let vaults = self.vaults.iter().map(|_| "vault".to_owned());
        let asked = self.ask.iter().map(|_| PASSPHRASE.to_owned());
        let all = identities.chain(self.local.iter().map(LocalKey::name)).chain(services).chain(vaults).chain(asked);
        let mut names: Vec<String> = Vec::new();
        all.for_each(|name| {
            if !names.contains(&name) {
                names.push(name)
            }
        });
        names
    }

    /// Opens a lockbox of the archive of `cluster`.
    pub async fn open(&self, cluster: &Cluster, lockbox: &Lockbox) -> Result<Opened, KeyError> {
        if lockbox.cluster.id != cluster.id {
            let name = |cluster: &Cluster| format!("{} ({})", cluster.name, cluster.id);
            let (theirs, ours) = (name(&lockbox.cluster), name(cluster));
            return Err(KeyError::OtherArchive { id: lockbox.id, theirs, ours });
        }
        if let Some(opened) = self.known(lockbox.id) {
            return Ok(opened);
        }
        let opened = self.try_locks(lockbox).await?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(lockbox.id, opened.clone());
        Ok(opened)
    }

    /// An archive key that was opened before.
    pub(crate) fn known(&self, id: KeyId) -> Option<Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Keeps a key that was drawn here.
    pub(crate) fn keep(&self, key: &ArchiveKey) {
        let opened = Opened { key: key.clone(), is_ours: true };
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(key.id(), opened);
    }

    /// Whether it is open already, or a key at hand opens it. Nobody is asked for anything.
    pub(crate) fn opens_at_once(&self, lockbox: &Lockbox) -> bool {
        let opens = |lock: &Lock| self.open_at_once(lockbox, lock).is_some_and(|opened| opened.is_ok());
        self.known(lockbox.id).is_some() || lockbox.locks.iter().any(opens)
    }

    /// The locks of `lockbox` that do not open with the key at hand that they are for, or with none there could be.
    pub(crate) fn changed_locks<'l>(&self, lockbox: &'l Lockbox) -> Vec<&'l Lock> {
        let is_changed = |lock: &&Lock| match self.open_at_once(lockbox, lock) {
            Some(opened) => opened.is_err(),
            None => lock.bytes().is_none(),
        };
        lockbox.locks.iter().filter(is_changed).collect()
    }

    /// A lock that fails does not keep the others from being tried; if none opens, the first failure is told.
    async fn try_locks(&self, lockbox: &Lockbox) -> Result<Opened, KeyError> {
        let mut failure = None;
        for method in [method::KEY_FILE, method::AGE, method::AWS_KMS, method::VAULT, method::PASSPHRASE] {
            for lock in lockbox.locks.iter().filter(|lock| lock.method == method) {
                match self.try_lock(lockbox, lock).await {
                    Ok(Some(key)) => return Ok(Opened { key, is_ours: takes_a_secret(lock) }),
                    Ok(None) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        let none = || KeyError::NoKey { id: lockbox.id, recipients: lockbox.recipients(), given: self.names() };
        Err(failure.unwrap_or_else(none))
    }

    /// The key in `lock`. Nothing if what it takes is not here.
    async fn try_lock(&self, lockbox: &Lockbox, lock: &Lock) -> Result<Option<ArchiveKey>, KeyError> {
        if let Some(opened) = self.open_at_once(lockbox, lock) {
            return opened.map(Some);
        }
        let Some(locked) = lock.bytes() else { return Err(lockbox.tampered(lock)) };
        let plain = match lock.method.as_str() {
            method::AWS_KMS => match self.ask_kms(lockbox, lock).await? {
                Some(plain) => plain,
                None => return Ok(None),
            },
            method::VAULT => match self.ask_vaults(lock).await? {
                Some(plain) => plain,
                None => return Ok(None),
            },
            method::PASSPHRASE => {
                let Some(ask) = &self.ask else { return Ok(None) };
                let of = format!("the archive of {}", lockbox.cluster.name);
                let secret = ask(&of).map_err(|what| KeyError::NoPassphrase { what })?;
                age_key::open_with_passphrase(lockbox.id, secret, &locked, &of)?
            }
            _ => return Ok(None),
        };
        lockbox.key(lock, &plain).map(Some)
    }

    /// The key in `lock`, by a key at hand. Nothing if that is not here, or somebody would have to be asked.
    fn open_at_once(&self, lockbox: &Lockbox, lock: &Lock) -> Option<Result<ArchiveKey, KeyError>> {
        let locked = lock.bytes();
        let tampered = || lockbox.tampered(lock);
        Some(match lock.method.as_str() {
            method::KEY_FILE => {
                let local = self.local.iter().find(|local| local.name() == lock.recipient)?;
                let secret = locked.and_then(|locked| local.open(lockbox.id, &locked)).ok_or_else(tampered);
                secret.and_then(|secret| lockbox.key(lock, secret.bytes()))
            }
            method::AGE => {
                let is_meant = |identity: &&x25519::Identity| identity.to_public().to_string() == lock.recipient;
                let identity = self.identities.iter().find(is_meant)?;
                let plain = locked.and_then(|locked| age_key::open(identity, &locked)).ok_or_else(tampered);
                plain.and_then(|plain| lockbox.key(lock, &plain))
            }
            _ => return None,
        })
    }

    /// The first KMS that opens it, or else what the first said: each region is another.
    async fn ask_kms(&self, lockbox: &Lockbox, lock: &Lock) -> Result<Option<Vec<u8>>, KeyError> {
        let mut failure = None;
        for kms in &self.kms {
            match kms.open(lockbox.cluster.id, lockbox.id, lock).await {
                Ok(plain) => return Ok(Some(plain)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    async fn ask_vaults(&self, lock: &Lock) -> Result<Option<Vec<u8>>, KeyError> {
        let mut failure = None;
        for vault in &self.vaults {
            match vault.open(lock).await {
                Ok(plain) => return Ok(Some(plain)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

/// Those that were opened with it, or drawn by whoever has it.
impl Keys for Keyring {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        self.known(id).map(|opened| opened.key)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyring").field(&self.names()).finish()
    }
}
