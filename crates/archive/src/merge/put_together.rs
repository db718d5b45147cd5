//! Putting together what is taken of several deltas.
//!
//! Large ones are put together chunk by chunk, as they are: to unpack a chunk that is full, and pack it again, takes most of
//! the time and the memory of a merge, and makes nothing smaller. What is left at the end of each is not full, and is read
//! and packed with what follows, unless that is full too. Where a delta has few chunks, that would be most of what it has;
//! so there all is.
//!
//! A chunk tells of nothing outside it, and of whoever takes it over only its digest and its keys are looked at. So what was
//! damaged since it was written is found here, and whether its records are sound by whoever reads it.

use std::io::Write;

use etcd_data::database::{Readers, RevisionRange};
use etcd_data::{Database, Tables};
use store::Key;

use super::{damaged, push_all};
use crate::error::Error;
use crate::object::{Object, ObjectWriter, WriteError};
use crate::publish::unwritten;

/// So many full chunks have to be before one that is not, which stays a chunk of its own then.
const FULL_CHUNKS: usize = 2;

/// A chunk of a delta, and what is taken of it.
struct Piece<'o> {
    object: &'o Object,
    index: usize,
    taken: RevisionRange,
    is_whole: bool,
}

/// Writes what is taken of each source, in order.
pub(super) fn put_together<W: Write>(
    sources: &[(Object, RevisionRange)],
    readers: Readers,
    making: &mut ObjectWriter<W>,
    into: &Key,
) -> Result<(), Error> {
    let chunks = sources.iter().flat_map(|(object, _)| object.chunk_facts());
    making.reserve(usize::try_from(chunks.map(|chunk| chunk.raw_bytes).sum::<u64>()).unwrap_or(usize::MAX));
    let mut rest = Vec::new();
    for (object, take) in sources {
        let last = object.chunk_facts().len().saturating_sub(1);
        for piece in pieces(object, *take) {
            // Whoever wrote it went on to another chunk, so it had become as large as chunks become.
            if last >= FULL_CHUNKS && piece.index < last && piece.is_whole {
                pack_together(&std::mem::take(&mut rest), readers, making, into)?;
                take_over(&piece, making, into)?;
            } else {
                rest.push(piece);
            }
        }
    }
    pack_together(&rest, readers, making, into)
}

/// The chunks of `object` that have something of `take`.
fn pieces(object: &Object, take: RevisionRange) -> impl Iterator<Item = Piece<'_>> {
    let pieces = object.chunk_facts().enumerate().map(move |(index, chunk)| {
        let range = RevisionRange { from: chunk.first.main, to: chunk.last.main };
        let taken = range.within(&take);
        Piece { object, index, taken, is_whole: taken == range }
    });
    pieces.filter(|piece| !piece.taken.is_empty())
}

/// Packs neighbours anew. Of one that is alone and whole would come what it is.
fn pack_together<W: Write>(
    pieces: &[Piece<'_>],
    readers: Readers,
    making: &mut ObjectWriter<W>,
    into: &Key,
) -> Result<(), Error> {
    if let [piece] = pieces
        && piece.is_whole
    {
        return take_over(piece, making, into);
    }
    let mut to_read = Database::empty(Tables::default()).read_by(readers);
    for Piece { object, index, taken, .. } in pieces {
        if let Some((_, records)) = object.chunk(*index) {
            to_read = to_read.followed_by(*taken, records);
        }
    }
    push_all(&to_read, None, making, into)
}

fn take_over<W: Write>(piece: &Piece<'_>, making: &mut ObjectWriter<W>, into: &Key) -> Result<(), Error> {
    making.push_chunk_of(piece.object, piece.index).map_err(|error| match error {
        WriteError::Source(source) => damaged(piece.object, source),
        error => unwritten(into, error),
    })
}

#[cfg(test)]
mod tests;
