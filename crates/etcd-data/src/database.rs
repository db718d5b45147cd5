//! A database as a value: the key space in revision order, and the tables.
//!
//! What is in the file may lag behind the log beside it. The changes that only the log has come after all others, so
//! they are kept as a tail behind the file's records, and whoever reads the key space sees one sequence.

use std::ops::ControlFlow;
use std::sync::Arc;

pub use bolt_file::scan::Direction;
use bolt_file::scan::{self, KeyRange, Span, SpanReader};
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

    /// The record called `at`, if there is one. Reads a handful of pages.
    pub fn record(&self, at: RevKey) -> Result<Option<Vec<u8>>, Error> {
        match self.tail.binary_search_by_key(&at, |record| record.at) {
            Ok(index) => Ok(self.tail.get(index).map(|record| record.value.clone())),
            Err(_) => Ok(self.key.get(&at.encode())?),
        }
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
        let step = |collected: &mut P, key: &[u8], value: &[u8]| {
            let at = parse_key(key)?;
            if range.has(at) { step(collected, Record { at, value }) } else { Ok(Next::More) }
        };
        self.scan_entries(range, direction, step, take)
    }

    /// Like [`Database::scan`], with keys as they are: `step` sees those that are no revisions too, and some
    /// around `range`.
    pub fn scan_entries<P: Default + Send, E: From<Error> + Send>(
        &self,
        range: RevisionRange,
        direction: Direction,
        step: impl Fn(&mut P, &[u8], &[u8]) -> Result<Next, Error> + Sync,
        take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let parts = self.parts(range, direction)?;
        let start = || SpanReader::new(&self.file);
        let work = |reader: &mut SpanReader, part: &Part, emit: &mut dyn FnMut(P) -> ControlFlow<()>| {
            let mut collector = Collector { step: &step, emit, collected: P::default() };
            match part {
                Part::Spans(spans) => collector.spans(reader, spans, direction)?,
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
        let mut parts: Vec<Part> = grouped(spans).map(Part::Spans).collect();
        if self.tail.first().is_some_and(|first| first.at.main <= range.to) {
            parts.push(Part::Tail);
        }
        if direction == Direction::Backwards {
            parts.reverse();
        }
        Ok(parts)
    }
}

/// Spans that a worker takes at once, at the most: more at once cost less waiting for each other.
const SPANS_AT_ONCE: usize = 4;

/// Neighbouring spans, enough together to be worth handing over, and few enough that every core has some.
fn grouped(spans: Vec<Span>) -> impl Iterator<Item = Vec<Span>> {
    let at_once = (spans.len() / (8 * scan::cores())).clamp(1, SPANS_AT_ONCE);
    let mut spans = spans.into_iter();
    std::iter::from_fn(move || {
        Some(spans.by_ref().take(at_once).collect()).filter(|group: &Vec<Span>| !group.is_empty())
    })
}

enum Part {
    Spans(Vec<Span>),
    Tail,
}

/// Shows the entries of one part to `step`, and emits what comes together.
struct Collector<'a, P, S> {
    step: &'a S,
    emit: &'a mut dyn FnMut(P) -> ControlFlow<()>,
    collected: P,
}

impl<P: Default, S: Fn(&mut P, &[u8], &[u8]) -> Result<Next, Error>> Collector<'_, P, S> {
    fn spans(&mut self, reader: &mut SpanReader, spans: &[Span], direction: Direction) -> Result<(), Error> {
        for span in places(spans.len(), direction).filter_map(|index| spans.get(index)) {
            if self.span(reader, span, direction)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn span(&mut self, reader: &mut SpanReader, span: &Span, direction: Direction) -> Result<ControlFlow<()>, Error> {
        let mut visit = |leaf: bolt_file::page::Leaf<'_>| {
            for index in places(leaf.len(), direction) {
                let Some(entry) = leaf.get(index).map_err(bolt_file::Error::from)? else { break };
                if self.entry(entry.key, entry.value)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        reader.leaves(span, direction, &mut visit)
    }

    fn tail(&mut self, tail: &[TailRecord], direction: Direction) -> Result<(), Error> {
        for record in places(tail.len(), direction).filter_map(|index| tail.get(index)) {
            if self.entry(&record.at.encode(), &record.value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<ControlFlow<()>, Error> {
        match (self.step)(&mut self.collected, key, value)? {
            Next::More => Ok(ControlFlow::Continue(())),
            Next::Cut => Ok((self.emit)(std::mem::take(&mut self.collected))),
            Next::Enough => Ok(ControlFlow::Break(())),
        }
    }
}

/// The places of `len` things in the order in which `direction` comes by them.
fn places(len: usize, direction: Direction) -> impl Iterator<Item = usize> {
    (0..len).map(move |index| match direction {
        Direction::Forwards => index,
        Direction::Backwards => len - 1 - index,
    })
}

fn parse_key(bytes: &[u8]) -> Result<RevKey, Error> {
    let fault = || Error::Record { entry: printable(bytes), fault: RecordFault::Revision };
    RevKey::parse(bytes).ok_or_else(fault)
}
