//! The lockboxes of an archive: finding the key to read with and the key to write with, and changing who has them.

use std::collections::BTreeSet;

use bytes::Bytes;
use jiff::Timestamp;
use store::{Fault, Key, Listing, Put, Store, StoreError, Tag};

use crate::encryption::age_key;
use crate::encryption::archive_key::{ArchiveKey, CIPHER, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::keyring::{Keyring, Opened};
use crate::encryption::lockbox::{FORMAT, Lock, Lockbox, MAX_LOCKBOX_BYTES, MAX_LOCKS, method};
use crate::encryption::recipient::Recipient;
use crate::encryption::segment::MAX_SEGMENT_BYTES;
use crate::error::Error;
use crate::header::{Encryption, PROGRAM};
use crate::identity::Cluster;
use crate::name::Name;

/// The lockboxes of one cluster's archive, and what they are opened with.
#[derive(Debug, Clone, Copy)]
pub struct Lockboxes<'a> {
    /// Where the archive is.
    pub store: &'a dyn Store,
    /// Its folder there: empty, or with a slash at its end.
    pub folder: &'a str,
    /// Whose it is.
    pub cluster: &'a Cluster,
    /// What there is to open them with.
    pub keyring: &'a Keyring,
}

/// What new objects are encrypted with.
#[derive(Debug, Clone)]
pub struct WritingKey {
    /// The archive key.
    pub key: ArchiveKey,
    /// Who can open it, for the headers.
    pub recipients: Vec<String>,
    /// It as it lies in the archive, if that was looked at.
    pub lockbox: Option<Lockbox>,
}

/// What becomes of a lockbox when the recipients are changed.
#[derive(Debug, Clone)]
pub struct Relock {
    /// It, as it is before.
    pub lockbox: Lockbox,
    /// Who can open it then and cannot before. A passphrase that becomes another is here and among the removed.
    pub added: Vec<String>,
    /// Who can open it before and has no lock any more then.
    pub removed: Vec<String>,
    /// Whether nothing new is written with it any more, because of that.
    pub retires: bool,
    tag: Option<Tag>,
    key: ArchiveKey,
}

impl Lockboxes<'_> {
    /// Opens the archive key that an object's header names, and keeps it in the keyring.
    pub async fn open(&self, encryption: &Encryption) -> Result<ArchiveKey, Error> {
        let Encryption { cipher, segment_bytes, archive_key: id, recipients, .. } = encryption;
        if cipher != CIPHER || !(1..=MAX_SEGMENT_BYTES).contains(segment_bytes) {
            let (cipher, segment_bytes) = (cipher.chars().take(40).collect(), *segment_bytes);
            return Err(KeyError::UnknownCipher { cipher, segment_bytes }.into());
        }
        if let Some(opened) = self.keyring.known(*id) {
            return Ok(opened.key);
        }
        let (lockbox, _) =
            self.read(*id).await?.ok_or(KeyError::Missing { id: *id, recipients: recipients.clone() })?;
        Ok(self.keyring.open(self.cluster, &lockbox).await?.key)
    }

    /// The archive key that new objects are encrypted with for `recipients`; none, if there are none and nothing here is
    /// encrypted. What is encrypted for somebody is not gone on with in the open because nobody is named.
    pub async fn to_go_on(&self, recipients: &[Recipient], now: Timestamp) -> Result<Option<WritingKey>, Error> {
        if !recipients.is_empty() {
            return self.to_write(recipients, now).await.map(Some);
        }
        let current = self.all().await?.into_iter().find(|(lockbox, _)| lockbox.superseded.is_none());
        match current {
            None => Ok(None),
            Some((lockbox, _)) => Err(KeyError::ForWhom { recipients: lockbox.recipients() }.into()),
        }
    }

    /// The archive key that new objects are encrypted with for `recipients`: the newest that is locked for just them
    /// and is ours for sure, or else a new one, whose lockbox is in the store before anything is written with it.
    pub async fn to_write(&self, recipients: &[Recipient], now: Timestamp) -> Result<WritingKey, Error> {
        let wanted = names(recipients);
        if wanted.is_empty() {
            return Err(KeyError::NoRecipients.into());
        }
        let mut found = self.all().await?;
        let taken: Vec<String> = wanted.intersection(&taken_of(&found)).cloned().collect();
        if !taken.is_empty() {
            return Err(KeyError::TakenAway { recipients: taken }.into());
        }
        found.sort_by_key(|(lockbox, _)| lockbox.created);
        for (lockbox, _) in found.iter().rev() {
            if let Some(key) = self.key_in(lockbox, &wanted).await {
                return Ok(key);
            }
        }
        self.draw(recipients, now).await
    }

    /// The archive key `id`, to go on with for those of `recipients` who were not taken away. Nothing if there is no lockbox
    /// of it here, or it is none that new objects for just them are written with.
    pub async fn to_go_on_with(&self, id: KeyId, recipients: &[Recipient]) -> Result<Option<WritingKey>, Error> {
        let Some((lockbox, _)) = self.read(id).await? else { return Ok(None) };
        let mut wanted = names(recipients);
        wanted.retain(|name| !lockbox.taken.contains(name));
        Ok(self.key_in(&lockbox, &wanted).await)
    }

    /// The key in `lockbox`, if it is locked for just the `wanted` and is ours for sure.
    async fn key_in(&self, lockbox: &Lockbox, wanted: &BTreeSet<String>) -> Option<WritingKey> {
        let recipients = lockbox.recipients();
        if lockbox.superseded.is_some() || recipients.iter().collect::<BTreeSet<_>>() != wanted.iter().collect() {
            return None;
        }
        let opened = self.keyring.open(self.cluster, lockbox).await.ok()?;
        opened.is_ours.then(|| WritingKey { key: opened.key, recipients, lockbox: Some(lockbox.clone()) })
    }

    /// Draws a new archive key for `recipients`.
    pub async fn draw(&self, recipients: &[Recipient], now: Timestamp) -> Result<WritingKey, Error> {
        let key = ArchiveKey::draw(self.cluster.id);
        let lockbox = self.lock(&key, recipients, now).await?;
        let place = self.place(key.id())?;
        // An id is made of a key that was just drawn, so that what is there can only be our own first try.
        match self.store.put(&place, lockbox.to_bytes().into(), &Put::lasting(self.store.abilities())).await {
            Err(StoreError { fault: Fault::Exists, .. }) if self.is_there(&lockbox).await? => {}
            put => drop(put?),
        }
        self.keyring.keep(&key);
        Ok(WritingKey { key, recipients: lockbox.recipients(), lockbox: Some(lockbox) })
    }

    /// Those who were taken away: who writes leaves them out until they are let in again.
    pub async fn taken_away(&self) -> Result<BTreeSet<String>, Error> {
        Ok(taken_of(&self.all().await?))
    }

    /// Whether what is locked for `recipients` is opened by the keyring, or by what it is locked with. A key that
    /// is used for nothing else is locked and opened for that, so whoever refuses does so before anything is changed.
    pub async fn leave_a_way_in(&self, recipients: &[Recipient], now: Timestamp) -> Result<bool, Error> {
        let lockbox = self.lock(&ArchiveKey::draw(self.cluster.id), recipients, now).await?;
        let mut named = Keyring::new();
        recipients.iter().for_each(|recipient| named.add_recipient(recipient));
        Ok(named.open(self.cluster, &lockbox).await.is_ok() || self.keyring.open(self.cluster, &lockbox).await.is_ok())
    }

    /// What becomes of each lockbox if all are locked for `recipients`, and for nobody else; or why nothing does.
    /// Nothing is written.
    pub async fn plan_relock(&self, recipients: &[Recipient]) -> Result<Vec<(KeyId, Result<Relock, Error>)>, Error> {
        self.plan_relock_besides(&[], recipients).await
    }

    async fn plan_relock_besides(
        &self,
        done: &[(KeyId, Result<Relock, Error>)],
        recipients: &[Recipient],
    ) -> Result<Vec<(KeyId, Result<Relock, Error>)>, Error> {
        if recipients.is_empty() {
            return Err(KeyError::NoRecipients.into());
        }
        let mut plan = Vec::new();
        for id in self.ids().await? {
            if done.iter().any(|(before, _)| *before == id) {
                continue;
            }
            match self.read(id).await {
                Ok(None) => {}
                Ok(Some((lockbox, tag))) => plan.push((id, self.plan_one(lockbox, tag, recipients).await)),
                Err(error) => plan.push((id, Err(error))),
            }
        }
        Ok(plan)
    }

    async fn plan_one(&self, lockbox: Lockbox, tag: Option<Tag>, recipients: &[Recipient]) -> Result<Relock, Error> {
        let Opened { key, is_ours } = self.keyring.open(self.cluster, &lockbox).await?;
        let (had, have) = (lockbox.recipients().into_iter().collect::<BTreeSet<_>>(), names(recipients));
        let mut removed: Vec<String> = had.difference(&have).cloned().collect();
        let mut added: Vec<String> = have.difference(&had).cloned().collect();
        if let Some(lock) = changed_passphrase(&lockbox, recipients) {
            removed.push(lock.recipient.clone());
            added.push(lock.recipient.clone());
        }
        // A stranger's key must not become one that a writer takes for its own.
        let seems_ours = !is_ours && recipients.iter().any(Recipient::takes_a_secret);
        let retires = lockbox.superseded.is_none() && (!removed.is_empty() || seems_ours);
        Ok(Relock { lockbox, added, removed, retires, tag, key })
    }

    /// Locks every archive key for `recipients`, and for nobody else. Those whom somebody is taken from are written
    /// with no more. Tells of each lockbox that could be opened or not.
    pub async fn relock(
        &self,
        recipients: &[Recipient],
        now: Timestamp,
    ) -> Result<Vec<(KeyId, Result<Relock, Error>)>, Error> {
        let mut told = Vec::new();
        // Whoever writes may draw a key meanwhile, for those whom it was told: that one is seen the next time.
        loop {
            let plan = self.plan_relock_besides(&told, recipients).await?;
            if plan.is_empty() {
                return Ok(told);
            }
            for (id, relock) in plan {
                let done = match relock {
                    Ok(relock) => self.relock_one(&relock, recipients, now).await.map(|()| relock),
                    Err(error) => Err(error),
                };
                told.push((id, done));
            }
        }
    }

    async fn relock_one(&self, relock: &Relock, recipients: &[Recipient], now: Timestamp) -> Result<(), Error> {
        let Relock { lockbox, retires, tag, key, .. } = relock;
        let next = Lockbox {
            superseded: lockbox.superseded.or(retires.then_some(now)),
            taken: relock.taken(recipients),
            locks: self.locks(recipients, key).await?,
            program: PROGRAM.into(),
            ..lockbox.clone()
        };
        let put = match tag.clone().filter(|_| self.store.abilities().put_if_unchanged) {
            Some(tag) => Put::if_unchanged(tag),
            None => Put::default(),
        };
        // It lasts although it may be replaced: it has the only copy of its key, without which nothing can be read. Where what is
        // kept cannot be replaced, who has keys is not changed before that is over.
        let put = Put { lasts: true, ..put };
        match self.store.put(&self.place(lockbox.id)?, next.to_bytes().into(), &put).await {
            Err(StoreError { fault: Fault::Changed, .. }) if self.is_there(&next).await? => {}
            put => drop(put?),
        }
        Ok(())
    }

    /// A lockbox, and which content of it this is.
    pub async fn read(&self, id: KeyId) -> Result<Option<(Lockbox, Option<Tag>)>, Error> {
        let place = self.place(id)?;
        // The tag first: if the lockbox is replaced in between, a replacement of ours fails instead of undoing that
        // one.
        let head = match self.store.head(&place).await {
            Err(StoreError { fault: Fault::NotFound, .. }) => return Ok(None),
            head => head?,
        };
        if head.size_bytes == 0 {
            return Err(KeyError::Malformed { id, what: "it is empty".into() }.into());
        }
        let bytes: Bytes = self.store.get(&place, 0..MAX_LOCKBOX_BYTES as u64 + 1).await?;
        Ok(Some((Lockbox::parse(id, &bytes)?, head.tag)))
    }

    /// All lockboxes. One that cannot be read is an error: it may be the one that is needed.
    pub async fn all(&self) -> Result<Vec<(Lockbox, Option<Tag>)>, Error> {
        let mut lockboxes = Vec::new();
        for id in self.ids().await? {
            lockboxes.extend(self.read(id).await?);
        }
        Ok(lockboxes)
    }

    /// All lockboxes, or what is wrong with them. None is opened.
    pub async fn each(&self) -> Result<Vec<(KeyId, Result<Lockbox, Error>)>, Error> {
        let mut each = Vec::new();
        for id in self.ids().await? {
            let read = self.read(id).await;
            each.extend(read.map(|found| found.map(|(lockbox, _)| lockbox)).transpose().map(|lockbox| (id, lockbox)));
        }
        Ok(each)
    }

    /// The archive keys that have a lockbox.
    async fn ids(&self) -> Result<Vec<KeyId>, Error> {
        let mut next = Some(Listing::below(format!("{}keys", self.folder)));
        let mut ids = Vec::new();
        while let Some(listing) = next {
            let page = self.store.list(&listing).await?;
            let names = page.objects.iter().filter_map(|info| info.key.as_str().strip_prefix(self.folder));
            ids.extend(names.filter_map(Name::parse).filter_map(|name| match name {
                Name::Lockbox(id) => Some(id),
                _ => None,
            }));
            next = page.next;
        }
        Ok(ids)
    }

    /// A lockbox with `key`, locked for `recipients`. It is not in the store.
    async fn lock(&self, key: &ArchiveKey, recipients: &[Recipient], now: Timestamp) -> Result<Lockbox, Error> {
        Ok(Lockbox {
            format: FORMAT,
            cluster: self.cluster.clone(),
            id: key.id(),
            created: now,
            superseded: None,
            taken: Vec::new(),
            program: PROGRAM.into(),
            locks: self.locks(recipients, key).await?,
        })
    }

    async fn locks(&self, recipients: &[Recipient], key: &ArchiveKey) -> Result<Vec<Lock>, Error> {
        if recipients.len() > MAX_LOCKS {
            return Err(KeyError::TooManyRecipients { found: recipients.len(), allowed: MAX_LOCKS }.into());
        }
        let mut locks = Vec::new();
        for recipient in recipients {
            locks.push(recipient.lock(self.cluster.id, key).await?);
        }
        Ok(locks)
    }

    async fn is_there(&self, lockbox: &Lockbox) -> Result<bool, Error> {
        Ok(self.read(lockbox.id).await?.is_some_and(|(found, _)| found == *lockbox))
    }

    fn place(&self, id: KeyId) -> Result<Key, Error> {
        Ok(Name::Lockbox(id).below(self.folder)?)
    }
}

impl Relock {
    /// Who could open it before and cannot once it is locked for `recipients`: those of now, and those of earlier times.
    pub fn taken(&self, recipients: &[Recipient]) -> Vec<String> {
        let names = names(recipients);
        let taken: BTreeSet<&String> = self.lockbox.taken.iter().chain(&self.removed).collect();
        taken.into_iter().filter(|name| !names.contains(*name)).cloned().collect()
    }
}

fn names(recipients: &[Recipient]) -> BTreeSet<String> {
    recipients.iter().map(Recipient::name).collect()
}

fn taken_of(lockboxes: &[(Lockbox, Option<Tag>)]) -> BTreeSet<String> {
    lockboxes.iter().flat_map(|(lockbox, _)| &lockbox.taken).cloned().collect()
}

/// The lock of a passphrase, if `recipients` have another passphrase: all are called the same.
fn changed_passphrase<'l>(lockbox: &'l Lockbox, recipients: &[Recipient]) -> Option<&'l Lock> {
    let lock = lockbox.locks.iter().find(|lock| lock.method == method::PASSPHRASE)?;
    let next = recipients.iter().find_map(|recipient| match recipient {
        Recipient::Passphrase(passphrase) => Some(passphrase.secret.clone()),
        _ => None,
    })?;
    let opened = lock.bytes().map(|locked| age_key::open_with_passphrase(lockbox.id, next, &locked, &lock.recipient));
    opened.is_none_or(|opened| opened.is_err()).then_some(lock)
}
