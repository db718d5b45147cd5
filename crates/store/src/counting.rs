//! A store that counts what it is asked: what a command costs is tested, not guessed.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::StoreError;
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag};
use crate::store::{Abilities, Part, Store, Upload};

/// How often was asked for what, and how many bytes were moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Objects put in one piece.
    pub puts: u64,
    /// Ranges read.
    pub gets: u64,
    /// Objects asked for.
    pub heads: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Objects deleted.
    pub deletes: u64,
    /// Parts put.
    pub parts: u64,
    /// Uploads begun, completed, given up or listed, and retentions changed.
    pub others: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Counts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.puts + self.gets + self.heads + self.lists + self.deletes + self.parts + self.others
    }
}

/// A store that counts. Answers that are errors count as well.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn Store>,
    counts: Mutex<Counts>,
}

impl Counting {
    /// `inner`, counted from now.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, counts: Mutex::default() }
    }

    /// What was counted since it was asked last.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[async_trait]
impl Store for Counting {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn retains(&self) -> Option<Duration> {
        self.inner.retains()
    }

    fn file(&self, key: &Key) -> Option<File> {
        self.inner.file(key)
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.count(|counts| {
            counts.puts += 1;
            counts.bytes_written += bytes.len() as u64;
        });
        self.inner.put(key, bytes, put).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let result = self.inner.get(key, range).await;
        self.count(|counts| {
            counts.gets += 1;
            counts.bytes_read += result.as_ref().map_or(0, |bytes| bytes.len() as u64);
        });
        result
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.count(|counts| counts.heads += 1);
        self.inner.head(key).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.count(|counts| counts.others += 1);
        self.inner.labels(key).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.count(|counts| counts.heads += 1);
        self.inner.retention(key).await
    }

    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        // Most stores know without being asked.
        self.inner.keeps_untold().await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.count(|counts| counts.lists += 1);
        self.inner.list(listing).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        self.count(|counts| counts.deletes += keys.len() as u64);
        self.inner.delete(keys).await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.count(|counts| counts.others += 1);
        self.inner.begin(key, put).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.count(|counts| {
            counts.parts += 1;
            counts.bytes_written += bytes.len() as u64;
        });
        self.inner.put_part(upload, index, bytes).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.count(|counts| counts.others += 1);
        self.inner.complete(upload, parts, put).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.count(|counts| counts.others += 1);
        self.inner.abort(upload).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.count(|counts| counts.others += 1);
        self.inner.uploads(prefix).await
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.count(|counts| counts.others += 1);
        self.inner.retain(key, retention).await
    }
}
