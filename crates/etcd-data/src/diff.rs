//! What differs: between two revisions of a database, or between two databases.
//!
//! Two revisions of one database differ in keys that changed in between, so only those are remembered. Of two
//! databases, 24 bytes per key of the first are, and the fingerprints of the keys of each (see
//! [`crate::fingerprint`]). What differs is held until the end, to be put in the order of the keys.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::ops::ControlFlow;

use crate::batch::Batch;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeyMap, KeySet};
use crate::holes::{self, Holes};
use crate::live::{Keys, newest};
use crate::revision::{RevKey, Revision};
use crate::view::{Horizon, ViewError};

/// A key that differs, and where its records are on either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The key.
    pub key: Vec<u8>,
    /// Its record on the first side; nothing if it is not there.
    pub before: Option<RevKey>,
    /// Its record on the second side; nothing if it is not there.
    pub after: Option<RevKey>,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is only on the second side.
    Created,
    /// It is on both, and not the same.
    Changed,
    /// It is only on the first side.
    Deleted,
}

impl Difference {
    /// What became of the key.
    pub fn change(&self) -> Change {
        match (self.before, self.after) {
            (None, _) => Change::Created,
            (Some(_), Some(_)) => Change::Changed,
            (Some(_), None) => Change::Deleted,
        }
    }
}

/// What differs, and what is not known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences {
    /// The keys, in order.
    pub keys: Vec<Difference>,
    /// What the file of the first side lacks of what was come by: keys may have become something else there.
    pub holes_before: Option<Holes>,
    /// What that of the second side lacks; nothing if both are one.
    pub holes_after: Option<Holes>,
}

/// Those of `keys` that differ between two revisions of `database`. A key that was put again with the same value differs.
pub fn diff_revisions(
    database: &Database,
    from: Option<Revision>,
    to: Option<Revision>,
    keys: Keys<'_>,
) -> Result<Differences, ViewError> {
    let horizon = Horizon::of(database)?;
    let (from, to) = (horizon.at(database, from)?, horizon.at(database, to)?);
    let (mut touched, between) = Touched::find(database, from.min(to), from.max(to), keys)?;
    let holes = match touched.find_before(database, from.min(to))? {
        None => between,
        Some(_) => holes_in(database, RevisionRange { from: touched.earliest, to: from.max(to) })?,
    };
    let mut differences = touched.differences;
    differences.retain(|key| key.before.is_some() || key.after.is_some());
    if from > to {
        differences.iter_mut().for_each(|key| mem::swap(&mut key.before, &mut key.after));
    }
    differences.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(Differences { keys: differences, holes_before: holes, holes_after: None })
}

/// The keys that have records between two revisions.
struct Touched {
    prints: Fingerprinter,
    /// The place of each among the differences.
    places: KeyMap<usize>,
    differences: Vec<Difference>,
    /// Those whose first record in between creates them: they were not there before.
    created: Vec<bool>,
    /// The revision from which on it is known what they were.
    earliest: Revision,
}

impl Touched {
    /// Finds them, and what the file lacks in between.
    fn find(database: &Database, from: Revision, to: Revision, keys: Keys<'_>) -> Result<(Self, Option<Holes>), Error> {
        let prints = Fingerprinter::default();
        let mut places = KeyMap::default();
        let (mut differences, mut created) = (Vec::new(), Vec::new());
        let step = |batch: &mut Batch<(RevKey, bool, Fingerprint)>, record: Record<'_>| {
            let found = record.key_value()?;
            // A database whose marks lie at the end of all numbers has no revision after `from`.
            if record.at.main == from || !keys.has(found.key) {
                return Ok(Next::More);
            }
            let creates = found.create_revision == record.at.main;
            Ok(batch.push((record.at, creates, prints.of(found.key)), found.key))
        };
        let take = |batch: Batch<(RevKey, bool, Fingerprint)>| {
            for (&(at, creates, print), key) in batch.iter() {
                let place = *places.find_or_add(print, differences.len()).0;
                if place == differences.len() {
                    let after = Some(at).filter(|at| !at.tombstone);
                    differences.push(Difference { key: key.to_vec(), before: None, after });
                    created.push(creates);
                } else if let Some(created) = created.get_mut(place) {
                    *created = creates;
                }
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        };
        let between = RevisionRange { from: from.next(), to };
        let holes = holes::scan(database, between, Direction::Backwards, step, take)?;
        Ok((Self { prints, places, differences, created, earliest: from.next() }, holes))
    }

    /// Finds what the keys were at `from`, and what the file lacks of what was come by, which may reach beyond what was found.
    fn find_before(&mut self, database: &Database, from: Revision) -> Result<Option<Holes>, Error> {
        let Self { prints, places, differences, created, earliest } = self;
        let mut missing = created.iter().filter(|&&created| !created).count();
        if missing == 0 {
            return Ok(None);
        }
        let mut seen = KeySet::default();
        let step = |batch: &mut Batch<(RevKey, usize, Fingerprint)>, record: Record<'_>| {
            let print = prints.of(record.key()?);
            match places.get(print) {
                Some(&place) if created.get(place) == Some(&false) => Ok(batch.push((record.at, place, print), &[])),
                _ => Ok(Next::More),
            }
        };
        let take = |batch: Batch<(RevKey, usize, Fingerprint)>| {
            for (&(at, place, print), _) in batch.iter() {
                if seen.insert(print) {
                    missing -= 1;
                    if let Some(difference) = differences.get_mut(place) {
                        difference.before = Some(at).filter(|at| !at.tombstone);
                    }
                    *earliest = at.main;
                }
            }
            Ok::<_, Error>(if missing == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let holes = holes::scan(database, RevisionRange::up_to(from), Direction::Backwards, step, take)?;
        if missing > 0 {
            // It was looked for from the beginning.
            *earliest = Revision::FIRST;
        }
        Ok(holes)
    }
}

/// What the file lacks of `range`.
fn holes_in(database: &Database, range: RevisionRange) -> Result<Option<Holes>, Error> {
    let (step, take) = (|(): &mut (), _: Record<'_>| Ok(Next::More), |()| Ok::<_, Error>(ControlFlow::Continue(())));
    holes::scan(database, range, Direction::Backwards, step, take)
}

/// A database at a revision, or at its current one.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The database.
    pub database: &'a Database,
    /// The revision.
    pub at: Option<Revision>,
}

/// Those of `keys` that differ between two databases: in value, revisions, version or lease.
pub fn diff_databases(before: Side<'_>, after: Side<'_>, keys: Keys<'_>) -> Result<Differences, ViewError> {
    let prints = Fingerprinter::default();
    let digest = RandomState::new();
    let mut digests = KeyMap::<u64>::default();
    let holes_before = visit_side(before, keys, |_, key, value| {
        digests.set(prints.of(key), digest.hash_one(value));
    })?;

    let mut differences = Vec::new();
    let mut changed = KeyMap::<usize>::default();
    let holes_after = visit_side(after, keys, |at, key, value| {
        let print = prints.of(key);
        let known = digests.remove(print);
        if known == Some(digest.hash_one(value)) {
            return;
        }
        if known.is_some() {
            changed.set(print, differences.len());
        }
        differences.push(Difference { key: key.to_vec(), before: None, after: Some(at) });
    })?;

    // What is left of the first side was deleted; of what changed, it is not known yet where it was.
    if !digests.is_empty() || !changed.is_empty() {
        visit_side(before, keys, |at, key, _| {
            let print = prints.of(key);
            if digests.get(print).is_some() {
                differences.push(Difference { key: key.to_vec(), before: Some(at), after: None });
            } else if let Some(difference) = changed.get(print).and_then(|&place| differences.get_mut(place)) {
                difference.before = Some(at);
            }
        })?;
    }
    differences.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(Differences { keys: differences, holes_before, holes_after })
}

/// Shows `visit` every live key of a side with its record. Returns what the side's file lacks of what was come by.
fn visit_side(
    side: Side<'_>,
    keys: Keys<'_>,
    mut visit: impl FnMut(RevKey, &[u8], &[u8]),
) -> Result<Option<Holes>, ViewError> {
    let at = Horizon::of(side.database)?.at(side.database, side.at)?;
    Ok(newest(
        side.database,
        at,
        keys,
        |record| ((), record.value),
        |at, (), value| {
            if !at.tombstone {
                visit(at, Record { at, value }.key()?, value);
            }
            Ok(ControlFlow::Continue(()))
        },
    )?)
}
