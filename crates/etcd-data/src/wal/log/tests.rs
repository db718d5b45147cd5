use prost::bytes::Bytes;

use super::super::fresh::fresh_log;
use super::super::record::{FRAME_HEAD, FrameHead};
use super::*;
use crate::member_id::MemberId;
use crate::tables::Member;

/// Frames records as etcd does, written apart from the code under test.
struct Writer {
    bytes: Vec<u8>,
    crc: u32,
}

impl Writer {
    fn after(crc: u32) -> Writer {
        let mut writer = Writer { bytes: Vec::new(), crc };
        writer.put(4, &[]);
        writer
    }

    fn put(&mut self, kind: u8, data: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, data);
        let mut record = vec![8, kind, 0x10];
        let mut crc = self.crc;
        while crc >= 0x80 {
            record.push(crc as u8 | 0x80);
            crc >>= 7;
        }
        record.push(crc as u8);
        if !data.is_empty() {
            assert!(data.len() < 128);
            record.extend([0x1a, data.len() as u8]);
            record.extend(data);
        }
        let pad = (8 - record.len() % 8) % 8;
        let mut head = (record.len() as u64).to_le_bytes();
        if pad > 0 {
            head[7] = 0x80 | pad as u8;
        }
        self.bytes.extend(head);
        self.bytes.extend(record);
        self.bytes.extend(vec![0; pad]);
    }

    fn metadata(&mut self) {
        self.put(1, &Metadata { node_id: 5, cluster_id: 6 }.encode_to_vec());
    }

    fn mark(&mut self, index: u64, term: u64) {
        self.put(5, &SnapshotMark { index, term, conf_state: None }.encode_to_vec());
    }

    fn entry(&mut self, index: u64, term: u64) {
        let data = Bytes::from(format!("entry {index} of term {term}"));
        self.put(2, &Entry { kind: 0, term, index, data }.encode_to_vec());
    }

    fn state(&mut self, term: u64, vote: u64, commit: u64) {
        self.put(3, &HardState { term, vote, commit }.encode_to_vec());
    }
}

/// A log of a member that was voted for, led, and was overruled at entry 4.
fn small() -> Writer {
    let mut writer = Writer::after(0);
    writer.metadata();
    writer.mark(0, 0);
    for index in 1..=5 {
        writer.entry(index, 1);
    }
    writer.state(1, 5, 3);
    writer.entry(4, 2);
    writer.state(2, 9, 4);
    writer
}

fn read(segments: &[(u64, u64, &[u8])]) -> Log<Vec<u8>> {
    let segments = segments.iter().map(|(sequence, index, bytes)| Segment {
        name: SegmentName { sequence: *sequence, index: *index },
        storage: bytes.to_vec(),
    });
    Log::read(Folder { segments: segments.collect(), others: Vec::new() }).unwrap()
}

fn one(bytes: &[u8]) -> Log<Vec<u8>> {
    read(&[(0, 0, bytes)])
}

fn entries(log: &Log<Vec<u8>>, after: u64) -> Vec<(u64, u64)> {
    log.entries_after(after).map(|entry| entry.map(|entry| (entry.index, entry.term)).unwrap()).collect()
}

fn faults(log: &Log<Vec<u8>>) -> Vec<Fault> {
    log.findings.iter().map(|finding| finding.fault).collect()
}

#[test]
fn a_later_entry_takes_the_place_of_an_earlier_one_and_of_all_behind_it() {
    let log = one(&small().bytes);
    assert_eq!((faults(&log), log.tail), (vec![], Tail::Clean));
    assert_eq!(entries(&log, 0), [(1, 1), (2, 1), (3, 1), (4, 2)]);
    assert_eq!(entries(&log, 3), [(4, 2)]);
    assert_eq!(log.hard_state, HardState { term: 2, vote: 9, commit: 4 });
    assert_eq!(log.metadata, Some(Metadata { node_id: 5, cluster_id: 6 }));
}

#[test]
fn segments_are_one_log_under_one_checksum() {
    let first = small();
    let mut second = Writer::after(first.crc);
    second.metadata();
    second.state(2, 9, 4);
    second.entry(5, 2);
    let log = read(&[(0, 0, &first.bytes), (1, 5, &second.bytes)]);
    assert_eq!(faults(&log), []);
    assert_eq!(entries(&log, 3), [(4, 2), (5, 2)]);

    // Without the last record of the first, the second does not follow on it.
    let shorter = &first.bytes[..first.bytes.len() - 24];
    let log = read(&[(0, 0, shorter), (1, 5, &second.bytes)]);
    assert!(matches!(faults(&log)[..], [Fault::ChecksumCarriedOver { .. }]), "{:?}", faults(&log));
    assert_eq!((entries(&log, 3), log.tail), (vec![(4, 2)], Tail::Damaged));
}

#[test]
fn a_later_segment_without_a_record_is_told() {
    let first = small();
    for second in [&[][..], &[0; 64], &first.bytes[..5]] {
        let log = read(&[(0, 0, &first.bytes), (1, 5, second)]);
        assert_eq!((faults(&log), log.tail), (vec![Fault::NoBeginning], Tail::Damaged), "{} bytes", second.len());
        assert_eq!(entries(&log, 3), [(4, 2)]);
    }
}

#[test]
fn a_log_whose_oldest_segments_were_removed_begins_where_it_begins() {
    let mut writer = Writer::after(0xabcd);
    writer.metadata();
    writer.state(7, 5, 900);
    writer.mark(890, 7);
    writer.entry(901, 7);
    let log = read(&[(3, 901, &writer.bytes)]);
    assert_eq!((faults(&log), log.first_index()), (vec![], Some(901)));
}

#[test]
fn a_snapshot_from_another_member_takes_the_log_forward() {
    let mut writer = small();
    writer.mark(90, 3);
    writer.state(3, 0, 90);
    writer.entry(91, 3);
    let log = one(&writer.bytes);
    assert_eq!((faults(&log), entries(&log, 0)), (vec![], vec![(91, 3)]));

    let mut writer = small();
    writer.entry(91, 3);
    assert_eq!(faults(&one(&writer.bytes)), [Fault::MissingEntries { after: 4, found: 91 }]);
}

#[test]
fn what_raft_never_does_is_found() {
    type Spoil = fn(&mut Writer);
    let cases: [(Spoil, Fault); 8] = [
        (|log| log.state(1, 9, 4), Fault::StateWentBack),
        (|log| log.state(2, 9, 3), Fault::StateWentBack),
        (|log| log.state(2, 5, 4), Fault::StateWentBack),
        (|log| log.entry(4, 3), Fault::CommittedOverwritten { index: 4 }),
        (|log| log.entry(5, 1), Fault::TermWentBack { index: 5 }),
        (|log| log.state(2, 9, 5), Fault::CommittedMissing { commit: 5, last: 4 }),
        (|log| log.put(1, &[8, 5, 16, 7]), Fault::MetadataConflict),
        (|log| log.put(7, &[]), Fault::UnknownKind(7)),
    ];
    for (spoil, fault) in cases {
        let mut writer = small();
        spoil(&mut writer);
        assert_eq!(faults(&one(&writer.bytes)), [fault]);
    }
    assert_eq!(faults(&one(&[])), [Fault::NoMetadata, Fault::NoSnapshotMark]);
}

#[test]
fn a_missing_segment_is_named() {
    let first = small();
    let mut third = Writer::after(first.crc);
    third.metadata();
    let log = read(&[(0, 0, &first.bytes), (2, 9, &third.bytes)]);
    assert_eq!(faults(&log), [Fault::MissingSegment { after: 0 }]);
}

#[test]
fn damage_does_not_hide_damage_behind_it() {
    let mut writer = small();
    let at = writer.bytes.len();
    writer.entry(5, 2);
    writer.entry(6, 2);
    writer.entry(7, 2);
    for record in 0..3 {
        writer.bytes[at + record * 48 + 30] ^= 1;
    }
    let log = one(&writer.bytes);
    assert_eq!(log.findings.len(), 3);
    assert_eq!((log.end.offset, log.last_index()), (at as u64, 4));
}

#[test]
fn bytes_behind_the_end_are_told_of() {
    let mut bytes = small().bytes;
    let end = bytes.len();
    bytes.resize(end + 4096, 0);
    assert_eq!(one(&bytes).tail, Tail::Clean);
    bytes[end + 900] = 1;
    let log = one(&bytes);
    assert_eq!((log.tail, log.end.offset), (Tail::Leftover { up_to: end as u64 + 901 }, end as u64));
}

/// Every bit of a log is covered by something: a checksum, or what raft never does.
#[test]
fn every_flipped_bit_is_noticed() {
    let member = |name: &str, url: &str| Member {
        id: MemberId::of(&[url], "token").0,
        peer_urls: vec![url.into()],
        is_learner: false,
        name: name.into(),
        client_urls: Vec::new(),
    };
    let mut members = vec![member("a", "http://a:1"), member("b", "http://b:1"), member("c", "http://c:1")];
    members.sort_by_key(|member| member.id);
    for mut bytes in [small().bytes, fresh_log(MemberId(members[0].id), &members)] {
        bytes.resize(bytes.len() + 64, 0);
        assert_eq!((one(&bytes).findings.len(), one(&bytes).tail), (0, Tail::Clean));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let log = one(&bytes);
            assert!(!log.findings.is_empty() || log.tail != Tail::Clean, "byte {} bit {}", bit / 8, bit % 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_cut_anywhere_leaves_the_records_before_it() {
    let bytes = small().bytes;
    let starts: Vec<u64> = {
        let mut starts = vec![0];
        while let Some(head) = bytes.get(starts[starts.len() - 1] as usize..).and_then(|rest| rest.first_chunk()) {
            let head = FrameHead(u64::from_le_bytes(*head));
            starts.push(starts[starts.len() - 1] + FRAME_HEAD + head.record_len() + head.pad_len());
        }
        starts
    };
    for len in 0..bytes.len() as u64 {
        let log = one(&bytes[..len as usize]);
        let whole = *starts.iter().rfind(|start| **start <= len).unwrap();
        assert_eq!(log.end.offset, whole, "{len}");
        assert_eq!(matches!(log.tail, Tail::Torn { .. }), whole != len, "{len}");
    }
}

#[test]
fn an_entry_that_changes_between_two_looks_is_noticed() {
    let mut log = one(&small().bytes);
    let storage = &mut Arc::get_mut(&mut log.places).unwrap().segments[0].storage;
    let last = storage.len() - 60;
    storage[last] ^= 1;
    assert!(matches!(log.entries_after(3).next(), Some(Err(WalError::Changed(_)))));
}
