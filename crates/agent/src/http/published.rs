//! The paths, bodies and states that containers of the published kind ask each other for.
//!
//! | path | who may | answer |
//! |---|---|---|
//! | `/initialization/start?mode=sanity` or `full` | change | 200, nothing; begins if it was `New` |
//! | `/initialization/status` | change | `New`, `Progress`, `Successful` or `Failed`; the last two are told once, then it is `New` |
//! | `/snapshot/full?final=` | change | the full that was published; 400, 405, 500 |
//! | `/snapshot/delta` | change | the delta that was sealed, or `null`; 405, 500 |
//! | `/snapshot/latest` | read | the newest full and the deltas behind it; 405, 500 |
//! | `/config` | read | etcd's configuration for this member, as YAML; 500 |
//! | `/metrics` | read | what monitoring reads |
//! | `/healthz` | anybody | `{"health":true}` with 200, or `{"health":false}` with 503, and what is recoverable |
//!
//! An agent that stands by passes fulls and deltas on to the one that writes, if it knows where that is (`--advertise`), and else
//! answers 405 with its name. What is newest it tells itself: the archive is the same.
//!
//! The published server takes every method for each of them, so this one does. Where it answers an error with nothing, this one
//! says why.
//!
//! **`/healthz`.** Published is that it answers 200 where the agent writes and its etcd answers, and 503 elsewhere. Probes in the
//! field restart containers by that, and forwarding looks for the writer by it; were it 503 whenever a store is away, a
//! probe would restart a healthy etcd because of its backup. So the status keeps that meaning, and the body says what is
//! recoverable beside it. Who wants the status to say that asks for `/healthz?recoverable`: 200 if all could be brought
//! back now, 503 if not, or if nobody knows.

mod finals;
mod initialization;
mod snapshot;

use std::sync::Arc;

use api::status::{Recoverable, Verdict};
use axum::extract::{Query, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode, Uri};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use crate::wrap::Mode;
pub use initialization::{Initialization, State as InitializationState};
pub use snapshot::{Latest, Snapshot, SnapshotKind};

use finals::Finals;

use super::forward::PASSED_ON;
use super::{Forward, Routes};

/// Who prepares the data directory of a member, and tells its etcd how to start.
pub trait Prepare: Send + Sync {
    /// Makes the data directory fit for etcd. Whatever is asked for meanwhile waits for it. If it cannot, says why.
    fn prepare(&self, mode: Mode) -> BoxFuture<'static, Result<(), String>>;

    /// etcd's configuration for this member; see [`crate::member::shared`].
    fn config(&self) -> BoxFuture<'static, Result<String, String>>;
}

/// Who publishes fulls and seals deltas.
pub trait Snapshots: Send + Sync {
    /// Publishes a full now, the last one if it is final.
    fn full(&self, is_final: bool) -> BoxFuture<'static, Result<Snapshot, NoSnapshot>>;

    /// Seals what has not been sealed yet; nothing if there is nothing.
    fn delta(&self) -> BoxFuture<'static, Result<Option<Snapshot>, NoSnapshot>>;

    /// The newest full, and the deltas behind it.
    fn latest(&self) -> BoxFuture<'static, Result<Latest, NoSnapshot>>;

    /// Where the one is who publishes and seals, if that is another and it is known.
    fn writer(&self) -> Option<String>;

    /// How things are.
    fn health(&self) -> Health;

    /// What monitoring reads, as OpenMetrics.
    fn metrics(&self) -> String;
}

/// Why there is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSnapshot {
    /// There is no archive, or this agent does not write.
    NotHere(String),
    /// It failed.
    Failed(String),
}

/// How things are, as far as probes ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// Whether this agent writes and its etcd answers: all that the published probe knows.
    pub is_leading: bool,
    /// What could be brought back.
    pub recoverable: Recoverable,
}

#[derive(Clone)]
struct Published {
    prepare: Arc<dyn Prepare>,
    snapshots: Arc<dyn Snapshots>,
    finals: Finals,
    initialization: Arc<Initialization>,
    forward: Arc<Forward>,
}

/// The published paths. What only another agent can do is passed on to it by `forward`.
pub fn routes(prepare: Arc<dyn Prepare>, snapshots: Arc<dyn Snapshots>, forward: Forward) -> Routes {
    let (initialization, forward) = (Arc::new(Initialization::default()), Arc::new(forward));
    let published = Published { prepare, snapshots, finals: Finals::default(), initialization, forward };
    Routes {
        open: Router::new().route("/healthz", any(healthz)).with_state(published.clone()),
        reading: Router::new()
            .route("/snapshot/latest", any(latest))
            .route("/config", any(configuration))
            .route("/metrics", get(metrics))
            .with_state(published.clone()),
        revealing: Router::new(),
        changing: Router::new()
            .route("/initialization/start", any(start))
            .route("/initialization/status", any(status))
            .route("/snapshot/full", any(full))
            .route("/snapshot/delta", any(delta))
            .with_state(published),
    }
}

#[derive(Deserialize)]
struct StartQuery {
    mode: Option<String>,
}

async fn start(State(published): State<Published>, Query(query): Query<StartQuery>) -> StatusCode {
    // Whatever else is asked for, is checked as a whole.
    let mode = if query.mode.as_deref() == Some("sanity") { Mode::Sanity } else { Mode::Full };
    let prepare = Arc::clone(&published.prepare);
    published.initialization.start(move || prepare.prepare(mode));
    StatusCode::OK
}

async fn status(State(published): State<Published>) -> &'static str {
    published.initialization.tell().word()
}

#[derive(Deserialize)]
struct FullQuery {
    #[serde(rename = "final")]
    is_final: Option<String>,
}

async fn full(State(published): State<Published>, Query(query): Query<FullQuery>, asked: Asked) -> Response {
    let Some(is_final) = truth(query.is_final.as_deref().unwrap_or_default()) else {
        return (StatusCode::BAD_REQUEST, "final is true or false\n").into_response();
    };
    let full = published.snapshots.full(is_final).await.map(|full| published.finals.note(full));
    published.answer_or_pass_on(full, &asked).await
}

async fn delta(State(published): State<Published>, asked: Asked) -> Response {
    published.answer_or_pass_on(published.snapshots.delta().await, &asked).await
}

/// What was asked, as far as it is passed on.
type Asked = (Uri, HeaderMap);

impl Published {
    /// The answer; that of the agent that writes, if this one does not and that one can be asked.
    async fn answer_or_pass_on(
        &self,
        outcome: Result<impl Serialize, NoSnapshot>,
        (asked, headers): &Asked,
    ) -> Response {
        let why = match outcome {
            Err(NoSnapshot::NotHere(why)) if !headers.contains_key(PASSED_ON) => why,
            outcome => return answer(outcome),
        };
        let Some(writer) = self.snapshots.writer() else { return answer(Err::<(), _>(NoSnapshot::NotHere(why))) };
        match self.forward.to(&writer, asked).await {
            Ok(answered) => answered,
            Err(cannot) => {
                let why = format!("{why}; it does not answer at {writer}: {cannot}");
                answer(Err::<(), _>(NoSnapshot::NotHere(why)))
            }
        }
    }
}

async fn latest(State(published): State<Published>) -> Response {
    let latest = published.snapshots.latest().await;
    answer(latest.map(|Latest { full_snapshot, delta_snapshots }| {
        let full_snapshot = full_snapshot.map(|full| published.finals.note(full));
        Latest { full_snapshot, delta_snapshots }
    }))
}

async fn configuration(State(published): State<Published>) -> Response {
    match published.prepare.config().await {
        Ok(yaml) => ([(CONTENT_TYPE, "application/yaml")], yaml).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why + "\n").into_response(),
    }
}

async fn metrics(State(published): State<Published>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], published.snapshots.metrics())
}

#[derive(Serialize)]
struct Healthz {
    health: bool,
    recoverable: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

async fn healthz(State(published): State<Published>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let Health { is_leading, recoverable } = published.snapshots.health();
    // While the data directory is being prepared, etcd does not run.
    let is_leading = is_leading && published.initialization.state() != InitializationState::Progress;
    let health = match query.as_deref() {
        Some("recoverable" | "recoverable=" | "recoverable=true") => recoverable.verdict == Verdict::Yes,
        _ => is_leading,
    };
    let status = if health { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let Recoverable { verdict, until, why_not, .. } = recoverable;
    (status, Json(Healthz { health, recoverable: verdict, until, why_not }))
}

fn answer(outcome: Result<impl Serialize, NoSnapshot>) -> Response {
    match outcome {
        Ok(told) => Json(told).into_response(),
        Err(NoSnapshot::NotHere(why)) => (StatusCode::METHOD_NOT_ALLOWED, why + "\n").into_response(),
        Err(NoSnapshot::Failed(why)) => (StatusCode::INTERNAL_SERVER_ERROR, why + "\n").into_response(),
    }
}

/// A truth value as Go reads it; nothing given is false.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "" | "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
