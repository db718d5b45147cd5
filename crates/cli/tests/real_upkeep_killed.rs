//! An agent that is killed while it merges, proves and prunes, over and over: everything that was sealed is there, in one
//! history without a hole, and is what the cluster had.
//!
//! The agent is this program once more, with a schedule of its own: by its clock, days are over in seconds.
//!
//! `SEED` says which moments are drawn.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/own_rhythm.rs"]
mod own_rhythm;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use agent::follow::Rhythm;
use agent::upkeep::Schedule;
use archive::merge::plan::MergePolicy;
use archive::retention::Policy;
use jiff::SignedDuration;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use running::{Running, succeed};
use serde_json::Value;
use testkit::{Client, Etcd, Member, Version};
use truth::require_archived;

/// How often it is killed.
const KILLED: usize = 15;
/// How many revisions are compared after each time.
const COMPARED: usize = 3;
const PATIENCE: Duration = Duration::from_secs(90);

/// When it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// What is put together of others is written.
    Making,
    /// It has its name.
    Made,
    /// It was read back, and that is written down.
    Proven,
    /// What it was made of goes.
    Pruning,
}

impl When {
    const ALL: [Self; 4] = [Self::Making, Self::Made, Self::Proven, Self::Pruning];
}

/// Puts, all the time.
struct Writing {
    stopped: Arc<AtomicBool>,
    acknowledged: Arc<AtomicI64>,
    thread: Option<JoinHandle<()>>,
}

impl Writing {
    fn begin(client: Client) -> Self {
        let (stopped, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
        let (is_over, last) = (Arc::clone(&stopped), Arc::clone(&acknowledged));
        let write = move || {
            for number in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let put = client.put(format!("key {}", number % 70), format!("value {number}")).unwrap();
                last.store(put, Ordering::Relaxed);
                sleep(Duration::from_millis(5));
            }
        };
        Self { stopped, acknowledged, thread: Some(std::thread::spawn(write)) }
    }

    fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Ordering::Relaxed)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A member, and the folder in which its archive is.
struct World {
    etcd: Etcd,
    archive: PathBuf,
    beside: PathBuf,
}

impl World {
    fn agent(&self) -> Running {
        own_rhythm::start(THIS, &self.archive, &self.beside, &self.etcd.client_url())
    }

    /// Kills `agent` at the moment `when`, and a little later.
    fn kill(&self, mut agent: Running, when: When, looks_later: usize) {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.objects();
        // Without a pause: what is in the making is there for a moment.
        loop {
            let now = self.objects();
            let has_come = now.difference(&seen).any(|path| match when {
                When::Making => is_in_the_making(path),
                When::Made => is_made_of_others(path) && !is_hidden(path),
                When::Proven => path.components().any(|part| part.as_os_str() == "proof") && !is_hidden(path),
                When::Pruning => false,
            });
            let is_gone = seen.difference(&now).any(|path| !is_hidden(path) && has_kind(path, "delta"));
            if has_come || when == When::Pruning && is_gone {
                break;
            }
            assert!(Instant::now() < deadline, "it is never {when:?}\n{}", agent.said());
            agent.require_alive("it is killed");
            seen = now;
        }
        (0..looks_later).for_each(|_| drop(self.objects()));
        agent.kill();
    }

    /// Every file of the archive, also what is in the making.
    fn objects(&self) -> BTreeSet<PathBuf> {
        let (mut found, mut folders) = (BTreeSet::new(), vec![self.archive.clone()]);
        while let Some(folder) = folders.pop() {
            // Whatever is there may be gone a moment later.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => drop(found.insert(entry.path())),
                }
            }
        }
        found
    }

    /// Requires one history from the first revision that there is to `sealed` at least, and gives the first.
    fn require_whole(&self, sealed: i64) -> i64 {
        let told: Value = serde_json::from_str(&succeed(&["points", text(&self.archive), "-o", "json"])).unwrap();
        assert_eq!(told["holes"], Value::Array(Vec::new()), "{told:#}");
        let [range] = &told["ranges"].as_array().unwrap()[..] else { panic!("one history is expected: {told:#}") };
        assert!(range["to"].as_i64() >= Some(sealed), "{sealed} was told to be sealed: {range:#}");
        range["from"].as_i64().unwrap()
    }

    /// Requires that the archive has what the member has, which keeps all of its history.
    fn require(&self, revision: i64) {
        require_archived(&self.archive, (revision, self.etcd.client().hash_kv(revision).unwrap().hash));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".refloat")
}

fn has_kind(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|found| found == kind)
}

/// Whether that is a full, or a delta of a higher level than the first.
fn is_made_of_others(path: &Path) -> bool {
    let is_first = || text(path).contains("/delta/0/");
    has_kind(path, "full") || has_kind(path, "delta") && !is_first()
}

/// The same of what has the key that it will have in its name.
fn is_in_the_making(path: &Path) -> bool {
    let name = text(path);
    let is_delta = name.contains("%2Fdelta%2F") && !name.contains("%2Fdelta%2F0%2F");
    is_hidden(path) && (is_delta || name.contains("%2Ffull%2F"))
}

const THIS: &str = "an_agent_that_is_killed_while_it_merges_and_prunes_loses_nothing";

/// Merges, checks and deletes what is seconds old, all the time.
fn in_haste() -> Schedule {
    let often = Duration::from_secs(1);
    let usual = Schedule::default();
    let merging = MergePolicy {
        windows: [1, 2, 4].map(SignedDuration::from_secs).to_vec(),
        full_window: Some(SignedDuration::from_secs(8)),
        settle: SignedDuration::ZERO,
        lineage: None,
    };
    Schedule {
        merging,
        merge_every: often,
        verify_every: often,
        reread_every: often,
        compare_every: often,
        retention: Policy { merged_grace: SignedDuration::ZERO, ..usual.retention },
        prune_every: Some(often),
        ..usual
    }
}

/// Follows until it is told to stop.
fn follow(told: &str) {
    let rhythm = Rhythm {
        seal_after: Duration::from_millis(100),
        anchor_every: Some(Duration::from_secs(2)),
        ..Rhythm::default()
    };
    own_rhythm::follow(told, rhythm, in_haste(), Duration::from_secs(2));
}

#[test]
fn an_agent_that_is_killed_while_it_merges_and_prunes_loses_nothing() {
    if let Some(told) = own_rhythm::told() {
        return follow(&told);
    }
    let seed = env::var("SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().to_owned();
    let archive = beside.join("archive");
    fs::create_dir(&archive).unwrap();
    let etcd = Member::new(Version::V36, beside.join("etcd")).without_fsync().start();
    etcd.client().put("first", "1").unwrap();
    let world = World { etcd, archive, beside };
    let mut sealed = world.etcd.client().status().unwrap().revision;
    let mut agent = world.agent();
    let first = agent.until_sealed(sealed);
    let writing = Writing::begin(world.etcd.client());
    for time in 0..KILLED {
        // Each of them comes, however few there are.
        let when = When::ALL[time % When::ALL.len()];
        let looks_later = random.random_range(0..40);
        world.kill(agent, when, looks_later);
        println!("{when:?}, {looks_later} looks later");

        // Just as it was left.
        let begins = world.require_whole(sealed);
        (0..COMPARED).for_each(|_| world.require(random.random_range(begins..=sealed)));
        world.require(sealed);

        sealed = sealed.max(writing.acknowledged());
        agent = world.agent();
        let status = agent.until_sealed(sealed);
        assert_eq!(status["recoverable"]["lineage"], first["recoverable"]["lineage"], "the history goes on");
    }
    drop(writing);
    let last = world.etcd.client().status().unwrap().revision;
    agent.until_sealed(last);
    assert!(agent.stop().success());
    let begins = world.require_whole(last);
    for revision in (begins..=last).step_by(usize::try_from((last - begins) / 40).unwrap().max(1)) {
        world.require(revision);
    }
    world.require(last);
    // Whatever was left half done is nothing that anybody has to look at.
    succeed(&["verify", text(&world.archive)]);
    println!("SEED={seed}: {last} revisions, killed {KILLED} times");
}
