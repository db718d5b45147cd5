//! The records of one segment.
//!
//! A record that fails at the very end of a log is no damage but a write that a crash cut off, and etcd tells the
//! two apart: torn is what is longer than the file, or what fails to parse or to match its checksum and has a
//! 512-byte sector of nothing but zeros. The rule here is the same, so that a log ends where etcd would end it.

use std::io::{self, BufReader, Read};

use bolt_file::Storage;
use prost::Message;
use prost::bytes::Bytes;

use super::finding::Fault;
use super::record::{FRAME_HEAD, FrameHead, Record, RecordKind};
use super::segment::SegmentReader;

/// What a disk writes as a whole.
const SECTOR: u64 = 512;

/// Longer records are not believed, whatever the size of the file. etcd refuses requests far below this.
const MAX_RECORD: u64 = 1 << 30;

const BUFFER: usize = 256 << 10;

/// What comes next in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A record, in a frame at this offset.
    Record(u64, Found),
    /// The records end here.
    End(u64),
    /// The records end here, in the middle of one.
    Torn(u64),
    /// Something is wrong with the frame at this offset; there may be more behind it.
    Faulty(u64, Fault),
}

/// A record that matches its checksum.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: RecordKind,
    pub(super) data: Bytes,
    /// What is written as its checksum.
    pub(super) crc: u32,
    /// The checksum before it; unknown after damage.
    pub(super) crc_before: Option<u32>,
    /// What is odd about its frame, though the record is sound.
    pub(super) odd: Option<Fault>,
}

/// Reads the records of one segment.
pub(super) struct Decoder<'a, S> {
    bytes: BufReader<SegmentReader<'a, S>>,
    size: u64,
    /// Where the next frame begins; `None` when nothing more can be read.
    offset: Option<u64>,
    crc: Option<u32>,
    is_last: bool,
}

/// Which segment is read, as far as a decoder cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Others follow.
    Inner,
    /// None follows, so a crash may have torn it.
    Last,
}

impl<'a, S: Storage> Decoder<'a, S> {
    /// Begins to read a segment after one that ends with checksum `crc`.
    pub(super) fn new(storage: &'a S, position: Position, crc: Option<u32>) -> io::Result<Decoder<'a, S>> {
        let size = storage.size()?;
        let bytes = BufReader::with_capacity(BUFFER, SegmentReader::new(storage, size, 0));
        Ok(Decoder { bytes, size, offset: Some(0), crc, is_last: position == Position::Last })
    }

    /// The checksum up to here.
    pub(super) fn crc(&self) -> Option<u32> {
        self.crc
    }

    /// The next record, or why there is none. After `End` and `Torn` there is nothing more.
    pub(super) fn next(&mut self) -> io::Result<Option<Step>> {
        let Some(offset) = self.offset else { return Ok(None) };
        let left = self.size.saturating_sub(offset);
        if left == 0 {
            return Ok(Some(self.end(offset)));
        }
        if left < FRAME_HEAD {
            return Ok(Some(self.cut_short(offset)));
        }
        let head = FrameHead(self.read_head()?);
        if head.0 == 0 {
            return Ok(Some(self.end(offset)));
        }
        let len = head.record_len() + head.pad_len();
        if len > left - FRAME_HEAD {
            return Ok(Some(self.cut_short(offset)));
        }
        if len > MAX_RECORD {
            self.stop();
            return Ok(Some(Step::Faulty(offset, Fault::TooLong { len })));
        }
        let frame = self.read_frame(len)?;
        self.offset = Some(offset + FRAME_HEAD + len);
        Ok(Some(self.record(offset, head, frame)))
    }

    /// The offset behind the last byte after `offset` that is not zero, if there is one. etcd makes room for 64 MiB and writes
    /// little of it, so it is looked for from the end, where nothing need be read.
    pub(super) fn leftover(storage: &S, offset: u64) -> io::Result<Option<u64>> {
        let mut buffer = vec![0; BUFFER];
        let mut end = storage.size()?;
        while end > offset {
            let begin = end.saturating_sub(BUFFER as u64).max(offset);
            if storage.next_data(begin)? < end {
                let read = SegmentReader::new(storage, end, begin).read(&mut buffer)?;
                if let Some(place) = buffer.iter().take(read).rposition(|byte| *byte != 0) {
                    return Ok(Some(begin + place as u64 + 1));
                }
            }
            end = begin;
        }
        Ok(None)
    }

    fn record(&mut self, offset: u64, head: FrameHead, frame: Bytes) -> Step {
        let Some(bytes) = usize::try_from(head.record_len()).ok().filter(|len| *len <= frame.len()) else {
            return Step::Faulty(offset, Fault::NotARecord);
        };
        let Ok(record) = Record::decode(frame.slice(..bytes)) else {
            self.crc = None;
            return self.unreadable(offset, &frame, Fault::NotARecord);
        };
        let before = self.crc;
        if record.kind != RecordKind::Crc as i64 {
            let computed = before.map_or(record.crc, |crc| crc32c::crc32c_append(crc, &record.data));
            // Whatever it is, the next record follows on what this one says.
            self.crc = Some(record.crc);
            if record.crc != computed {
                return self.unreadable(offset, &frame, Fault::Checksum { recorded: record.crc, computed });
            }
        }
        let Some(kind) = RecordKind::from_number(record.kind) else {
            return Step::Faulty(offset, Fault::UnknownKind(record.kind));
        };
        if kind == RecordKind::Crc {
            self.crc = Some(record.crc);
        }
        let (spelled, padding) = frame.split_at(bytes);
        let odd = oddity(head, &record, spelled, padding);
        Step::Record(offset, Found { kind, data: record.data, crc: record.crc, crc_before: before, odd })
    }

    fn unreadable(&mut self, offset: u64, frame: &[u8], fault: Fault) -> Step {
        if self.is_last && has_zero_sector(offset + FRAME_HEAD, frame) {
            self.stop();
            return Step::Torn(offset);
        }
        Step::Faulty(offset, fault)
    }

    fn cut_short(&mut self, offset: u64) -> Step {
        self.stop();
        if self.is_last { Step::Torn(offset) } else { Step::Faulty(offset, Fault::CutShort) }
    }

    fn end(&mut self, offset: u64) -> Step {
        self.offset = None;
        Step::End(offset)
    }

    fn stop(&mut self) {
        self.offset = None;
        self.crc = None;
    }

    fn read_head(&mut self) -> io::Result<u64> {
        let mut head = [0; FRAME_HEAD as usize];
        self.bytes.read_exact(&mut head)?;
        Ok(u64::from_le_bytes(head))
    }

    fn read_frame(&mut self, len: u64) -> io::Result<Bytes> {
        let mut frame = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?];
        self.bytes.read_exact(&mut frame)?;
        Ok(Bytes::from(frame))
    }
}

/// What no checksum covers: the frame around a record, and how its fields are spelled.
fn oddity(head: FrameHead, record: &Record, spelled: &[u8], padding: &[u8]) -> Option<Fault> {
    if !head.is_canonical() {
        return Some(Fault::FrameHead);
    }
    let without_data = Record { kind: record.kind, crc: record.crc, data: Bytes::new() };
    if record.encoded_len() != spelled.len() || !spelled.starts_with(&without_data.encode_to_vec()) {
        return Some(Fault::OddRecord);
    }
    padding.iter().any(|byte| *byte != 0).then_some(Fault::Padding)
}

/// Whether one of the sectors that `bytes`, which lie at `offset`, are on has nothing of them but zeros.
fn has_zero_sector(mut offset: u64, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let len = usize::try_from(SECTOR - offset % SECTOR).unwrap_or(bytes.len()).min(bytes.len());
        let (sector, rest) = bytes.split_at(len);
        if sector.iter().all(|byte| *byte == 0) {
            return true;
        }
        offset += len as u64;
        bytes = rest;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(bytes: &[u8], position: Position) -> Vec<Step> {
        let storage = bytes.to_vec();
        let mut decoder = Decoder::new(&storage, position, Some(0)).unwrap();
        std::iter::from_fn(|| decoder.next().unwrap()).collect()
    }

    /// The head of a log that holds "somedata" as its metadata, as upstream's tests have it: the checksum, the
    /// metadata, then space for more.
    const SMALL: [u8; 48] = [
        4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 0x10, 0, 0, 0, 0, 0, // checksum 0
        18, 0, 0, 0, 0, 0, 0, 0x86, 8, 1, 0x10, 0x81, 0xff, 0x98, 0x89, 0x0b, 0x1a, 8, b's', b'o', b'm', b'e', b'd',
        b'a', b't', b'a', 0, 0, 0, 0, 0, 0,
    ];

    fn small() -> Vec<u8> {
        let mut bytes = SMALL.to_vec();
        let crc = crc32c::crc32c(b"somedata");
        let record = Record { kind: 1, crc, data: Bytes::from_static(b"somedata") }.encode_to_vec();
        let head = FrameHead::around(record.len() as u64);
        bytes.truncate(16);
        bytes.extend(head.0.to_le_bytes());
        bytes.extend(&record);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn records_come_in_order_with_the_checksum_carried_on() {
        let [Step::Record(0, crc), Step::Record(16, metadata), Step::End(_)] = &steps(&small(), Position::Last)[..]
        else {
            panic!("not two records");
        };
        assert_eq!((crc.kind, crc.crc), (RecordKind::Crc, 0));
        assert_eq!((metadata.kind, &metadata.data[..]), (RecordKind::Metadata, &b"somedata"[..]));
    }

    #[test]
    fn a_cut_is_torn_in_the_last_segment_and_damage_in_another() {
        let bytes = small();
        for len in 17..bytes.len() {
            assert_eq!(steps(&bytes[..len], Position::Last).last(), Some(&Step::Torn(16)), "{len}");
            assert_eq!(steps(&bytes[..len], Position::Inner).last(), Some(&Step::Faulty(16, Fault::CutShort)), "{len}");
        }
        assert_eq!(steps(&bytes[..16], Position::Last).last(), Some(&Step::End(16)));
    }

    #[test]
    fn damage_is_torn_only_where_a_sector_is_all_zeros() {
        let mut bytes = small();
        bytes[26] ^= 1;
        let Some(Step::Faulty(16, _)) = steps(&bytes, Position::Last).into_iter().nth(1) else { panic!("not found") };
        bytes[24..].fill(0);
        assert_eq!(steps(&bytes, Position::Last).last(), Some(&Step::Torn(16)));
    }

    #[test]
    fn sectors_are_those_of_the_file() {
        let mut record = vec![1; 1024];
        record[12..524].fill(0);
        assert!(has_zero_sector(500, &record));
        assert!(!has_zero_sector(501, &record));
        assert!(!has_zero_sector(0, &[1, 0, 0]) && has_zero_sector(511, &[1, 0, 0]));
    }

    #[test]
    fn a_length_beyond_the_file_is_not_allocated() {
        let mut bytes = small();
        bytes[16..24].copy_from_slice(&0x00ff_ffff_ffff_ffffu64.to_le_bytes());
        assert_eq!(steps(&bytes, Position::Last).last(), Some(&Step::Torn(16)));
    }
}
