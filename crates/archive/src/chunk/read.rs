//! Reading a chunk, forwards or backwards.

use etcd_data::database::Direction;
use etcd_data::records::Visit;
use etcd_data::{KeyValue, LeaseId, RevKey, Revision};

use super::build::REVISION_BYTES;
use super::column::Unpacker;
use super::course::{Course, NO_SUCH_KEY, Place, Way};
use super::edit::Shape;
use super::generation::{Numbers, expected, remembered};
use super::{EDITED, GIVEN, LEASE, LITERAL, MAX_CHANGES, MAX_RAW_BYTES, MAX_RECORDS, ODD, VALUE};
use crate::fields::{Fault, Fields};

/// A chunk whose columns are unpacked.
pub(crate) struct Chunk {
    course: Course,
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

impl Chunk {
    pub(crate) fn unpack(stored: &[u8], unpacker: &mut Unpacker) -> Result<Self, Fault> {
        let mut fields = Fields::of(stored);
        let (course, mut left) = Course::unpack(&mut fields, unpacker)?;
        let mut next = || unpacker.unpack_within(&mut fields, &mut left);
        let chunk = Self {
            course,
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
        fields.end().map(|()| chunk)
    }

    pub(crate) fn records(&self) -> usize {
        self.course.records()
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
    /// Which key it changes, as the course tells it.
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
#[derive(Default)]
struct State {
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
    way: Way<'a>,
    creates: Fields<'a>,
    mods: Fields<'a>,
    versions: Fields<'a>,
    leases: Fields<'a>,
    sizes: Fields<'a>,
    forms: Fields<'a>,
    comes: Fields<'a>,
    values: Fields<'a>,
    last_lease: i64,
    /// What is known of each key so far, in the order in which they came: neighbours in memory are used together.
    states: Vec<State>,
    scratch: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn of(chunk: &'a Chunk) -> Self {
        let way = Way::along(&chunk.course);
        Self {
            chunk,
            states: Vec::with_capacity(way.key_count()),
            way,
            creates: Fields::of(&chunk.creates),
            mods: Fields::of(&chunk.mods),
            versions: Fields::of(&chunk.versions),
            leases: Fields::of(&chunk.leases),
            sizes: Fields::of(&chunk.sizes),
            forms: Fields::of(&chunk.forms),
            comes: Fields::of(&chunk.comes),
            values: Fields::of(&chunk.values),
            last_lease: 0,
            scratch: Vec::new(),
        }
    }

    /// The next record; what it took away of the value before goes to `gone`.
    fn next(&mut self, gone: Option<&mut Vec<u8>>) -> Result<Option<Row>, Fault> {
        let Some(Place { flags, at, key }) = self.way.next()? else { return Ok(None) };
        // A key that comes for the first time is the next.
        if key as usize == self.states.len() {
            self.states.push(State::default());
        }
        let gone_from = gone.as_ref().map_or(0, |gone| gone.len());
        let row = |numbers, value| Row { at, key, numbers, value, gone: gone_from };
        if flags & VALUE == ODD {
            if let Some(state) = self.states.get_mut(key as usize) {
                state.numbers = None;
            }
            let (start, len) = self.literal()?;
            return Ok(Some(row(Numbers::default(), RowValue::Odd(start, len))));
        }
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
        Ok(Some(row(numbers, value)))
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
        KeyValue { key: self.way.key(row.key), create_revision: create, mod_revision: modified, version, value, lease }
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
        self.way.end()?;
        let columns = [&self.creates, &self.mods, &self.versions, &self.leases, &self.sizes];
        columns.into_iter().chain([&self.forms, &self.comes, &self.values]).try_for_each(Fields::end)
    }
}
