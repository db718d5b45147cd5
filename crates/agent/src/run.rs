//! The agent, all of it: the right to write, following, upkeep, and what is told of them.

use std::path::PathBuf;
use std::sync::Arc;

use api::restore::Restoring;
use api::status::{Agent as About, Cluster, Status};
use archive::Error;
use archive::fence::{Candidate, Instance, Terms};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::care::Care;
use crate::care::turns::{self, Turns};
use crate::follow::live::Live;
use crate::follow::merged::Merged;
use crate::follow::order::Order;
use crate::follow::progress::{Progress, Standing};
use crate::follow::spool::{Spool, SpoolError};
use crate::follow::{Follower, Rhythm};
use crate::home::Home;
use crate::member::outlive::Wrapper;
use crate::member::{Member, Prepared};
use crate::metrics::Metrics;
use crate::pen::earlier::Earlier;
use crate::pen::{Pen, Right};
use crate::report::{Elsewhere, Reporter};
use crate::sidecar::Sidecar;
use crate::start::OnItsWay;
use crate::stop::Stopper;
use crate::upkeep::{Schedule, Told, Upkeep};

/// What an agent is told.
pub struct Settings {
    /// What it calls itself.
    pub name: String,
    /// Where other agents reach it, if that was told.
    pub serves: Option<String>,
    /// When what is sealed.
    pub rhythm: Rhythm,
    /// What is done to the archive when; nothing if somebody else sees to it.
    pub schedule: Option<Schedule>,
    /// Where else it is kept, and what is done there when.
    pub others: Vec<(Home, Schedule)>,
    /// How soon another agent takes over.
    pub terms: Terms,
    /// The folder for what is on its way to the store.
    pub spool: PathBuf,
    /// Whether a person knows that the cluster takes the place of the one whose archive it is.
    pub replaces: bool,
    /// How a restore goes that somebody ordered.
    pub restoring: watch::Receiver<Option<Restoring>>,
    /// The care of the cluster, if any is taken.
    pub care: Option<Care>,
    /// How the data directory beside it is.
    pub prepared: watch::Receiver<Prepared>,
    /// The files of the certificates that it shows, to etcd and to who asks it.
    pub certificates: Vec<PathBuf>,
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
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is sealed on this machine and not in the archive yet.
    pub on_its_way: OnItsWay,
    /// The full that was merged last.
    merged: Merged,
    /// Where else the archive is kept.
    others: Vec<Home>,
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
        let Settings { name, serves, rhythm, schedule, others, terms, .. } = settings;
        let Settings { spool, replaces, restoring, care, prepared, certificates, .. } = settings;
        let spool = Arc::new(Spool::open(&spool)?);
        let (cluster, holder) = (home.cluster.clone(), name.clone());
        let me = Candidate { cluster, holder, serves, instance: Instance(rand::random()) };
        let (wanted, is_wanted) = watch::channel(false);
        let pen = Pen::take_up(home.clone(), me, terms, is_wanted, Earlier::in_spool(spool.folder()));
        let metrics = Arc::new(Metrics::new());
        let progress = Progress::counted_by(Arc::clone(&metrics));
        let (stopper, standing, fill, aside) = (Stopper::default(), progress.standing(), spool.fill(), spool.aside());
        let (orders, taken) = mpsc::channel(ORDERS);
        let (home_too, right) = (home.clone(), pen.right());
        let merged = Merged::default();
        let asked = merged.clone();
        let follower =
            Follower { live, home: home_too, spool, rhythm, replaces, right, wanted, merged: asked, progress };
        let mut following = JoinSet::new();
        following.spawn(follower.follow(taken, stopper.stop_signal()));

        let mut beside = JoinSet::new();
        beside.spawn(home.clone().keep_looking_at_key(pen.right(), stopper.stop_signal()));
        let (told, upkeep) = watch::channel(Told::default());
        if let Some(schedule) = schedule {
            let (home, right, metrics) = (home.clone(), pen.right(), Arc::clone(&metrics));
            let (standing, merged) = (standing.clone(), merged.clone());
            let keeper = Upkeep { home, first: None, schedule, right, standing, merged, told, metrics };
            beside.spawn(keeper.keep_up(stopper.stop_signal()));
        }
        let mut elsewhere = Vec::new();
        for (other, schedule) in &others {
            let (told, upkeep) = watch::channel(Told::default());
            elsewhere.push(Elsewhere { place: other.store.place().to_owned(), upkeep });
            let (first, schedule) = (Some(home.clone()), schedule.clone());
            let (right, metrics) = (pen.right(), Arc::clone(&metrics));
            // Fulls are merged at the first destination alone.
            let (standing, merged) = (standing.clone(), Merged::default());
            let keeper = Upkeep { home: other.clone(), first, schedule, right, standing, merged, told, metrics };
            beside.spawn(keeper.keep_up(stopper.stop_signal()));
        }
        let others = others.into_iter().map(|(other, _)| other).collect();
        let (told, cared) = watch::channel(turns::Told::default());
        if let Some(care) = care {
            let (right, standing) = (pen.right(), standing.clone());
            let turns = Turns { care, right, standing, told, metrics: Arc::clone(&metrics) };
            beside.spawn(turns.take(stopper.stop_signal()));
        }
        let about = About { name, version: env!("CARGO_PKG_VERSION").into(), began: Timestamp::now() };
        let cluster = Cluster { name: home.cluster.name.clone(), ..Cluster::default() };
        let (reported, status) = watch::channel(Arc::new(Status::beginning(about.clone(), cluster)));
        let (needed, follows) = (pen.needed(), standing.clone());
        let on_its_way = OnItsWay { fill: fill.clone(), right: pen.right(), needed, standing: follows };
        let reporter = Reporter {
            agent: about,
            home: home.clone(),
            rhythm,
            standing: standing.clone(),
            fill,
            aside,
            right: pen.right(),
            upkeep,
            elsewhere,
            restoring,
            care: cared,
            prepared,
            certificates,
        };
        beside.spawn(reporter.report(reported, stopper.stop_signal()));
        Ok(Self {
            home,
            orders,
            status,
            standing,
            metrics,
            on_its_way,
            merged,
            others,
            pen,
            stopper,
            following,
            beside,
        })
    }

    /// Looks after the member beside it while its etcd runs in `wrapper`.
    pub fn look_after(&mut self, member: Member, wrapper: Wrapper) {
        self.beside.spawn(member.outlive(wrapper, self.stopper.stop_signal()));
    }

    /// What answers for it in the published protocol.
    pub fn sidecar(&self) -> Sidecar {
        Sidecar {
            home: self.home.clone(),
            others: self.others.clone(),
            orders: self.orders.clone(),
            status: self.status.clone(),
            standing: self.standing.clone(),
            right: self.pen.right(),
            merged: self.merged.clone(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// Waits until it follows no longer, though nobody stopped it: that does not pass by itself. Gives why.
    pub async fn ended(&mut self) -> String {
        while self.following.join_next().await.is_some() {}
        let why = match &*self.pen.right().borrow() {
            Right::Untold { why } => Some(why.clone()),
            _ => self.standing.borrow().trouble.as_ref().map(|trouble| trouble.what.clone()),
        };
        why.unwrap_or_else(|| "this is a defect".into())
    }

    /// Stops: what was seen is sealed and delivered, if the store takes it in time, and the next agent need not wait.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stopper.stop();
        while self.following.join_next().await.is_some() {}
        self.beside.shutdown().await;
        self.pen.lay_down().await
    }
}
