//! Objects in Swift, the object store of OpenStack.
//!
//! Large objects are static: parts are objects of their own, listed in a manifest that takes the object's name
//! (`names.rs` has the layout). Swift keeps parts when their manifest is overwritten or plainly deleted, so both is done here
//! in a way that leaves none behind: what an object was before is looked at first, and it is gone before its parts go. A process
//! that dies between the two, or two that overwrite the same large object at the same moment, may leave parts that no object
//! has; [`Store::uploads`] finds them like those of any upload that was not completed. Dynamic large objects, which etcdbrctl
//! writes, are read and deleted too.
//!
//! Swift answers `If-None-Match: *` by what it has when a request begins and lets the last of two that are carried out
//! at the same time win, so a put that finds nothing there never replaces what has been there, but two at the same moment may both
//! succeed: [`Abilities::put_if_absent`] is not promised. It has no `If-Match` for writing at all.

mod account;
mod credentials;
mod delete;
mod faults;
mod listing;
mod login;
mod names;
mod object;
mod segments;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use reqwest::Method;

use self::account::{Account, Ask};
use self::faults::fault;
use self::login::{Interface, LoginSource};
use self::names::{BEGUN, SegmentName};
use self::object::{manifest, md5_hex};
use crate::error::{Fault, KEEPING, StoreError};
use crate::http::Http;
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag, When};
use crate::store::{Abilities, Part, Store, Upload};

/// Where objects are, below an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// The container, which has to be there.
    pub(crate) container: String,
    /// What all names begin with: empty, or a folder.
    pub(crate) prefix: String,
    /// The region, where Keystone knows several.
    pub(crate) region: Option<String>,
    /// Which of its addresses the cluster is reached at.
    pub(crate) interface: Interface,
}

/// Objects in a container of Swift.
pub(crate) struct Swift {
    account: Account,
    place: String,
    container: String,
    /// Empty, or ends with `/`.
    root: String,
}

/// So many requests are under way at once where many small ones are needed.
const AT_ONCE: usize = 16;
/// What is said about a failure is not longer.
const MAX_WORDS_BYTES: u64 = 64 << 10;
/// What Swift takes in one piece unless it is configured otherwise.
const MAX_OBJECT_BYTES: u64 = 5 << 30;
/// So many segments a manifest may have unless it is configured otherwise.
const MAX_SEGMENTS: u32 = 1000;

impl Swift {
    /// Objects at `place`, as whoever `source` says. Nothing is asked yet.
    pub(crate) fn open(place: &Place, source: Arc<dyn LoginSource>, http: Http) -> Self {
        let prefix = place.prefix.trim_matches('/');
        let root = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Self {
            account: Account::new(place, source, http),
            place: format!("swift://{}/{prefix}", place.container).trim_end_matches('/').to_owned(),
            container: place.container.clone(),
            root,
        }
    }

    /// The path of a name below the root.
    fn path(&self, name: &str) -> String {
        format!("/{}/{}{name}", self.container, self.root)
    }

    fn container_path(&self) -> String {
        format!("/{}", self.container)
    }

    fn error(&self, action: &'static str, key: &Key) -> impl FnOnce(Fault) -> StoreError {
        move |fault| fault.at(action, &self.place, Some(key))
    }

    /// What a 404 for an object means: it is not there, or nor is the container.
    async fn absence(&self) -> Fault {
        let path = self.container_path();
        match self.account.ask(Method::HEAD, Ask { path: &path, ..Ask::default() }).await {
            Ok(answer) if answer.status == 404 => Fault::NoSuchPlace,
            Ok(answer) if answer.status.is_success() => Fault::NotFound,
            Ok(answer) => fault(&answer),
            Err(fault) => fault,
        }
    }

    /// Tells of an object and of what it is made; `None` if it is not there.
    async fn look(&self, key: &str) -> Result<Option<object::Head>, Fault> {
        let answer = self.account.ask(Method::HEAD, Ask { path: &self.path(key), ..Ask::default() }).await?;
        match answer.status.as_u16() {
            200..300 => object::Head::of(key, &answer).map(Some),
            404 => Ok(None),
            _ => Err(fault(&answer)),
        }
    }

    async fn put_object(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, Fault> {
        let headers = object::headers(put, None)?;
        check_free(key)?;
        // A put that has to find nothing there overwrites nothing.
        let before = match put.when {
            When::Absent => None,
            _ => self.look(key.as_str()).await?,
        };
        let orphans = self.orphans(before.as_ref()).await?;

        let digest = md5_hex(&bytes);
        let tag =
            self.write(key.as_str(), &[], &[headers.as_slice(), &[("etag".into(), digest)]].concat(), bytes).await?;
        // It is written, whether this succeeds or not. What is left is found as an upload that was not completed.
        self.delete_paths(&orphans).await;
        Ok(tag)
    }

    /// What nobody needs once something else takes the place of `before`.
    async fn orphans(&self, before: Option<&object::Head>) -> Result<Vec<String>, Fault> {
        match before {
            Some(head) => self.segments(&head.large).await,
            None => Ok(Vec::new()),
        }
    }

    async fn write(
        &self,
        name: &str,
        query: &[(&str, &str)],
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Tag, Fault> {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let path = self.path(name);
        let ask = Ask { path: &path, query, headers: &headers, body, limit: 0 };
        let answer = self.account.ask(Method::PUT, ask).await?;
        match answer.status.as_u16() {
            200..300 => object::tag(&answer),
            404 => Err(Fault::NoSuchPlace),
            _ => Err(fault(&answer)),
        }
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes, Fault> {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return Err(Fault::Invalid("a range has to hold something".into()));
        }
        let wanted = format!("bytes={}-{}", range.start, range.end - 1);
        let path = self.path(key.as_str());
        // What is said about a failure may be longer than what was asked for.
        let limit = length.max(MAX_WORDS_BYTES);
        let ask = Ask { path: &path, headers: &[("range", &wanted)], limit, ..Ask::default() };
        let answer = self.account.ask(Method::GET, ask).await?;
        match answer.status.as_u16() {
            206 => object::ranged(&answer, range.start),
            // A store that knows no ranges may still give all of a small object.
            200 if range.start == 0 => Ok(object::clipped(answer.body, length)),
            416 if answer.whole_size() == Some(0) => Ok(Bytes::new()),
            416 => Err(Fault::Invalid("the range begins past the end of the object".into())),
            404 => Err(self.absence().await),
            409 => Err(self.undelivered(key).await),
            _ => Err(fault(&answer)),
        }
    }

    /// A page of names below the root, as the server has them.
    async fn page(&self, prefix: &str, name_after: &str) -> Result<listing::Page, Fault> {
        let (prefix, after) = (format!("{}{prefix}", self.root), format!("{}{name_after}", self.root));
        let limit = listing::LIMIT.to_string();
        let query = [("format", "json"), ("limit", limit.as_str()), ("prefix", &prefix), ("marker", &after)];
        let path = self.container_path();
        let answer = self.account.ask(Method::GET, Ask { path: &path, query: &query, ..Ask::default() }).await?;
        match answer.status.as_u16() {
            200 => listing::Page::parse(&answer.body, &self.root)?.going_on(name_after),
            204 => Ok(listing::Page::default()),
            404 => Err(Fault::NoSuchPlace),
            _ => Err(fault(&answer)),
        }
    }

    /// All names below the root that begin with `prefix`.
    async fn names(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let mut names = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.page(prefix, &after).await?;
            names.extend(page.entries.into_iter().map(|entry| entry.name));
            match page.last {
                Some(last) => after = last,
                None => return Ok(names),
            }
        }
    }

    async fn list_objects(&self, listing: &Listing) -> Result<Page, Fault> {
        let after = listing.after.clone().unwrap_or_default();
        let page = self.page(&listing.prefix, &after).await?;
        let next = page.next(listing);

        // What a listing cannot tell: how large a dynamic large object is, and which objects are its segments.
        let questions = page.questions();
        let looks = at_once(questions.iter().map(|name| self.look(name)).collect()).await;
        let heads =
            questions.into_iter().zip(looks).map(|(name, look)| Ok((name, look?))).collect::<Result<_, Fault>>()?;
        Ok(Page { objects: page.objects(&heads, &self.container, &self.root), next })
    }

    async fn begin_upload(&self, key: &Key, put: &Put) -> Result<Upload, Fault> {
        // What cannot be completed is refused before anything is sent.
        object::headers(put, None)?;
        check_free(key)?;
        let now = Timestamp::now();
        let id = names::new_upload(now, rand::random());
        self.write(&format!("{}{BEGUN}", names::folder(key.as_str(), &id)), &[], &[], Bytes::new()).await?;
        Ok(Upload { key: key.to_string(), begun: names::begun_at(&id), id })
    }

    /// The folder of an upload that somebody may have written down, checked.
    fn folder(&self, upload: &Upload) -> Result<(Key, String), Fault> {
        let key = Key::parse(upload.key.as_str()).map_err(|error| Fault::Invalid(error.to_string()))?;
        check_free(&key)?;
        if !names::is_upload(&upload.id) {
            return Err(Fault::NoSuchUpload);
        }
        let folder = names::folder(key.as_str(), &upload.id);
        Ok((key, folder))
    }

    async fn check_begun(&self, folder: &str) -> Result<(), Fault> {
        match self.look(&format!("{folder}{BEGUN}")).await? {
            Some(_) => Ok(()),
            None => match self.absence().await {
                Fault::NotFound => Err(Fault::NoSuchUpload),
                fault => Err(fault),
            },
        }
    }

    async fn put_segment(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, Fault> {
        let (_, folder) = self.folder(upload)?;
        self.check_begun(&folder).await?;
        let (size_bytes, id) = (bytes.len() as u64, md5_hex(&bytes));
        self.write(&object::segment(&folder, index), &[], &[("etag".into(), id.clone())], bytes).await?;
        Ok(Part { index, size_bytes, id, digest: None })
    }

    async fn complete_upload(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, Fault> {
        let (key, folder) = self.folder(upload)?;
        let headers = object::headers(put, Some(&upload.id))?;
        let before = self.look(key.as_str()).await?;
        let ours = before.as_ref().is_some_and(|head| head.upload.as_deref() == Some(&upload.id));
        if let (true, Some(tag)) = (ours, before.as_ref().and_then(|head| head.info.tag.clone())) {
            // The answer to the same request was lost.
            return Ok(tag);
        }
        if before.is_some() && put.when == When::Absent {
            return Err(Fault::Exists);
        }
        self.check_begun(&folder).await?;
        let orphans = self.orphans(before.as_ref()).await?;

        let manifest = manifest(&self.path(&folder), parts)?;
        let tag = match manifest {
            // A manifest of nothing is refused.
            None => self.write(key.as_str(), &[], &headers, Bytes::new()).await?,
            Some(manifest) => {
                self.write(key.as_str(), &[("multipart-manifest", "put")], &headers, manifest.into()).await?
            }
        };
        self.delete_paths(&orphans).await;
        self.sweep(&folder, parts).await;
        Ok(tag)
    }

    /// Deletes what an upload has and its object does not. What fails is found by [`Store::uploads`] once the object is gone.
    async fn sweep(&self, folder: &str, parts: &[Part]) {
        let used: Vec<String> =
            parts.iter().filter(|part| part.size_bytes > 0).map(|part| object::segment(folder, part.index)).collect();
        if let Ok(names) = self.names(folder).await {
            let left: Vec<String> = names.into_iter().filter(|name| !used.contains(name)).collect();
            self.delete_names(&left).await;
        }
    }

    async fn abort_upload(&self, upload: &Upload) -> Result<(), Fault> {
        let (key, folder) = self.folder(upload)?;
        let head = self.look(key.as_str()).await?;
        if head.is_some_and(|head| head.upload.as_deref() == Some(&upload.id)) {
            // It was completed: what it has belongs to an object.
            return Ok(());
        }
        let names = self.names(&folder).await?;
        self.delete_names(&names).await.into_iter().collect()
    }

    /// Folders of segments whose object is not there or is not made of them.
    async fn open_uploads(&self, prefix: &str) -> Result<Vec<Upload>, Fault> {
        let below = Listing::below(prefix).prefix;
        let names = self.names(&format!("{}/{below}", names::SEGMENTS)).await?;
        let mut folders: Vec<SegmentName<'_>> = names.iter().filter_map(|name| SegmentName::parse(name)).collect();
        folders.dedup();

        let looks = at_once(folders.iter().map(|folder| self.look(folder.key)).collect()).await;
        let mut uploads = Vec::new();
        for (SegmentName { key, upload }, look) in folders.into_iter().zip(looks) {
            if look?.is_none_or(|head| head.upload.as_deref() != Some(upload)) {
                uploads.push(Upload { key: key.into(), id: upload.into(), begun: names::begun_at(upload) });
            }
        }
        Ok(uploads)
    }
}

/// Carries out several, [`AT_ONCE`] at the same time; gives what each gave, in their order.
async fn at_once<F: Future>(several: Vec<F>) -> Vec<F::Output> {
    stream::iter(several).buffered(AT_ONCE).collect().await
}

/// Objects cannot lie among segments.
fn check_free(key: &Key) -> Result<(), Fault> {
    if names::is_free(key) { Ok(()) } else { Err(Fault::Invalid(format!("{} is where segments are", names::SEGMENTS))) }
}

impl fmt::Debug for Swift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swift").field("place", &self.place).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Swift {
    fn place(&self) -> &str {
        &self.place
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            put_if_absent: false,
            put_if_unchanged: false,
            retention: false,
            metadata: true,
            uploads: true,
            max_put_bytes: MAX_OBJECT_BYTES,
            part_bytes: (1, MAX_OBJECT_BYTES),
            max_parts: MAX_SEGMENTS,
        }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.put_object(key, bytes, put).await.map_err(self.error("writing", key))
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.get_range(key, range).await.map_err(self.error("reading", key))
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        let head = match self.look(key.as_str()).await {
            Ok(Some(head)) => Ok(head.info),
            Ok(None) => Err(self.absence().await),
            Err(fault) => Err(fault),
        };
        head.map_err(self.error("looking at", key))
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.list_objects(listing).await.map_err(|fault| fault.at("listing", &self.place, None))
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let deleted = self.delete_objects(keys).await;
        deleted.into_iter().zip(keys).map(|(deleted, key)| deleted.map_err(self.error("deleting", key))).collect()
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.begin_upload(key, put).await.map_err(self.error("beginning to write", key))
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let written = self.put_segment(upload, index, bytes).await;
        written
            .map_err(|fault| fault.at("writing a part of", &self.place, Key::parse(upload.key.as_str()).ok().as_ref()))
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let completed = self.complete_upload(upload, parts, put).await;
        completed.map_err(|fault| fault.at("completing", &self.place, Key::parse(upload.key.as_str()).ok().as_ref()))
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        let given_up = self.abort_upload(upload).await;
        given_up.map_err(|fault| fault.at("giving up", &self.place, Key::parse(upload.key.as_str()).ok().as_ref()))
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.open_uploads(prefix).await.map_err(|fault| fault.at("looking for uploads in", &self.place, None))
    }

    async fn retain(&self, key: &Key, _: Retention) -> Result<(), StoreError> {
        Err(Fault::Unable(KEEPING)).map_err(self.error("retaining", key))
    }
}
