//! What an object tells at its end, of the cluster rather than of its keys.
//!
//! It is one object of JSON, packed as a column of a chunk is, and of at most 600 MiB when it is unpacked, which ten million
//! leases fit into. That is the limit of everything in it.
//!
//! | field             | is                                             | says                                                 |
//! |-------------------|------------------------------------------------|------------------------------------------------------|
//! | `moments`         | list of `[second, revision]`                   | the last revision of each second since 1970 that had one, in order |
//! | `compactions`     | list of `noticed_at`, `compact`                | from which revision of the object on the cluster was known to be compacted, and where |
//! | `leases`          | list of `[id, seconds]`                        | every lease at the end, and for how long it was granted |
//! | `auth_revision`   | number                                         | the revision of users and roles; null if it was not told |
//! | `members`         | list of `id`, `name`, `version`, `peer_urls`   | the members; the id is in hexadecimal, the version null if none was told |
//! | `cluster_version` | text                                           | as in `3.5.0`; null if it was not told               |
//! | `etcd_cluster`    | text                                           | what etcd calls the cluster, in hexadecimal; not there if it was not told |
//! | `anchors`         | list of `revision`, `compact_revision`, `hash`, `member`, `taken` | what live members answered to HashKV |
//!
//! Fields that are not known are passed over.

use etcd_data::hash::HashKv;
use etcd_data::{LeaseId, Revision, Tables};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is known at the end of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Closing {
    /// The last revision of each second that had one, in order: what a moment is looked up by.
    pub moments: Vec<Moment>,
    /// Where the cluster was compacted, from which revision of this object on, in order. The last holds on.
    pub compactions: Vec<Compaction>,
    /// Every lease there was when the object was closed, with the seconds it was granted for, by id.
    pub leases: Vec<(LeaseId, i64)>,
    /// The revision of users and roles. What those are is in the full before.
    pub auth_revision: Option<u64>,
    /// The members, as `name id` and their addresses, for people.
    pub members: Vec<MemberNote>,
    /// The version of the cluster, as `3.5.0`.
    pub cluster_version: Option<String>,
    /// What etcd calls the cluster, in hexadecimal: another one after a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_cluster: Option<String>,
    /// Hashes that a live member gave, for revisions in this object, or before it if it took its time.
    pub anchors: Vec<Anchor>,
}

/// The last revision of a second. There are many, so each is written as a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(i64, Revision)", into = "(i64, Revision)")]
pub struct Moment {
    /// The second, since 1970.
    pub second: i64,
    /// The revision.
    pub revision: Revision,
}

/// A compaction, as far as it was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The revision that was current when it was noticed.
    pub noticed_at: Revision,
    /// The compact revision since.
    pub compact: Revision,
}

/// What a live member answered to HashKV.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The revision.
    pub revision: Revision,
    /// The compact revision that it was computed with, if there had been a compaction.
    pub compact_revision: Option<Revision>,
    /// The hash.
    pub hash: u32,
    /// Which member said so.
    pub member: String,
    /// When.
    pub taken: Timestamp,
}

/// A member, for people to recognise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberNote {
    /// Its id in hexadecimal.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of its etcd, as `3.5.30`, if it was asked.
    pub version: Option<String>,
    /// Where its peers find it.
    pub peer_urls: Vec<String>,
}

impl Closing {
    /// What the small buckets tell of a cluster. What cannot be read in them is in the tables as it is.
    pub fn of_tables(tables: &Tables) -> Self {
        let leases = tables.leases().flatten().map(|lease| (LeaseId(lease.id), lease.ttl_seconds)).collect();
        let members = tables.members().flatten().map(|member| MemberNote {
            id: format!("{:x}", member.id),
            name: member.name,
            version: None,
            peer_urls: member.peer_urls,
        });
        Self {
            leases,
            members: members.collect(),
            auth_revision: tables.auth_revision().ok().flatten(),
            cluster_version: tables.cluster_version().ok().flatten(),
            ..Self::default()
        }
    }
}

impl Anchor {
    /// The answer itself.
    pub fn answer(&self) -> HashKv {
        HashKv { hash: self.hash, revision: self.revision, compact_revision: self.compact_revision }
    }
}

impl From<(i64, Revision)> for Moment {
    fn from((second, revision): (i64, Revision)) -> Self {
        Self { second, revision }
    }
}

impl From<Moment> for (i64, Revision) {
    fn from(moment: Moment) -> Self {
        (moment.second, moment.revision)
    }
}
