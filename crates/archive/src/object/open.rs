//! Reading an object: from its two ends, then the parts that somebody asks for.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use etcd_data::database::{Direction, Record, RevisionRange};
use etcd_data::records::{Records, Visit};
use etcd_data::{Error, RevKey, Tables};
use sha2::{Digest, Sha256};

use super::frame::{self, FOOTER_BYTES, PRELUDE_BYTES, TAIL_BYTES, Tail, digest, digest_in, head_bytes};
use super::index::{ChunkEntry, Index, KeyBlock, MAX_INDEX_BYTES, Part};
use super::tables;
use crate::chunk::{Chunk, Course, MAX_RECORD_BYTES, Stop, Unpacker};
use crate::closing::Closing;
use crate::error::ObjectError;
use crate::fields::{Fault, Fields};
use crate::header::{Header, Kind, Link};
use crate::key_index::Block;
use crate::read_at::{ReadAt, ReadFailed};
use crate::sealing::{Body, Keys, StoredBody};

/// An object whose index was read. Everything else is read when it is asked for. Copies are cheap and share all of it.
#[derive(Clone)]
pub struct Object {
    inner: Arc<Inner>,
}

struct Inner {
    place: String,
    bytes: Arc<dyn ReadAt>,
    header: Header,
    digest: [u8; 32],
    body: Body,
    index: Index,
    closing: OnceLock<Closing>,
    tables: OnceLock<Tables>,
}

/// Keys that somebody looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// This one.
    Key(&'a [u8]),
    /// All that begin so.
    Prefix(&'a [u8]),
}

/// What is known of a chunk without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkFacts {
    /// Its first record.
    pub first: RevKey,
    /// Its last.
    pub last: RevKey,
    /// How many there are.
    pub records: u64,
    /// About how many bytes they have.
    pub raw_bytes: u64,
    /// Where in the object its bytes begin.
    pub stored_at: u64,
    /// How many bytes of the object it takes, about if it is encrypted.
    pub stored_bytes: u64,
}

/// What is read of either end at once: all of a small object, and the index of most.
const END_BYTES: u64 = 64 << 10;
/// Bytes of tables and of a closing, unpacked, at the most: ten million leases fit.
const MAX_TABLES_BYTES: usize = 600 << 20;

/// Reads the header of an object, with one request in nearly all cases.
pub fn read_header(bytes: &dyn ReadAt) -> Result<Header, ObjectError> {
    let start = read_start(bytes, END_BYTES.min(bytes.size_bytes()))?;
    frame::header(start.get(..head_bytes(&start)?).unwrap_or_default())
}

/// The SHA-256 of all bytes but those of the footer, which tell what it should be. `tell` hears how many were read.
pub(crate) fn hash_before_footer(bytes: &dyn ReadAt, mut tell: impl FnMut(u64)) -> Result<[u8; 32], ReadFailed> {
    const AT_ONCE: u64 = 1 << 20;
    let end = bytes.size_bytes().saturating_sub(FOOTER_BYTES as u64);
    let mut hash = Sha256::new();
    let mut offset = 0;
    while offset < end {
        let len = AT_ONCE.min(end - offset);
        hash.update(bytes.read_at(offset, len as usize)?);
        offset += len;
        tell(len);
    }
    Ok(hash.finalize().into())
}

/// The first `len` bytes, or as many more as the head has.
fn read_start(bytes: &dyn ReadAt, len: u64) -> Result<Bytes, ObjectError> {
    let start = bytes.read_at(0, len as usize)?;
    let head = head_bytes(&start)?;
    if head <= start.len() {
        return Ok(start);
    }
    if head as u64 > bytes.size_bytes() {
        return Err(ObjectError::Damaged { offset: PRELUDE_BYTES as u64, what: "it ends inside its header".into() });
    }
    Ok(bytes.read_at(0, head)?)
}

impl Object {
    /// Opens the object whose bytes these are. Errors of its records name it as `place`. `keys` open it if it is encrypted.
    pub fn open(
        place: impl Into<String>,
        bytes: Arc<dyn ReadAt>,
        keys: &(impl Keys + ?Sized),
    ) -> Result<Self, ObjectError> {
        let size = bytes.size_bytes();
        let is_small = size <= 2 * END_BYTES;
        let start = read_start(&*bytes, if is_small { size } else { END_BYTES })?;
        let head = start.slice(..head_bytes(&start)?.min(start.len()));
        let header = frame::header(&head)?;
        let footer_at = size.checked_sub(FOOTER_BYTES as u64).filter(|&at| at >= head.len() as u64);
        let too_short = || ObjectError::Damaged { offset: size, what: "it ends before its body does".into() };
        let footer_at = footer_at.ok_or_else(too_short)?;

        let mut known = vec![(0, start)];
        if !is_small {
            let end_at = size - END_BYTES;
            known.push((end_at, bytes.read_at(end_at, END_BYTES as usize)?));
        }
        let stored = StoredBody { bytes: Arc::clone(&bytes), start: head.len() as u64, end: footer_at, known };
        let digest = digest_in(&stored.read_from(footer_at, FOOTER_BYTES)?, footer_at)?;
        let mut body = Body::open(stored, &header, &head, keys)?;
        let tail = tail(&body, &head)?;
        let index = read_index(&body, tail)?;
        check_range(&header, &index).map_err(|fault| body.damaged(tail.index_at, fault.0))?;
        if bytes.is_near() {
            body.forget_what_was_read();
        }
        let (closing, tables) = (OnceLock::new(), OnceLock::new());
        let inner = Inner { place: place.into(), bytes, header, digest, body, index, closing, tables };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The same for somebody who reads all of it and has many open: nothing is kept of its ends once what stands there is
    /// understood. Of a small one all was read, and is.
    pub(crate) fn without_ends(mut self) -> Self {
        // What is wrong with these is told to whoever asks for them.
        let _ = (self.closing().is_ok(), self.tables().is_ok());
        if let Some(inner) = Arc::get_mut(&mut self.inner)
            && inner.bytes.size_bytes() > 2 * END_BYTES
        {
            inner.body.forget_what_was_read();
        }
        self
    }

    /// What errors call it.
    pub fn place(&self) -> &str {
        &self.inner.place
    }

    /// What it says of itself.
    pub fn header(&self) -> &Header {
        &self.inner.header
    }

    /// Its digest, as it says itself: [`Object::verify_digest`] finds out.
    pub fn digest(&self) -> [u8; 32] {
        self.inner.digest
    }

    /// What the object that follows on it names.
    pub fn link(&self) -> Link {
        self.inner.header.link(self.inner.digest)
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.inner.index.chunks.iter().map(|chunk| u64::from(chunk.records)).sum()
    }

    /// What is told of the cluster.
    pub fn closing(&self) -> Result<&Closing, ObjectError> {
        if let Some(closing) = self.inner.closing.get() {
            return Ok(closing);
        }
        let part = self.inner.index.closing;
        let json = self.unpacked(part, MAX_TABLES_BYTES)?;
        let closing = serde_json::from_slice(&json)
            .map_err(|error| self.inner.body.damaged(part.offset, &format!("the closing does not read: {error}")))?;
        Ok(self.inner.closing.get_or_init(|| closing))
    }

    /// The small buckets, if it is a full.
    pub fn tables(&self) -> Result<Option<Tables>, ObjectError> {
        let Some(part) = self.inner.index.tables else { return Ok(None) };
        if let Some(tables) = self.inner.tables.get() {
            return Ok(Some(tables.clone()));
        }
        let bytes = self.unpacked(part, MAX_TABLES_BYTES)?;
        let tables = tables::parse(&bytes).map_err(|fault| self.fault(part, fault))?;
        Ok(Some(self.inner.tables.get_or_init(|| tables).clone()))
    }

    /// What its chunks are, in order.
    pub fn chunk_facts(&self) -> impl ExactSizeIterator<Item = ChunkFacts> {
        self.inner.index.chunks.iter().map(|chunk| ChunkFacts {
            first: chunk.first,
            last: chunk.last,
            records: chunk.records.into(),
            raw_bytes: chunk.raw_bytes,
            stored_at: self.inner.body.place_of(chunk.part.offset),
            stored_bytes: chunk.part.stored_bytes,
        })
    }

    /// Its chunks, in order, as layers of a database.
    pub fn chunks(&self) -> impl Iterator<Item = (RevisionRange, Arc<dyn Records>)> {
        (0..self.inner.index.chunks.len()).filter_map(|index| self.chunk(index))
    }

    /// Its chunks that have records of the keys `wanted`, likewise. Reads the blocks of the key index that matter.
    pub fn chunks_with(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<impl Iterator<Item = (RevisionRange, Arc<dyn Records>)>, ObjectError> {
        let chunks = &self.inner.index.chunks;
        // Whose key cannot be read may be wanted: whoever looks is told.
        let mut has: Vec<bool> = chunks.iter().map(|chunk| chunk.keyless).collect();
        let blocks = &self.inner.index.key_blocks;
        let first = blocks.partition_point(|block| block.first_key.as_slice() <= wanted.start()).saturating_sub(1);
        for block in blocks.get(first..).unwrap_or_default() {
            if wanted.is_before(&block.first_key) {
                break;
            }
            let stored = self.part(block.part, MAX_RECORD_BYTES)?;
            let fault = |fault| self.fault(block.part, fault);
            let unpacked = Block::unpack(&stored, &mut unpacker()?).map_err(fault)?;
            let mut mark = |key: &[u8], chunks: &mut dyn Iterator<Item = usize>| {
                if wanted.is(key) {
                    chunks.for_each(|chunk| has.iter_mut().skip(chunk).take(1).for_each(|has| *has = true));
                }
            };
            unpacked.entries(chunks.len(), |key, mut chunks| mark(key, &mut chunks)).map_err(fault)?;
        }
        let found = has.into_iter().enumerate().filter(|(_, has)| *has);
        Ok(found.filter_map(|(index, _)| self.chunk(index)))
    }

    /// Chunk `index`, as a layer of a database. Nothing if there is none.
    pub fn chunk(&self, index: usize) -> Option<(RevisionRange, Arc<dyn Records>)> {
        let entry = *self.inner.index.chunks.get(index)?;
        let range = RevisionRange { from: entry.first.main, to: entry.last.main };
        Some((range, Arc::new(ChunkRecords { object: self.clone(), entry })))
    }

    /// Reads all of it, and says whether it is what its digest says.
    pub fn verify_digest(&self) -> Result<bool, ObjectError> {
        Ok(hash_before_footer(&*self.inner.bytes, |_| {})? == self.inner.digest)
    }

    /// The bytes of chunk `index`, as they are stored before they are sealed.
    pub(super) fn stored_chunk(&self, index: usize) -> Result<(ChunkEntry, Bytes), ObjectError> {
        let missing = || self.inner.body.damaged(self.inner.body.size_bytes(), "there is no such chunk");
        let entry = self.inner.index.chunks.get(index).ok_or_else(missing)?;
        Ok((*entry, self.part(entry.part, MAX_RECORD_BYTES)?))
    }

    /// Block `index` of the key index, with the key that the index says it begins with. Nothing if there is none.
    pub(super) fn key_block(&self, index: usize) -> Result<Option<(&KeyBlock, Block)>, ObjectError> {
        let Some(entry) = self.inner.index.key_blocks.get(index) else { return Ok(None) };
        let stored = self.part(entry.part, MAX_RECORD_BYTES)?;
        let block = Block::unpack(&stored, &mut unpacker()?).map_err(|fault| self.fault(entry.part, fault))?;
        Ok(Some((entry, block)))
    }

    pub(super) fn fault(&self, part: Part, fault: Fault) -> ObjectError {
        self.inner.body.damaged(part.offset, fault.0)
    }

    fn part(&self, part: Part, limit: usize) -> Result<Bytes, ObjectError> {
        read_part(&self.inner.body, part, limit)
    }

    fn unpacked(&self, part: Part, limit: usize) -> Result<Vec<u8>, ObjectError> {
        unpacked(&self.inner.body, part, limit)
    }
}

impl Wanted<'_> {
    /// What nothing wanted sorts before.
    fn start(&self) -> &[u8] {
        match self {
            Self::Key(key) | Self::Prefix(key) => key,
        }
    }

    fn is(&self, key: &[u8]) -> bool {
        match self {
            Self::Key(wanted) => key == *wanted,
            Self::Prefix(prefix) => key.starts_with(prefix),
        }
    }

    /// Whether all that is wanted sorts before `key`.
    fn is_before(&self, key: &[u8]) -> bool {
        key > self.start() && !self.is(key)
    }
}

fn tail(body: &Body, head: &[u8]) -> Result<Tail, ObjectError> {
    let at = body.size_bytes().checked_sub(TAIL_BYTES as u64);
    let at = at.ok_or_else(|| body.damaged(0, "its body is too short"))?;
    let tail = Tail::parse(&body.read(at, TAIL_BYTES)?).ok_or_else(|| body.damaged(at, "its tail is damaged"))?;
    if tail.head_digest != digest(head) {
        return Err(body.damaged(at, "its body belongs to another header"));
    }
    let index_end = tail.index_at.checked_add(tail.index_bytes);
    if index_end != Some(at) {
        return Err(body.damaged(at, "its index is not where it should be"));
    }
    Ok(tail)
}

fn read_index(body: &Body, tail: Tail) -> Result<Index, ObjectError> {
    let part = Part { offset: tail.index_at, stored_bytes: tail.index_bytes, digest: tail.index_digest };
    let bytes = unpacked(body, part, MAX_INDEX_BYTES)?;
    let index = Index::parse(&bytes).map_err(|fault| body.damaged(part.offset, fault.0))?;
    if index.end() != tail.index_at {
        return Err(body.damaged(tail.index_at, "its parts do not end where its index begins"));
    }
    Ok(index)
}

/// Refuses chunks that are not of the revisions that the header says.
fn check_range(header: &Header, index: &Index) -> Result<(), Fault> {
    let chunks = &index.chunks;
    let (first, last) = (chunks.first().map(|chunk| chunk.first.main), chunks.last().map(|chunk| chunk.last.main));
    match header.kind {
        Kind::Full if last.is_none_or(|last| last <= header.to) => Ok(()),
        Kind::Delta if (first, last) == (Some(header.from), Some(header.to)) => {
            let joined = |[before, next]: &[ChunkEntry; 2]| next.first.main <= before.last.main.next();
            if chunks.array_windows().all(joined) { Ok(()) } else { Err(Fault("revisions are missing between chunks")) }
        }
        _ => Err(Fault("its records are not of the revisions that its header says")),
    }
}

/// The bytes of a part, as they were written.
fn read_part(body: &Body, part: Part, limit: usize) -> Result<Bytes, ObjectError> {
    let len = usize::try_from(part.stored_bytes).ok().filter(|&len| len <= limit);
    let bytes = body.read(part.offset, len.ok_or_else(|| body.damaged(part.offset, "a part is too long"))?)?;
    if digest(&bytes) == part.digest {
        Ok(bytes)
    } else {
        Err(body.damaged(part.offset, "a part is not as it was written"))
    }
}

fn unpacked(body: &Body, part: Part, limit: usize) -> Result<Vec<u8>, ObjectError> {
    let stored = read_part(body, part, limit)?;
    let mut fields = Fields::of(&stored);
    let bytes = unpacker()?.unpack(&mut fields, limit).and_then(|bytes| fields.end().map(|()| bytes));
    bytes.map_err(|fault| body.damaged(part.offset, fault.0))
}

pub(super) fn unpacker() -> Result<Unpacker, ObjectError> {
    Unpacker::new().map_err(|error| ObjectError::Read(ReadFailed::new(0, 0, error)))
}

/// One chunk, as records of a database. Whoever reads it has it unpacked for as long.
struct ChunkRecords {
    object: Object,
    entry: ChunkEntry,
}

impl Records for ChunkRecords {
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        let chunk = self.stored(Chunk::unpack, Chunk::records).map_err(|error| self.error(error))?;
        self.show(visit, |visit| chunk.read(direction, visit))
    }

    fn read_keys(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        let course = self.stored(Course::of, Course::records).map_err(|error| self.error(error))?;
        match course.has_keyless() {
            // What is wrong with these shows in the whole records.
            true => self.read(direction, &mut |at, value| visit(at, Record { at, value }.key()?)),
            false => self.show(visit, |visit| course.read(direction, visit)),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.entry.raw_bytes
    }

    fn last(&self) -> Result<Option<RevKey>, Error> {
        Ok(Some(self.entry.last))
    }
}

impl ChunkRecords {
    /// The chunk, as `unpack` makes it of what is stored.
    fn stored<T>(
        &self,
        unpack: impl FnOnce(&[u8], &mut Unpacker) -> Result<T, Fault>,
        records: impl FnOnce(&T) -> usize,
    ) -> Result<T, ObjectError> {
        let stored = self.object.part(self.entry.part, MAX_RECORD_BYTES)?;
        let fault = |fault| self.object.fault(self.entry.part, fault);
        let chunk = unpack(&stored, &mut unpacker()?).map_err(fault)?;
        if records(&chunk) != self.entry.records as usize {
            return Err(fault(Fault("a chunk has another number of records than the index says")));
        }
        Ok(chunk)
    }

    /// Has `read` show its records to `visit`, and none that the index does not tell of.
    fn show(&self, visit: &mut Visit<'_>, read: impl FnOnce(&mut Visit<'_>) -> Result<(), Stop>) -> Result<(), Error> {
        let ChunkEntry { first, last, .. } = self.entry;
        let mut outside = false;
        let mut inside = |at: RevKey, bytes: &[u8]| {
            outside = at < first || at > last;
            if outside { Ok(std::ops::ControlFlow::Break(())) } else { visit(at, bytes) }
        };
        let fault = match read(&mut inside) {
            Ok(()) if outside => Fault("a chunk has other records than the index says"),
            Ok(()) => return Ok(()),
            Err(Stop::Visitor(error)) => return Err(error),
            Err(Stop::Fault(fault)) => fault,
        };
        Err(self.error(self.object.fault(self.entry.part, fault)))
    }

    fn error(&self, error: ObjectError) -> Error {
        let ChunkEntry { first, last, .. } = self.entry;
        let place = format!("{}, records {first} to {last}", self.object.place());
        Error::Elsewhere { place, kind: error.kind(), source: error.into() }
    }
}
