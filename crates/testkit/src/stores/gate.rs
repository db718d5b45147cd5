//! A gate before a store that takes anything: what its keeper refuses is refused in the words of AWS or whoever, and all else is
//! passed on as it came.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::answers::HttpAnswer;
use super::in_thread::InThread;
use super::{address_of, behind};
use crate::ports::Port;

/// The gate.
#[derive(Debug)]
pub(super) struct Gate<K> {
    port: Port,
    way: Arc<Way<K>>,
    _thread: InThread,
}

/// Who decides at a gate, by what has passed it.
pub(super) trait Keeper: Send + 'static {
    /// What a request is about.
    type Asked;

    /// Whether the server is told nothing of a header.
    fn is_hidden(name: &str) -> bool;

    /// Looks at a request before the server is asked.
    fn admit(&self, parts: &Parts, body: &[u8]) -> Result<Self::Asked, Refusal>;

    /// The server has done what it was asked.
    fn passed(&mut self, asked: Self::Asked, answer: &HttpAnswer);
}

/// An error as AWS words it; Azure names it in a header too, of which the others take no notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: Cow<'static, str>,
}

#[derive(Debug)]
struct Way<K> {
    server: SocketAddr,
    keeper: Mutex<K>,
}

impl<K: Keeper> Gate<K> {
    /// Opens one before the store at `url`, which takes a signature that was made for another host.
    ///
    /// # Panics
    /// If the host is not an address.
    pub(super) fn before_url(url: &str, keeper: K) -> Gate<K> {
        let way = Arc::new(Way { server: address_of(url), keeper: Mutex::new(keeper) });
        let (port, router) = (Port::reserve(), Router::new().fallback(answer::<K>).with_state(Arc::clone(&way)));
        let thread = InThread::serve(&port, router);
        Gate { port, way, _thread: thread }
    }

    /// Its URL, in place of the server's.
    pub(super) fn url(&self) -> String {
        self.port.url()
    }

    /// Who decides, while nothing passes.
    pub(super) fn keeper(&self) -> MutexGuard<'_, K> {
        self.way.keeper.lock().unwrap()
    }
}

async fn answer<K: Keeper>(State(way): State<Arc<Way<K>>>, request: Request) -> Response {
    let (parts, body) = behind::whole(request).await;
    way.pass(&parts, &body).unwrap_or_else(IntoResponse::into_response)
}

impl<K: Keeper> Way<K> {
    fn pass(&self, parts: &Parts, body: &[u8]) -> Result<Response, Refusal> {
        let mut keeper = self.keeper.lock().unwrap();
        let asked = keeper.admit(parts, body)?;
        let answer = behind::ask(self.server, parts, body, K::is_hidden);
        if answer.status < 300 {
            keeper.passed(asked, &answer);
        }
        Ok(behind::response(&parts.method, answer, &[]))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { status, code, message } = self;
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
        (status, [("content-type", "application/xml"), ("x-ms-error-code", code)], body).into_response()
    }
}
