//! Everything in a new data directory, built, read back and synced, with nobody looking.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::thread;

use super::destination::{Unit, WalPlace};
use super::disk::{Disk, NewFile};
use super::error::RestoreError;
use super::member_dir::{create_dir, sync_dir, write_record, write_snap, write_wal};
use super::new_tables::new_tables;
use super::options::DigestRule;
use super::plan::{History, Plan, Schema};
use super::progress::{Progress, Step};
use super::proof::{Expected, SourceAt};
use super::rebuild::{Contents, Copied, Rebuilt, estimate, rebuild};
use crate::anchor::Anchored;
use crate::compaction::{Rules, Survivors};
use crate::database::Database;
use crate::digest::{self, Digest};
use crate::hash::HashKv;
use crate::holes::Holes;
use crate::revision::{RevKey, Revision};
use crate::tables::LeaseId;
use crate::view::Horizon;
use crate::wal::fresh::SEGMENT_BYTES;

/// What was built.
pub(crate) struct Built {
    pub(crate) hash: HashKv,
    pub(crate) records: u64,
    pub(crate) size_bytes: u64,
    pub(crate) missing_leases: BTreeMap<LeaseId, u64>,
    pub(crate) holes: Option<Holes>,
}

/// Builds the unit of `plan` as the new folder `new`, and its log as `new_wal` if that is to lie elsewhere.
pub(crate) fn build(
    disk: &dyn Disk,
    source: &Database,
    plan: &Plan,
    new: &Path,
    new_wal: Option<&Path>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Built, RestoreError> {
    let unit = plan.destination.unit;
    let member = unit.member_in(new);
    create_dir(disk, new)?;
    if unit == Unit::DataDir {
        create_dir(disk, &member)?;
    }
    // The log before the record: a run that finds the record knows that the log was there.
    match (&plan.destination.wal, new_wal) {
        (WalPlace::Inside(inside), _) => write_wal(disk, plan, &unit.path_in(new, inside))?,
        (WalPlace::Elsewhere { .. }, Some(new_wal)) => write_wal(disk, plan, new_wal)?,
        (WalPlace::Elsewhere { .. }, None) => {}
    }
    write_snap(disk, plan, &member)?;
    let built =
        beside_digest(source, plan.digest, || write_database(disk, source, plan, &member.join("snap/db"), progress))?;
    write_record(disk, plan, built.holes, &member)?;
    sync_dir(disk, &member.join("snap"))?;
    sync_dir(disk, &member)?;
    sync_dir(disk, new)?;
    for folder in [Some(new), new_wal].into_iter().flatten().filter_map(Path::parent) {
        sync_dir(disk, folder)?;
    }
    Ok(built)
}

/// Does `work` while another thread compares the digest of `source`, which takes as long. If it differs, what was
/// done is worth nothing.
pub(crate) fn beside_digest<T>(
    source: &Database,
    rule: DigestRule,
    work: impl FnOnce() -> Result<T, RestoreError>,
) -> Result<T, RestoreError> {
    let Some(file) = source.file().filter(|_| rule != DigestRule::Ignored) else { return work() };
    let storage = file.storage();
    thread::scope(|scope| {
        let digest = scope.spawn(|| digest::check(&**storage));
        let done = work();
        let digest = digest.join().unwrap_or_else(|_| Err(io::Error::other("the thread that hashes ended")));
        match digest.map_err(RestoreError::ReadSource)? {
            // Whatever else went wrong, this is why.
            Digest::Differs { .. } => Err(RestoreError::Digest),
            Digest::Matches(_) | Digest::Absent => done,
        }
    })
}

fn write_database(
    disk: &dyn Disk,
    source: &Database,
    plan: &Plan,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Built, RestoreError> {
    let survivors = survivors(source, plan, progress)?;
    let contents = contents(source, plan, survivors.as_ref());
    let mut file = create_database(disk, contents, path)?;

    let tables = new_tables(plan, source.tables())?;
    let Rebuilt { copied, built, read_back } = rebuild(contents, &tables, &mut *file, path, progress)
        .map_err(|error| no_space(error, disk, contents, path))?;
    require_no_hole(plan.revision, Horizon::of(source)?.compact, copied.last)?;

    let expected = Expected {
        tables,
        current: plan.current_revision,
        compact: plan.compact_revision,
        records: copied.crc.crc,
        same_hash: same_hash(source, plan),
        anchored: plan.anchor.map(|anchor| Anchored { source: source.clone(), anchor }),
    };
    progress(Progress { step: Step::Proving, done_bytes: 0, of_bytes: built.size_bytes });
    let hash = synced(&mut *file, path, || read_back.require(path, &expected))?;
    let Copied { records, missing_leases, holes, .. } = copied;
    Ok(Built { hash, records, size_bytes: built.size_bytes, missing_leases, holes })
}

/// What of `source` goes into the new database.
fn contents<'a>(source: &'a Database, plan: &Plan, survivors: Option<&'a Survivors>) -> Contents<'a> {
    let (up_to, page_size, compact) = (plan.revision, plan.page_size, plan.compact_revision);
    Contents { source, up_to, survivors, page_size, compact }
}

/// What is left of the history that goes into the new database; nothing if that is all.
fn survivors(
    source: &Database,
    plan: &Plan,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Survivors>, RestoreError> {
    let (at, rules) = match plan.history {
        History::Whole => return Ok(None),
        History::CompactedAt(at) => (at, rules(plan.schema)),
        History::OnlyLive => (plan.revision, Rules::DropLastDeletion),
    };
    progress(Progress { step: Step::Compacting, done_bytes: 0, of_bytes: source.size_bytes() });
    Ok(Some(Survivors::find(source, at, rules)?))
}

/// What a compaction by the servers that `schema` is of does with a deletion at the compact revision itself. Those of 3.4 before
/// 3.4.34 drop it, and where no key is left they hash what they meet all the same; those after pass over it in HashKV. So it is
/// left out for both. Later versions keep it, for whoever watches from there on.
fn rules(schema: Schema) -> Rules {
    match schema {
        Schema::Index => Rules::DropLastDeletion,
        Schema::IndexAndTerm => Rules::KeepLastDeletion,
    }
}

/// What must have the hash of the result, where that does not follow from its having the same records. Where what is alive was
/// copied, it does: both hash just these records, and the read back has compared them.
fn same_hash<'a>(source: &'a Database, plan: &Plan) -> Option<SourceAt<'a>> {
    match plan.history {
        History::Whole | History::OnlyLive => None,
        History::CompactedAt(_) => Some(SourceAt { source, at: plan.revision, compact: plan.compact_revision }),
    }
}

/// Makes the file and reserves room for `contents`.
pub(crate) fn create_database(
    disk: &dyn Disk,
    contents: Contents<'_>,
    path: &Path,
) -> Result<Box<dyn NewFile>, RestoreError> {
    let folder = path.parent().unwrap_or(path);
    let io_error = |action| move |source| RestoreError::Io { action, path: path.into(), source };
    let free_bytes = disk.free_bytes(folder).map_err(io_error("looking for room for"))?;
    let mut needed_bytes = contents.source.size_bytes();
    if needed_bytes > free_bytes {
        // The source may be mostly waste: count before saying no.
        needed_bytes = estimate(contents, |_| Ok(()))?;
    }
    if needed_bytes > free_bytes {
        return Err(RestoreError::NoSpace { folder: folder.into(), needed_bytes, free_bytes });
    }
    let mut file = disk.create_file(path).map_err(io_error("making"))?;
    match file.reserve(needed_bytes) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            Err(RestoreError::NoSpace { folder: folder.into(), needed_bytes, free_bytes })
        }
        reserved => reserved.map(|()| file).map_err(io_error("reserving room for")),
    }
}

/// The error of a file system that turned out to be full, with what would have been needed.
pub(crate) fn no_space(error: RestoreError, disk: &dyn Disk, contents: Contents<'_>, path: &Path) -> RestoreError {
    if !error.is_full() {
        return error;
    }
    let folder = path.parent().unwrap_or(path);
    let free_bytes = disk.free_bytes(folder).unwrap_or_default();
    match estimate(contents, |_| Ok(())) {
        Ok(needed_bytes) => RestoreError::NoSpace { folder: folder.into(), needed_bytes, free_bytes },
        Err(_) => error,
    }
}

/// The error of a file system that is too small for what `plan` makes, with what all of it needs: the log is
/// allocated first, so a database that had room alone may have none beside it.
pub(crate) fn no_space_for(error: RestoreError, disk: &dyn Disk, source: &Database, plan: &Plan) -> RestoreError {
    let is_full = matches!(error, RestoreError::NoSpace { .. }) || error.is_full();
    let folder = plan.destination.data_dir.ancestors().find(|folder| folder.is_dir());
    let Some(folder) = folder.filter(|_| is_full) else { return error };
    let Ok(needed_bytes) = needed_bytes(source, plan, |_| Ok(())) else { return error };
    // What was built is gone by now.
    let free_bytes = disk.free_bytes(folder).unwrap_or_default();
    RestoreError::NoSpace { folder: folder.into(), needed_bytes, free_bytes }
}

/// About how many bytes all takes that `plan` makes: the database, and the log. Shows `see` every record that it comes by.
pub(crate) fn needed_bytes(
    source: &Database,
    plan: &Plan,
    see: impl FnMut(RevKey) -> Result<(), RestoreError>,
) -> Result<u64, RestoreError> {
    let survivors = survivors(source, plan, &mut |_| {})?;
    Ok(estimate(contents(source, plan, survivors.as_ref()), see)?.saturating_add(SEGMENT_BYTES))
}

/// Every revision after the compact revision has a record, so the last that was looked at must be the one asked for.
pub(crate) fn require_no_hole(
    asked: Revision,
    compact: Option<Revision>,
    last: Option<RevKey>,
) -> Result<(), RestoreError> {
    let last = last.map(|last| last.main).max(compact).unwrap_or(Revision::FIRST);
    if last >= asked { Ok(()) } else { Err(RestoreError::Hole { missing: last.next(), last }) }
}

/// Syncs `file`, at `path`, and meanwhile lets `prove` say what is known of it.
pub(crate) fn synced<T>(
    file: &mut dyn NewFile,
    path: &Path,
    prove: impl FnOnce() -> Result<T, RestoreError>,
) -> Result<T, RestoreError> {
    thread::scope(|scope| {
        let syncing = scope.spawn(|| file.sync());
        let proven = prove();
        let synced = syncing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs ended")));
        synced.map_err(|source| RestoreError::Io { action: "syncing", path: path.into(), source })?;
        proven
    })
}
