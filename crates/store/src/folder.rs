//! Objects as files below a folder: on a disk, a volume of a pod, a mounted share.
//!
//! A file appears under its name when all of it is on the disk, with one rename, and not before. What is in the making
//! lies in [`HIDDEN`] at the top of the folder, which is never listed; so does the file whose lock orders writers of
//! all processes, for whom that lock works only if they open the same folder. The folder itself is never created on the way: if
//! a volume is not mounted, nothing is written to what is beneath its mount point. Whoever is told to make one has [`make`].
//!
//! Links are followed within the folder only. Metadata and retention are not kept. A file system cannot have both `a`
//! and `a/b`: whichever comes second is refused.

mod lasting;
mod listing;
mod place;
mod uploads;

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Fault, KEEPING, StoreError};
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag};
use crate::store::{Abilities, Part, Store, Upload};
pub use lasting::make;
pub use place::HIDDEN;
use place::Place;

/// A folder as a store.
#[derive(Debug, Clone)]
pub struct Folder {
    url: String,
    place: Arc<Place>,
}

impl Folder {
    /// The store in the folder at `path`, which has to be there when it is used.
    pub fn at(path: &Path) -> Result<Self, StoreError> {
        let shown = format!("file://{}", path.display());
        let path = std::path::absolute(path).map_err(|error| Fault::of_disk(error).at("opening", &shown, None))?;
        let url = format!("file://{}", path.display());
        Ok(Self { url, place: Arc::new(Place::new(path)) })
    }

    /// Does what blocks where it may.
    async fn run<T, F>(&self, action: &'static str, key: Option<&Key>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Place) -> Result<T, Fault> + Send + 'static,
    {
        let place = Arc::clone(&self.place);
        let done = tokio::task::spawn_blocking(move || work(&place)).await;
        done.unwrap_or_else(|error| Err(Fault::unavailable(error))).map_err(|fault| fault.at(action, &self.url, key))
    }
}

#[async_trait]
impl Store for Folder {
    fn place(&self) -> &str {
        &self.url
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            put_if_absent: true,
            put_if_unchanged: true,
            retention: false,
            metadata: false,
            uploads: true,
            max_put_bytes: 64 << 20,
            part_bytes: (1, 1 << 30),
            max_parts: 100_000,
        }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        let (target, put) = (key.clone(), put.clone());
        self.run("writing", Some(key), move |place| place.put(&target, &bytes, &put)).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let wanted = key.clone();
        self.run("reading", Some(key), move |place| place.get(&wanted, range)).await
    }

    fn file(&self, key: &Key) -> Option<File> {
        self.place.open_object(key).ok()
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        let wanted = key.clone();
        self.run("asking for", Some(key), move |place| place.head(&wanted)).await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let listing = listing.clone();
        self.run("listing", None, move |place| listing::list(place, &listing)).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let victims = keys.to_vec();
        let done = self.run("deleting", None, move |place| Ok(place.delete(&victims))).await;
        match done {
            Ok(results) => {
                let told = |(key, result): (&Key, Result<(), Fault>)| {
                    result.map_err(|fault| fault.at("deleting", &self.url, Some(key)))
                };
                keys.iter().zip(results).map(told).collect()
            }
            Err(error) => {
                let what = error.to_string();
                let failed = |key| {
                    let fault = Fault::Unavailable { what: what.clone(), source: None };
                    Err(fault.at("deleting", &self.url, Some(key)))
                };
                keys.iter().map(failed).collect()
            }
        }
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        let (target, put) = (key.clone(), put.clone());
        self.run("beginning", Some(key), move |place| uploads::begin(place, &target, &put)).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let key = Key::parse(&upload.key).ok();
        let upload = upload.clone();
        let write = move |place: &Place| uploads::put_part(place, &upload, index, &bytes);
        self.run("writing a part of", key.as_ref(), write).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let key = Key::parse(&upload.key).ok();
        let (upload, parts, put) = (upload.clone(), parts.to_vec(), put.clone());
        let complete = move |place: &Place| uploads::complete(place, &upload, &parts, &put);
        self.run("completing", key.as_ref(), complete).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        let key = Key::parse(&upload.key).ok();
        let upload = upload.clone();
        self.run("giving up", key.as_ref(), move |place| uploads::abort(place, &upload)).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        let prefix = prefix.to_owned();
        self.run("listing uploads of", None, move |place| uploads::list(place, &prefix)).await
    }

    async fn retain(&self, key: &Key, _retention: Retention) -> Result<(), StoreError> {
        Err(Fault::Unable(KEEPING).at("keeping", &self.url, Some(key)))
    }
}
