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

use std::ops::ControlFlow;

use crate::compaction::{Rules, SurvivorReader, Survivors};
use crate::crc::Crc;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeySet};
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
    let horizon = Horizon::of(database)?;
    let compact = compact.map(|compact| horizon.at(Some(compact))).transpose()?.or(horizon.compact);
    let revision = Horizon { compact, ..horizon }.at(at)?;
    let (hash, _) = hash_at(database, compact, revision)?;
    Ok(HashKv { hash, revision, compact_revision: compact })
}

/// The hash that a server begins with that is started on `database`, and the CRC-32C of `key` and of all records.
pub(crate) fn hash_kv_and_all(database: &Database) -> Result<(HashKv, u32), ViewError> {
    let Horizon { compact, current } = Horizon::of(database)?;
    let (hash, all) = hash_at(database, compact, current)?;
    let all = match all {
        Some(all) => all,
        None => hash_records(database, current, None)?,
    };
    Ok((HashKv { hash, revision: current, compact_revision: compact }, all))
}

/// HashKV at `at`, and the CRC-32C of `key` and of all records up to there where that came of the same pass.
fn hash_at(database: &Database, compact: Option<Revision>, at: Revision) -> Result<(u32, Option<u32>), Error> {
    let Some(compact) = compact else {
        let all = hash_records(database, at, None)?;
        return Ok((all, Some(all)));
    };
    // Where it did not finish, most keys have several records, and what one pass finds out is of no use.
    if database.tables().finished_compaction() == Ok(Some(compact))
        && let Some(Hashed { hash, all }) = hash_compacted(database, compact, at)?
    {
        return Ok((hash, Some(all)));
    }
    let survivors = hashed_survivors(database, compact, at)?;
    Ok((hash_records(database, at, Some(&survivors))?, None))
}

/// What one pass over the records up to a revision gives.
struct Hashed {
    /// HashKV.
    hash: u32,
    /// The CRC-32C of `key` and of every record.
    all: u32,
}

/// The hash at `at` if the compaction at `compact` left one record of each key, as it does once it has finished:
/// then one pass is enough, first over what came after the compaction. Nothing if it left more, or no key.
fn hash_compacted(database: &Database, compact: Revision, at: Revision) -> Result<Option<Hashed>, Error> {
    let prints = Fingerprinter::default();
    let mut changed = KeySet::default();
    let mut after = Crc::default();
    let step = |part: &mut KeyedPart, record: Record<'_>| {
        part.keys.push(prints.of(record.key()?));
        part.all.add_record(&record);
        Ok(Next::More)
    };
    let take = |part: KeyedPart| {
        after.join(part.all);
        for key in part.keys {
            changed.insert(key);
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange { from: compact.next(), to: at }, Direction::Forwards, step, take)?;

    let mut seen = KeySet::default();
    let mut once = true;
    let (mut all, mut counted) = (Crc::of(KEY), Crc::of(KEY));
    let step = |part: &mut KeyedPart, record: Record<'_>| {
        let key = prints.of(record.key()?);
        part.keys.push(key);
        part.all.add_record(&record);
        if !record.at.tombstone && changed.get(key).is_none() {
            part.counted.add_record(&record);
        }
        Ok(Next::More)
    };
    let take = |part: KeyedPart| {
        all.join(part.all);
        counted.join(part.counted);
        once &= part.keys.into_iter().all(|key| seen.insert(key));
        Ok::<_, Error>(if once { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    database.scan(RevisionRange::up_to(compact), Direction::Forwards, step, take)?;

    let any_left = counted.len > KEY.len();
    all.join(after);
    counted.join(after);
    Ok((once && any_left).then_some(Hashed { hash: counted.crc, all: all.crc }))
}

/// Part of what is hashed, and the keys in it.
#[derive(Default)]
struct KeyedPart {
    all: Crc,
    counted: Crc,
    keys: Vec<Fingerprint>,
}

/// The records up to `compact` that count at `at`.
pub(crate) fn hashed_survivors(database: &Database, compact: Revision, at: Revision) -> Result<Survivors, Error> {
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

fn hash_records<'a>(database: &Database, at: Revision, survivors: Option<&'a Survivors>) -> Result<u32, Error> {
    let mut hash = Crc::of(KEY);
    let step = |part: &mut HashedPart<'a>, record: Record<'_>| {
        part.record(record, survivors);
        Ok(Next::More)
    };
    let take = |part: HashedPart<'_>| {
        hash.join(part.crc);
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange::up_to(at), Direction::Forwards, step, take)?;
    Ok(hash.crc)
}

/// Part of what is hashed.
#[derive(Default)]
pub(crate) struct HashedPart<'a> {
    pub(crate) crc: Crc,
    reader: Option<SurvivorReader<'a>>,
}

impl<'a> HashedPart<'a> {
    /// Adds a record if it counts.
    pub(crate) fn record(&mut self, record: Record<'_>, survivors: Option<&'a Survivors>) {
        let keeps = match survivors {
            Some(survivors) => self.reader.get_or_insert_with(|| survivors.reader()).keeps(record.at),
            None => true,
        };
        if keeps {
            self.crc.add_record(&record);
        }
    }
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
