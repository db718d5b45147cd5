//! A database as a value: the key space in revision order, and the tables.
//!
//! What is in the file may lag behind the log beside it. The changes that only the log has come after all others, so
//! they are kept as a tail behind the file's records, and whoever reads the key space sees one sequence.

use std::ops::ControlFlow;
use std::sync::Arc;

use bolt_file::scan::{self, Direction, KeyRange, Span, SpanReader};
use bolt_file::{BoltFile, Bucket};

use crate::error::{Error, RecordFault};
use crate::key_value::KeyValue;
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, Tables, printable};

/// A database: a file, and what a log adds to it.
#[derive(Clone)]
pub struct Database {
    file: BoltFile,
    key: Bucket,
    tables: Tables,
    tail: Arc<[TailRecord]>,
}

/// A record that only the log has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRecord {
    /// Its key.
    pub at: RevKey,
    /// Its value, encoded.
    pub value: Vec<u8>,
}

/// One record of the key space, as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// When, and whether it deletes.
    pub at: RevKey,
    /// Its value, encoded.
    pub value: &'a [u8],
}

impl<'a> Record<'a> {
    /// The key that it changes.
    pub fn key(&self) -> Result<&'a [u8], Error> {
        KeyValue::parse_key(self.value).map_err(|fault| self.at_fault(RecordFault::Value(fault)))
    }

    /// All of it.
    pub fn key_value(&self) -> Result<KeyValue<'a>, Error> {
        KeyValue::parse(self.value).map_err(|fault| self.at_fault(RecordFault::Value(fault)))
    }

    fn at_fault(&self, fault: RecordFault) -> Error {
        Error::Record { entry: self.at.to_string(), fault }
    }
}

/// Revisions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionRange {
    /// The first.
    pub from: Revision,
    /// The last.
    pub to: Revision,
}

impl RevisionRange {
    /// All revisions.
    pub const ALL: Self = Self { from: Revision(0), to: Revision(i64::MAX) };

    /// All revisions up to `to`.
    pub fn up_to(to: Revision) -> Self {
        Self { to, ..Self::ALL }
    }

    fn has(&self, at: RevKey) -> bool {
        (self.from..=self.to).contains(&at.main)
    }
}

/// What to do after a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Show the next.
    More,
    /// Hand over what came together so far, then show the next.
    Cut,
    /// Hand over what came together, and go on with another part of the key space: nothing more is wanted of this.
    Enough,
}

impl Database {
    /// Reads the tables of `file` and finds its key space.
    pub fn open(file: BoltFile) -> Result<Self, Error> {
        let key = file.bucket(KEY)?.ok_or(Error::NoKeySpace)?;
        let tables = Tables::read(&file)?;
        Ok(Self { file, key, tables, tail: Arc::new([]) })
    }

    /// This database carried forward by what a log adds: records that come after all of its own, and the tables as
    /// they are then.
    pub fn with_tail(self, tail: Vec<TailRecord>, tables: Tables) -> Self {
        Self { tail: tail.into(), tables, ..self }
    }

    /// The file below.
    pub fn file(&self) -> &BoltFile {
        &self.file
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The records that only the log has.
    pub fn tail(&self) -> &[TailRecord] {
        &self.tail
    }

    /// The revision of the last record, if there is one.
    pub fn last_record(&self) -> Result<Option<RevKey>, Error> {
        if let Some(last) = self.tail.last() {
            return Ok(Some(last.at));
        }
        self.key.cursor().last()?.map(|entry| parse_key(entry.key)).transpose()
    }

    /// Shows `step` every record in `range`, on all cores, and hands what comes together to `take`, in order.
    ///
    /// The key space is cut into parts. For each, `step` begins with an empty `P`; within a part it sees records one
    /// after the other, and the parts reach `take` one after the other: in revision order going forwards, against
    /// it going backwards. `take` may break.
    pub fn scan<P: Default + Send, E: From<Error> + Send>(
        &self,
        range: RevisionRange,
        direction: Direction,
        step: impl Fn(&mut P, Record<'_>) -> Result<Next, Error> + Sync,
        take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let parts = self.parts(range, direction)?;
        let start = || SpanReader::new(&self.file);
        let work = |reader: &mut SpanReader, part: &Part, emit: &mut dyn FnMut(P) -> ControlFlow<()>| {
            let mut collector = Collector { range, step: &step, emit, collected: P::default() };
            match part {
                Part::Span(span) => collector.span(reader, span, direction)?,
                Part::Tail => collector.tail(&self.tail, direction)?,
            }
            let _ = (collector.emit)(collector.collected);
            Ok(())
        };
        scan::in_order(&parts, scan::cores(), start, work, take)
    }

    fn parts(&self, range: RevisionRange, direction: Direction) -> Result<Vec<Part>, Error> {
        let from = RevKey { main: range.from, sub: 0, tombstone: false }.encode();
        let to = RevKey { main: range.to, sub: i64::MAX, tombstone: true }.encode();
        let spans = self.key.spans(KeyRange { from: Some(&from), to: Some(&to) })?;
        let mut parts: Vec<Part> = spans.into_iter().map(Part::Span).collect();
        if self.tail.first().is_some_and(|first| first.at.main <= range.to) {
            parts.push(Part::Tail);
        }
        if direction == Direction::Backwards {
            parts.reverse();
        }
        Ok(parts)
    }
}

enum Part {
    Span(Span),
    Tail,
}

/// Shows the records of one part to `step`, and emits what comes together.
struct Collector<'a, P, S> {
    range: RevisionRange,
    step: &'a S,
    emit: &'a mut dyn FnMut(P) -> ControlFlow<()>,
    collected: P,
}

impl<P: Default, S: Fn(&mut P, Record<'_>) -> Result<Next, Error>> Collector<'_, P, S> {
    fn span(&mut self, reader: &mut SpanReader, span: &Span, direction: Direction) -> Result<(), Error> {
        let mut visit = |leaf: bolt_file::page::Leaf<'_>| {
            for index in 0..leaf.len() {
                let index = match direction {
                    Direction::Forwards => index,
                    Direction::Backwards => leaf.len() - 1 - index,
                };
                let Some(entry) = leaf.get(index).map_err(bolt_file::Error::from)? else { break };
                let record = Record { at: parse_key(entry.key)?, value: entry.value };
                if self.record(record)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        reader.leaves(span, direction, &mut visit).map(|_| ())
    }

    fn tail(&mut self, tail: &[TailRecord], direction: Direction) -> Result<(), Error> {
        for index in 0..tail.len() {
            let index = match direction {
                Direction::Forwards => index,
                Direction::Backwards => tail.len() - 1 - index,
            };
            let Some(record) = tail.get(index) else { break };
            if self.record(Record { at: record.at, value: &record.value })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn record(&mut self, record: Record<'_>) -> Result<ControlFlow<()>, Error> {
        if !self.range.has(record.at) {
            return Ok(ControlFlow::Continue(()));
        }
        match (self.step)(&mut self.collected, record)? {
            Next::More => Ok(ControlFlow::Continue(())),
            Next::Cut => Ok((self.emit)(std::mem::take(&mut self.collected))),
            Next::Enough => Ok(ControlFlow::Break(())),
        }
    }
}

fn parse_key(bytes: &[u8]) -> Result<RevKey, Error> {
    let fault = || Error::Record { entry: printable(bytes), fault: RecordFault::Revision };
    RevKey::parse(bytes).ok_or_else(fault)
}
