//! Raft snapshots: the `.snap` files beside the database.
//!
//! | field | wire   | meaning                                             |
//! |-------|--------|-----------------------------------------------------|
//! | 1     | varint | CRC-32C of field 2                                  |
//! | 2     | bytes  | [`crate::raft::Snapshot`]                           |
//!
//! Its data is etcd's version 2 store as JSON, a tree of nodes with a `Value` or `Children`. 3.4 and 3.5 take their
//! members from it, 3.4 to 3.6 their voters; 3.7 writes such files and never reads them. Of the tree matter
//! `/0/members/<id>/raftAttributes`, `/0/members/<id>/attributes`, `/0/removed_members/<id>` and `/0/version`.

mod store;

use std::fmt;
use std::io;

use prost::Message;
use prost::bytes::Bytes;

use crate::member_id::MemberId;
use crate::raft::{self, ConfState, SnapshotMetadata};
use crate::tables::Member;

pub(crate) use store::Attributes;

/// A raft snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snap {
    /// The term of the last entry that it covers.
    pub term: u64,
    /// The index of that entry.
    pub index: u64,
    /// Who votes there.
    pub conf_state: ConfState,
    /// Who is in the cluster there.
    pub membership: Membership,
}

/// Who is in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// The members, sorted by id.
    pub members: Vec<Member>,
    /// The members that were removed, sorted.
    pub removed: Vec<MemberId>,
    /// The version that all members have, as text.
    pub cluster_version: Option<String>,
}

/// Why a file is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapError {
    /// The file could not be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The bytes are not a snapshot, or one of nothing.
    #[error("not a raft snapshot")]
    NotASnapshot,
    /// The data do not match the checksum.
    #[error("the checksum is {recorded:08x}, the data have {computed:08x}")]
    Checksum {
        /// What is written.
        recorded: u32,
        /// What it should be.
        computed: u32,
    },
    /// The version 2 store is not JSON, or too deep.
    #[error("the store in the raft snapshot")]
    Store(#[source] serde_json::Error),
    /// A member in the store cannot be understood.
    #[error("the store in the raft snapshot: {path} is not a member")]
    Member {
        /// Where in the store.
        path: String,
    },
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Envelope {
    #[prost(uint32, required, tag = "1")]
    crc: u32,
    #[prost(bytes = "bytes", tag = "2")]
    data: Bytes,
}

impl Snap {
    /// Reads a `.snap` file.
    pub fn parse(bytes: Bytes) -> Result<Snap, SnapError> {
        let envelope = Envelope::decode(bytes).map_err(|_| SnapError::NotASnapshot)?;
        if envelope.data.is_empty() {
            return Err(SnapError::NotASnapshot);
        }
        let computed = crc32c::crc32c(&envelope.data);
        if envelope.crc != computed {
            return Err(SnapError::Checksum { recorded: envelope.crc, computed });
        }
        let snapshot = raft::Snapshot::decode(envelope.data).map_err(|_| SnapError::NotASnapshot)?;
        let SnapshotMetadata { conf_state, index, term } = snapshot.metadata;
        Ok(Snap { term, index, conf_state, membership: store::parse(&snapshot.data)? })
    }

    /// The bytes of the `.snap` file, which is called [`Snap::name`].
    pub fn encode(&self) -> Vec<u8> {
        let metadata = SnapshotMetadata { conf_state: self.conf_state.clone(), index: self.index, term: self.term };
        let snapshot = raft::Snapshot { data: Bytes::from(store::encode(&self.membership)), metadata };
        let data = Bytes::from(snapshot.encode_to_vec());
        Envelope { crc: crc32c::crc32c(&data), data }.encode_to_vec()
    }

    /// What its file is called.
    pub fn name(&self) -> SnapName {
        SnapName { term: self.term, index: self.index }
    }
}

/// What the file of a raft snapshot is called. The order is that of age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapName {
    /// The term of the last entry that it covers.
    pub term: u64,
    /// The index of that entry.
    pub index: u64,
}

impl SnapName {
    /// Reads a file's name; `None` if it is not a raft snapshot's.
    pub fn parse(name: &str) -> Option<SnapName> {
        let (term, index) = name.strip_suffix(".snap")?.split_once('-')?;
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
        Some(SnapName { term: number(term)?, index: number(index)? })
    }
}

impl fmt::Display for SnapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}.snap", self.term, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64) -> Member {
        Member {
            id,
            peer_urls: vec![format!("http://{id}:2380")],
            is_learner: id == 3,
            name: format!("m{id}"),
            client_urls: vec!["http://c:2379".into()],
        }
    }

    fn snap() -> Snap {
        let membership = Membership {
            members: vec![member(3), member(0xabcdef)],
            removed: vec![MemberId(7)],
            cluster_version: Some("3.5.0".into()),
        };
        Snap { term: 2, index: 255, conf_state: ConfState::of_voters(vec![0xabcdef]), membership }
    }

    #[test]
    fn a_snapshot_reads_as_it_was_written() {
        let snap = snap();
        assert_eq!(Snap::parse(Bytes::from(snap.encode())).unwrap(), snap);
        assert_eq!(snap.name().to_string(), "0000000000000002-00000000000000ff.snap");
        assert_eq!(SnapName::parse(&snap.name().to_string()), Some(snap.name()));
    }

    #[test]
    fn every_cut_and_every_flipped_byte_of_the_data_is_refused() {
        let bytes = snap().encode();
        for len in 0..bytes.len() {
            assert!(Snap::parse(Bytes::copy_from_slice(&bytes[..len])).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(Snap::parse(Bytes::from(bytes)).is_err(), "{at}");
        }
    }

    #[test]
    fn a_store_of_any_depth_ends_in_an_error() {
        let deep = format!("{{\"Root\":{}", "{\"Children\":{\"0\":".repeat(100_000));
        assert!(matches!(store::parse(deep.as_bytes()), Err(SnapError::Store(_))));
    }
}
