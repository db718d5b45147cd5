//! The keys as they were at a revision.
//!
//! The file knows records by revision, not by key. A key is what its newest record up to the revision says; so a
//! pass backwards that remembers the keys it came by sees of each the one that counts first. It remembers
//! fingerprints (20 to 39 bytes per key, see [`crate::fingerprint`]); values are never kept.

use std::ops::ControlFlow;

use prost::encoding::{decode_varint, encode_varint};

use crate::batch::Batch;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeySet};
use crate::holes::{self, Dense, Holes, Stretch};
use crate::key_value::{KeyMatcher, KeyValue, OwnedKeyValue};
use crate::revision::{RevKey, Revision};
use crate::tables::LeaseId;
use crate::view::{Horizon, ViewError};

/// Which keys are meant. The empty key, which only a database with a raised revision has, never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys<'a> {
    /// All.
    All,
    /// One.
    One(&'a [u8]),
    /// Those that begin so.
    Prefix(&'a [u8]),
    /// Those from the first on, up to and without the second.
    Range(&'a [u8], &'a [u8]),
}

impl Keys<'_> {
    /// Whether `key` is one of them.
    pub fn has(&self, key: &[u8]) -> bool {
        !key.is_empty()
            && match *self {
                Self::All => true,
                Self::One(one) => key == one,
                Self::Prefix(prefix) => key.starts_with(prefix),
                Self::Range(from, to) => from <= key && key < to,
            }
    }
}

/// What `key` was at revision `at`, or is now; nothing if it did not exist.
pub fn get(database: &Database, key: &[u8], at: Option<Revision>) -> Result<Option<OwnedKeyValue>, ViewError> {
    let newest = newest_of(database, key, at)?.record;
    Ok(newest.filter(|(at, _)| !at.tombstone).map(|(_, found)| found))
}

/// The last that became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Its newest record, a deletion too; nothing if there is none.
    pub record: Option<(RevKey, OwnedKeyValue)>,
    /// What the file lacks after that: changes of the key may be among it.
    pub holes: Option<Holes>,
}

/// The last that became of `key` up to revision `at`, or up to now.
///
/// All cores search backwards, and stop as soon as the answer is known. Of what is kept elsewhere, little is read
/// that is not needed.
pub fn newest_of(database: &Database, key: &[u8], at: Option<Revision>) -> Result<Newest, ViewError> {
    let at = Horizon::of(database)?.at(database, at)?;
    let matcher = KeyMatcher::new(key);
    let dense = Dense::of(database)?;
    let mut newest = Searched::default();
    let step = |part: &mut Searched, record: Record<'_>| {
        part.stretch.take(&dense, record.at);
        if !matcher.matches(record.value) {
            return Ok(Next::More);
        }
        part.found = Some((record.at, record.key_value()?.to_owned()));
        Ok(Next::Enough)
    };
    let take = |part: Searched| {
        newest.stretch.join(&dense, part.stretch);
        newest.found = part.found;
        Ok::<_, Error>(if newest.found.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    database.search_back(RevisionRange::up_to(at), step, take)?;
    let Searched { found: record, stretch } = newest;
    let holes = if record.is_some() { stretch.holes() } else { stretch.holes_from_the_beginning(&dense) };
    Ok(Newest { record, holes })
}

/// What was searched, and found at its beginning.
#[derive(Default)]
struct Searched {
    found: Option<(RevKey, OwnedKeyValue)>,
    stretch: Stretch,
}

/// How many of `keys` there were at revision `at`, or are now.
pub fn count(database: &Database, at: Option<Revision>, keys: Keys<'_>) -> Result<u64, ViewError> {
    let at = Horizon::of(database)?.at(database, at)?;
    let mut count = 0;
    newest(
        database,
        at,
        keys,
        |_| ((), &[]),
        |record, (), _| {
            count += u64::from(!record.tombstone);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(count)
}

/// Shows `visit` those of `keys` that there were at revision `at`, or are now, the last changed first, until it breaks.
pub fn visit(
    database: &Database,
    at: Option<Revision>,
    keys: Keys<'_>,
    mut visit: impl FnMut(RevKey, KeyValue<'_>) -> ControlFlow<()>,
) -> Result<(), ViewError> {
    let at = Horizon::of(database)?.at(database, at)?;
    newest(
        database,
        at,
        keys,
        |record| ((), record.value),
        |at, (), value| {
            if at.tombstone {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(visit(at, Record { at, value }.key_value()?))
        },
    )?;
    Ok(())
}

/// Shows `take` the newest record up to `at` of each of `keys`, deletions too, the last first, with what `carry` makes of it and
/// the bytes of it that it picks. Returns what the file lacks of what was come by.
pub(crate) fn newest<T: Send>(
    database: &Database,
    at: Revision,
    keys: Keys<'_>,
    carry: impl for<'a> Fn(&Record<'a>) -> (T, &'a [u8]) + Sync,
    mut take: impl FnMut(RevKey, &T, &[u8]) -> Result<ControlFlow<()>, Error>,
) -> Result<Option<Holes>, Error> {
    let prints = Fingerprinter::default();
    let mut seen = KeySet::default();
    let step = |batch: &mut Batch<(RevKey, Fingerprint, T)>, record: Record<'_>| {
        let key = record.key()?;
        if !keys.has(key) {
            return Ok(Next::More);
        }
        let (carried, bytes) = carry(&record);
        Ok(batch.push((record.at, prints.of(key), carried), bytes))
    };
    let take = |batch: Batch<(RevKey, Fingerprint, T)>| {
        for ((at, key, carried), bytes) in batch.iter() {
            if seen.insert(*key) && take(*at, carried, bytes)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    holes::scan(database, RevisionRange::up_to(at), Direction::Backwards, step, take)
}

/// A key that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveKey<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Where its record is.
    pub at: RevKey,
    /// What that says beside the value; nothing if it cannot be read beyond the key.
    pub numbers: Option<Numbers>,
}

/// What a put says of a key, without the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// The put that began this generation of the key.
    pub create_revision: Revision,
    /// The revision that changed it last, as the record says.
    pub mod_revision: Revision,
    /// Puts since creation.
    pub version: i64,
    /// The size of its value.
    pub size_bytes: u64,
    /// The lease that it is attached to; 0 for none.
    pub lease: LeaseId,
}

/// The keys that there are at a revision, in order. Of each it holds the key, 8 bytes for where that is, and its numbers, which
/// are written short: 8 to 30 bytes in any store that grew, and never more than 73.
pub struct LiveKeys {
    /// Entry after entry, as [`LiveKey::encode`] makes them. None is in two chunks.
    chunks: Vec<Vec<u8>>,
    /// Where each begins, in the order of the keys.
    places: Vec<Place>,
    /// What the file lacks of what was come by: keys may have become something else there.
    pub holes: Option<Holes>,
}

/// Where an entry begins.
#[derive(Clone, Copy)]
struct Place {
    chunk: u32,
    at: u32,
}

/// Entries are put together to so much, so that none of it is ever copied to make room.
const CHUNK_BYTES: usize = 1 << 20;

impl LiveKeys {
    /// Those of `keys` that there were in `database` at revision `at`, or are now.
    pub fn find(database: &Database, at: Option<Revision>, keys: Keys<'_>) -> Result<Self, ViewError> {
        let at = Horizon::of(database)?.at(database, at)?;
        let mut chunks = Vec::new();
        let mut entry = Vec::new();
        let holes = newest(
            database,
            at,
            keys,
            |record| (record.key_value().ok().as_ref().map(Numbers::of), record.key().unwrap_or_default()),
            |at, &numbers, key| {
                if !at.tombstone {
                    entry.clear();
                    LiveKey { key, at, numbers }.encode(&mut entry);
                    push(&mut chunks, &entry);
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        let mut places = places(&chunks);
        places.sort_unstable_by(|&a, &b| key_at(&chunks, a).cmp(key_at(&chunks, b)));
        Ok(Self { chunks, places, holes })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Each key, in order, and where its record is.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], RevKey)> {
        self.entries().map(|found| (found.key, found.at))
    }

    /// Each key, in order, with all that is known of it.
    pub fn entries(&self) -> impl Iterator<Item = LiveKey<'_>> {
        self.places.iter().map(|&place| entry_at(&self.chunks, place))
    }
}

/// Adds `entry` to the last chunk, or to a new one.
fn push(chunks: &mut Vec<Vec<u8>>, entry: &[u8]) {
    if chunks.last().is_none_or(|last| last.capacity() - last.len() < entry.len()) {
        chunks.push(Vec::with_capacity(CHUNK_BYTES.max(entry.len())));
    }
    if let Some(last) = chunks.last_mut() {
        last.extend_from_slice(entry);
    }
}

/// Where each entry begins, in the order in which they came.
fn places(chunks: &[Vec<u8>]) -> Vec<Place> {
    let all = || {
        (0..).zip(chunks).flat_map(|(chunk, bytes)| {
            let mut rest = bytes.as_slice();
            std::iter::from_fn(move || {
                let at = (bytes.len() - rest.len()) as u32;
                (!rest.is_empty()).then(|| LiveKey::decode(&mut rest)).map(|_| Place { chunk, at })
            })
        })
    };
    // Counted first, so that there is room for them and for no more.
    let mut places = Vec::with_capacity(all().count());
    places.extend(all());
    places
}

fn entry_at(chunks: &[Vec<u8>], place: Place) -> LiveKey<'_> {
    LiveKey::decode(&mut from(chunks, place))
}

/// The key of the entry, without what is behind it: sorting asks for it many times.
fn key_at(chunks: &[Vec<u8>], place: Place) -> &[u8] {
    LiveKey::decode_key(&mut from(chunks, place)).0
}

fn from(chunks: &[Vec<u8>], place: Place) -> &[u8] {
    let chunk = chunks.get(place.chunk as usize).map(Vec::as_slice).unwrap_or_default();
    chunk.get(place.at as usize..).unwrap_or_default()
}

impl Numbers {
    /// What `found` says.
    pub fn of(found: &KeyValue<'_>) -> Self {
        let KeyValue { key: _, create_revision, mod_revision, version, value, lease } = *found;
        Self { create_revision, mod_revision, version, size_bytes: value.len() as u64, lease }
    }
}

impl<'a> LiveKey<'a> {
    /// Appends the entry: the key behind its length, then numbers of seven bits to the byte. What is most often the same as
    /// something else is told by how it differs from that.
    fn encode(&self, entry: &mut Vec<u8>) {
        let Self { key, at: RevKey { main, sub, tombstone: _ }, numbers } = *self;
        encode_varint(key.len() as u64 * 2 + u64::from(numbers.is_some()), entry);
        entry.extend_from_slice(key);
        let mut put = |number: u64| encode_varint(number, entry);
        put(main.0 as u64);
        put(sub as u64);
        if let Some(Numbers { create_revision, mod_revision, version, size_bytes, lease }) = numbers {
            put(main.0.wrapping_sub(create_revision.0) as u64);
            put(main.0.wrapping_sub(mod_revision.0) as u64);
            put(version as u64);
            put(size_bytes);
            put(lease.0 as u64);
        }
    }

    /// The entry that `bytes` begin with, which are left without it.
    fn decode(bytes: &mut &'a [u8]) -> Self {
        let (key, has_numbers) = Self::decode_key(bytes);
        let mut get = || decode_varint(bytes).unwrap_or_default();
        let (main, sub) = (get() as i64, get() as i64);
        let numbers = has_numbers.then(|| Numbers {
            create_revision: Revision(main.wrapping_sub(get() as i64)),
            mod_revision: Revision(main.wrapping_sub(get() as i64)),
            version: get() as i64,
            size_bytes: get(),
            lease: LeaseId(get() as i64),
        });
        Self { key, at: RevKey { main: Revision(main), sub, tombstone: false }, numbers }
    }

    /// The key that the entry begins with, and whether numbers follow. `bytes` are left without it.
    fn decode_key(bytes: &mut &'a [u8]) -> (&'a [u8], bool) {
        let head = decode_varint(bytes).unwrap_or_default();
        let (key, rest) = bytes.split_at_checked((head / 2) as usize).unwrap_or_default();
        *bytes = rest;
        (key, head % 2 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry is as large as is said, and the next one begins behind it.
    #[track_caller]
    fn check(size: usize, main: i64, sub: i64, numbers: Option<Numbers>) {
        let at = RevKey { main: Revision(main), sub, tombstone: false };
        let written = LiveKey { key: b"key", at, numbers };
        let mut bytes = Vec::new();
        written.encode(&mut bytes);
        assert_eq!(bytes.len() - written.key.len(), size);
        bytes.extend_from_slice(b"rest");
        let mut rest = bytes.as_slice();
        assert_eq!((LiveKey::decode(&mut rest), rest), (written, &b"rest"[..]));
    }

    #[test]
    fn an_entry_reads_as_it_was_written_and_takes_little() {
        let numbers = |create, modified, version, size_bytes, lease| {
            let (create_revision, mod_revision) = (Revision(create), Revision(modified));
            Some(Numbers { create_revision, mod_revision, version, size_bytes, lease: LeaseId(lease) })
        };
        check(3, 2, 0, None);
        check(8, 100, 0, numbers(100, 100, 1, 100, 0));
        check(16, 10_000_000_000, 0, numbers(9_999_000_000, 10_000_000_000, 200, 1024, 0));
        check(24, 10_000_000_000, 3, numbers(9_999_000_000, 10_000_000_000, 200, 1024, 7_587_883_212_297_104_401));
        let odd = numbers(i64::MIN, i64::MIN, i64::MIN, u64::MAX, i64::MIN);
        check(1 + 9 + 9 + 5 * 10, i64::MAX, i64::MAX, odd);
    }
}
