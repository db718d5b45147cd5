//! A store that says that it can do less than it can.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use store::{Abilities, Fault, Info, Key, Listing, Page, Part, Put, Retention, Store, StoreError, Tag, Upload};

use super::Opened;

/// A store that says that it can do less, where only a probe could know.
#[derive(Debug)]
pub struct Lesser {
    pub inner: Opened,
    pub uploads: bool,
}

#[async_trait]
impl Store for Lesser {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn abilities(&self) -> Abilities {
        Abilities { retention: false, uploads: self.uploads, ..self.inner.abilities() }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        match put.retention {
            Some(_) => Err(Fault::Unable("retain").at("writing", self.place(), Some(key))),
            None => self.inner.put(key, bytes, put).await,
        }
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.inner.head(key).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.inner.labels(key).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.inner.retention(key).await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.inner.list(listing).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        self.inner.delete(keys).await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.inner.begin(key, put).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.inner.put_part(upload, index, bytes).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.inner.complete(upload, parts, put).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.inner.abort(upload).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        match self.uploads {
            true => self.inner.uploads(prefix).await,
            false => Ok(Vec::new()),
        }
    }

    async fn retain(&self, key: &Key, _: Retention) -> Result<(), StoreError> {
        Err(Fault::Unable("retain").at("keeping", self.place(), Some(key)))
    }
}
