//! How far objects and points have been shown to be right.
//!
//! Whoever checks something writes down what was shown in one go, in an object of its own that never changes:
//! `<lineage>/proof/<time>-<salt>.json`. What is proven of an object is the best that any of them says of just
//! these bytes: a proof names the digest of what it was about, and of anything else it says nothing.
//!
//! ```text
//! {
//!   "format": 1,
//!   "cluster": { "name": "prod", "id": "<32 hexadecimal digits>" },
//!   "lineage": "20261121T093000Z-1a2b3c4d",
//!   "program": "refloat 0.1.0",
//!   "items": [
//!     {
//!       "object": "20261121T093000Z-1a2b3c4d/delta/0/…-….delta",
//!       "digest": "<64 hexadecimal digits>",
//!       "time": "2026-11-21T09:31:00Z",
//!       "evidence": { "level": "sound", "records": 1000 }
//!     }
//!   ],
//!   "digest": "<64 hexadecimal digits>"    of all before it; it is the last field
//! }
//! ```
//!
//! | level      | shown                                                    | evidence                                |
//! |------------|----------------------------------------------------------|-----------------------------------------|
//! | `sealed`   | read back from the store, its digest is the one          | `bytes`                                 |
//! | `sound`    | all records and references were checked, with no finding | `records`                               |
//! | `anchored` | a database rebuilt from it hashed as a live member had   | `revision`, `compact`, `hash`, `member` |
//! | `drilled`  | an etcd started from that and agreed                     | `revision`, `version`, `took_ms`, `steps` |
//!
//! The last two are about all objects that were needed up to their revision, and count for points up to it.
//! Where something is found wrong with an object of which something was proven, that is written down likewise, in
//! `refuted`: with `object`, `digest`, `time`, and the `finding` in words. What was shown before then counts no more; and
//! what was shown of points since then counts only once all of the object was read again.
//!
//! A proof keeps mistakes and decay from going unnoticed. It is no defence against somebody who may write to the store.

pub mod proven;
pub(crate) mod superseded;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use etcd_data::{Kind, Revision};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::digested;
use crate::header::{Link, PROGRAM};
use crate::identity::{Cluster, LineageId, NotAnIdentity};

/// The version of the format that is written.
pub const FORMAT: u32 = 1;

/// A larger object is refused.
pub const MAX_PROOF_BYTES: usize = 8 << 20;

/// More than this is written to several objects.
pub const MAX_ITEMS: usize = 10_000;

/// How far something has been shown to be right. Each includes those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It is in the store as it was written.
    Sealed,
    /// Everything in it was checked.
    Sound,
    /// It gives what the live cluster had.
    Anchored,
    /// A real etcd started from it.
    Drilled,
}

/// What was shown in one go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The version of the format.
    pub format: u32,
    /// Whose objects they are.
    pub cluster: Cluster,
    /// Of which history.
    pub lineage: LineageId,
    /// The program that checked.
    pub program: String,
    /// What it found, object by object.
    pub items: Vec<Item>,
    /// What it found wrong, of which something had been proven.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refuted: Vec<Refutation>,
}

/// What was proven of an object until then is no longer so: bytes decay, and what is at their end may not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refutation {
    /// Its name, below the folder of its cluster.
    pub object: String,
    /// The digest that it is proven by.
    pub digest: ObjectDigest,
    /// When it was found.
    pub time: Timestamp,
    /// What is wrong, for people.
    pub finding: String,
}

/// What was shown of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its name, below the folder of its cluster.
    pub object: String,
    /// Which bytes it had.
    pub digest: ObjectDigest,
    /// When it was shown.
    pub time: Timestamp,
    /// What was shown.
    pub evidence: Evidence,
}

/// What was shown, with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "level", rename_all = "snake_case")]
pub enum Evidence {
    /// [`Level::Sealed`].
    Sealed {
        /// How many bytes were read back.
        bytes: u64,
    },
    /// [`Level::Sound`].
    Sound {
        /// How many records were checked.
        records: u64,
    },
    /// [`Level::Anchored`].
    Anchored {
        /// The revision up to which it was rebuilt.
        revision: Revision,
        /// The compact revision of the hash, if there was a compaction.
        compact: Option<Revision>,
        /// The hash.
        hash: u32,
        /// Which member had it.
        member: String,
    },
    /// [`Level::Drilled`].
    Drilled {
        /// The revision up to which it was rebuilt.
        revision: Revision,
        /// The version of the etcd that started.
        version: String,
        /// How long it took from the beginning until that etcd answered, in milliseconds.
        took_ms: u64,
        /// What took how long. Nothing where it was not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steps: Option<DrillSteps>,
    },
}

/// What took how long in a drill, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrillSteps {
    /// Fetching the objects, and building and proving a data directory of them.
    pub build_ms: u64,
    /// From the start of etcd until it was ready.
    pub start_ms: u64,
    /// Until it had answered what it was asked.
    pub answer_ms: u64,
}

/// The SHA-256 of an object's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectDigest(pub [u8; 32]);

/// An object that a point needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need<'n> {
    /// Its name, below the folder of its cluster.
    pub object: &'n str,
    /// Which bytes it has now.
    pub digest: ObjectDigest,
    /// The last revision that the point takes from it.
    pub up_to: Revision,
}

/// What is proven of a point: the least of what is proven of anything that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointProof<'p> {
    /// How far.
    pub level: Level,
    /// What was shown of the object that it depends on: of those with this level, the one shown longest ago.
    pub weakest: &'p Item,
}

/// What all proofs together say.
#[derive(Debug, Clone, Default)]
pub struct Proven(BTreeMap<String, BTreeMap<ObjectDigest, Shown>>);

/// What was shown of the bytes of one object.
#[derive(Debug, Clone, Default)]
struct Shown {
    items: Vec<Item>,
    /// When something was last found wrong: what was shown before counts no more.
    refuted: Option<Timestamp>,
}

/// An object with proofs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// It makes no sense.
    #[error("the proof is damaged: {what}")]
    Malformed {
        /// How.
        what: String,
    },
    /// It is of a newer format.
    #[error("the proof is of format {found}, and this version reads up to {known}")]
    Newer {
        /// Its format.
        found: u32,
        /// What is known here.
        known: u32,
    },
    /// It is about another cluster's objects, or another lineage's.
    #[error("the proof is about {theirs}")]
    Misplaced {
        /// Whose.
        theirs: String,
    },
}

impl Proof {
    /// What was shown, as the objects that are to be written: one, or several if it is much.
    pub fn of(cluster: &Cluster, lineage: &LineageId, items: &[Item]) -> Vec<Self> {
        let proof = |items: &[Item]| Self {
            format: FORMAT,
            cluster: cluster.clone(),
            lineage: lineage.clone(),
            program: PROGRAM.into(),
            items: items.to_vec(),
            refuted: Vec::new(),
        };
        items.chunks(MAX_ITEMS).map(proof).collect()
    }

    /// What was found wrong, likewise.
    pub fn against(cluster: &Cluster, lineage: &LineageId, refuted: &[Refutation]) -> Vec<Self> {
        let proof = |refuted: &[Refutation]| Self {
            format: FORMAT,
            cluster: cluster.clone(),
            lineage: lineage.clone(),
            program: PROGRAM.into(),
            items: Vec::new(),
            refuted: refuted.to_vec(),
        };
        refuted.chunks(MAX_ITEMS).map(proof).collect()
    }

    /// The proof that `bytes` are, from the place of `lineage` in the archive of `cluster`.
    pub fn parse(cluster: &Cluster, lineage: &LineageId, bytes: &[u8]) -> Result<Self, ProofError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let malformed = |what: String| ProofError::Malformed { what };
        if bytes.len() > MAX_PROOF_BYTES {
            return Err(malformed(format!("it is larger than {MAX_PROOF_BYTES} bytes")));
        }
        let version: Version = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        if version.format > FORMAT {
            return Err(ProofError::Newer { found: version.format, known: FORMAT });
        }
        digested::check(bytes).map_err(malformed)?;
        let proof: Self = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        let items = proof.items.len() + proof.refuted.len();
        if items > MAX_ITEMS {
            return Err(malformed(format!("it has {items} items")));
        }
        if (&proof.cluster.id, &proof.lineage) != (&cluster.id, lineage) {
            let theirs = format!("{} ({}), lineage {}", proof.cluster.name, proof.cluster.id, proof.lineage);
            return Err(ProofError::Misplaced { theirs });
        }
        Ok(proof)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        digested::ended(serde_json::to_vec(self).expect("a proof is plain JSON"))
    }
}

impl Evidence {
    /// How far that goes.
    pub fn level(&self) -> Level {
        match self {
            Self::Sealed { .. } => Level::Sealed,
            Self::Sound { .. } => Level::Sound,
            Self::Anchored { .. } => Level::Anchored,
            Self::Drilled { .. } => Level::Drilled,
        }
    }

    /// The last revision that it is about. Nothing if it is about all of the object.
    pub(crate) fn reach(&self) -> Option<Revision> {
        match self {
            Self::Sealed { .. } | Self::Sound { .. } => None,
            Self::Anchored { revision, .. } | Self::Drilled { revision, .. } => Some(*revision),
        }
    }
}

impl Proven {
    /// What these say together, in whatever order.
    pub fn of(proofs: impl IntoIterator<Item = Proof>) -> Self {
        let mut proven = Self::default();
        proofs.into_iter().for_each(|proof| proven.hear(proof));
        proven
    }

    /// Adds what a proof says.
    pub fn hear(&mut self, proof: Proof) {
        proof.items.into_iter().for_each(|item| self.add(item));
        proof.refuted.into_iter().for_each(|refutation| self.refute(refutation));
    }

    /// Adds what was found wrong with one object.
    pub fn refute(&mut self, refutation: Refutation) {
        let shown = self.0.entry(refutation.object).or_default().entry(refutation.digest).or_default();
        shown.refuted = shown.refuted.max(Some(refutation.time));
    }

    /// Adds what was shown of one object.
    pub fn add(&mut self, item: Item) {
        let shown = self.0.entry(item.object.clone()).or_default().entry(item.digest).or_default();
        let items = &mut shown.items;
        // One that reaches further may have been refuted since, so it does not outdo one that was shown later.
        let outdoes = |one: &Item, other: &Item| {
            one.evidence.level() == other.evidence.level()
                && one.evidence.reach() >= other.evidence.reach()
                && one.time >= other.time
        };
        if !items.iter().any(|known| outdoes(known, &item)) {
            items.retain(|known| !outdoes(&item, known));
            items.push(item);
        }
    }

    /// Whether anything was shown of an object of this name, whatever bytes it had.
    pub fn names(&self, object: &str) -> bool {
        self.0.contains_key(object)
    }

    /// The digest of all bytes that proofs know an object of this name by, if that is only one.
    pub(crate) fn only_digest(&self, object: &str) -> Option<ObjectDigest> {
        let mut digests = self.0.get(object)?.keys();
        let only = digests.next()?;
        digests.next().is_none().then_some(*only)
    }

    /// The best that was shown of an object, as far as a point that takes it up to [`Need::up_to`] goes.
    pub fn object(&self, need: &Need<'_>) -> Option<&Item> {
        let Shown { items, refuted } = self.0.get(need.object)?.get(&need.digest)?;
        // What was shown of a point says nothing of the rest of an object, where something may be wrong still.
        let is_whole = |item: &Item| item.evidence.reach().is_none() && Some(item.time) >= *refuted;
        if refuted.is_some() && !items.iter().any(is_whole) {
            return None;
        }
        let reaches = |item: &&Item| item.evidence.reach().is_none_or(|reach| reach >= need.up_to);
        let stands = |item: &&Item| Some(item.time) >= *refuted;
        items
            .iter()
            .filter(reaches)
            .filter(stands)
            .max_by_key(|item| (item.evidence.level(), item.evidence.reach(), item.time))
    }

    /// When all of an object was last read and was right. Nothing if what was found wrong with it came later.
    pub fn last_read(&self, object: &str, digest: ObjectDigest) -> Option<Timestamp> {
        let Shown { items, refuted } = self.0.get(object)?.get(&digest)?;
        let whole = items.iter().filter(|item| item.evidence.reach().is_none());
        whole.map(|item| item.time).max().filter(|time| Some(*time) >= *refuted)
    }

    /// When something that is found wrong with these bytes of an object at `now` counts as found: after all that was shown of
    /// them, also by a clock that was ahead. Or else that would count again when its time has come.
    pub fn found_at(&self, object: &str, digest: ObjectDigest, now: Timestamp) -> Timestamp {
        let shown = self.0.get(object).and_then(|bytes| bytes.get(&digest));
        let last = shown.into_iter().flat_map(|shown| &shown.items).map(|item| item.time).max();
        let after = last.filter(|last| *last > now).map(|last| last.checked_add(SignedDuration::from_nanos(1)));
        after.map_or(now, |after| after.unwrap_or(Timestamp::MAX))
    }

    /// What is proven of a point that needs these. Nothing if something that it needs is not proven at all.
    pub fn point(&self, needs: &[Need<'_>]) -> Option<PointProof<'_>> {
        let items: Option<Vec<&Item>> = needs.iter().map(|need| self.object(need)).collect();
        let weakest = items?.into_iter().min_by_key(|item| (item.evidence.level(), item.time))?;
        Some(PointProof { level: weakest.evidence.level(), weakest })
    }
}

impl ProofError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Malformed { .. } | Self::Misplaced { .. } => Kind::Corrupt,
            Self::Newer { .. } => Kind::Unsupported,
        }
    }
}

impl TryFrom<String> for ObjectDigest {
    type Error = NotAnIdentity;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Link::try_from(text).map(|link| Self(link.0))
    }
}

impl From<ObjectDigest> for String {
    fn from(digest: ObjectDigest) -> Self {
        Link(digest.0).into()
    }
}
