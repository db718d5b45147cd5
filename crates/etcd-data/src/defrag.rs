//! A database file without waste, with the same content: what etcd's defragmentation makes, offline, to a new file.
//!
//! The file can take the place of the member's own, `member/snap/db`: it stands at the same entry of the log.

use std::path::{Path, PathBuf};

use bolt_file::BoltFile;

use crate::database::Database;
use crate::hash::{Flavour, hash_backend};
use crate::holes::Holes;
use crate::restore::build::{beside_digest, create_database, no_space, synced};
use crate::restore::disk::{Disk, RealDisk};
use crate::restore::new_file::publish_file;
use crate::restore::options::DigestRule;
use crate::restore::rebuild::{Contents, Rebuilt, rebuild};
use crate::restore::{Progress, RestoreError, Step};
use crate::revision::Revision;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defragmented {
    /// The new file.
    pub path: PathBuf,
    /// The size of the source up to its last page.
    pub size_bytes_before: u64,
    /// The size of the new file.
    pub size_bytes: u64,
    /// The hash over all that is in either.
    pub hash: u32,
    /// What the source lacks, and the new file too; nothing if it has all its history.
    pub holes: Option<Holes>,
}

/// Writes all that is in `source` to the new file `path`, if the digest at its end is right, where it has one and `digest` asks
/// for that: the new file has none that would tell. What a log beside the source adds is not in it: whoever
/// starts on the new file has that log still.
pub fn defrag(
    source: &BoltFile,
    digest: DigestRule,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Defragmented, RestoreError> {
    defrag_on(&RealDisk, source, digest, path, progress)
}

pub(crate) fn defrag_on(
    disk: &dyn Disk,
    source: &BoltFile,
    digest: DigestRule,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Defragmented, RestoreError> {
    let source = Database::open(source.clone())?;
    publish_file(disk, path, |new| {
        let defragmented = beside_digest(&source, digest, || write_database(disk, &source, new, progress))?;
        Ok(Defragmented { path: path.into(), ..defragmented })
    })
}

fn write_database(
    disk: &dyn Disk,
    source: &Database,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Defragmented, RestoreError> {
    let page_size = source.page_size();
    // No HashKV is asked for, so it is of no matter where it is compacted.
    let contents = Contents { source, up_to: Revision(i64::MAX), survivors: None, page_size, compact: None };
    let mut file = create_database(disk, contents, path)?;
    let Rebuilt { copied, built, read_back } = rebuild(contents, source.tables(), &mut *file, path, progress)
        .map_err(|error| no_space(error, disk, contents, path))?;

    progress(Progress { step: Step::Proving, done_bytes: 0, of_bytes: built.size_bytes });
    let hash = || {
        let proven = read_back.require_whole(path, source.tables(), copied.crc.crc)?;
        same_hash(source, &proven.database)
    };
    let hash = synced(&mut *file, path, hash)?;
    let size_bytes_before = source.size_bytes();
    let (size_bytes, holes) = (built.size_bytes, copied.holes);
    Ok(Defragmented { path: path.into(), size_bytes_before, size_bytes, hash, holes })
}

/// The hash over everything in `source`, which that over everything in the new one must be.
fn same_hash(source: &Database, new: &Database) -> Result<u32, RestoreError> {
    let found = hash_backend(new, Flavour::Snapshot)?;
    let expected = hash_backend(source, Flavour::Snapshot)?;
    if found == expected {
        return Ok(found);
    }
    Err(RestoreError::Proof(format!("its hash is {found}, that of the source {expected}")))
}

#[cfg(test)]
mod tests;
