//! The `members`, `members_removed`, `cluster` and `alarm` buckets, and raft's voters: who is in the cluster.

use prost::Message;
use serde::{Deserialize, Serialize};

use super::{TableFault, Tables};
use crate::member_id::MemberId;

/// A member, as it stands in the `members` bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id; a decimal number in the JSON, too large for many readers of JSON.
    pub id: u64,
    /// Where other members reach it.
    #[serde(rename = "peerURLs")]
    pub peer_urls: Vec<String>,
    /// Whether it has no vote yet.
    #[serde(rename = "isLearner", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_learner: bool,
    /// Its name; empty until it has started once.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where clients reach it; empty until it has started once.
    #[serde(rename = "clientURLs", default, skip_serializing_if = "Vec::is_empty")]
    pub client_urls: Vec<String>,
}

/// A downgrade that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downgrade {
    /// The version to go to.
    #[serde(rename = "target-version", default)]
    pub target_version: String,
    /// Whether it is under way.
    #[serde(default)]
    pub enabled: bool,
}

/// An alarm that a member raised; while it stands, etcd serves little.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Alarm {
    /// Who raised it.
    #[prost(uint64, tag = "1")]
    pub member: u64,
    /// Why.
    #[prost(enumeration = "AlarmKind", tag = "2")]
    pub kind: i32,
}

/// Why an alarm was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmKind {
    /// No alarm.
    None = 0,
    /// The database has reached its quota: only deletions are served.
    NoSpace = 1,
    /// Members differ: nothing useful is served.
    Corrupt = 2,
}

impl Member {
    /// The member as etcd writes it: Go's JSON has no bare `<`, `>` and `&`, and these bytes are hashed and compared.
    pub fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).unwrap_or_default();
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").into_bytes()
    }
}

const MEMBERS: &str = "members";
const REMOVED: &str = "members_removed";
const CLUSTER: &str = "cluster";
const ALARM: &str = "alarm";

impl Tables {
    /// All members. Authoritative from 3.6 on; before, the raft snapshot is.
    pub fn members(&self) -> impl Iterator<Item = Result<Member, TableFault>> {
        self.entries(MEMBERS, "a member under its id", |key, value| {
            let member: Member = serde_json::from_slice(value).ok()?;
            (MemberId::parse(key)? == MemberId(member.id)).then_some(member)
        })
    }

    /// The member of that id, if there is one.
    pub fn member(&self, id: MemberId) -> Result<Option<Member>, TableFault> {
        self.named(MEMBERS, id.to_string().as_bytes(), "a member", |value| serde_json::from_slice(value).ok())
    }

    /// The members that were removed.
    pub fn removed_members(&self) -> impl Iterator<Item = Result<MemberId, TableFault>> {
        self.entries(REMOVED, "a removed member's id", |key, _| MemberId::parse(key))
    }

    /// Puts a member, in place of one with its id.
    pub fn put_member(&mut self, member: &Member) {
        self.put(MEMBERS, MemberId(member.id).to_string(), member.to_json());
    }

    /// Removes a member for good: its id is never to come back.
    pub fn remove_member(&mut self, id: MemberId) {
        self.bucket_mut(MEMBERS).remove(id.to_string().as_bytes());
        self.put(REMOVED, id.to_string(), "removed");
    }

    /// Forgets all members, those removed too.
    pub fn clear_members(&mut self) {
        self.bucket_mut(MEMBERS).clear();
        self.bucket_mut(REMOVED).clear();
    }

    /// The version that all members have, as text.
    pub fn cluster_version(&self) -> Result<Option<String>, TableFault> {
        self.single(CLUSTER, "clusterVersion", "a version", text)
    }

    /// Sets the version that all members have, or forgets it.
    pub fn set_cluster_version(&mut self, version: Option<&str>) {
        match version {
            Some(version) => self.put(CLUSTER, "clusterVersion", version),
            None => drop(self.bucket_mut(CLUSTER).remove(&b"clusterVersion"[..])),
        }
    }

    /// The downgrade that was asked for, if any.
    pub fn downgrade(&self) -> Result<Option<Downgrade>, TableFault> {
        self.single(CLUSTER, "downgrade", "a downgrade in JSON", |value| serde_json::from_slice(value).ok())
    }

    /// Sets the downgrade that was asked for, or forgets it.
    pub fn set_downgrade(&mut self, downgrade: Option<&Downgrade>) {
        match downgrade {
            Some(downgrade) => self.put(CLUSTER, "downgrade", serde_json::to_vec(downgrade).unwrap_or_default()),
            None => drop(self.bucket_mut(CLUSTER).remove(&b"downgrade"[..])),
        }
    }

    /// All alarms that stand.
    pub fn alarms(&self) -> impl Iterator<Item = Result<Alarm, TableFault>> {
        self.entries(ALARM, "an alarm", |key, _| Alarm::decode(key).ok())
    }

    /// Raises an alarm.
    pub fn put_alarm(&mut self, alarm: Alarm) {
        self.put(ALARM, alarm.encode_to_vec(), []);
    }

    /// Takes an alarm back.
    pub fn remove_alarm(&mut self, alarm: Alarm) {
        self.bucket_mut(ALARM).remove(&alarm.encode_to_vec());
    }
}

pub(super) fn text(value: &[u8]) -> Option<String> {
    String::from_utf8(value.to_vec()).ok()
}
