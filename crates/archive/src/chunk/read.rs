//! Reading a chunk, forwards or backwards.

use etcd_data::database::Direction;
use etcd_data::records::Visit;
use etcd_data::{KeyValue, LeaseId, RevKey, Revision};

use super::build::REVISION_BYTES;
use super::column::Unpacker;
use super::edit::Shape;
use super::generation::{Numbers, expected, remembered};
use super::keys::KeyTable;
use super::{
    DELETE, EDITED, FAR, GIVEN, KEYLESS, LEASE, LITERAL, MAX_CHANGES, MAX_COLUMN_BYTES, MAX_RAW_BYTES,
    MAX_RECORD_BYTES, MAX_RECORDS, ODD, VALUE, WITHIN,
};
use crate::fields::{Fault, Fields};

/// A chunk whose columns are unpacked.
pub(crate) struct Chunk {
    keys: KeyTable,
    flags: Vec<u8>,
    revisions: Vec<u8>,
    back: [Vec<u8>; 3],
    ranks: [Vec<u8>; 3],
    creates: Vec<u8>,
    mods: Vec<u8>,
    versions: Vec<u8>,
    leases: Vec<u8>,
    sizes: Vec<u8>,
    forms: Vec<u8>,
    shapes: Vec<Shape>,
    comes: Vec<u8>,
    values: Vec<u8>,
}

/// Why reading a chunk ended before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The chunk is not what it should be.
    Fault(Fault),
    /// Whoever looked at the records failed.
    Visitor(etcd_data::Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The keys of a chunk, without unpacking the rest.
pub(crate) fn keys_of(stored: &[u8], unpacker: &mut Unpacker) -> Result<KeyTable, Fault> {
    let mut fields = Fields::of(stored);
    let records = fields.size(MAX_RECORDS)?;
    keys(records, unpacker, &mut fields, &mut limit_for(records))
}

/// What is kept of a key while records are read can be far larger than the key, so keys that no record can be of are not let in.
fn keys(records: usize, unpacker: &mut Unpacker, fields: &mut Fields<'_>, left: &mut usize) -> Result<KeyTable, Fault> {
    let keys = KeyTable::unpack(unpacker, fields, left)?;
    if keys.len() > records { Err(NO_SUCH_RECORD) } else { Ok(keys) }
}

fn limit_for(records: usize) -> usize {
    if records > 1 { MAX_COLUMN_BYTES } else { MAX_RECORD_BYTES }
}

impl Chunk {
    pub(crate) fn unpack(stored: &[u8], unpacker: &mut Unpacker) -> Result<Self, Fault> {
        let mut fields = Fields::of(stored);
        let records = fields.size(MAX_RECORDS)?;
        let mut left = limit_for(records);
        let keys = keys(records, unpacker, &mut fields, &mut left)?;
        let mut next = || unpacker.unpack_within(&mut fields, &mut left);
        let chunk = Self {
            keys,
            flags: next()?,
            revisions: next()?,
            back: [next()?, next()?, next()?],
            ranks: [next()?, next()?, next()?],
            creates: next()?,
            mods: next()?,
            versions: next()?,
            leases: next()?,
            sizes: next()?,
            forms: next()?,
            shapes: shapes(&next()?)?,
            comes: next()?,
            values: next()?,
        };
        fields.end()?;
        if chunk.flags.len() != records {
            return Err(Fault("it has another number of records than it says"));
        }
        Ok(chunk)
    }

    pub(crate) fn records(&self) -> usize {
        self.flags.len()
    }

    /// Shows every record to `visit`, until it breaks.
    pub(crate) fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Stop> {
        match direction {
            Direction::Forwards => self.forwards(visit),
            Direction::Backwards => self.backwards(visit),
        }
    }

    fn forwards(&self, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let mut walk = Walk::of(self);
        let (mut encoded, mut raw_bytes) = (Vec::new(), 0);
        while let Some(row) = walk.next(None)? {
            let record = walk.record(&row, &mut encoded);
            self.count(record.len(), &mut raw_bytes)?;
            if visit(row.at, record).map_err(Stop::Visitor)?.is_break() {
                return Ok(());
            }
        }
        walk.end().map_err(Stop::Fault)
    }

    /// Goes through all of it once, remembering what each edit took away, and then back.
    fn backwards(&self, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let mut walk = Walk::of(self);
        let (mut gone, mut rows) = (Vec::new(), Vec::new());
        let (mut encoded, mut raw_bytes) = (Vec::new(), 0);
        while let Some(row) = walk.next(Some(&mut gone))? {
            self.count(walk.size_bytes(&row, &mut encoded), &mut raw_bytes)?;
            rows.push(row);
        }
        walk.end()?;
        for row in rows.iter().rev() {
            let record = walk.record(row, &mut encoded);
            if visit(row.at, record).map_err(Stop::Visitor)?.is_break() {
                return Ok(());
            }
            walk.undo(row, &mut gone)?;
        }
        Ok(())
    }

    /// Adds a record of `len` bytes to `raw_bytes`. More than there can be are refused from either end: a few bytes of edits
    /// could keep a large value again and again.
    fn count(&self, len: usize, raw_bytes: &mut u64) -> Result<(), Fault> {
        *raw_bytes += len as u64 + REVISION_BYTES;
        let too_large = *raw_bytes > MAX_RAW_BYTES && self.records() > 1;
        if too_large { Err(Fault("its records are larger than they can be")) } else { Ok(()) }
    }
}

fn shapes(edits: &[u8]) -> Result<Vec<Shape>, Fault> {
    let mut fields = Fields::of(edits);
    let (mut shapes, mut changes) = (Vec::new(), 0);
    while !fields.is_empty() {
        let shape = Shape::parse(&mut fields)?;
        changes += shape.changes();
        if changes > MAX_CHANGES || shapes.len() > MAX_RECORDS {
            return Err(Fault("there are more forms of edits than there can be"));
        }
        shapes.push(shape);
    }
    Ok(shapes)
}

/// One record, but for the bytes of its key and its value.
struct Row {
    at: RevKey,
    /// The place of the state of its key.
    key: u32,
    numbers: Numbers,
    value: RowValue,
    /// Where what it took away begins, if that is remembered.
    gone: usize,
}

enum RowValue {
    Empty,
    Literal(usize, usize),
    /// What the key has now; with the place of the form of the edit.
    Edited(u32),
    Odd(usize, usize),
}

/// What is known of a key while records pass by.
struct State {
    /// Which key it is.
    rank: u32,
    numbers: Option<Numbers>,
    value: Value,
    shape: Option<u32>,
}

/// The last value of a key.
#[derive(Default)]
enum Value {
    #[default]
    None,
    /// At this place of the column of values.
    Literal(usize, usize),
    Made(Vec<u8>),
}

impl Value {
    fn bytes<'a>(&'a self, values: &'a [u8]) -> &'a [u8] {
        match self {
            Self::None => &[],
            Self::Literal(start, len) => values.get(*start..*start + *len).unwrap_or_default(),
            Self::Made(made) => made,
        }
    }
}

/// A way through a chunk, with what is known of each key so far.
struct Walk<'a> {
    chunk: &'a Chunk,
    flags: Fields<'a>,
    revisions: Fields<'a>,
    back: [Fields<'a>; 3],
    ranks: [Fields<'a>; 3],
    creates: Fields<'a>,
    mods: Fields<'a>,
    versions: Fields<'a>,
    leases: Fields<'a>,
    sizes: Fields<'a>,
    forms: Fields<'a>,
    comes: Fields<'a>,
    values: Fields<'a>,
    last: Option<RevKey>,
    last_rank: u32,
    last_lease: i64,
    /// The place of the state of each record's key so far.
    keys: Vec<u32>,
    /// What is known of each key so far, in the order in which they came: neighbours in memory are used together.
    states: Vec<State>,
    /// Whether a key has come, by its rank.
    seen: Vec<bool>,
    scratch: Vec<u8>,
}

/// What stands for the key of a record that has none.
const NO_KEY: u32 = u32::MAX;

impl<'a> Walk<'a> {
    fn of(chunk: &'a Chunk) -> Self {
        let keys = chunk.keys.len();
        Self {
            chunk,
            flags: Fields::of(&chunk.flags),
            revisions: Fields::of(&chunk.revisions),
            back: chunk.back.each_ref().map(|plane| Fields::of(plane)),
            ranks: chunk.ranks.each_ref().map(|plane| Fields::of(plane)),
            creates: Fields::of(&chunk.creates),
            mods: Fields::of(&chunk.mods),
            versions: Fields::of(&chunk.versions),
            leases: Fields::of(&chunk.leases),
            sizes: Fields::of(&chunk.sizes),
            forms: Fields::of(&chunk.forms),
            comes: Fields::of(&chunk.comes),
            values: Fields::of(&chunk.values),
            last: None,
            last_rank: (keys as u32).wrapping_sub(1),
            last_lease: 0,
            keys: Vec::with_capacity(chunk.flags.len()),
            states: Vec::with_capacity(keys),
            seen: vec![false; keys],
            scratch: Vec::new(),
        }
    }

    /// The next record; what it took away of the value before goes to `gone`.
    fn next(&mut self, gone: Option<&mut Vec<u8>>) -> Result<Option<Row>, Fault> {
        if self.flags.is_empty() {
            return Ok(None);
        }
        let flags = self.flags.byte()?;
        let at = self.revision(flags)?;
        let gone_from = gone.as_ref().map_or(0, |gone| gone.len());
        let row = |key, numbers, value| Row { at, key, numbers, value, gone: gone_from };
        if flags & VALUE == ODD {
            let key = if flags & KEYLESS == 0 { self.key()? } else { NO_KEY };
            self.keys.push(key);
            if let Some(state) = self.states.get_mut(key as usize) {
                state.numbers = None;
            }
            let (start, len) = self.literal()?;
            return Ok(Some(row(key, Numbers::default(), RowValue::Odd(start, len))));
        }
        let key = self.key()?;
        self.keys.push(key);
        let numbers = self.numbers(flags, at, key)?;
        let value = match flags & VALUE {
            LITERAL => {
                let (start, len) = self.literal()?;
                let state = self.states.get_mut(key as usize).ok_or(NO_SUCH_KEY)?;
                if let Some(gone) = gone {
                    gone.extend_from_slice(state.value.bytes(&self.chunk.values));
                }
                state.value = Value::Literal(start, len);
                RowValue::Literal(start, len)
            }
            EDITED => RowValue::Edited(self.edit(key, gone)?),
            _ => RowValue::Empty,
        };
        Ok(Some(row(key, numbers, value)))
    }

    fn revision(&mut self, flags: u8) -> Result<RevKey, Fault> {
        let (main, sub) = self.last.map_or((0, 0), |last| (last.main.0, last.sub));
        let beyond = Fault("a revision is beyond what can be");
        let (main, sub) = match flags & (WITHIN | FAR) {
            0 => (main.checked_add(1), Some(0)),
            WITHIN => (Some(main), sub.checked_add(1)),
            _ => {
                let main = main.checked_add(self.revisions.signed()?);
                (main, i64::try_from(self.revisions.number()?).ok())
            }
        };
        let main = main.filter(|&main| main >= 0).ok_or(beyond)?;
        let at = RevKey { main: Revision(main), sub: sub.ok_or(beyond)?, tombstone: flags & DELETE != 0 };
        if self.last.is_some_and(|last| last >= at) {
            return Err(Fault("its records are not in order"));
        }
        self.last = Some(at);
        Ok(at)
    }

    fn key(&mut self) -> Result<u32, Fault> {
        let back = planes(&mut self.back)? as usize;
        if back > 0 {
            let key = self.keys.len().checked_sub(back).and_then(|index| self.keys.get(index)).copied();
            return key.filter(|&key| key != NO_KEY).ok_or(NO_SUCH_KEY);
        }
        let count = self.seen.len() as u64;
        let step = u64::from(planes(&mut self.ranks)?);
        let rank = (u64::from(self.last_rank) + 1 + step).checked_rem(count).ok_or(NO_SUCH_KEY)?;
        self.last_rank = rank as u32;
        let seen = self.seen.get_mut(rank as usize).ok_or(NO_SUCH_KEY)?;
        if std::mem::replace(seen, true) {
            return Err(Fault("a key has two first records"));
        }
        self.states.push(State { rank: self.last_rank, numbers: None, value: Value::None, shape: None });
        Ok(self.states.len() as u32 - 1)
    }

    fn numbers(&mut self, flags: u8, at: RevKey, key: u32) -> Result<Numbers, Fault> {
        let state = self.states.get_mut(key as usize).ok_or(NO_SUCH_KEY)?;
        let mut numbers = expected(at, state.numbers);
        if flags & GIVEN != 0 {
            numbers.create = Revision(at.main.0.wrapping_sub(self.creates.signed()?));
            numbers.modified = Revision(at.main.0.wrapping_sub(self.mods.signed()?));
            numbers.version = self.versions.signed()?;
        }
        if flags & LEASE != 0 {
            self.last_lease = self.last_lease.wrapping_add(self.leases.signed()?);
            numbers.lease = LeaseId(self.last_lease);
        }
        state.numbers = remembered(at, numbers);
        Ok(numbers)
    }

    fn literal(&mut self) -> Result<(usize, usize), Fault> {
        let start = self.chunk.values.len() - self.values.rest().len();
        let len = self.sizes.size(self.values.rest().len())?;
        self.values.bytes(len)?;
        Ok((start, len))
    }

    fn edit(&mut self, key: u32, gone: Option<&mut Vec<u8>>) -> Result<u32, Fault> {
        let state = self.states.get_mut(key as usize).ok_or(NO_SUCH_KEY)?;
        let form = match self.forms.number()? {
            0 => state.shape,
            form => u32::try_from(form - 1).ok(),
        };
        let unknown = Fault("an edit has an unknown form");
        let form = form.ok_or(unknown)?;
        let shape = self.chunk.shapes.get(form as usize).ok_or(unknown)?;
        let mut made = std::mem::take(&mut self.scratch);
        made.clear();
        shape.apply(state.value.bytes(&self.chunk.values), &mut self.comes, &mut made, gone)?;
        if let Value::Made(before) = std::mem::replace(&mut state.value, Value::Made(made)) {
            self.scratch = before;
        }
        state.shape = Some(form);
        Ok(form)
    }

    /// The bytes of the record that `row` tells of, which must be the last that was gone by.
    fn record<'b>(&'b self, row: &Row, encoded: &'b mut Vec<u8>) -> &'b [u8] {
        if let RowValue::Odd(start, len) = row.value {
            return self.literal_at(start, len);
        }
        encoded.clear();
        self.key_value(row).encode(encoded);
        encoded
    }

    /// How many bytes these are, without a copy of the value. What is around it goes to `encoded`.
    fn size_bytes(&self, row: &Row, encoded: &mut Vec<u8>) -> usize {
        if let RowValue::Odd(_, len) = row.value {
            return len;
        }
        let record = self.key_value(row);
        encoded.clear();
        record.encode_before_value(encoded);
        record.encode_after_value(encoded);
        encoded.len() + record.value.len()
    }

    /// What a row tells of that is not odd.
    fn key_value(&self, row: &Row) -> KeyValue<'_> {
        let state = self.states.get(row.key as usize);
        let value = match row.value {
            RowValue::Empty => &[],
            RowValue::Literal(start, len) | RowValue::Odd(start, len) => self.literal_at(start, len),
            RowValue::Edited(_) => state.map_or(&[][..], |state| state.value.bytes(&self.chunk.values)),
        };
        let Numbers { create, modified, version, lease } = row.numbers;
        let key = state.and_then(|state| self.chunk.keys.get(state.rank as usize)).unwrap_or_default();
        KeyValue { key, create_revision: create, mod_revision: modified, version, value, lease }
    }

    fn literal_at(&self, start: usize, len: usize) -> &'a [u8] {
        self.chunk.values.get(start..start + len).unwrap_or_default()
    }

    /// Makes the value of the key what it was before `row`.
    fn undo(&mut self, row: &Row, gone: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(state) = self.states.get_mut(row.key as usize) else { return Ok(()) };
        let went = gone.get(row.gone..).unwrap_or_default();
        match row.value {
            RowValue::Empty | RowValue::Odd(..) => {}
            RowValue::Literal(..) => state.value = Value::Made(went.into()),
            RowValue::Edited(form) => {
                let shape = self.chunk.shapes.get(form as usize).ok_or(NO_SUCH_KEY)?;
                let mut made = std::mem::take(&mut self.scratch);
                made.clear();
                let now = state.value.bytes(&self.chunk.values);
                shape.reversed().apply(now, &mut Fields::of(went), &mut made, None)?;
                if let Value::Made(before) = std::mem::replace(&mut state.value, Value::Made(made)) {
                    self.scratch = before;
                }
            }
        }
        gone.truncate(row.gone);
        Ok(())
    }

    /// Refuses what no record used.
    fn end(&self) -> Result<(), Fault> {
        let columns = [&self.revisions, &self.creates, &self.mods, &self.versions, &self.leases, &self.sizes];
        let columns = columns.into_iter().chain([&self.forms, &self.comes, &self.values]);
        columns.chain(&self.back).chain(&self.ranks).try_for_each(Fields::end)?;
        if self.seen.iter().all(|&seen| seen) { Ok(()) } else { Err(NO_SUCH_RECORD) }
    }
}

const NO_SUCH_RECORD: Fault = Fault("a key has no record");
const NO_SUCH_KEY: Fault = Fault("a record is of no key that there is");

/// The next number of which each byte stands in a column of its own.
fn planes(planes: &mut [Fields<'_>; 3]) -> Result<u32, Fault> {
    let [low, middle, high] = planes;
    Ok(u32::from_le_bytes([low.byte()?, middle.byte()?, high.byte()?, 0]))
}
