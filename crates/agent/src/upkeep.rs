//! What is done to the archive from time to time: merging, proving, drilling, pruning. At its other destinations the
//! same is done, except that what is there comes from the first: it is copied, and not merged again.
//!
//! At one destination one thing after the other, and only while the right to write is ours. Each step plans anew from
//! what is listed then, so whatever a step left undone is due again at the next one. Whoever has not that right only lists,
//! where it would check what is new: monitoring asks every agent how old the newest full is.
//!
//! What is read when: what is new within minutes, all of it; a few times a day what leads to the newest point that a live
//! member answered about, and a full that was merged as soon as they have answered about that; and every object again
//! within a month, a small part each hour.
//!
//! - [`Schedule`]: what is done when; [`UpkeepStatus`]: what is told of it; [`Reach`]: how far the archive could be restored
//! - `merging`, `copying`, `checking`, `comparing`, `pruning`: each kind of work

mod checking;
mod comparing;
mod copying;
mod merging;
mod pruning;
mod reach;
mod schedule;
mod status;

use std::sync::Arc;
use std::time::Duration;

use archive::error::in_one_line;
use archive::{At, Error};
use etcd_data::Kind;
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::drill::scheduled::drill;
use crate::drill::{DrillError, Etcd};
use crate::follow::mending::{Broken, Look, Mending, Shown};
use crate::follow::merged::Merged;
use crate::follow::progress;
use crate::free_memory::FreeMemory;
use crate::home::{Home, blocking};
use crate::metrics::Metrics;
use crate::pen::Right;
use crate::stop::Stop;

use checking::{Part, tell_gone, tell_proven, tell_reach};
use schedule::When;

pub use reach::{Point, Reach};
pub use schedule::{DAILY, Drilling, Schedule, WINDOW, keeping};
pub use status::{Contradiction, Findings, Outcome, Standing, UpkeepStatus};

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Merging what is due.
    Merge,
    /// Copying what is new from the first destination.
    Copy,
    /// Reading back and checking what is new.
    Verify,
    /// Reading back and checking a part of everything.
    Reread,
    /// Rebuilding the newest point that a member answered about, or a full that was merged.
    Compare,
    /// Deleting what no rule keeps.
    Prune,
    /// Bringing up the newest point in an etcd of its own.
    Drill,
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
    /// Following, which hears what members answer.
    pub standing: watch::Receiver<progress::Standing>,
    /// The full that was merged last: following has members asked about it.
    pub merged: Merged,
    /// What is broken: following has a full from etcd mend it.
    pub mending: Mending,
    /// What is told.
    pub told: watch::Sender<UpkeepStatus>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Memory that is free, beside following.
    pub memory: FreeMemory,
}

impl Upkeep {
    /// Does what is due, until it is told to stop.
    pub async fn keep_up(self, mut stop: Stop) {
        let Schedule { merge_every, copy_every, verify_every, reread_every, compare_every, prune_every, .. } =
            self.schedule;
        let (growing, grow_every) = match self.first {
            None => (Work::Merge, merge_every),
            Some(_) => (Work::Copy, copy_every),
        };
        let drilled_at = self.schedule.drilling.as_ref().map(|drilling| When::At(drilling.at.clone()));
        // What was new before comes first: an agent that starts often must not put it off each time.
        let begin = Instant::now();
        let soon = |every: Duration| begin + every.min(Duration::from_secs(20));
        let later = |every: Duration| begin + every.min(Duration::from_secs(120));
        let mut due: Vec<(Instant, Work, When)> = vec![
            (soon(grow_every), growing, When::Every(grow_every)),
            (soon(verify_every), Work::Verify, When::Every(verify_every)),
            (later(compare_every), Work::Compare, When::Every(compare_every)),
            (later(reread_every), Work::Reread, When::Every(reread_every)),
        ];
        due.extend(prune_every.map(|every| (begin + every, Work::Prune, When::Every(every))));
        due.extend(drilled_at.and_then(|when| Some((when.next()?, Work::Drill, when))));
        let mut merged = self.merged.changes();
        loop {
            due.sort_by_key(|(at, ..)| *at);
            self.told.send_modify(|told| due.iter().for_each(|(at, work, _)| told.of(*work).next = Some(time_of(*at))));
            let Some(&(at, work, _)) = due.first() else { return };
            tokio::select! {
                () = sleep_until(at) => {}
                () = stop.told() => return,
                _ = merged.changed() => {
                    if self.merged.answered().is_some() {
                        let comparing = due.iter_mut().filter(|(_, work, _)| *work == Work::Compare);
                        comparing.for_each(|(at, ..)| *at = Instant::now());
                    }
                    continue;
                }
            }
            if self.right.borrow().permit().is_some() {
                let (look, looks) = (self.mending.look(), self.told.borrow().looks);
                self.do_one(work, &stop).await;
                self.tell_broken(work, look, looks);
            } else if work == Work::Verify && self.first.is_none() {
                self.look().await;
            }
            let (.., when) = due.remove(0);
            due.extend(when.next().map(|next| (next, work, when)));
        }
    }

    async fn do_one(&self, work: Work, stop: &Stop) {
        let _thrift = self.memory.be_thrifty();
        let (began, clock) = (Instant::now(), Timestamp::now());
        self.told.send_modify(|told| (told.of(work).running_since, told.of(work).done) = (Some(clock), None));
        let span = tracing::info_span!("upkeep", ?work);
        let result = match (work, &self.schedule.drilling, &self.first) {
            (Work::Drill, Some(drilling), _) => self.drill(&drilling.etcd, stop).instrument(span).await,
            (Work::Copy, _, Some(first)) => self.copy(first).instrument(span).await,
            (Work::Compare, ..) => self.compare().instrument(span).await,
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
            (standing.running_since, standing.done, standing.last) = (None, None, Some(outcome));
        });
    }

    /// Tells what a `work` has shown of the newest chain that began with `look`, when there had been so many `looks` at how far
    /// it leads.
    fn tell_broken(&self, work: Work, look: Look, looks: u64) {
        let told = self.told.borrow();
        // What was seen before, was told then.
        if told.looks > looks {
            self.mending.found(look, Shown::Lacking, told.reach.as_ref().and_then(lacking));
        }
        if work == Work::Compare {
            let full = self.merged.answered().map(|(full, _)| full);
            // Another full would be no better than the one that members have contradicted.
            let is_in_vain = full.is_some() && full == self.mending.mended_by();
            let contradicted = told.contradiction.as_ref().filter(|_| !is_in_vain).map(contradicted);
            self.mending.found(look, Shown::Contradicted, contradicted);
        }
    }

    async fn work_through(&self, work: Work) -> Result<String, String> {
        let (schedule, told, metrics) = (self.schedule.clone(), self.told.clone(), Arc::clone(&self.metrics));
        let (home, is_first, merged) = (self.home.clone(), self.first.is_none(), self.merged.clone());
        // Whoever asks for a full now waits for it.
        let turn = if work == Work::Merge { Some(merged.turn().await) } else { None };
        let done = blocking(move || {
            let _turn = turn;
            let archive = home.open_beside().inspect_err(|error| {
                if error.kind() == Kind::Missing {
                    tell_gone(&told);
                }
            })?;
            // Anew whenever it is listed anyway: a check, which reads objects, comes seldom.
            tell_reach(&archive, &told);
            if is_first {
                merging::tell_latest(archive.catalogue(), &metrics);
                merging::count_deltas(&archive, &metrics)?;
            }
            match work {
                Work::Merge => merging::merge(&archive, &home, &schedule.merging, &merged, &metrics),
                Work::Verify => checking::verify(&archive, &home, &told),
                Work::Reread => {
                    let part = Part::at(Timestamp::now(), schedule.reread_every, schedule.reread_within);
                    checking::reread(&archive, &home, part, &told)
                }
                Work::Prune => pruning::prune(&archive, &home.scratch, &schedule.retention, &metrics),
                // These are done in their own way, and where there is no etcd or nothing to copy from they are not due.
                Work::Compare | Work::Drill | Work::Copy => Ok(String::new()),
            }
        });
        done.await.map_err(|error: Error| in_one_line(&error))
    }

    /// Tells of what others have written. What keeps from that shows where they write.
    async fn look(&self) {
        let (home, metrics) = (self.home.clone(), Arc::clone(&self.metrics));
        let looked = blocking(move || {
            let archive = home.open()?;
            merging::tell_latest(archive.catalogue(), &metrics);
            merging::count_deltas(&archive, &metrics)
        });
        if let Err(error) = looked.await {
            tracing::debug!(place = self.home.store.place(), why = in_one_line(&error), "the archive cannot be listed");
        }
    }

    /// Copies what is new at the `first` destination and would be kept here.
    async fn copy(&self, first: &Home) -> Result<String, String> {
        let (from, to, policy) = (first.clone(), self.home.clone(), self.schedule.retention.clone());
        let told = self.told.clone();
        blocking(move || copying::copy(&from, &to, &policy, &told)).await
    }

    /// Rebuilds what members answered about.
    async fn compare(&self) -> Result<String, String> {
        let (home, told, answers) = (self.home.clone(), self.told.clone(), self.standing.borrow().answers.clone());
        let merged = self.merged.clone();
        blocking(move || comparing::compare(&home, &merged, answers, &told)).await
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

fn lacking(reach: &Reach) -> Option<Broken> {
    let Point { lineage, revision } = reach.last.clone();
    let why = format!("what leads to revision {revision} is damaged or missing");
    (!reach.is_whole()).then_some(Broken { lineage, why })
}

fn contradicted(Contradiction { point, member }: &Contradiction) -> Broken {
    let why = format!("at revision {} it is not what {member} has", point.revision);
    Broken { lineage: point.lineage.clone(), why }
}

fn in_archive(error: Error) -> DrillError {
    DrillError::Record(Box::new(error))
}

fn time_of(at: Instant) -> Timestamp {
    let ahead = SignedDuration::try_from(at.saturating_duration_since(Instant::now())).unwrap_or_default();
    Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
}
