//! Where the entries of a log are.
//!
//! Entries stay in the files. Of each it is kept where it is, and it is read again when it is asked for, so entries of
//! any size cost a few dozen bytes each.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bolt_file::Storage;
use prost::Message;
use prost::bytes::Bytes;

use super::WalError;
use super::finding::Place;
use super::record::{FRAME_HEAD, FrameHead, Record};
use super::segment::Segment;
use crate::raft::Entry;

/// Neighbouring entries of a log.
pub(crate) trait Entries: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Reads the one that has `number` others before it.
    fn read(&self, number: usize) -> Result<Entry, WalError>;
}

/// All of `entries`, in order.
pub(crate) fn each(entries: &dyn Entries) -> impl Iterator<Item = Result<Entry, WalError>> {
    (0..entries.count()).map(move |number| entries.read(number))
}

/// Where an entry is, and what it was.
pub(super) struct EntryPlace {
    pub(super) index: u64,
    pub(super) term: u64,
    pub(super) offset: u64,
    /// The number of the segment.
    pub(super) segment: u32,
    pub(super) crc_before: u32,
}

/// The segments of a log, and where in them its entries are.
pub(super) struct Places<S> {
    pub(super) segments: Vec<Segment<S>>,
    pub(super) entries: Vec<EntryPlace>,
}

impl<S: Storage> Places<S> {
    /// How many entries come up to the one at `index`, that one too.
    pub(super) fn up_to(&self, index: u64) -> usize {
        self.entries.partition_point(|entry| entry.index <= index)
    }

    pub(super) fn read(&self, entry: &EntryPlace) -> Result<Entry, WalError> {
        // Every place was made from one of these segments.
        let segment = self.segments.get(entry.segment as usize).ok_or(WalError::Empty)?;
        let record = read_record(&segment.storage, entry.offset);
        let record = record.map_err(|source| WalError::Read { segment: segment.name, source })?;
        let read = record.and_then(|record| {
            let sound = crc32c::crc32c_append(entry.crc_before, &record.data) == record.crc;
            Entry::decode(record.data).ok().filter(|read| sound && (read.index, read.term) == (entry.index, entry.term))
        });
        read.ok_or(WalError::Changed(Place { segment: segment.name, offset: entry.offset }))
    }
}

fn read_record<S: Storage>(storage: &S, offset: u64) -> io::Result<Option<Record>> {
    let mut head = [0; FRAME_HEAD as usize];
    storage.read_exact_at(&mut head, offset)?;
    let len = FrameHead(u64::from_le_bytes(head)).record_len();
    if len > storage.size()?.saturating_sub(offset) {
        return Ok(None);
    }
    let mut record = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?];
    storage.read_exact_at(&mut record, offset + FRAME_HEAD)?;
    Ok(Record::decode(Bytes::from(record)).ok())
}

/// Some of the entries of a log, which can be read also when the log is gone: its files stay open.
pub(crate) struct Kept<S> {
    places: Arc<Places<S>>,
    range: Range<usize>,
}

impl<S> Kept<S> {
    pub(super) fn new(places: &Arc<Places<S>>, range: Range<usize>) -> Kept<S> {
        Kept { places: Arc::clone(places), range }
    }
}

impl<S: Storage> Entries for Kept<S> {
    fn count(&self) -> usize {
        self.range.len()
    }

    fn read(&self, number: usize) -> Result<Entry, WalError> {
        let kept = self.places.entries.get(self.range.clone()).unwrap_or_default();
        self.places.read(kept.get(number).ok_or(WalError::Empty)?)
    }
}
