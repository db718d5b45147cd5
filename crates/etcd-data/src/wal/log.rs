//! All segments of a log as one: what a member would find when it starts.
//!
//! Entries stay in the files, see `entries`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bolt_file::Storage;
use prost::Message;

use super::WalError;
use super::decoder::{Decoder, Found, Position, Step};
use super::entries::{EntryPlace, Kept, Places};
use super::finding::{Fault, Finding, Place};
use super::record::{Metadata, RecordKind, SnapshotMark};
use super::segment::{Folder, Segment, SegmentName};
use crate::raft::{Entry, EntryKind, HardState};

/// A log that has been read to its end, or to the first damage: what comes after that is checked and not believed.
pub struct Log<S> {
    /// Whose log it is.
    pub metadata: Option<Metadata>,
    /// The last hard state.
    pub hard_state: HardState,
    /// The marks of snapshots, oldest first.
    pub snapshots: Vec<SnapshotMark>,
    /// How it ends.
    pub tail: Tail,
    /// Where it ends.
    pub end: Place,
    /// Everything that is wrong with it, in order, or the first ten thousand things.
    pub findings: Vec<Finding>,
    /// Other files in its folder.
    pub others: Vec<String>,
    places: Arc<Places<S>>,
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// After a whole record, with nothing but zeros behind it.
    Clean,
    /// After a whole record, with something behind it that no record leads to. etcd overwrites it.
    Leftover {
        /// The offset behind the last byte that is not zero.
        up_to: u64,
    },
    /// In the middle of a record that was being written. etcd cuts it off.
    Torn {
        /// The offset behind the last byte that is not zero.
        up_to: u64,
    },
    /// In damage.
    Damaged,
}

/// After so many findings, more of them say nothing new.
const MAX_FINDINGS: usize = 10_000;

/// Reads one segment as a log of its own.
pub fn read_segment(bytes: Vec<u8>) -> Result<Log<Vec<u8>>, WalError> {
    let segments = vec![Segment { name: SegmentName::FIRST, storage: bytes }];
    Log::read(Folder { segments, others: Vec::new() })
}

impl Log<File> {
    /// Reads the log in the folder at `path`.
    pub fn open(path: &Path) -> Result<Log<File>, WalError> {
        Log::read(Folder::open(path)?)
    }
}

impl<S: Storage> Log<S> {
    /// Reads the log of these segments.
    pub fn read(folder: Folder<S>) -> Result<Log<S>, WalError> {
        let first = folder.segments.first().ok_or(WalError::Empty)?.name;
        let mut reading = Reading::new(first);
        let last = folder.segments.len() - 1;
        for (number, segment) in (0..).zip(&folder.segments) {
            let position = if number as usize == last { Position::Last } else { Position::Inner };
            let read = reading.segment(number, segment, position);
            read.map_err(|source| WalError::Read { segment: segment.name, source })?;
        }
        Ok(reading.finish(folder))
    }

    /// The index of the first entry that the log has; `None` if it has none.
    pub fn first_index(&self) -> Option<u64> {
        self.places.entries.first().map(|entry| entry.index)
    }

    /// The index of the first entry after the one at `index`; `None` if that is the last.
    pub fn first_index_after(&self, index: u64) -> Option<u64> {
        self.places.entries.get(self.places.up_to(index)).map(|entry| entry.index)
    }

    /// The index of the last entry, or of the newest snapshot where no entry follows it; 0 in an empty log.
    pub fn last_index(&self) -> u64 {
        let marked = self.snapshots.iter().map(|mark| mark.index).max();
        self.places.entries.last().map(|entry| entry.index).max(marked).unwrap_or_default()
    }

    /// The entries after the one at `index`, in order. Those that were overwritten are not among them. The first of
    /// them may lie further on, if the log begins there.
    pub fn entries_after(&self, index: u64) -> impl Iterator<Item = Result<Entry, WalError>> {
        self.places.entries.iter().skip(self.places.up_to(index)).map(|entry| self.places.read(entry))
    }

    /// The entries after the one at `after`, up to that at `up_to`.
    pub(crate) fn entries_between(&self, after: u64, up_to: u64) -> Kept<S> {
        Kept::new(&self.places, self.places.up_to(after)..self.places.up_to(up_to))
    }
}

/// A log that is being read.
struct Reading {
    metadata: Option<Metadata>,
    hard_state: HardState,
    snapshots: Vec<SnapshotMark>,
    entries: Vec<EntryPlace>,
    findings: Vec<Finding>,
    tail: Tail,
    end: Place,
    /// The checksum so far; unknown after damage.
    crc: Option<u32>,
    /// The name of the segment before.
    before: Option<SegmentName>,
    /// Whether older segments were removed.
    is_shortened: bool,
    /// Whether there was no damage yet.
    is_sound: bool,
}

impl Reading {
    fn new(first: SegmentName) -> Reading {
        Reading {
            metadata: None,
            hard_state: HardState::default(),
            snapshots: Vec::new(),
            entries: Vec::new(),
            findings: Vec::new(),
            tail: Tail::Clean,
            end: Place { segment: first, offset: 0 },
            crc: Some(0),
            before: None,
            is_shortened: first.sequence != 0,
            is_sound: true,
        }
    }

    fn segment<S: Storage>(&mut self, number: u32, segment: &Segment<S>, position: Position) -> io::Result<()> {
        self.follow_on(segment.name);
        let mut decoder = Decoder::new(&segment.storage, position, self.crc)?;
        let mut has_records = false;
        while self.findings.len() < MAX_FINDINGS
            && let Some(step) = decoder.next()?
        {
            match step {
                Step::Record(offset, found) => {
                    has_records = true;
                    self.record(Place { segment: segment.name, offset }, number, found);
                }
                Step::Faulty(offset, fault) => self.found(Place { segment: segment.name, offset }, fault),
                Step::End(offset) | Step::Torn(offset) if self.is_sound => {
                    self.end = Place { segment: segment.name, offset };
                    if position == Position::Last {
                        let leftover = Decoder::leftover(&segment.storage, offset)?;
                        self.tail = tail(&step, offset, leftover);
                    }
                }
                Step::End(_) | Step::Torn(_) => {}
            }
        }
        if number > 0 && !has_records && self.is_sound {
            self.found(Place { segment: segment.name, offset: 0 }, Fault::NoBeginning);
        }
        self.crc = decoder.crc();
        Ok(())
    }

    fn follow_on(&mut self, name: SegmentName) {
        let before = self.before.replace(name);
        if let Some(before) = before.filter(|before| before.sequence.checked_add(1) != Some(name.sequence)) {
            self.found(Place { segment: name, offset: 0 }, Fault::MissingSegment { after: before.sequence });
        }
    }

    fn record(&mut self, place: Place, segment: u32, found: Found) {
        if let Some(odd) = found.odd {
            self.found(place, odd);
        }
        if !self.is_sound {
            return;
        }
        let faulty = match found.kind {
            RecordKind::Metadata => self.metadata(&found),
            RecordKind::Entry => self.entry(place, segment, &found),
            RecordKind::State => self.state(&found),
            RecordKind::Crc => carried_over(&found),
            RecordKind::Snapshot => self.snapshot(&found),
        };
        if let Err(fault) = faulty {
            self.found(place, fault);
        }
    }

    fn metadata(&mut self, found: &Found) -> Result<(), Fault> {
        let metadata = Metadata::decode(found.data.clone()).map_err(|_| Fault::NotOfItsKind)?;
        if self.metadata.is_some_and(|before| before != metadata) {
            return Err(Fault::MetadataConflict);
        }
        self.metadata = Some(metadata);
        Ok(())
    }

    fn entry(&mut self, place: Place, segment: u32, found: &Found) -> Result<(), Fault> {
        let entry = Entry::decode(found.data.clone()).map_err(|_| Fault::NotOfItsKind)?;
        let empty_change = entry.kind != EntryKind::Normal as i32 && entry.data.is_empty();
        if EntryKind::try_from(entry.kind).is_err() || empty_change {
            return Err(Fault::NotOfItsKind);
        }
        self.make_room(entry.index)?;
        if self.entries.last().is_some_and(|before| before.term > entry.term) {
            return Err(Fault::TermWentBack { index: entry.index });
        }
        self.entries.push(EntryPlace {
            index: entry.index,
            term: entry.term,
            offset: place.offset,
            segment,
            crc_before: found.crc_before.unwrap_or_default(),
        });
        Ok(())
    }

    /// Makes the log end right before `index`: what a new leader sends takes the place of what an old one had sent.
    fn make_room(&mut self, index: u64) -> Result<(), Fault> {
        let marked = self.snapshots.iter().map(|mark| mark.index).max().unwrap_or_default();
        let last = self.entries.last().map_or(marked, |last| last.index);
        let begins = self.entries.is_empty() && self.is_shortened;
        if index > last.saturating_add(1) && !begins {
            // A snapshot from another member may take the log forward; then all before it is of no more use.
            if index > marked.saturating_add(1) {
                return Err(Fault::MissingEntries { after: last, found: index });
            }
            self.entries.clear();
        }
        if index <= last && !self.entries.is_empty() {
            if index <= self.hard_state.commit {
                return Err(Fault::CommittedOverwritten { index });
            }
            let keep = self.entries.partition_point(|entry| entry.index < index);
            self.entries.truncate(keep);
        }
        Ok(())
    }

    fn state(&mut self, found: &Found) -> Result<(), Fault> {
        let state = HardState::decode(found.data.clone()).map_err(|_| Fault::NotOfItsKind)?;
        let before = self.hard_state;
        let changed_vote = state.term == before.term && before.vote != 0 && state.vote != before.vote;
        if state.term < before.term || state.commit < before.commit || changed_vote {
            return Err(Fault::StateWentBack);
        }
        self.hard_state = state;
        Ok(())
    }

    fn snapshot(&mut self, found: &Found) -> Result<(), Fault> {
        if found.data.is_empty() {
            return Err(Fault::NotOfItsKind);
        }
        self.snapshots.push(SnapshotMark::decode(found.data.clone()).map_err(|_| Fault::NotOfItsKind)?);
        Ok(())
    }

    fn finish<S: Storage>(mut self, folder: Folder<S>) -> Log<S> {
        if self.is_sound {
            self.check_whole();
        } else {
            self.tail = Tail::Damaged;
        }
        Log {
            metadata: self.metadata,
            hard_state: self.hard_state,
            snapshots: self.snapshots,
            tail: self.tail,
            end: self.end,
            findings: self.findings,
            others: folder.others,
            places: Arc::new(Places { segments: folder.segments, entries: self.entries }),
        }
    }

    fn check_whole(&mut self) {
        let commit = self.hard_state.commit;
        let marked = self.snapshots.iter().map(|mark| mark.index).max();
        let last = self.entries.last().map(|entry| entry.index).max(marked).unwrap_or_default();
        let end = self.end;
        if self.metadata.is_none() {
            self.found(end, Fault::NoMetadata);
        }
        if !self.snapshots.iter().any(|mark| mark.index <= commit) {
            self.found(end, Fault::NoSnapshotMark);
        }
        if commit > last {
            self.found(end, Fault::CommittedMissing { commit, last });
        }
    }

    fn found(&mut self, place: Place, fault: Fault) {
        if self.is_sound && !fault.is_beside_the_checksum() {
            self.is_sound = false;
            self.end = place;
        }
        self.findings.push(Finding { place, fault });
    }
}

/// Checks the record with which a segment takes over the checksum of the one before.
fn carried_over(found: &Found) -> Result<(), Fault> {
    if !found.data.is_empty() {
        return Err(Fault::NotOfItsKind);
    }
    match found.crc_before {
        // etcd does not compare with 0, which is what a log begins with: older segments may have been removed.
        Some(computed) if computed != 0 && computed != found.crc => {
            Err(Fault::ChecksumCarriedOver { recorded: found.crc, computed })
        }
        _ => Ok(()),
    }
}

fn tail(step: &Step, end: u64, leftover: Option<u64>) -> Tail {
    match (step, leftover) {
        (Step::Torn(_), up_to) => Tail::Torn { up_to: up_to.unwrap_or(end) },
        (_, Some(up_to)) => Tail::Leftover { up_to },
        (_, None) => Tail::Clean,
    }
}

#[cfg(test)]
mod tests;
