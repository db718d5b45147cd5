//! What is done to the archive from time to time: merging, proving, drilling, pruning. At its other destinations the
//! same is done, except that what is there comes from the first: it is copied, and not merged again.
//!
//! At one destination one thing after the other, and only while the right to write is ours. Each step plans anew from
//! what is listed then, so whatever a step left undone is due again at the next one.

mod copying;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::archive::Archive;
use archive::check::{Anchors, CheckPlan, Checking, Choice};
use archive::error::in_one_line;
use archive::merge_plan::MergePolicy;
use archive::plan::{Known, PlanError, RestorePlan, Wanted};
use archive::proof::Level;
use archive::proven::ProvenPoint;
use archive::prune::Gone;
use archive::retention::{Generations, Policy, Rule};
use archive::{At, Error};
use jiff::{SignedDuration, Timestamp};
use store::Key;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::drill::scheduled::drill;
use crate::drill::{DrillError, Etcd};
use crate::home::{Home, blocking};
use crate::metrics::{Metrics, SnapshotKind};
use crate::pen::Right;
use crate::schedule;
use crate::stop::Stop;

/// What is done when.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// When deltas are merged.
    pub merging: MergePolicy,
    /// How often it is looked for what is due to be merged.
    pub merge_every: Duration,
    /// How often what is new is copied from the first destination to another one.
    pub copy_every: Duration,
    /// How often what is new is read back and checked.
    pub verify_every: Duration,
    /// How often what members answered is rebuilt and compared.
    pub compare_every: Duration,
    /// What is kept.
    pub retention: Policy,
    /// How often the rest is deleted; nothing if never.
    pub prune_every: Option<Duration>,
    /// When the newest point is brought up in an etcd of its own; nothing if never.
    pub drilling: Option<Drilling>,
}

/// Drills on a schedule.
#[derive(Debug, Clone)]
pub struct Drilling {
    /// When.
    pub at: schedule::Schedule,
    /// With which etcd.
    pub etcd: Etcd,
}

impl Default for Schedule {
    /// Every moment of a week, and then one full a day for a month.
    fn default() -> Self {
        let days = Generations { daily: 30, ..Generations::default() };
        let rules = vec![Rule::Window(SignedDuration::from_hours(7 * 24)), Rule::Generations(days)];
        Self {
            merging: MergePolicy::default(),
            merge_every: Duration::from_secs(60),
            copy_every: Duration::from_secs(15),
            verify_every: Duration::from_secs(600),
            compare_every: Duration::from_secs(6 * 3600),
            retention: Policy { rules, ..Policy::default() },
            prune_every: Some(Duration::from_secs(3600)),
            drilling: None,
        }
    }
}

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Merging what is due.
    Merge,
    /// Copying what is new from the first destination.
    Copy,
    /// Reading back and checking what is new.
    Verify,
    /// Rebuilding what members answered about.
    Compare,
    /// Deleting what no rule keeps.
    Prune,
    /// Bringing up the newest point in an etcd of its own.
    Drill,
}

/// When one kind of work is due.
#[derive(Debug, Clone)]
enum When {
    Every(Duration),
    At(schedule::Schedule),
}

impl When {
    /// The next time after now; nothing if there is none.
    fn next(&self) -> Option<Instant> {
        match self {
            Self::Every(span) => Some(Instant::now() + *span),
            Self::At(schedule) => {
                let now = Timestamp::now();
                let ahead = schedule.next_after(now)?.duration_since(now);
                Some(Instant::now() + Duration::try_from(ahead).unwrap_or_default())
            }
        }
    }
}

/// How a kind of work went last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// When it was over.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// What it did, or why not.
    pub result: Result<String, String>,
}

/// How one kind of work stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Since when it is being done.
    pub running_since: Option<Timestamp>,
    /// How it went last.
    pub last: Option<Outcome>,
    /// Since when it has failed each time, if it failed last.
    pub failing_since: Option<Timestamp>,
    /// When it is due next.
    pub next: Option<Timestamp>,
}

/// What is told of all work, and of what it has shown.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Merging.
    pub merge: Standing,
    /// Copying.
    pub copy: Standing,
    /// Checking.
    pub verify: Standing,
    /// Comparing.
    pub compare: Standing,
    /// Pruning.
    pub prune: Standing,
    /// Drilling.
    pub drill: Standing,
    /// The newest proven point of each level that was reached, the least proven first.
    pub proven: Vec<(ProvenPoint, Option<Timestamp>)>,
    /// What is wrong with the archive, as the last check of each kind found: a place and what.
    pub findings: Vec<(String, String)>,
    /// How many objects there are, and their bytes.
    pub listed: Option<(u64, u64)>,
}

impl Told {
    /// How one kind of work stands.
    pub fn of(&mut self, work: Work) -> &mut Standing {
        match work {
            Work::Merge => &mut self.merge,
            Work::Copy => &mut self.copy,
            Work::Verify => &mut self.verify,
            Work::Compare => &mut self.compare,
            Work::Prune => &mut self.prune,
            Work::Drill => &mut self.drill,
        }
    }
}

/// Whoever does it, at one destination.
pub struct Upkeep {
    /// The archive there.
    pub home: Home,
    /// The first destination, where this is another one.
    pub first: Option<Home>,
    /// What is done when.
    pub schedule: Schedule,
    /// The right to write.
    pub right: watch::Receiver<Right>,
    /// What is told.
    pub told: watch::Sender<Told>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Upkeep {
    /// Does what is due, until it is told to stop.
    pub async fn keep_up(self, mut stop: Stop) {
        let Schedule { merge_every, copy_every, verify_every, compare_every, prune_every, .. } = self.schedule;
        let (growing, grow_every) = match self.first {
            None => (Work::Merge, merge_every),
            Some(_) => (Work::Copy, copy_every),
        };
        let drilled_at = self.schedule.drilling.as_ref().map(|drilling| When::At(drilling.at.clone()));
        // What was new before comes first: an agent that starts often must not put it off each time.
        let begin = Instant::now();
        let soon = |every: Duration| begin + every.min(Duration::from_secs(20));
        let mut due: Vec<(Instant, Work, When)> = vec![
            (soon(grow_every), growing, When::Every(grow_every)),
            (soon(verify_every), Work::Verify, When::Every(verify_every)),
            (begin + compare_every.min(Duration::from_secs(120)), Work::Compare, When::Every(compare_every)),
        ];
        due.extend(prune_every.map(|every| (begin + every, Work::Prune, When::Every(every))));
        due.extend(drilled_at.and_then(|when| Some((when.next()?, Work::Drill, when))));
        loop {
            due.sort_by_key(|(at, ..)| *at);
            self.told.send_modify(|told| due.iter().for_each(|(at, work, _)| told.of(*work).next = Some(time_of(*at))));
            let Some((at, work, _)) = due.first() else { return };
            tokio::select! {
                () = sleep_until(*at) => {}
                () = stop.told() => return,
            }
            if self.right.borrow().permit().is_some() {
                self.do_one(*work, &stop).await;
            }
            let (_, work, when) = due.remove(0);
            due.extend(when.next().map(|next| (next, work, when)));
        }
    }

    async fn do_one(&self, work: Work, stop: &Stop) {
        let (began, clock) = (Instant::now(), Timestamp::now());
        self.told.send_modify(|told| told.of(work).running_since = Some(clock));
        let span = tracing::info_span!("upkeep", ?work);
        let result = match (work, &self.schedule.drilling, &self.first) {
            (Work::Drill, Some(drilling), _) => self.drill(&drilling.etcd, stop).instrument(span).await,
            (Work::Copy, _, Some(first)) => self.copy(first).instrument(span).await,
            _ => self.work_through(work).instrument(span).await,
        };
        match &result {
            Ok(what) => tracing::info!(?work, place = self.home.store.place(), what, "upkeep"),
            Err(why) => tracing::warn!(?work, place = self.home.store.place(), why, "upkeep failed"),
        }
        let outcome = Outcome { at: Timestamp::now(), took: began.elapsed(), result };
        self.told.send_modify(|told| {
            let standing = told.of(work);
            standing.failing_since = match &outcome.result {
                Ok(_) => None,
                Err(_) => standing.failing_since.or(Some(outcome.at)),
            };
            (standing.running_since, standing.last) = (None, Some(outcome));
        });
    }

    async fn work_through(&self, work: Work) -> Result<String, String> {
        let (schedule, told, metrics) = (self.schedule.clone(), self.told.clone(), Arc::clone(&self.metrics));
        let is_first = self.first.is_none();
        let done = self.home.with(move |archive, home| {
            if is_first {
                count_deltas(archive, &metrics)?;
            }
            match work {
                Work::Merge => merge(archive, home, &schedule.merging, &metrics),
                Work::Verify => verify(archive, home, None, &told),
                Work::Compare => verify(archive, home, Some(Anchors::Newest), &told),
                Work::Prune => prune(archive, &home.scratch, &schedule.retention, &metrics),
                // Neither is due where no etcd is given, or where nothing is copied from.
                Work::Drill | Work::Copy => Ok(String::new()),
            }
        });
        done.await.map_err(|error| in_one_line(&error))
    }

    /// Copies what is new at the `first` destination and would be kept here.
    async fn copy(&self, first: &Home) -> Result<String, String> {
        let (from, to, policy) = (first.clone(), self.home.clone(), self.schedule.retention.clone());
        let told = self.told.clone();
        blocking(move || copying::copy(&from, &to, &policy, &told)).await
    }

    /// Brings up the newest point, and records that it came up.
    async fn drill(&self, etcd: &Etcd, stop: &Stop) -> Result<String, String> {
        let (home, etcd, told, stop) = (self.home.clone(), etcd.clone(), self.told.clone(), stop.told_so_far());
        let (began, runtime) = (Instant::now(), Handle::current());
        let drilled = blocking(move || {
            let (archive, now) = (home.open().map_err(in_archive)?, Timestamp::now());
            let (drilled, _) = drill(&archive, &At::Latest, &etcd, &home.scratch, &runtime, stop, now)?;
            tell_proven(&home.open().map_err(in_archive)?, &told).map_err(in_archive)?;
            Ok::<_, DrillError>(drilled)
        });
        let drilled = drilled.await;
        // Nothing was shown by one that had to end, or that had nothing yet.
        if !matches!(drilled, Err(DrillError::Interrupted)) {
            self.metrics.drilled(began.elapsed(), drilled.is_ok());
        }
        let drilled = drilled.map_err(|error| in_one_line(&error))?;
        let (revision, took) = (drilled.answers.hash.revision, drilled.took.all().as_secs_f64());
        Ok(format!("etcd {} came up with revision {revision} in {took:.1} s", drilled.version))
    }
}

fn in_archive(error: Error) -> DrillError {
    DrillError::Record(Box::new(error))
}

fn time_of(at: Instant) -> Timestamp {
    let ahead = SignedDuration::try_from(at.saturating_duration_since(Instant::now())).unwrap_or_default();
    Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
}

/// Makes every delta and full that is due. What cannot be merged keeps nothing else from it: the first error is told when
/// all that could be made is.
fn merge(archive: &Archive, home: &Home, policy: &MergePolicy, metrics: &Metrics) -> Result<String, Error> {
    let now = Timestamp::now();
    let writing = home.writing(now)?;
    let merged = archive.merge_due(policy, &writing)?;
    let (mut full, mut failed) = (None, merged.failed);
    if let Some(due) = &merged.full {
        // What was merged just now is part of it.
        let began = Instant::now();
        let made = archive.make_due_full(due, &writing);
        let published = made.is_ok().then_some((due.plan.target.unwrap_or_default().0, now));
        metrics.snapshot(SnapshotKind::Full, began.elapsed(), published);
        match made {
            Ok(made) => full = made,
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let deltas = match merged.made.len() {
        0 => "nothing was due".into(),
        count => format!("made {count} deltas of smaller ones"),
    };
    Ok(full.map_or(deltas.clone(), |full| format!("{deltas}, and the full {}", full.key)))
}

/// Checks what is new, or rebuilds what members answered about, and records what that shows.
fn verify(
    archive: &Archive,
    home: &Home,
    anchors: Option<Anchors>,
    told: &watch::Sender<Told>,
) -> Result<String, Error> {
    let recorded = archive.proven()?;
    let sound = archive.proven_objects(&recorded.proven, Level::Sound)?;
    let proven = anchors.is_none().then(|| sound.keys().cloned().collect::<BTreeSet<_>>());
    let plan = CheckPlan::choose(archive.catalogue(), &Choice { proven, ..Choice::default() });
    let record = Some(Timestamp::now());
    let checking = Checking { recorded: &recorded, anchors, scratch: &home.scratch, record, tell: &|_, _| {} };
    let report = archive.check(&plan, &checking)?;
    let in_objects = report
        .objects
        .iter()
        .flat_map(|object| object.findings.iter().map(|finding| (object.entry.key.to_string(), finding)));
    let all = in_objects.chain(report.others.iter().map(|(place, finding)| (place.clone(), finding)));
    let findings: Vec<(String, String)> =
        all.filter(|(_, finding)| !finding.is_note()).map(|(place, finding)| (place, finding.to_string())).collect();
    let said = match findings.len() {
        0 => format!("{} objects are as they should be", report.objects.len()),
        count => format!("{count} things are wrong in {} objects", report.objects.len()),
    };
    told.send_modify(|told| told.findings = findings);
    tell_proven(archive, told)?;
    Ok(said)
}

fn tell_proven(archive: &Archive, told: &watch::Sender<Told>) -> Result<(), Error> {
    let recorded = archive.proven()?;
    let known = Known::default();
    let mut proven = Vec::new();
    for level in [Level::Sealed, Level::Sound, Level::Anchored, Level::Drilled] {
        let objects = archive.proven_objects(&recorded.proven, level)?;
        let shown = objects.values().map(|item| item.time).max();
        proven.extend(ProvenPoint::newest(archive.catalogue(), &known, &objects).map(|point| (point, shown)));
    }
    let (mut count, mut bytes) = (0, 0_u64);
    for entry in archive.catalogue().entries() {
        (count, bytes) = (count + 1, bytes.saturating_add(entry.size_bytes));
    }
    told.send_modify(|told| {
        (told.proven, told.listed) = (proven, Some((count, bytes)));
    });
    Ok(())
}

/// What stands behind the newest full.
fn count_deltas(archive: &Archive, metrics: &Metrics) -> Result<(), Error> {
    let plan = match RestorePlan::choose(archive.catalogue(), &Wanted::default(), &Known::default()) {
        Err(PlanError::NoFull) => return Ok(()),
        plan => plan?,
    };
    let revisions = plan.deltas.iter().filter_map(|part| part.entry.changes());
    let revisions = revisions.map(|range| (range.to.0 - range.from.0 + 1).unsigned_abs()).sum();
    metrics.deltas_behind_the_full(plan.deltas.len() as u64, revisions);
    Ok(())
}

/// Deletes what no rule keeps.
fn prune(archive: &Archive, scratch: &Path, policy: &Policy, metrics: &Metrics) -> Result<String, Error> {
    let now = Timestamp::now();
    let plan = archive.plan_prune(policy, now, scratch)?;
    let pruned = archive.prune(&plan, policy, now)?;
    let fulls: BTreeSet<&Key> =
        archive.catalogue().entries().filter(|entry| entry.is_full()).map(|entry| &entry.key).collect();
    let mut gone = 0;
    for (key, outcome) in &pruned.objects {
        let kind = if fulls.contains(key) { SnapshotKind::Full } else { SnapshotKind::Incr };
        match outcome {
            Gone::Deleted => {
                gone += 1;
                metrics.deleted(kind, true);
            }
            Gone::Failed(_) => metrics.deleted(kind, false),
            _ => {}
        }
    }
    Ok(match gone {
        0 => "nothing was to go".into(),
        count => format!("deleted {count} objects that no rule keeps"),
    })
}
