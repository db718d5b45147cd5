//! Reading back what was written, soon after it was, and comparing it with what it was made from.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bolt_file::check::rising::{Rising, Unsound};
use bolt_file::file::Root;
use bolt_file::page::Leaf;
use bolt_file::scan::{Direction, KeyRange, SpanReader};
use bolt_file::{BoltFile, Bucket, PageId};

use super::error::RestoreError;
use crate::anchor::Anchored;
use crate::database::{Database, Record};
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

/// How far a new database is.
pub(crate) enum Written {
    /// Up to this byte it can be read.
    UpTo(u64),
    /// No more records will come. The last page of the key space is its root, if it has pages of its own.
    KeySpace(Option<PageId>),
}

/// A new database as it was read back.
pub(crate) struct ReadBack {
    rising: Rising,
    key_space: KeySpace,
}

/// Which of the leaves that come are of the key space.
enum Leaves {
    /// Every one so far: it is written first.
    All,
    /// Those up to its root.
    UpTo(PageId),
    /// None, for it has no pages of its own.
    None,
}

impl Leaves {
    fn has(&self, page: PageId) -> bool {
        match self {
            Self::All => true,
            Self::UpTo(root) => page <= *root,
            Self::None => false,
        }
    }
}

impl ReadBack {
    /// Reads the file at `path` as it is `written`, until nothing more is, and requires that every page of it is sound.
    /// It will be compacted at `compact`.
    pub(crate) fn follow(
        path: &Path,
        page_size: u32,
        compact: Option<Revision>,
        written: &Receiver<Written>,
    ) -> Result<Self, RestoreError> {
        let mut rising = Rising::new(Arc::new(open(path)?), page_size);
        let mut key_space = KeySpace::new(compact);
        let mut leaves = Leaves::All;
        for written in written {
            match written {
                Written::KeySpace(root) => leaves = root.map_or(Leaves::None, Leaves::UpTo),
                Written::UpTo(bytes) => {
                    let mut see = |page, leaf: &Leaf<'_>| {
                        if leaves.has(page) {
                            key_space.leaf(leaf);
                        }
                    };
                    rising.read_up_to(bytes, &mut see).map_err(|wrong| unsound(path, wrong))?;
                    key_space.put_together();
                }
            }
        }
        Ok(Self { rising, key_space })
    }

    /// Requires that the database at `path`, which was read back, is whole, and has these `tables` and `records`.
    pub(crate) fn require_whole(self, path: &Path, tables: &Tables, records: u32) -> Result<Proven, RestoreError> {
        let Self { rising, mut key_space } = self;
        let unread = |error: bolt_file::Error| unsound(path, error.into());
        let file = BoltFile::open(Arc::new(open(path)?)).map_err(unread)?;
        let buckets = rising.finish(&file).map_err(|wrong| unsound(path, wrong))?;
        let database = Database::open(file.clone()).map_err(unproven)?;
        require(database.tables() == tables, || "its tables are others".into())?;
        if let Some(bucket) = file.bucket(KEY).map_err(unread)? {
            match bucket.root() {
                Root::Inline(..) => key_space.inline(&bucket).map_err(unread)?,
                Root::Page(_) => {
                    let entries = buckets.iter().find(|bucket| bucket.name == KEY).map(|bucket| bucket.entries);
                    require(entries == Some(key_space.entries), || {
                        "its key space holds others than its records".into()
                    })?;
                }
            }
        }
        require(key_space.tally.all() == records, || "its records are others".into())?;
        Ok(Proven { database, tally: key_space.tally })
    }

    /// Proves that the database at `path` is as `expected`. Returns what a server answers to HashKV.
    pub(crate) fn require(self, path: &Path, expected: &Expected<'_>) -> Result<HashKv, RestoreError> {
        let Proven { database, tally } = self.require_whole(path, &expected.tables, expected.records)?;
        let horizon = Horizon::of(&database).map_err(unproven)?;
        let wanted = Horizon { compact: expected.compact, current: expected.current };
        require(horizon == wanted, || format!("it begins at {horizon:?}, not {wanted:?}"))?;

        let found = match tally.hash() {
            Some(hash) => HashKv { hash, revision: horizon.current, compact_revision: horizon.compact },
            None => hash_kv(&database, None, None).map_err(unproven)?,
        };
        if let Some(SourceAt { source, at, compact }) = expected.same_hash {
            let source = hash_kv(source, Some(at), compact)?;
            require(found.hash == source.hash, || {
                format!("its HashKV is {}, the source's {}", found.hash, source.hash)
            })?;
        }
        if let Some(anchored) = &expected.anchored {
            anchored.require_same(&database, found)?;
        }
        Ok(found)
    }
}

/// A new database that is sound in every page, and has what it was made from.
pub(crate) struct Proven {
    pub(crate) database: Database,
    tally: Tally,
}

/// The records as they are read back.
struct KeySpace {
    look: Look,
    /// Those that were not put together yet.
    seen: Seen,
    tally: Tally,
    entries: u64,
}

impl KeySpace {
    fn new(compact: Option<Revision>) -> Self {
        let look = Look::new(compact);
        Self { tally: Tally::new(&look), look, seen: Seen::default(), entries: 0 }
    }

    fn leaf(&mut self, leaf: &Leaf<'_>) {
        for index in 0..leaf.len() {
            // What cannot be read was told already, or is missing in the CRC.
            let Ok(Some(entry)) = leaf.get(index) else { return };
            self.entries += 1;
            let Some(at) = RevKey::parse(entry.key) else { return };
            if self.look.at(&Record { at, value: entry.value }, &mut self.seen).is_err() {
                return;
            }
        }
    }

    /// Takes the leaf of a key space that has no page of its own.
    fn inline(&mut self, bucket: &Bucket) -> Result<(), bolt_file::Error> {
        for span in bucket.spans(KeyRange::default())? {
            let mut see = |leaf: Leaf<'_>| {
                self.leaf(&leaf);
                Ok::<_, bolt_file::Error>(ControlFlow::Continue(()))
            };
            let _ = SpanReader::new(bucket.file()).leaves(&span, Direction::Forwards, &mut see)?;
        }
        self.put_together();
        Ok(())
    }

    fn put_together(&mut self) {
        self.tally.take(std::mem::take(&mut self.seen));
    }
}

fn open(path: &Path) -> Result<File, RestoreError> {
    File::open(path).map_err(|source| RestoreError::Io { action: "opening", path: path.into(), source })
}

/// What is wrong with the new file at `path`, which nothing about its source can help.
fn unsound(path: &Path, wrong: Unsound) -> RestoreError {
    match wrong {
        Unsound::Read(bolt_file::Error::Read { source, .. }) => {
            RestoreError::Io { action: "reading back", path: path.into(), source }
        }
        wrong => unproven(wrong),
    }
}

fn unproven(wrong: impl std::fmt::Display) -> RestoreError {
    RestoreError::Proof(wrong.to_string())
}

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), RestoreError> {
    if holds { Ok(()) } else { Err(RestoreError::Proof(otherwise())) }
}
