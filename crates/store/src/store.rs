//! What every store does.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use crate::error::StoreError;
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag};

/// Objects below one place.
///
/// Every method is one request, or a few that together may be asked again: after an error that is transient the same
/// call may be made anew. An answer that was lost may have been carried out, so a put that was made conditional can
/// then say that something is there: whoever asked has to look.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Where it is, as a URL without credentials: `s3://bucket/prefix`.
    fn place(&self) -> &str;

    /// What it can do, as far as its settings tell. Whether that is true shows when it is tried.
    fn abilities(&self) -> Abilities;

    /// Writes an object in one piece, of at most [`Abilities::max_put_bytes`].
    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError>;

    /// Reads the bytes `range` of an object. What lies past its end is left out. A range that begins there is
    /// [`crate::Fault::Invalid`], unless the object is empty; so is a range that is empty itself.
    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError>;

    /// For how long what lasts is kept from when it is written, where that was ordered. Wrappers pass this on.
    fn retains(&self) -> Option<Duration> {
        None
    }

    /// The object as a file of this machine, where it is one: reading it needs no request. Wrappers pass this on.
    fn file(&self, _key: &Key) -> Option<File> {
        None
    }

    /// Tells of an object.
    async fn head(&self, key: &Key) -> Result<Info, StoreError>;

    /// What people say of an object, which they may do after it was written: its tags where the store has such, and else its
    /// metadata. [`crate::Fault::Unable`] where the server has none after all. Wrappers pass this on.
    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        Ok(self.head(key).await?.metadata)
    }

    /// What keeps an object from being deleted, of all that the store knows: its own retention, and where the whole place has a
    /// policy or a hold, that too. Wrappers pass this on.
    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        Ok(self.head(key).await?.retention)
    }

    /// Whether the whole place has a policy that keeps objects and tells of none until when: then a deletion may be refused
    /// though [`Store::retention`] knows of nothing. Wrappers pass this on.
    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Lists objects. Never shows half an object, nor an upload that is not complete.
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError>;

    /// Deletes objects. Those that are not there count as deleted. Tells of each, in their order.
    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>>;

    /// Begins an object that is written part by part.
    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError>;

    /// Writes a part. Parts are counted from 0 and may come in any order, or again.
    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError>;

    /// Makes the object of its parts, in their order. `put` is what it was begun with.
    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError>;

    /// Gives an upload up, with everything that was written of it. One that is not there counts as given up. Where
    /// [`Abilities::uploads`] is not, the store does so by itself some days later.
    async fn abort(&self, upload: &Upload) -> Result<(), StoreError>;

    /// Uploads below the folder `prefix` that were begun and neither completed nor given up.
    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError>;

    /// Changes what keeps an object from being deleted.
    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError>;
}

/// What a store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// [`crate::When::Absent`] is kept, whoever else writes at the same time. Where it is not, such a put is refused, or kept
    /// only against what has been there before, as Swift does.
    pub put_if_absent: bool,
    /// [`crate::When::Unchanged`] likewise.
    pub put_if_unchanged: bool,
    /// Objects can be kept from being deleted.
    pub retention: bool,
    /// Metadata is kept. Where it is not, what is put with an object is let go.
    pub metadata: bool,
    /// Uploads that were begun are listed, and can be given up.
    pub uploads: bool,
    /// The size of the largest object that is put in one piece.
    pub max_put_bytes: u64,
    /// The sizes that parts may have; the last may be smaller.
    pub part_bytes: (u64, u64),
    /// How many parts an object may have.
    pub max_parts: u32,
}

/// An object in the making. Another process finds it in [`Store::uploads`], to give it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The object's key.
    pub key: String,
    /// What the store calls the upload.
    pub id: String,
    /// When it was begun, where the store tells.
    pub begun: Option<Timestamp>,
}

/// A part that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which one, counted from 0.
    pub index: u32,
    /// Its size.
    pub size_bytes: u64,
    /// What the store calls it.
    pub id: String,
    /// The SHA-256 of what it holds, where whoever wrote it has noted that.
    pub digest: Option<[u8; 32]>,
}
