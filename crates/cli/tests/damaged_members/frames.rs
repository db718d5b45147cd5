//! The frames of a segment of a log.

use std::ops::Range;

use etcd_data::raft::Entry;
use etcd_data::wal::record::{FrameHead, Record};
use prost::Message;

/// What the records of a log are called, by the number of their kind.
pub(crate) const KINDS: [&str; 6] = ["", "metadata", "entry", "hard state", "checksum", "snapshot mark"];
pub(crate) const ENTRY: i64 = 2;
pub(crate) const STATE: i64 = 3;
const CHECKSUM: i64 = 4;
const METADATA: i64 = 1;

/// A frame, and where it is.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) kind: i64,
    /// All of it: its head, the record, and the zeros behind that.
    pub(crate) place: Range<usize>,
    /// How many zeros are behind the record.
    pub(crate) padding: usize,
    pub(crate) data: Vec<u8>,
}

impl Frame {
    /// The index of the entry that it holds.
    pub(crate) fn index(&self) -> Option<u64> {
        (self.kind == ENTRY).then(|| Entry::decode(&self.data[..]).unwrap().index)
    }
}

/// The frames of a sound segment.
pub(crate) fn frames(segment: &[u8]) -> Vec<Frame> {
    let mut padded = segment.to_vec();
    // The zeros behind the last record are not kept.
    padded.resize(segment.len() + 16, 0);
    let (mut frames, mut start) = (Vec::new(), 0);
    loop {
        let head = FrameHead(u64::from_le_bytes(padded[start..start + 8].try_into().unwrap()));
        let (len, padding) = (head.record_len() as usize, head.pad_len() as usize);
        if head.0 == 0 {
            return frames;
        }
        let record = Record::decode(&padded[start + 8..start + 8 + len]).unwrap();
        let end = start + 8 + len + padding;
        frames.push(Frame { kind: record.kind, place: start..end, padding, data: record.data.to_vec() });
        start = end;
        if start + 8 > padded.len() {
            return frames;
        }
    }
}

/// `segment` as two, as if etcd had begun another one at the frame `at`: that begins with the checksum so far, with
/// whose log it is, and with the last hard state.
pub(crate) fn split(segment: &[u8], at: usize) -> (Vec<u8>, Vec<u8>) {
    let frames = frames(segment);
    let (before, after) = frames.split_at(at);
    let last = |kind| before.iter().rfind(|frame| frame.kind == kind).unwrap().data.clone();
    let crc = before.iter().fold(0, |crc, frame| crc32c(crc, &frame.data));

    let mut second = Framed { bytes: Vec::new(), crc };
    second.push(CHECKSUM, &[]);
    second.push(METADATA, &last(METADATA));
    second.push(STATE, &last(STATE));
    after.iter().for_each(|frame| second.push(frame.kind, &frame.data));
    (segment[..after[0].place.start].to_vec(), second.bytes)
}

/// Frames in the making.
struct Framed {
    bytes: Vec<u8>,
    crc: u32,
}

impl Framed {
    fn push(&mut self, kind: i64, data: &[u8]) {
        self.crc = crc32c(self.crc, data);
        let record = Record { kind, crc: self.crc, data: data.to_vec().into() }.encode_to_vec();
        self.bytes.extend(FrameHead::around(record.len() as u64).0.to_le_bytes());
        self.bytes.extend(record);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// CRC-32C of what has `crc` and then `data`, bit by bit.
fn crc32c(crc: u32, data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !data.iter().fold(!crc, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
