//! Where claims stand, and how one takes the place of another.
//!
//! The claim stands in `writer.json`, which is replaced on condition that it has not changed. Where the place keeps what is written,
//! and so lets nothing be replaced before its time, claims are only ever created there, one after the other:
//!
//! ```text
//! writer/<number>.json      the claim with the highest number stands; the next one is put if its name is not taken
//! ```
//!
//! So of two who go on from the same claim one finds the name taken, as it would find another tag. It begins when a replacement of
//! `writer.json` is refused because that is kept: whoever is refused puts number 0, which says that `writer.json` is not changed
//! any more, and number 1 is what stood there then, whoever copies it first. From then on `writer.json` says nothing, whether the
//! place keeps it or not. Two things make that safe:
//!
//! - A replacement of `writer.json` counts only if number 0 is not there afterwards. One that does not count changes nothing: either
//!   it was copied to number 1, and stands there, or it was not.
//! - The last claim is never deleted, nor is number 0. Earlier ones are, when the place lets them go ([`crate::prune`]), and so the name
//!   of one may be free again for a writer that was paused for a day: a new claim counts only if none with a higher number is there
//!   afterwards.

use store::{Fault, Key, Listing, Put, Store, StoreError, Tag, When};

use crate::archive::Archive;
use crate::error::Error;
use crate::fence::{Claim, FenceError, MAX_CLAIM_BYTES};
use crate::header::PROGRAM;
use crate::name::Name;

/// The claims of one archive.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    store: &'a dyn Store,
    folder: String,
    replaced: Key,
    /// The highest number that was seen: listing begins before it.
    seen: u64,
}

/// The claim that stands, before it is read.
#[derive(Debug)]
pub(crate) struct Standing {
    key: Key,
    tag: Tag,
}

/// Of that number there is no claim: it says that `writer.json` is not changed any more.
const CLOSING: u64 = 0;

impl<'a> Claims<'a> {
    /// Those of the archive in `folder`, which is empty or ends with a slash.
    pub(crate) fn new(store: &'a dyn Store, folder: &str) -> Result<Self, Error> {
        Ok(Self { store, folder: folder.into(), replaced: Name::Writer.below(folder)?, seen: CLOSING })
    }

    /// What stands there.
    pub(crate) async fn look(&mut self) -> Result<Option<(Claim, Tag)>, Error> {
        match self.standing().await? {
            Some(standing) => Ok(Some(self.read(standing).await?)),
            None => Ok(None),
        }
    }

    /// Which claim stands there.
    pub(super) async fn standing(&mut self) -> Result<Option<Standing>, Error> {
        match self.last().await? {
            None => self.replaced().await,
            Some(CLOSING) => self.copy().await,
            Some(number) => Ok(Some(self.created(number)?)),
        }
    }

    /// Reads it. It was chosen before, so if another one has come since, a put that relies on it fails.
    pub(super) async fn read(&self, standing: Standing) -> Result<(Claim, Tag), Error> {
        let bytes = self.store.get(&standing.key, 0..MAX_CLAIM_BYTES as u64 + 1).await?;
        Ok((Claim::parse(&bytes)?, standing.tag))
    }

    /// Puts `claim` where it belongs, on the condition `when`, and makes sure that it counts.
    pub(crate) async fn put(&self, claim: &Claim, when: &When) -> Result<Tag, StoreError> {
        let tag = self.send(claim, when).await?;
        self.confirm(&tag).await?;
        Ok(tag)
    }

    /// Puts it. Whether it counts, if it was put, shows afterwards.
    pub(super) async fn send(&self, claim: &Claim, when: &When) -> Result<Tag, StoreError> {
        if let When::Unchanged(Tag(tag)) = when
            && let Some(number) = number_of(tag)
        {
            return self.create(number.saturating_add(1), claim.to_bytes()).await;
        }
        let sent = self.store.put(&self.replaced, claim.to_bytes().into(), &self.condition(when)).await;
        match (sent, when) {
            (Err(StoreError { fault: Fault::Retained { .. }, action, place, key }), When::Absent) => {
                Err(StoreError { action, place, key, fault: Fault::Exists })
            }
            (Err(StoreError { fault: Fault::Retained { .. }, action, place, key }), _) => {
                self.close().await?;
                Err(StoreError { action, place, key, fault: Fault::Changed })
            }
            (sent, _) => sent,
        }
    }

    /// Requires that what was put, and got this tag, counts.
    pub(super) async fn confirm(&self, tag: &Tag) -> Result<(), StoreError> {
        let (key, is_overtaken) = match number_of(&tag.0) {
            Some(number) => (self.key(number)?, self.last_after(Some(number)).await?.is_some()),
            None => (self.replaced.clone(), self.is_closed().await?),
        };
        match is_overtaken {
            true => Err(Fault::Changed.at("writing", self.store.place(), Some(&key))),
            false => Ok(()),
        }
    }

    /// Whether the store refuses what would be a second claim in the place of the one with this tag. `other` is another object, the
    /// tag of which is none that `writer.json` ever had.
    pub(super) async fn is_guarded(&self, claim: &Claim, tag: &Tag, other: &Key) -> Result<bool, StoreError> {
        if let Some(number) = number_of(&tag.0) {
            return self.is_refused(&self.key(number)?, claim, When::Absent).await;
        }
        if !self.is_refused(&self.replaced, claim, When::Absent).await? {
            return Ok(false);
        }
        match self.store.head(other).await.map(|info| info.tag) {
            Ok(Some(tag)) => self.is_refused(&self.replaced, claim, When::Unchanged(tag)).await,
            Ok(None) | Err(StoreError { fault: Fault::NotFound, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn is_refused(&self, key: &Key, claim: &Claim, when: When) -> Result<bool, StoreError> {
        let put = Put { when, ..Put::default() };
        match self.store.put(key, claim.to_bytes().into(), &put).await {
            Err(StoreError { fault: Fault::Exists | Fault::Changed | Fault::Retained { .. }, .. }) => Ok(true),
            Err(error) => Err(error),
            Ok(_) => Ok(false),
        }
    }

    /// The condition as the store can keep it. Who is to be the writer asks no store that keeps none; a copy is told of writers
    /// everywhere. No claim is to last, not even the first: kept from being replaced, it would have to be gone on with by creating.
    fn condition(&self, when: &When) -> Put {
        let abilities = self.store.abilities();
        let is_kept = match when {
            When::Always => true,
            When::Absent => abilities.put_if_absent,
            When::Unchanged(_) => abilities.put_if_unchanged,
        };
        Put { when: if is_kept { when.clone() } else { When::Always }, ..Put::default() }
    }

    async fn replaced(&self) -> Result<Option<Standing>, Error> {
        // The tag first: if the claim is replaced in between, a put that relies on the tag fails.
        let head = match self.store.head(&self.replaced).await {
            Err(StoreError { fault: Fault::NotFound, .. }) => return Ok(None),
            head => head?,
        };
        if head.size_bytes == 0 {
            return Err(FenceError::Malformed { what: "it is empty".into() }.into());
        }
        let tag = match head.tag {
            Some(tag) => tag,
            None if self.store.abilities().put_if_unchanged => return Err(FenceError::Unable.into()),
            // Nothing is put there on condition of one.
            None => Tag(String::new()),
        };
        Ok(Some(Standing { key: self.replaced.clone(), tag }))
    }

    fn created(&self, number: u64) -> Result<Standing, Error> {
        Ok(Standing { key: self.key(number)?, tag: Tag(Name::Claim(number).to_string()) })
    }

    /// Says that `writer.json` is not changed any more.
    async fn close(&self) -> Result<(), StoreError> {
        let note = serde_json::json!({ "format": super::claim::FORMAT, "program": PROGRAM });
        match self.create(CLOSING, note.to_string().into_bytes()).await {
            Ok(_) | Err(StoreError { fault: Fault::Changed, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn is_closed(&self) -> Result<bool, StoreError> {
        match self.store.head(&self.key(CLOSING)?).await {
            Ok(_) => Ok(true),
            Err(StoreError { fault: Fault::NotFound, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Copies what `writer.json` is by now, unless somebody has done that.
    async fn copy(&mut self) -> Result<Option<Standing>, Error> {
        let Some(standing) = self.replaced().await? else { return Ok(None) };
        let (claim, _) = self.read(standing).await?;
        match self.create(1, claim.to_bytes()).await {
            Ok(_) | Err(StoreError { fault: Fault::Changed, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match self.last().await? {
            Some(number) if number > CLOSING => Ok(Some(self.created(number)?)),
            // By a listing that lags behind.
            _ => Ok(Some(self.created(1)?)),
        }
    }

    /// Puts what has this number, if nothing has it.
    async fn create(&self, number: u64, bytes: Vec<u8>) -> Result<Tag, StoreError> {
        let key = self.key(number)?;
        match self.store.put(&key, bytes.into(), &self.condition(&When::Absent)).await {
            Ok(_) => Ok(Tag(Name::Claim(number).to_string())),
            Err(StoreError { fault: Fault::Exists | Fault::Retained { .. }, action, place, key }) => {
                Err(StoreError { action, place, key, fault: Fault::Changed })
            }
            Err(error) => Err(error),
        }
    }

    /// The highest number there is.
    async fn last(&mut self) -> Result<Option<u64>, StoreError> {
        let last = match self.last_after(self.seen.checked_sub(1)).await? {
            // Somebody has deleted what was there.
            None if self.seen > CLOSING => self.last_after(None).await?,
            last => last,
        };
        self.seen = last.unwrap_or(CLOSING);
        Ok(last)
    }

    async fn last_after(&self, number: Option<u64>) -> Result<Option<u64>, StoreError> {
        let after = number.map(|number| self.key(number)).transpose()?.map(|key| key.to_string());
        let mut next = Some(Listing { after, ..Listing::below(format!("{}writer", self.folder)) });
        let mut last = None;
        while let Some(listing) = next {
            let page = self.store.list(&listing).await?;
            let names = page.objects.iter().filter_map(|info| info.key.as_str().strip_prefix(&self.folder));
            last =
                names.filter_map(number_of).filter(|found| number.is_none_or(|number| *found > number)).max().max(last);
            next = page.next;
        }
        Ok(last)
    }

    fn key(&self, number: u64) -> Result<Key, StoreError> {
        let not_a_key = |error: store::key::NotAKey| Fault::Invalid(error.to_string());
        Name::Claim(number).below(&self.folder).map_err(|error| not_a_key(error).at("naming", self.store.place(), None))
    }
}

/// Whether a claim with this tag is one of those that are only created.
pub(super) fn is_created(tag: &Tag) -> bool {
    number_of(&tag.0).is_some()
}

fn number_of(name: &str) -> Option<u64> {
    match Name::parse(name) {
        Some(Name::Claim(number)) => Some(number),
        _ => None,
    }
}

impl Archive {
    /// The claim that stands in it. Nothing is changed.
    pub fn claim(&self) -> Result<Option<Claim>, Error> {
        self.runtime.block_on(self.read_claim())
    }

    pub(crate) async fn read_claim(&self) -> Result<Option<Claim>, Error> {
        let key = self.claim_key().await?;
        match self.store.get(&key, 0..MAX_CLAIM_BYTES as u64 + 1).await {
            Ok(bytes) => Ok(Some(Claim::parse(&bytes)?)),
            Err(StoreError { fault: Fault::NotFound, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the claim stands, if there is one.
    pub(crate) async fn claim_key(&self) -> Result<Key, Error> {
        let last = Claims::new(&*self.store, &self.within())?.last().await?;
        Ok(self.key(&last.filter(|number| *number > CLOSING).map_or(Name::Writer, Name::Claim)))
    }
}
