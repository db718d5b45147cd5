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
use crate::care::turns::{self, Turns};
use crate::follow::live::Live;
use crate::follow::mending::Mending;
use crate::follow::merged::Merged;
use crate::follow::order::Order;
use crate::follow::progress::{Progress, Standing};
use crate::follow::resume::ForeignCluster;
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
        let Settings { spool, foreign, restoring, care, prepared, brought_back, certificates, .. } = settings;
        let spool = Arc::new(Spool::open(&spool)?);
        let (cluster, holder) = (home.cluster.clone(), name.clone());
        let me = Candidate { cluster, holder, serves, instance: Instance(rand::random()) };
        let (wanted, is_wanted) = watch::channel(false);
        let earlier = Earlier::in_spool(spool.folder());
        let pen = Pen::take_up(home.clone(), me, terms, is_wanted, earlier, gone);
        let metrics = Arc::new(Metrics::new());
        let progress = Progress::counted_by(Arc::clone(&metrics));
        let (stopper, standing, fill, aside) = (Stopper::default(), progress.standing(), spool.fill(), spool.aside());
        let (orders, taken) = mpsc::channel(ORDERS);
        let (home_too, right) = (home.clone(), pen.right());
        let merged = Merged::default();
        let mending = Mending::default();
        let (asked, mends) = (merged.clone(), mending.clone());
        let follower = Follower {
            live,
            home: home_too,
            spool,
            rhythm,
            foreign,
            right,
            wanted,
            merged: asked,
            mending: mends,
            progress,
        };
        let mut following = JoinSet::new();
        following.spawn(follower.follow(taken, stopper.stop_signal()));

        let mut beside = JoinSet::new();
        beside.spawn(home.clone().keep_looking_at_key(pen.right(), stopper.stop_signal()));
        let (told, upkeep) = watch::channel(UpkeepStatus::default());
        if let Some(schedule) = schedule {
            let (home, right, metrics) = (home.clone(), pen.right(), Arc::clone(&metrics));
            let (standing, merged) = (standing.clone(), merged.clone());
            let keeper = Upkeep { home, first: None, schedule, right, standing, merged, mending, told, metrics };
            beside.spawn(keeper.keep_up(stopper.stop_signal()));
        }
        let mut elsewhere = Vec::new();
        for (other, schedule) in &others {
            let (told, upkeep) = watch::channel(UpkeepStatus::default());
            elsewhere.push(Elsewhere { place: other.store.place().to_owned(), upkeep });
            let (first, schedule) = (Some(home.clone()), schedule.clone());
            let (right, metrics) = (pen.right(), Arc::clone(&metrics));
            // Fulls are merged, and come from etcd, at the first destination alone.
            let (standing, merged, mending) = (standing.clone(), Merged::default(), Mending::default());
            let home = other.clone();
            let keeper = Upkeep { home, first, schedule, right, standing, merged, mending, told, metrics };
            beside.spawn(keeper.keep_up(stopper.stop_signal()));
        }
        let others = others.into_iter().map(|(other, _)| other).collect();
        let (told, cared) = watch::channel(turns::CareStatus::default());
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
            brought_back,
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

    /// Waits until it does not do its work any more, though nobody stopped it: that does not pass by itself.
    pub async fn ended(&mut self) -> Ended {
        loop {
            tokio::select! {
                followed = self.following.join_next() => return match followed {
                    Some(Err(error)) => Ended::of_panic(error),
                    Some(Ok(())) | None => self.followed_no_longer(),
                },
                // Whoever is done has been told to stop, or has nothing more to do.
                Some(done) = self.beside.join_next() => {
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
        self.stopper.stop();
        while self.following.join_next().await.is_some() {}
        self.beside.shutdown().await;
        self.pen.lay_down().await
    }
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
