//! Objects in a bucket, by the XML interface that S3 made common. AWS, MinIO, Ceph, Alibaba OSS, Huawei OBS and Dell ECS
//! speak it, and Google Cloud Storage a dialect of it.
//!
//! | | S3 | Google |
//! |---|---|---|
//! | signed by | AWS signature 4 | a bearer token |
//! | headers begin with | `x-amz-` | `x-goog-` |
//! | a tag is | the ETag | the generation |
//! | put if absent | `If-None-Match: *` | `x-goog-if-generation-match: 0` |
//! | put if unchanged | `If-Match: <etag>` | `x-goog-if-generation-match: <generation>` |
//! | completion with a condition | the same | the store has none: it is looked up just before |
//! | labels are | tags | metadata |
//! | what is written comes with | its digest | nothing |
//! | what keeps an object is told by | headers | the JSON interface |
//!
//! Requests are made and signed here, so that every header can be sent and every answer be read in full: conditions at
//! completion, retention, time to wait, regions. Deletions are requests of their own, several at a time: not every server
//! knows how to delete many in one, those that do differ in what they want for it, and none charges for them.

mod answers;
mod checksum;
mod dialect;
mod holds;
mod retention;
mod uploads;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RANGE};
use url::Url;

use crate::error::{Fault, StoreError};
use crate::http::{self, Answer, Http, MAX_ANSWER_BYTES};
use crate::key::Key;
use crate::labels;
use crate::memory::{clip, past_end};
use crate::object::{Info, Listing, Page, Put, Retention, Tag, When};
use crate::store::{Abilities, Part, Store, Upload};
use crate::xml::Element;
pub(crate) use checksum::Checksum;
pub(crate) use dialect::Dialect;

/// So many deletions are under way at once.
const DELETIONS_AT_ONCE: usize = 16;

/// A bucket, or what is below a prefix of it.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) http: Http,
    pub(crate) dialect: Dialect,
    /// Where it is, for people.
    pub(crate) url: String,
    /// Scheme, host and, where it is in the path, the bucket.
    pub(crate) base: String,
    /// Empty, or ends with a slash.
    pub(crate) prefix: String,
    pub(crate) abilities: Abilities,
    /// What is sent along with everything that makes an object: encryption, storage class.
    pub(crate) with_objects: BTreeMap<String, String>,
    /// What is sent along with everything that reads one or writes a part: the key of encryption with a key of one's own.
    pub(crate) with_keys: SecretHeaders,
    /// Retention that can be lifted by those who are allowed to.
    pub(crate) governance: bool,
}

/// Headers that nobody may read.
#[derive(Clone, Default)]
pub(crate) struct SecretHeaders(pub(crate) BTreeMap<String, String>);

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Bucket {
    /// Makes a signed request about an object, or about the bucket.
    async fn request(&self, request: Request<'_>) -> Result<Answer, Fault> {
        let path = match request.key {
            Some(key) => format!("/{}{key}", self.prefix),
            None => String::new(),
        };
        let url = http::url_of(&self.base, if path.is_empty() { "/" } else { &path }, &request.query)?;
        self.send(url, request).await
    }

    /// Signs a request and sends it to `url`.
    async fn send(&self, url: Url, request: Request<'_>) -> Result<Answer, Fault> {
        let Request { method, mut headers, body, sha256, limit, .. } = request;
        self.dialect.sign(&method, &url, &mut headers, &body, sha256).await?;
        self.http.send(method, url, headers, body, limit).await
    }

    /// Headers of a request that makes an object.
    fn headers_of(&self, put: &Put) -> Result<HeaderMap, Fault> {
        let mut headers = self.condition(&put.when)?;
        self.add(&mut headers, &self.with_objects)?;
        self.add(&mut headers, &self.with_keys.0)?;
        let has_tags = self.dialect.has_tags();
        if has_tags && !put.labels.is_empty() {
            add_header(&mut headers, "x-amz-tagging", &labels::header(&put.labels))?;
        }
        let metadata: Vec<_> = if has_tags { put.metadata.iter().collect() } else { put.labelled_metadata().collect() };
        for (name, value) in metadata {
            add_header(&mut headers, &self.dialect.header(&format!("meta-{name}")), value)?;
        }
        if let Some(retention) = put.retention {
            retention::add_headers(self, &mut headers, retention)?;
        }
        Ok(headers)
    }

    fn condition(&self, when: &When) -> Result<HeaderMap, Fault> {
        let (name, value) = match when {
            When::Always => return Ok(HeaderMap::new()),
            When::Absent if !self.abilities.put_if_absent => return Err(Fault::Unable("put only if nothing is there")),
            When::Absent => self.dialect.if_absent(),
            When::Unchanged(_) if !self.abilities.put_if_unchanged => {
                return Err(Fault::Unable("replace only if unchanged"));
            }
            When::Unchanged(tag) => self.dialect.if_unchanged(tag),
        };
        let mut headers = HeaderMap::new();
        add_header(&mut headers, name, value)?;
        Ok(headers)
    }

    fn add(&self, headers: &mut HeaderMap, more: &BTreeMap<String, String>) -> Result<(), Fault> {
        more.iter().try_for_each(|(name, value)| add_header(headers, name, value))
    }

    async fn put_object(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, Fault> {
        let headers = self.headers_of(put)?;
        let mut request = Request { headers, body: bytes, ..Request::of(Method::PUT, key) };
        checksum::add(self, &mut request)?;
        let answer = self.request(request).await?;
        answers::check(&answer, Some(&put.when))?;
        self.dialect.tag_of(&answer)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes, Fault> {
        // As if the object had no end: whether the range itself makes sense.
        clip(&range, u64::MAX)?;
        let mut headers = HeaderMap::new();
        self.add(&mut headers, &self.with_keys.0)?;
        add_header(&mut headers, RANGE.as_str(), &format!("bytes={}-{}", range.start, range.end - 1))?;
        let limit = (range.end - range.start).max(MAX_ANSWER_BYTES);
        let answer = self.request(Request { headers, limit, ..Request::of(Method::GET, key) }).await?;
        match answer.status.as_u16() {
            206 if answer.body.is_empty() && range.start > 0 => Err(past_end(range.start, None)),
            206 => Ok(answer.body),
            // Where the range is all of it, some say so by sending all of it.
            200 => {
                let range = clip(&range, answer.body.len() as u64)?;
                Ok(answer.body.slice(range.start as usize..range.end as usize))
            }
            416 => match answer.whole_size() {
                Some(0) => Ok(Bytes::new()),
                Some(size) => Err(past_end(range.start, Some(size))),
                // Some servers do not tell the size. An object that is empty has no range at all.
                None if range.start == 0 => Ok(Bytes::new()),
                None => Err(past_end(range.start, None)),
            },
            _ => answers::check(&answer, None).map(|()| answer.body).map_err(|fault| self.of_reading(fault)),
        }
    }

    /// The same fault, of a request that reads. S3 says of another key than it was written with what it says of a permission.
    fn of_reading(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Forbidden(what) if !self.with_keys.0.is_empty() => Fault::ForbiddenOrOtherKey(what),
            other => other,
        }
    }

    async fn info(&self, key: &Key) -> Result<Info, Fault> {
        let mut headers = HeaderMap::new();
        self.add(&mut headers, &self.with_keys.0)?;
        let mut answer = self.request(Request { headers: headers.clone(), ..Request::of(Method::HEAD, key) }).await?;
        if !answer.status.is_success() && answer.status.as_u16() != 404 {
            // The answer to HEAD has no words; the same asked with GET has.
            add_header(&mut headers, RANGE.as_str(), "bytes=0-0")?;
            answer = self.request(Request { headers, ..Request::of(Method::GET, key) }).await?;
        }
        answers::check(&answer, None).map_err(|fault| self.of_reading(fault))?;

        let size = answer.whole_size().or_else(|| answer.header("content-length")?.parse().ok());
        let metadata_prefix = self.dialect.header("meta-");
        let metadata = answer.headers.iter().filter_map(|(name, value)| {
            Some((name.as_str().strip_prefix(&metadata_prefix)?.to_owned(), value.to_str().ok()?.to_owned()))
        });
        Ok(Info {
            key: key.clone(),
            size_bytes: size.ok_or_else(|| Fault::Nonsense("it has no length".into()))?,
            modified: answer.modified()?,
            tag: Some(self.dialect.tag_of(&answer)?),
            metadata: metadata.collect(),
            retention: retention::read(&answer),
        })
    }

    async fn tags(&self, key: &Key) -> Result<BTreeMap<String, String>, Fault> {
        let query = vec![("tagging", "")];
        let request = Request { query, limit: labels::MAX_BYTES, ..Request::of(Method::GET, key) };
        let answer = self.request(request).await.map_err(labels::fault)?;
        answers::check(&answer, None).map_err(labels::fault)?;
        labels::read(&answer)
    }

    async fn page(&self, listing: &Listing) -> Result<Page, Fault> {
        let prefix = format!("{}{}", self.prefix, listing.prefix);
        let after = listing.after.as_ref().map(|after| format!("{}{after}", self.prefix));
        let mut query = vec![("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix.as_str())];
        query.extend(after.as_deref().map(|after| ("start-after", after)));
        query.sort_unstable();
        let answer = self.request(Request { query, ..Request::of_bucket(Method::GET) }).await?;
        answers::check(&answer, None).map_err(answers::of_place)?;

        let root = answers::document(&answer)?;
        let mut page = Page::default();
        let mut last = listing.after.clone();
        for entry in root.all("Contents") {
            let Some(name) = entry.text("Key") else { continue };
            let Some(name) = name.strip_prefix(self.prefix.as_str()) else { continue };
            last = Some(name.to_owned());
            // Some begin with the key itself, which was listed before.
            if listing.after.as_deref().is_some_and(|after| name <= after) {
                continue;
            }
            // What ends with a slash stands for a folder in some tools; it is no object of ours.
            let Ok(key) = Key::parse(name) else { continue };
            let size = entry.text("Size").and_then(|size| size.parse().ok());
            let written = entry.text("LastModified").unwrap_or_default();
            page.objects.push(Info {
                key,
                size_bytes: size.ok_or_else(|| Fault::Nonsense(format!("{name} has no size")))?,
                // A guess would be old, and what is old is deleted.
                modified: written.parse().map_err(|_| Fault::Nonsense(format!("{name} has the date {written:?}")))?,
                tag: self.dialect.listed_tag(entry),
                metadata: BTreeMap::new(),
                retention: None,
            });
        }
        if root.text("IsTruncated") == Some("true") {
            // Taken for the end, it would hide all that comes after; asked again, it would be the same for ever.
            if last <= listing.after {
                let (after, last) = (listing.after.as_deref().unwrap_or_default(), last.unwrap_or_default());
                let what = format!("a listing after {after:?} that ends with {last:?} and says that more comes");
                return Err(Fault::Nonsense(what));
            }
            page.next = Some(Listing { after: last, ..listing.clone() });
        }
        Ok(page)
    }

    async fn delete_one(&self, key: &Key) -> Result<(), Fault> {
        let answer = self.request(Request::of(Method::DELETE, key)).await?;
        match answers::check(&answer, None) {
            Err(Fault::NotFound) => Ok(()),
            other => other,
        }
    }
}

/// A request, not yet signed.
struct Request<'r> {
    method: Method,
    key: Option<&'r str>,
    query: Vec<(&'r str, &'r str)>,
    headers: HeaderMap,
    body: Bytes,
    /// That of the body, where it is known before the request is signed.
    sha256: Option<[u8; 32]>,
    limit: u64,
}

impl<'r> Request<'r> {
    fn of(method: Method, key: &'r Key) -> Self {
        Self { key: Some(key.as_str()), ..Self::of_bucket(method) }
    }

    fn of_bucket(method: Method) -> Self {
        let (query, headers, body) = (Vec::new(), HeaderMap::new(), Bytes::new());
        Self { method, key: None, query, headers, body, sha256: None, limit: MAX_ANSWER_BYTES }
    }
}

fn add_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Fault> {
    let invalid = || Fault::Invalid(format!("{name} cannot be sent"));
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
    headers.insert(header, HeaderValue::from_str(value).map_err(|_| invalid())?);
    Ok(())
}

#[async_trait]
impl Store for Bucket {
    fn place(&self) -> &str {
        &self.url
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.put_object(key, bytes, put).await.map_err(|fault| fault.at("writing", &self.url, Some(key)))
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.get_range(key, range).await.map_err(|fault| fault.at("reading", &self.url, Some(key)))
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.info(key).await.map_err(|fault| fault.at("asking for", &self.url, Some(key)))
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        let told = match self.dialect.has_tags() {
            true => self.tags(key).await,
            false => self.info(key).await.map(|info| info.metadata),
        };
        told.map_err(|fault| fault.at("reading the labels of", &self.url, Some(key)))
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        retention::of(self, key).await.map_err(|fault| fault.at("asking for", &self.url, Some(key)))
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.page(listing).await.map_err(|fault| fault.at("listing", &self.url, None))
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let delete =
            async |key: &Key| self.delete_one(key).await.map_err(|fault| fault.at("deleting", &self.url, Some(key)));
        stream::iter(keys.iter().map(delete)).buffered(DELETIONS_AT_ONCE).collect().await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        uploads::begin(self, key, put).await.map_err(|fault| fault.at("beginning", &self.url, Some(key)))
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let key = answers::key_of(upload, &self.url)?;
        let written = uploads::put_part(self, &key, upload, index, bytes).await;
        written.map_err(|fault| fault.at("writing a part of", &self.url, Some(&key)))
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let key = answers::key_of(upload, &self.url)?;
        let completed = uploads::complete(self, &key, upload, parts, put).await;
        completed.map_err(|fault| fault.at("completing", &self.url, Some(&key)))
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        let key = answers::key_of(upload, &self.url)?;
        uploads::abort(self, &key, upload).await.map_err(|fault| fault.at("giving up", &self.url, Some(&key)))
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        uploads::list(self, prefix).await.map_err(|fault| fault.at("listing uploads of", &self.url, None))
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        retention::set(self, key, retention).await.map_err(|fault| fault.at("keeping", &self.url, Some(key)))
    }
}

/// Elements of an answer that list objects have these.
fn text_of<'e>(entry: &'e Element, name: &str) -> Result<&'e str, Fault> {
    entry.text(name).ok_or_else(|| Fault::Nonsense(format!("it has no {name}")))
}
