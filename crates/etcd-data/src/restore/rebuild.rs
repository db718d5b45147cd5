//! A new database out of an old one: every record that is wanted, once, in order.
//!
//! Workers read and judge the records; this thread feeds them to the builder; one more reads back what was written, a
//! little later, so that most often it is in the processor's cache still. Memory holds a few batches of some hundred kibibytes, or a
//! few of the largest values.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use bolt_file::scan::Direction;
use bolt_file::sink::Sink;
use bolt_file::write::{self, BucketBuilder, Builder, Built, WriteError};

use super::disk::NewFile;
use super::error::{PlanError, RestoreError};
use super::progress::{Progress, Step};
use super::proof::{ReadBack, Written};
use crate::batch::Batch;
use crate::compaction::Survivors;
use crate::crc::Crc;
use crate::database::{Database, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeyMap};
use crate::holes::{Holes, Unbroken};
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, LeaseId, Tables};

/// What of a database goes into a new one.
#[derive(Clone, Copy)]
pub(crate) struct Contents<'a> {
    /// The database.
    pub(crate) source: &'a Database,
    /// The last revision that is wanted.
    pub(crate) up_to: Revision,
    /// What is wanted of history; nothing for all.
    pub(crate) survivors: Option<&'a Survivors>,
    /// The size of the new pages.
    pub(crate) page_size: u32,
    /// Where the new database will be compacted, as its tables will say.
    pub(crate) compact: Option<Revision>,
}

/// What became of the key space.
#[derive(Debug)]
pub(crate) struct Copied {
    /// How many records there are now.
    pub(crate) records: u64,
    /// The last of those that were looked at, whether it was wanted or not.
    pub(crate) last: Option<RevKey>,
    /// Leases that live keys name and the source has no record of, and how many keys do.
    pub(crate) missing_leases: BTreeMap<LeaseId, u64>,
    /// What the source's file lacks of what was looked at.
    pub(crate) holes: Option<Holes>,
    /// Of the name of the bucket and of all its records.
    pub(crate) crc: Crc,
}

/// A database that was rebuilt, but not synced.
pub(crate) struct Rebuilt {
    pub(crate) copied: Copied,
    pub(crate) built: Built,
    pub(crate) read_back: ReadBack,
}

/// Writes `contents` and `tables` to the new file `file`, at `path`, while another thread reads it back. The file is whole
/// then, but not synced.
pub(crate) fn rebuild(
    contents: Contents<'_>,
    tables: &Tables,
    file: &mut dyn NewFile,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt, RestoreError> {
    contents.source.tables().refuse_uncarried().map_err(PlanError::from)?;
    thread::scope(|scope| {
        let (told, written) = channel();
        let reading = scope.spawn(move || ReadBack::follow(path, contents.page_size, contents.compact, &written));
        let done = write_buckets(contents, tables, Told { file, told, untold_bytes: 0 }, path, progress);
        // Whoever writes stops when reading back does: that is why, then.
        let read_back = reading.join().unwrap_or_else(|_| Err(RestoreError::Proof("reading it back ended".into())))?;
        let (copied, built) = done?;
        Ok(Rebuilt { copied, built, read_back })
    })
}

fn write_buckets(
    contents: Contents<'_>,
    tables: &Tables,
    file: Told<'_>,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Copied, Built), RestoreError> {
    let write_error = |source| RestoreError::Write { path: path.into(), source };
    let told = file.told.clone();
    let options = write::Options { page_size: contents.page_size, ..write::Options::default() };
    let mut builder = Builder::create(file, options).map_err(write_error)?;

    let mut bucket = builder.bucket(KEY).map_err(write_error)?;
    let copied = copy_records(contents, &mut bucket, path, progress)?;
    let root = bucket.finish().map_err(write_error)?;
    // If nobody listens any more, the next write fails.
    let _ = told.send(Written::KeySpace(root));

    write_tables(tables, &mut builder).map_err(write_error)?;
    let built = builder.finish().map_err(write_error)?;
    Ok((copied, built))
}

/// A file whose reader is told how far it is. Nobody else sees it until all of it has been synced, so syncing parts of
/// it before is of no use.
struct Told<'a> {
    file: &'a mut dyn NewFile,
    told: Sender<Written>,
    /// Written since it was told last.
    untold_bytes: usize,
}

/// Bytes after which the reader is told.
const TELL_BYTES: usize = 256 << 10;

impl Told<'_> {
    fn tell(&mut self) -> io::Result<()> {
        self.untold_bytes = 0;
        let readable = self.file.readable_bytes()?;
        self.told.send(Written::UpTo(readable)).map_err(|_| io::Error::other("what was written cannot be read back"))
    }
}

impl Sink for Told<'_> {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.untold_bytes += bytes.len();
        if self.untold_bytes < TELL_BYTES { Ok(()) } else { self.tell() }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.tell()
    }
}

fn copy_records<S: Sink>(
    contents: Contents<'_>,
    bucket: &mut BucketBuilder<'_, S>,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied, RestoreError> {
    let of_bytes = contents.source.size_bytes();
    let mut done_bytes = 0;
    let mut copied = Copied { records: 0, last: None, missing_leases: BTreeMap::new(), holes: None, crc: Crc::of(KEY) };
    let mut survivors = contents.survivors.map(Survivors::reader);
    let mut orphans = Orphans::default();
    // What is missing depends on where history begins.
    contents.source.tables().compact_revision()?;
    let mut unbroken = Unbroken::of(contents.source)?;
    let look = |batch: &mut Batch<Seen>, record: Record<'_>| {
        let lease = missing_lease(contents.source.tables(), record)?;
        Ok(batch.push(Seen { at: record.at, missing_lease: lease }, record.value))
    };
    let take = |batch: Batch<Seen>| {
        for (seen, value) in batch.iter() {
            unbroken.follow(seen.at)?;
            orphans.note(seen, value)?;
            copied.last = Some(seen.at);
            done_bytes += value.len() as u64;
            if survivors.as_mut().is_none_or(|survivors| survivors.keeps(seen.at)) {
                let key = seen.at.encode();
                let pushed = bucket.push(&key, value);
                pushed.map_err(|source| RestoreError::Write { path: path.into(), source })?;
                copied.crc.add(&key);
                copied.crc.add(value);
                copied.records += 1;
            }
        }
        progress(Progress { step: Step::Building, done_bytes, of_bytes });
        Ok::<_, RestoreError>(ControlFlow::Continue(()))
    };
    contents.source.scan(RevisionRange::up_to(contents.up_to), Direction::Forwards, look, take)?;
    copied.missing_leases = orphans.by_lease();
    copied.holes = unbroken.holes();
    Ok(copied)
}

/// A record, and the lease that it names if there is no record of that.
struct Seen {
    at: RevKey,
    missing_lease: Option<LeaseId>,
}

fn missing_lease(tables: &Tables, record: Record<'_>) -> Result<Option<LeaseId>, Error> {
    let lease = record.key_value()?.lease;
    Ok((lease != LeaseId(0) && !tables.has_lease(lease)).then_some(lease))
}

/// Keys whose newest record so far names a lease that there is no record of. Few at any time: a lease takes its keys
/// along when it ends, unless history is cut between.
#[derive(Default)]
struct Orphans {
    prints: Fingerprinter,
    keys: KeyMap<LeaseId>,
    any: bool,
}

impl Orphans {
    fn note(&mut self, seen: &Seen, value: &[u8]) -> Result<(), Error> {
        if seen.missing_lease.is_none() && !self.any {
            return Ok(());
        }
        let key: Fingerprint = self.prints.of(Record { at: seen.at, value }.key()?);
        match seen.missing_lease {
            Some(lease) => {
                self.any = true;
                self.keys.set(key, lease);
            }
            None => {
                if self.keys.remove(key).is_some() {
                    self.any = !self.keys.is_empty();
                }
            }
        }
        Ok(())
    }

    fn by_lease(&self) -> BTreeMap<LeaseId, u64> {
        let mut leases = BTreeMap::new();
        for lease in self.keys.values() {
            *leases.entry(*lease).or_default() += 1;
        }
        leases
    }
}

fn write_tables<S: Sink>(tables: &Tables, builder: &mut Builder<S>) -> Result<(), WriteError> {
    for (name, table) in tables.buckets() {
        let mut bucket = builder.bucket(name)?;
        for (key, value) in table {
            bucket.push(key, value)?;
        }
        bucket.finish()?;
    }
    Ok(())
}

/// About how many bytes `contents` take in a new file. Shows `see` every record that it comes by, in order.
pub(crate) fn estimate(
    contents: Contents<'_>,
    mut see: impl FnMut(RevKey) -> Result<(), RestoreError>,
) -> Result<u64, RestoreError> {
    let page_size = u64::from(contents.page_size);
    let mut survivors = contents.survivors.map(Survivors::reader);
    let mut pages = Pages { page_size, full: 0, filled: 0 };
    let look = |part: &mut Vec<(RevKey, u64)>, record: Record<'_>| {
        part.push((record.at, record.value.len() as u64));
        Ok(if part.len() < 4096 { Next::More } else { Next::Cut })
    };
    let take = |part: Vec<(RevKey, u64)>| {
        for (at, len) in part {
            see(at)?;
            if survivors.as_mut().is_none_or(|survivors| survivors.keeps(at)) {
                pages.add(len);
            }
        }
        Ok::<_, RestoreError>(ControlFlow::Continue(()))
    };
    contents.source.scan(RevisionRange::up_to(contents.up_to), Direction::Forwards, look, take)?;
    let tables = contents.source.tables().buckets().flat_map(|(_, table)| table);
    let table_bytes: u64 = tables.map(|(key, value)| (key.len() + value.len() + 16) as u64).sum();
    Ok(pages.bytes() + table_bytes + 64 * page_size)
}

/// Pages as they fill.
struct Pages {
    page_size: u64,
    full: u64,
    filled: u64,
}

impl Pages {
    fn add(&mut self, value_len: u64) {
        // An element and a key take at most 34 bytes; a page's header takes 16.
        let size = value_len + 34;
        if self.filled + size > self.page_size.saturating_sub(16) {
            self.full += self.filled.div_ceil(self.page_size);
            self.filled = 0;
        }
        self.filled += size;
    }

    /// With one branch for some hundred leaves at the most, and some tens at the least.
    fn bytes(&self) -> u64 {
        let leaves = self.full + 1 + self.filled / self.page_size;
        (leaves + leaves / (self.page_size / 40).max(2) + 1) * self.page_size
    }
}
