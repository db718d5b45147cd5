//! What is done to the archive from time to time: merging, proving, pruning.
//!
//! One after the other, and only while the right to write is ours. Each step plans anew from what is listed then, so
//! whatever a step left undone is due again at the next one.

use std::collections::BTreeSet;
use std::time::Duration;

use archive::Error;
use archive::archive::Archive;
use archive::check::{Anchors, CheckPlan, Checking, Choice};
use archive::error::in_one_line;
use archive::merge_plan::MergePolicy;
use archive::plan::Known;
use archive::proof::Level;
use archive::proven::ProvenPoint;
use archive::retention::{Generations, Policy, Rule};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::home::Home;
use crate::pen::Right;
use crate::stop::Stop;

/// What is done when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// When deltas are merged.
    pub merging: MergePolicy,
    /// How often it is looked for what is due to be merged.
    pub merge_every: Duration,
    /// How often what is new is read back and checked.
    pub verify_every: Duration,
    /// How often what members answered is rebuilt and compared.
    pub compare_every: Duration,
    /// What is kept.
    pub retention: Policy,
    /// How often the rest is deleted; nothing if never.
    pub prune_every: Option<Duration>,
}

impl Default for Schedule {
    /// Every moment of a week, and then one full a day for a month.
    fn default() -> Self {
        let days = Generations { daily: 30, ..Generations::default() };
        let rules = vec![Rule::Window(SignedDuration::from_hours(7 * 24)), Rule::Generations(days)];
        Self {
            merging: MergePolicy::default(),
            merge_every: Duration::from_secs(60),
            verify_every: Duration::from_secs(600),
            compare_every: Duration::from_secs(6 * 3600),
            retention: Policy { rules, ..Policy::default() },
            prune_every: Some(Duration::from_secs(3600)),
        }
    }
}

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Merging what is due.
    Merge,
    /// Reading back and checking what is new.
    Verify,
    /// Rebuilding what members answered about.
    Compare,
    /// Deleting what no rule keeps.
    Prune,
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
    /// When it is due next.
    pub next: Option<Timestamp>,
}

/// What is told of all work, and of what it has shown.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Merging.
    pub merge: Standing,
    /// Checking.
    pub verify: Standing,
    /// Comparing.
    pub compare: Standing,
    /// Pruning.
    pub prune: Standing,
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
            Work::Verify => &mut self.verify,
            Work::Compare => &mut self.compare,
            Work::Prune => &mut self.prune,
        }
    }
}

/// Whoever does it.
pub struct Upkeep {
    /// The archive.
    pub home: Home,
    /// What is done when.
    pub schedule: Schedule,
    /// The right to write.
    pub right: watch::Receiver<Right>,
    /// What is told.
    pub told: watch::Sender<Told>,
}

impl Upkeep {
    /// Does what is due, until it is told to stop.
    pub async fn keep_up(self, mut stop: Stop) {
        let Schedule { merge_every, verify_every, compare_every, prune_every, .. } = self.schedule;
        // What was new before comes first: an agent that starts often must not put it off each time.
        let begin = Instant::now();
        let soon = |every: Duration| begin + every.min(Duration::from_secs(20));
        let mut due: Vec<(Instant, Work, Duration)> = vec![
            (soon(merge_every), Work::Merge, merge_every),
            (soon(verify_every), Work::Verify, verify_every),
            (begin + compare_every.min(Duration::from_secs(120)), Work::Compare, compare_every),
        ];
        due.extend(prune_every.map(|every| (begin + every, Work::Prune, every)));
        loop {
            due.sort_by_key(|(at, ..)| *at);
            self.told.send_modify(|told| due.iter().for_each(|(at, work, _)| told.of(*work).next = Some(time_of(*at))));
            let Some(&(at, work, every)) = due.first() else { return };
            tokio::select! {
                () = sleep_until(at) => {}
                () = stop.told() => return,
            }
            if self.right.borrow().permit().is_some() {
                self.do_one(work).await;
            }
            if let Some(first) = due.first_mut() {
                first.0 = Instant::now() + every;
            }
        }
    }

    async fn do_one(&self, work: Work) {
        let (began, clock) = (Instant::now(), Timestamp::now());
        self.told.send_modify(|told| told.of(work).running_since = Some(clock));
        let (schedule, told) = (self.schedule.clone(), self.told.clone());
        let done = self.home.with(move |archive, home| match work {
            Work::Merge => merge(archive, home, &schedule.merging),
            Work::Verify => verify(archive, home, None, &told),
            Work::Compare => verify(archive, home, Some(Anchors::Newest), &told),
            Work::Prune => prune(archive, home, &schedule.retention),
        });
        let result = done.await.map_err(|error| in_one_line(&error));
        match &result {
            Ok(what) => tracing::info!(?work, what, "upkeep"),
            Err(why) => tracing::warn!(?work, why, "upkeep failed"),
        }
        let outcome = Outcome { at: Timestamp::now(), took: began.elapsed(), result };
        self.told.send_modify(|told| {
            let standing = told.of(work);
            (standing.running_since, standing.last) = (None, Some(outcome));
        });
    }
}

fn time_of(at: Instant) -> Timestamp {
    let ahead = SignedDuration::try_from(at.saturating_duration_since(Instant::now())).unwrap_or_default();
    Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
}

/// Makes every delta and full that is due.
fn merge(archive: &Archive, home: &Home, policy: &MergePolicy) -> Result<String, Error> {
    let now = Timestamp::now();
    let plan = archive.due(policy, now)?;
    for merge in &plan.merges {
        archive.merge(merge, &home.writing(now))?;
    }
    if let Some(full) = &plan.full {
        // What was merged just now is part of it.
        archive.make_full(full, &home.writing(now))?;
    }
    let deltas = match plan.merges.len() {
        0 => "nothing was due".into(),
        count => format!("made {count} deltas of smaller ones"),
    };
    Ok(plan.full.map_or(deltas.clone(), |full| format!("{deltas}, and the full {}", full.into)))
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
    tell_proven(archive, told, findings)?;
    Ok(said)
}

fn tell_proven(archive: &Archive, told: &watch::Sender<Told>, findings: Vec<(String, String)>) -> Result<(), Error> {
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
        (told.proven, told.findings, told.listed) = (proven, findings, Some((count, bytes)));
    });
    Ok(())
}

/// Deletes what no rule keeps.
fn prune(archive: &Archive, home: &Home, policy: &Policy) -> Result<String, Error> {
    let now = Timestamp::now();
    let plan = archive.plan_prune(policy, now, &home.scratch)?;
    let pruned = archive.prune(&plan, policy, now)?;
    let gone = pruned.objects.iter().filter(|(_, gone)| matches!(gone, archive::prune::Gone::Deleted)).count();
    Ok(match gone {
        0 => "nothing was to go".into(),
        count => format!("deleted {count} objects that no rule keeps"),
    })
}
