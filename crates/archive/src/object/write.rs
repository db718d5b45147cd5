//! Writing an object: records in order, and what is told of the cluster at the end.

use std::io::{self, Write};
use std::path::PathBuf;

use etcd_data::tables::Uncarried;
use etcd_data::{RevKey, Revision, Tables};
use sha2::{Digest, Sha256};

use super::frame::{self, TAIL_BYTES, Tail, digest};
use super::index::{ChunkEntry, Index, KeyBlock, Part};
use super::open::Object;
use super::packing::{Digested, Packing};
use super::tables;
use crate::budget::Budget;
use crate::chunk::{ChunkBuilder, KeyTable, Packer, Unpacker, keys_of};
use crate::closing::Closing;
use crate::encryption::DataKey;
use crate::error::ObjectError;
use crate::header::{Header, Kind, Link};
use crate::key_index::Gather;
use crate::sealing::BodyWriter;

/// How to write an object. `docs/performance.md` tells what the figures come from.
#[derive(Debug, Clone)]
pub struct WriteSettings {
    /// How hard zstd tries.
    pub levels: Levels,
    /// What the columns of a chunk have together, about, before they are packed; up to twice that where keys change
    /// often and little, and no more than 8 MiB, and then 4, where that makes columns hardly smaller.
    pub chunk_bytes: usize,
    /// Threads that pack chunks. With none, whoever adds records does that too.
    pub threads: usize,
    /// The memory in which keys are gathered for the key index.
    pub gather_bytes: usize,
    /// The folder for the keys that this memory does not hold, in a file without a name.
    pub scratch: PathBuf,
}

/// How hard zstd tries: 1 is fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// On chunks of values that have little in common with the ones before them of the same keys.
    pub literal: i32,
    /// On chunks where most values are small edits.
    pub edited: i32,
}

impl WriteSettings {
    /// For a full: chunks are small, so that a single key is found with few bytes.
    pub fn full() -> Self {
        Self {
            levels: Levels { literal: 1, edited: 7 },
            chunk_bytes: 1 << 20,
            threads: 2,
            gather_bytes: 8 << 20,
            scratch: std::env::temp_dir(),
        }
    }

    /// For a delta, new or merged: chunks are large, so that most versions of a key are edits of one before. One chunk
    /// is packed while the next is gathered, and no more, for each takes its size of memory.
    pub fn delta() -> Self {
        Self { chunk_bytes: 16 << 20, threads: 1, ..Self::full() }
    }

    /// The same with no more than `budget`.
    pub(crate) fn within(self, budget: &Budget) -> Self {
        let threads = self.threads.min(budget.packers);
        Self { threads, gather_bytes: self.gather_bytes.min(budget.gather_bytes), ..self }
    }
}

/// An object was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The bytes could not be written.
    #[error("writing an object")]
    Io(#[from] io::Error),
    /// A record does not come after the one before.
    #[error("record {at} does not come after {before}")]
    OutOfOrder {
        /// The record.
        at: RevKey,
        /// The one before.
        before: RevKey,
    },
    /// A record is not of the revisions that the header says.
    #[error("record {at} is not of the revisions {from} to {to}")]
    Outside {
        /// The record.
        at: RevKey,
        /// The first revision of the header.
        from: Revision,
        /// The last.
        to: Revision,
    },
    /// Revisions are missing from a delta.
    #[error("the changes after revision {after} are missing")]
    Gap {
        /// The last revision before what is missing.
        after: Revision,
    },
    /// The header is too large, or does not say what an object must.
    #[error("the header {what}")]
    Header {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The tables have what a full cannot.
    #[error("it cannot have all that the database has")]
    Uncarried(#[from] Uncarried),
    /// A chunk of another object could not be had.
    #[error("taking over a chunk of another object")]
    Source(#[from] ObjectError),
}

/// An object that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Its digest: the SHA-256 of all its bytes but the last forty.
    pub digest: [u8; 32],
    /// Its size.
    pub size_bytes: u64,
    /// What the object that follows on it names.
    pub link: Link,
    /// The records in it.
    pub records: u64,
}

/// An object that is being written.
pub struct ObjectWriter<W> {
    header: Header,
    settings: WriteSettings,
    head_digest: [u8; 16],
    body: BodyWriter<Hashed<W>>,
    builder: ChunkBuilder,
    packing: Packing,
    index: Index,
    keys: Gather,
    last: Option<RevKey>,
    records: u64,
}

/// What is written through it is counted and hashed.
struct Hashed<W> {
    out: W,
    hash: Sha256,
    written: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.hash.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> ObjectWriter<W> {
    /// Begins an object with `header`. Its body is sealed with `data_key`, of which the header tells, or not at all.
    pub fn create(
        out: W,
        header: Header,
        data_key: Option<DataKey>,
        settings: WriteSettings,
    ) -> Result<Self, WriteError> {
        if header.encryption.is_some() != data_key.is_some() {
            return Err(WriteError::Header { what: "and the key do not agree on whether it is encrypted" });
        }
        if header.from > header.to || header.format != crate::header::FORMAT {
            return Err(WriteError::Header { what: "has revisions or a format that cannot be" });
        }
        let head = frame::head(&header).ok_or(WriteError::Header { what: "is too large" })?;
        let mut out = Hashed { out, hash: Sha256::new(), written: 0 };
        out.write_all(&head)?;
        Ok(Self {
            head_digest: digest(&head),
            body: BodyWriter::new(out, &header, &head, data_key),
            builder: ChunkBuilder::default(),
            packing: Packing::new(settings.levels, settings.threads),
            index: Index::default(),
            keys: Gather::new(settings.scratch.clone(), settings.gather_bytes),
            last: None,
            records: 0,
            header,
            settings,
        })
    }

    /// Makes room for records of `bytes` in all, so that what gathers them need not grow to it.
    pub fn reserve(&mut self, bytes: usize) {
        self.builder.reserve(bytes.min(self.settings.chunk_bytes));
    }

    /// Adds a record, encoded as in the `key` bucket. Records come in the order of their revisions.
    pub fn push(&mut self, at: RevKey, value: &[u8]) -> Result<(), WriteError> {
        self.check_next(at, at)?;
        if !self.builder.has_room(value.len(), self.settings.chunk_bytes) {
            self.cut()?;
        }
        self.builder.push(at, value);
        self.records += 1;
        self.last = Some(at);
        Ok(())
    }

    /// Adds chunk `index` of `source` as it is, without unpacking more of it than its keys.
    pub fn push_chunk_of(&mut self, source: &Object, index: usize) -> Result<(), WriteError> {
        let (entry, stored) = source.stored_chunk(index)?;
        self.check_next(entry.first, entry.last)?;
        self.cut()?;
        while let Some(done) = self.packing.receive()? {
            self.place_packed(done)?;
        }
        let keys = keys_of(&stored, &mut Unpacker::new()?).map_err(|fault| source.fault(entry.part, fault))?;
        self.records += u64::from(entry.records);
        self.last = Some(entry.last);
        self.place_chunk(entry, &stored, &keys)
    }

    /// Refuses records from `first` to `last` that cannot be next.
    fn check_next(&self, first: RevKey, last: RevKey) -> Result<(), WriteError> {
        let Header { kind, from, to, .. } = self.header;
        if let Some(before) = self.last.filter(|&before| before >= first) {
            return Err(WriteError::OutOfOrder { at: first, before });
        }
        if first.main < from || last.main > to {
            return Err(WriteError::Outside { at: first, from, to });
        }
        let reached = self.last.map_or(Revision(from.0 - 1), |last| last.main);
        if kind == Kind::Delta && first.main > reached.next() {
            return Err(WriteError::Gap { after: reached });
        }
        Ok(())
    }

    /// Has the chunk that was gathered packed.
    fn cut(&mut self) -> Result<(), WriteError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        // The next is about as large.
        let room = self.builder.value_bytes();
        let next = self.builder.next();
        let builder = std::mem::replace(&mut self.builder, next);
        let done =
            if self.settings.threads == 0 { self.packing.at_once(builder)? } else { self.packing.send(builder)? };
        self.builder.reserve(room);
        done.map_or(Ok(()), |done| self.place_packed(done))
    }

    fn place_packed(&mut self, done: Digested) -> Result<(), WriteError> {
        let Digested { packed, digest } = done;
        let part = Part { offset: 0, stored_bytes: packed.stored.len() as u64, digest };
        let entry = ChunkEntry {
            first: packed.first,
            last: packed.last,
            records: packed.records,
            raw_bytes: packed.raw_bytes,
            keyless: packed.keyless,
            part,
        };
        self.place_chunk(entry, &packed.stored, &packed.keys)
    }

    fn place_chunk(&mut self, entry: ChunkEntry, stored: &[u8], keys: &KeyTable) -> Result<(), WriteError> {
        self.keys.add(self.index.chunks.len() as u32, keys)?;
        let part = Part { offset: self.body.position(), ..entry.part };
        self.body.write(stored)?;
        self.index.chunks.push(ChunkEntry { part, ..entry });
        Ok(())
    }

    /// Ends the object with what is told of the cluster. A full has the `tables` too: all that is in them, or it is refused.
    pub fn finish(mut self, closing: &Closing, tables: Option<&Tables>) -> Result<Written, WriteError> {
        tables.map_or(Ok(()), Tables::refuse_uncarried)?;
        self.finish_records()?;
        let mut packer = Packer::new(self.settings.levels.literal)?;
        if let Some(tables) = tables {
            self.index.tables = Some(place(&mut self.body, &mut packer, &tables::encode(tables))?);
        }
        let closing = serde_json::to_vec(closing).map_err(io::Error::from)?;
        self.index.closing = place(&mut self.body, &mut packer, &closing)?;
        let (body, blocks) = (&mut self.body, &mut self.index.key_blocks);
        self.keys.finish(|block| {
            let first_key = block.first_key().unwrap_or_default().to_vec();
            let part = place_as_is(body, &block.pack(&mut packer)?)?;
            blocks.push(KeyBlock { first_key, part });
            Ok(())
        })?;
        let index = place(&mut self.body, &mut packer, &self.index.encode())?;
        let tail = Tail {
            index_at: index.offset,
            index_bytes: index.stored_bytes,
            index_digest: index.digest,
            head_digest: self.head_digest,
        };
        debug_assert_eq!(tail.encode().len(), TAIL_BYTES);
        self.body.write(&tail.encode())?;
        let Hashed { mut out, hash, written } = self.body.finish()?;
        let digest = hash.finalize().into();
        let footer = frame::footer(digest);
        out.write_all(&footer)?;
        out.flush()?;
        let size_bytes = written + footer.len() as u64;
        Ok(Written { digest, size_bytes, link: self.header.link(digest), records: self.records })
    }

    fn finish_records(&mut self) -> Result<(), WriteError> {
        let reached = self.last.map_or(Revision(self.header.from.0 - 1), |last| last.main);
        if self.header.kind == Kind::Delta && reached != self.header.to {
            return Err(WriteError::Gap { after: reached });
        }
        if self.packing.was_used() {
            self.cut()?;
        } else {
            let builder = std::mem::take(&mut self.builder);
            if let Some(done) = self.packing.at_once(builder)? {
                self.place_packed(done)?;
            }
        }
        while let Some(done) = self.packing.receive()? {
            self.place_packed(done)?;
        }
        Ok(())
    }
}

/// Packs `bytes` as a part.
fn place<W: Write>(body: &mut BodyWriter<W>, packer: &mut Packer, bytes: &[u8]) -> io::Result<Part> {
    let mut stored = Vec::new();
    packer.pack(bytes, &mut stored)?;
    place_as_is(body, &stored)
}

fn place_as_is<W: Write>(body: &mut BodyWriter<W>, stored: &[u8]) -> io::Result<Part> {
    let part = Part { offset: body.position(), stored_bytes: stored.len() as u64, digest: digest(stored) };
    body.write(stored)?;
    Ok(part)
}
