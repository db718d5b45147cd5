//! The agent, all of it: the right to write, following, upkeep, and what is told of them.

use std::path::PathBuf;
use std::sync::Arc;

use api::restore::Restoring;
use api::status::{Agent as About, Cluster, Status};
use archive::fence::{Candidate, Instance, Terms};
use archive::{Epoch, Error};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use crate::care::Care;
use crate::care::turns::{CareStatus, Turns};
use crate::follow::live::Live;
use crate::follow::mending::Mending;
use crate::follow::merged::Merged;
use crate::follow::order::Order;
use crate::follow::progress::{Progress, Standing};
use crate::follow::resume::ForeignCluster;
use crate::follow::spool::{Spool, SpoolError};
use crate::follow::{Follower, Rhythm};
use crate::free_memory::FreeMemory;
use crate::home::Home;
use crate::member::outlive::Wrapper;
use crate::member::{Member, Prepared};
use crate::metrics::Metrics;
use crate::pen::earlier::Earlier;
use crate::pen::{Pen, Right};
use crate::report::{Elsewhere, Reporter};
use crate::sidecar::Sidecar;
use crate::start::OnItsWay;
use crate::start::ready::BroughtBack;
use crate::stop::Stopper;
use crate::upkeep::{Schedule, Upkeep, UpkeepStatus};

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
    /// Since which epoch somebody has the right to write who is known to be gone.
    pub gone: Option<Epoch>,
    /// The folder for what is on its way to the store.
    pub spool: PathBuf,
    /// What is done with the archive of another cluster.
    pub foreign: ForeignCluster,
    /// How a restore goes that somebody ordered.
    pub restoring: watch::Receiver<Option<Restoring>>,
    /// The care of the cluster, if any is taken.
    pub care: Option<Care>,
    /// How the data directory beside it is.
    pub prepared: watch::Receiver<Prepared>,
    /// What the member beside it was restored to when it was started last, if it was.
    pub brought_back: watch::Receiver<Option<BroughtBack>>,
    /// The files of the certificates that it shows, to etcd and to who asks it.
    pub certificates: Vec<PathBuf>,
    /// Memory that is free.
    pub memory: FreeMemory,
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
    following: JoinSet<()>,
    beside: Beside,
}

/// What goes on beside following, with what all of it hears from there.
struct Beside {
    right: watch::Receiver<Right>,
    standing: watch::Receiver<Standing>,
    metrics: Arc<Metrics>,
    memory: FreeMemory,
    stopper: Stopper,
    parts: JoinSet<()>,
}

/// Why an agent does not do its work any more, though nobody stopped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The cluster is followed no longer.
    NotFollowing {
        /// Why.
        why: String,
    },
    /// A part of it broke, which is our own mistake: without it, the rest would go on and nobody would know.
    Defect {
        /// What it said.
        what: String,
    },
}

impl Ended {
    fn of_panic(error: JoinError) -> Self {
        let what = error.try_into_panic().map_or_else(
            |error| error.to_string(),
            |panic| {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a part of it broke").to_owned()
            },
        );
        Self::Defect { what }
    }
}

/// Orders that wait.
const ORDERS: usize = 16;

impl Agent {
    /// Begins to follow `live` into the archive at `home`.
    pub fn begin(live: Arc<dyn Live>, home: Home, settings: Settings) -> Result<Self, SpoolError> {
        let Settings { name, serves, rhythm, schedule, others, terms, gone, .. } = settings;
        let Settings { spool, foreign, restoring, care, prepared, brought_back, certificates, memory, .. } = settings;
        let spool = Arc::new(Spool::open(&spool)?);
        let (fill, aside) = (spool.fill(), spool.aside());
        let (wanted, is_wanted) = watch::channel(false);
        let me = me(&home, &name, serves);
        let pen = Pen::take_up(home.clone(), me, terms, is_wanted, Earlier::in_spool(spool.folder()), gone);
        let metrics = Arc::new(Metrics::new());
        let progress = Progress::counted_by(Arc::clone(&metrics));
        let (standing, merged, mending) = (progress.standing(), Merged::default(), Mending::default());
        let mut beside = Beside::new(pen.right(), standing.clone(), Arc::clone(&metrics), memory);

        let (orders, taken) = mpsc::channel(ORDERS);
        let follower = Follower {
            live,
            home: home.clone(),
            spool,
            rhythm,
            foreign,
            right: pen.right(),
            wanted,
            merged: merged.clone(),
            mending: mending.clone(),
            progress,
        };
        let mut following = JoinSet::new();
        following.spawn(follower.follow(taken, beside.stopper.stop_signal()));

        beside.spawn(home.clone().keep_looking_at_key(pen.right(), beside.stopper.stop_signal()));
        let upkeep = schedule.map(|schedule| beside.keep_up(home.clone(), None, schedule, merged.clone(), mending));
        let elsewhere = others.iter().map(|(other, schedule)| beside.copy_to(other, &home, schedule)).collect();
        let cared = care.map(|care| beside.take_turns(care));
        let about = About { name, version: env!("CARGO_PKG_VERSION").into(), began: Timestamp::now() };
        let status = beside.report(Reporter {
            agent: about,
            home: home.clone(),
            rhythm,
            standing: standing.clone(),
            fill: fill.clone(),
            aside,
            right: pen.right(),
            upkeep: upkeep.unwrap_or_else(untold),
            elsewhere,
            restoring,
            care: cared.unwrap_or_else(untold),
            prepared,
            brought_back,
            certificates,
        });
        let on_its_way = OnItsWay { fill, right: pen.right(), needed: pen.needed(), standing: standing.clone() };
        let others = others.into_iter().map(|(other, _)| other).collect();
        Ok(Self { home, orders, status, standing, metrics, on_its_way, merged, others, pen, following, beside })
    }

    /// Looks after the member beside it while its etcd runs in `wrapper`.
    pub fn look_after(&mut self, member: Member, wrapper: Wrapper) {
        self.beside.spawn(member.outlive(wrapper, self.beside.stopper.stop_signal()));
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

    /// Waits until it does not do its work any more, though nobody stopped it: that does not pass by itself.
    pub async fn ended(&mut self) -> Ended {
        loop {
            tokio::select! {
                followed = self.following.join_next() => return match followed {
                    Some(Err(error)) => Ended::of_panic(error),
                    Some(Ok(())) | None => self.followed_no_longer(),
                },
                // Whoever is done has been told to stop, or has nothing more to do.
                Some(done) = self.beside.parts.join_next() => {
                    if let Err(error) = done {
                        return Ended::of_panic(error);
                    }
                }
            }
        }
    }

    fn followed_no_longer(&self) -> Ended {
        let why = match &*self.pen.right().borrow() {
            Right::Untold { why } => Some(why.clone()),
            _ => self.standing.borrow().trouble.as_ref().map(|trouble| trouble.what.clone()),
        };
        match why {
            Some(why) => Ended::NotFollowing { why },
            None => Ended::Defect { what: "following has ended, and nothing was in its way".into() },
        }
    }

    /// Stops: what was seen is sealed and delivered, if the store takes it in time, and the next agent need not wait.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.beside.stopper.stop();
        while self.following.join_next().await.is_some() {}
        self.beside.parts.shutdown().await;
        self.pen.lay_down().await
    }
}

impl Beside {
    fn new(
        right: watch::Receiver<Right>,
        standing: watch::Receiver<Standing>,
        metrics: Arc<Metrics>,
        memory: FreeMemory,
    ) -> Self {
        Self { right, standing, metrics, memory, stopper: Stopper::default(), parts: JoinSet::new() }
    }

    fn spawn(&mut self, part: impl Future<Output = ()> + Send + 'static) {
        self.parts.spawn(part);
    }

    /// Keeps up the archive at `home`, which is the `first` destination's copy if that is another one.
    fn keep_up(
        &mut self,
        home: Home,
        first: Option<Home>,
        schedule: Schedule,
        merged: Merged,
        mending: Mending,
    ) -> watch::Receiver<UpkeepStatus> {
        let (told, upkeep) = watch::channel(UpkeepStatus::default());
        let (right, standing, metrics) = (self.right.clone(), self.standing.clone(), Arc::clone(&self.metrics));
        let memory = self.memory.clone();
        let keeper = Upkeep { home, first, schedule, right, standing, merged, mending, told, metrics, memory };
        self.spawn(keeper.keep_up(self.stopper.stop_signal()));
        upkeep
    }

    /// Keeps up `other`, with what comes from `first`.
    fn copy_to(&mut self, other: &Home, first: &Home, schedule: &Schedule) -> Elsewhere {
        // Fulls are merged, and come from etcd, at the first destination alone.
        let (merged, mending) = (Merged::default(), Mending::default());
        let upkeep = self.keep_up(other.clone(), Some(first.clone()), schedule.clone(), merged, mending);
        Elsewhere { place: other.store.place().to_owned(), upkeep }
    }

    /// Takes care of the cluster whenever it is our turn.
    fn take_turns(&mut self, care: Care) -> watch::Receiver<CareStatus> {
        let (told, cared) = watch::channel(CareStatus::default());
        let (right, standing, metrics) = (self.right.clone(), self.standing.clone(), Arc::clone(&self.metrics));
        self.spawn(Turns { care, right, standing, told, metrics }.take(self.stopper.stop_signal()));
        cared
    }

    fn report(&mut self, reporter: Reporter) -> watch::Receiver<Arc<Status>> {
        let cluster = Cluster { name: reporter.home.cluster.name.clone(), ..Cluster::default() };
        let (told, status) = watch::channel(Arc::new(Status::beginning(reporter.agent.clone(), cluster)));
        self.spawn(reporter.report(told, self.stopper.stop_signal()));
        status
    }
}

/// Who asks for the right to write to the archive at `home`.
fn me(home: &Home, name: &str, serves: Option<String>) -> Candidate {
    Candidate { cluster: home.cluster.clone(), holder: name.into(), serves, instance: Instance(rand::random()) }
}

/// What there is of something that nobody does.
fn untold<T: Default>() -> watch::Receiver<T> {
    watch::channel(T::default()).1
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use etcd_rpc::Access;
    use tokio::time::timeout;

    use super::*;
    use crate::follow::etcd::Etcd;
    use crate::home::Site;

    /// Beside an etcd that nobody reaches.
    async fn agent(folder: &Path) -> Agent {
        let nobody = "http://127.0.0.1:1".parse().unwrap();
        let live = Arc::new(Etcd::at(vec![nobody], Access::default()));
        let site = Site::open_to_all(Arc::new(store::Memory::new()), folder);
        let home = Home::find(site, Timestamp::now()).await.unwrap();
        let settings = Settings {
            name: "a".into(),
            serves: None,
            rhythm: Rhythm::default(),
            schedule: Some(Schedule::default()),
            others: Vec::new(),
            terms: Terms::default(),
            gone: None,
            spool: folder.join("spool"),
            foreign: ForeignCluster::Refuse,
            restoring: watch::Sender::default().subscribe(),
            care: None,
            prepared: watch::Sender::default().subscribe(),
            brought_back: watch::Sender::default().subscribe(),
            certificates: Vec::new(),
            memory: FreeMemory::default(),
        };
        Agent::begin(live, home, settings).unwrap()
    }

    #[tokio::test]
    async fn an_agent_of_which_a_part_breaks_ends_and_tells_that_it_is_a_defect() {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = agent(folder.path()).await;
        // One that is done is no matter.
        agent.beside.spawn(async {});
        agent.beside.spawn(async { panic!("page {} of nothing", 7) });
        let ended = timeout(Duration::from_secs(60), agent.ended()).await.unwrap();
        assert_eq!(ended, Ended::Defect { what: "page 7 of nothing".into() });
        agent.stop().await.unwrap();
    }

    #[tokio::test]
    async fn so_does_one_whose_following_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = agent(folder.path()).await;
        agent.following.spawn(async { panic!("no such revision") });
        let ended = timeout(Duration::from_secs(60), agent.ended()).await.unwrap();
        assert_eq!(ended, Ended::Defect { what: "no such revision".into() });
        agent.stop().await.unwrap();
    }
}
