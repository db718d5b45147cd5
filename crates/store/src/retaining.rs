//! A store in which what lasts is kept from being deleted from the moment when it is written.
//!
//! What is said of an object itself goes before that. What is kept and put again is a new version at S3 and Azure, which keep the
//! earlier one; Google refuses to replace it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use crate::error::{Fault, KEEPING, StoreError};
use crate::forward::Forward;
use crate::key::Key;
use crate::object::{Put, Retention, Tag};
use crate::store::{Part, Store, Upload};

/// A store that is told with everything that lasts until when to keep it.
#[derive(Debug)]
pub struct Retaining {
    inner: Arc<dyn Store>,
    span: Duration,
}

impl Retaining {
    /// `inner`, which is to keep what lasts for `span`. One that can keep nothing is refused, as is a span that has no end.
    pub fn new(inner: Arc<dyn Store>, span: Duration) -> Result<Self, StoreError> {
        let retaining = Self { inner, span };
        let checked = match retaining.inner.abilities().retention {
            true => retaining.until(Timestamp::now()).map(drop),
            false => Err(Fault::Unable(KEEPING)),
        };
        checked.map_err(|fault| fault.at("opening", retaining.place(), None))?;
        Ok(retaining)
    }

    /// Until when is kept what is written `now`.
    fn until(&self, now: Timestamp) -> Result<Timestamp, Fault> {
        let too_long = |_| Fault::Invalid("no calendar has the time until which it is to keep objects".into());
        now.checked_add(self.span).map_err(too_long)
    }

    /// What is put, with what is to keep it.
    fn kept(&self, put: &Put) -> Result<Put, Fault> {
        if !put.lasts || put.retention.is_some() {
            return Ok(put.clone());
        }
        let until = Some(self.until(Timestamp::now())?);
        Ok(Put { retention: Some(Retention { until, legal_hold: false }), ..put.clone() })
    }
}

#[async_trait]
impl Forward for Retaining {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn retains(&self) -> Option<Duration> {
        Some(self.span)
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        let put = self.kept(put).map_err(|fault| fault.at("writing", self.place(), Some(key)))?;
        self.inner.put(key, bytes, &put).await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        let put = self.kept(put).map_err(|fault| fault.at("beginning", self.place(), Some(key)))?;
        self.inner.begin(key, &put).await
    }

    /// Stores that were told with the beginning keep it from then on, the others from now on.
    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let key = Key::parse(&upload.key).ok();
        let put = self.kept(put).map_err(|fault| fault.at("completing", self.place(), key.as_ref()))?;
        self.inner.complete(upload, parts, &put).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::object::When;
    use crate::store::Abilities;
    use crate::upload::{Pieces, Uploader};

    const MONTH: Duration = Duration::from_secs(30 * 86_400);

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    /// Memory, what keeps what lasts there, and what such is put with.
    fn retaining(span: Duration) -> (Arc<Memory>, Arc<dyn Store>, Put) {
        let memory = Arc::new(Memory::new());
        let inner: Arc<dyn Store> = Arc::clone(&memory) as _;
        let lasting = Put::lasting(memory.abilities());
        (memory, Arc::new(Retaining::new(inner, span).unwrap()), lasting)
    }

    async fn kept_until(memory: &Memory, name: &str) -> Option<Timestamp> {
        memory.retention(&key(name)).await.unwrap().and_then(|retention| retention.until)
    }

    #[tokio::test]
    async fn what_lasts_is_kept_from_when_it_is_written() {
        let (memory, store, lasting) = retaining(MONTH);
        let before = Timestamp::now();
        store.put(&key("delta"), "x".into(), &lasting).await.unwrap();
        let mut parts = Uploader::new(Arc::clone(&store), key("full"), lasting, Pieces { bytes: 10, at_once: 2 });
        parts.write(vec![7; 25].into()).await.unwrap();
        parts.finish().await.unwrap();
        let after = Timestamp::now();
        for name in ["delta", "full"] {
            let until = kept_until(&memory, name).await.unwrap();
            assert!((before + MONTH..=after + MONTH).contains(&until), "{name}: {until}");
            let refused = store.delete(&[key(name)]).await.remove(0).unwrap_err();
            assert!(matches!(refused.fault, Fault::Retained { .. }), "{name}: {refused:?}");
        }
    }

    /// Whoever writes them goes on with them: a claim is renewed, and a proof goes when a later one says more.
    #[tokio::test]
    async fn what_does_not_last_is_replaced_and_deleted_whatever_it_was_put_on_condition_of() {
        let (memory, store, _) = retaining(MONTH);
        let tag = store.put(&key("claim"), "1".into(), &Put::if_absent()).await.unwrap();
        store.put(&key("claim"), "2".into(), &Put::if_unchanged(tag)).await.unwrap();
        assert_eq!(kept_until(&memory, "claim").await, None);
        store.delete(&[key("claim")]).await.remove(0).unwrap();
    }

    #[tokio::test]
    async fn what_somebody_says_of_an_object_goes_before() {
        let (memory, store, lasting) = retaining(MONTH);
        let own = Retention { until: Some(Timestamp::now() + Duration::from_secs(60)), legal_hold: true };
        store.put(&key("a"), "x".into(), &Put { retention: Some(own), ..lasting }).await.unwrap();
        assert_eq!(memory.retention(&key("a")).await.unwrap(), Some(own));
    }

    #[tokio::test]
    async fn an_upload_that_nobody_finished_can_be_given_up() {
        let (memory, store, lasting) = retaining(MONTH);
        let upload = store.begin(&key("a"), &lasting).await.unwrap();
        store.put_part(&upload, 0, "x".into()).await.unwrap();
        store.abort(&upload).await.unwrap();
        assert_eq!(memory.uploads("").await.unwrap(), []);
    }

    /// A store that takes no conditions may keep objects all the same: Dell's does.
    #[tokio::test]
    async fn what_lasts_is_kept_also_where_no_condition_is() {
        let memory = Memory::new();
        let abilities = Abilities { put_if_absent: false, ..memory.abilities() };
        let memory = Arc::new(memory.with_abilities(abilities));
        let store: Arc<dyn Store> = Arc::new(Retaining::new(Arc::clone(&memory) as _, MONTH).unwrap());
        let lasting = Put::lasting(abilities);
        assert_eq!(lasting.when, When::Always);
        store.put(&key("a"), "x".into(), &lasting).await.unwrap();
        assert!(kept_until(&memory, "a").await.is_some());
    }

    #[test]
    fn a_store_that_keeps_nothing_is_refused_and_so_is_a_span_without_end() {
        let memory = Memory::new();
        let abilities = Abilities { retention: false, ..memory.abilities() };
        let keeps_nothing = memory.with_abilities(abilities);
        let refused = Retaining::new(Arc::new(keeps_nothing), MONTH).unwrap_err();
        assert!(matches!(refused.fault, Fault::Unable(KEEPING)), "{refused:?}");
        let refused = Retaining::new(Arc::new(Memory::new()), Duration::MAX).unwrap_err();
        assert!(matches!(refused.fault, Fault::Invalid(_)), "{refused:?}");
    }
}
