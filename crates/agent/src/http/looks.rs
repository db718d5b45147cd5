//! What the agent shows of itself and of its archive, as JSON: what the dashboard is made of.
//!
//! | request                          | answer                                                            |
//! |----------------------------------|-------------------------------------------------------------------|
//! | `GET /api/v1/status`             | [`api::status::Status`]                                           |
//! | `GET /api/v1/events`             | the same as server-sent events called `status`, whenever it is new |
//! | `GET /api/v1/points`             | [`api::points::Timeline`]                                         |
//! | `GET /api/v1/keys`               | [`api::keys::Keys`], for `at`, `lineage`, `prefix`, `after`, `limit` |
//! | `GET /api/v1/key`                | [`api::keys::Found`], for `at`, `lineage`, and `key` or `key_base64` |
//! | `GET /api/v1/history`            | [`api::keys::History`], for the same                              |
//! | `GET /api/v1/diff`               | [`api::keys::Diff`], for `from`, `to`, `lineage`, `prefix`        |
//! | `POST /api/v1/restore/plan`      | [`api::restore::Plan`], for an [`api::restore::Wish`]             |
//! | `POST /api/v1/restore`           | [`api::restore::Restoring`], for an [`api::restore::Order`]       |
//!
//! Every error is an [`api::problem::Problem`]. Only the last request changes anything, and only
//! `keys`, `key`, `history` and `diff` tell keys and values, so these are apart from the others: who serves these routers asks
//! for more there. Whoever asks waits for a turn, and for an answer, only so long.
//!
//! - [`shelf`]: the archive, open, and opened anew when it is old
//! - [`restorer`]: who restores, where somebody does
//! - `points`, `keys`, `changes`, `plan`: the answers
//! - `events`, `ask`, `problem`: how they travel

mod ask;
mod changes;
mod events;
mod keys;
mod place;
mod plan;
mod points;
mod problem;
pub mod restorer;
pub mod shelf;

use std::sync::Arc;

use api::keys::{Diff, Found, History, Keys};
use api::points::Timeline;
use api::problem::{Kind, Problem};
use api::restore::{Order, Plan, Restoring, Wish};
use api::status::Status;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::{get, post};
use tokio::sync::{Semaphore, watch};

use crate::http::looks::ask::{Answer, Body, Query};
use crate::http::looks::restorer::Restorer;
use crate::http::looks::shelf::{Shelf, Shelved};

/// Where the answers come from.
pub struct Looks {
    status: watch::Receiver<Arc<Status>>,
    shelf: Arc<Shelf>,
    restorer: Option<Arc<dyn Restorer>>,
    listeners: Arc<Semaphore>,
}

/// A wish is short.
const MAX_BODY_BYTES: usize = 64 << 10;

/// How many may listen to events at once.
const LISTENERS: usize = 64;

impl Looks {
    /// Answers from the newest `status`, from the archive on `shelf`, and from `restorer` if there is one.
    pub fn new(
        status: watch::Receiver<Arc<Status>>,
        shelf: Arc<Shelf>,
        restorer: Option<Arc<dyn Restorer>>,
    ) -> Arc<Self> {
        Arc::new(Self { status, shelf, restorer, listeners: Arc::new(Semaphore::new(LISTENERS)) })
    }

    fn now(&self) -> Arc<Status> {
        Arc::clone(&self.status.borrow())
    }

    /// What `look` finds in the archive, which has what the newest status tells of.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Shelved) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let told = self.status.borrow().recoverable.revision;
        self.shelf.read(told, look).await
    }
}

/// The requests that tell of the archive, and of none of its keys.
pub fn reading(looks: Arc<Looks>) -> Router {
    Router::new()
        .route("/api/v1/status", get(status))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/points", get(points))
        .route("/api/v1/restore/plan", post(plan))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(looks)
}

/// The requests that tell keys and values.
pub fn revealing(looks: Arc<Looks>) -> Router {
    Router::new()
        .route("/api/v1/keys", get(keys))
        .route("/api/v1/key", get(key))
        .route("/api/v1/history", get(history))
        .route("/api/v1/diff", get(diff))
        .with_state(looks)
}

/// The request that changes something.
pub fn changing(looks: Arc<Looks>) -> Router {
    let router = Router::new().route("/api/v1/restore", post(restore));
    router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).with_state(looks)
}

async fn status(State(looks): State<Arc<Looks>>) -> Answer<Status> {
    Answer(Ok(Status::clone(&looks.now())))
}

async fn points(State(looks): State<Arc<Looks>>) -> Answer<Timeline> {
    Answer(looks.read(points::timeline).await)
}

async fn keys(State(looks): State<Arc<Looks>>, Query(wanted): Query<keys::Wanted>) -> Answer<Keys> {
    Answer(looks.read(move |open| keys::keys(open, &wanted)).await)
}

async fn key(State(looks): State<Arc<Looks>>, Query(wanted): Query<keys::WantedKey>) -> Answer<Found> {
    Answer(looks.read(move |open| keys::key(open, &wanted)).await)
}

async fn history(State(looks): State<Arc<Looks>>, Query(wanted): Query<keys::WantedKey>) -> Answer<History> {
    Answer(looks.read(move |open| changes::history(open, &wanted)).await)
}

async fn diff(State(looks): State<Arc<Looks>>, Query(wanted): Query<changes::WantedDiff>) -> Answer<Diff> {
    Answer(looks.read(move |open| changes::diff(open, &wanted)).await)
}

async fn plan(State(looks): State<Arc<Looks>>, Body(wish): Body<Wish>) -> Answer<Plan> {
    Answer(planned(&looks, wish).await)
}

async fn restore(State(looks): State<Arc<Looks>>, Body(order): Body<Order>) -> Answer<Restoring> {
    Answer(carry_out(&looks, order).await)
}

async fn planned(looks: &Looks, wish: Wish) -> Result<Plan, Problem> {
    let status = looks.now();
    let read = looks.read(move |open| plan::read(open, &wish, &status)).await?;
    let here = match &looks.restorer {
        Some(restorer) => restorer.here(&read.wish, &read.read).await,
        None => Err(NOT_ITS_ETCD.into()),
    };
    Ok(read.with(here))
}

/// Why whoever follows an etcd that others have started does not restore it.
const NOT_ITS_ETCD: &str = "etcd has to be stopped for that, and this agent has not started it; where it is stopped, the command \
                            for another machine does it too, with --replace";

/// What is done is what was shown: a plan that has become another one is not carried out.
async fn carry_out(looks: &Looks, order: Order) -> Result<Restoring, Problem> {
    let plan = planned(looks, order.wish).await?;
    if plan.id != order.plan {
        return Err(Problem::new(Kind::Conflict, "what would be restored is no longer what was shown")
            .remedy("look at the plan as it is now, and order that"));
    }
    let refused = plan.why_not_here.clone().unwrap_or_else(|| "this agent restores nothing".into());
    match &looks.restorer {
        Some(restorer) if plan.here.is_some() => restorer.restore(plan).await,
        _ => Err(Problem::new(Kind::Unsupported, refused).remedy(format!("elsewhere: {}", plan.command))),
    }
}
