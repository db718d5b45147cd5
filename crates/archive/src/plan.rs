//! What a restore reads, in the order in which it is applied.
//!
//! A plan is chosen from names: the newest full at or below the target, then the fewest deltas that carry it forward.
//! Objects may overlap their neighbours and reach past the target; each part says which revisions are taken of it.
//! A hole is named, never jumped. When an object turns out missing, damaged or deposed, it goes into [`Known::without`]
//! and the plan is chosen anew: an older full and more deltas, or the deltas that a merged one was made of.
//!
//! Names are believed for planning alone: [`Chain::confirm`] compares the plan with what the objects say.

mod choose;
mod confirm;
mod display;
mod points;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use etcd_data::database::RevisionRange;
use etcd_data::{Kind, Revision};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::Key;

use crate::entry::Entry;
use crate::identity::LineageId;

pub(crate) use choose::{perhaps, remark_on_lineage, rivals};
pub(crate) use confirm::{Chain, is_from_etcd, require_itself};
pub use confirm::{Contradiction, Fault, Told};
pub use points::{Baseless, Hole, LineagePoints, Points};

/// What a restore reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePlan {
    /// The revision that it leads to. Nothing if only opening the full tells, as with K3s and OpenShift.
    pub target: Option<Revision>,
    /// What it begins with: everything in it up to the target.
    pub base: Entry,
    /// What carries that forward, in order, each with the revisions that are taken of it.
    pub deltas: Vec<Part>,
    /// Deltas that are not read, but claim revisions that the plan takes elsewhere. Their headers tell who was
    /// allowed to write those.
    pub rivals: Vec<Entry>,
    /// What a person should know about it.
    pub remarks: Vec<Remark>,
}

/// A delta, as far as it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The delta.
    pub entry: Entry,
    /// The revisions that are taken of it.
    pub take: RevisionRange,
}

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of which history, and those that it came from. Otherwise of the newest that has it.
    pub lineage: Option<LineageId>,
    /// Which state of it.
    pub target: Target,
}

/// Which state is asked for. Moments are looked up first: [`crate::point::TimeSearch`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Target {
    /// The newest that can be restored.
    #[default]
    Latest,
    /// The one that this revision made.
    Revision(Revision),
    /// What the object of this name holds, or ends with.
    Name(String),
}

/// What was learned beyond names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Objects that cannot be used: missing, damaged, or not what they seem.
    pub without: BTreeSet<Key>,
    /// Deltas that count only up to a revision: another writer reigned from there on.
    pub counts_until: BTreeMap<Key, Revision>,
    /// Where lineages came from, as their `lineage.json` says.
    pub parents: BTreeMap<LineageId, Parent>,
    /// What opened fulls turned out to be.
    pub fulls: BTreeMap<Key, FullFacts>,
    /// When the last changes of objects were seen, as their headers say. Copies of objects are younger than that.
    pub seen: BTreeMap<Key, Timestamp>,
}

/// The point that a lineage came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Of which lineage.
    pub lineage: LineageId,
    /// Its revision there.
    pub revision: Revision,
}

/// What an opened full is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullFacts {
    /// The last revision that is really in it.
    pub last: Revision,
    /// The revision up to which history was dropped from it, if it was.
    pub compact: Option<Revision>,
    /// It was put together by etcdbrctl's compaction, which takes the leases off keys.
    pub lost_leases: bool,
}

/// What a person should know about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Nothing leads past the target, though later objects are there.
    HoleBeyond(Hole),
    /// Nothing of this lineage can be restored, though it is newer and has something to begin with.
    NewerLost {
        /// That one.
        lineage: LineageId,
    },
    /// Later snapshots are there whose revisions only opening them tells, and none of them can be used.
    LaterLost,
    /// The newest lineage does not have it, so it is taken from an older one.
    OlderLineage {
        /// The newest.
        newest: LineageId,
        /// The last revision that the newest has in common with the one that is used, as far as is known.
        left_at: Option<Revision>,
    },
    /// A newer full is not used, because it is or may be a compacted one whose keys lost their leases.
    Avoided {
        /// That full.
        full: Key,
    },
    /// The base is or may be a compacted one whose keys lost their leases, and nothing else leads to the target.
    LessExact,
    /// No chain leads to the target, but a later full still has all history from the target on.
    LaterFull,
    /// Some of what it reads is not encrypted, though the archive is: anybody who may write to the store could have
    /// made it.
    InTheOpen {
        /// How many objects.
        objects: usize,
        /// Since when the archive is encrypted.
        since: Timestamp,
    },
    /// The store does not let us ask whether its objects are marked as not to be restored from.
    MarksUntold {
        /// Why not.
        why: String,
    },
}

/// There is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing there is a full that can be used.
    #[error("there is no full to begin with")]
    NoFull,
    /// Everything there begins later.
    #[error("revision {target} is before everything that can be restored{}", earliest_text(*first))]
    Before {
        /// What was asked for.
        target: Revision,
        /// The first revision that can be restored.
        first: Option<Revision>,
    },
    /// Everything there ends earlier.
    #[error("revision {target} is after the last that can be restored, {last}")]
    After {
        /// What was asked for.
        target: Revision,
        /// The last revision that can be restored.
        last: Revision,
    },
    /// Revisions are missing on the way.
    #[error("revision {target} cannot be restored: {hole}")]
    Hole {
        /// What was asked for.
        target: Revision,
        /// What is missing, and what can be restored on both sides of it.
        hole: Hole,
        /// A later full that may still have the target's history: its compact revision tells.
        perhaps: Option<Key>,
    },
    /// The revisions of these fulls have to be known first, from opening them.
    #[error("the revisions of {} snapshots are known only once they are opened", fulls.len())]
    Unopened {
        /// Those.
        fulls: Vec<Key>,
    },
    /// The lineage that was asked for is not there.
    #[error("there is no lineage {lineage}")]
    NoLineage {
        /// What was asked for.
        lineage: LineageId,
    },
    /// No object has the name that was asked for.
    #[error("there is no snapshot {name:?}")]
    NoName {
        /// What was asked for.
        name: String,
    },
    /// Several objects have the name that was asked for.
    #[error("several snapshots are called {name:?}: {}", listed(keys))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Those that have it.
        keys: Vec<Key>,
    },
}

impl RestorePlan {
    /// The objects that are read.
    pub fn objects(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.base).chain(self.deltas.iter().map(|part| &part.entry))
    }

    /// The objects whose headers [`Chain::confirm`] compares.
    pub fn to_confirm(&self) -> impl Iterator<Item = &Entry> {
        self.objects().chain(&self.rivals)
    }

    /// The bytes of all objects that are read.
    pub fn size_bytes(&self) -> u64 {
        self.objects().map(|entry| entry.size_bytes).fold(0, u64::saturating_add)
    }
}

impl Known {
    /// The last revision in a full: what it turned out to be, or else what its name says.
    pub fn last(&self, full: &Entry) -> Option<Revision> {
        self.fulls.get(&full.key).map(|facts| facts.last).or(full.to)
    }

    /// When the last change of an object happened, as far as is known.
    pub fn time(&self, entry: &Entry) -> Timestamp {
        self.seen.get(&entry.key).copied().unwrap_or_else(|| entry.time())
    }

    /// The changes of a delta that count.
    pub(crate) fn changes(&self, delta: &Entry) -> Option<RevisionRange> {
        let range = delta.changes()?;
        let until = self.counts_until.get(&delta.key).copied().unwrap_or(range.to);
        Some(RevisionRange { to: range.to.min(until), ..range }).filter(|range| range.from <= range.to)
    }

    pub(crate) fn is_usable(&self, entry: &Entry) -> bool {
        !self.without.contains(&entry.key)
    }

    fn compact(&self, full: &Entry) -> Option<Revision> {
        self.fulls.get(&full.key).map(|facts| facts.compact.unwrap_or(Revision(0)))
    }
}

impl Remark {
    /// Whether the archive has later changes that nothing leads to.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::HoleBeyond(_) | Self::NewerLost { .. } | Self::LaterLost)
    }
}

impl PlanError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Ambiguous { .. } | Self::Unopened { .. } => Kind::Usage,
            _ => Kind::Missing,
        }
    }
}

fn earliest_text(first: Option<Revision>) -> String {
    first.map(|first| format!(", which begins at {first}")).unwrap_or_default()
}

fn listed(keys: &[Key]) -> String {
    keys.iter().map(Key::as_str).collect::<Vec<_>>().join(", ")
}
