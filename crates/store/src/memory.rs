//! Objects in memory, for tests and for trying things out. It keeps every promise there is, so it is also what the
//! others are compared with.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use crate::error::{Fault, KEEPING, StoreError};
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag, When};
use crate::store::{Abilities, Part, Store, Upload};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Objects that are gone with the process.
pub struct Memory {
    state: Mutex<State>,
    clock: Clock,
    page_size: usize,
    abilities: Abilities,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Pending>,
    /// What has been written so far; every tag and upload gets the next number.
    writes: u64,
}

struct Object {
    bytes: Bytes,
    modified: Timestamp,
    tag: Tag,
    metadata: BTreeMap<String, String>,
    retention: Option<Retention>,
}

struct Pending {
    key: Key,
    begun: Timestamp,
    parts: BTreeMap<u32, (String, Bytes)>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        let abilities = Abilities {
            put_if_absent: true,
            put_if_unchanged: true,
            retention: true,
            metadata: true,
            uploads: true,
            max_put_bytes: 64 << 20,
            part_bytes: (1, 64 << 20),
            max_parts: 10_000,
        };
        Self { state: Mutex::default(), clock: Arc::new(Timestamp::now), page_size: 1000, abilities }
    }

    /// The same, with another clock.
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The same, with so many objects on a page of a listing.
    pub fn with_page_size(self, page_size: usize) -> Self {
        Self { page_size: page_size.max(1), ..self }
    }

    /// The same, able to do only so much: what a store without conditional puts or retention would refuse is refused.
    pub fn with_abilities(self, abilities: Abilities) -> Self {
        Self { abilities, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn check(&self, put: &Put) -> Result<(), Fault> {
        match put.when {
            When::Absent if !self.abilities.put_if_absent => Err(Fault::Unable("put only if nothing is there")),
            When::Unchanged(_) if !self.abilities.put_if_unchanged => Err(Fault::Unable("replace only if unchanged")),
            _ if put.retention.is_some() && !self.abilities.retention => Err(Fault::Unable(KEEPING)),
            _ => Ok(()),
        }
    }

    fn write(&self, state: &mut State, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, Fault> {
        self.check(put)?;
        let now = (self.clock)();
        let there = state.objects.get(key.as_str());
        match (&put.when, there) {
            (When::Absent, Some(_)) => return Err(Fault::Exists),
            (When::Unchanged(tag), there) if there.is_none_or(|there| there.tag != *tag) => return Err(Fault::Changed),
            _ => {}
        }
        if let Some(until) = there.and_then(|there| kept(there.retention, now)) {
            return Err(until);
        }

        state.writes += 1;
        let tag = Tag(state.writes.to_string());
        let told = put.labelled_metadata().filter(|_| self.abilities.metadata);
        let metadata = told.map(|(name, value)| (name.clone(), value.clone())).collect();
        let object = Object { bytes, modified: now, tag: tag.clone(), metadata, retention: put.retention };
        state.objects.insert(key.as_str().to_owned(), object);
        Ok(tag)
    }

    fn delete_one(&self, key: &Key) -> Result<(), Fault> {
        let mut state = self.state();
        let now = (self.clock)();
        match state.objects.get(key.as_str()).and_then(|object| kept(object.retention, now)) {
            Some(fault) => Err(fault),
            None => {
                state.objects.remove(key.as_str());
                Ok(())
            }
        }
    }

    fn assemble(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, Fault> {
        let mut state = self.state();
        let pending = state.uploads.get(&upload.id).ok_or(Fault::NoSuchUpload)?;
        let mut bytes = Vec::new();
        for part in parts {
            match pending.parts.get(&part.index) {
                Some((id, piece)) if *id == part.id => bytes.extend_from_slice(piece),
                _ => return Err(Fault::Invalid(format!("part {} of the upload is not there", part.index))),
            }
        }
        let key = pending.key.clone();
        let tag = self.write(&mut state, &key, bytes.into(), put)?;
        state.uploads.remove(&upload.id);
        Ok(tag)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("objects", &self.state().objects.len()).finish_non_exhaustive()
    }
}

/// What keeps an object at `now`, if anything does.
fn kept(retention: Option<Retention>, now: Timestamp) -> Option<Fault> {
    let retention = retention?;
    let until = retention.until.filter(|until| *until > now);
    (retention.legal_hold || until.is_some()).then_some(Fault::Retained { until })
}

/// The bytes that `range` means in an object of `size` bytes: what every store answers.
pub(crate) fn clip(range: &Range<u64>, size: u64) -> Result<Range<u64>, Fault> {
    if range.start >= range.end {
        return Err(Fault::Invalid(format!("the range {}..{} is empty", range.start, range.end)));
    }
    if size > 0 && range.start >= size {
        return Err(past_end(range.start, Some(size)));
    }
    Ok(range.start.min(size)..range.end.min(size))
}

/// A range begins where the object has ended.
pub(crate) fn past_end(start: u64, size: Option<u64>) -> Fault {
    let size = size.map(|size| format!(" of {size} bytes")).unwrap_or_default();
    Fault::Invalid(format!("the range begins at {start}, past the end of the object{size}"))
}

fn info_of(key: Key, object: &Object) -> Info {
    Info {
        key,
        size_bytes: object.bytes.len() as u64,
        modified: object.modified,
        tag: Some(object.tag.clone()),
        metadata: object.metadata.clone(),
        retention: object.retention,
    }
}

#[async_trait]
impl Store for Memory {
    fn place(&self) -> &str {
        "memory:"
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        let mut state = self.state();
        self.write(&mut state, key, bytes, put).map_err(|fault| fault.at("writing", self.place(), Some(key)))
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let read = || {
            let state = self.state();
            let object = state.objects.get(key.as_str()).ok_or(Fault::NotFound)?;
            let range = clip(&range, object.bytes.len() as u64)?;
            Ok(object.bytes.slice(range.start as usize..range.end as usize))
        };
        read().map_err(|fault: Fault| fault.at("reading", self.place(), Some(key)))
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        match self.state().objects.get(key.as_str()) {
            Some(object) => Ok(info_of(key.clone(), object)),
            None => Err(Fault::NotFound.at("asking for", self.place(), Some(key))),
        }
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let state = self.state();
        let after = listing.after.as_deref().filter(|after| *after >= listing.prefix.as_str());
        let begin = after.map_or(Bound::Included(listing.prefix.as_str()), Bound::Excluded);
        let mut found = state
            .objects
            .range::<str, _>((begin, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(&listing.prefix))
            .filter_map(|(key, object)| Some(info_of(Key::parse(key.clone()).ok()?, object)));
        let objects: Vec<Info> = found
            .by_ref()
            .take(self.page_size)
            .map(|info| Info { metadata: BTreeMap::new(), retention: None, ..info })
            .collect();
        let last = found.next().and(objects.last());
        let next = last.map(|last| Listing { after: Some(last.key.to_string()), ..listing.clone() });
        Ok(Page { objects, next })
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let delete = |key| self.delete_one(key).map_err(|fault| fault.at("deleting", self.place(), Some(key)));
        keys.iter().map(delete).collect()
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.check(put).map_err(|fault| fault.at("beginning", self.place(), Some(key)))?;
        let begun = (self.clock)();
        let mut state = self.state();
        state.writes += 1;
        let id = format!("{:08}", state.writes);
        state.uploads.insert(id.clone(), Pending { key: key.clone(), begun, parts: BTreeMap::new() });
        Ok(Upload { key: key.to_string(), id, begun: Some(begun) })
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let mut state = self.state();
        state.writes += 1;
        let part = Part { index, size_bytes: bytes.len() as u64, id: state.writes.to_string(), digest: None };
        match state.uploads.get_mut(&upload.id) {
            Some(pending) => {
                pending.parts.insert(index, (part.id.clone(), bytes));
                Ok(part)
            }
            None => {
                Err(Fault::NoSuchUpload.at("writing a part of", self.place(), Key::parse(&upload.key).ok().as_ref()))
            }
        }
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let key = Key::parse(&upload.key).ok();
        self.assemble(upload, parts, put).map_err(|fault| fault.at("completing", self.place(), key.as_ref()))
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.state().uploads.remove(&upload.id);
        Ok(())
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        let state = self.state();
        let below = state.uploads.iter().filter(|(_, pending)| pending.key.as_str().starts_with(prefix));
        let shown = |(id, pending): (&String, &Pending)| Upload {
            key: pending.key.to_string(),
            id: id.clone(),
            begun: Some(pending.begun),
        };
        Ok(below.map(shown).collect())
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        let change = || {
            if !self.abilities.retention {
                return Err(Fault::Unable(KEEPING));
            }
            let now = (self.clock)();
            let mut state = self.state();
            let object = state.objects.get_mut(key.as_str()).ok_or(Fault::NotFound)?;
            let until = object.retention.and_then(|there| there.until).filter(|until| *until > now);
            if until > retention.until {
                return Err(Fault::Retained { until });
            }
            object.retention = Some(retention);
            Ok(())
        };
        change().map_err(|fault: Fault| fault.at("keeping", self.place(), Some(key)))
    }
}
