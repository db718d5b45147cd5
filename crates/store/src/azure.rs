//! Objects in a container of Azure Blob Storage.
//!
//! A part is a block that was put and not yet listed in its blob. Nothing is begun and nothing given up by a request: the store
//! discards blocks that no blob lists after a week, or when another upload of the same blob completes. Names of metadata
//! have `_` where ours have `-`. Labels are what it calls index tags.

mod immutability;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::azure::AzureAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::bucket::SecretHeaders;
use crate::credentials::azure::AzureAccess;
use crate::error::{Fault, StoreError};
use crate::http::{self, Answer, Http, MAX_ANSWER_BYTES};
use crate::key::Key;
use crate::labels;
use crate::memory::{clip, past_end};
use crate::object::{Info, Listing, Page, Put, Retention, Tag, When};
use crate::store::{Abilities, Part, Store, Upload};
use crate::xml::{self, Element};

/// So many deletions are under way at once.
const DELETIONS_AT_ONCE: usize = 16;

/// A container, or what is below a prefix of it.
#[derive(Debug)]
pub(crate) struct Azure {
    pub(crate) http: Http,
    pub(crate) access: AzureAccess,
    /// Where it is, for people.
    pub(crate) url: String,
    /// Scheme, host and container.
    pub(crate) base: String,
    /// Empty, or ends with a slash.
    pub(crate) prefix: String,
    /// What is sent along for encryption with a key of one's own.
    pub(crate) with_keys: SecretHeaders,
    /// The access tier of new objects.
    pub(crate) tier: Option<String>,
    pub(crate) conditional_puts: bool,
    /// Retention can be lifted by those who are allowed to.
    pub(crate) governance: bool,
}

struct Request<'r> {
    method: Method,
    key: Option<&'r str>,
    query: Vec<(&'r str, &'r str)>,
    headers: Vec<(String, String)>,
    body: Bytes,
    limit: u64,
}

impl<'r> Request<'r> {
    fn of(method: Method, key: &'r Key) -> Self {
        Self { key: Some(key.as_str()), ..Self::of_container(method) }
    }

    fn of_container(method: Method) -> Self {
        let (query, headers, body) = (Vec::new(), Vec::new(), Bytes::new());
        Self { method, key: None, query, headers, body, limit: MAX_ANSWER_BYTES }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn with_all(mut self, headers: &BTreeMap<String, String>) -> Self {
        self.headers.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }
}

impl Azure {
    async fn request(&self, request: Request<'_>) -> Result<Answer, Fault> {
        let path = request.key.map(|key| format!("/{}{key}", self.prefix)).unwrap_or_default();
        let url = http::url_of(&self.base, &path, &request.query)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            let invalid = || Fault::Invalid(format!("{name} cannot be sent"));
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            headers.insert(header, HeaderValue::from_str(value).map_err(|_| invalid())?);
        }
        if request.method == Method::PUT {
            headers.insert(reqwest::header::CONTENT_LENGTH, HeaderValue::from(request.body.len()));
        }
        let (url, headers) = self.signed(&request.method, url, headers).await?;
        self.http.send(request.method, url, headers, request.body, request.limit).await
    }

    async fn signed(&self, method: &Method, url: Url, headers: HeaderMap) -> Result<(Url, HeaderMap), Fault> {
        let unusable = || Fault::Credentials("they cannot be used to sign".into());
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method.clone();
        *request.uri_mut() = url.as_str().parse().map_err(|_| Fault::Invalid(format!("{} is no URL", self.base)))?;
        *request.headers_mut() = headers;
        match self.access.get().await? {
            Some(credential) => AzureAuthorizer::new(&credential, &self.access.account)
                .try_authorize(&mut request)
                .map_err(|_| unusable())?,
            None => drop(request.headers_mut().insert("x-ms-version", HeaderValue::from_static("2023-11-03"))),
        }
        // A shared access signature is part of the URL.
        let url = Url::parse(&request.uri().to_string()).map_err(|_| unusable())?;
        Ok((url, std::mem::take(request.headers_mut())))
    }

    /// What a request that makes an object has in common with all such.
    fn making<'r>(&self, request: Request<'r>, put: &Put) -> Result<Request<'r>, Fault> {
        self.check(put)?;
        let mut request = request.with_all(&self.with_keys.0);
        request = match &put.when {
            When::Always => request,
            When::Absent => request.with("if-none-match", "*"),
            When::Unchanged(tag) => request.with("if-match", format!("\"{}\"", tag.0)),
        };
        if let Some(tier) = &self.tier {
            request = request.with("x-ms-access-tier", tier);
        }
        for (name, value) in &put.metadata {
            request = request.with(&format!("x-ms-meta-{}", name.replace('-', "_")), value);
        }
        if !put.labels.is_empty() {
            request = request.with("x-ms-tags", labels::header(&put.labels));
        }
        if let Some(retention) = put.retention {
            request = immutability::add(request, retention, self.governance);
        }
        Ok(request)
    }

    fn check(&self, put: &Put) -> Result<(), Fault> {
        match &put.when {
            When::Absent if !self.conditional_puts => Err(Fault::Unable("put only if nothing is there")),
            When::Unchanged(_) if !self.conditional_puts => Err(Fault::Unable("replace only if unchanged")),
            _ => Ok(()),
        }
    }

    async fn put_object(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, Fault> {
        let request = Request { body: bytes, ..Request::of(Method::PUT, key) }.with("x-ms-blob-type", "BlockBlob");
        let answer = self.request(self.making(request, put)?).await?;
        check(&answer, &put.when)?;
        tag_of(&answer)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes, Fault> {
        clip(&range, u64::MAX)?;
        let limit = (range.end - range.start).max(MAX_ANSWER_BYTES);
        let request = Request { limit, ..Request::of(Method::GET, key) }
            .with_all(&self.with_keys.0)
            .with("x-ms-range", format!("bytes={}-{}", range.start, range.end - 1));
        let answer = self.request(request).await?;
        match answer.status.as_u16() {
            206 if answer.body.is_empty() && range.start > 0 => Err(past_end(range.start, None)),
            206 => Ok(answer.body),
            200 => {
                let range = clip(&range, answer.body.len() as u64)?;
                Ok(answer.body.slice(range.start as usize..range.end as usize))
            }
            416 => match (answer.whole_size(), range.start) {
                (Some(0), _) | (None, 0) => Ok(Bytes::new()),
                (size, start) => Err(past_end(start, size)),
            },
            _ => check(&answer, &When::Always).map(|()| answer.body),
        }
    }

    async fn info(&self, key: &Key) -> Result<Info, Fault> {
        let answer = self.request(Request::of(Method::HEAD, key).with_all(&self.with_keys.0)).await?;
        check(&answer, &When::Always)?;
        let size = answer.header("content-length").and_then(|size| size.parse().ok());
        let metadata = answer.headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-ms-meta-")?;
            Some((name.replace('_', "-"), value.to_str().ok()?.to_owned()))
        });
        Ok(Info {
            key: key.clone(),
            size_bytes: size.ok_or_else(|| Fault::Nonsense("it has no length".into()))?,
            modified: answer.modified()?,
            tag: Some(tag_of(&answer)?),
            metadata: metadata.collect(),
            retention: immutability::read(&answer),
        })
    }

    async fn tags(&self, key: &Key) -> Result<BTreeMap<String, String>, Fault> {
        let query = vec![("comp", "tags")];
        let request = Request { query, limit: labels::MAX_BYTES, ..Request::of(Method::GET, key) };
        let answer = self.request(request).await.map_err(labels::fault)?;
        check(&answer, &When::Always).map_err(labels::fault)?;
        labels::read(&answer)
    }

    /// One page. Azure goes on by marks of its own, so a listing from a key begins at the prefix and leaves out what is before.
    async fn page(&self, listing: &Listing) -> Result<Page, Fault> {
        let prefix = format!("{}{}", self.prefix, listing.prefix);
        let mut query = vec![("restype", "container"), ("comp", "list"), ("maxresults", "5000")];
        query.push(("prefix", &prefix));
        query.extend(listing.mark.as_deref().map(|mark| ("marker", mark)));
        let answer = self.request(Request { query, ..Request::of_container(Method::GET) }).await?;
        check(&answer, &When::Always).map_err(|fault| match fault {
            Fault::NotFound => Fault::NoSuchPlace,
            other => other,
        })?;

        let root = Element::parse(&answer.body).map_err(|what| Fault::Nonsense(what.into()))?;
        let mut page = Page::default();
        for blob in root.at("Blobs").into_iter().flat_map(|blobs| blobs.all("Blob")) {
            let Some(name) = blob.text("Name").and_then(|name| name.strip_prefix(&self.prefix)) else { continue };
            if listing.after.as_deref().is_some_and(|after| name <= after) {
                continue;
            }
            let Ok(key) = Key::parse(name) else { continue };
            let size = blob.text("Properties/Content-Length").and_then(|size| size.parse().ok());
            let written = blob.text("Properties/Last-Modified").unwrap_or_default();
            page.objects.push(Info {
                key,
                size_bytes: size.ok_or_else(|| Fault::Nonsense(format!("{name} has no size")))?,
                // A guess would be old, and what is old is deleted.
                modified: http::date(written)
                    .map_err(|_| Fault::Nonsense(format!("{name} has the date {written:?}")))?,
                tag: blob.text("Properties/Etag").map(|tag| Tag(tag.trim_matches('"').to_owned())),
                metadata: BTreeMap::new(),
                retention: None,
            });
        }
        let mark = root.text("NextMarker").filter(|mark| !mark.is_empty()).map(str::to_owned);
        if mark.is_some() && mark == listing.mark {
            return Err(Fault::Nonsense(format!("a listing that goes on at {:?} again", mark.unwrap_or_default())));
        }
        page.next = mark.map(|mark| Listing { mark: Some(mark), ..listing.clone() });
        Ok(page)
    }

    async fn delete_one(&self, key: &Key) -> Result<(), Fault> {
        let request = Request::of(Method::DELETE, key).with("x-ms-delete-snapshots", "include");
        match check(&self.request(request).await?, &When::Always) {
            Err(Fault::NotFound) => Ok(()),
            other => other,
        }
    }

    async fn put_block(&self, key: &Key, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, Fault> {
        if upload.id.len() != 16 {
            return Err(Fault::NoSuchUpload);
        }
        // All of a blob have to be of one length. A number of its own lets a part be written again.
        let id = BASE64_STANDARD.encode(format!("{}-{index:08}-{:08x}", upload.id, rand::random::<u32>()));
        let size_bytes = bytes.len() as u64;
        let query = vec![("comp", "block"), ("blockid", id.as_str())];
        let request = Request { query, body: bytes, ..Request::of(Method::PUT, key) }.with_all(&self.with_keys.0);
        check(&self.request(request).await?, &When::Always)?;
        Ok(Part { index, size_bytes, id, digest: None })
    }

    async fn list_blocks(&self, key: &Key, parts: &[Part], put: &Put) -> Result<Tag, Fault> {
        let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for part in parts {
            let _ = write!(body, "<Latest>{}</Latest>", xml::escape(&part.id));
        }
        body.push_str("</BlockList>");
        let query = vec![("comp", "blocklist")];
        let request = Request { query, body: body.into(), ..Request::of(Method::PUT, key) };
        let answer = self.request(self.making(request, put)?).await?;
        check(&answer, &put.when)?;
        tag_of(&answer)
    }
}

fn tag_of(answer: &Answer) -> Result<Tag, Fault> {
    let tag = answer.header("etag").ok_or_else(|| Fault::Nonsense("it has no etag".into()))?;
    Ok(Tag(tag.trim_matches('"').to_owned()))
}

/// The fault in an answer, if it is one. `when` is the condition of what was asked.
fn check(answer: &Answer, when: &When) -> Result<(), Fault> {
    if answer.status.is_success() {
        return Ok(());
    }
    let error = Element::parse(&answer.body).unwrap_or_default();
    let code = answer.header("x-ms-error-code").or_else(|| error.text("Code")).unwrap_or_default();
    let message = error.text("Message").unwrap_or_default();
    let detail = error.text("AuthenticationErrorDetail").unwrap_or_default();
    let what = || match code {
        "" => format!("{} {}", answer.status, answer.excerpt()),
        // The rest of the message repeats the request.
        _ => format!("{code}: {}", message.lines().next().unwrap_or_default()),
    };
    let refused = || match when {
        When::Absent => Fault::Exists,
        When::Unchanged(_) => Fault::Changed,
        When::Always => Fault::Invalid(what()),
    };
    Err(match code {
        "BlobNotFound" | "ResourceNotFound" if matches!(when, When::Unchanged(_)) => Fault::Changed,
        "BlobNotFound" | "ResourceNotFound" => Fault::NotFound,
        "ContainerNotFound" => Fault::NoSuchPlace,
        "InvalidBlockList" | "InvalidBlockId" => Fault::NoSuchUpload,
        "BlobAlreadyExists" | "ConditionNotMet" | "TargetConditionNotMet" => refused(),
        "AuthenticationFailed" if detail.contains("date header") || detail.contains("expir") => Fault::ClockSkew,
        "AuthenticationFailed" | "InvalidAuthenticationInfo" | "NoAuthenticationInformation" => {
            Fault::Credentials(what())
        }
        "BlobUsesCustomerSpecifiedEncryption"
        | "BlobDoesNotUseCustomerSpecifiedEncryption"
        | "BlobCustomerSpecifiedEncryptionMismatch" => Fault::OtherKey(what()),
        "BlobImmutableDueToPolicy" | "BlobImmutableDueToLegalHold" | "LeaseIdMissing" => {
            Fault::Retained { until: None }
        }
        "ServerBusy" => Fault::Throttled { after: answer.retry_after() },
        "OperationTimedOut" | "InternalError" | "ContainerBeingDeleted" => {
            Fault::Unavailable { what: what(), source: None }
        }
        _ => match answer.status.as_u16() {
            412 => refused(),
            _ => match answer.fault() {
                Fault::Invalid(_) => Fault::Invalid(what()),
                Fault::Forbidden(_) => Fault::Forbidden(what()),
                other => other,
            },
        },
    })
}

#[async_trait]
impl Store for Azure {
    fn place(&self) -> &str {
        &self.url
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            put_if_absent: self.conditional_puts,
            put_if_unchanged: self.conditional_puts,
            retention: true,
            metadata: true,
            uploads: false,
            max_put_bytes: 5000 << 20,
            part_bytes: (1, 4000 << 20),
            max_parts: 50_000,
        }
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
        self.tags(key).await.map_err(|fault| fault.at("reading the labels of", &self.url, Some(key)))
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        immutability::of(self, key).await.map_err(|fault| fault.at("asking for", &self.url, Some(key)))
    }

    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        immutability::keeps_untold(self).await.map_err(|fault| fault.at("asking for the policy of", &self.url, None))
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
        self.check(put).map_err(|fault| fault.at("beginning", &self.url, Some(key)))?;
        Ok(Upload { key: key.to_string(), id: format!("{:016x}", rand::random::<u64>()), begun: None })
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let key = self.key_of(upload)?;
        let written = self.put_block(&key, upload, index, bytes).await;
        written.map_err(|fault| fault.at("writing a part of", &self.url, Some(&key)))
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let key = self.key_of(upload)?;
        self.list_blocks(&key, parts, put).await.map_err(|fault| fault.at("completing", &self.url, Some(&key)))
    }

    async fn abort(&self, _upload: &Upload) -> Result<(), StoreError> {
        Ok(())
    }

    async fn uploads(&self, _prefix: &str) -> Result<Vec<Upload>, StoreError> {
        Ok(Vec::new())
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        immutability::set(self, key, retention).await.map_err(|fault| fault.at("keeping", &self.url, Some(key)))
    }
}

impl Azure {
    fn key_of(&self, upload: &Upload) -> Result<Key, StoreError> {
        let wrong = |error: crate::key::NotAKey| Fault::Invalid(error.to_string());
        Key::parse(&upload.key).map_err(|error| wrong(error).at("going on with", &self.url, None))
    }
}
