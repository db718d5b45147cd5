//! Following a cluster in bad weather: one seed, one history.
//!
//! A cluster is written to, compacted, restored to the past, and goes away. Its watches lose, repeat, drop and stall.
//! Agents follow it, two at a time, and are killed and started again; the store fails, loses answers and goes away.
//!
//! Then everything heals, and what is compared is this: the archive ends where the cluster is, what was acknowledged can
//! be restored, and every revision that the archive offers is the cluster's, by HashKV.
//!
//! `SIMULATION_SEED=7` runs that seed alone; a failure names it. `SIMULATION_SEEDS=1000` runs more than usual.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "these are tests"
)]

mod cluster;

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::backup::BackupPlan;
use agent::follow::order::Order;
use agent::follow::progress::{Doing, Progress};
use agent::follow::resume::ResumeError;
use agent::follow::session::SessionError;
use agent::follow::spool::Spool;
use agent::follow::{Follower, Rhythm};
use agent::home::{Home, Site};
use agent::pen::Pen;
use agent::stop::Stopper;
use archive::encryption::{Keyring, LocalKey, Recipient};
use archive::fence::{Candidate, Instance, Terms};
use archive::plan::{PlanError, Target, Wanted};
use archive::point::At;
use archive::{Error, History, LineageId};
use cluster::{Cluster, Scripted, Whims};
use etcd_data::hash::hash_kv;
use etcd_data::{Database, Revision};
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Key, Memory, Patience, Retrying, Store};
use testkit::faulty_store::{Faults, FaultyStore};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

const SEEDS: u64 = 30;
/// What never takes so long.
const SOON: Duration = Duration::from_secs(30);

/// An agent that runs.
struct Running {
    orders: mpsc::Sender<Order>,
    stopper: Stopper,
    progress: Progress,
    task: JoinHandle<()>,
}

/// Everything of one seed.
struct World {
    random: StdRng,
    cluster: Arc<Cluster>,
    memory: Arc<dyn Store>,
    /// What lies between it and each agent.
    faulty: [Arc<FaultyStore>; 2],
    folder: tempfile::TempDir,
    /// What the archive is encrypted with, if it is.
    key: Option<PathBuf>,
    agents: [Option<Running>; 2],
    started: u32,
    /// What was acknowledged: in which history, up to where, and what the cluster was then.
    acknowledged: Vec<(LineageId, Revision, Database)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let faults = Faults { longest_stall: Duration::from_millis(40), ..Faults::ROUGH };
        let faulty = [0, 1].map(|which| Arc::new(FaultyStore::new(Arc::clone(&memory), faults, seed + which)));
        Self {
            random: StdRng::seed_from_u64(seed),
            cluster: Cluster::new(seed),
            memory,
            faulty,
            folder: tempfile::tempdir().unwrap(),
            key: None,
            agents: [None, None],
            started: 0,
            acknowledged: Vec::new(),
        }
    }

    /// Whose archive is encrypted.
    fn encrypted(mut self) -> Self {
        let path = self.folder.path().join("key");
        std::fs::write(&path, "5a".repeat(32)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        self.key = Some(path);
        self
    }

    /// One whose first agent runs, and has delivered a full and a delta.
    async fn with_a_delta(seed: u64) -> Self {
        Self::new(seed).after_a_delta().await
    }

    async fn after_a_delta(mut self) -> Self {
        for _ in 0..2 {
            self.cluster.write(20);
            self.begin(0).await;
            self.seal(SOON).await.unwrap();
        }
        self
    }

    /// The archive that everything is about, in `store`.
    fn site(&self, store: &Arc<dyn Store>) -> Site {
        let mut keyring = Keyring::new();
        self.key.iter().for_each(|path| keyring.add_key_file(path).unwrap());
        let recipients = self.key.iter().map(|path| Recipient::KeyFile(LocalKey::read(path).unwrap())).collect();
        let open = Site::open_to_all(Arc::clone(store), self.folder.path());
        Site { cluster: Some("prod".into()), keyring: Arc::new(keyring), recipients, ..open }
    }

    /// It, as somebody sees it whom no fault is in the way of.
    async fn home(&self) -> Home {
        Home::find(self.site(&self.memory), Timestamp::now()).await.unwrap()
    }

    async fn start(&mut self, which: usize) {
        if self.agents[which].is_some() {
            return;
        }
        self.started += 1;
        let patience = Patience {
            total: Duration::from_millis(300),
            first_pause: Duration::from_millis(2),
            ..Patience::default()
        };
        let store: Arc<dyn Store> =
            Arc::new(Retrying::new(Arc::clone(&self.faulty[which]) as Arc<dyn Store>, patience));
        let scratch = self.folder.path();
        let (site, spools) = (self.site(&store), scratch.join(format!("spool-{which}")));
        let Ok(home) = Home::find_or_recall(site, &spools, Timestamp::now()).await else { return };
        // One that was killed may still be busy with it.
        let Ok(spool) = Spool::open(&home.spool(&spools)) else { return };
        let me = Candidate {
            cluster: home.cluster.clone(),
            holder: format!("agent {which}"),
            serves: None,
            instance: Instance(u128::from(self.started)),
        };
        let (wanted, is_wanted) = watch::channel(false);
        let pen = Pen::take_up(home.clone(), me, Terms::lasting(Duration::from_millis(400)), is_wanted, None);
        let progress = Progress::default();
        let rhythm = Rhythm {
            seal_after: Duration::from_millis(5),
            seal_bytes: 4000,
            spool_bytes: 200_000,
            anchor_every: Some(Duration::from_millis(30)),
            silence: Duration::from_millis(100),
        };
        let follower = Follower {
            live: Arc::new(Scripted(Arc::clone(&self.cluster))),
            home,
            spool: Arc::new(spool),
            rhythm,
            // Nobody is there to tell it that the cluster was restored meanwhile.
            replaces: false,
            right: pen.right(),
            wanted,
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
        self.agents[which] = Some(Running { orders, stopper, progress, task });
    }

    /// Asks whoever follows to seal everything; notes what was acknowledged.
    async fn seal(&mut self, patience: Duration) -> Option<Revision> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            for which in 0..2 {
                let Some(running) = &self.agents[which] else { continue };
                let (asked, answer) = oneshot::channel();
                if running.orders.send(Order(asked)).await.is_err() {
                    continue;
                }
                if let Ok(Ok(Ok(revision))) = tokio::time::timeout(until - Instant::now().min(until), answer).await {
                    let lineage = running.progress.standing().borrow().lineage.clone().unwrap();
                    let truth = self.cluster.truth();
                    self.log(format!("agent {which} acknowledged {revision} of {lineage}"));
                    self.acknowledged.push((lineage, revision, truth));
                    return Some(revision);
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }

    /// Starts an agent for sure.
    async fn begin(&mut self, which: usize) {
        while self.agents[which].is_none() {
            self.start(which).await;
        }
    }

    async fn kill(&mut self, which: usize) {
        let running = self.agents[which].take().unwrap();
        running.task.abort();
        let _ = running.task.await;
    }

    fn lineage_of(&self, which: usize) -> LineageId {
        let running = self.agents[which].as_ref().unwrap();
        running.progress.standing().borrow().lineage.clone().unwrap()
    }

    /// Waits until the first agent has sealed `last`, delivered or not.
    async fn until_spooled(&self, last: Revision) {
        let (spool, end) = (self.folder.path().join("spool-0"), format!("{}.delta", last.0));
        let until = Instant::now() + SOON;
        while !deltas_below(&spool).iter().any(|name| name.ends_with(&end)) {
            assert!(Instant::now() < until, "{end}: {:?}", deltas_below(&spool));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What agents have set aside.
    fn set_aside(&self) -> Vec<String> {
        let all = deltas_below(self.folder.path());
        all.into_iter().filter(|name| name.contains("set-aside")).collect()
    }

    async fn newest_full(&self) -> Revision {
        let home = self.home().await;
        let newest = home.with(|archive, _| {
            let fulls = archive.catalogue().histories.iter().flat_map(History::fulls);
            Ok(fulls.filter_map(|full| full.to).max())
        });
        newest.await.unwrap().unwrap_or_default()
    }

    /// Waits until who restores the newest point has the users that the cluster has.
    async fn until_a_full_has_the_users(&self) {
        let until = Instant::now() + SOON;
        loop {
            let home = self.home().await;
            let found = home.with(|archive, home| {
                let agreed = archive.agree(&Wanted::default(), &At::Latest, &home.scratch)?;
                Ok(archive.open_in_place(&agreed)?.database.tables().auth_revision().unwrap())
            });
            let held = found.await.unwrap();
            if held == Some(self.cluster.auth_revision()) {
                return;
            }
            assert!(Instant::now() < until, "no full has them: {held:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Compares every revision since the first full.
    async fn require_all_in_one_history(&self) {
        let home = self.home().await;
        let (truth, current) = (self.cluster.truth(), self.cluster.current());
        let compared = home.with(move |archive, home| {
            for revision in 21..=current {
                let at = At::Revision(Revision(revision));
                same(archive, &home.scratch, &Wanted::default(), &at, &truth)?;
            }
            Ok(())
        });
        compared.await.unwrap();
    }

    fn log(&self, what: String) {
        if env::var("SIMULATION_SEED").is_ok() {
            println!("{what}");
        }
    }

    async fn turn(&mut self) {
        match self.random.random_range(0..100) {
            0..50 => self.cluster.write(self.random.random_range(1..30)),
            50..58 => drop(self.seal(Duration::from_millis(100)).await),
            58..63 => self.cluster.compact(self.random.random_range(0..60)),
            63..68 => {
                let which = self.random.random_range(0..2);
                self.start(which).await;
            }
            68..72 => {
                let which = self.random.random_range(0..2);
                if let Some(running) = self.agents[which].take() {
                    running.task.abort();
                    self.log(format!("agent {which} is killed"));
                    let _ = running.task.await;
                }
            }
            72..74 => {
                let which = self.random.random_range(0..2);
                if let Some(running) = self.agents[which].take() {
                    running.stopper.stop();
                    running.task.await.unwrap();
                }
            }
            74..78 => {
                let is_cut = self.random.random_ratio(1, 2);
                self.faulty.iter().for_each(|faulty| faulty.cut_off(is_cut));
            }
            78..81 => self.cluster.goes_away(self.random.random_ratio(1, 3)),
            81..82 => self.cluster.change_users(),
            82..83 => {
                let current = self.cluster.current();
                let back = self.random.random_range(0..30).min(current - 2);
                let new_id = self.random.random_ratio(1, 2);
                let bump = if self.random.random_ratio(1, 2) { self.random.random_range(1..200) } else { 0 };
                self.cluster.restore_to(current - back, new_id, bump);
                self.log(format!(
                    "the cluster went back from {current} by {back}, then on by {bump}, new id: {new_id}"
                ));
            }
            83..86 => self.cluster.whims(match self.random.random_range(0..3) {
                0 => Whims::default(),
                1 => Whims { drops: 30, loses: 20, repeats: 10, stalls: 100, mutes: 20 },
                _ => Whims { drops: 200, ..Whims::default() },
            }),
            _ => tokio::time::sleep(Duration::from_millis(self.random.random_range(1..15))).await,
        }
    }

    /// Everything heals: the archive has to end where the cluster is.
    async fn heal(&mut self) {
        self.faulty.iter().for_each(|faulty| faulty.cut_off(false));
        self.cluster.goes_away(false);
        self.cluster.whims(Whims::default());
        while self.agents[0].is_none() {
            self.start(0).await;
            tokio::task::yield_now().await;
        }
        let current = self.cluster.current();
        let reached = self.seal(Duration::from_secs(30)).await;
        let told = |running: &Running| format!("{:?}", *running.progress.standing().borrow());
        let standing: Vec<String> = self.agents.iter().flatten().map(told).collect();
        assert_eq!(reached, Some(Revision(current)), "{standing:#?}");
        for running in self.agents.iter_mut().filter_map(Option::take) {
            running.stopper.stop();
            running.task.await.unwrap();
        }
    }

    /// Compares what the archive offers with the cluster. Gives how many points were compared.
    async fn compare(&mut self) -> usize {
        let home = self.home().await;
        let acknowledged = std::mem::take(&mut self.acknowledged);
        let (truth, current) = (self.cluster.truth(), self.cluster.current());
        let drawn: Vec<i64> = (0..30).map(|_| self.random.random_range(1..=current)).collect();
        home.with(move |archive, home| {
            let newest = same(archive, &home.scratch, &Wanted::default(), &At::Latest, &truth).unwrap();
            assert_eq!(newest, Revision(current), "the newest point is where the cluster is");
            let mut compared = 1;
            for (lineage, revision, truth) in &acknowledged {
                let wanted = Wanted { lineage: Some(lineage.clone()), target: Target::Latest };
                let found = same(archive, &home.scratch, &wanted, &At::Revision(*revision), truth);
                assert_eq!(found.unwrap(), *revision, "what was acknowledged in {lineage}");
                compared += 1;
            }
            // Of the history that goes on, and those that it came from: others had their own truth.
            let lineage = archive.catalogue().histories.last().and_then(|history| history.lineage.clone());
            for revision in drawn {
                let wanted = Wanted { lineage: lineage.clone(), target: Target::Latest };
                match same(archive, &home.scratch, &wanted, &At::Revision(Revision(revision)), &truth) {
                    Ok(_) => compared += 1,
                    // A hole that has a name is no lie.
                    Err(Error::Plan(PlanError::Hole { .. } | PlanError::Before { .. })) => {}
                    Err(error) => panic!("revision {revision}: {error}"),
                }
            }
            Ok(compared)
        })
        .await
        .unwrap()
    }
}

/// Restores `at`, and compares it with the cluster that was never compacted.
fn same(
    archive: &archive::archive::Archive,
    scratch: &Path,
    wanted: &Wanted,
    at: &At,
    truth: &Database,
) -> Result<Revision, Error> {
    let agreed = archive.agree(wanted, at, scratch)?;
    let point = archive.open_whole(&agreed, scratch)?;
    let found = hash_kv(&point.database, Some(point.revision), None).unwrap();
    let expected = hash_kv(truth, Some(point.revision), found.compact_revision).unwrap();
    let told = |history: &History| {
        let lineage = history.lineage.clone().unwrap();
        format!("{lineage} from {:?}", archive.parent(&lineage))
    };
    let lineages: Vec<String> = archive.catalogue().histories.iter().map(told).collect();
    let (revision, plan) = (point.revision, &agreed.plan);
    if found.hash != expected.hash {
        let from = found.compact_revision.unwrap_or_default().next();
        let range = etcd_data::database::RevisionRange { from, to: revision };
        let all = |database: &Database| {
            let mut records = Vec::new();
            let seen = database.visit(range, |record| {
                records.push((record.at, String::from_utf8_lossy(record.value).into_owned()));
                Ok::<_, etcd_data::Error>(std::ops::ControlFlow::Continue(()))
            });
            seen.map(|()| records).unwrap()
        };
        let (ours, theirs) = (all(&point.database), all(truth));
        println!("{} records, {} in truth", ours.len(), theirs.len());
        let differing = ours.iter().zip(&theirs).filter(|(a, b)| a != b).take(5);
        differing.for_each(|(a, b)| println!("{a:?}\n{b:?}"));
    }
    assert_eq!(found.hash, expected.hash, "HashKV at {at} ({revision}), {lineages:#?}\n{plan}");
    if let Some(anchor) = point.anchor() {
        let found = hash_kv(&point.database, Some(anchor.revision), anchor.compact_revision).unwrap();
        assert_eq!(found.hash, anchor.hash, "the anchor at {}", anchor.revision);
    }
    Ok(point.revision)
}

async fn run(seed: u64) -> (usize, u64) {
    let world = World::new(seed);
    let mut world = if seed % 3 == 1 { world.encrypted() } else { world };
    world.cluster.write(1);
    world.start(0).await;
    let turns = world.random.random_range(30..90);
    for _ in 0..turns {
        world.turn().await;
    }
    world.heal().await;
    let compared = world.compare().await;
    (compared, world.faulty.iter().map(|faulty| faulty.injected().total()).sum())
}

#[test]
fn whatever_happens_the_archive_ends_where_the_cluster_is_and_tells_no_lies() {
    let only = env::var("SIMULATION_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = env::var("SIMULATION_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let seeds = only.map_or(0..seeds, |seed| seed..seed + 1);
    let (mut points, mut faults, count) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(seed))));
        let (compared, injected) = done.unwrap_or_else(|panic| {
            println!("SIMULATION_SEED={seed} runs this one alone");
            resume_unwind(panic)
        });
        points += compared;
        faults += injected;
    }
    let counted = format!("{count} histories, {points} points compared, {faults} faults of the store");
    testkit::keep_counts("following", &counted);
    println!("{counted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nobody_answers_it_waits_and_refuses_what_is_asked_for() {
    let mut world = World::new(1);
    world.cluster.write(1);
    while world.agents[0].is_none() {
        world.start(0).await;
    }
    world.seal(SOON).await.unwrap();
    world.cluster.goes_away(true);
    let running = world.agents[0].as_ref().unwrap();
    let mut standing = running.progress.standing();
    let waiting = standing.wait_for(|told| told.doing == Doing::WaitingForEtcd);
    drop(tokio::time::timeout(SOON, waiting).await.unwrap().unwrap());
    let (asked, answer) = oneshot::channel();
    running.orders.send(Order(asked)).await.unwrap();
    let refused = tokio::time::timeout(SOON, answer).await.unwrap().unwrap().unwrap_err();
    assert!(refused.to_string().contains("does not answer"), "{refused}");
    world.cluster.goes_away(false);
    let following = standing.wait_for(|told| told.doing == Doing::Following && told.trouble.is_none());
    drop(tokio::time::timeout(SOON, following).await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_says_nothing_at_all_is_left_for_another() {
    let mut world = World::with_a_delta(5).await;
    let mut standing = world.agents[0].as_ref().unwrap().progress.standing();
    let silent = standing.borrow().member.clone();
    world.cluster.whims(Whims { mutes: 1000, ..Whims::default() });
    let left = standing.wait_for(|told| told.member.is_some() && told.member != silent);
    drop(tokio::time::timeout(SOON, left).await.unwrap().unwrap());
    world.cluster.whims(Whims::default());
    world.cluster.write(5);
    assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
}

/// What one agent has sealed and could not deliver, when another one had to begin anew: nobody else has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sealed_before_another_one_took_over_comes_to_its_lineage() {
    let mut world = World::new(1);
    world.cluster.write(20);
    while world.agents[0].is_none() {
        world.start(0).await;
    }
    world.seal(SOON).await.unwrap();
    world.faulty[0].cut_off(true);
    world.cluster.write(50);
    let running = world.agents[0].take().unwrap();
    let last = Revision(world.cluster.current());
    let truth = world.cluster.truth();
    let lineage = running.progress.standing().borrow().lineage.clone().unwrap();
    world.until_spooled(last).await;
    running.task.abort();
    let _ = running.task.await;
    world.cluster.compact(0);
    world.cluster.write(1);

    while world.agents[1].is_none() {
        world.start(1).await;
    }
    world.seal(SOON).await.unwrap();
    let other = world.agents[1].take().unwrap();
    assert_ne!(other.progress.standing().borrow().lineage.clone().unwrap(), lineage);
    other.stopper.stop();
    other.task.await.unwrap();

    world.faulty[0].cut_off(false);
    while world.agents[0].is_none() {
        world.start(0).await;
    }
    world.cluster.write(1);
    world.seal(SOON).await.unwrap();
    let home = world.home().await;
    let found = home.with(move |archive, home| {
        let wanted = Wanted { lineage: Some(lineage), target: Target::Latest };
        same(archive, &home.scratch, &wanted, &At::Revision(last), &truth)
    });
    assert_eq!(found.await.unwrap(), last);
}

/// It goes on where it was, by what its spool tells: what etcd compacts before the store is back is seen all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_captured_before_the_store_is_back_follows_on_the_archive() {
    for (undelivered, is_encrypted) in [(0, false), (30, false), (0, true), (30, true)] {
        let world = World::new(3);
        let mut world = if is_encrypted { world.encrypted() } else { world }.after_a_delta().await;
        let lineage = world.lineage_of(0);
        world.faulty[0].cut_off(true);
        if undelivered > 0 {
            world.cluster.write(undelivered);
            world.until_spooled(Revision(world.cluster.current())).await;
        }
        world.kill(0).await;

        world.begin(0).await;
        for _ in 0..3 {
            world.cluster.write(20);
            world.until_spooled(Revision(world.cluster.current())).await;
            world.cluster.compact(1);
        }
        world.faulty[0].cut_off(false);
        world.cluster.write(1);
        world.seal(SOON).await.unwrap();
        assert_eq!(world.lineage_of(0), lineage, "{undelivered}, encrypted {is_encrypted}: the history goes on");
        world.require_all_in_one_history().await;
    }
}

/// Users are in fulls alone, and a full cannot be taken without the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_change_before_the_store_is_back_come_into_a_full_then() {
    let mut world = World::with_a_delta(4).await;
    world.faulty[0].cut_off(true);
    world.kill(0).await;
    world.begin(0).await;
    world.cluster.change_users();
    world.cluster.write(5);
    let last = Revision(world.cluster.current());
    world.until_spooled(last).await;
    world.faulty[0].cut_off(false);
    let until = Instant::now() + SOON;
    while world.newest_full().await < last {
        assert!(Instant::now() < until, "no full has them");
        world.cluster.write(1);
        world.seal(SOON).await.unwrap();
    }
}

/// It is lacking until one was taken, whatever became of the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_change_come_into_a_full_though_the_first_one_fails() {
    let mut world = World::with_a_delta(8).await;
    world.cluster.refuse_snapshots(1);
    world.cluster.change_users();
    world.cluster.write(5);
    world.seal(SOON).await.unwrap();
    world.until_a_full_has_the_users().await;
}

/// A delta tells that they have changed, and the next agent learns from the archive that no full has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_change_come_into_a_full_though_the_agent_is_killed_before() {
    let mut world = World::with_a_delta(9).await;
    world.cluster.refuse_snapshots(u32::MAX);
    world.cluster.change_users();
    world.cluster.write(5);
    world.seal(SOON).await.unwrap();
    world.kill(0).await;
    world.cluster.refuse_snapshots(0);
    world.begin(0).await;
    world.until_a_full_has_the_users().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_change_while_nobody_writes_come_into_a_full() {
    let mut world = World::with_a_delta(10).await;
    world.kill(0).await;
    world.cluster.change_users();
    world.begin(0).await;
    world.until_a_full_has_the_users().await;
}

/// One that can never write lays the right down again, and another one takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_beside_another_cluster_or_is_refused_leaves_the_archive_to_its_own() {
    for (is_refused, why) in [(false, "another cluster"), (true, "permission denied")] {
        let mut world = World::with_a_delta(11).await;
        let lineage = world.lineage_of(0);
        world.kill(0).await;
        let own = std::mem::replace(&mut world.cluster, Cluster::new(99));
        world.cluster.write(100);
        if is_refused {
            world.cluster.refuse();
        }
        world.begin(1).await;
        let mut standing = world.agents[1].as_ref().unwrap().progress.standing();
        let told = standing.wait_for(|told| told.trouble.as_ref().is_some_and(|trouble| trouble.what.contains(why)));
        drop(tokio::time::timeout(SOON, told).await.unwrap().unwrap());

        world.cluster = own;
        world.begin(0).await;
        world.cluster.write(5);
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())), "{why}");
        assert_eq!(world.lineage_of(0), lineage, "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_another_cluster_leaves_the_right_to_write_as_it_is() {
    let mut world = World::with_a_delta(12).await;
    let running = world.agents[0].take().unwrap();
    running.stopper.stop();
    running.task.await.unwrap();
    let claim = Key::parse("prod/writer.json").unwrap();
    let before = world.memory.get(&claim, 0..1 << 20).await.unwrap();
    let stranger = Cluster::new(99);
    stranger.write(100);
    let plan = BackupPlan {
        live: Arc::new(Scripted(stranger)),
        home: world.home().await,
        holder: "a backup".into(),
        patience: SOON,
        replaces: false,
    };
    let refused = plan.back_up().await.unwrap_err();
    assert!(matches!(refused, SessionError::Resume(ResumeError::Stranger { .. })), "{refused}");
    assert_eq!(world.memory.get(&claim, 0..1 << 20).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_captured_without_the_right_is_set_aside_where_another_one_has_written() {
    let mut world = World::with_a_delta(5).await;
    world.faulty[0].cut_off(true);
    world.kill(0).await;
    world.begin(0).await;
    world.cluster.write(20);
    world.until_spooled(Revision(world.cluster.current())).await;

    world.begin(1).await;
    world.cluster.write(20);
    world.seal(SOON).await.unwrap();
    world.kill(1).await;
    world.cluster.write(20);
    world.until_spooled(Revision(world.cluster.current())).await;

    world.heal().await;
    assert!(!world.set_aside().is_empty(), "what was captured by a right that is over");
    world.compare().await;
}

/// A machine that is set back has an earlier etcd and an earlier spool, and both go on from there a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_machine_captures_that_was_set_back_does_not_come_into_the_history_that_it_left() {
    let mut world = World::with_a_delta(7).await;
    world.kill(0).await;
    let (back, spools) = (world.cluster.current(), world.folder.path().to_owned());
    copy(&spools.join("spool-0"), &spools.join("earlier"));
    world.begin(0).await;
    world.cluster.write(30);
    world.seal(SOON).await.unwrap();
    let left = world.lineage_of(0);
    world.kill(0).await;

    world.faulty[0].cut_off(true);
    world.cluster.restore_to(back, false, 0);
    std::fs::remove_dir_all(spools.join("spool-0")).unwrap();
    std::fs::rename(spools.join("earlier"), spools.join("spool-0")).unwrap();
    world.begin(0).await;
    for _ in 0..4 {
        world.cluster.write(15);
        world.until_spooled(Revision(world.cluster.current())).await;
    }
    world.heal().await;
    assert!(!world.set_aside().is_empty(), "what is of another history");
    assert_ne!(world.acknowledged.last().unwrap().0, left, "it is another history");
    world.compare().await;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

fn deltas_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        match entry.path().is_dir() {
            true => found.extend(deltas_below(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found
}
