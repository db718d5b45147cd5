//! The member beside an agent: its data directory is made fit before its etcd starts, and its etcd is told how to start.
//!
//! Whoever starts etcd asks for both by the published protocol; see [`crate::http::published`].
//!
//! - [`shared`]: etcd's configuration, as all members share it
//! - [`outlive`]: what is done when its cluster is lost while it runs

pub mod outlive;
pub mod shared;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use archive::error::in_one_line;
use etcd_rpc::{Endpoint, Member as Rpc, Word};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use tracing::Instrument;

use crate::http::published::{Mode, Prepare};
use crate::metrics::{Metrics, Restored};
use crate::start::cluster::LOOK;
use crate::start::decision::Decision;
use crate::start::directory::Depth;
use crate::start::ready::{BroughtBack, Launch, Ready};
use crate::start::{Setup, Start};
use shared::{Known, Shared};

/// The member beside an agent.
#[derive(Clone)]
pub struct Member {
    setup: Setup,
    /// The file that all members share.
    file: PathBuf,
    /// What earlier looks remember is kept from one start to the next.
    start: Arc<Mutex<Start>>,
    /// Whether a start waits for whoever looks at what runs.
    waits: watch::Sender<bool>,
    prepared: watch::Sender<Prepared>,
    brought_back: watch::Sender<Option<BroughtBack>>,
    metrics: Arc<Metrics>,
}

/// How its data directory is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Prepared {
    /// Nobody has asked for it yet.
    #[default]
    NotYet,
    /// It is being made fit.
    Preparing {
        /// Since when.
        since: Timestamp,
        /// What is done or waited for.
        what: String,
    },
    /// etcd can start, like this.
    Ready(Launch),
    /// Somebody has to do something first.
    Stopped {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: String,
    },
}

impl Member {
    /// The member that `setup` tells of; etcd's configuration is the one in `file`. How its data directory is, is told
    /// `prepared`, and what it was restored to by a start, this one or an earlier one, `brought_back`.
    pub fn new(
        setup: Setup,
        file: PathBuf,
        prepared: watch::Sender<Prepared>,
        brought_back: watch::Sender<Option<BroughtBack>>,
    ) -> Self {
        let metrics = Arc::clone(&setup.metrics);
        metrics.beside(&setup.place.name);
        let start = Arc::new(Mutex::new(Start::new(setup.clone())));
        brought_back.send_replace(BroughtBack::of(&setup.place, Timestamp::now()));
        Self { setup, file, start, waits: watch::Sender::default(), prepared, brought_back, metrics }
    }

    async fn make_fit(&self, depth: Depth) -> Result<(), String> {
        self.waits.send_replace(true);
        let mut start = self.start.lock().await;
        self.waits.send_replace(false);
        let (since, began) = (Timestamp::now(), Instant::now());
        let tell = |what: String| self.prepared.send_replace(Prepared::Preparing { since, what });
        tell("looking at the data directory".into());
        let mut restores = None;
        let ready = start.run(depth, |decision| {
            tracing::info!(%decision, "the start of the member");
            restores = way(decision).or(restores);
            tell(match decision {
                Decision::Wait(reason) | Decision::Stop(reason) => reason.with_remedy(),
                decision => decision.to_string(),
            });
        });
        let ready = ready.await;
        self.count(restores, began, matches!(ready, Ok(Ok(_))));
        let why = match ready {
            Ok(Ok(Ready { launch, .. })) => {
                BroughtBack::tell(&self.brought_back, &self.setup.place);
                self.prepared.send_replace(Prepared::Ready(launch));
                return Ok(());
            }
            Ok(Err(reason)) => reason.with_remedy(),
            Err(error) => in_one_line(&error),
        };
        tracing::error!(why, "the member is not started");
        self.prepared.send_replace(Prepared::Stopped { since: Timestamp::now(), why: why.clone() });
        Err(why)
    }

    fn count(&self, restores: Option<Restored>, began: Instant, succeeded: bool) {
        self.metrics.validated(began.elapsed(), succeeded);
        if let Some(way) = restores {
            self.metrics.restored(way, began.elapsed(), succeeded);
        }
    }

    /// What etcd has to be told now.
    async fn configuration(&self) -> Result<String, String> {
        let text = tokio::fs::read_to_string(&self.file).await;
        let text = text.map_err(|error| format!("reading {}: {error}", self.file.display()))?;
        let shared = Shared::read(&text).map_err(|error| error.to_string())?;
        let (name, prepared) = (&self.setup.place.name, self.prepared.borrow().clone());
        let made = match prepared {
            Prepared::Ready(launch) => shared.for_launch(name, &launch),
            _ => shared.for_member(name, &self.known().await),
        };
        made.map_err(|error| error.to_string())
    }

    /// What the first member that answers says of its cluster. Whoever waits for the configuration waits no longer than a look
    /// takes.
    async fn known(&self) -> Known {
        let Setup { endpoints, access, .. } = &self.setup;
        let ask = |endpoint: &Endpoint| {
            let member = Rpc::new(endpoint.clone(), access);
            async move { member.members(Word::Majority).await.ok() }
        };
        let asked: FuturesUnordered<_> = endpoints.iter().map(ask).collect();
        let mut answers = asked.filter_map(std::future::ready);
        let Ok(Some(listed)) = timeout(LOOK, answers.next()).await else { return Known::default() };
        let has_learner = listed.members.iter().any(|member| member.is_learner);
        let members = listed.members.into_iter().map(|member| member.name).collect();
        Known { members, has_learner }
    }
}

fn way(decision: &Decision) -> Option<Restored> {
    match decision {
        Decision::Restore(_) => Some(Restored::SingleNode),
        Decision::Join(_) => Some(Restored::SingleMember),
        _ => None,
    }
}

impl Prepare for Member {
    fn prepare(&self, mode: Mode) -> BoxFuture<'static, Result<(), String>> {
        let member = self.clone();
        let depth = match mode {
            Mode::Sanity => Depth::Quick,
            Mode::Full => Depth::Whole,
        };
        async move { member.make_fit(depth).await }.instrument(tracing::info_span!("start")).boxed()
    }

    fn config(&self) -> BoxFuture<'static, Result<String, String>> {
        let member = self.clone();
        async move { member.configuration().await }.boxed()
    }
}
