//! A store that does as the one behind it, but for what it says otherwise.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::StoreError;
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag};
use crate::store::{Abilities, Part, Store, Upload};

/// What is asked of a store: each request as [`Store`] has it, handed on to the store behind where nothing else is said.
#[async_trait]
pub trait Forward: fmt::Debug + Send + Sync {
    /// The store behind.
    fn inner(&self) -> &dyn Store;

    /// [`Store::abilities`].
    fn abilities(&self) -> Abilities {
        self.inner().abilities()
    }

    /// [`Store::retains`].
    fn retains(&self) -> Option<Duration> {
        self.inner().retains()
    }

    /// [`Store::file`].
    fn file(&self, key: &Key) -> Option<File> {
        self.inner().file(key)
    }

    /// [`Store::put`].
    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.inner().put(key, bytes, put).await
    }

    /// [`Store::get`].
    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.inner().get(key, range).await
    }

    /// [`Store::head`].
    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.inner().head(key).await
    }

    /// [`Store::labels`].
    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.inner().labels(key).await
    }

    /// [`Store::retention`].
    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.inner().retention(key).await
    }

    /// [`Store::keeps_untold`].
    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        self.inner().keeps_untold().await
    }

    /// [`Store::list`].
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.inner().list(listing).await
    }

    /// [`Store::delete`].
    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        self.inner().delete(keys).await
    }

    /// [`Store::begin`].
    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.inner().begin(key, put).await
    }

    /// [`Store::put_part`].
    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.inner().put_part(upload, index, bytes).await
    }

    /// [`Store::complete`].
    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.inner().complete(upload, parts, put).await
    }

    /// [`Store::abort`].
    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.inner().abort(upload).await
    }

    /// [`Store::uploads`].
    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.inner().uploads(prefix).await
    }

    /// [`Store::retain`].
    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.inner().retain(key, retention).await
    }
}

#[async_trait]
impl<T: Forward> Store for T {
    fn place(&self) -> &str {
        self.inner().place()
    }

    fn abilities(&self) -> Abilities {
        Forward::abilities(self)
    }

    fn file(&self, key: &Key) -> Option<File> {
        Forward::file(self, key)
    }

    fn retains(&self) -> Option<Duration> {
        Forward::retains(self)
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        Forward::put(self, key, bytes, put).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        Forward::get(self, key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        Forward::head(self, key).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        Forward::labels(self, key).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        Forward::retention(self, key).await
    }

    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        Forward::keeps_untold(self).await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        Forward::list(self, listing).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        Forward::delete(self, keys).await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        Forward::begin(self, key, put).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        Forward::put_part(self, upload, index, bytes).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        Forward::complete(self, upload, parts, put).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        Forward::abort(self, upload).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        Forward::uploads(self, prefix).await
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        Forward::retain(self, key, retention).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::counting::Counting;
    use crate::limits::Limited;
    use crate::memory::Memory;
    use crate::settings::Limits;

    const HELD: Retention = Retention { until: None, legal_hold: true };

    /// A store that knows more than it tells of an object when it is asked for it.
    #[derive(Debug)]
    struct Knowing(Memory);

    #[async_trait]
    impl Forward for Knowing {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        async fn labels(&self, _: &Key) -> Result<BTreeMap<String, String>, StoreError> {
            Ok([("app".to_owned(), "etcd".to_owned())].into())
        }

        async fn retention(&self, _: &Key) -> Result<Option<Retention>, StoreError> {
            Ok(Some(HELD))
        }

        async fn keeps_untold(&self) -> Result<bool, StoreError> {
            Ok(true)
        }
    }

    #[derive(Debug)]
    struct Silent(Arc<dyn Store>);

    impl Forward for Silent {
        fn inner(&self) -> &dyn Store {
            &*self.0
        }
    }

    #[tokio::test]
    async fn what_nothing_is_said_of_is_answered_by_the_store_behind() {
        let knowing: Arc<dyn Store> = Arc::new(Knowing(Memory::new()));
        let silent: Arc<dyn Store> = Arc::new(Silent(Arc::clone(&knowing)));
        let counting: Arc<dyn Store> = Arc::new(Counting::new(Arc::clone(&knowing)));
        let limited: Arc<dyn Store> = Arc::new(Limited::new(Arc::clone(&knowing), Limits::default()));
        for store in [knowing, silent, counting, limited] {
            let key = Key::parse("a").unwrap();
            store.put(&key, "x".into(), &Put::default()).await.unwrap();
            assert_eq!(store.get(&key, 0..1).await.unwrap(), "x", "{store:?}");
            assert_eq!(store.labels(&key).await.unwrap()["app"], "etcd", "{store:?}");
            assert_eq!(store.retention(&key).await.unwrap(), Some(HELD), "{store:?}");
            assert!(store.keeps_untold().await.unwrap(), "{store:?}");
        }
    }
}
