//! A cluster, an archive, two agents, and what lies between them. It is lived in by [`in_its_own_time`](crate::time::in_its_own_time).

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::follow::mending::Mending;
use agent::follow::merged::Merged;
use agent::follow::order::Order;
use agent::follow::progress::Progress;
use agent::follow::resume::ForeignCluster;
use agent::follow::spool::Spool;
use agent::follow::{Follower, Rhythm};
use agent::home::{Home, Site};
use agent::pen::Pen;
use agent::stop::Stopper;
use archive::encryption::{Keyring, LocalKey, Recipient};
use archive::fence::{Candidate, Instance, Terms};
use archive::{Epoch, LineageId};
use etcd_data::{Database, Revision};
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::{Memory, Patience, Retrying, Store};
use tempfile::TempDir;
use testkit::faulty_store::{Faults, FaultyStore};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{Cluster, Scripted};
use crate::scratch::scratch;
use crate::told::Told;

/// What never takes so long.
pub(crate) const SOON: Duration = Duration::from_secs(600);
/// How long the right to write lasts.
pub(crate) const TERM: Duration = Duration::from_secs(20);
/// How long is waited before somebody looks again.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(500);

pub(crate) const RHYTHM: Rhythm = Rhythm {
    seal_after: Duration::from_secs(1),
    seal_bytes: 4000,
    spool_bytes: 200_000,
    anchor_every: Some(Duration::from_secs(30)),
    silence: Duration::from_secs(20),
};

/// An agent that runs.
pub(crate) struct Running {
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) stopper: Stopper,
    pub(crate) merged: Merged,
    pub(crate) progress: Progress,
    pub(crate) task: JoinHandle<()>,
}

/// What was acknowledged: in which history, up to where, and what the cluster was then.
pub(crate) type Acknowledged = (LineageId, Revision, Database);

/// Everything of one seed.
pub(crate) struct World {
    pub(crate) random: StdRng,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) memory: Arc<dyn Store>,
    /// What lies between it and each agent.
    pub(crate) faulty: [Arc<FaultyStore>; 2],
    /// How long an agent tries anew what the store did not do.
    pub(crate) patience: Patience,
    pub(crate) folder: TempDir,
    /// What the archive is encrypted with, if it is.
    key: Option<PathBuf>,
    pub(crate) agents: [Option<Running>; 2],
    pub(crate) acknowledged: Vec<Acknowledged>,
    pub(crate) told: Told,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::beside(Cluster::new(seed), Arc::new(Memory::new()), seed)
    }

    /// Another machine beside the same cluster and the same store.
    pub(crate) fn beside(cluster: Arc<Cluster>, memory: Arc<dyn Store>, seed: u64) -> Self {
        let patience =
            Patience { request: Duration::from_secs(6), total: Duration::from_secs(4), ..Patience::default() };
        let faults = Faults { longest_stall: Duration::from_secs(8), ..Faults::ROUGH };
        let faulty = [0, 1].map(|which| Arc::new(FaultyStore::new(Arc::clone(&memory), faults, seed + which)));
        Self {
            random: StdRng::seed_from_u64(seed),
            cluster,
            memory,
            faulty,
            patience,
            folder: scratch(),
            key: None,
            agents: [None, None],
            acknowledged: Vec::new(),
            told: Told::default(),
        }
    }

    /// Whose archive is encrypted.
    pub(crate) fn encrypted(mut self) -> Self {
        let path = self.folder.path().join("key");
        std::fs::write(&path, "5a".repeat(32)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        self.key = Some(path);
        self.told.encrypted = 1;
        self
    }

    /// One whose first agent runs, and has delivered a full and a delta.
    pub(crate) async fn with_a_delta(seed: u64) -> Self {
        Self::new(seed).after_a_delta().await
    }

    pub(crate) async fn after_a_delta(mut self) -> Self {
        for _ in 0..2 {
            self.cluster.write(20);
            self.begin(0).await;
            self.seal(SOON).await.unwrap();
        }
        self
    }

    /// The archive that everything is about, in `store`.
    pub(crate) fn site(&self, store: &Arc<dyn Store>) -> Site {
        let mut keyring = Keyring::new();
        self.key.iter().for_each(|path| keyring.add_key_file(path).unwrap());
        let recipients = self.key.iter().map(|path| Recipient::KeyFile(LocalKey::read(path).unwrap())).collect();
        let open = Site::open_to_all(Arc::clone(store), self.folder.path());
        Site { cluster: Some("prod".into()), keyring: Arc::new(keyring), recipients, ..open }
    }

    /// It, as somebody sees it whom no fault is in the way of.
    pub(crate) async fn home(&self) -> Home {
        Home::find(self.site(&self.memory), Timestamp::now()).await.unwrap()
    }

    /// It, as an agent finds it, and the folder of its spool.
    pub(crate) async fn home_of(&self, which: usize) -> Result<(Home, PathBuf), archive::Error> {
        let faulty = Arc::clone(&self.faulty[which]) as Arc<dyn Store>;
        let store: Arc<dyn Store> = Arc::new(Retrying::new(faulty, self.patience));
        let spools = self.folder.path().join(format!("spool-{which}"));
        let home = Home::find_or_recall(self.site(&store), &spools, Timestamp::now()).await?;
        let spool = home.spool(&spools);
        Ok((home, spool))
    }

    /// Starts an agent, if that can be.
    pub(crate) async fn start(&mut self, which: usize) {
        if self.agents[which].is_some() {
            return;
        }
        let Ok((home, spool)) = self.home_of(which).await else { return };
        // One that was killed may still be busy with it.
        let Ok(spool) = Spool::open(&spool) else { return };
        let me = Candidate {
            cluster: home.cluster.clone(),
            holder: format!("agent {which}"),
            serves: None,
            instance: Instance::draw(),
        };
        let (wanted, is_wanted) = watch::channel(false);
        let pen = Pen::take_up(home.clone(), me, Terms::lasting(TERM), is_wanted, None, None);
        let (progress, merged) = (Progress::default(), Merged::default());
        let follower = Follower {
            live: Arc::new(Scripted(Arc::clone(&self.cluster))),
            home,
            spool: Arc::new(spool),
            rhythm: RHYTHM,
            // Nobody is there to tell it that the cluster was restored meanwhile.
            foreign: ForeignCluster::Refuse,
            right: pen.right(),
            wanted,
            merged: merged.clone(),
            mending: Mending::default(),
            progress: progress.clone(),
        };
        let (orders, taken) = mpsc::channel(4);
        let stopper = Stopper::default();
        let stop = stopper.stop_signal();
        let task = tokio::spawn(async move {
            follower.follow(taken, stop).await;
            let _ = pen.lay_down().await;
        });
        self.log(format!("agent {which} begins"));
        self.told.begun += 1;
        self.agents[which] = Some(Running { orders, stopper, merged, progress, task });
    }

    /// Starts an agent for sure.
    pub(crate) async fn begin(&mut self, which: usize) {
        while self.agents[which].is_none() {
            self.start(which).await;
        }
    }

    /// Kills an agent, if it runs.
    pub(crate) async fn kill(&mut self, which: usize) {
        if let Some(running) = self.agents[which].take() {
            running.task.abort();
            self.log(format!("agent {which} is killed"));
            let _ = running.task.await;
            self.told.killed += 1;
        }
    }

    /// Stops an agent, if it runs, as whoever may finish what it does.
    pub(crate) async fn stop(&mut self, which: usize) {
        if let Some(running) = self.agents[which].take() {
            running.stopper.stop();
            running.task.await.unwrap();
            self.told.stopped += 1;
        }
    }

    /// Asks whoever follows to seal everything; notes what was acknowledged.
    pub(crate) async fn seal(&mut self, patience: Duration) -> Option<Revision> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            for which in 0..2 {
                let Some(running) = &self.agents[which] else { continue };
                let (asked, answer) = oneshot::channel();
                if running.orders.send(Order(asked)).await.is_err() {
                    continue;
                }
                let left = until.saturating_duration_since(Instant::now());
                if let Ok(Ok(Ok(revision))) = timeout(left, answer).await {
                    let lineage = running.progress.standing().borrow().lineage.clone().unwrap();
                    let truth = self.cluster.truth();
                    self.log(format!("agent {which} acknowledged {revision} of {lineage}"));
                    self.told.acknowledged += 1;
                    self.acknowledged.push((lineage, revision, truth));
                    return Some(revision);
                }
            }
            sleep(A_MOMENT).await;
        }
        None
    }

    pub(crate) fn lineage_of(&self, which: usize) -> LineageId {
        let running = self.agents[which].as_ref().unwrap();
        running.progress.standing().borrow().lineage.clone().unwrap()
    }

    /// The right that it writes by.
    pub(crate) fn epoch_of(&self, which: usize) -> Epoch {
        let running = self.agents[which].as_ref().unwrap();
        running.progress.standing().borrow().epoch.unwrap()
    }

    pub(crate) fn log(&self, what: String) {
        if env::var("SIMULATION_SEED").is_ok() {
            println!("{what}");
        }
    }
}
