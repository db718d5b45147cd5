//! The hashes that servers compute: HashKV of the key space, and Hash of the whole database.
//!
//! HashKV at revision R with compact revision C is the CRC-32C of `key` and of the key and value of these records:
//!
//! - all after C and up to R
//! - up to C, the newest of each key, if it is a put and the key did not change between C and R
//!
//! If no key is left at R, servers do not ask whether a key changed between C and R. It does not matter how much of
//! what the compaction at C drops is still there. So a database that holds more history than a server did can be
//! compared with what that server said, by its compact revision.
//!
//! Every part of the file is hashed by itself, and the CRCs are combined in order.

pub(crate) mod tally;

use std::ops::ControlFlow;

use self::tally::{Look, Seen, Tally};
use crate::compaction::{Rules, SurvivorReader, Survivors};
use crate::crc::Crc;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::KeySet;
use crate::holes::{self, Holes};
use crate::revision::Revision;
use crate::tables::KEY;
use crate::view::{Horizon, ViewError};

/// What a server answers to HashKV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct HashKv {
    /// The hash.
    pub hash: u32,
    /// The revision up to which records were hashed.
    pub revision: Revision,
    /// The compact revision that decided which; servers say -1 for none. Hashes with different ones cannot be
    /// compared.
    pub compact_revision: Option<Revision>,
}

/// The hash of the key space at revision `at`, or the current one, as a server computes it that has been compacted
/// at `compact`, or as `database` has been.
///
/// A `compact` before that of the database is refused: history that is needed is gone.
pub fn hash_kv(database: &Database, at: Option<Revision>, compact: Option<Revision>) -> Result<HashKv, ViewError> {
    hash_kv_and_holes(database, at, compact).map(|(hash, _)| hash)
}

/// The same, and what the file lacks of what was hashed: a server that has the same file does not know of it, and one that
/// lacks nothing gives another number.
pub fn hash_kv_and_holes(
    database: &Database,
    at: Option<Revision>,
    compact: Option<Revision>,
) -> Result<(HashKv, Option<Holes>), ViewError> {
    let horizon = Horizon::of(database)?;
    let compact = compact.map(|compact| horizon.at(database, Some(compact))).transpose()?.or(horizon.compact);
    let revision = Horizon { compact, ..horizon }.at(database, at)?;
    let (hash, holes) = hash_at(database, compact, revision)?;
    Ok((HashKv { hash, revision, compact_revision: compact }, holes))
}

/// HashKV at `at` of a server that was compacted at `compact`, and what the file lacks up to there.
fn hash_at(database: &Database, compact: Option<Revision>, at: Revision) -> Result<(u32, Option<Holes>), Error> {
    let Some(compact) = compact else {
        let (tally, holes) = tally(database, None, at)?;
        return Ok((tally.all(), holes));
    };
    // Where it did not finish, most keys have several records, and what one pass finds out is of no use.
    if database.tables().finished_compaction() == Ok(Some(compact)) {
        let (tally, holes) = tally(database, Some(compact), at)?;
        if let Some(hash) = tally.hash() {
            return Ok((hash, holes));
        }
    }
    let survivors = hashed_survivors(database, compact, at)?;
    hash_records(database, at, &survivors)
}

/// What one pass over the records up to `at` finds out, as far as it is of use.
fn tally(database: &Database, compact: Option<Revision>, at: Revision) -> Result<(Tally, Option<Holes>), Error> {
    let look = Look::new(compact);
    let mut tally = Tally::new(&look);
    let step = |seen: &mut Seen, record: Record<'_>| look.at(&record, seen).map(|()| Next::More);
    let take = |seen: Seen| {
        tally.take(seen);
        Ok::<_, Error>(if tally.is_of_use() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    let holes = holes::scan(database, RevisionRange::up_to(at), Direction::Forwards, step, take)?;
    Ok((tally, holes))
}

/// The records up to `compact` that count at `at`.
fn hashed_survivors(database: &Database, compact: Revision, at: Revision) -> Result<Survivors, Error> {
    let mut seen = KeySet::default();
    let mut any_left = false;
    let survivors = Survivors::search(database, compact, at, |record, key| {
        let is_left = seen.insert(key) && !record.tombstone;
        any_left |= is_left;
        is_left
    })?;
    if any_left || at == compact {
        return Ok(survivors);
    }
    drop((survivors, seen));
    Survivors::find(database, compact, Rules::DropLastDeletion)
}

fn hash_records<'a>(
    database: &Database,
    at: Revision,
    survivors: &'a Survivors,
) -> Result<(u32, Option<Holes>), Error> {
    let mut hash = Crc::of(KEY);
    let step = |part: &mut HashedPart<'a>, record: Record<'_>| {
        if part.reader.get_or_insert_with(|| survivors.reader()).keeps(record.at) {
            part.crc.add_record(&record);
        }
        Ok(Next::More)
    };
    let take = |part: HashedPart<'_>| {
        hash.join(part.crc);
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    let holes = holes::scan(database, RevisionRange::up_to(at), Direction::Forwards, step, take)?;
    Ok((hash.crc, holes))
}

/// Part of what is hashed.
#[derive(Default)]
struct HashedPart<'a> {
    crc: Crc,
    reader: Option<SurvivorReader<'a>>,
}

/// What the hash of a whole database leaves out of the `meta` bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Nothing: the hash that `snapshot status` prints.
    Snapshot,
    /// What a server of 3.4 leaves out: the consistent index.
    V34,
    /// What a server of 3.5 leaves out: the term too.
    V35,
    /// What a server of 3.6 and later leaves out: the storage version too.
    V36,
}

impl Flavour {
    fn leaves_out(self, bucket: &[u8], key: &[u8]) -> bool {
        let left_out: &[&[u8]] = match self {
            Self::Snapshot => &[],
            Self::V34 => &[b"consistent_index"],
            Self::V35 => &[b"consistent_index", b"term"],
            Self::V36 => &[b"consistent_index", b"term", b"storageVersion"],
        };
        bucket == b"meta" && left_out.contains(&key)
    }
}

/// The hash of the whole database. It covers members, leases and alarms too, so it differs from member to member.
pub fn hash_backend(database: &Database, flavour: Flavour) -> Result<u32, Error> {
    let mut hash = Crc::default();
    let before_key = |name: &[u8]| name < KEY;
    hash_tables(database, flavour, before_key, &mut hash);
    hash.add(KEY);
    let take = |part: Crc| {
        hash.join(part);
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    let step = |part: &mut Crc, key: &[u8], value: &[u8]| {
        part.add(key);
        part.add(value);
        Ok(Next::More)
    };
    database.scan_entries(RevisionRange::ALL, Direction::Forwards, step, take)?;
    hash_tables(database, flavour, |name| !before_key(name), &mut hash);
    Ok(hash.crc)
}

fn hash_tables(database: &Database, flavour: Flavour, wanted: impl Fn(&[u8]) -> bool, hash: &mut Crc) {
    for (name, table) in database.tables().buckets().filter(|(name, _)| wanted(name)) {
        hash.add(name);
        for (key, value) in table.iter().filter(|(key, _)| !flavour.leaves_out(name, key)) {
            hash.add(key);
            hash.add(value);
        }
    }
}
