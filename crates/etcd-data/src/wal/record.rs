//! One record of the log, and the frame around it.
//!
//! | offset | size | field                                                                       |
//! |--------|------|-----------------------------------------------------------------------------|
//! | 0      | 7    | n, the length of the record, little-endian                                  |
//! | 7      | 1    | 0, or 0x80 + pad where the record does not end on a multiple of 8           |
//! | 8      | n    | the record: protobuf, 1: kind, 2: checksum, 3: data                         |
//! | 8 + n  | pad  | zeros                                                                       |
//!
//! So every length lies on a multiple of 8 and cannot itself be torn. A length of 0 is the end: what was allocated
//! ahead is zeros. The checksum of a record is that of the data of all records of the log so far, CRC-32C. The data:
//!
//! | kind | data                                        |
//! |------|---------------------------------------------|
//! | 1    | [`Metadata`]                                |
//! | 2    | [`crate::raft::Entry`]                      |
//! | 3    | [`crate::raft::HardState`]                  |
//! | 4    | none: the checksum up to here begins a file |
//! | 5    | [`SnapshotMark`]                            |

use prost::bytes::Bytes;

use crate::raft::ConfState;

/// The size of a frame's head.
pub const FRAME_HEAD: u64 = 8;

/// The head of a frame, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead(pub u64);

impl FrameHead {
    /// The head of a frame around a record of `len` bytes.
    pub fn around(len: u64) -> FrameHead {
        match len.next_multiple_of(8) - len {
            0 => FrameHead(len),
            pad => FrameHead(len | (0x80 | pad) << 56),
        }
    }

    /// The length of the record.
    pub fn record_len(self) -> u64 {
        self.0 & 0x00ff_ffff_ffff_ffff
    }

    /// How many zeros follow the record.
    pub fn pad_len(self) -> u64 {
        if self.0 >> 63 == 1 { self.0 >> 56 & 7 } else { 0 }
    }

    /// Whether etcd writes such heads.
    pub fn is_canonical(self) -> bool {
        self == FrameHead::around(self.record_len())
    }
}

/// One record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Record {
    /// A [`RecordKind`], kept as the number that was found.
    #[prost(int64, required, tag = "1")]
    pub kind: i64,
    /// The running checksum after this record's data.
    #[prost(uint32, required, tag = "2")]
    pub crc: u32,
    /// What is recorded.
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Whose log it is.
    Metadata = 1,
    /// An entry.
    Entry = 2,
    /// A hard state.
    State = 3,
    /// Where the checksum stands as a segment begins.
    Crc = 4,
    /// That a snapshot was taken.
    Snapshot = 5,
}

impl RecordKind {
    /// The kind of a number, if it has one.
    pub fn from_number(number: i64) -> Option<RecordKind> {
        match number {
            1 => Some(RecordKind::Metadata),
            2 => Some(RecordKind::Entry),
            3 => Some(RecordKind::State),
            4 => Some(RecordKind::Crc),
            5 => Some(RecordKind::Snapshot),
            _ => None,
        }
    }
}

/// Whose log it is.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Metadata {
    /// The member.
    #[prost(uint64, required, tag = "1")]
    pub node_id: u64,
    /// Its cluster.
    #[prost(uint64, required, tag = "2")]
    pub cluster_id: u64,
}

/// That everything up to an entry is in a snapshot.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SnapshotMark {
    /// The last entry that it covers.
    #[prost(uint64, required, tag = "1")]
    pub index: u64,
    /// The term of that entry.
    #[prost(uint64, required, tag = "2")]
    pub term: u64,
    /// The members there. Written since 3.5.
    #[prost(message, optional, tag = "3")]
    pub conf_state: Option<ConfState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_padded_to_a_multiple_of_eight() {
        for (len, head) in [(8, 8), (4, 0x8400_0000_0000_0004), (9, 0x8700_0000_0000_0009), (31, 0x8100_0000_0000_001f)]
        {
            assert_eq!(FrameHead::around(len), FrameHead(head));
            assert_eq!((FrameHead(head).record_len() + FrameHead(head).pad_len()) % 8, 0);
            assert!(FrameHead(head).is_canonical());
        }
    }

    #[test]
    fn heads_that_nobody_writes_are_read_as_etcd_reads_them() {
        // Padding counts only where the top bit is set, and then only its low three bits.
        assert_eq!((FrameHead(0x0400_0000_0000_0004).record_len(), FrameHead(0x0400_0000_0000_0004).pad_len()), (4, 0));
        assert_eq!(FrameHead(0xfc00_0000_0000_0004).pad_len(), 4);
        assert!(!FrameHead(0xfc00_0000_0000_0004).is_canonical());
    }
}
