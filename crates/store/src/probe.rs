//! Tries what a store can do, and what we may do there, before it matters.
//!
//! A store may not do what its settings say, and whoever set it up may have forgotten a permission. Everything is tried with
//! objects in a folder of its own, which are gone afterwards.

use bytes::Bytes;

use crate::error::{Fault, StoreError};
use crate::key::{Key, NotAKey};
use crate::object::{Listing, Put, Retention, Tag};
use crate::store::{Abilities, Store};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trial {
    /// Writing an object.
    Put,
    /// Reading it.
    Get,
    /// Asking for it.
    Head,
    /// Listing it.
    List,
    /// Writing only where nothing is, and being refused where something is.
    PutIfAbsent,
    /// Replacing only what has not changed, and being refused if it has.
    PutIfUnchanged,
    /// Writing part by part.
    Upload,
    /// Giving an upload up, after finding it.
    GiveUp,
    /// Keeping an object from being deleted, and letting go of it.
    Retain,
    /// Deleting.
    Delete,
}

impl Trial {
    /// It in a word, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::PutIfAbsent => "put-if-absent",
            Self::PutIfUnchanged => "put-if-unchanged",
            Self::Upload => "upload",
            Self::GiveUp => "give-up",
            Self::Retain => "retain",
            Self::Delete => "delete",
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Probe {
    /// Each trial in turn. What depends on one that failed was not tried.
    pub results: Vec<(Trial, Result<(), StoreError>)>,
    /// Objects that could not be deleted.
    pub left: Vec<Key>,
}

impl Probe {
    /// Whether this was tried and works.
    pub fn works(&self, trial: Trial) -> bool {
        self.results.iter().any(|(tried, result)| *tried == trial && result.is_ok())
    }

    /// What the store can do: what it says, as far as that is true.
    pub fn abilities(&self, told: Abilities) -> Abilities {
        Abilities {
            put_if_absent: told.put_if_absent && self.works(Trial::PutIfAbsent),
            put_if_unchanged: told.put_if_unchanged && self.works(Trial::PutIfUnchanged),
            retention: told.retention && self.works(Trial::Retain),
            uploads: told.uploads && self.works(Trial::GiveUp),
            ..told
        }
    }
}

/// Tries everything that the store says it can do, in the folder `folder`, which nobody else uses.
pub async fn probe(store: &dyn Store, folder: &str) -> Result<Probe, NotAKey> {
    let scratch = Scratch::new(store, folder)?;
    let abilities = store.abilities();
    let mut results = Vec::new();

    let put = scratch.put().await;
    let written = put.as_ref().ok().cloned();
    results.push((Trial::Put, put.map(drop)));
    results.push((Trial::List, scratch.list(written.is_some()).await));
    if let Some(tag) = written {
        results.push((Trial::Get, scratch.get().await));
        results.push((Trial::Head, scratch.head().await));
        if abilities.put_if_absent {
            results.push((Trial::PutIfAbsent, scratch.put_if_absent().await));
        }
        if abilities.put_if_unchanged {
            results.push((Trial::PutIfUnchanged, scratch.put_if_unchanged(tag).await));
        }
        results.push((Trial::Upload, scratch.upload().await));
        if abilities.uploads {
            results.push((Trial::GiveUp, scratch.give_up().await));
        }
        if abilities.retention {
            results.push((Trial::Retain, scratch.retain().await));
        }
    }
    let (deleted, left) = scratch.delete().await;
    results.push((Trial::Delete, deleted));
    Ok(Probe { results, left })
}

struct Scratch<'s> {
    store: &'s dyn Store,
    folder: String,
    plain: Key,
    parts: Key,
    dropped: Key,
}

const TEXT: &str = "This was written to see whether it can be. It may be deleted.\n";

impl<'s> Scratch<'s> {
    fn new(store: &'s dyn Store, folder: &str) -> Result<Self, NotAKey> {
        let folder = format!("{}/{:016x}", folder.trim_end_matches('/'), rand::random::<u64>());
        let folder = folder.trim_start_matches('/').to_owned();
        let key = |name: &str| Key::parse(format!("{folder}/{name}"));
        Ok(Self { store, plain: key("plain")?, parts: key("parts")?, dropped: key("dropped")?, folder })
    }

    fn differs(&self, what: &str) -> StoreError {
        Fault::Nonsense(what.to_owned()).at("trying", self.store.place(), Some(&self.plain))
    }

    fn unable(&self, what: &'static str) -> StoreError {
        Fault::Unable(what).at("trying", self.store.place(), Some(&self.plain))
    }

    async fn put(&self) -> Result<Tag, StoreError> {
        self.store.put(&self.plain, TEXT.into(), &Put::default()).await
    }

    async fn get(&self) -> Result<(), StoreError> {
        match self.store.get(&self.plain, 5..1000).await? == TEXT.get(5..).unwrap_or_default() {
            true => Ok(()),
            false => Err(self.differs("what is read is not what was written")),
        }
    }

    async fn head(&self) -> Result<(), StoreError> {
        match self.store.head(&self.plain).await?.size_bytes == TEXT.len() as u64 {
            true => Ok(()),
            false => Err(self.differs("it has another size than what was written")),
        }
    }

    async fn list(&self, has_any: bool) -> Result<(), StoreError> {
        let page = self.store.list(&Listing::below(&*self.folder)).await?;
        match page.objects.iter().any(|info| info.key == self.plain) == has_any {
            true => Ok(()),
            false => Err(self.differs("what was written is not listed")),
        }
    }

    async fn put_if_absent(&self) -> Result<(), StoreError> {
        match self.store.put(&self.plain, TEXT.into(), &Put::if_absent()).await {
            Err(StoreError { fault: Fault::Exists, .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(self.unable("put only if nothing is there: it does so in any case")),
        }
    }

    async fn put_if_unchanged(&self, tag: Tag) -> Result<(), StoreError> {
        // Another put may have been carried out above although it was not to be.
        let tag = self.store.head(&self.plain).await?.tag.unwrap_or(tag);
        let newer =
            self.store.put(&self.plain, format!("{TEXT}{TEXT}").into(), &Put::if_unchanged(tag.clone())).await?;
        let stale = self.store.put(&self.plain, TEXT.into(), &Put::if_unchanged(tag)).await;
        match stale {
            Err(StoreError { fault: Fault::Changed, .. }) => drop(newer),
            Err(error) => return Err(error),
            Ok(_) => return Err(self.unable("replace only if unchanged: it does so in any case")),
        }
        Ok(())
    }

    async fn upload(&self) -> Result<(), StoreError> {
        let upload = self.store.begin(&self.parts, &Put::default()).await?;
        let written = async {
            let part = self.store.put_part(&upload, 0, Bytes::from_static(TEXT.as_bytes())).await?;
            self.store.complete(&upload, &[part], &Put::default()).await
        };
        match written.await {
            Ok(_) => Ok(()),
            Err(error) => {
                let _ = self.store.abort(&upload).await;
                Err(error)
            }
        }
    }

    async fn give_up(&self) -> Result<(), StoreError> {
        let upload = self.store.begin(&self.dropped, &Put::default()).await?;
        let found = self.store.uploads(&format!("{}/", self.folder)).await;
        self.store.abort(&upload).await?;
        match found?.iter().any(|found| found.id == upload.id) {
            true => Ok(()),
            false => Err(self.differs("an upload that was begun is not listed")),
        }
    }

    async fn retain(&self) -> Result<(), StoreError> {
        let held = Retention { until: None, legal_hold: true };
        self.store.retain(&self.plain, held).await?;
        let seen = self.store.head(&self.plain).await;
        self.store.retain(&self.plain, Retention::default()).await?;
        match seen?.retention {
            Some(retention) if retention.legal_hold => Ok(()),
            _ => Err(self.differs("a hold that was put on does not show")),
        }
    }

    async fn delete(&self) -> (Result<(), StoreError>, Vec<Key>) {
        let keys = [self.plain.clone(), self.parts.clone()];
        let mut left = Vec::new();
        let mut first = Ok(());
        for (key, result) in keys.into_iter().zip(self.store.delete(&[self.plain.clone(), self.parts.clone()]).await) {
            if let Err(error) = result {
                left.push(key);
                first = first.and(Err(error));
            }
        }
        (first, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[tokio::test]
    async fn what_a_store_can_do_is_found_out_and_nothing_is_left() {
        let store = Memory::new();
        let probe = probe(&store, "doctor").await.unwrap();

        assert!(probe.results.iter().all(|(_, result)| result.is_ok()), "{probe:?}");
        assert_eq!(probe.results.len(), 10);
        assert_eq!(probe.abilities(store.abilities()), store.abilities());
        assert_eq!(store.list(&Listing::default()).await.unwrap().objects, []);
        assert_eq!(store.uploads("").await.unwrap(), []);
    }

    #[tokio::test]
    async fn what_it_says_it_cannot_do_is_not_tried() {
        let memory = Memory::new();
        let abilities =
            Abilities { put_if_absent: false, put_if_unchanged: false, retention: false, ..memory.abilities() };
        let store = memory.with_abilities(abilities);
        let probe = probe(&store, "").await.unwrap();
        assert!(probe.results.iter().all(|(_, result)| result.is_ok()), "{probe:?}");
        assert_eq!(probe.abilities(abilities), abilities);
    }
}
