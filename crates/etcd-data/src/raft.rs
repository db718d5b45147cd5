//! The messages that raft keeps: log entries, its hard state, membership changes and snapshots.
//!
//! Tags and types are those of `raftpb/raft.proto`. Its fields are proto2 without nulls, which the servers up to
//! 3.6 write even when they are zero; `required` makes prost do the same and still accept what 3.7 leaves out.
//! What an entry carries is in [`crate::request`].

use prost::bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One entry of the raft log.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    /// An [`EntryKind`], kept as the number that was found.
    #[prost(enumeration = "EntryKind", required, tag = "1")]
    pub kind: i32,
    /// The term of the leader that proposed it.
    #[prost(uint64, required, tag = "2")]
    pub term: u64,
    /// Its place in the log; the first entry has 1.
    #[prost(uint64, required, tag = "3")]
    pub index: u64,
    /// A request or a [`ConfChange`]; empty in the entry with which a leader begins its term.
    #[prost(bytes = "bytes", tag = "4")]
    pub data: Bytes,
}

/// What the data of an [`Entry`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum EntryKind {
    /// A request to etcd.
    Normal = 0,
    /// A [`ConfChange`].
    ConfChange = 1,
    /// A change of several members at once, which no version of etcd proposes.
    ConfChangeV2 = 2,
}

/// What a member must not forget about elections, and how far the log is known to be committed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HardState {
    /// The newest term that this member has seen.
    #[prost(uint64, required, tag = "1")]
    pub term: u64,
    /// Whom it voted for in that term; 0 is nobody.
    #[prost(uint64, required, tag = "2")]
    pub vote: u64,
    /// The index up to which entries are committed, as far as was written down.
    #[prost(uint64, required, tag = "3")]
    pub commit: u64,
}

/// Who votes and who learns. The JSON form is the one in the `meta` bucket.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfState {
    /// Members with a vote.
    #[prost(uint64, repeated, packed = "false", tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<u64>,
    /// Members without one.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub learners: Vec<u64>,
    /// The voters before a joint change; empty outside one.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub voters_outgoing: Vec<u64>,
    /// Voters that become learners when a joint change ends.
    #[prost(uint64, repeated, packed = "false", tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub learners_next: Vec<u64>,
    /// Whether raft leaves a joint change by itself.
    #[prost(bool, required, tag = "5")]
    pub auto_leave: bool,
}

/// A change of one member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfChange {
    /// The number under which the proposer waits for it.
    #[prost(uint64, required, tag = "1")]
    pub id: u64,
    /// A [`ConfChangeKind`], kept as the number that was found.
    #[prost(enumeration = "ConfChangeKind", required, tag = "2")]
    pub kind: i32,
    /// The member that it is about; 0 makes it a change of nothing.
    #[prost(uint64, required, tag = "3")]
    pub node_id: u64,
    /// The member as JSON, where one is added or updated.
    #[prost(bytes = "bytes", tag = "4")]
    pub context: Bytes,
}

/// What a [`ConfChange`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ConfChangeKind {
    /// Adds a voter, or promotes a learner to one.
    AddNode = 0,
    /// Removes a member for good.
    RemoveNode = 1,
    /// Replaces the peer URLs of a member.
    UpdateNode = 2,
    /// Adds a learner.
    AddLearnerNode = 3,
}

/// The content of a `.snap` file: what etcd's version 2 store held at an index.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Snapshot {
    /// The version 2 store as JSON.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
    /// Where in the log it was taken.
    #[prost(message, required, tag = "2")]
    pub metadata: SnapshotMetadata,
}

/// Where in the log a [`Snapshot`] was taken, and who voted there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SnapshotMetadata {
    /// The members at that index.
    #[prost(message, required, tag = "1")]
    pub conf_state: ConfState,
    /// The last entry that it covers.
    #[prost(uint64, required, tag = "2")]
    pub index: u64,
    /// The term of that entry.
    #[prost(uint64, required, tag = "3")]
    pub term: u64,
}

impl ConfState {
    /// A state with nothing but these voters.
    pub fn of_voters(voters: Vec<u64>) -> ConfState {
        ConfState { voters, ..ConfState::default() }
    }

    /// Whether `member` alone decides what is committed.
    pub fn is_only_voter(&self, member: u64) -> bool {
        self.voters == [member] && self.voters_outgoing.is_empty()
    }

    /// Carries out `change` as raft does for a change of one member: a voter is no learner and the other way round,
    /// lists stay sorted, and a change of member 0 is one that etcd refused.
    pub fn apply(&mut self, change: &ConfChange) {
        let node = change.node_id;
        if node == 0 {
            return;
        }
        match ConfChangeKind::try_from(change.kind) {
            Ok(ConfChangeKind::AddNode) => {
                remove(&mut self.learners, node);
                insert(&mut self.voters, node);
            }
            Ok(ConfChangeKind::AddLearnerNode) => {
                remove(&mut self.voters, node);
                insert(&mut self.learners, node);
            }
            Ok(ConfChangeKind::RemoveNode) => {
                remove(&mut self.voters, node);
                remove(&mut self.learners, node);
            }
            Ok(ConfChangeKind::UpdateNode) | Err(_) => {}
        }
    }
}

fn insert(members: &mut Vec<u64>, member: u64) {
    if !members.contains(&member) {
        members.push(member);
        members.sort_unstable();
    }
}

fn remove(members: &mut Vec<u64>, member: u64) {
    members.retain(|other| *other != member);
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn zero_fields_are_written_as_the_servers_up_to_3_6_do() {
        let change = ConfChange { id: 0, kind: 0, node_id: 5, context: Bytes::new() };
        assert_eq!(change.encode_to_vec(), [0x08, 0, 0x10, 0, 0x18, 5]);
        assert_eq!(ConfState::of_voters(vec![7, 9]).encode_to_vec(), [0x08, 7, 0x08, 9, 0x28, 0]);
    }

    #[test]
    fn fields_that_3_7_leaves_out_are_zero() {
        assert_eq!(Entry::decode(&[0x10, 3, 0x18, 9][..]).unwrap().kind, EntryKind::Normal as i32);
    }

    #[test]
    fn the_json_of_a_conf_state_is_the_one_in_the_meta_bucket() {
        let state = ConfState::of_voters(vec![1, u64::MAX]);
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(json, r#"{"voters":[1,18446744073709551615],"auto_leave":false}"#);
        assert_eq!(serde_json::from_str::<ConfState>(&json).unwrap(), state);
    }

    #[test]
    fn a_learner_that_is_added_as_a_voter_stops_learning() {
        let mut state = ConfState::of_voters(vec![5]);
        let mut change =
            ConfChange { kind: ConfChangeKind::AddLearnerNode as i32, node_id: 3, ..ConfChange::default() };
        state.apply(&change);
        assert_eq!((state.voters.as_slice(), state.learners.as_slice()), (&[5][..], &[3][..]));
        assert!(state.is_only_voter(5));

        change.kind = ConfChangeKind::AddNode as i32;
        state.apply(&change);
        assert_eq!((state.voters.as_slice(), state.learners.as_slice()), (&[3, 5][..], &[][..]));

        change.kind = ConfChangeKind::RemoveNode as i32;
        state.apply(&change);
        assert!(state.is_only_voter(5));
    }
}
