//! One layer of a database: records of one origin, as far as they count.
//!
//! A layer cuts itself into parts. Each is read by one worker, with what that worker keeps between parts.

use std::ops::ControlFlow;
use std::sync::Arc;

use bolt_file::page::Leaf;
use bolt_file::scan::{self, Direction, KeyRange, Span, SpanReader};
use bolt_file::{BoltFile, Bucket, Corrupt, Entry};

use crate::database::{Record, RevisionRange, parse_key};
use crate::error::{Error, RecordFault};
use crate::records::Records;
use crate::revision::{RevKey, Revision};
use crate::tables::printable;

/// Records of one origin, as far as they count.
#[derive(Clone)]
pub(crate) struct Layer {
    /// What of it counts.
    revisions: RevisionRange,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    /// The key space of a file.
    File(Box<Bucket>),
    Elsewhere(Arc<dyn Records>),
}

impl Layer {
    /// The key space of a file, all of it.
    pub(crate) fn of_file(key: Bucket) -> Self {
        Self { revisions: RevisionRange::ALL, origin: Origin::File(Box::new(key)) }
    }

    /// Those of `records` that are of `revisions`.
    pub(crate) fn elsewhere(revisions: RevisionRange, records: Arc<dyn Records>) -> Self {
        Self { revisions, origin: Origin::Elsewhere(records) }
    }

    /// The layer without what comes after `last`.
    pub(crate) fn cut_after(self, last: Revision) -> Self {
        Self { revisions: self.revisions.within(&RevisionRange::up_to(last)), ..self }
    }

    /// What of it counts.
    pub(crate) fn revisions(&self) -> RevisionRange {
        self.revisions
    }

    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&BoltFile> {
        match &self.origin {
            Origin::File(key) => Some(key.file()),
            Origin::Elsewhere(_) => None,
        }
    }

    /// The records, if they are kept elsewhere.
    pub(crate) fn records(&self) -> Option<&dyn Records> {
        match &self.origin {
            Origin::File(_) => None,
            Origin::Elsewhere(records) => Some(&**records),
        }
    }

    /// About how many bytes there are to read.
    pub(crate) fn size_bytes(&self) -> u64 {
        match &self.origin {
            _ if self.revisions.is_empty() => 0,
            Origin::File(key) => key.file().used_bytes(),
            Origin::Elsewhere(records) => records.size_bytes(),
        }
    }

    /// The last of its records that counts.
    pub(crate) fn last(&self) -> Result<Option<RevKey>, Error> {
        let last = match &self.origin {
            _ if self.revisions.is_empty() => None,
            Origin::File(key) => last_up_to(key, self.revisions.to)?,
            Origin::Elsewhere(records) => match records.last()? {
                Some(last) if last.main > self.revisions.to => self.search_last(&**records)?,
                last => last,
            },
        };
        Ok(last.filter(|&last| self.revisions.has(last)))
    }

    fn search_last(&self, records: &dyn Records) -> Result<Option<RevKey>, Error> {
        let mut last = None;
        let mut look = |at: RevKey, _: &[u8]| {
            last = Some(at);
            Ok(if at.main > self.revisions.to { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        records.read(Direction::Backwards, &mut look)?;
        Ok(last)
    }

    /// The last revision before `at`, if this is a file that lacks `at` and has later ones.
    pub(crate) fn last_before_hole(&self, at: Revision) -> Result<Option<Revision>, Error> {
        match &self.origin {
            Origin::File(key) if at <= self.revisions.to => last_before_hole(key, at),
            _ => Ok(None),
        }
    }

    /// The value of the record called `at`, if it is there and counts.
    pub(crate) fn get(&self, at: RevKey) -> Result<Option<Vec<u8>>, Error> {
        match &self.origin {
            _ if !self.revisions.has(at) => Ok(None),
            Origin::File(key) => Ok(key.get(&at.encode())?),
            Origin::Elsewhere(records) => records.find(at),
        }
    }

    /// What there is to read of `range`, in revision order. Of a file, some around it may come along.
    pub(crate) fn parts(&self, range: RevisionRange) -> Result<Vec<Part<'_>>, Error> {
        let wanted = self.revisions.within(&range);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let key = match &self.origin {
            Origin::File(key) => key,
            Origin::Elsewhere(records) => return Ok(vec![Part::Elsewhere { records: &**records, wanted }]),
        };
        let from = RevKey { main: wanted.from, sub: 0, tombstone: false }.encode();
        let to = RevKey { main: wanted.to, sub: i64::MAX, tombstone: true }.encode();
        let spans = key.spans(KeyRange { from: Some(&from), to: Some(&to) })?;
        Ok(grouped(spans).map(|spans| Part::Spans { file: key.file(), spans, counted: self.revisions }).collect())
    }
}

/// The last record of `key` that is not after `last`.
fn last_up_to(key: &Bucket, last: Revision) -> Result<Option<RevKey>, Error> {
    let mut cursor = key.cursor();
    let after = RevKey { main: last.next(), sub: 0, tombstone: false }.encode();
    // The last revision of all has none after it.
    let found = match last.next() > last && cursor.seek(&after)?.is_some() {
        true => cursor.previous()?,
        false => cursor.last()?,
    };
    found.map(|entry| parse_key(require_pair(entry)?.key)).transpose()
}

/// The last revision of `key` before `at`, if `at` has no record and a later revision has.
fn last_before_hole(key: &Bucket, at: Revision) -> Result<Option<Revision>, Error> {
    let mut cursor = key.cursor();
    let from = RevKey { main: at, sub: 0, tombstone: false }.encode();
    let Some(found) = cursor.seek(&from)? else { return Ok(None) };
    if parse_key(found.key)?.main == at {
        return Ok(None);
    }
    let before = cursor.previous()?.map(|entry| parse_key(entry.key)).transpose()?;
    Ok(Some(before.map_or(Revision::FIRST, |before| before.main)))
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

/// What one worker reads at a time.
pub(crate) enum Part<'a> {
    /// Neighbouring leaves of a file; of their records, those count that are `counted`.
    Spans { file: &'a BoltFile, spans: Vec<Span>, counted: RevisionRange },
    /// What is `wanted` of records that are kept elsewhere.
    Elsewhere { records: &'a dyn Records, wanted: RevisionRange },
}

/// What of each record is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its value.
    Value,
    /// The key that it changes, if it is `within` these revisions.
    Key { within: RevisionRange },
}

impl Told {
    fn of<'a>(self, entry: &Entry<'a>) -> Seen<'a> {
        let Self::Key { within } = self else { return Seen::Entry(entry.key, entry.value) };
        match RevKey::parse(entry.key).filter(|at| within.has(*at)) {
            Some(at) => match (Record { at, value: entry.value }).key() {
                Ok(key) => Seen::Entry(entry.key, key),
                Err(error) => Seen::Lost(error),
            },
            // Whoever sees it asks for nothing but its revision.
            None => Seen::Entry(entry.key, &[]),
        }
    }
}

/// What whoever reads comes by.
pub(crate) enum Seen<'a> {
    /// An entry: its key, and what is told of it.
    Entry(&'a [u8], &'a [u8]),
    /// Something of a file that is no record, or cannot be read. Behind it there may be more.
    Lost(Error),
}

/// Is shown what there is, and decides whether to go on.
pub(crate) trait Show: FnMut(Seen<'_>) -> Result<ControlFlow<()>, Error> {}

impl<F: FnMut(Seen<'_>) -> Result<ControlFlow<()>, Error>> Show for F {}

impl Part<'_> {
    /// Shows `show` what there is, until it breaks. `reader` is the worker's, for the file.
    pub(crate) fn read(
        &self,
        reader: &mut Option<SpanReader>,
        direction: Direction,
        told: Told,
        show: &mut impl Show,
    ) -> Result<(), Error> {
        match self {
            Self::Spans { file, spans, counted } => {
                let reader = reader.get_or_insert_with(|| SpanReader::new(file));
                read_spans(reader, spans, *counted, direction, told, show)
            }
            Self::Elsewhere { records, wanted } => read_records(*records, *wanted, direction, told, show),
        }
    }
}

fn read_spans(
    reader: &mut SpanReader,
    spans: &[Span],
    counted: RevisionRange,
    direction: Direction,
    told: Told,
    show: &mut impl Show,
) -> Result<(), Error> {
    let all = counted == RevisionRange::ALL;
    let corrupt = |corrupt: Corrupt| Seen::Lost(bolt_file::Error::from(corrupt).into());
    let mut visit = |leaf: Result<Leaf<'_>, Corrupt>| {
        let leaf = match leaf {
            Ok(leaf) => leaf,
            Err(error) => return show(corrupt(error)),
        };
        for index in direction.places(leaf.len()) {
            let seen = match leaf.get(index) {
                Ok(None) => break,
                Ok(Some(entry)) => match require_pair(entry) {
                    // What is no revision cannot be said not to count.
                    Ok(entry) if all || RevKey::parse(entry.key).is_none_or(|at| counted.has(at)) => told.of(&entry),
                    Ok(_) => continue,
                    Err(error) => Seen::Lost(error),
                },
                Err(error) => corrupt(error),
            };
            if show(seen)?.is_break() {
                return Ok::<_, Error>(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    for span in direction.places(spans.len()).filter_map(|index| spans.get(index)) {
        if reader.leaves_around(span, direction, &mut visit)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Refuses a bucket, which etcd would take for a record of nothing: what is in it would be lost without a word.
fn require_pair(entry: Entry<'_>) -> Result<Entry<'_>, Error> {
    match entry.is_bucket {
        true => Err(Error::Record { entry: printable(entry.key), at: None, fault: RecordFault::Bucket }),
        false => Ok(entry),
    }
}

fn read_records(
    records: &dyn Records,
    wanted: RevisionRange,
    direction: Direction,
    told: Told,
    show: &mut impl Show,
) -> Result<(), Error> {
    let is_past = |at: RevKey| match direction {
        Direction::Forwards => at.main > wanted.to,
        Direction::Backwards => at.main < wanted.from,
    };
    let mut visit = |at: RevKey, bytes: &[u8]| match wanted.has(at) {
        true => show(Seen::Entry(&at.encode(), bytes)),
        false if is_past(at) => Ok(ControlFlow::Break(())),
        false => Ok(ControlFlow::Continue(())),
    };
    match told {
        Told::Value => records.read(direction, &mut visit),
        Told::Key { .. } => records.read_keys(direction, &mut visit),
    }
}
