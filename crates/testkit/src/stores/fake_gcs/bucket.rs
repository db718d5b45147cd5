//! Objects and uploads, and each request on them.

use std::collections::BTreeMap;
use std::ops::Bound;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::keeping::Keeping;
use super::xml::{all, document, element};
use super::{Asked, percent_decoded};

#[derive(Debug, Default)]
pub(super) struct Bucket {
    pub(super) objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
    /// What the newest object or upload was numbered with.
    newest: u64,
    /// So long everything is kept after it was written.
    pub(super) kept_for: Option<SignedDuration>,
}

#[derive(Debug, Clone)]
pub(super) struct Object {
    bytes: Bytes,
    etag: String,
    generation: u64,
    pub(super) modified: Timestamp,
    /// `content-type`, `x-goog-meta-…`, and how it is to be kept.
    headers: Vec<(String, String)>,
    pub(super) keeping: Keeping,
}

#[derive(Debug)]
struct Upload {
    key: String,
    begun: Timestamp,
    headers: Vec<(String, String)>,
    keeping: Keeping,
    parts: BTreeMap<u32, (String, Bytes)>,
}

/// An error: status, code and message.
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str, pub(super) &'static str);

pub(super) type Outcome = Result<Response, Refusal>;

/// All parts but the last have at least this.
const MIN_PART: usize = 5 << 20;
const GENERATION_MATCH: &str = "x-goog-if-generation-match";
const CLASS: &str = "x-goog-storage-class";
const KMS_KEY: &str = "x-goog-encryption-kms-key-name";

impl Refusal {
    pub(super) const UNAUTHORIZED: Refusal = Refusal(401, "AuthenticationRequired", "Authentication required.");
    pub(super) const DENIED: Refusal = Refusal(403, "AccessDenied", "Access denied.");
    pub(super) const NO_SUCH_BUCKET: Refusal = Refusal(404, "NoSuchBucket", "The specified bucket does not exist.");
    pub(super) const NO_SUCH_KEY: Refusal = Refusal(404, "NoSuchKey", "The specified key does not exist.");
    const NO_SUCH_UPLOAD: Refusal = Refusal(404, "NoSuchUpload", "The specified upload does not exist.");
    const PRECONDITION: Refusal = Refusal(412, "PreconditionFailed", "At least one of the conditions did not hold.");

    pub(super) fn scripted(status: u16) -> Refusal {
        match status {
            401 => Self::UNAUTHORIZED,
            403 => Self::DENIED,
            429 => Refusal(429, "SlowDown", "Please reduce your request rate."),
            503 => Refusal(503, "ServiceUnavailable", "Service unavailable."),
            other => Refusal(other, "Scripted", "As the test wanted."),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let inner = element("Code", self.1) + &element("Message", self.2);
        xml(self.0, document("Error", &inner))
    }
}

pub(super) fn xml(status: u16, text: String) -> Response {
    Response::builder().status(status).header("content-type", "application/xml").body(Body::from(text)).unwrap()
}

impl Bucket {
    pub(super) fn names(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    pub(super) fn header(&self, key: &str, name: &str) -> Option<String> {
        self.objects[key].headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub(super) fn open_uploads(&self) -> usize {
        self.uploads.len()
    }

    pub(super) fn put(&mut self, asked: &Asked) -> Outcome {
        asked.only(&[], &["x-goog-meta-*", "x-goog-object-lock-*", GENERATION_MATCH, CLASS, KMS_KEY])?;
        self.check_generation(asked)?;
        self.insert(&asked.key, asked.body.clone(), kept_headers(asked), Keeping::asked_for(asked)?)
    }

    pub(super) fn copy(&mut self, asked: &Asked) -> Outcome {
        asked.only(&[], &["x-goog-copy-source", GENERATION_MATCH])?;
        self.check_generation(asked)?;
        let source = percent_decoded(asked.header("x-goog-copy-source").unwrap_or_default());
        let (_, key) = source.trim_start_matches('/').split_once('/').ok_or(Refusal::NO_SUCH_KEY)?;
        let source = self.objects.get(key).ok_or(Refusal::NO_SUCH_KEY)?.clone();
        self.insert(&asked.key, source.bytes, source.headers, Keeping::default())
    }

    pub(super) fn get(&self, asked: &Asked) -> Outcome {
        asked.only(&["generation"], &["if-match", "if-none-match"])?;
        let object = self.objects.get(&asked.key).ok_or(Refusal::NO_SUCH_KEY)?;
        if asked.query.get("generation").is_some_and(|wanted| *wanted != object.generation.to_string()) {
            return Err(Refusal::NO_SUCH_KEY);
        }
        if asked.header("if-match").is_some_and(|wanted| wanted != object.etag) {
            return Err(Refusal::PRECONDITION);
        }
        let mut response = object.described(Response::builder());
        let size = object.bytes.len();
        let bytes = match asked.header("range").map(|range| ranged(range, size)) {
            None => object.bytes.clone(),
            Some(None) => return Err(Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")),
            Some(Some((first, last))) => {
                response = response.status(206).header(CONTENT_RANGE, format!("bytes {first}-{last}/{size}"));
                object.bytes.slice(first..=last)
            }
        };
        Ok(response.header(CONTENT_LENGTH, bytes.len()).body(Body::from(bytes)).unwrap())
    }

    pub(super) fn delete(&mut self, asked: &Asked) -> Outcome {
        asked.only(&[], &[GENERATION_MATCH])?;
        self.check_generation(asked)?;
        self.require_not_kept(&asked.key)?;
        self.objects.remove(&asked.key).ok_or(Refusal::NO_SUCH_KEY)?;
        Ok(Response::builder().status(204).body(Body::empty()).unwrap())
    }

    pub(super) fn list(&self, asked: &Asked, page: usize) -> Outcome {
        asked.only(&["list-type", "prefix", "start-after", "continuation-token", "max-keys", "delimiter"], &[])?;
        let parameter = |name: &str| asked.query.get(name).map_or("", String::as_str);
        if parameter("list-type") != "2" || !matches!(parameter("delimiter"), "" | "/") {
            return Err(Refusal(400, "InvalidArgument", "Only list-type=2 is served here, with / as delimiter."));
        }
        let page = page.min(parameter("max-keys").parse().unwrap_or(1000));
        let (prefix, folders) = (parameter("prefix"), parameter("delimiter") == "/");
        // A token is the last key of the page before; it goes on from there whatever `start-after` says.
        let after = parameter("continuation-token").strip_prefix("after:").unwrap_or(parameter("start-after"));

        let (mut contents, mut common, mut last, mut more) = (String::new(), Vec::new(), "", false);
        let following = self.objects.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        for (count, (key, object)) in following.filter(|(key, _)| key.starts_with(prefix)).enumerate() {
            if count == page {
                more = true;
                break;
            }
            last = key;
            match key[prefix.len()..].split_once('/').filter(|_| folders) {
                Some((folder, _)) => common.push(format!("{prefix}{folder}/")),
                None => contents += &element_of(key, object),
            }
        }
        common.dedup();
        contents.extend(
            common.iter().map(|prefix| format!("<CommonPrefixes>{}</CommonPrefixes>", element("Prefix", prefix))),
        );
        contents += &element("IsTruncated", if more { "true" } else { "false" });
        if more {
            contents += &element("NextContinuationToken", &format!("after:{last}"));
        }
        Ok(xml(200, document("ListBucketResult", &contents)))
    }

    pub(super) fn begin(&mut self, asked: &Asked) -> Outcome {
        asked.only(&["uploads"], &["x-goog-meta-*", "x-goog-object-lock-*", CLASS, KMS_KEY])?;
        self.newest += 1;
        let id = format!("upload-{}", self.newest);
        let (key, headers, keeping) = (asked.key.clone(), kept_headers(asked), Keeping::asked_for(asked)?);
        let upload = Upload { key, begun: Timestamp::now(), headers, keeping, parts: BTreeMap::new() };
        self.uploads.insert(id.clone(), upload);
        Ok(xml(200, document("InitiateMultipartUploadResult", &element("UploadId", &id))))
    }

    pub(super) fn put_part(&mut self, asked: &Asked) -> Outcome {
        asked.only(&["uploadId", "partNumber"], &[])?;
        let number = asked.query.get("partNumber").and_then(|number| number.parse().ok());
        let number = number.filter(|number| (1..=10_000).contains(number));
        let number: u32 = number.ok_or(Refusal(400, "InvalidArgument", "Part numbers are from 1 to 10000."))?;
        let etag = etag_of(&asked.body);
        self.upload(asked)?.parts.insert(number, (etag.clone(), asked.body.clone()));
        Ok(Response::builder().header(ETAG, etag).body(Body::empty()).unwrap())
    }

    pub(super) fn complete(&mut self, asked: &Asked) -> Outcome {
        asked.only(&["uploadId"], &[])?;
        let text = String::from_utf8_lossy(&asked.body).replace("&quot;", "\"");
        let numbers: Vec<u32> = all("PartNumber", &text).iter().filter_map(|number| number.parse().ok()).collect();
        let tags = all("ETag", &text);
        let upload = self.upload(asked)?;

        let invalid = || Refusal(400, "InvalidPart", "A part is not there, or is not what it was.");
        if numbers.is_empty() || numbers.len() != tags.len() || !numbers.is_sorted_by(|one, other| one < other) {
            return Err(Refusal(400, "InvalidPartOrder", "Parts are named once each, in their order."));
        }
        let mut whole = Vec::new();
        for (index, (number, tag)) in numbers.iter().zip(tags).enumerate() {
            let (etag, bytes) = upload.parts.get(number).ok_or_else(invalid)?;
            if etag != tag {
                return Err(invalid());
            }
            if bytes.len() < MIN_PART && index + 1 < numbers.len() {
                return Err(Refusal(400, "EntityTooSmall", "A part other than the last is smaller than 5 MiB."));
            }
            whole.extend_from_slice(bytes);
        }
        let (headers, keeping) = (upload.headers.clone(), upload.keeping.clone());
        let response = self.insert(&asked.key, whole.into(), headers, keeping)?;
        self.uploads.remove(&asked.query["uploadId"]);
        let etag = response.headers()[ETAG].to_str().unwrap().to_owned();
        let body = document("CompleteMultipartUploadResult", &element("ETag", &etag));
        Ok(response.map(|_| Body::from(body)))
    }

    pub(super) fn abort(&mut self, asked: &Asked) -> Outcome {
        asked.only(&["uploadId"], &[])?;
        self.upload(asked)?;
        self.uploads.remove(&asked.query["uploadId"]);
        Ok(Response::builder().status(204).body(Body::empty()).unwrap())
    }

    pub(super) fn list_uploads(&self, asked: &Asked) -> Outcome {
        asked.only(&["uploads", "prefix", "key-marker", "upload-id-marker", "max-uploads"], &[])?;
        let prefix = asked.query.get("prefix").map_or("", String::as_str);
        let uploads = self.uploads.iter().filter(|(_, upload)| upload.key.starts_with(prefix));
        let inner: String = uploads
            .map(|(id, upload)| {
                let begun = element("Initiated", &upload.begun.to_string());
                format!("<Upload>{}{}{begun}</Upload>", element("Key", &upload.key), element("UploadId", id))
            })
            .collect();
        Ok(xml(200, document("ListMultipartUploadsResult", &(inner + &element("IsTruncated", "false")))))
    }

    fn upload(&mut self, asked: &Asked) -> Result<&mut Upload, Refusal> {
        let upload = self.uploads.get_mut(&asked.query["uploadId"]).filter(|upload| upload.key == asked.key);
        upload.ok_or(Refusal::NO_SUCH_UPLOAD)
    }

    fn check_generation(&self, asked: &Asked) -> Result<(), Refusal> {
        let Some(wanted) = asked.header(GENERATION_MATCH) else { return Ok(()) };
        let there = self.objects.get(&asked.key).map_or(0, |object| object.generation);
        if wanted == there.to_string() { Ok(()) } else { Err(Refusal::PRECONDITION) }
    }

    fn insert(&mut self, key: &str, bytes: Bytes, headers: Vec<(String, String)>, keeping: Keeping) -> Outcome {
        self.require_not_kept(key)?;
        self.newest += 1;
        let etag = etag_of(&bytes);
        // A generation is the time in microseconds; what counts is that no two are the same.
        let generation = 1_700_000_000_000_000 + self.newest;
        let object = Object { bytes, etag, generation, modified: Timestamp::now(), headers, keeping };
        let response = Response::builder().header(ETAG, &object.etag).header("x-goog-generation", generation);
        self.objects.insert(key.to_owned(), object);
        Ok(response.body(Body::empty()).unwrap())
    }
}

impl Object {
    fn described(&self, response: axum::http::response::Builder) -> axum::http::response::Builder {
        let modified = self.modified.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let response = response
            .header(ETAG, &self.etag)
            .header(LAST_MODIFIED, modified)
            .header("x-goog-generation", self.generation)
            .header("x-goog-metageneration", 1);
        let lock = self.keeping.headers();
        self.headers.iter().chain(&lock).fold(response, |response, (name, value)| response.header(name, value))
    }
}

fn element_of(key: &str, object: &Object) -> String {
    let inner = element("Key", key)
        + &element("Generation", &object.generation.to_string())
        + &element("LastModified", &object.modified.to_string())
        + &element("ETag", &object.etag)
        + &element("Size", &object.bytes.len().to_string());
    format!("<Contents>{inner}</Contents>")
}

fn kept_headers(asked: &Asked) -> Vec<(String, String)> {
    let kept = |name: &str| ["content-type", CLASS, KMS_KEY].contains(&name) || name.starts_with("x-goog-meta-");
    let headers = asked.headers.iter().filter(|(name, _)| kept(name.as_str()));
    headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect()
}

fn etag_of(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// The first and the last byte of `bytes=first-last`, `bytes=first-` or `bytes=-count`, if there are such.
fn ranged(range: &str, size: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = match (first, last) {
        ("", count) => (size.saturating_sub(count.parse().ok()?), size.checked_sub(1)?),
        (first, "") => (first.parse().ok()?, size.checked_sub(1)?),
        (first, last) => (first.parse().ok()?, last.parse::<usize>().ok()?.min(size.checked_sub(1)?)),
    };
    (first <= last && first < size).then_some((first, last))
}
