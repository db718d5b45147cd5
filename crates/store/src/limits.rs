//! A store that is not asked for more than is allowed.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use crate::error::StoreError;
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag};
use crate::settings::Limits;
use crate::store::{Abilities, Part, Store, Upload};

/// A store with limits. Who comes when they are reached waits in turn.
#[derive(Debug)]
pub struct Limited {
    inner: Arc<dyn Store>,
    bytes: Option<Pace>,
    requests: Option<Pace>,
    /// Held by who reads while bytes are limited: how many came shows only then, so one reads after the other.
    reading: tokio::sync::Mutex<()>,
}

impl Limited {
    /// `inner`, within `limits`.
    pub fn new(inner: Arc<dyn Store>, limits: Limits) -> Self {
        let bytes = limits.bytes_per_second.map(|rate| Pace::new(rate as f64));
        let requests = limits.requests_per_second.map(|rate| Pace::new(f64::from(rate.get())));
        Self { inner, bytes, requests, reading: tokio::sync::Mutex::default() }
    }

    /// Waits until requests may be made that send `bytes`.
    async fn turn(&self, requests: usize, bytes: usize) {
        for (pace, amount) in [(&self.requests, requests), (&self.bytes, bytes)] {
            if let Some(pace) = pace {
                sleep_until(pace.book(amount as f64)).await;
            }
        }
    }
}

/// A rate. What is taken is paid for by those who come after.
#[derive(Debug)]
struct Pace {
    per_second: f64,
    free_from: Mutex<Instant>,
}

impl Pace {
    fn new(per_second: f64) -> Self {
        Self { per_second: per_second.max(0.001), free_from: Mutex::new(Instant::now()) }
    }

    /// When it may be begun.
    fn book(&self, amount: f64) -> Instant {
        let mut free_from = self.free_from.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now().max(*free_from);
        *free_from = begin + Duration::from_secs_f64(amount / self.per_second);
        begin
    }
}

#[async_trait]
impl Store for Limited {
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
        // Reading a file past us would be without a limit.
        match self.bytes {
            Some(_) => None,
            None => self.inner.file(key),
        }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.turn(1, bytes.len()).await;
        self.inner.put(key, bytes, put).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let Some(pace) = &self.bytes else {
            self.turn(1, 0).await;
            return self.inner.get(key, range).await;
        };
        let _turn = self.reading.lock().await;
        self.turn(1, 0).await;
        let bytes = self.inner.get(key, range).await?;
        pace.book(bytes.len() as f64);
        Ok(bytes)
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.turn(1, 0).await;
        self.inner.head(key).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.turn(1, 0).await;
        self.inner.labels(key).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.turn(1, 0).await;
        self.inner.retention(key).await
    }

    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        // Most stores know without being asked, and it is once in a while.
        self.inner.keeps_untold().await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.turn(1, 0).await;
        self.inner.list(listing).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        self.turn(keys.len(), 0).await;
        self.inner.delete(keys).await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.turn(1, 0).await;
        self.inner.begin(key, put).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.turn(1, bytes.len()).await;
        self.inner.put_part(upload, index, bytes).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.turn(1, 0).await;
        self.inner.complete(upload, parts, put).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.turn(1, 0).await;
        self.inner.abort(upload).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.turn(1, 0).await;
        self.inner.uploads(prefix).await
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.turn(1, 0).await;
        self.inner.retain(key, retention).await
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use futures::future::join_all;

    use super::*;
    use crate::memory::Memory;

    async fn seconds(limits: Limits, requests: usize, size: usize) -> f64 {
        let store = Limited::new(Arc::new(Memory::new()), limits);
        let begin = Instant::now();
        let key = Key::parse("a").unwrap();
        join_all((0..requests).map(async |_| {
            store.put(&key, vec![0; size].into(), &Put::default()).await.unwrap();
            store.get(&key, 0..u64::MAX).await.unwrap();
        }))
        .await;
        store.head(&key).await.unwrap();
        begin.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn rates_are_kept_however_many_ask() {
        let requests = Limits { requests_per_second: NonZeroU32::new(10), ..Limits::default() };
        let took = seconds(requests, 50, 1).await;
        assert!((10.0..10.1).contains(&took), "{took}");
        let bytes = Limits { bytes_per_second: Some(1 << 20), ..Limits::default() };
        let took = seconds(bytes, 8, 1 << 20).await;
        assert!((7.0..16.1).contains(&took), "{took}");
        assert!(seconds(Limits::default(), 50, 1).await < 0.1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_at_once_reads_no_faster() {
        let limits = Limits { bytes_per_second: Some(1 << 20), ..Limits::default() };
        let inner: Arc<dyn Store> = Arc::new(Memory::new());
        let key = Key::parse("a").unwrap();
        inner.put(&key, vec![0; 4 << 20].into(), &Put::default()).await.unwrap();
        let store = Limited::new(inner, limits);
        let begin = Instant::now();
        join_all((0..4).map(|part| store.get(&key, part << 20..(part + 1) << 20))).await;
        // What the last took is paid for by whoever comes next.
        assert!((3.0..3.1).contains(&begin.elapsed().as_secs_f64()));
        store.get(&key, 0..1).await.unwrap();
        assert!((4.0..4.1).contains(&begin.elapsed().as_secs_f64()));
    }
}
