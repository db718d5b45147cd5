//! Google Cloud Storage, as far as its XML interface and the ways to its tokens go, and its JSON interface for what keeps objects
//! from being deleted.
//!
//! It is strict: a parameter or an `x-goog-` header that it does not know, or that GCS does not take with that
//! request, is an error. In particular conditions cannot be put on multipart uploads.

mod bucket;
mod federation;
mod identity;
mod keeping;
mod permissions;
mod xml;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use url::form_urlencoded;

use self::bucket::{Bucket, Refusal};
use self::identity::Identity;
use super::in_thread::InThread;
use crate::ports::Port;

/// A GCS with one service account.
#[derive(Debug)]
pub struct FakeGcs {
    port: Port,
    state: Arc<Mutex<Gcs>>,
    _thread: InThread,
}

/// What happens to a request to the storage, instead of the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripted {
    /// It is not carried out, and answered with this status.
    Status(u16),
    /// It is carried out, but the answer is this status.
    Lost(u16),
    /// It is carried out after this time.
    Late(Duration),
    /// Nothing unusual.
    Served,
}

#[derive(Debug)]
struct Gcs {
    identity: Identity,
    buckets: BTreeMap<String, Bucket>,
    scripted: VecDeque<Scripted>,
    requests: Vec<String>,
    page: usize,
    denied: BTreeSet<&'static str>,
}

const MAX_BODY: usize = 256 << 20;

impl FakeGcs {
    /// Starts one without buckets.
    pub fn start() -> FakeGcs {
        let port = Port::reserve();
        let state = Arc::new(Mutex::new(Gcs {
            identity: Identity::new(&port.url()),
            buckets: BTreeMap::new(),
            scripted: VecDeque::new(),
            requests: Vec::new(),
            page: 1000,
            denied: BTreeSet::new(),
        }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let thread = InThread::serve(&port, router);
        FakeGcs { port, state, _thread: thread }
    }

    /// Its URL, in place of that of GCS. The metadata server of a machine at Google is at the same address.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// The key of the service account, as a file would have it: with this server as `gcs_base_url` and `token_uri`.
    pub fn service_account_key(&self) -> String {
        self.gcs(|gcs| gcs.identity.key_file())
    }

    /// How somebody who is known elsewhere gets tokens, as a file would have it: `source` is where a token of elsewhere is found, in
    /// a file or at a URL. If it impersonates, they are of the service account, and no others count.
    pub fn external_account(&self, source: &serde_json::Value, impersonates: bool) -> String {
        self.gcs(|gcs| gcs.identity.external_account(source, impersonates))
    }

    /// Where a token of elsewhere is answered, in JSON, for whoever sends a header along.
    pub fn subject_source(&self) -> serde_json::Value {
        self.gcs(|gcs| gcs.identity.subject_source())
    }

    /// A token of elsewhere, that counts until the next is asked for.
    pub fn next_subject_token(&self) -> String {
        self.gcs(|gcs| gcs.identity.next_subject())
    }

    /// Lets tokens that are given out last so long.
    pub fn tokens_last(&self, time: SignedDuration) {
        self.gcs(|gcs| gcs.identity.lasts_seconds = time.as_secs());
    }

    /// The access tokens that count.
    pub fn tokens(&self) -> Vec<String> {
        self.gcs(|gcs| gcs.identity.given())
    }

    /// Makes a bucket.
    pub fn bucket(&self, name: &str) {
        self.gcs(|gcs| gcs.buckets.insert(name.to_owned(), Bucket::default()));
    }

    /// Lets everything in a bucket be kept for this time after it was written, as a policy of the bucket does.
    pub fn keep_for(&self, bucket: &str, time: SignedDuration) {
        self.gcs(|gcs| gcs.buckets.get_mut(bucket).unwrap().keep_for(time));
    }

    /// Puts a hold on an object until some event, which is not the kind of hold that `retain` puts on.
    pub fn hold_until_an_event(&self, bucket: &str, key: &str) {
        self.gcs(|gcs| gcs.buckets.get_mut(bucket).unwrap().hold_until_an_event(key));
    }

    /// What happens to the next requests to the storage, one after the other.
    pub fn next(&self, scripted: impl IntoIterator<Item = Scripted>) {
        self.gcs(|gcs| gcs.scripted.extend(scripted));
    }

    /// Lets listings have so many objects per page.
    pub fn page(&self, objects: usize) {
        self.gcs(|gcs| gcs.page = objects);
    }

    /// Takes these permissions away, by their names in IAM, and gives all others back.
    pub fn deny(&self, permissions: &[&'static str]) {
        self.gcs(|gcs| gcs.denied = permissions.iter().copied().collect());
    }

    /// Lets no access token count any more that was given out.
    pub fn forget_tokens(&self) {
        self.gcs(|gcs| gcs.identity.forget());
    }

    /// The requests to the storage so far: `GET /bucket?list-type=2`.
    pub fn requests(&self) -> Vec<String> {
        self.gcs(|gcs| gcs.requests.clone())
    }

    /// The names of all objects, in order.
    pub fn names(&self, bucket: &str) -> Vec<String> {
        self.gcs(|gcs| gcs.buckets[bucket].names())
    }

    /// What an object was written with: `x-goog-storage-class`.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn header(&self, bucket: &str, key: &str, name: &str) -> Option<String> {
        self.gcs(|gcs| gcs.buckets[bucket].header(key, name))
    }

    /// How many uploads were begun and neither completed nor given up.
    pub fn open_uploads(&self, bucket: &str) -> usize {
        self.gcs(|gcs| gcs.buckets[bucket].open_uploads())
    }

    fn gcs<T>(&self, look: impl FnOnce(&mut Gcs) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }
}

/// A request, understood as far as its form goes.
struct Asked {
    method: Method,
    is_json: bool,
    bucket: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

async fn answer(State(state): State<Arc<Mutex<Gcs>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else { return StatusCode::BAD_REQUEST.into_response() };
    let path = parts.uri.path();
    if path == "/token" || path.starts_with("/computeMetadata/") || path.starts_with(federation::PREFIX) {
        return state.lock().unwrap().identity.answer(path, &parts.headers, &body);
    }

    let scripted = {
        let mut gcs = state.lock().unwrap();
        gcs.requests.push(format!("{} {}", parts.method, parts.uri));
        gcs.scripted.pop_front().unwrap_or(Scripted::Served)
    };
    if let Scripted::Status(status) = scripted {
        return Refusal::scripted(status).into_response();
    }
    if let Scripted::Late(after) = scripted {
        tokio::time::sleep(after).await;
    }

    // In the JSON interface, a name is one part of the path.
    let of_json = path.strip_prefix("/storage/v1/b/").and_then(|rest| rest.split_once("/o/"));
    let of_xml = || path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
    let (bucket, key) = of_json.unwrap_or_else(of_xml);
    let is_json = of_json.is_some();
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let (bucket, key) = (percent_decoded(bucket), percent_decoded(key));
    let without_body = parts.method == Method::HEAD;
    let asked = Asked { method: parts.method, is_json, bucket, key, query, headers: parts.headers, body };
    let served = state.lock().unwrap().serve(&asked).unwrap_or_else(IntoResponse::into_response);
    match scripted {
        Scripted::Lost(status) => Refusal::scripted(status).into_response(),
        _ if without_body => served.map(|_| Body::empty()),
        _ => served,
    }
}

impl Gcs {
    fn serve(&mut self, asked: &Asked) -> Result<Response, Refusal> {
        let bearer = asked.headers.get("authorization").and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Refusal::UNAUTHORIZED)?;
        if !self.identity.knows(bearer) {
            return Err(Refusal::UNAUTHORIZED);
        }
        let bucket = self.buckets.get_mut(&asked.bucket).ok_or(Refusal::NO_SUCH_BUCKET)?;
        let needed = permissions::needed(asked, bucket.objects.contains_key(&asked.key));
        if let Some(lacking) = needed.iter().find(|permission| self.denied.contains(*permission)) {
            return Ok(permissions::refused(lacking));
        }
        let has = |parameter: &str| asked.query.contains_key(parameter);
        match (&asked.method, asked.key.is_empty()) {
            (&Method::GET, false) if asked.is_json => bucket.describe(asked),
            (&Method::PATCH, false) if asked.is_json => bucket.patch(asked),
            _ if asked.is_json => Err(Refusal(405, "MethodNotAllowed", "The specified method is not allowed.")),
            (&Method::GET, true) if has("uploads") => bucket.list_uploads(asked),
            (&Method::GET, true) => bucket.list(asked, self.page),
            (&Method::GET | &Method::HEAD, false) => bucket.get(asked),
            (&Method::PUT, false) if has("uploadId") => bucket.put_part(asked),
            (&Method::PUT, false) if asked.headers.contains_key("x-goog-copy-source") => bucket.copy(asked),
            (&Method::PUT, false) => bucket.put(asked),
            (&Method::POST, false) if has("uploads") => bucket.begin(asked),
            (&Method::POST, false) if has("uploadId") => bucket.complete(asked),
            (&Method::DELETE, false) if has("uploadId") => bucket.abort(asked),
            (&Method::DELETE, false) => bucket.delete(asked),
            _ => Err(Refusal(405, "MethodNotAllowed", "The specified method is not allowed.")),
        }
    }
}

impl Asked {
    /// Fails unless only these parameters and `x-goog-` headers are there. A `*` at the end stands for anything.
    fn only(&self, parameters: &[&str], headers: &[&str]) -> Result<(), Refusal> {
        let known = |name: &str, list: &[&str]| {
            list.iter().any(|known| match known.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == *known,
            })
        };
        let strange_header = self.headers.keys().any(|name| {
            let ours = name.as_str().starts_with("x-goog-") || name.as_str().starts_with("if-");
            ours && !known(name.as_str(), headers)
        });
        if strange_header || self.query.keys().any(|name| !known(name, parameters)) {
            return Err(Refusal(400, "InvalidArgument", "A parameter or a header is not taken with this request."));
        }
        Ok(())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
