//! What is read of an archive when, what is told of it, and for how long.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "archived/world.rs"]
mod world;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::follow::progress::Standing;
use agent::home::{Home, Site};
use agent::metrics::Metrics;
use agent::pen::Pen;
use agent::stop::Stopper;
use agent::upkeep::{Schedule, Told, Upkeep, Work};
use archive::Anchor;
use archive::fence::{Candidate, Instance, Terms};
use archive::merge_plan::MergePolicy;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use world::{LAST, LEFT, World};

const LONG: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(1 << 20);
const OFTEN: Duration = Duration::from_millis(50);

/// Somebody who does what is due, and tells.
struct Keeper {
    told: watch::Receiver<Told>,
    pen: Pen,
    stop: Stopper,
    task: JoinHandle<()>,
}

/// Nothing is due.
fn nothing() -> Schedule {
    Schedule {
        merge_every: NEVER,
        verify_every: NEVER,
        reread_every: NEVER,
        reread_within: NEVER,
        compare_every: NEVER,
        prune_every: None,
        ..Schedule::default()
    }
}

impl Keeper {
    async fn of(world: &World, schedule: Schedule) -> Self {
        Self::hearing(world, schedule, Vec::new()).await
    }

    /// One who has heard what members answered last.
    async fn hearing(world: &World, schedule: Schedule, answers: Vec<Anchor>) -> Self {
        let site = Site::open_to_all(Arc::clone(&world.store), world.folder.path());
        let home = Home::at(site, world.cluster.clone());
        home.be_ready_to_write(Timestamp::now()).await.unwrap();
        let (cluster, holder) = (home.cluster.clone(), "keeper".to_owned());
        let me = Candidate { cluster, holder, serves: None, instance: Instance(rand()) };
        let wanted = watch::Sender::new(true);
        let pen = Pen::take_up(home.clone(), me, Terms::default(), wanted.subscribe(), None);
        let mut right = pen.right();
        timeout(LONG, right.wait_for(|right| right.permit().is_some())).await.unwrap().unwrap();
        let (told, heard) = watch::channel(Told::default());
        let standing = watch::Sender::new(Standing { answers, ..Standing::default() }).subscribe();
        let upkeep = Upkeep { home, first: None, schedule, right, standing, told, metrics: Arc::new(Metrics::new()) };
        let stop = Stopper::default();
        let stopped = stop.stop_signal();
        let task = tokio::spawn(async move {
            let _wanted = wanted;
            upkeep.keep_up(stopped).await;
        });
        Self { told: heard, pen, stop, task }
    }

    /// Waits until a `work` that has begun now is over.
    async fn until_done(&mut self, work: Work) -> Told {
        let begun = Timestamp::now();
        let is_over = |told: &Told| {
            let last = told.clone().of(work).last.clone();
            last.is_some_and(|last| last.at.duration_since(begun).as_secs_f64() > last.took.as_secs_f64())
        };
        let told = timeout(LONG, self.told.wait_for(is_over)).await.expect("it is done").unwrap().clone();
        let last = told.clone().of(work).last.clone().unwrap();
        assert!(last.result.is_ok(), "{last:?}");
        told
    }

    async fn stop(self) {
        self.stop.stop();
        self.task.await.unwrap();
        self.pen.lay_down().await.unwrap();
    }
}

fn rand() -> u128 {
    u128::from(std::process::id())
}

async fn world(answered: Option<u32>) -> World {
    let handle = tokio::runtime::Handle::current();
    let made = move || World::answering(handle, Timestamp::now(), answered);
    tokio::task::spawn_blocking(made).await.unwrap()
}

/// The objects that the newest point does not need.
fn older(world: &World) -> Vec<PathBuf> {
    let folder = world.folder.path().join("prod").join(world.lineages[0].to_string()).join("delta/0");
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn what(told: &Told) -> Vec<String> {
    told.findings().map(|(place, what)| format!("{place}: {what}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comparing_found_is_told_until_comparing_finds_it_no_more() {
    let world = world(Some(1)).await;
    let schedule = Schedule { compare_every: OFTEN, verify_every: OFTEN, ..nothing() };
    let mut keeper = Keeper::of(&world, schedule).await;
    for work in [Work::Compare, Work::Verify, Work::Verify] {
        let told = keeper.until_done(work).await;
        let found = what(&told);
        assert!(found.iter().any(|what| what.contains("but etcd-1 answered 1")), "after {work:?}: {found:?}");
    }
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparing_reads_what_leads_to_the_point_and_rereading_reads_the_rest() {
    let world = world(Some(1)).await;
    let mut keeper = Keeper::of(&world, Schedule { verify_every: OFTEN, ..nothing() }).await;
    keeper.until_done(Work::Verify).await;
    keeper.stop().await;

    // Everything is proven, and then something decays that the newest point does not need.
    let decayed = older(&world).pop().unwrap();
    let mut bytes = fs::read(&decayed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&decayed, bytes).unwrap();
    let name = decayed.file_name().unwrap().to_str().unwrap().to_owned();
    let is_told = |told: &Told| what(told).iter().any(|what| what.contains(&name));

    let mut keeper = Keeper::of(&world, Schedule { compare_every: OFTEN, verify_every: OFTEN, ..nothing() }).await;
    let told = keeper.until_done(Work::Compare).await;
    assert!(!is_told(&told), "{:?}", what(&told));
    assert!(!is_told(&keeper.until_done(Work::Verify).await), "it is not new");
    keeper.stop().await;

    // All in one part, so that it is not waited for.
    let often = Schedule { reread_every: OFTEN, reread_within: OFTEN, ..nothing() };
    let mut keeper = Keeper::of(&world, often).await;
    let told = keeper.until_done(Work::Reread).await;
    assert!(is_told(&told), "{:?}", what(&told));
    keeper.stop().await;

    // It is proven no more, so it is told from then on, whoever looks.
    let mut keeper = Keeper::of(&world, Schedule { verify_every: OFTEN, ..nothing() }).await;
    assert!(is_told(&keeper.until_done(Work::Verify).await));
    keeper.stop().await;
}

/// The next comparison would be due long after the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_that_was_merged_is_compared_at_once() {
    let world = world(Some(1)).await;
    let merging = MergePolicy { full_window: Some(SignedDuration::from_secs(60)), ..MergePolicy::default() };
    let mut keeper = Keeper::of(&world, Schedule { merge_every: OFTEN, merging, ..nothing() }).await;
    let told = keeper.until_done(Work::Compare).await;
    assert!(what(&told).iter().any(|what| what.contains("but etcd-1 answered 1")), "{:?}", what(&told));
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_member_has_answered_there_is_nothing_to_compare() {
    let world = world(None).await;
    let mut keeper = Keeper::of(&world, Schedule { compare_every: OFTEN, ..nothing() }).await;
    let mut told = keeper.until_done(Work::Compare).await;
    let last = told.of(Work::Compare).last.clone().unwrap();
    assert_eq!(last.result.unwrap(), "no member has answered about a point of it yet");
    keeper.stop().await;
}

/// A cluster to which nobody writes gets no deltas, and so none that tells what its members answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_members_answered_last_is_compared_though_no_delta_tells_of_it() {
    let world = world(None).await;
    let answer = |revision| Anchor {
        revision: Revision(revision),
        compact_revision: Some(Revision(LEFT + 1)),
        hash: 2,
        member: "etcd-2".into(),
        taken: Timestamp::now(),
    };
    let schedule = Schedule { compare_every: OFTEN, ..nothing() };
    // What is not there yet cannot be compared.
    let mut keeper = Keeper::hearing(&world, schedule, vec![answer(LAST), answer(LAST + 1)]).await;
    let told = keeper.until_done(Work::Compare).await;
    assert!(what(&told).iter().any(|what| what.contains("but etcd-2 answered 2")), "{:?}", what(&told));
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_far_the_archive_reaches_is_told_without_what_is_damaged_or_missing() {
    let world = world(None).await;
    let reach = async |schedule: Schedule, work: Work| {
        let mut keeper = Keeper::of(&world, schedule).await;
        let told = keeper.until_done(work).await;
        keeper.stop().await;
        told.reach.expect("something is there")
    };
    let verifying = || Schedule { verify_every: OFTEN, ..nothing() };
    let whole = reach(verifying(), Work::Verify).await;
    assert!(whole.is_whole(), "{whole:?}");

    // All fulls of the newest history decay: rereading finds that, and whatever is listed later is told without them.
    let folder = world.folder.path().join("prod").join(world.lineages[1].to_string()).join("full");
    let all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let fulls: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|end| end == "full")).collect();
    assert!(!fulls.is_empty());
    for full in &fulls {
        let mut bytes = fs::read(full).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(full, bytes).unwrap();
    }
    let rereading = Schedule { reread_every: OFTEN, reread_within: OFTEN, ..nothing() };
    let damaged = reach(rereading, Work::Reread).await;
    assert_eq!(damaged.last, whole.last);
    assert!(damaged.newest < whole.newest, "{damaged:?}");

    // They are gone: who has found nothing yet knows that from the listing.
    fulls.iter().for_each(|full| fs::remove_file(full).unwrap());
    let missing = reach(verifying(), Work::Verify).await;
    assert_eq!((missing.last, missing.newest), (whole.last, damaged.newest));
}
