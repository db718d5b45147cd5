//! The start of a member: what has to be done before etcd may start on its data directory, and whether an etcd that runs has to
//! end for it.
//!
//! It looks, decides, and acts. Looking changes nothing, and deciding is done with plain values, in
//! [`decide()`], whose table is `docs/start-of-a-member.md`. Nothing is ever deleted: what is replaced is kept beside its
//! place. A run that dies at any line is gone on with by looking and deciding again.
//!
//! - [`place`], [`policy`]: who is to start, and what may be done without asking; [`mod@recognise`]: whether the archive is its own
//! - [`seen`]: what was seen; [`volume`], [`directory`], [`cluster`], [`archived`] look, [`vigil`] remembers since when
//! - [`decision`], [`mod@decide`]: what is done; [`right`]: which of several who may
//! - `join`, `rebuild`: doing it; [`ready`]: what comes of it
//! - [`running`]: the same look at a member that runs

pub mod archived;
pub mod cluster;
pub mod decide;
pub mod decision;
pub mod directory;
pub mod error;
mod join;
pub mod place;
pub mod policy;
pub mod ready;
mod rebuild;
pub mod recognise;
pub mod right;
pub mod running;
pub mod seen;
#[cfg(test)]
mod tests;
pub mod vigil;
pub mod volume;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archive::Epoch;
use archive::fence::Tick;
use etcd_data::restore::{RestoreError, settle_leftovers};
use etcd_rpc::{Access, Endpoint, Member};
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::metrics::Metrics;
use archived::{ArchivePlace, Look, Sight};
use cluster::Met;
use decision::{Decision, From, Reason, Restore};
use directory::Depth;
use error::StartError;
use place::Place;
use policy::Policy;
use ready::{ClusterState, Launch, Ready};
use rebuild::Rebuilding;
use right::{KeptFor, Outcome};
use seen::{Archived, Directory, Held, Others, Seen, Standing, Volume, Writer};
use vigil::{Quorum, Vigil};

pub use decide::decide;
pub use right::OnItsWay;

/// A member that is to be started.
pub struct Start {
    setup: Setup,
    vigil: Vigil,
    /// The member itself, where it serves its clients once it runs.
    doors: Option<Vec<Member>>,
    /// The member as it was known last, as long as it may run without a quorum.
    left_alone: Option<seen::Member>,
    /// What the right to write is kept for, though there is nothing to write.
    kept_for: KeptFor,
}

/// Everything that a start depends on.
#[derive(Clone)]
pub struct Setup {
    /// Who is to start, and where.
    pub place: Place,
    /// What may be done without asking.
    pub policy: Policy,
    /// The archive, if there is to be one.
    pub archive: Option<ArchivePlace>,
    /// Where this member serves its clients.
    pub own: Vec<Endpoint>,
    /// Where the members of the cluster serve their clients.
    pub endpoints: Vec<Endpoint>,
    /// How they are reached.
    pub access: Access,
    /// Where what has to be on this machine meanwhile is kept; beside the data directory if not given.
    pub scratch: Option<PathBuf>,
    /// What is sealed on this machine and not in the archive yet, if somebody takes it there.
    pub on_its_way: Option<OnItsWay>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// What was seen, and what is to be done about it.
pub struct Decided {
    /// What was seen.
    pub seen: Seen,
    /// What is done.
    pub decision: Decision,
    /// Who speaks for the cluster, if it has a quorum.
    spokesman: Option<Member>,
    /// By which right the archive is written, if it was ours before the archive was looked at.
    by: Option<Epoch>,
}

/// How far a start came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// etcd can be started.
    Ready(Box<Ready>),
    /// Something has to pass first.
    Waiting(Reason),
    /// Somebody has to do something first.
    Stopped(Reason),
}

/// How long the archive may take to say how far it is ahead of a directory that is kept: a start never waits for more.
const GLANCE: Duration = Duration::from_secs(5);

/// How long is waited between two looks: at first, and at the most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

impl Start {
    /// A start that has seen nothing yet.
    pub fn new(setup: Setup) -> Self {
        let (vigil, kept_for) = (Vigil::default(), KeptFor::default());
        Self { setup, vigil, doors: None, left_alone: None, kept_for }
    }

    /// Goes on until etcd can be started or somebody has to do something, and tells each step that it waits for.
    pub async fn run(
        &mut self,
        depth: Depth,
        mut tell: impl FnMut(&Decision),
    ) -> Result<Result<Ready, Reason>, StartError> {
        let mut pause = PAUSES.0;
        // Reasons change with every second that is waited; what a person can do about them does not.
        let mut advised = None;
        loop {
            match self.step(depth, &mut tell).await {
                Ok(Step::Ready(ready)) => return Ok(Ok(*ready)),
                Ok(Step::Stopped(reason)) => {
                    tracing::error!(%reason, remedy = reason.remedy(), "the start stops");
                    return Ok(Err(reason));
                }
                Ok(Step::Waiting(reason)) => {
                    let remedy = reason.remedy();
                    if advised.replace(remedy) != Some(remedy) {
                        tracing::warn!(%reason, remedy, "the start waits");
                    }
                }
                Err(error) if error.may_pass() => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the start is tried again");
                }
                Err(error) => return Err(error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Looks, decides, and does what was decided.
    pub async fn step(&mut self, depth: Depth, tell: &mut impl FnMut(&Decision)) -> Result<Step, StartError> {
        self.settle().await?;
        let mut decided = self.look(depth).await;
        while let Some(right) = self.right_for(&decided.decision).await {
            match right {
                Ok(epoch) if decided.by == Some(epoch) => break,
                // Until now somebody else may have written.
                Ok(_) => decided = self.look_around(decided.seen.volume, decided.seen.directory).await,
                Err(reason) => {
                    tell(&Decision::Wait(reason.clone()));
                    return Ok(Step::Waiting(reason));
                }
            }
        }
        self.leave_right_after(Outcome::Start(&decided.decision), Tick::now());
        tell(&decided.decision);
        self.carry_out(decided).await
    }

    /// Looks and decides. Changes nothing.
    pub async fn look(&mut self, depth: Depth) -> Decided {
        let volume = volume::look(&self.setup.place);
        let directory = match &volume {
            // What is on another's volume is not even read.
            Volume::Theirs { .. } | Volume::Unknown { .. } => Directory::Empty,
            Volume::Unmarked | Volume::Ours(_) => self.directory(depth).await,
        };
        self.look_around(volume, directory).await
    }

    /// Looks at everything but the member itself, and decides.
    async fn look_around(&mut self, volume: Volume, directory: Directory) -> Decided {
        let quorum = match directory {
            Directory::Sound(_) => Quorum::Open,
            _ => Quorum::Missed,
        };
        let met = self.meet(&directory).await;
        let without_quorum = self.missed(quorum, &directory, &met);
        self.decide(volume, directory, met, without_quorum, Look::Objects).await
    }

    async fn meet(&self, directory: &Directory) -> Met {
        let Setup { place, endpoints, access, .. } = &self.setup;
        cluster::meet(place, endpoints, access, directory).await
    }

    /// For how long quorum has been missed, where `quorum` says how it is if the others do not have one.
    fn missed(&mut self, quorum: Quorum, directory: &Directory, met: &Met) -> Option<Duration> {
        let is_another = |standing: &Standing| match directory {
            Directory::Sound(member) => member.cluster != standing.cluster,
            _ => false,
        };
        let quorum = match &met.others {
            Others::Silent | Others::Mute { .. } | Others::NoQuorum { .. } => quorum,
            Others::Quorum(standing) if is_another(standing) => quorum,
            Others::Alone | Others::Quorum(_) | Others::Refused { .. } => Quorum::There,
        };
        self.vigil.quorum(quorum, met.answering.clone(), Tick::now())
    }

    /// Decides, when the archive was looked at too: as closely as `look` has it, where its data may be needed.
    async fn decide(
        &mut self,
        volume: Volume,
        directory: Directory,
        met: Met,
        without_quorum: Option<Duration>,
        look: Look,
    ) -> Decided {
        let is_lost = self.setup.policy.quorum_lost.is_after(without_quorum);
        let by = self.kept_right();
        let is_kept = matches!(directory, Directory::Sound(_)) && !is_lost || matches!(met.others, Others::Quorum(_));
        let sight = match self.on_their_way().filter(|_| !is_kept) {
            // What was sealed last is not there yet: restored now, the archive would give less than there is.
            Some(why) => Sight { archived: Archived::Away { why }, claim: None },
            None => self.archive(if is_kept { Look::Names } else { look }).await,
        };
        let place = &self.setup.place;
        let writer = self.vigil.claim(sight.claim, &place.name, Tick::now());
        let seen = Seen {
            volume,
            directory,
            others: met.others,
            without_quorum,
            archive: sight.archived,
            // What the claim says by another name is this agent's own then.
            writer: if by.is_some() { Writer::Nobody } else { writer },
            is_first: place.is_first(),
        };
        let decision = decide(&seen, &self.setup.policy);
        Decided { seen, decision, spokesman: met.spokesman, by }
    }

    /// What is sealed on this machine and not in the archive yet, if there is anything.
    fn on_their_way(&self) -> Option<String> {
        let deltas = self.setup.on_its_way.as_ref().map_or(0, OnItsWay::deltas);
        (deltas > 0).then(|| format!("{deltas} sealed deltas are on their way to it from this machine"))
    }

    async fn directory(&self, depth: Depth) -> Directory {
        let place = self.setup.place.clone();
        let looked = spawn_blocking(move || directory::look(&place, depth)).await;
        looked.unwrap_or_else(|error| Directory::Unreadable { why: error.to_string(), may_pass: true })
    }

    async fn archive(&self, look: Look) -> Sight {
        let Some(archive) = self.setup.archive.clone() else {
            return Sight { archived: Archived::None, claim: None };
        };
        let (cluster, scratch) = (self.setup.place.cluster.clone(), self.scratch());
        let runtime = Handle::current();
        let looking = spawn_blocking(move || archive.look(&runtime, &cluster, look, &scratch, Timestamp::now()));
        let away = |why: String| Sight { archived: Archived::Away { why }, claim: None };
        let looked = match look {
            Look::Names => match timeout(GLANCE, looking).await {
                Ok(looked) => looked,
                Err(_) => return away(format!("it did not answer within {GLANCE:?}")),
            },
            Look::Objects => looking.await,
        };
        looked.unwrap_or_else(|error| away(error.to_string()))
    }

    /// Brings back what an earlier run had begun to replace, and removes what it had begun to build.
    async fn settle(&self) -> Result<(), StartError> {
        let data_dir = self.setup.place.data_dir.clone();
        let settled = spawn_blocking(move || settle_leftovers(&data_dir)).await.map_err(StartError::of_thread)?;
        match settled {
            // Whoever runs there is noticed by looking.
            Err(RestoreError::InUse { .. }) => Ok(()),
            settled => Ok(settled?),
        }
    }

    async fn carry_out(&mut self, decided: Decided) -> Result<Step, StartError> {
        let Decided { seen, decision, spokesman, .. } = decided;
        let place = &self.setup.place;
        let (launch, held) = match &decision {
            Decision::Wait(reason) => return Ok(Step::Waiting(reason.clone())),
            Decision::Stop(reason) => return Ok(Step::Stopped(reason.clone())),
            Decision::Keep { moved, .. } => {
                if let (Some(id), Some(spokesman)) = (moved, spokesman) {
                    join::tell_peers(place, *id, &spokesman).await;
                }
                (self.launch(ClusterState::Existing), Held::Data)
            }
            Decision::Begin => (self.launch(ClusterState::New), Held::Nothing),
            Decision::Join(join) => {
                let Some(spokesman) = spokesman else { return Ok(Step::Waiting(Reason::NoQuorum)) };
                let (stamp, metrics) = (stamp(Timestamp::now()), &self.setup.metrics);
                (join::carry_out(place, *join, &spokesman, &stamp, metrics).await?, Held::Nothing)
            }
            Decision::Restore(restore) => {
                self.rebuild(*restore, &seen).await?;
                (self.launch_alone(), Held::Data)
            }
        };
        volume::mark(place, held).map_err(StartError::Mark)?;
        let is_built = matches!(decision, Decision::Restore(_));
        // To build it may have taken minutes.
        if is_built && matches!(self.meet(&Directory::Empty).await.others, Others::Quorum(_)) {
            return Ok(Step::Waiting(Reason::BackMeanwhile));
        }
        if is_built {
            self.kept_for = KeptFor::Built;
        }
        // It cannot be renewed while the store is away.
        if let Some(reason) = self.overtaken_by() {
            return Ok(Step::Waiting(reason));
        }
        // What is counted from now on is of what runs then.
        self.vigil.forget_quorum();
        self.left_alone = match (&decision, seen.directory) {
            (Decision::Keep { .. }, Directory::Sound(member)) => Some(member),
            _ => None,
        };
        Ok(Step::Ready(Box::new(Ready { decision, launch })))
    }

    async fn rebuild(&self, restore: Restore, seen: &Seen) -> Result<(), StartError> {
        let (setup, scratch, runtime) = (self.setup.clone(), self.scratch(), Handle::current());
        let now = Timestamp::now();
        let unseen = match (&seen.archive, restore.from) {
            (Archived::Newest(newest), From::Archive) => newest.age,
            _ => last_written(&setup.place).max(seen.without_quorum.unwrap_or_default()),
        };
        let work = move || {
            let rebuilding = Rebuilding {
                place: &setup.place,
                archive: setup.archive.as_ref(),
                high_water: setup.policy.high_water,
                unseen,
                scratch: &scratch,
                now,
                stamp: &stamp(now),
            };
            rebuilding.carry_out(restore, &runtime)
        };
        spawn_blocking(work).await.map_err(StartError::of_thread)?
    }

    fn launch(&self, state: ClusterState) -> Launch {
        let Place { initial_cluster, token, .. } = &self.setup.place;
        Launch { initial_cluster: initial_cluster.clone(), state, token: token.clone() }
    }

    /// The cluster that a restore begins has one member.
    fn launch_alone(&self) -> Launch {
        let place = &self.setup.place;
        let items: Vec<String> = place.peer_urls.iter().map(|url| format!("{}={url}", place.name)).collect();
        Launch { initial_cluster: items.join(","), state: ClusterState::Existing, token: place.token.clone() }
    }

    fn scratch(&self) -> PathBuf {
        let beside = || {
            let absolute = std::path::absolute(&self.setup.place.data_dir).ok();
            let parent = absolute.as_deref().and_then(Path::parent).filter(|parent| parent.is_dir());
            parent.map_or_else(std::env::temp_dir, PathBuf::from)
        };
        self.setup.scratch.clone().unwrap_or_else(beside)
    }
}

/// How long ago the database was last written to.
fn last_written(place: &Place) -> Duration {
    let metadata = etcd_data::data_dir::DataDir::database_path(&place.data_dir).metadata();
    let modified = metadata.and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|modified| modified.elapsed().ok()).unwrap_or_default()
}

/// A moment as it goes into the names of what is kept aside, as in `20261121T031502-127Z`.
fn stamp(now: Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%S-%3fZ").to_string()
}
