//! The lockboxes of an archive: finding the key to read with and the key to write with, and changing who has them.

use std::collections::BTreeSet;

use bytes::Bytes;
use jiff::Timestamp;
use store::{Fault, Key, Listing, Put, Store, StoreError, Tag};

use crate::encryption::archive_key::{ArchiveKey, CIPHER, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::keyring::{Keyring, Opened};
use crate::encryption::lockbox::{FORMAT, Lock, Lockbox, MAX_LOCKBOX_BYTES};
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
}

/// What became of a lockbox when the recipients were changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocked {
    /// Which archive key.
    pub id: KeyId,
    /// Who can open it now and could not before.
    pub added: Vec<String>,
    /// Who could before and has no lock any more.
    pub removed: Vec<String>,
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
        found.sort_by_key(|(lockbox, _)| lockbox.created);
        for (lockbox, _) in found.iter().rev() {
            let fits =
                lockbox.superseded.is_none() && lockbox.recipients().into_iter().collect::<BTreeSet<_>>() == wanted;
            if !fits {
                continue;
            }
            if let Ok(Opened { key, is_ours: true }) = self.keyring.open(self.cluster, lockbox).await {
                return Ok(WritingKey { key, recipients: lockbox.recipients() });
            }
        }
        self.draw(recipients, now).await
    }

    /// Draws a new archive key for `recipients`.
    pub async fn draw(&self, recipients: &[Recipient], now: Timestamp) -> Result<WritingKey, Error> {
        let key = ArchiveKey::draw(self.cluster.id);
        let lockbox = Lockbox {
            format: FORMAT,
            cluster: self.cluster.clone(),
            id: key.id(),
            created: now,
            superseded: None,
            program: PROGRAM.into(),
            locks: self.locks(recipients, &key).await?,
        };
        let place = self.place(key.id())?;
        // An id is made of a key that was just drawn, so that what is there can only be our own first try.
        match self.store.put(&place, lockbox.to_bytes().into(), &self.if_absent()).await {
            Err(StoreError { fault: Fault::Exists, .. }) if self.is_there(&lockbox).await? => {}
            put => drop(put?),
        }
        self.keyring.keep(&key);
        Ok(WritingKey { key, recipients: lockbox.recipients() })
    }

    /// Locks every archive key for `recipients`, and for nobody else. Those whom somebody is taken from are written
    /// with no more. Tells of each lockbox that could be opened or not.
    pub async fn relock(
        &self,
        recipients: &[Recipient],
        now: Timestamp,
    ) -> Result<Vec<(KeyId, Result<Relocked, Error>)>, Error> {
        if recipients.is_empty() {
            return Err(KeyError::NoRecipients.into());
        }
        let mut told = Vec::new();
        for (lockbox, tag) in self.all().await? {
            told.push((lockbox.id, self.relock_one(&lockbox, tag, recipients, now).await));
        }
        Ok(told)
    }

    async fn relock_one(
        &self,
        lockbox: &Lockbox,
        tag: Option<Tag>,
        recipients: &[Recipient],
        now: Timestamp,
    ) -> Result<Relocked, Error> {
        let key = self.keyring.open(self.cluster, lockbox).await?.key;
        let locks = self.locks(recipients, &key).await?;
        let (had, have) = (lockbox.recipients().into_iter().collect::<BTreeSet<_>>(), names(recipients));
        let removed: Vec<String> = had.difference(&have).cloned().collect();
        let added = have.difference(&had).cloned().collect();
        let superseded = lockbox.superseded.or((!removed.is_empty()).then_some(now));
        let next = Lockbox { superseded, locks, program: PROGRAM.into(), ..lockbox.clone() };
        let put = match tag.filter(|_| self.store.abilities().put_if_unchanged) {
            Some(tag) => Put::if_unchanged(tag),
            None => Put::default(),
        };
        match self.store.put(&self.place(lockbox.id)?, next.to_bytes().into(), &put).await {
            Err(StoreError { fault: Fault::Changed, .. }) if self.is_there(&next).await? => {}
            put => drop(put?),
        }
        Ok(Relocked { id: lockbox.id, added, removed })
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
        let mut next = Some(Listing::below(format!("{}keys", self.folder)));
        let mut lockboxes = Vec::new();
        while let Some(listing) = next {
            let page = self.store.list(&listing).await?;
            for info in &page.objects {
                let name = info.key.as_str().strip_prefix(self.folder).and_then(Name::parse);
                if let Some(Name::Lockbox(id)) = name {
                    lockboxes.extend(self.read(id).await?);
                }
            }
            next = page.next;
        }
        Ok(lockboxes)
    }

    async fn locks(&self, recipients: &[Recipient], key: &ArchiveKey) -> Result<Vec<Lock>, Error> {
        let mut locks = Vec::new();
        for recipient in recipients {
            locks.push(recipient.lock(self.cluster.id, key).await?);
        }
        Ok(locks)
    }

    async fn is_there(&self, lockbox: &Lockbox) -> Result<bool, Error> {
        Ok(self.read(lockbox.id).await?.is_some_and(|(found, _)| found == *lockbox))
    }

    fn if_absent(&self) -> Put {
        if self.store.abilities().put_if_absent { Put::if_absent() } else { Put::default() }
    }

    fn place(&self, id: KeyId) -> Result<Key, Error> {
        Ok(Name::Lockbox(id).below(self.folder)?)
    }
}

fn names(recipients: &[Recipient]) -> BTreeSet<String> {
    recipients.iter().map(Recipient::name).collect()
}
