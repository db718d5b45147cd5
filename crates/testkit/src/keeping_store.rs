//! A place that keeps everything that is written, as a bucket of Google with a retention policy, or a container of Azure.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use store::memory::Clock;
use store::{Fault, Forward, Key, Part, Put, Retention, Store, StoreError, Tag, Upload, When};

/// The store behind; but what is there is neither replaced nor deleted before it is so old. Objects that are there already are
/// kept as well, from when they were written on.
pub struct KeepingStore {
    inner: Arc<dyn Store>,
    clock: Clock,
    kept_for: Mutex<Option<SignedDuration>>,
}

impl KeepingStore {
    /// One that keeps nothing yet, by a `clock` that is the one of `inner`.
    pub fn new(inner: Arc<dyn Store>, clock: Clock) -> Self {
        Self { inner, clock, kept_for: Mutex::default() }
    }

    /// One that keeps everything for so long, by the clock of this machine.
    pub fn of(inner: Arc<dyn Store>, time: SignedDuration) -> Self {
        let store = Self::new(inner, Arc::new(Timestamp::now));
        store.keep_for(Some(time));
        store
    }

    /// From now on everything is kept for so long, or nothing.
    pub fn keep_for(&self, time: Option<SignedDuration>) {
        *self.kept_for.lock().unwrap() = time;
    }

    async fn kept_until(&self, key: &Key) -> Option<Timestamp> {
        let time = (*self.kept_for.lock().unwrap())?;
        let there = self.inner.head(key).await.ok()?;
        Some(there.modified + time).filter(|until| *until > (self.clock)())
    }

    /// A condition that fails goes before what keeps the object, as what was asked for with it does not begin.
    async fn require_not_kept(&self, action: &'static str, key: &Key, when: &When) -> Result<(), StoreError> {
        let Some(until) = self.kept_until(key).await else { return Ok(()) };
        let fault = match when {
            When::Absent => Fault::Exists,
            When::Unchanged(tag) if self.inner.head(key).await?.tag.as_ref() != Some(tag) => Fault::Changed,
            _ => Fault::Retained { until: Some(until) },
        };
        Err(fault.at(action, self.inner.place(), Some(key)))
    }
}

impl fmt::Debug for KeepingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepingStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Forward for KeepingStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.require_not_kept("writing", key, &put.when).await?;
        self.inner.put(key, bytes, put).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        let there = self.inner.retention(key).await?;
        let by_place = self.kept_until(key).await;
        let until = there.and_then(|there| there.until).max(by_place);
        let legal_hold = there.is_some_and(|there| there.legal_hold);
        Ok((until.is_some() || legal_hold).then_some(Retention { until, legal_hold }))
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::new();
        for key in keys {
            results.push(match self.require_not_kept("deleting", key, &When::Always).await {
                Ok(()) => self.inner.delete(std::slice::from_ref(key)).await.remove(0),
                kept => kept,
            });
        }
        results
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.require_not_kept("completing", &Key::parse(&upload.key).unwrap(), &put.when).await?;
        self.inner.complete(upload, parts, put).await
    }
}
