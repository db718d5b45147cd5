//! The agent, all of it: the right to write, following, upkeep, and what is told of them.

use std::path::PathBuf;
use std::sync::Arc;

use api::restore::Restoring;
use api::status::{Agent as About, Cluster, Status};
use archive::fence::{Candidate, Instance, Terms};
use archive::{Epoch, Error};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::blind;
use crate::follow::live::Live;
use crate::follow::order::Order;
use crate::follow::progress::{Progress, Standing};
use crate::follow::spool::{Spool, SpoolError};
use crate::follow::{Follower, Rhythm};
use crate::home::Home;
use crate::metrics::Metrics;
use crate::pen::Pen;
use crate::report::Reporter;
use crate::sidecar::Sidecar;
use crate::stop::Stopper;
use crate::upkeep::{Schedule, Told, Upkeep};

/// What an agent is told.
pub struct Settings {
    /// What it calls itself.
    pub name: String,
    /// When what is sealed.
    pub rhythm: Rhythm,
    /// What is done to the archive when; nothing if somebody else sees to it.
    pub schedule: Option<Schedule>,
    /// How soon another agent takes over.
    pub terms: Terms,
    /// The folder for what is on its way to the store.
    pub spool: PathBuf,
    /// Whether a person knows that the cluster takes the place of the one whose archive it is.
    pub replaces: bool,
    /// How a restore goes that somebody ordered.
    pub restoring: watch::Receiver<Option<Restoring>>,
}

/// An agent that runs.
pub struct Agent {
    /// The archive.
    pub home: Home,
    /// What can be asked of it.
    pub orders: mpsc::Sender<Order>,
    /// What it tells.
    pub status: watch::Receiver<Arc<Status>>,
    /// Where following is.
    pub standing: watch::Receiver<Standing>,
    pen: Pen,
    stopper: Stopper,
    following: JoinSet<()>,
    beside: JoinSet<()>,
}

/// Orders that wait.
const ORDERS: usize = 16;

impl Agent {
    /// Begins to follow `live` into the archive at `home`.
    pub fn begin(live: Arc<dyn Live>, home: Home, settings: Settings) -> Result<Self, SpoolError> {
        let Settings { name, rhythm, schedule, terms, spool, replaces, restoring } = settings;
        let spool = Arc::new(Spool::open(&spool)?);
        let me = Candidate { cluster: home.cluster.clone(), holder: name.clone(), instance: Instance(rand::random()) };
        let pen = Pen::take_up(home.clone(), me, terms, Epoch(0));
        let progress = Progress::default();
        let (stopper, standing, fill) = (Stopper::default(), progress.standing(), spool.fill());
        let (orders, taken) = mpsc::channel(ORDERS);
        let follower = Follower { live, home: home.clone(), spool, rhythm, replaces, right: pen.right(), progress };
        let mut following = JoinSet::new();
        following.spawn(follower.follow(taken, stopper.stop_signal()));

        let mut beside = JoinSet::new();
        beside.spawn(blind::stand_aside(
            standing.clone(),
            pen.right(),
            pen.aside(),
            terms.lasts,
            stopper.stop_signal(),
        ));
        let (told, upkeep) = watch::channel(Told::default());
        if let Some(schedule) = schedule {
            let keeper = Upkeep { home: home.clone(), schedule, right: pen.right(), told };
            beside.spawn(keeper.keep_up(stopper.stop_signal()));
        }
        let about = About { name, version: env!("CARGO_PKG_VERSION").into(), began: Timestamp::now() };
        let cluster = Cluster { name: home.cluster.name.clone(), ..Cluster::default() };
        let (reported, status) = watch::channel(Arc::new(Status::beginning(about.clone(), cluster)));
        let right = pen.right();
        let reporter = Reporter {
            agent: about,
            home: home.clone(),
            rhythm,
            standing: standing.clone(),
            fill,
            right,
            upkeep,
            restoring,
        };
        beside.spawn(reporter.report(reported, stopper.stop_signal()));
        Ok(Self { home, orders, status, standing, pen, stopper, following, beside })
    }

    /// What answers for it in the published protocol.
    pub fn sidecar(&self) -> Sidecar {
        Sidecar {
            home: self.home.clone(),
            orders: self.orders.clone(),
            status: self.status.clone(),
            standing: self.standing.clone(),
            metrics: Arc::new(Metrics::new()),
        }
    }

    /// Stops: what was seen is sealed and delivered, if the store takes it in time, and the next agent need not wait.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stopper.stop();
        while self.following.join_next().await.is_some() {}
        self.beside.shutdown().await;
        self.pen.lay_down().await
    }
}
