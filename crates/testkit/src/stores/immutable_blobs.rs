//! Azure's immutability policies and legal holds, before a server that has none. What is kept is neither replaced nor deleted,
//! in the words of Azure, and what keeps a blob is told along with it; a hold on a container is told of the container alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::in_thread::InThread;
use super::{address_of, behind};
use crate::ports::Port;

/// Who keeps blobs, before a server that does not.
#[derive(Debug)]
pub struct ImmutableBlobs {
    port: Port,
    account: String,
    gate: Arc<Gate>,
    _thread: InThread,
}

#[derive(Debug)]
struct Gate {
    server: SocketAddr,
    kept: Mutex<Kept>,
}

/// What is kept, by path: `/account/container/blob`.
#[derive(Debug, Default)]
struct Kept {
    blobs: BTreeMap<String, Keeping>,
    held_containers: Vec<String>,
    /// Containers with a policy of their own, and the blobs in them that are so young that it keeps them.
    policies: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Default)]
struct Keeping {
    until: Option<Timestamp>,
    is_locked: bool,
    hold: bool,
}

/// An error as Azure words it.
struct Refusal(StatusCode, &'static str);

const BY_POLICY: Refusal = Refusal(StatusCode::CONFLICT, "BlobImmutableDueToPolicy");
const BY_HOLD: Refusal = Refusal(StatusCode::CONFLICT, "BlobImmutableDueToLegalHold");
const INVALID: Refusal = Refusal(StatusCode::BAD_REQUEST, "InvalidHeaderValue");

const UNTIL: &str = "x-ms-immutability-policy-until-date";
const MODE: &str = "x-ms-immutability-policy-mode";
const HOLD: &str = "x-ms-legal-hold";

impl ImmutableBlobs {
    /// Starts one before the Azure at `url`, `http://127.0.0.1:<port>/<account>`.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> ImmutableBlobs {
        let gate = Arc::new(Gate { server: address_of(url), kept: Mutex::default() });
        let account = url.rsplit('/').next().expect("an account").to_owned();
        let (port, router) = (Port::reserve(), Router::new().fallback(answer).with_state(Arc::clone(&gate)));
        let thread = InThread::serve(&port, router);
        ImmutableBlobs { port, account, gate, _thread: thread }
    }

    /// The URL of the account, in place of the server's.
    pub fn url(&self) -> String {
        format!("{}/{}", self.port.url(), self.account)
    }

    /// Puts a legal hold on all of a container.
    pub fn hold_container(&self, name: &str) {
        self.gate.kept.lock().unwrap().held_containers.push(format!("/{}/{name}", self.account));
    }

    /// Puts an immutability policy on all of a container, which keeps those of its blobs that are `young`. None of them tells.
    pub fn keep_in_container(&self, name: &str, young: &[String]) {
        let container = format!("/{}/{name}", self.account);
        let young = young.iter().map(|blob| format!("{container}/{blob}")).collect();
        self.gate.kept.lock().unwrap().policies.insert(container, young);
    }
}

async fn answer(State(gate): State<Arc<Gate>>, request: Request) -> Response {
    let (parts, body) = behind::whole(request).await;
    gate.pass(&parts, &body).unwrap_or_else(IntoResponse::into_response)
}

impl Gate {
    fn pass(&self, parts: &Parts, body: &[u8]) -> Result<Response, Refusal> {
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let is_about = |what: &str| query.split('&').any(|pair| pair == what);
        let mut kept = self.kept.lock().unwrap();
        if parts.method == Method::PUT && is_about("comp=immutabilityPolicies") {
            kept.blobs.entry(path.to_owned()).or_default().prolong(&parts.headers)?;
            return Ok(Response::new(Body::empty()));
        }
        if parts.method == Method::PUT && is_about("comp=legalhold") {
            kept.blobs.entry(path.to_owned()).or_default().hold = is_held(&parts.headers)?;
            return Ok(Response::new(Body::empty()));
        }
        let is_more = query.split('&').any(|pair| pair.starts_with("comp=") || pair.starts_with("restype="));
        let makes = parts.method == Method::PUT && (!is_more || is_about("comp=blocklist"));
        if makes || parts.method == Method::DELETE {
            kept.require_not_kept(path)?;
        }
        let answer = behind::ask(self.server, parts, body, |_| false);
        if makes && answer.status < 300 {
            let mut keeping = Keeping::default();
            if parts.headers.contains_key(UNTIL) {
                keeping.prolong(&parts.headers)?;
            }
            keeping.hold = parts.headers.contains_key(HOLD) && is_held(&parts.headers)?;
            kept.blobs.insert(path.to_owned(), keeping);
        }
        let told = match answer.status < 300 {
            true => kept.told_of(path),
            false => Vec::new(),
        };
        Ok(behind::response(&parts.method, answer, &told))
    }
}

impl Kept {
    fn require_not_kept(&self, path: &str) -> Result<(), Refusal> {
        let is_of_container =
            |container: &String| path.strip_prefix(container.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let keeping = self.blobs.get(path).cloned().unwrap_or_default();
        if keeping.hold || self.held_containers.iter().any(is_of_container) {
            return Err(BY_HOLD);
        }
        if self.policies.values().flatten().any(|young| young == path) {
            return Err(BY_POLICY);
        }
        match keeping.until.filter(|until| *until > Timestamp::now()) {
            Some(_) => Err(BY_POLICY),
            None => Ok(()),
        }
    }

    fn told_of(&self, path: &str) -> Vec<(&'static str, String)> {
        let is_held = self.held_containers.iter().any(|container| container == path);
        let has_policy = self.policies.contains_key(path);
        if is_held || has_policy {
            return vec![
                ("x-ms-has-legal-hold", is_held.to_string()),
                ("x-ms-has-immutability-policy", has_policy.to_string()),
            ];
        }
        let Some(keeping) = self.blobs.get(path) else { return Vec::new() };
        let mut told = vec![(HOLD, keeping.hold.to_string())];
        if let Some(until) = keeping.until {
            told.push((UNTIL, until.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()));
            told.push((MODE, if keeping.is_locked { "locked" } else { "unlocked" }.to_owned()));
        }
        told
    }
}

impl Keeping {
    fn prolong(&mut self, headers: &HeaderMap) -> Result<(), Refusal> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let until = header(UNTIL).and_then(|text| jiff::fmt::rfc2822::parse(text).ok()).ok_or(INVALID)?.timestamp();
        let is_locked = match header(MODE) {
            Some("Locked") => true,
            Some("Unlocked") | None => false,
            Some(_) => return Err(INVALID),
        };
        let is_less = self.until.is_some_and(|there| until < there) || !is_locked;
        if self.is_locked && is_less {
            return Err(BY_POLICY);
        }
        (self.until, self.is_locked) = (Some(until), is_locked);
        Ok(())
    }
}

fn is_held(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(HOLD).and_then(|value| value.to_str().ok()) {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(INVALID),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal(status, code) = self;
        let message = "This operation is not permitted as the blob is immutable.";
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
        (status, [("content-type", "application/xml"), ("x-ms-error-code", code)], body).into_response()
    }
}
