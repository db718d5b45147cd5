//! The status, sent whenever it is new, to whoever listens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api::problem::{Kind, Problem};
use api::status::Status;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::http::looks::Looks;
use crate::http::looks::problem::response;

/// Whoever listens gets no more than one in this time: a person reads no faster.
const APART: Duration = Duration::from_millis(500);

/// A line without meaning is sent in silence, so that both ends notice when the other is gone.
const ALIVE: Duration = Duration::from_secs(10);

/// Sends the status now, and again whenever it is new, until the agent stops.
pub(super) async fn events(State(looks): State<Arc<Looks>>) -> Response {
    let Ok(place) = Arc::clone(&looks.listeners).try_acquire_owned() else {
        let problem = Problem::new(Kind::Unavailable, "too many are listening");
        return response(&problem.remedy("close pages that nobody looks at"));
    };
    let mut status = looks.status.clone();
    status.mark_changed();
    let events = stream::unfold((status, place, None), async |(mut status, place, sent)| {
        if let Some(sent) = sent {
            tokio::time::sleep_until(sent + APART).await;
        }
        let event = next(&mut status).await?;
        Some((Ok::<Event, Infallible>(event), (status, place, Some(Instant::now()))))
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather what they pass on would make all of it late.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next(status: &mut watch::Receiver<Arc<Status>>) -> Option<Event> {
    status.changed().await.ok()?;
    let now = Arc::clone(&status.borrow_and_update());
    Event::default().event("status").json_data(&*now).ok()
}
