//! What was in a database at a point: keys, values, changes, differences.

use serde::{Deserialize, Serialize};

/// The state that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its lineage; null where the layout knows none.
    pub lineage: Option<String>,
    /// Its revision.
    pub revision: i64,
    /// The revision that etcd had compacted by then; -1 for none.
    pub compact_revision: i64,
    /// What a person should know about it: what was set aside, holes, other lineages.
    pub notes: Vec<String>,
}

/// Bytes, readable if they are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// They as text; null if they are not all UTF-8 that can be printed.
    pub text: Option<String>,
    /// They in base64, without what was cut off; null if there is text.
    pub base64: Option<String>,
    /// How many there are.
    pub size_bytes: u64,
    /// Whether only the beginning is here.
    pub cut: bool,
}

/// A page of the keys that there were, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Where they were.
    pub place: Place,
    /// How many keys begin as was asked.
    pub count: u64,
    /// Those of this page.
    pub keys: Vec<Listed>,
    /// What to ask for to get the next page, as `after`; null if this is the last.
    pub next: Option<String>,
}

/// A key, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The key; what is not UTF-8 in it is replaced.
    pub key: String,
    /// The key, exactly, in base64.
    pub key_base64: String,
    /// The revision that created it.
    pub create_revision: i64,
    /// The revision that changed it last.
    pub mod_revision: i64,
    /// How often it was put since it was created.
    pub version: i64,
    /// The size of its value.
    pub size_bytes: u64,
    /// The lease that it is attached to, in hexadecimal; null for none.
    pub lease: Option<String>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Where it was.
    pub place: Place,
    /// The key, without its value.
    pub key: Listed,
    /// The value.
    pub value: Bytes,
}

/// The changes of a key that the data still hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Up to where they were looked for.
    pub place: Place,
    /// The key; what is not UTF-8 in it is replaced.
    pub key: String,
    /// The key, exactly, in base64.
    pub key_base64: String,
    /// How many changes there are.
    pub count: u64,
    /// The newest of them up to a limit, the newest first.
    pub changes: Vec<Change>,
}

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The revision that made it.
    pub revision: i64,
    /// Its place in the transaction that made it, from 0.
    pub sub_revision: i64,
    /// Whether it deleted the key; what follows is 0 or null then.
    pub deleted: bool,
    /// The revision that created the key.
    pub create_revision: i64,
    /// How often the key was put since it was created.
    pub version: i64,
    /// The size of the value.
    pub size_bytes: u64,
    /// The lease that the key was attached to, in hexadecimal; null for none.
    pub lease: Option<String>,
}

/// The keys that differ between two points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// The first.
    pub from: Place,
    /// The second.
    pub to: Place,
    /// How many keys are only at the second.
    pub created: u64,
    /// How many are at both, and not the same.
    pub changed: u64,
    /// How many are only at the first.
    pub deleted: u64,
    /// The first of them, in order of the keys, up to a limit.
    pub keys: Vec<Differing>,
}

/// A key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differing {
    /// The key; what is not UTF-8 in it is replaced.
    pub key: String,
    /// The key, exactly, in base64.
    pub key_base64: String,
    /// What became of it.
    pub change: Became,
    /// The revision that had changed it last at the first point; null if it was not there.
    pub mod_revision_before: Option<i64>,
    /// The revision that had changed it last at the second point; null if it was not there.
    pub mod_revision_after: Option<i64>,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It is only at the second point.
    Created,
    /// It is at both, and not the same.
    Changed,
    /// It is only at the first point.
    Deleted,
}
