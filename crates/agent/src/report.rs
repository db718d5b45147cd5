//! What an agent tells of everything: one document, put together of what each part tells.

mod certificates;
mod findings;
mod verdict;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::points::{Baseless, Proof};
use api::restore::Restoring;
use api::status::{
    Agent, Capture, CaptureState, Cluster, Destination, Health, MAX_SAMPLES, Member, Outcome, Reached, Recoverable,
    Role, Sample, Spool, Status, Task, Trouble, Upkeep,
};
use archive::check::Place;
use archive::proof::Level;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::interval;

use crate::care::turns;
use crate::follow::live::{Alarm, MemberSight, Sight};
use crate::follow::progress::{self, Doing, Mark, Standing};
use crate::follow::spool::Fill;
use crate::follow::{Rhythm, choose};
use crate::home::Home;
use crate::member::Prepared;
use crate::pen::Right;
use crate::start::ready::BroughtBack;
use crate::stop::Stop;
use crate::upkeep;

use certificates::{Certificate, Certificates};
use verdict::{Judged, Lack};

/// Where it is heard from.
pub struct Reporter {
    /// Who tells.
    pub agent: Agent,
    /// The archive.
    pub home: Home,
    /// How often what is sealed.
    pub rhythm: Rhythm,
    /// Following.
    pub standing: watch::Receiver<Standing>,
    /// What waits for the store.
    pub fill: watch::Receiver<Fill>,
    /// Where that is which cannot be delivered.
    pub aside: PathBuf,
    /// The right to write.
    pub right: watch::Receiver<Right>,
    /// What is done from time to time.
    pub upkeep: watch::Receiver<upkeep::UpkeepStatus>,
    /// The archive's other destinations.
    pub elsewhere: Vec<Elsewhere>,
    /// A restore that somebody ordered.
    pub restoring: watch::Receiver<Option<Restoring>>,
    /// The care that is taken of the cluster.
    pub care: watch::Receiver<turns::CareStatus>,
    /// How the data directory beside the agent is.
    pub prepared: watch::Receiver<Prepared>,
    /// What was restored when it was started last.
    pub brought_back: watch::Receiver<Option<BroughtBack>>,
    /// The files of our own certificates.
    pub certificates: Vec<PathBuf>,
}

/// Another destination of the archive.
pub struct Elsewhere {
    /// Where.
    pub place: String,
    /// What is done there from time to time.
    pub upkeep: watch::Receiver<upkeep::UpkeepStatus>,
}

/// How often it is told, if nothing changes.
const EVERY: Duration = Duration::from_secs(1);
/// How often a sample is kept.
const SAMPLE_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// The bytes of a database that a restore makes in a second, where no drill has measured it.
const RESTORED_PER_SECOND: f64 = 300e6;

impl Reporter {
    /// Tells `told`, until it is told to stop.
    pub async fn report(self, told: watch::Sender<Arc<Status>>, mut stop: Stop) {
        let mut samples: VecDeque<Sample> = VecDeque::new();
        let mut ticks = interval(EVERY);
        let mut standing = self.standing.clone();
        let mut unreached: Option<progress::Trouble> = None;
        let mut certificates = Certificates::of(self.certificates.clone());
        loop {
            let now = Timestamp::now();
            let mut heard = self.hear();
            let since = unreached.map_or(now, |before| before.since);
            unreached = why_unreached(&heard.right).map(|what| progress::Trouble {
                what,
                remedy: None,
                waits_for: Some(Doing::WaitingForStore),
                since,
            });
            heard.unreached.clone_from(&unreached);
            heard.certificates = certificates.at(now).await.to_vec();
            sample(&mut samples, &heard, now);
            let status = heard.status(now, &self, samples.iter().cloned().collect());
            told.send_replace(Arc::new(status));
            tokio::select! {
                _ = ticks.tick() => {}
                _ = standing.changed() => {
                    // What changes often is told often enough.
                    tokio::time::sleep(EVERY / 5).await;
                    standing.borrow_and_update();
                }
                () = stop.told() => return,
            }
        }
    }

    fn hear(&self) -> Heard {
        Heard {
            standing: self.standing.borrow().clone(),
            fill: *self.fill.borrow(),
            aside: self.aside.clone(),
            right: self.right.borrow().clone(),
            unreached: None,
            upkeep: self.upkeep.borrow().clone(),
            elsewhere: self.elsewhere.iter().map(|one| (one.place.clone(), one.upkeep.borrow().clone())).collect(),
            care: self.care.borrow().clone(),
            prepared: self.prepared.borrow().clone(),
            brought_back: self.brought_back.borrow().clone(),
            certificates: Vec::new(),
        }
    }
}

/// Why the archive does not answer: whoever writes renews the right to it every few seconds, also where there is nothing else
/// to be written.
fn why_unreached(right: &Right) -> Option<String> {
    match right {
        Right::Untold { why } => Some(why.clone()),
        Right::Ours(_) if right.permit().is_none() => Some("the right to write could not be renewed in time".into()),
        _ => None,
    }
}

/// What the parts told.
#[derive(Debug, Clone, Default)]
struct Heard {
    standing: Standing,
    fill: Fill,
    aside: PathBuf,
    right: Right,
    /// Why the first destination does not answer, if it does not.
    unreached: Option<progress::Trouble>,
    upkeep: upkeep::UpkeepStatus,
    elsewhere: Vec<(String, upkeep::UpkeepStatus)>,
    care: turns::CareStatus,
    prepared: Prepared,
    brought_back: Option<BroughtBack>,
    certificates: Vec<Certificate>,
}

impl Heard {
    fn status(&self, now: Timestamp, reporter: &Reporter, samples: Vec<Sample>) -> Status {
        let home = &reporter.home;
        let sight = self.standing.sight.as_ref();
        let cluster = Cluster {
            name: home.cluster.name.clone(),
            archive_id: Some(home.cluster.id.to_string()),
            etcd_id: sight.map(|sight| format!("{:x}", sight.cluster)),
            version: sight.and_then(|sight| sight.version.clone()),
        };
        let judged = verdict::judge(self, now, &reporter.rhythm);
        let recoverable = self.recoverable(&judged);
        let findings = findings::of(self, &judged, now);
        Status {
            now,
            agent: reporter.agent.clone(),
            cluster,
            recoverable,
            members: sight.map(|sight| members(sight, followed(&self.standing))).unwrap_or_default(),
            capture: self.capture(&reporter.agent.name, &reporter.rhythm, &samples),
            destinations: self.destinations(home),
            upkeep: self.upkeep(),
            doing: self.doing(),
            restoring: reporter.restoring.borrow().clone(),
            findings,
            samples,
        }
    }

    /// The moment up to which every change is in the store.
    fn sealed_until(&self) -> Option<Timestamp> {
        let sealed = self.standing.sealed?;
        let seen = self.standing.seen.filter(|seen| seen.revision <= sealed.revision);
        Some(seen.map_or(sealed.seen, |seen| seen.seen.max(sealed.seen)))
    }

    fn recoverable(&self, judged: &Judged) -> Recoverable {
        let sealed = self.standing.sealed.map(|sealed| sealed.revision);
        let (until, revision, lineage) = match &judged.lack {
            None => (self.sealed_until(), sealed, self.standing.lineage.as_ref()),
            // That changes are sealed does not help where what leads to them is lacking.
            Some(Lack { newest: None, .. }) => (None, None, None),
            Some(Lack { newest: Some(point), .. }) => (None, Some(point.revision), point.lineage.as_ref()),
        };
        let proven = self.reached();
        let newest = proven.iter().rev().find(|reached| Some(Revision(reached.revision)) >= revision);
        let bytes = self.standing.sight.iter().flat_map(|sight| &sight.members);
        let bytes = bytes.filter_map(|member| Some(member.answer.as_ref().ok()?.used_bytes)).max();
        let reckoned = bytes.map(|bytes| 0.5 + bytes as f64 / RESTORED_PER_SECOND);
        let measured = self.upkeep.drill_took.map(|took| took.as_secs_f64());
        Recoverable {
            verdict: judged.verdict,
            why_not: judged.why_not.clone(),
            until,
            revision: revision.map(|revision| revision.0),
            lineage: lineage.map(ToString::to_string),
            proof: newest.map_or(Proof::Sealed, |reached| reached.proof),
            proven,
            restore_seconds: measured.or(reckoned),
            restore_measured: measured.is_some(),
        }
    }

    fn reached(&self) -> Vec<Reached> {
        let sealed = self.standing.sealed.map(|Mark { revision, seen }| Reached {
            proof: Proof::Sealed,
            revision: revision.0,
            time: Some(seen),
            shown: seen,
        });
        let proven = proven(&self.upkeep).filter(|reached| reached.proof != Proof::Sealed);
        sealed.into_iter().chain(proven).collect()
    }

    /// What the agent called `me` follows.
    fn capture(&self, me: &str, rhythm: &Rhythm, samples: &[Sample]) -> Capture {
        let standing = &self.standing;
        let (holder, epoch) = self.holder(me).unzip();
        let is_stuck = self.fill.objects > 0 && standing.trouble.is_some();
        let state = match standing.doing {
            Doing::Starting => CaptureState::Starting,
            Doing::StandingBy => CaptureState::StandingBy,
            Doing::TakingFull => CaptureState::TakingFull,
            Doing::Following if is_stuck => CaptureState::WaitingForStore,
            Doing::Following => CaptureState::Following,
            Doing::WaitingForEtcd => CaptureState::WaitingForEtcd,
            Doing::WaitingForStore => CaptureState::WaitingForStore,
        };
        Capture {
            state,
            since: Some(standing.since),
            member: standing.member.clone(),
            holder,
            epoch,
            revision_seen: standing.seen.map(|seen| seen.revision.0),
            revision_sealed: standing.sealed.map(|sealed| sealed.revision.0),
            revisions_per_second: rate(samples),
            seal_after_seconds: rhythm.seal_after.as_secs_f64(),
            spool: Spool {
                objects: self.fill.objects as u64,
                size_bytes: self.fill.bytes,
                limit_bytes: rhythm.spool_bytes,
            },
            trouble: standing.in_the_way().map(|trouble| Trouble {
                at: trouble.since,
                what: trouble.what,
                goes_on: true,
            }),
        }
    }

    /// Who may write, as far as the agent called `me` knows, and since which epoch: it is called by its own name only while
    /// it may.
    fn holder(&self, me: &str) -> Option<(String, u64)> {
        match &self.right {
            Right::Ours(_) => self.right.permit().map(|permit| (me.to_owned(), permit.epoch().0)),
            // It was this one before it was started again, or somebody gave two the same name.
            Right::Theirs { holder, epoch, .. } if holder == me => Some((format!("another {holder}"), epoch.0)),
            Right::Theirs { holder, epoch, .. } => Some((holder.clone(), epoch.0)),
            Right::Unknown | Right::LeftToOthers | Right::Untold { .. } => None,
        }
    }

    fn destinations(&self, home: &Home) -> Vec<Destination> {
        let others = self.elsewhere.iter().map(|(place, upkeep)| elsewhere(place, upkeep));
        std::iter::once(self.first_destination(home)).chain(others).collect()
    }

    fn first_destination(&self, home: &Home) -> Destination {
        let undelivered = self.standing.trouble.clone().filter(|_| self.fill.objects > 1);
        let trouble = undelivered.or_else(|| self.unreached.clone());
        let health = match (&trouble, self.standing.sealed) {
            (Some(_), _) => Health::Failing,
            (None, Some(_)) => Health::Healthy,
            (None, None) => Health::Unknown,
        };
        Destination {
            place: home.store.place().to_owned(),
            health,
            trouble: trouble.map(|trouble| Trouble { at: trouble.since, what: trouble.what, goes_on: true }),
            reached: self.reached(),
            objects: self.upkeep.listed.map(|(objects, _)| objects),
            size_bytes: self.upkeep.listed.map(|(_, bytes)| bytes),
            baseless: baseless(&self.upkeep),
        }
    }

    fn upkeep(&self) -> Upkeep {
        let upkeep::UpkeepStatus { merge, verify, reread, compare, prune, drill, .. } = &self.upkeep;
        let turns::CareStatus { defragmented, next_defragmentation, .. } = &self.care;
        Upkeep {
            merge: task(merge),
            verify: task(verify),
            reread: task(reread),
            anchor: task(compare),
            prune: task(prune),
            drill: task(drill),
            defragment: Task {
                running_since: None,
                last: defragmented.as_ref().map(outcome),
                next: *next_defragmentation,
            },
        }
    }

    fn doing(&self) -> Vec<api::status::Doing> {
        let upkeep::UpkeepStatus { merge, verify, reread, compare, prune, drill, .. } = &self.upkeep;
        let works = [
            (merge, "merging deltas"),
            (verify, "reading back what is new"),
            (reread, "reading back some of what was proven before"),
            (compare, "rebuilding the newest point that a member answered about"),
            (prune, "deleting what no rule keeps"),
            (drill, "bringing up the newest point in an etcd of its own"),
        ];
        let part = |work: &upkeep::Standing| work.done.map(|hundredths| f64::from(hundredths) / 100.0);
        let works = works.into_iter();
        let works = works.filter_map(|(work, what)| Some((what.to_owned(), work.running_since?, part(work))));
        let preparing = match &self.prepared {
            Prepared::Preparing { since, what } => {
                Some((format!("preparing the data directory: {what}"), *since, None))
            }
            _ => None,
        };
        let copies = self.elsewhere.iter();
        let copies =
            copies.filter_map(|(place, told)| Some((format!("copying to {place}"), told.copy.running_since?, None)));
        let all = preparing.into_iter().chain(works).chain(copies);
        all.map(|(what, since, done)| api::status::Doing { what, since, done }).collect()
    }
}

/// The newest point of each level that is recorded.
fn proven(upkeep: &upkeep::UpkeepStatus) -> impl Iterator<Item = Reached> {
    upkeep.proven.iter().filter_map(|(point, shown)| {
        Some(Reached { proof: proof(point.level), revision: point.revision.0, time: None, shown: (*shown)? })
    })
}

/// Changes that no full leads to, as they were found.
fn baseless(upkeep: &upkeep::UpkeepStatus) -> Vec<Baseless> {
    let told = |(place, baseless): &(Place, archive::plan::Baseless)| Baseless {
        lineage: match place {
            Place::Lineage(id) => Some(id.to_string()),
            Place::Archive | Place::Object(_) => None,
        },
        from: baseless.from.0,
        to: baseless.to.0,
        sure: true,
    };
    upkeep.baseless.iter().map(told).collect()
}

/// A destination that is copied to.
fn elsewhere(place: &str, upkeep: &upkeep::UpkeepStatus) -> Destination {
    let last = upkeep.copy.last.as_ref();
    let trouble = last.and_then(|last| {
        let at = upkeep.copy.failing_since.unwrap_or(last.at);
        Some(Trouble { at, what: last.result.as_ref().err()?.clone(), goes_on: true })
    });
    let health = match (last, &trouble) {
        (None, _) => Health::Unknown,
        (Some(_), None) => Health::Healthy,
        (Some(_), Some(_)) => Health::Failing,
    };
    Destination {
        place: place.to_owned(),
        health,
        trouble,
        reached: proven(upkeep).collect(),
        objects: upkeep.listed.map(|(objects, _)| objects),
        size_bytes: upkeep.listed.map(|(_, bytes)| bytes),
        baseless: baseless(upkeep),
    }
}

fn proof(level: Level) -> Proof {
    match level {
        Level::Sealed => Proof::Sealed,
        Level::Sound => Proof::Sound,
        Level::Anchored => Proof::Anchored,
        Level::Drilled => Proof::Drilled,
    }
}

fn task(standing: &upkeep::Standing) -> Task {
    Task { running_since: standing.running_since, last: standing.last.as_ref().map(outcome), next: standing.next }
}

fn outcome(last: &upkeep::Outcome) -> Outcome {
    Outcome {
        at: last.at,
        took_seconds: last.took.as_secs_f64(),
        succeeded: last.result.is_ok(),
        what: last.result.clone().unwrap_or_else(|why| why),
    }
}

/// The member that is followed, and how far its watch says that it is: that is newer than what it answered when it was looked at.
fn followed(standing: &Standing) -> Option<(&str, Mark)> {
    let is_heard = matches!(standing.doing, Doing::Following | Doing::TakingFull);
    Some((standing.member.as_deref().filter(|_| is_heard)?, standing.seen?))
}

fn members(sight: &Sight, followed: Option<(&str, Mark)>) -> Vec<Member> {
    let heard = |member: &MemberSight| member.answer.as_ref().ok().map(|_| sight.taken);
    let now = sight.now();
    let members = sight.members.iter().map(heard).zip(&now.members).map(|(heard, member)| {
        let watched = followed.filter(|(name, _)| choose::called(member) == *name).map(|(_, mark)| mark.revision.0);
        let told = told(member, heard);
        Member {
            revision: told.revision.map(|revision| watched.map_or(revision, |watched| revision.max(watched))),
            ..told
        }
    });
    members.collect()
}

fn told(member: &MemberSight, heard: Option<Timestamp>) -> Member {
    let answer = member.answer.as_ref().ok();
    let role = match answer {
        _ if member.is_learner => Some(Role::Learner),
        Some(answer) if answer.leader == member.id => Some(Role::Leader),
        Some(_) => Some(Role::Follower),
        None => None,
    };
    let alarms: Vec<String> = answer.iter().flat_map(|answer| &answer.alarms).map(Alarm::to_string).collect();
    let complaint = answer.and_then(|answer| answer.errors.first().or(alarms.first()).cloned());
    Member {
        name: member.name.clone(),
        id: format!("{:x}", member.id),
        endpoints: member.client_urls.clone(),
        role,
        health: if answer.is_some() { Health::Healthy } else { Health::Failing },
        trouble: member.answer.as_ref().err().cloned().or(complaint),
        heard,
        version: answer.map(|answer| answer.version.clone()),
        db_size_bytes: answer.map(|answer| answer.size_bytes),
        db_in_use_bytes: answer.map(|answer| answer.used_bytes),
        quota_bytes: answer.and_then(|answer| answer.quota_bytes),
        raft_index: answer.map(|answer| answer.applied),
        revision: answer.map(|answer| answer.revision.0),
        alarms,
    }
}

fn sample(samples: &mut VecDeque<Sample>, heard: &Heard, now: Timestamp) {
    let is_due = samples.back().is_none_or(|last| now.duration_since(last.at) >= SAMPLE_EVERY);
    let (true, Some(seen)) = (is_due, heard.standing.seen) else { return };
    let sight = heard.standing.sight.as_ref().map(Sight::now);
    let followed = sight.as_ref().and_then(|sight| {
        let name = heard.standing.member.as_ref()?;
        sight.members.iter().find(|member| choose::called(member) == *name)?.answer.as_ref().ok()
    });
    samples.push_back(Sample {
        at: now,
        revision_seen: seen.revision.0,
        revision_sealed: heard.standing.sealed.map(|sealed| sealed.revision.0),
        db_size_bytes: followed.map(|answer| answer.size_bytes),
        db_in_use_bytes: followed.map(|answer| answer.used_bytes),
    });
    while samples.len() > MAX_SAMPLES {
        samples.pop_front();
    }
}

/// Revisions in a second, over the last ten or so.
fn rate(samples: &[Sample]) -> Option<f64> {
    let last = samples.last()?;
    let before = samples.iter().rev().find(|sample| last.at.duration_since(sample.at) >= SAMPLE_EVERY * 2)?;
    let seconds = last.at.duration_since(before.at).as_secs_f64();
    Some((last.revision_seen - before.revision_seen).max(0) as f64 / seconds.max(1.0))
}

#[cfg(test)]
mod tests;
