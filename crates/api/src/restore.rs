//! What a restore would do, and is doing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::points::Proof;

/// Which point is to be brought back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// What `--at` takes: `latest`, a revision, a time, `5m ago`, or a snapshot's name.
    pub at: String,
    /// In which lineage, and those that it came from; otherwise in the newest that has it.
    #[serde(default)]
    pub lineage: Option<String>,
}

/// What a restore would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What tells this plan from any other. Whoever orders a restore names the plan that was shown to them.
    pub id: String,
    /// What was wished for, with the revision and the lineage that were found for it.
    pub wish: Wish,
    /// What is read of the archive.
    pub read: Read,
    /// How much would be gone that is there now; null if that is not known.
    pub loss: Option<Loss>,
    /// What would be done here, step by step; null if nothing can be restored from here.
    pub here: Option<Here>,
    /// Why it cannot be done from here; null if it can.
    pub why_not_here: Option<String>,
    /// The command that builds the point on another machine.
    pub command: String,
}

/// What is read of an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// Where the archive is, as a URL.
    pub destination: String,
    /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
    pub layout: String,
    /// The lineage; null where the layout knows none.
    pub lineage: Option<String>,
    /// The revision whose state it is; null if only opening the full tells.
    pub revision: Option<i64>,
    /// When the last object that is read was taken.
    pub time: Option<Timestamp>,
    /// How far it is proven: the least of what is proven of anything that it needs.
    pub proof: Proof,
    /// The full that it begins with.
    pub full: String,
    /// The deltas that carry it forward, in order.
    pub deltas: Vec<String>,
    /// The bytes of all of these.
    pub size_bytes: u64,
    /// How long it would take; null if nothing is known that tells.
    pub estimated_seconds: Option<f64>,
    /// Objects that could not be used, and why.
    pub set_aside: Vec<String>,
    /// What a person should know about it: what was set aside, holes, other lineages.
    pub notes: Vec<String>,
}

/// What would be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// How many revisions came after the point.
    pub revisions: u64,
    /// The newest revision that is known.
    pub newest: i64,
    /// How much time that is, in seconds; null if it is not known.
    pub seconds: Option<u64>,
}

/// What would be done on the machine of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// The data directory that would be replaced.
    pub data_dir: String,
    /// Where what is there now would be kept; null if nothing is there.
    pub kept: Option<String>,
    /// The revision that the member would begin at: the same, or a higher one.
    pub begins_at: Option<i64>,
    /// What would be done, in order.
    pub steps: Vec<String>,
    /// How it could be undone.
    pub undo: String,
}

/// An order to restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// What was wished for.
    pub wish: Wish,
    /// The plan that was shown: if it would be another one now, nothing is done.
    pub plan: String,
}

/// A restore that is on its way or over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Restoring {
    /// The plan that is carried out.
    pub plan: String,
    /// The lineage; null where the layout knows none.
    pub lineage: Option<String>,
    /// The revision whose state it is; null if only opening the full tells.
    pub revision: Option<i64>,
    /// When it began.
    pub began: Timestamp,
    /// What it is doing, or did last.
    pub step: String,
    /// How much of it is done, from 0 to 1; null if that is not known.
    pub done: Option<f64>,
    /// How it ended; null as long as it goes on.
    pub ended: Option<Ended>,
}

/// How a restore ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// Why it failed; null if it did not.
    pub failure: Option<String>,
    /// Where what was there before is kept; null if nothing was.
    pub kept: Option<String>,
}
