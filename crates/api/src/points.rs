//! What an archive can restore: lineages, what they have, what is missing, and how far each is proven.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How far something has been shown to be right. Each level includes those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Nothing is recorded.
    #[default]
    Unproven,
    /// It was read back from the store, and its digest is the one.
    Sealed,
    /// Every record and reference in it was checked.
    Sound,
    /// It gives the HashKV that the live cluster gave.
    Anchored,
    /// A real etcd started from it and agreed.
    Drilled,
}

/// What one archive has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Where it is, as a URL.
    pub destination: String,
    /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
    pub layout: String,
    /// The cluster that it is of; null where the layout does not tell.
    pub cluster: Option<String>,
    /// When it was listed.
    pub listed: Timestamp,
    /// Its histories, the newest last.
    pub lineages: Vec<Lineage>,
    /// The newest point of which everything that it needs is recorded as proven; null if there is none.
    pub newest_proven: Option<ProvenPoint>,
    /// Records of proofs that cannot be used, and why.
    pub unreadable: Vec<String>,
    /// How many objects at the same place are not of the archive.
    pub strangers: u64,
}

/// A point that is proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenPoint {
    /// Its lineage; null where the layout knows none.
    pub lineage: Option<String>,
    /// Its revision.
    pub revision: i64,
    /// How far: the least of what is proven of anything that it needs.
    pub proof: Proof,
}

/// One unbroken history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Which; null where the layout knows none.
    pub lineage: Option<String>,
    /// The point that it came from; null if it came from none, or that is not known.
    pub parent: Option<Parent>,
    /// The revisions any of which can be restored, as far as names tell, in order.
    pub ranges: Vec<Range>,
    /// Changes before all of those that no full leads to; null if there are none.
    pub baseless: Option<Baseless>,
    /// What is missing between them.
    pub holes: Vec<Hole>,
    /// Its deltas together, by how often they were merged.
    pub levels: Vec<Level>,
    /// Its objects, the newest last: all fulls, and the newest deltas up to a limit.
    pub points: Vec<Point>,
    /// How many deltas are not listed.
    pub left_out: u64,
}

/// The point that a lineage came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Of which lineage.
    pub lineage: String,
    /// Its revision there.
    pub revision: i64,
}

/// Revisions any of which can be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first.
    pub from: i64,
    /// The last.
    pub to: i64,
    /// When the first was there, as far as names of objects tell.
    pub from_time: Option<Timestamp>,
    /// When the last was there, as far as names of objects tell.
    pub to_time: Option<Timestamp>,
}

/// Changes that cannot be restored, because no full leads to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseless {
    /// The lineage; null where the layout knows none.
    pub lineage: Option<String>,
    /// The first revision that a delta has.
    pub from: i64,
    /// The last.
    pub to: i64,
    /// Whether that is sure; if not, the next full may have them.
    pub sure: bool,
}

/// Revisions that are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// The last revision before it that can be restored.
    pub after: i64,
    /// The first revision after it that an object has; null if none has.
    pub next: Option<i64>,
    /// The first revision after it that can be restored; null if there is none.
    pub beyond: Option<i64>,
    /// Whether that is sure; if not, the next full may have them.
    pub sure: bool,
}

/// The deltas of one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// How often they were merged.
    pub level: u8,
    /// How many there are.
    pub count: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// The first revision in them.
    pub from: i64,
    /// The last revision in them.
    pub to: i64,
}

/// A point that an object ends at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The revision; null if only the object itself tells.
    pub revision: Option<i64>,
    /// When the object was taken or written, as far as its name or the store tells.
    pub time: Timestamp,
    /// What it is.
    pub kind: PointKind,
    /// The first revision of a delta; null for a full.
    pub from: Option<i64>,
    /// How often a delta was merged; null for a full.
    pub level: Option<u8>,
    /// How far the object is recorded as proven.
    pub proof: Proof,
    /// When that was shown; null if nothing was.
    pub proven: Option<Timestamp>,
    /// The size of the object.
    pub size_bytes: u64,
    /// What its layout calls it.
    pub name: String,
    /// Where it is, below the destination.
    pub key: String,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    /// Everything up to a revision.
    Full,
    /// All changes of a revision range.
    Delta,
}
