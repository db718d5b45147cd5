//! Reading back what was written, as a server would read it, and comparing it with what it was made from.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use bolt_file::BoltFile;
use bolt_file::check::{Report, Witness, check, check_before};
use bolt_file::page::Leaf;
use bolt_file::scan::cores;

use super::error::RestoreError;
use crate::anchor::Anchored;
use crate::database::{Database, Record};
use crate::error::Error;
use crate::hash::tally::{Look, Seen, Tally};
use crate::hash::{HashKv, hash_kv};
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, Tables};
use crate::view::Horizon;

/// What a new database must be like.
pub(crate) struct Expected<'a> {
    /// Its tables.
    pub(crate) tables: Tables,
    /// The revision that a member begins at.
    pub(crate) current: Revision,
    /// The compact revision that it begins with.
    pub(crate) compact: Option<Revision>,
    /// The CRC-32C of the name of the key space and of its records, as they were written.
    pub(crate) records: u32,
    /// What must have the same HashKV: the source, where records of it were left out.
    pub(crate) same_hash: Option<SourceAt<'a>>,
    /// What the source must give, because a live member did.
    pub(crate) anchored: Option<Anchored>,
}

/// A source at a revision, as if it had been compacted.
pub(crate) struct SourceAt<'a> {
    /// The source.
    pub(crate) source: &'a Database,
    /// The revision.
    pub(crate) at: Revision,
    /// Where it is compacted.
    pub(crate) compact: Option<Revision>,
}

/// Proves that the database at `path` is as `expected`: sound in every page, and the same key space. Returns what a
/// server answers to HashKV.
pub(crate) fn prove(path: &Path, expected: &Expected<'_>) -> Result<HashKv, RestoreError> {
    let file = open(path)?;
    let look = Look::new(expected.compact);
    let mut tally = Tally::new(&look);
    let report = check_before(&file, cores(), &KeySpace(look), |seen| tally.take(seen));
    require_sound(&report.map_err(Error::from)?)?;
    let database = Database::open(file)?;
    require(*database.tables() == expected.tables, || "its tables are others".into())?;
    let horizon = Horizon::of(&database)?;
    let wanted = Horizon { compact: expected.compact, current: expected.current };
    require(horizon == wanted, || format!("it begins at {horizon:?}, not {wanted:?}"))?;

    require(tally.all() == expected.records, || "its records are others".into())?;
    let found = match tally.hash() {
        Some(hash) => HashKv { hash, revision: horizon.current, compact_revision: horizon.compact },
        None => hash_kv(&database, None, None)?,
    };
    if let Some(SourceAt { source, at, compact }) = expected.same_hash {
        let source = hash_kv(source, Some(at), compact)?;
        require(found.hash == source.hash, || format!("its HashKV is {}, the source's {}", found.hash, source.hash))?;
    }
    if let Some(anchored) = &expected.anchored {
        anchored.require_same(&database, found)?;
    }
    Ok(found)
}

/// Opens the database at `path` and requires that every page of it is sound.
pub(crate) fn open_sound(path: &Path) -> Result<Database, RestoreError> {
    let file = open(path)?;
    require_sound(&check(&file, cores()).map_err(Error::from)?)?;
    Ok(Database::open(file)?)
}

fn open(path: &Path) -> Result<BoltFile, RestoreError> {
    let file = File::open(path).map_err(|source| RestoreError::Io { action: "opening", path: path.into(), source })?;
    Ok(BoltFile::open(Arc::new(file)).map_err(Error::from)?)
}

fn require_sound(report: &Report) -> Result<(), RestoreError> {
    let finding = report.findings.first();
    finding.map_or(Ok(()), |finding| Err(RestoreError::Proof(finding.to_string())))
}

/// Looks at the records of a file while its pages are checked.
struct KeySpace(Look);

impl Witness for KeySpace {
    type Seen = Seen;

    fn leaf(&self, bucket: Option<&[u8]>, leaf: &Leaf<'_>, seen: &mut Seen) {
        if bucket != Some(KEY) {
            return;
        }
        for index in 0..leaf.len() {
            // What cannot be read is found by the check, or is missing in the CRC.
            let Ok(Some(entry)) = leaf.get(index) else { return };
            let Some(at) = RevKey::parse(entry.key) else { return };
            if self.0.at(&Record { at, value: entry.value }, seen).is_err() {
                return;
            }
        }
    }
}

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), RestoreError> {
    if holds { Ok(()) } else { Err(RestoreError::Proof(otherwise())) }
}
