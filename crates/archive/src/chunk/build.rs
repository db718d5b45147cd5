//! Making a chunk, record by record.

use std::collections::HashMap;

use etcd_data::{KeyValue, RevKey, Revision};

use super::column::Packer;
use super::edit::Shape;
use super::generation::{Numbers, expected, remembered};
use super::keys::{KeyTable, MAX_KEY_BYTES};
use super::{
    DELETE, EDITED, EMPTY, FAR, GIVEN, KEYLESS, LEASE, LITERAL, MAX_CHANGES, MAX_COLUMN_BYTES, MAX_RAW_BYTES,
    MAX_RECORDS, ODD, WITHIN,
};
use crate::fields::{put_number, put_signed};

/// Records on their way into a chunk.
#[derive(Default)]
pub(crate) struct ChunkBuilder {
    flags: Vec<u8>,
    revisions: Vec<u8>,
    back: [Vec<u8>; 3],
    creates: Vec<u8>,
    mods: Vec<u8>,
    versions: Vec<u8>,
    leases: Vec<u8>,
    sizes: Vec<u8>,
    forms: Vec<u8>,
    edits: Vec<u8>,
    comes: Vec<u8>,
    values: Vec<u8>,

    keys: HashMap<Box<[u8]>, u32>,
    key_bytes: usize,
    /// Of each key, in the order in which they first came.
    states: Vec<State>,
    shapes: HashMap<Shape, u32>,
    shape_list: Vec<Shape>,
    changes: usize,
    last_lease: i64,
    first: Option<RevKey>,
    last: Option<RevKey>,
    raw_bytes: u64,
    keyless: bool,
    hope: Hope,
    scratch: Vec<u8>,
}

/// Whether edits may pay yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Hope {
    #[default]
    Some,
    /// In the chunk before they did not.
    None,
}

/// What is known of a key.
struct State {
    /// The place of its last record.
    last: u32,
    numbers: Option<Numbers>,
    value: Value,
    /// The form of its last edit.
    shape: Option<u32>,
}

/// The last value of a key.
enum Value {
    None,
    /// At this place of the column of values.
    Literal(usize, usize),
    Made(Vec<u8>),
}

/// What packs chunks of the one sort and of the other. Random values are larger the harder zstd looks for what they might
/// share; where there are mostly edits, there is little to pack, and much to find.
pub(crate) struct Packers {
    pub(crate) literal: Packer,
    pub(crate) edited: Packer,
}

/// A chunk that is done.
pub(crate) struct Packed {
    pub(crate) stored: Vec<u8>,
    pub(crate) keys: KeyTable,
    pub(crate) first: RevKey,
    pub(crate) last: RevKey,
    pub(crate) records: u32,
    pub(crate) raw_bytes: u64,
    pub(crate) keyless: bool,
}

/// How many times larger a chunk may become where that pays.
const GROWTH: usize = 2;
/// Bytes of columns above which new values pack no better, at the most; whoever reads two chunks at once has twice that.
const LITERAL_BYTES: usize = 4 << 20;
/// So many are gathered all the same to see whether keys come again, which those do after 10 s that change all the time.
const HOPEFUL_BYTES: usize = 8 << 20;

/// From this size on a column grows step by step.
const STEP_BYTES: usize = 1 << 20;

/// What a revision takes where it is written out.
pub(super) const REVISION_BYTES: u64 = 18;

impl ChunkBuilder {
    /// The bytes of the values in it, as they are kept.
    pub(crate) fn value_bytes(&self) -> usize {
        self.values.len()
    }

    /// Makes room for values of `bytes` in all, or for as many as a chunk has where edits do not pay: to grow to that takes as
    /// much again where it was before. What is not written to takes no memory.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.values.reserve_exact(bytes.min(self.most_bytes(HOPEFUL_BYTES)));
    }

    /// One for what comes next.
    pub(crate) fn next(&self) -> Self {
        let hope = if self.edits_pay() { Hope::Some } else { Hope::None };
        Self { hope, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    /// Whether one more record of `len` bytes may come, where the columns are to have `target` bytes: more if that pays,
    /// because many values are edits of one before, which must be in the chunk too, and less if it does not.
    pub(crate) fn has_room(&self, len: usize, target: usize) -> bool {
        let size = self.column_bytes();
        self.is_empty()
            || (self.flags.len() < MAX_RECORDS
                && size < self.most_bytes(target)
                && size + len + 64 < MAX_COLUMN_BYTES
                && self.raw_bytes + (len as u64) + REVISION_BYTES <= MAX_RAW_BYTES
                && self.key_bytes + len < MAX_KEY_BYTES)
    }

    /// How many bytes the columns may have before no more comes, where they are to have `target`.
    fn most_bytes(&self, target: usize) -> usize {
        match self.hope {
            _ if self.edits_pay() => target * GROWTH,
            Hope::Some => target.min(HOPEFUL_BYTES),
            Hope::None => target.min(LITERAL_BYTES),
        }
    }

    /// Whether edits make the columns a good deal smaller than the records.
    fn edits_pay(&self) -> bool {
        self.raw_bytes > self.column_bytes() as u64 / 4 * 5
    }

    /// About how many bytes the columns have.
    fn column_bytes(&self) -> usize {
        let columns = [&self.revisions, &self.creates, &self.mods, &self.versions, &self.leases, &self.sizes];
        let columns = columns.into_iter().chain([&self.forms, &self.edits, &self.comes, &self.values]);
        // Flags and `back` have four bytes of each record, keys a rank and at least two sizes.
        self.flags.len() * 4 + columns.map(Vec::len).sum::<usize>() + self.key_bytes + self.states.len() * 6
    }

    /// Adds a record, which must come after those before.
    pub(crate) fn push(&mut self, at: RevKey, record: &[u8]) {
        let mut flags = self.revision(at);
        let parsed = KeyValue::parse(record).ok().filter(|parsed| self.is_as_etcd_writes(parsed, record));
        flags |= match parsed {
            Some(parsed) => self.key_value(at, &parsed),
            None => self.odd(record),
        };
        self.flags.push(flags);
        self.first.get_or_insert(at);
        self.last = Some(at);
        self.raw_bytes += record.len() as u64 + REVISION_BYTES;
    }

    fn revision(&mut self, at: RevKey) -> u8 {
        let delete = if at.tombstone { DELETE } else { 0 };
        let before = self.last.map_or((0, 0), |last| (last.main.0, last.sub));
        let way = match (at.main.0.wrapping_sub(before.0), at.sub.wrapping_sub(before.1)) {
            (1, _) if at.sub == 0 => 0,
            (0, 1) => WITHIN,
            (mains, _) => {
                put_signed(&mut self.revisions, mains);
                put_number(&mut self.revisions, at.sub as u64);
                FAR
            }
        };
        delete | way
    }

    /// Whether `record` is what becomes of `parsed`. Its value, which is nearly all of it, is not copied for that.
    fn is_as_etcd_writes(&mut self, parsed: &KeyValue<'_>, record: &[u8]) -> bool {
        self.scratch.clear();
        parsed.encode_before_value(&mut self.scratch);
        let Some(rest) = record.strip_prefix(self.scratch.as_slice()) else { return false };
        let Some((value, rest)) = rest.split_at_checked(parsed.value.len()) else { return false };
        self.scratch.clear();
        parsed.encode_after_value(&mut self.scratch);
        rest == self.scratch && (std::ptr::eq(value, parsed.value) || value == parsed.value)
    }

    fn odd(&mut self, record: &[u8]) -> u8 {
        put_number(&mut self.sizes, record.len() as u64);
        make_room(&mut self.values, record.len());
        self.values.extend_from_slice(record);
        match KeyValue::parse_key(record) {
            Ok(key) => {
                let state = self.state_of(key);
                if let Some(state) = self.states.get_mut(state) {
                    state.numbers = None;
                }
                ODD
            }
            Err(_) => {
                self.keyless = true;
                ODD | KEYLESS
            }
        }
    }

    fn key_value(&mut self, at: RevKey, parsed: &KeyValue<'_>) -> u8 {
        let index = self.state_of(parsed.key);
        let Some(state) = self.states.get_mut(index) else { return EMPTY };
        let KeyValue { create_revision, mod_revision, version, lease, .. } = *parsed;
        let numbers = Numbers { create: create_revision, modified: mod_revision, version, lease };
        let expected = expected(at, state.numbers);
        state.numbers = remembered(at, numbers);

        let mut flags = 0;
        if (Numbers { lease, ..expected }) != numbers {
            let before = |revision: Revision| at.main.0.wrapping_sub(revision.0);
            put_signed(&mut self.creates, before(create_revision));
            put_signed(&mut self.mods, before(mod_revision));
            put_signed(&mut self.versions, version);
            flags |= GIVEN;
        }
        if lease != expected.lease {
            put_signed(&mut self.leases, lease.0.wrapping_sub(self.last_lease));
            self.last_lease = lease.0;
            flags |= LEASE;
        }
        flags | self.value(index, parsed.value)
    }

    /// The state of a key, whose next record this is.
    fn state_of(&mut self, key: &[u8]) -> usize {
        let record = self.flags.len() as u32;
        let known = self.keys.get(key).map(|&index| index as usize);
        let index = known.unwrap_or_else(|| {
            let index = self.states.len();
            self.keys.insert(key.into(), index as u32);
            self.key_bytes += key.len();
            self.states.push(State { last: record, numbers: None, value: Value::None, shape: None });
            index
        });
        let back = self.states.get_mut(index).map_or(0, |state| record - std::mem::replace(&mut state.last, record));
        put_planes(&mut self.back, back);
        index
    }

    fn value(&mut self, index: usize, value: &[u8]) -> u8 {
        let Some(state) = self.states.get_mut(index).filter(|_| !value.is_empty()) else { return EMPTY };
        let old = match &state.value {
            Value::None => &[],
            Value::Literal(start, len) => self.values.get(*start..start + len).unwrap_or_default(),
            Value::Made(made) => made,
        };
        if let Some(edit) = edit(old, value, state.shape.and_then(|shape| self.shape_list.get(shape as usize))) {
            let form = match edit {
                Edit::AsBefore => state.shape,
                Edit::New(shape) => match self.shapes.get(&shape) {
                    Some(&known) => Some(known),
                    None if self.changes + shape.changes() > MAX_CHANGES => None,
                    None => {
                        let form = self.shape_list.len() as u32;
                        self.changes += shape.changes();
                        shape.encode(&mut self.edits);
                        self.shapes.insert(shape.clone(), form);
                        self.shape_list.push(shape);
                        Some(form)
                    }
                },
            };
            if let Some((form, shape)) = form.and_then(|form| Some((form, self.shape_list.get(form as usize)?))) {
                make_room(&mut self.comes, shape.comes());
                put_number(&mut self.forms, if state.shape == Some(form) { 0 } else { u64::from(form) + 1 });
                shape.take(value, &mut self.comes);
                state.shape = Some(form);
                match &mut state.value {
                    Value::Made(made) => {
                        made.clear();
                        made.extend_from_slice(value);
                    }
                    other => *other = Value::Made(value.into()),
                }
                return EDITED;
            }
        }
        put_number(&mut self.sizes, value.len() as u64);
        state.value = Value::Literal(self.values.len(), value.len());
        make_room(&mut self.values, value.len());
        self.values.extend_from_slice(value);
        LITERAL
    }

    /// Packs all of it, with one packer or the other.
    pub(crate) fn pack(self, packers: &mut Packers) -> std::io::Result<Option<Packed>> {
        let (Some(first), Some(last)) = (self.first, self.last) else { return Ok(None) };
        let packer = if self.edits_pay() { &mut packers.edited } else { &mut packers.literal };
        // The newest values of all keys: as much as the columns, where most are edits.
        drop(self.states);
        let mut sorted: Vec<(Box<[u8]>, u32)> = self.keys.into_iter().collect();
        sorted.sort_unstable();
        let mut ranks = vec![0u32; sorted.len()];
        for (rank, (_, index)) in sorted.iter().enumerate() {
            if let Some(place) = ranks.get_mut(*index as usize) {
                *place = rank as u32;
            }
        }
        let count = ranks.len() as u32;
        let mut rank_planes = Default::default();
        let mut before = count.wrapping_sub(1);
        for rank in ranks {
            put_planes(&mut rank_planes, (rank + count - 1 - before) % count.max(1));
            before = rank;
        }
        let keys = KeyTable::of(sorted.iter().map(|(key, _)| &**key));

        let mut stored = Vec::new();
        put_number(&mut stored, self.flags.len() as u64);
        keys.pack(packer, &mut stored)?;
        let columns = [&self.flags, &self.revisions].into_iter().chain(&self.back).chain(&rank_planes);
        let numbers = [&self.creates, &self.mods, &self.versions, &self.leases, &self.sizes, &self.forms];
        for column in columns.chain(numbers).chain([&self.edits, &self.comes, &self.values]) {
            packer.pack(column, &mut stored)?;
        }
        let records = self.flags.len() as u32;
        Ok(Some(Packed { stored, keys, first, last, records, raw_bytes: self.raw_bytes, keyless: self.keyless }))
    }
}

/// Makes room in `column` for `len` more bytes. Doubling what is large would need three times of it for a moment, and half of
/// that for good.
fn make_room(column: &mut Vec<u8>, len: usize) {
    if column.capacity() - column.len() < len && column.len() >= STEP_BYTES {
        column.reserve_exact(len.max(STEP_BYTES));
    }
}

/// How a value is told by the one before.
enum Edit {
    /// With the form of the key's last edit.
    AsBefore,
    New(Shape),
}

/// The edit that makes `new` of `old`, if that is worth it. The form `before` is taken again where it is hardly
/// longer: forms that seldom change cost nothing.
fn edit(old: &[u8], new: &[u8], before: Option<&Shape>) -> Option<Edit> {
    const HARDLY_LONGER: usize = 8;
    if old.is_empty() {
        return None;
    }
    let shortest = Shape::between(old, new);
    if let Some(before) = before
        && before.fits(old, new)
        && before.comes() <= shortest.as_ref().map_or(0, Shape::comes) + HARDLY_LONGER
    {
        return Some(Edit::AsBefore);
    }
    shortest.filter(|shape| (shape.comes() + 3 * shape.changes()) * 2 <= new.len() + 8).map(Edit::New)
}

/// Appends the bytes of `number`, each to the column of its own.
fn put_planes(planes: &mut [Vec<u8>; 3], number: u32) {
    for (plane, byte) in planes.iter_mut().zip(number.to_le_bytes()) {
        plane.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_takes_no_more_memory_than_a_step_beside_what_is_in_it() {
        for told_bytes in [0, 5 << 20, 1 << 30] {
            let mut builder = ChunkBuilder::default();
            builder.reserve(told_bytes);
            let mut main = 0;
            while builder.has_room(1024, 16 << 20) {
                main += 1;
                let (key, value) = (format!("key {main}"), main.to_string().repeat(100));
                let put = KeyValue {
                    key: key.as_bytes(),
                    value: value.as_bytes(),
                    create_revision: Revision(main),
                    mod_revision: Revision(main),
                    version: 1,
                    ..KeyValue::default()
                };
                let mut record = Vec::new();
                put.encode(&mut record);
                builder.push(RevKey { main: Revision(main), sub: 0, tombstone: false }, &record);
            }
            let room = builder.values.capacity();
            assert!(builder.values.len() > HOPEFUL_BYTES / 2, "{} bytes", builder.values.len());
            assert!(room <= HOPEFUL_BYTES + STEP_BYTES, "{room} bytes where {told_bytes} were told");
        }
    }
}
