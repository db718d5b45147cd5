//! A database as a value: the key space in revision order, and the tables.
//!
//! The key space comes in layers: a file, what the log beside it is ahead by, what an archive carries it forward by.
//! Each follows on the one before, so whoever reads the key space sees one sequence.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::scan;
pub use bolt_file::scan::Direction;

use crate::batch::Batch;
use crate::error::{Error, RecordFault};
use crate::key_value::KeyValue;
use crate::layer::{Layer, Part, Seen, Told};
use crate::records::Records;
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, Tables, printable};

/// A database: layers of records, each after those of the layer before, and the tables.
#[derive(Clone)]
pub struct Database {
    /// Only the first may be a file.
    layers: Vec<Layer>,
    /// How many of them it begins with: what they lack is told, and what the others lack is refused.
    begun: usize,
    tables: Tables,
    readers: Readers,
}

/// Who reads records, and makes of them what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readers {
    /// A thread for each core.
    #[default]
    Cores,
    /// The thread that asks, and no other. Memory holds what is read of one layer, and nothing waits to be taken.
    Caller,
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
        Error::Record { entry: self.at.to_string(), at: Some(self.at), fault }
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.from > self.to
    }

    /// Whether `at` is of one of them.
    pub fn has(&self, at: RevKey) -> bool {
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
        Ok(Self { layers: vec![Layer::of_file(key)], begun: 1, tables, readers: Readers::default() })
    }

    /// A database without a record, and with `tables`.
    pub fn empty(tables: Tables) -> Self {
        Self { layers: Vec::new(), begun: 0, tables, readers: Readers::default() }
    }

    /// This database without what comes after `last`. What it began with stays its file.
    pub fn cut_after(mut self, last: Revision) -> Self {
        self.layers = self.layers.into_iter().map(|layer| layer.cut_after(last)).collect();
        self
    }

    /// This database, and after its records those of `records` that are of `revisions`, all of which are to be there.
    pub fn followed_by(mut self, revisions: RevisionRange, records: Arc<dyn Records>) -> Self {
        self.layers.push(Layer::elsewhere(revisions, records));
        self
    }

    /// This database, of which all that is there so far is what it begins with, as a file is: that may be all that there is,
    /// so what it lacks is told, and the rest of it taken.
    pub fn begun(self) -> Self {
        Self { begun: self.layers.len(), ..self }
    }

    /// This database with other tables.
    pub fn with_tables(self, tables: Tables) -> Self {
        Self { tables, ..self }
    }

    /// This database, read by `readers`.
    pub fn read_by(self, readers: Readers) -> Self {
        Self { readers, ..self }
    }

    /// The file that it began with, if it was one.
    pub fn file(&self) -> Option<&BoltFile> {
        self.layers.first()?.file()
    }

    /// What comes after the file.
    pub fn additions(&self) -> impl Iterator<Item = &dyn Records> {
        self.layers.iter().filter_map(Layer::records)
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// About how many bytes there are to read.
    pub fn size_bytes(&self) -> u64 {
        // A file may claim any size.
        self.layers.iter().map(Layer::size_bytes).fold(0, u64::saturating_add)
    }

    /// The size of a page in a new file.
    pub fn page_size(&self) -> u32 {
        self.file().map_or(USUAL_PAGE_SIZE, |file| file.layout().page_size)
    }

    /// The last record, if there is one.
    pub fn last_record(&self) -> Result<Option<RevKey>, Error> {
        last_of(&self.layers)
    }

    /// The last record of the file that it began with, or of what stands for one. After that, every revision is to be there.
    pub(crate) fn last_of_file(&self) -> Result<Option<RevKey>, Error> {
        last_of(self.layers.get(..self.begun).unwrap_or_default())
    }

    /// The last revision before `at`, if the file that it began with lacks `at` and has later ones. Of what comes after a
    /// file all is there. Reads a page of each level.
    pub(crate) fn last_before_hole(&self, at: Revision) -> Result<Option<Revision>, Error> {
        self.layers.first().map_or(Ok(None), |layer| layer.last_before_hole(at))
    }

    /// The revision that it was cut to, if it is a file and nothing else.
    pub(crate) fn promised_of_file(&self) -> Option<Revision> {
        let last = self.layers.iter().rfind(|layer| !layer.revisions().is_empty())?;
        self.promised().filter(|_| last.file().is_some())
    }

    /// The revision that it is to go up to, where whoever put it together said so.
    pub(crate) fn promised(&self) -> Option<Revision> {
        let last = self.layers.iter().map(Layer::revisions).rfind(|revisions| !revisions.is_empty())?;
        Some(last.to).filter(|&to| to < RevisionRange::ALL.to)
    }

    /// The record called `at`, if there is one. Reads a page of each level of a file, or of an archive all of a layer.
    pub fn record(&self, at: RevKey) -> Result<Option<Vec<u8>>, Error> {
        for layer in &self.layers {
            if let Some(found) = layer.get(at)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Shows `step` every record in `range`, on all cores if nothing else was said, and hands what comes together to `take`,
    /// in order.
    ///
    /// The key space is cut into parts. For each, `step` begins with an empty `P`; within a part it sees records one
    /// after the other, and the parts reach `take` one after the other: in revision order going forwards, against
    /// it going backwards. `take` may break. A file that somebody wrote to since it was opened is refused in the end.
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

    /// Like [`Database::scan`], for whoever asks of records no more than which keys they change: of what an archive keeps, most
    /// is not unpacked for that.
    pub(crate) fn scan_keys<P: Default + Send, E: From<Error> + Send>(
        &self,
        range: RevisionRange,
        direction: Direction,
        step: impl Fn(&mut P, RevKey, &[u8]) -> Result<Next, Error> + Sync,
        take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let step = |collected: &mut P, key: &[u8], changed: &[u8]| {
            let at = parse_key(key)?;
            if range.has(at) { step(collected, at, changed) } else { Ok(Next::More) }
        };
        self.scan_layers(&self.layers, range, direction, Told::Key { within: range }, strict(step), take)
    }

    /// Shows `visit` every record in `range`, in revision order, until it breaks. Whoever reads, `visit` is on this thread.
    pub fn visit<E: From<Error> + Send>(
        &self,
        range: RevisionRange,
        mut visit: impl FnMut(Record<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let step = |batch: &mut Batch<RevKey>, record: Record<'_>| Ok(batch.push(record.at, record.value));
        let take = |batch: Batch<RevKey>| {
            for (&at, value) in batch.iter() {
                if visit(Record { at, value })?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        self.scan(range, Direction::Forwards, step, take)
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
        self.scan_layers(&self.layers, range, direction, Told::Value, strict(step), take)
    }

    /// Like [`Database::scan_entries`] going forwards over everything, for whoever goes on behind what is lost of a file: `step`
    /// is shown that too.
    pub(crate) fn scan_around<P: Default + Send, E: From<Error> + Send>(
        &self,
        step: impl Fn(&mut P, Seen<'_>) -> Result<Next, Error> + Sync,
        take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        self.scan_layers(&self.layers, RevisionRange::ALL, Direction::Forwards, Told::Value, step, take)
    }

    /// Like [`Database::scan`] going backwards, for whoever wants no more than the first that is found: the last layer
    /// is read first, and nothing else meanwhile; then twice as many each time. So what is recent costs one read of
    /// what may be far away, and what is not is searched for on all cores.
    pub(crate) fn search_back<P: Default + Send, E: From<Error> + Send>(
        &self,
        range: RevisionRange,
        step: impl Fn(&mut P, Record<'_>) -> Result<Next, Error> + Sync,
        mut take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let step = |collected: &mut P, key: &[u8], value: &[u8]| {
            let at = parse_key(key)?;
            if range.has(at) { step(collected, Record { at, value }) } else { Ok(Next::More) }
        };
        let mut is_found = false;
        let (mut rest, mut at_once) = (self.layers.as_slice(), 1);
        while !rest.is_empty() && !is_found {
            let (before, last) = rest.split_at(rest.len().saturating_sub(at_once));
            let take = |collected| take(collected).inspect(|flow| is_found = flow.is_break());
            self.scan_layers(last, range, Direction::Backwards, Told::Value, strict(step), take)?;
            (rest, at_once) = (before, at_once * 2);
        }
        Ok(())
    }

    fn scan_layers<P: Default + Send, E: From<Error> + Send>(
        &self,
        layers: &[Layer],
        range: RevisionRange,
        direction: Direction,
        told: Told,
        step: impl Fn(&mut P, Seen<'_>) -> Result<Next, Error> + Sync,
        take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let scanned = self.scan_parts(layers, range, direction, told, step, take);
        // Of a file that somebody wrote to, what was read may be half of before and half of after. Whatever else went
        // wrong, this is why.
        layers.iter().filter_map(Layer::file).try_for_each(BoltFile::require_unchanged).map_err(Error::from)?;
        scanned
    }

    fn scan_parts<P: Default + Send, E: From<Error> + Send>(
        &self,
        layers: &[Layer],
        range: RevisionRange,
        direction: Direction,
        told: Told,
        step: impl Fn(&mut P, Seen<'_>) -> Result<Next, Error> + Sync,
        take: impl FnMut(P) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut parts = Vec::new();
        for layer in layers {
            parts.extend(layer.parts(range)?);
        }
        if direction == Direction::Backwards {
            parts.reverse();
        }
        let work = |reader: &mut _, part: &Part<'_>, emit: &mut dyn FnMut(P) -> ControlFlow<()>| {
            let mut collected = P::default();
            let mut show = |seen: Seen<'_>| match step(&mut collected, seen)? {
                Next::More => Ok(ControlFlow::Continue(())),
                Next::Cut => Ok(emit(mem::take(&mut collected))),
                Next::Enough => Ok(ControlFlow::Break(())),
            };
            part.read(reader, direction, told, &mut show)?;
            let _ = emit(collected);
            Ok(())
        };
        match self.readers {
            Readers::Cores => scan::in_order(&parts, scan::cores(), || None, work, take),
            Readers::Caller => scan::one_by_one(&parts, None, work, take),
        }
    }
}

/// The last record of `layers`.
fn last_of(layers: &[Layer]) -> Result<Option<RevKey>, Error> {
    for layer in layers.iter().rev() {
        if let Some(last) = layer.last()? {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

/// Shows `step` what there is, and goes no further than to what is lost.
fn strict<P>(
    step: impl Fn(&mut P, &[u8], &[u8]) -> Result<Next, Error> + Sync,
) -> impl Fn(&mut P, Seen<'_>) -> Result<Next, Error> + Sync {
    move |collected, seen| match seen {
        Seen::Entry(key, value) => step(collected, key, value),
        Seen::Lost(error) => Err(error),
    }
}

/// The revision that `bytes`, the key of an entry, stands for.
pub(crate) fn parse_key(bytes: &[u8]) -> Result<RevKey, Error> {
    let fault = || Error::Record { entry: printable(bytes), at: None, fault: RecordFault::Revision };
    RevKey::parse(bytes).ok_or_else(fault)
}
