//! A snapshot file as etcd makes it: the database at a revision, and the SHA-256 of its bytes.
//!
//! The small buckets are those of the source, all of them: whoever restores the file gives it another cluster.

use std::io;
use std::path::{Path, PathBuf};

use crate::anchor::Anchored;
use crate::database::Database;
use crate::digest::sha256;
use crate::hash::HashKv;
use crate::holes::Holes;
use crate::restore::build::{beside_digest, create_database, no_space, require_no_hole, synced};
use crate::restore::disk::{Disk, RealDisk};
use crate::restore::new_file::publish_file;
use crate::restore::options::DigestRule;
use crate::restore::proof::Expected;
use crate::restore::rebuild::{Contents, Rebuilt, rebuild};
use crate::restore::{Progress, RestoreError, Step};
use crate::revision::Revision;
use crate::view::Horizon;

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The snapshot file.
    pub path: PathBuf,
    /// What a member that is restored from it answers to HashKV.
    pub hash: HashKv,
    /// How many records its key space has.
    pub records: u64,
    /// Its size, digest included.
    pub size_bytes: u64,
    /// The digest.
    pub sha256: [u8; 32],
    /// What the source lacks, and the file too; nothing if it has all its history.
    pub holes: Option<Holes>,
}

/// What a source is held against.
#[derive(Clone, Default)]
pub struct Against {
    /// What is made of the digest at its end.
    pub digest: DigestRule,
    /// What a live member once answered.
    pub anchored: Option<Anchored>,
}

/// Writes `source` as it was at revision `at`, or as it is, to the new file `path`, if it is right `against` all.
pub fn export(
    source: &Database,
    at: Option<Revision>,
    against: &Against,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Exported, RestoreError> {
    export_on(&RealDisk, source, at, against, path, progress)
}

pub(crate) fn export_on(
    disk: &dyn Disk,
    source: &Database,
    at: Option<Revision>,
    against: &Against,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Exported, RestoreError> {
    let horizon = Horizon::of(source)?;
    let at = horizon.at(source, at)?;
    publish_file(disk, path, |new| {
        let subject = Subject { source, compact: horizon.compact, at, anchored: against.anchored.clone() };
        let exported = beside_digest(source, against.digest, || write_snapshot(disk, subject, new, progress))?;
        Ok(Exported { path: path.into(), ..exported })
    })
}

/// What a snapshot is written of.
struct Subject<'a> {
    source: &'a Database,
    compact: Option<Revision>,
    at: Revision,
    anchored: Option<Anchored>,
}

fn write_snapshot(
    disk: &dyn Disk,
    subject: Subject<'_>,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Exported, RestoreError> {
    let Subject { source, compact, at, anchored } = subject;
    let page_size = source.page_size();
    let contents = Contents { source, up_to: at, survivors: None, page_size, compact };
    let mut file = create_database(disk, contents, path)?;
    let Rebuilt { copied, built, read_back } = rebuild(contents, source.tables(), &mut *file, path, progress)
        .map_err(|error| no_space(error, disk, contents, path))?;
    require_no_hole(at, compact, copied.last)?;

    progress(Progress { step: Step::Proving, done_bytes: 0, of_bytes: built.size_bytes });
    let tables = source.tables().clone();
    let expected = Expected { tables, current: at, compact, records: copied.crc.crc, same_hash: None, anchored };
    // The digest begins with the meta pages, which are written last: it has to be read back.
    let digest_and_hash = || {
        std::thread::scope(|scope| {
            let digest = scope.spawn(|| digest_of(path, built.size_bytes));
            let hash = read_back.require(path, &expected)?;
            let digest = digest.join().unwrap_or_else(|_| Err(io::Error::other("the thread that hashes ended")));
            Ok((digest.map_err(|source| RestoreError::Io { action: "reading", path: path.into(), source })?, hash))
        })
    };
    let (sha256, hash) = synced(&mut *file, path, digest_and_hash)?;
    let mut append = || {
        file.write_all_at(&sha256, built.size_bytes)?;
        file.sync()
    };
    let io_error = |source| RestoreError::Io { action: "writing", path: path.into(), source };
    append().map_err(|source| no_space(io_error(source), disk, contents, path))?;
    let size_bytes = built.size_bytes + sha256.len() as u64;
    Ok(Exported { path: path.into(), hash, records: copied.records, size_bytes, sha256, holes: copied.holes })
}

fn digest_of(path: &Path, len: u64) -> io::Result<[u8; 32]> {
    sha256(&std::fs::File::open(path)?, len)
}

#[cfg(test)]
mod tests;
