//! What is served, by who may ask it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::guard::{Does, Guard, Peer, Reach};
use super::limits::Limits;

/// What is served, by who may ask it.
#[derive(Debug, Default)]
pub struct Routes {
    /// What anybody may ask: probes, which have no token, and what tells nothing.
    pub open: Router,
    /// What tells of the cluster.
    pub reading: Router,
    /// What tells keys and values that are in it.
    pub revealing: Router,
    /// What changes something, whatever its method.
    pub changing: Router,
}

/// One door: who passes, how many at once, and how long they may stay.
#[derive(Clone)]
struct Door {
    guard: Guard,
    reach: Reach,
    does: Does,
    places: Arc<Semaphore>,
    within: Duration,
}

impl Routes {
    /// These and `others`. No path may be in both.
    pub fn merge(self, others: Self) -> Self {
        Self {
            open: self.open.merge(others.open),
            reading: self.reading.merge(others.reading),
            revealing: self.revealing.merge(others.revealing),
            changing: self.changing.merge(others.changing),
        }
    }

    /// Everything behind its door, where the server is reached like that.
    pub(super) fn guarded(self, guard: &Guard, reach: Reach, limits: &Limits) -> Router {
        let door = |does, within| {
            let places = Arc::new(Semaphore::new(limits.at_once));
            from_fn_with_state(Door { guard: guard.clone(), reach, does, places, within }, pass)
        };
        // Only what there is has a door: asking for what there is not, needs no token.
        let behind = |router: Router, does, within| {
            if router.has_routes() { router.route_layer(door(does, within)) } else { router }
        };
        self.open
            .merge(behind(self.reading, Does::Read, limits.reads_within))
            .merge(behind(self.revealing, Does::Reveal, limits.reads_within))
            .merge(behind(self.changing, Does::Change, limits.changes_within))
            .layer(DefaultBodyLimit::max(limits.body_bytes))
            .layer(from_fn(add_headers))
    }
}

async fn pass(State(door): State<Door>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied().unwrap_or_default();
    if let Err(refusal) = door.guard.admit(door.does, peer, door.reach, request.headers()) {
        tracing::info!(path = request.uri().path(), ?refusal, "somebody was not let in");
        return refusal.answer(door.does);
    }
    let Ok(_place) = door.places.try_acquire() else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], "too many requests at once\n").into_response();
    };
    match timeout(door.within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "this took too long\n").into_response(),
    }
}

/// Answers are of their moment, and are what they say they are.
async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
