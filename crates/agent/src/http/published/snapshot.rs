//! A full or a delta as the published protocol tells of it, misspelt name and all.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// What stands for no time.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A full or a delta.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// When it was published.
    pub created_on: Timestamp,
    /// Until when the store keeps it whatever anybody wants.
    #[serde(rename = "immutabilityExpriyTime", serialize_with = "or_never")]
    pub immutable_until: Option<Timestamp>,
    /// The version that the store gave it.
    #[serde(rename = "versionID")]
    pub version_id: Option<String>,
    /// What it is.
    pub kind: SnapshotKind,
    /// The folder that it is in; empty in layouts of today.
    pub snap_dir: String,
    /// The name of the object.
    pub snap_name: String,
    /// What comes before the name.
    pub prefix: String,
    /// How it is compressed, as the end of a name.
    pub compression_suffix: String,
    /// The first revision that it has; 0 of a full.
    pub start_revision: i64,
    /// The last one.
    pub last_revision: i64,
    /// Whether it is a part of one.
    pub is_chunk: bool,
    /// Whether nothing comes after it.
    pub is_final: bool,
}

/// What a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SnapshotKind {
    /// A full.
    Full,
    /// A delta.
    Incr,
}

/// The newest full and the deltas behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latest {
    /// The full.
    pub full_snapshot: Option<Snapshot>,
    /// The deltas.
    pub delta_snapshots: Vec<Snapshot>,
}

fn or_never<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_str(NEVER),
    }
}
