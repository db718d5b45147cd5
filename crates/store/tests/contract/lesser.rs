//! A store that says that it can do less than it can.

use async_trait::async_trait;
use bytes::Bytes;
use store::{Abilities, Fault, Forward, Key, Put, Retention, Store, StoreError, Tag, Upload};

use super::Opened;

/// A store that says that it can do less, where only a probe could know.
#[derive(Debug)]
pub struct Lesser {
    pub inner: Opened,
    pub uploads: bool,
}

#[async_trait]
impl Forward for Lesser {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn abilities(&self) -> Abilities {
        Abilities { retention: false, uploads: self.uploads, ..self.inner.abilities() }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        match put.retention {
            Some(_) => Err(Fault::Unable("retain").at("writing", self.inner.place(), Some(key))),
            None => self.inner.put(key, bytes, put).await,
        }
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        match self.uploads {
            true => self.inner.uploads(prefix).await,
            false => Ok(Vec::new()),
        }
    }

    async fn retain(&self, key: &Key, _: Retention) -> Result<(), StoreError> {
        Err(Fault::Unable("retain").at("keeping", self.inner.place(), Some(key)))
    }
}
