//! How things are now, as one agent sees them.
//!
//! One document, made anew whenever something changes and at least every few seconds: a page that holds
//! an old one can tell by [`Status::now`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::points::{Baseless, Proof};
use crate::restore::Restoring;

/// How things are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// When this was so, by the agent's clock.
    pub now: Timestamp,
    /// Who says so.
    pub agent: Agent,
    /// The cluster that is followed.
    pub cluster: Cluster,
    /// Whether all could be brought back, and to when.
    pub recoverable: Recoverable,
    /// Its members.
    pub members: Vec<Member>,
    /// How its changes are followed.
    pub capture: Capture,
    /// Where its archive is kept.
    pub destinations: Vec<Destination>,
    /// What is done from time to time.
    pub upkeep: Upkeep,
    /// What is being done right now beside following.
    pub doing: Vec<Doing>,
    /// The restore that was ordered last; null if none was since the agent began.
    pub restoring: Option<Restoring>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// How things went in the last minutes, the newest last, up to [`MAX_SAMPLES`].
    pub samples: Vec<Sample>,
}

/// More samples than this are not kept.
pub const MAX_SAMPLES: usize = 240;

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agent {
    /// What it calls itself: that is the holder if it may write.
    pub name: String,
    /// Its version.
    pub version: String,
    /// When it began.
    pub began: Timestamp,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cluster {
    /// What the archive calls it.
    pub name: String,
    /// The id that the archive gave it; null as long as there is no archive.
    pub archive_id: Option<String>,
    /// The id that etcd gave it, in hexadecimal; null as long as no member was heard.
    pub etcd_id: Option<String>,
    /// The version that its members agreed on, as `3.5.0`; null as long as no member was heard.
    pub version: Option<String>,
}

/// Whether all could be brought back if every member were lost now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recoverable {
    /// Whether.
    pub verdict: Verdict,
    /// Why not, or why that is not known, in one sentence; null if it is recoverable.
    pub why_not: Option<String>,
    /// The moment up to which every change is sealed; it goes on while nothing changes. Null if nothing is sealed.
    pub until: Option<Timestamp>,
    /// The newest revision that could be restored; null if there is none.
    pub revision: Option<i64>,
    /// The lineage that it is of; null where there is none.
    pub lineage: Option<String>,
    /// How far that very point is proven.
    pub proof: Proof,
    /// The newest points that are proven further, the least proven first.
    pub proven: Vec<Reached>,
    /// How long a restore of it would take, in seconds; null if nothing is known that tells.
    pub restore_seconds: Option<f64>,
    /// Whether that was measured by a drill; otherwise it is reckoned from sizes.
    pub restore_measured: bool,
}

/// A verdict. What is not known is not yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Yes,
    /// It is, but less than was promised: late, or with a hole.
    Late,
    /// It is not.
    No,
    /// That is not known yet.
    #[default]
    Unknown,
}

/// A point that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// How far it is proven.
    pub proof: Proof,
    /// Its revision.
    pub revision: i64,
    /// When the last change up to it was seen; null if that is not known.
    pub time: Option<Timestamp>,
    /// When it was shown.
    pub shown: Timestamp,
}

/// A member of the cluster, as it answered last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its name; empty as long as it was never started.
    pub name: String,
    /// Its id, in hexadecimal.
    pub id: String,
    /// Where clients reach it.
    pub endpoints: Vec<String>,
    /// What it is in the cluster; null if that is not known.
    pub role: Option<Role>,
    /// How it is.
    pub health: Health,
    /// What is wrong with it; null if nothing is.
    pub trouble: Option<String>,
    /// When it answered last; null if it never did.
    pub heard: Option<Timestamp>,
    /// The version of its etcd; null if it never answered.
    pub version: Option<String>,
    /// The size of its database file; null if it never answered.
    pub db_size_bytes: Option<u64>,
    /// How much of that is in use; null if it never answered.
    pub db_in_use_bytes: Option<u64>,
    /// How large it may grow; null if it does not tell.
    pub quota_bytes: Option<u64>,
    /// The raft index that it has; null if it never answered.
    pub raft_index: Option<u64>,
    /// The revision that it has; null if it never answered.
    pub revision: Option<i64>,
    /// Its alarms, as etcd calls them.
    pub alarms: Vec<String>,
}

/// What a member is in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It leads.
    Leader,
    /// It votes.
    Follower,
    /// It only listens.
    Learner,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It did what it was asked last.
    Healthy,
    /// It did not.
    Failing,
    /// It was not asked yet.
    #[default]
    Unknown,
}

/// How the cluster's changes are followed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Capture {
    /// What it is doing.
    pub state: CaptureState,
    /// Since when; null if it has not begun.
    pub since: Option<Timestamp>,
    /// The name of the member that is followed; null if none is.
    pub member: Option<String>,
    /// Who may write to the archive; null if nobody may.
    pub holder: Option<String>,
    /// The epoch of who may write; null if nobody may.
    pub epoch: Option<u64>,
    /// The newest revision that was seen; null if none was.
    pub revision_seen: Option<i64>,
    /// The newest revision that is sealed; null if none is.
    pub revision_sealed: Option<i64>,
    /// How many revisions there were in a second, over the last ten; null if that is not known.
    pub revisions_per_second: Option<f64>,
    /// How long a change waits at most until it is sealed, in seconds.
    pub seal_after_seconds: f64,
    /// What waits for a store.
    pub spool: Spool,
    /// What went wrong last; null if nothing did.
    pub trouble: Option<Trouble>,
}

/// What capture is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureState {
    /// It begins.
    #[default]
    Starting,
    /// Every change is followed and sealed.
    Following,
    /// A full is being taken; changes are followed meanwhile.
    TakingFull,
    /// Another agent writes; this one would take over.
    StandingBy,
    /// A store is away: changes are kept on disk.
    WaitingForStore,
    /// No member answers.
    WaitingForEtcd,
    /// It stopped.
    Stopped,
}

/// What waits on disk for a store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spool {
    /// How many objects.
    pub objects: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// How many bytes there may be.
    pub limit_bytes: u64,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// When.
    pub at: Timestamp,
    /// What, in one sentence.
    pub what: String,
    /// Whether it goes on.
    pub goes_on: bool,
}

/// A place where the archive is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Where, as a URL.
    pub place: String,
    /// How it is.
    pub health: Health,
    /// What went wrong last; null if nothing did.
    pub trouble: Option<Trouble>,
    /// The newest point of each level that was reached here, the least proven first.
    pub reached: Vec<Reached>,
    /// How many objects there are; null if it was not listed yet.
    pub objects: Option<u64>,
    /// Their bytes; null if it was not listed yet.
    pub size_bytes: Option<u64>,
    /// Changes there that no full leads to, for sure, as they were found when all was looked at last.
    pub baseless: Vec<Baseless>,
}

/// What is done from time to time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Upkeep {
    /// Comparing with the live cluster.
    pub anchor: Task,
    /// Merging deltas, also to new fulls.
    pub merge: Task,
    /// Deleting what retention lets go.
    pub prune: Task,
    /// Checking what is new.
    pub verify: Task,
    /// Checking some of what was proven before.
    pub reread: Task,
    /// Restoring and booting.
    pub drill: Task,
    /// Giving back the space that members waste.
    pub defragment: Task,
}

/// Something that is done from time to time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Task {
    /// Since when it is being done; null if it is not.
    pub running_since: Option<Timestamp>,
    /// How it went last; null if it never was done.
    pub last: Option<Outcome>,
    /// When it is due next; null if it is not scheduled.
    pub next: Option<Timestamp>,
}

/// How something went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When it was over.
    pub at: Timestamp,
    /// How long it took, in seconds.
    pub took_seconds: f64,
    /// Whether it did what it should.
    pub succeeded: bool,
    /// What it did, or why not, in one sentence.
    pub what: String,
}

/// Something that is being done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doing {
    /// What, as in `merging 12 deltas`.
    pub what: String,
    /// Since when.
    pub since: Timestamp,
    /// How much of it is done, from 0 to 1; null if that is not known.
    pub done: Option<f64>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where: a member, a destination, an object, a setting.
    pub place: String,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What to do about it; null if nobody has to do anything.
    pub remedy: Option<String>,
    /// Since when; null if that is not known.
    pub since: Option<Timestamp>,
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Data may be lost, or already are.
    Critical,
    /// It will get worse if nobody looks.
    Warning,
    /// Good to know.
    Note,
}

/// How things were at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// The newest revision that was seen.
    pub revision_seen: i64,
    /// The newest revision that was sealed; null if none was.
    pub revision_sealed: Option<i64>,
    /// The size of the followed member's database; null if it is not known.
    pub db_size_bytes: Option<u64>,
    /// How much of that is in use; null if it is not known.
    pub db_in_use_bytes: Option<u64>,
}

impl Status {
    /// The status of an agent that has not looked at anything yet.
    pub fn beginning(agent: Agent, cluster: Cluster) -> Self {
        Self {
            now: agent.began,
            agent,
            cluster,
            recoverable: Recoverable::default(),
            members: Vec::new(),
            capture: Capture::default(),
            destinations: Vec::new(),
            upkeep: Upkeep::default(),
            doing: Vec::new(),
            restoring: None,
            findings: Vec::new(),
            samples: Vec::new(),
        }
    }
}
