//! What is told of a cluster and of a lineage, in small JSON objects beside their data.
//!
//! `cluster.json` is written once, when the archive is made, and only if it is not there; `lineage.json` likewise, when
//! a history begins. Whoever opens the archive compares what it expects with what stands there. Each of these objects has
//! at most 1 MiB; fields that are not known are passed over. `cluster.json` and `lineage.json` end with their own digest: one that
//! differs is found by `verify`, and a lineage whose digest differs is one of which nobody knows where it came from. What is
//! read of a cluster is compared with every object anyway, so there it keeps nobody from restoring.
//!
//! `cluster.json`, whose archive it is:
//!
//! ```text
//! {
//!   "format": 1,                           who finds a higher one reads no further
//!   "cluster": { "name": "prod", "id": "<32 hexadecimal digits>" },
//!   "made": "2026-11-21T09:30:00Z",
//!   "program": "refloat 0.1.0",
//!   "digest": "<64 hexadecimal digits>"
//! }
//! ```
//!
//! `lineage.json`, what a history began with:
//!
//! ```text
//! {
//!   "format": 1,
//!   "lineage": "20261121T093000Z-1a2b3c4d",
//!   "parent": {                            the point that it came from; null if that is not known
//!     "lineage": "20261101T000000Z-00000009",
//!     "revision": 90
//!   },
//!   "began": "2026-11-21T09:30:00Z",
//!   "why": "it was restored",              for people
//!   "program": "refloat 0.1.0",
//!   "digest": "<64 hexadecimal digits>"
//! }
//! ```
//!
//! And beside a full that is one of etcd's snapshot files, `<name of the full>.json`:
//!
//! ```text
//! {
//!   "header": { … },                       what its own header would say
//!   "sha256": "<64 hexadecimal digits>",   of the full as it lies there, wrapped or not
//!   "size_bytes": 65568                    likewise
//! }
//! ```

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::header::{Header, Link};
use crate::identity::{Cluster, LineageId};
use crate::plan::Parent;

/// `cluster.json`: whose archive it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNote {
    /// The version of the format.
    pub format: u32,
    /// Whose.
    pub cluster: Cluster,
    /// When it was made.
    pub made: Timestamp,
    /// The program that made it.
    pub program: String,
}

/// What lies beside a full of ours: what it says of itself, also where its own bytes cannot, because they are those of
/// etcd's snapshot files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullNote {
    /// What a header would say.
    pub header: Header,
    /// The SHA-256 of the object.
    pub sha256: Link,
    /// Its size.
    pub size_bytes: u64,
}

/// `lineage.json`: what a history began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineageNote {
    /// The version of the format.
    pub format: u32,
    /// Which history.
    pub lineage: LineageId,
    /// The point that it came from, if it is known.
    pub parent: Option<Parent>,
    /// When it began.
    pub began: Timestamp,
    /// Why, in a person's words.
    pub why: String,
    /// The program that began it.
    pub program: String,
}
