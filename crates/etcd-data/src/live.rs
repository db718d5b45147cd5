//! The keys as they were at a revision.
//!
//! The file knows records by revision, not by key. A key is what its newest record up to the revision says; so a
//! pass backwards that remembers the keys it came by sees of each the one that counts first. It remembers
//! fingerprints (20 to 39 bytes per key, see [`crate::fingerprint`]); values are never kept.

use std::ops::ControlFlow;

use crate::batch::Batch;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeySet};
use crate::key_value::{KeyMatcher, KeyValue, OwnedKeyValue};
use crate::revision::{RevKey, Revision};
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
///
/// All cores search backwards, and stop as soon as the answer is known. Of what is kept elsewhere, little is read
/// that is not needed.
pub fn get(database: &Database, key: &[u8], at: Option<Revision>) -> Result<Option<OwnedKeyValue>, ViewError> {
    let at = Horizon::of(database)?.at(at)?;
    let matcher = KeyMatcher::new(key);
    let mut newest = None;
    let step = |found: &mut Option<(RevKey, OwnedKeyValue)>, record: Record<'_>| {
        if !matcher.matches(record.value) {
            return Ok(Next::More);
        }
        *found = Some((record.at, record.key_value()?.to_owned()));
        Ok(Next::Enough)
    };
    let take = |found| {
        newest = found;
        Ok::<_, Error>(if newest.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    database.search_back(RevisionRange::up_to(at), step, take)?;
    Ok(newest.filter(|(at, _)| !at.tombstone).map(|(_, found)| found))
}

/// How many of `keys` there were at revision `at`, or are now.
pub fn count(database: &Database, at: Option<Revision>, keys: Keys<'_>) -> Result<u64, ViewError> {
    let at = Horizon::of(database)?.at(at)?;
    let mut count = 0;
    newest(
        database,
        at,
        keys,
        |_| &[],
        |record, _| {
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
    let at = Horizon::of(database)?.at(at)?;
    newest(
        database,
        at,
        keys,
        |record| record.value,
        |at, value| {
            if at.tombstone {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(visit(at, Record { at, value }.key_value()?))
        },
    )?;
    Ok(())
}

/// Shows `take` the newest record up to `at` of each of `keys`, deletions too, the last first, with the bytes of it
/// that `carry` picks.
pub(crate) fn newest(
    database: &Database,
    at: Revision,
    keys: Keys<'_>,
    carry: impl for<'a> Fn(&Record<'a>) -> &'a [u8] + Sync,
    mut take: impl FnMut(RevKey, &[u8]) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let prints = Fingerprinter::default();
    let mut seen = KeySet::default();
    let step = |batch: &mut Batch<(RevKey, Fingerprint)>, record: Record<'_>| {
        let key = record.key()?;
        if !keys.has(key) {
            return Ok(Next::More);
        }
        Ok(batch.push((record.at, prints.of(key)), carry(&record)))
    };
    let take = |batch: Batch<(RevKey, Fingerprint)>| {
        for (&(at, key), bytes) in batch.iter() {
            if seen.insert(key) && take(at, bytes)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange::up_to(at), Direction::Backwards, step, take)
}

/// The keys that there are at a revision, in order. Of each it holds the key, where its record is, and 28 bytes.
pub struct LiveKeys {
    /// For each key its length, revision, place in the transaction, and bytes.
    arena: Vec<u8>,
    /// Where each begins there, in the order of the keys.
    places: Vec<usize>,
}

impl LiveKeys {
    /// Those of `keys` that there were in `database` at revision `at`, or are now.
    pub fn find(database: &Database, at: Option<Revision>, keys: Keys<'_>) -> Result<Self, ViewError> {
        let at = Horizon::of(database)?.at(at)?;
        let mut found = Self { arena: Vec::new(), places: Vec::new() };
        newest(
            database,
            at,
            keys,
            |record| record.key().unwrap_or_default(),
            |at, key| {
                if !at.tombstone {
                    found.push(at, key);
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        let Self { mut places, arena } = found;
        places.sort_unstable_by(|&a, &b| entry(&arena, a).0.cmp(entry(&arena, b).0));
        Ok(Self { arena, places })
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
        self.places.iter().map(|&place| entry(&self.arena, place))
    }

    fn push(&mut self, at: RevKey, key: &[u8]) {
        self.places.push(self.arena.len());
        self.arena.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(&at.main.0.to_le_bytes());
        self.arena.extend_from_slice(&at.sub.to_le_bytes());
        self.arena.extend_from_slice(key);
    }
}

/// The key at `place` in the arena, and where its record is.
fn entry(arena: &[u8], place: usize) -> (&[u8], RevKey) {
    let after = arena.get(place..).unwrap_or_default();
    let (len, after) = after.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let (main, after) = after.split_first_chunk().unwrap_or((&[0; 8], &[]));
    let (sub, after) = after.split_first_chunk().unwrap_or((&[0; 8], &[]));
    let key = after.get(..u32::from_le_bytes(*len) as usize).unwrap_or_default();
    let (main, sub) = (Revision(i64::from_le_bytes(*main)), i64::from_le_bytes(*sub));
    (key, RevKey { main, sub, tombstone: false })
}
