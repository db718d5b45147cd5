//! The log of a member that begins: its cluster as the first entries, all committed, and a snapshot mark behind them.
//!
//! This is what `etcdutl snapshot restore` writes, byte for byte as that of 3.6 does.

use std::fs::File;
use std::io;

use prost::Message;
use prost::bytes::Bytes;

use super::record::{FrameHead, Metadata, Record, RecordKind, SnapshotMark};
use crate::member_id::{ClusterId, MemberId};
use crate::raft::{ConfChange, ConfChangeKind, ConfState, Entry, EntryKind, HardState};
use crate::tables::Member;

/// What etcd allocates for a segment ahead of time, and where it begins the next one.
pub const SEGMENT_BYTES: u64 = 64_000_000;

/// The term of everything in a fresh log.
pub const FIRST_TERM: u64 = 1;

/// The records of the log of `node`, one of `members`, which are sorted by id. The file that they begin is called
/// [`super::SegmentName::FIRST`], and the last entry has as index the number of members.
pub fn fresh_log(node: MemberId, members: &[Member]) -> Vec<u8> {
    let ids: Vec<MemberId> = members.iter().map(|member| MemberId(member.id)).collect();
    let commit = members.len() as u64;
    let vote = members.first().map(|member| member.id).unwrap_or_default();
    let voters = members.iter().map(|member| member.id).collect();

    let mut log = Encoder::default();
    log.put(RecordKind::Crc, Vec::new());
    let metadata = Metadata { node_id: node.0, cluster_id: ClusterId::of(&ids).0 };
    log.put(RecordKind::Metadata, metadata.encode_to_vec());
    log.put(RecordKind::Snapshot, SnapshotMark::default().encode_to_vec());
    for (index, member) in (1..).zip(members) {
        log.put(RecordKind::Entry, add_member(index, member).encode_to_vec());
    }
    log.put(RecordKind::State, HardState { term: FIRST_TERM, vote, commit }.encode_to_vec());
    let conf_state = Some(ConfState::of_voters(voters));
    log.put(RecordKind::Snapshot, SnapshotMark { index: commit, term: FIRST_TERM, conf_state }.encode_to_vec());
    log.bytes
}

/// Allocates the space of a whole segment behind what is written, so that appending to it needs no metadata on disk.
/// File systems that cannot allocate ahead leave it as it is: etcd extends it.
pub fn allocate_segment(file: &File) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, SEGMENT_BYTES) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(SEGMENT_BYTES),
        result => result.map_err(io::Error::from),
    }
}

fn add_member(index: u64, member: &Member) -> Entry {
    let change = ConfChange {
        id: 0,
        kind: ConfChangeKind::AddNode as i32,
        node_id: member.id,
        context: Bytes::from(member.to_json()),
    };
    Entry { kind: EntryKind::ConfChange as i32, term: FIRST_TERM, index, data: Bytes::from(change.encode_to_vec()) }
}

/// Frames records under a running checksum.
#[derive(Default)]
struct Encoder {
    bytes: Vec<u8>,
    crc: u32,
}

impl Encoder {
    fn put(&mut self, kind: RecordKind, data: Vec<u8>) {
        self.crc = crc32c::crc32c_append(self.crc, &data);
        let record = Record { kind: kind as i64, crc: self.crc, data: Bytes::from(data) };
        let head = FrameHead::around(record.encoded_len() as u64);
        self.bytes.extend(head.0.to_le_bytes());
        self.bytes.extend(record.encode_to_vec());
        self.bytes.resize(self.bytes.len() + head.pad_len() as usize, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, port: u16) -> Member {
        let peer_urls = vec![format!("http://127.0.0.1:{port}")];
        let id = MemberId::of(&peer_urls, "token").0;
        Member { id, peer_urls, is_learner: false, name: name.into(), client_urls: Vec::new() }
    }

    #[test]
    fn a_fresh_log_reads_as_it_was_meant() {
        let mut members = vec![member("a", 2380), member("b", 2381), member("c", 2382)];
        members.sort_by_key(|member| member.id);
        let node = MemberId(members[1].id);
        let log = super::super::read_segment(fresh_log(node, &members)).unwrap();

        assert_eq!((&log.findings[..], log.tail), (&[][..], super::super::Tail::Clean));
        assert_eq!(log.metadata.unwrap().node_id, node.0);
        assert_eq!(log.hard_state, HardState { term: 1, vote: members[0].id, commit: 3 });
        assert_eq!((log.first_index(), log.last_index()), (Some(1), 3));
        let mut voters = ConfState::default();
        for (entry, member) in log.entries_after(0).zip(&members) {
            let change = ConfChange::decode(entry.unwrap().data).unwrap();
            assert_eq!(serde_json::from_slice::<Member>(&change.context).unwrap(), *member);
            voters.apply(&change);
        }
        assert_eq!(log.snapshots.last().unwrap().conf_state, Some(voters));
    }

    #[test]
    fn a_fresh_log_begins_with_the_bytes_that_etcdutl_writes() {
        let log = fresh_log(MemberId(1), &[member("a", 2380)]);
        assert_eq!(log[..16], [4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 0x10, 0, 0, 0, 0, 0]);
        assert_eq!(log.len() % 8, 0);
    }

    #[test]
    fn a_segment_is_allocated_whole_behind_its_records() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"records", 0).unwrap();
        allocate_segment(&file).unwrap();
        assert_eq!(file.metadata().unwrap().len(), SEGMENT_BYTES);
    }
}
