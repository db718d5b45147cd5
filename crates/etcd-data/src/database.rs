//! A database as a value: the key space in revision order, and the tables.
//!
//! The key space comes in layers: a file, what the log beside it is ahead by, what an archive carries it forward by.
//! Each follows on the one before, so whoever reads the key space sees one sequence.

use std::ops::ControlFlow;
use std::sync::Arc;

pub use bolt_file::scan::Direction;
use bolt_file::scan::{self, KeyRange, Span, SpanReader};
use bolt_file::{BoltFile, Bucket};

use crate::error::{Error, RecordFault};
use crate::key_value::KeyValue;
use crate::records::Records;
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, Tables, printable};

/// A database: layers of records, each after those of the layer before, and the tables.
#[derive(Clone)]
pub struct Database {
    /// The file that it began with, if there is one.
    file: Option<BoltFile>,
    layers: Vec<Layer>,
    tables: Tables,
}

/// Records of one origin, as far as they count.
#[derive(Clone)]
struct Layer {
    revisions: RevisionRange,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    File(Box<Bucket>),
    Elsewhere(Arc<dyn Records>),
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

    /// The revisions that are in both.
    pub fn within(&self, other: &Self) -> Self {
        Self { from: self.from.max(other.from), to: self.to.min(other.to) }
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

/// The size of a page on most machines, for databases that have none of their own.
const USUAL_PAGE_SIZE: u32 = 4096;

impl Database {
    /// Reads the tables of `file` and finds its key space.
    pub fn open(file: BoltFile) -> Result<Self, Error> {
        let key = file.bucket(KEY)?.ok_or(Error::NoKeySpace)?;
        let tables = Tables::read(&file)?;
        let layer = Layer { revisions: RevisionRange::ALL, origin: Origin::File(Box::new(key)) };
        Ok(Self { file: Some(file), layers: vec![layer], tables })
    }

    /// A database without a record, and with `tables`.
    pub fn empty(tables: Tables) -> Self {
        Self { file: None, layers: Vec::new(), tables }
    }

    /// This database without what comes after `last`. What it began with stays its file.
    pub fn cut_after(mut self, last: Revision) -> Self {
        for layer in &mut self.layers {
            layer.revisions = layer.revisions.within(&RevisionRange::up_to(last));
        }
        self
    }

    /// This database, and after its records those of `records` that are of `revisions`.
    pub fn followed_by(mut self, revisions: RevisionRange, records: Arc<dyn Records>) -> Self {
        self.layers.push(Layer { revisions, origin: Origin::Elsewhere(records) });
        self
    }

    /// This database with other tables.
    pub fn with_tables(self, tables: Tables) -> Self {
        Self { tables, ..self }
    }

    /// The file that it began with, if it was one.
    pub fn file(&self) -> Option<&BoltFile> {
        self.file.as_ref()
    }

    /// What comes after the file.
    pub fn additions(&self) -> impl Iterator<Item = &dyn Records> {
        self.layers.iter().filter_map(|layer| match &layer.origin {
            Origin::File(_) => None,
            Origin::Elsewhere(records) => Some(&**records),
        })
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// About how many bytes there are to read.
    pub fn size_bytes(&self) -> u64 {
        let sizes = self.layers.iter().map(|layer| match &layer.origin {
            Origin::File(key) => key.file().used_bytes(),
            Origin::Elsewhere(records) => records.size_bytes(),
        });
        sizes.sum()
    }

    /// The size of a page in a new file.
    pub fn page_size(&self) -> u32 {
        self.file.as_ref().map_or(USUAL_PAGE_SIZE, |file| file.layout().page_size)
    }

    /// The revision of the last record, if there is one.
    pub fn last_record(&self) -> Result<Option<RevKey>, Error> {
        for layer in self.layers.iter().rev() {
            if let Some(last) = layer.last()? {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// The record called `at`, if there is one. Reads a handful of pages of a file, or all of what is kept elsewhere.
    pub fn record(&self, at: RevKey) -> Result<Option<Vec<u8>>, Error> {
        for layer in self.layers.iter().filter(|layer| layer.revisions.has(at)) {
            let found = match &layer.origin {
                Origin::File(key) => key.get(&at.encode())?,
                Origin::Elsewhere(records) => record_in(&**records, at)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
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
        let start = || self.file.as_ref().map(SpanReader::new);
        let work = |reader: &mut Option<SpanReader>, part: &Part, emit: &mut dyn FnMut(P) -> ControlFlow<()>| {
            let mut collector = Collector { step: &step, emit, collected: P::default() };
            match part {
                Part::Spans { spans, revisions } => collector.spans(reader, spans, *revisions, direction)?,
                Part::Elsewhere { records, revisions } => collector.records(&**records, *revisions, direction)?,
            }
            let _ = (collector.emit)(collector.collected);
            Ok(())
        };
        scan::in_order(&parts, scan::cores(), start, work, take)
    }

    fn parts(&self, range: RevisionRange, direction: Direction) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for Layer { revisions, origin } in &self.layers {
            let wanted = revisions.within(&range);
            match origin {
                _ if wanted.from > wanted.to => {}
                Origin::File(key) => {
                    let from = RevKey { main: wanted.from, sub: 0, tombstone: false }.encode();
                    let to = RevKey { main: wanted.to, sub: i64::MAX, tombstone: true }.encode();
                    let spans = key.spans(KeyRange { from: Some(&from), to: Some(&to) })?;
                    parts.extend(grouped(spans).map(|spans| Part::Spans { spans, revisions: *revisions }));
                }
                Origin::Elsewhere(records) => {
                    parts.push(Part::Elsewhere { records: Arc::clone(records), revisions: *revisions });
                }
            }
        }
        if direction == Direction::Backwards {
            parts.reverse();
        }
        Ok(parts)
    }
}

impl Layer {
    /// The last of its records that counts.
    fn last(&self) -> Result<Option<RevKey>, Error> {
        match &self.origin {
            Origin::File(key) if self.revisions == RevisionRange::ALL => {
                key.cursor().last()?.map(|entry| parse_key(entry.key)).transpose()
            }
            Origin::File(key) => {
                let after = RevKey { main: self.revisions.to.next(), sub: 0, tombstone: false }.encode();
                let mut cursor = key.cursor();
                let found = if cursor.seek(&after)?.is_some() { cursor.previous()? } else { cursor.last()? };
                let last = found.map(|entry| parse_key(entry.key)).transpose()?;
                Ok(last.filter(|&last| self.revisions.has(last)))
            }
            Origin::Elsewhere(records) => {
                let mut last = records.last()?;
                if last.is_some_and(|last| !self.revisions.has(last)) {
                    last = None;
                    let mut look = |at, _: &[u8]| {
                        last = Some(at).filter(|&at| self.revisions.has(at));
                        Ok(if last.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                    };
                    records.read(Direction::Backwards, &mut look)?;
                }
                Ok(last)
            }
        }
    }
}

fn record_in(records: &dyn Records, wanted: RevKey) -> Result<Option<Vec<u8>>, Error> {
    let mut found = None;
    let mut look = |at, value: &[u8]| {
        if at == wanted {
            found = Some(value.to_vec());
        }
        Ok(if at < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    records.read(Direction::Forwards, &mut look)?;
    Ok(found)
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
    Spans { spans: Vec<Span>, revisions: RevisionRange },
    Elsewhere { records: Arc<dyn Records>, revisions: RevisionRange },
}

/// Shows the entries of one part to `step`, and emits what comes together.
struct Collector<'a, P, S> {
    step: &'a S,
    emit: &'a mut dyn FnMut(P) -> ControlFlow<()>,
    collected: P,
}

impl<P: Default, S: Fn(&mut P, &[u8], &[u8]) -> Result<Next, Error>> Collector<'_, P, S> {
    fn spans(
        &mut self,
        reader: &mut Option<SpanReader>,
        spans: &[Span],
        revisions: RevisionRange,
        direction: Direction,
    ) -> Result<(), Error> {
        let Some(reader) = reader else { return Ok(()) };
        for span in direction.places(spans.len()).filter_map(|index| spans.get(index)) {
            if self.span(reader, span, revisions, direction)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn span(
        &mut self,
        reader: &mut SpanReader,
        span: &Span,
        revisions: RevisionRange,
        direction: Direction,
    ) -> Result<ControlFlow<()>, Error> {
        let all = revisions == RevisionRange::ALL;
        let mut visit = |leaf: bolt_file::page::Leaf<'_>| {
            for index in direction.places(leaf.len()) {
                let Some(entry) = leaf.get(index).map_err(bolt_file::Error::from)? else { break };
                let counts = all || RevKey::parse(entry.key).is_none_or(|at| revisions.has(at));
                if counts && self.entry(entry.key, entry.value)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        reader.leaves(span, direction, &mut visit)
    }

    fn records(&mut self, records: &dyn Records, revisions: RevisionRange, direction: Direction) -> Result<(), Error> {
        let mut visit = |at: RevKey, value: &[u8]| {
            if revisions.has(at) { self.entry(&at.encode(), value) } else { Ok(ControlFlow::Continue(())) }
        };
        records.read(direction, &mut visit)
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<ControlFlow<()>, Error> {
        match (self.step)(&mut self.collected, key, value)? {
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
