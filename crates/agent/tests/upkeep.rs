//! What is read of an archive when, what is told of it, and for how long.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "archived/world.rs"]
mod world;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::follow::mending::Mending;
use agent::follow::merged::{Merged, MergedFull, Stage};
use agent::follow::progress::Standing;
use agent::free_memory::{FreeMemory, Keep};
use agent::home::{Home, Site};
use agent::metrics::Metrics;
use agent::pen::{Pen, Right};
use agent::stop::Stopper;
use agent::upkeep::{Schedule, Upkeep, UpkeepStatus, Work};
use api::status::{Agent, Cluster, Status};
use archive::Anchor;
use archive::fence::{Candidate, Instance, Terms};
use archive::merge::plan::MergePolicy;
use archive::proof::{Evidence, Level};
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use testkit::in_time;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use world::{LAST, LEFT, World};

const LONG: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(1 << 20);
const OFTEN: Duration = Duration::from_millis(50);

/// Somebody who does what is due, and tells.
struct Keeper {
    told: watch::Receiver<UpkeepStatus>,
    metrics: Arc<Metrics>,
    /// What it hears of following.
    standing: watch::Sender<Standing>,
    merged: Merged,
    mending: Mending,
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
        let pen = Pen::take_up(home.clone(), me, Terms::default(), wanted.subscribe(), None, None);
        let mut right = pen.right();
        timeout(LONG, right.wait_for(|right| right.permit().is_some())).await.unwrap().unwrap();
        let (told, heard) = watch::channel(UpkeepStatus::default());
        let standing = watch::Sender::new(Standing { answers, ..Standing::default() });
        let (hears, metrics) = (standing.subscribe(), Arc::new(Metrics::new()));
        let counted = Arc::clone(&metrics);
        let (merged, mending) = (Merged::default(), Mending::default());
        let upkeep = Upkeep {
            home,
            first: None,
            schedule,
            right,
            standing: hears,
            merged: merged.clone(),
            mending: mending.clone(),
            told,
            metrics: counted,
            memory: FreeMemory::kept_by(note),
        };
        let stop = Stopper::default();
        let stopped = stop.stop_signal();
        let task = tokio::spawn(async move {
            let _wanted = wanted;
            upkeep.keep_up(stopped).await;
        });
        Self { told: heard, metrics, standing, merged, mending, pen, stop, task }
    }

    /// Waits until a full is merged that members are to be asked about.
    async fn until_merged(&self) -> MergedFull {
        let mut changes = self.merged.changes();
        let is_wanted = |stage: &Stage| matches!(stage, Stage::Wanted(_));
        drop(timeout(LONG, changes.wait_for(is_wanted)).await.expect("a full is merged").unwrap());
        self.merged.wanted().unwrap()
    }

    /// Waits until something was compared for the first time, and gives what was said of it.
    async fn until_compared(&mut self) -> String {
        let compared = self.told.wait_for(|told| told.compare.last.is_some());
        let told = timeout(LONG, compared).await.expect("it is compared").unwrap().clone();
        told.compare.last.unwrap().result.unwrap()
    }

    /// Waits until a `work` that has begun now is over.
    async fn until_done(&mut self, work: Work) -> UpkeepStatus {
        let begun = Timestamp::now();
        let is_over = |told: &UpkeepStatus| {
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
        in_time("it stops", self.task).await.unwrap();
        in_time("it lays the pen down", self.pen.lay_down()).await.unwrap();
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

/// The lines of monitoring that tell of the newest full and delta, and of what is behind that full.
fn latest(metrics: &Metrics) -> Vec<String> {
    let agent = Agent { name: "a".into(), version: "0".into(), began: Timestamp::now() };
    let text = metrics.render(&Status::beginning(agent, Cluster::default()));
    let lines = text.lines().filter(|line| line.contains("_latest_") && line.starts_with("etcdbr_snap"));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What they are to say of `world`, of which this process has written nothing that they were told of.
fn latest_of(world: &World) -> Vec<String> {
    let line =
        |what: &str, kind: &str, value: i64| format!("etcdbr_snapshot_latest_{what}{{kind=\"{kind}\"}} {value}.0");
    let time = |revision| world.moment(revision).as_second();
    let deltas = fs::read_dir(deltas_of(world, 1)).unwrap().count();
    vec![
        line("revision", "Full", LEFT + 1),
        line("revision", "Incr", LAST),
        line("timestamp", "Full", time(LEFT + 1)),
        line("timestamp", "Incr", time(LAST)),
        format!("etcdbr_snapstore_latest_deltas_revisions_total{{}} {}.0", LAST - (LEFT + 1)),
        format!("etcdbr_snapstore_latest_deltas_total{{}} {deltas}.0"),
    ]
}

/// Where the deltas of a lineage are.
fn deltas_of(world: &World, lineage: usize) -> PathBuf {
    world.folder.path().join("prod").join(world.lineages[lineage].to_string()).join("delta/0")
}

/// The objects that the newest point does not need.
fn older(world: &World) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(deltas_of(world, 0)).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn what(told: &UpkeepStatus) -> Vec<String> {
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
        assert!(told.contradiction.is_some(), "after {work:?}");
    }
    let lineage = &world.lineages[1];
    let mut changes = keeper.mending.changes();
    let wants = changes.wait_for(|found| found.wants_full(lineage).is_some());
    drop(timeout(LONG, wants).await.expect("a full is to mend it").unwrap());

    // It is asked again, and has what the archive has.
    let answer = Anchor { taken: Timestamp::now(), ..world.answer(LAST) };
    keeper.standing.send_modify(|standing| standing.answers = vec![answer]);
    for work in [Work::Compare, Work::Verify] {
        let told = keeper.until_done(work).await;
        let found = what(&told);
        assert!(!found.iter().any(|what| what.contains("answered")), "after {work:?}: {found:?}");
        assert_eq!(told.contradiction, None, "after {work:?}");
    }
    let settled = changes.wait_for(|found| found.wants_full(lineage).is_none());
    drop(timeout(LONG, settled).await.expect("nothing is to be mended").unwrap());
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
    let is_told = |told: &UpkeepStatus| what(told).iter().any(|what| what.contains(&name));

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

/// An early revision of the second history, about which members answered long before a full was merged.
const EARLY: i64 = LEFT + 14;

/// Up to about here a full is merged, which leaves something behind it.
const MERGED: i64 = LEFT + 200;

/// One full is merged at once: a first window ends in the middle of what there is, and the next one in decades. The next
/// comparison would be due long after the test.
fn merging(world: &World) -> Schedule {
    let full_window = Some(SignedDuration::from_secs(world.moment(MERGED).as_second()));
    Schedule { merge_every: OFTEN, merging: MergePolicy { full_window, ..MergePolicy::default() }, ..nothing() }
}

/// What members' answers have proven of `full`.
fn anchored(world: &World, full: &MergedFull) -> Option<Evidence> {
    let name = format!("{}/full/{:020}-", full.lineage, full.revision.0);
    tokio::task::block_in_place(|| {
        let archive = world.open();
        let proven = archive.proven_objects(&archive.proven().unwrap().proven, Level::Anchored).unwrap();
        proven.into_iter().find(|(key, _)| key.as_str().contains(&name)).map(|(_, item)| item.evidence)
    })
}

/// That it was proven by `answer`.
fn by(answer: &Anchor) -> Evidence {
    let Anchor { revision, compact_revision: compact, hash, ref member, .. } = *answer;
    Evidence::Anchored { revision, compact, hash, member: member.clone() }
}

/// Whatever else was answered, before and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_that_was_merged_is_proven_at_its_own_revision_as_soon_as_members_have_answered() {
    let world = world(None).await;
    let mut keeper = Keeper::hearing(&world, merging(&world), vec![world.answer(EARLY), world.answer(LAST)]).await;
    let full = keeper.until_merged().await;
    assert_eq!(anchored(&world, &full), None);
    let answer = world.answer(full.revision.0);
    keeper.merged.answer(&full, vec![answer.clone()]);
    keeper.until_compared().await;
    assert_eq!(anchored(&world, &full), Some(by(&answer)));
    assert_eq!(keeper.merged.answered(), None, "that is done");
    keeper.stop().await;
}

/// Whoever made it may have ended before they answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_that_was_merged_before_the_agent_began_is_proven_as_well_and_once() {
    let world = world(None).await;
    let first = Keeper::of(&world, merging(&world)).await;
    let full = first.until_merged().await;
    first.stop().await;

    let mut second = Keeper::of(&world, merging(&world)).await;
    assert_eq!(second.until_merged().await, full);
    let answer = world.answer(full.revision.0);
    second.merged.answer(&full, vec![answer.clone()]);
    second.until_compared().await;
    assert_eq!(anchored(&world, &full), Some(by(&answer)));
    second.stop().await;

    let mut third = Keeper::of(&world, merging(&world)).await;
    third.until_done(Work::Merge).await;
    assert_eq!((third.merged.is_unknown(), third.merged.wanted()), (false, None));
    third.stop().await;
}

/// What members answered about earlier revisions it does not contradict.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_that_was_merged_of_something_false_is_found_and_told_until_another_takes_its_place() {
    let handle = tokio::runtime::Handle::current();
    let made = move || World::falsified(handle, Timestamp::now(), EARLY + 50);
    let world = tokio::task::spawn_blocking(made).await.unwrap();
    let often = Schedule { compare_every: OFTEN, ..merging(&world) };
    let mut keeper = Keeper::hearing(&world, often, vec![world.answer(EARLY)]).await;
    let full = keeper.until_merged().await;
    assert_eq!(what(&keeper.until_done(Work::Compare).await), Vec::<String>::new());

    let answer = world.answer(full.revision.0);
    keeper.merged.answer(&full, vec![answer.clone()]);
    for _ in 0..2 {
        let found = what(&keeper.until_done(Work::Compare).await);
        assert!(found.iter().any(|what| what.contains(&format!("but etcd-1 answered {}", answer.hash))), "{found:?}");
    }
    assert_eq!(anchored(&world, &full), None);
    keeper.stop().await;
}

/// etcd compacts, and what came later is all that members can be asked about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_that_was_merged_and_that_no_member_tells_of_is_compared_on_the_way_to_what_they_tell() {
    let world = world(None).await;
    let last = world.answer(LAST);
    let mut keeper = Keeper::hearing(&world, merging(&world), vec![last.clone()]).await;
    let full = keeper.until_merged().await;
    keeper.merged.answer(&full, vec![last.clone()]);
    let said = keeper.until_compared().await;
    let untold = format!("no member tells what it had at revision {}", full.revision);
    assert!(said.starts_with(&untold) && said.contains(&format!("revision {LAST} rebuilt has the hash")), "{said}");
    assert_eq!(anchored(&world, &full), Some(by(&last)));
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_a_merged_full_is_right_takes_nothing_back_of_what_is_wrong_with_the_newest_point() {
    let world = world(None).await;
    let wrong = Anchor { hash: !world.answer(LAST).hash, ..world.answer(LAST) };
    let mut keeper = Keeper::hearing(&world, merging(&world), vec![wrong]).await;
    let full = keeper.until_merged().await;
    keeper.merged.answer(&full, Vec::new());
    keeper.until_compared().await;
    let found = what(&keeper.told.borrow());
    assert!(found.iter().any(|what| what.contains(&format!("revision {LAST}"))), "{found:?}");

    keeper.merged.want(full.clone());
    keeper.merged.answer(&full, vec![world.answer(full.revision.0)]);
    let right = format!("revision {} rebuilt has the hash", full.revision);
    let says = |told: &UpkeepStatus| {
        let last = told.compare.last.as_ref().and_then(|last| last.result.as_ref().ok());
        last.is_some_and(|said| said.contains(&right))
    };
    let told = timeout(LONG, keeper.told.wait_for(says)).await.expect("it is compared").unwrap().clone();
    assert_eq!(what(&told), found, "that is still so");
    keeper.stop().await;
}

/// A bucket that somebody has emptied. What comes then follows on nothing, and a cluster to which nobody writes does not even
/// show that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_that_is_gone_is_not_taken_for_one_that_has_not_begun() {
    for is_all in [false, true] {
        let (world, away) = (world(None).await, tempfile::tempdir().unwrap());
        let mut keeper = Keeper::of(&world, Schedule { verify_every: OFTEN, ..nothing() }).await;
        assert!(keeper.until_done(Work::Verify).await.reach.unwrap().is_whole());
        let prod = world.folder.path().join("prod");
        if is_all {
            fs::rename(prod, away.path().join("prod")).unwrap();
        } else {
            for lineage in world.lineages.iter().map(ToString::to_string) {
                fs::rename(prod.join(&lineage), away.path().join(&lineage)).unwrap();
            }
        }
        let is_gone = |told: &UpkeepStatus| told.reach.as_ref().is_some_and(|reach| reach.newest.is_none());
        drop(timeout(LONG, keeper.told.wait_for(is_gone)).await.expect("it is told").unwrap());
        keeper.stop.stop();
        in_time("it stops", keeper.task).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_full_and_delta_are_told_of_by_who_has_just_begun() {
    let world = world(None).await;
    let mut keeper = Keeper::of(&world, Schedule { verify_every: OFTEN, ..nothing() }).await;
    keeper.until_done(Work::Verify).await;
    assert_eq!(latest(&keeper.metrics), latest_of(&world));
    keeper.stop().await;
}

/// How often all keepers here had memory given back at once, and how often kept again.
static TOLD: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

fn note(keep: Keep) {
    let [given_back, kept] = &TOLD;
    let told = match keep {
        Keep::Nothing => given_back,
        Keep::ForAWhile => kept,
    };
    told.fetch_add(1, Ordering::Relaxed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_something_is_done_nothing_is_kept_of_memory_that_is_free_and_afterwards_it_is() {
    let world = world(None).await;
    let mut keeper = Keeper::of(&world, Schedule { verify_every: OFTEN, ..nothing() }).await;
    keeper.until_done(Work::Verify).await;
    keeper.stop().await;
    let told = TOLD.each_ref().map(|told| told.load(Ordering::Relaxed));
    assert!(told.iter().all(|times| *times > 0), "{told:?}");
}

/// Nobody lets it write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_by_tells_of_them_too() {
    let world = world(None).await;
    let site = Site::open_to_all(Arc::clone(&world.store), world.folder.path());
    let home = Home::at(site, world.cluster.clone());
    let (right, standing) = (watch::Sender::new(Right::default()), watch::Sender::new(Standing::default()));
    let ((told, mut heard), metrics) = (watch::channel(UpkeepStatus::default()), Arc::new(Metrics::new()));
    let (schedule, counted) = (Schedule { verify_every: OFTEN, ..nothing() }, Arc::clone(&metrics));
    let (right, standing) = (right.subscribe(), standing.subscribe());
    let (merged, mending) = (Merged::default(), Mending::default());
    let memory = FreeMemory::default();
    let upkeep =
        Upkeep { home, first: None, schedule, right, standing, merged, mending, told, metrics: counted, memory };
    let stop = Stopper::default();
    let task = tokio::spawn(upkeep.keep_up(stop.stop_signal()));
    // When it is due next is told each time.
    let is_told = timeout(LONG, async {
        while latest(&metrics) != latest_of(&world) {
            heard.changed().await.expect("it goes on");
        }
    });
    is_told.await.unwrap_or_else(|_| panic!("{:?} instead of {:?}", latest(&metrics), latest_of(&world)));
    stop.stop();
    in_time("it stops", task).await.unwrap();
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

/// It is found, and told; but others have what the archive has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_stands_alone_does_not_contradict_the_archive() {
    let world = world(None).await;
    let answer = |member: &str, other: u32| {
        let right = world.answer(LAST);
        Anchor { hash: right.hash ^ other, member: member.into(), taken: Timestamp::now(), ..right }
    };
    for (answers, expected) in [
        (vec![answer("etcd-1", 0), answer("etcd-2", 1)], false),
        (vec![answer("etcd-1", 0), answer("etcd-2", 1), answer("etcd-3", 1)], true),
    ] {
        let schedule = Schedule { compare_every: OFTEN, ..nothing() };
        let mut keeper = Keeper::hearing(&world, schedule, answers).await;
        let told = keeper.until_done(Work::Compare).await;
        assert!(!what(&told).is_empty());
        assert_eq!(told.contradiction.is_some(), expected, "{told:?}");
        keeper.stop().await;
    }
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
