//! The course of a chunk: of each record its revision, and which key it changes. Nothing else is unpacked for it, and most of a
//! chunk is something else.

use etcd_data::database::Direction;
use etcd_data::records::Visit;
use etcd_data::{RevKey, Revision};

use super::column::Unpacker;
use super::keys::KeyTable;
use super::read::Stop;
use super::{DELETE, FAR, KEYLESS, MAX_COLUMN_BYTES, MAX_RECORD_BYTES, MAX_RECORDS, ODD, VALUE, WITHIN};
use crate::fields::{Fault, Fields};

/// The columns that tell it.
pub(crate) struct Course {
    keys: KeyTable,
    flags: Vec<u8>,
    revisions: Vec<u8>,
    back: [Vec<u8>; 3],
    ranks: [Vec<u8>; 3],
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

impl Course {
    /// That of the chunk `stored`.
    pub(crate) fn of(stored: &[u8], unpacker: &mut Unpacker) -> Result<Self, Fault> {
        Self::unpack(&mut Fields::of(stored), unpacker).map(|(course, _)| course)
    }

    /// Takes it off `fields`, the beginning of a chunk. Also gives how many bytes the columns after it may have.
    pub(super) fn unpack(fields: &mut Fields<'_>, unpacker: &mut Unpacker) -> Result<(Self, usize), Fault> {
        let records = fields.size(MAX_RECORDS)?;
        let mut left = limit_for(records);
        let keys = keys(records, unpacker, fields, &mut left)?;
        let mut next = || unpacker.unpack_within(fields, &mut left);
        let (flags, revisions) = (next()?, next()?);
        let (back, ranks) = ([next()?, next()?, next()?], [next()?, next()?, next()?]);
        match flags.len() == records {
            true => Ok((Self { keys, flags, revisions, back, ranks }, left)),
            false => Err(Fault("it has another number of records than it says")),
        }
    }

    pub(crate) fn records(&self) -> usize {
        self.flags.len()
    }

    /// Whether there are records from which not even a key can be read.
    pub(crate) fn has_keyless(&self) -> bool {
        self.flags.iter().any(|flags| flags & VALUE == ODD && flags & KEYLESS != 0)
    }

    /// Shows `visit` of every record the key that it changes, until it breaks. None may be without one.
    pub(crate) fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let mut way = Way::along(self);
        let mut show = |at, key| visit(at, key).map_err(Stop::Visitor);
        match direction {
            Direction::Forwards => {
                while let Some(place) = way.next()? {
                    if show(place.at, way.key(place.key)).map(|flow| flow.is_break())? {
                        return Ok(());
                    }
                }
                way.end().map_err(Stop::Fault)
            }
            Direction::Backwards => {
                let mut places = Vec::with_capacity(self.records());
                while let Some(place) = way.next()? {
                    places.push(place);
                }
                way.end()?;
                for place in places.iter().rev() {
                    if show(place.at, way.key(place.key))?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

/// A record, as far as its course goes.
pub(super) struct Place {
    pub(super) flags: u8,
    pub(super) at: RevKey,
    /// Which key it changes: as the how manieth it came.
    pub(super) key: u32,
}

/// A way along a course.
pub(super) struct Way<'a> {
    course: &'a Course,
    flags: Fields<'a>,
    revisions: Fields<'a>,
    back: [Fields<'a>; 3],
    ranks: [Fields<'a>; 3],
    last: Option<RevKey>,
    last_rank: u32,
    /// The key of each record so far.
    keys: Vec<u32>,
    /// The rank of each key so far, in the order in which they came.
    came: Vec<u32>,
    /// Whether a key has come, by its rank.
    seen: Vec<bool>,
}

/// What stands for the key of a record that has none.
pub(super) const NO_KEY: u32 = u32::MAX;

impl<'a> Way<'a> {
    pub(super) fn along(course: &'a Course) -> Self {
        let keys = course.keys.len();
        Self {
            course,
            flags: Fields::of(&course.flags),
            revisions: Fields::of(&course.revisions),
            back: course.back.each_ref().map(|plane| Fields::of(plane)),
            ranks: course.ranks.each_ref().map(|plane| Fields::of(plane)),
            last: None,
            last_rank: (keys as u32).wrapping_sub(1),
            keys: Vec::with_capacity(course.flags.len()),
            came: Vec::with_capacity(keys),
            seen: vec![false; keys],
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Place>, Fault> {
        if self.flags.is_empty() {
            return Ok(None);
        }
        let flags = self.flags.byte()?;
        let at = self.revision(flags)?;
        let is_keyless = flags & VALUE == ODD && flags & KEYLESS != 0;
        let key = if is_keyless { NO_KEY } else { self.next_key()? };
        self.keys.push(key);
        Ok(Some(Place { flags, at, key }))
    }

    /// How many keys there are in all.
    pub(super) fn key_count(&self) -> usize {
        self.seen.len()
    }

    /// The bytes of a key that came.
    pub(super) fn key(&self, key: u32) -> &'a [u8] {
        let rank = self.came.get(key as usize);
        rank.and_then(|&rank| self.course.keys.get(rank as usize)).unwrap_or_default()
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

    fn next_key(&mut self) -> Result<u32, Fault> {
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
        self.came.push(self.last_rank);
        Ok(self.came.len() as u32 - 1)
    }

    /// Refuses what no record used.
    pub(super) fn end(&self) -> Result<(), Fault> {
        [&self.revisions].into_iter().chain(&self.back).chain(&self.ranks).try_for_each(Fields::end)?;
        if self.seen.iter().all(|&seen| seen) { Ok(()) } else { Err(NO_SUCH_RECORD) }
    }
}

const NO_SUCH_RECORD: Fault = Fault("a key has no record");
pub(super) const NO_SUCH_KEY: Fault = Fault("a record is of no key that there is");

/// The next number of which each byte stands in a column of its own.
fn planes(planes: &mut [Fields<'_>; 3]) -> Result<u32, Fault> {
    let [low, middle, high] = planes;
    Ok(u32::from_le_bytes([low.byte()?, middle.byte()?, high.byte()?, 0]))
}
