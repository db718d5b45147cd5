//! `cargo xtask bench dictionaries`: what zstd would make of the columns of small deltas with a dictionary for each, trained
//! on other deltas of the same work.
//!
//! A delta as it is first sealed has some seconds of changes, so there is little in a column that could repeat. Once deltas
//! are merged, columns are as large as they get, and a dictionary has nothing to add. Of the deltas of each work the first
//! half trains, and the second is packed: with a dictionary and without, at both levels that chunks are packed at.

use std::sync::Arc;

use archive::sealing::NoKeys;
use archive::{Closing, Object, ObjectKind, ObjectWriter, WriteSettings};
use bytes::Bytes;
use etcd_data::RevKey;

use super::archive::header;
use super::format::Show;
use super::history::Change;
use super::w1::W1;
use super::w2::W2;
use crate::{Result, say};

/// The columns of a chunk, in their order.
const COLUMNS: [&str; 19] = [
    "key sizes",
    "key rests",
    "flags",
    "revisions",
    "back, low",
    "back, middle",
    "back, high",
    "ranks, low",
    "ranks, middle",
    "ranks, high",
    "creates",
    "mods",
    "versions",
    "leases",
    "sizes",
    "forms",
    "edits",
    "comes",
    "values",
];
/// How many deltas there are of each work.
const DELTAS: usize = 200;
/// Revisions in one, which is about what five seconds of W2 have.
const REVISIONS: i64 = 2900;
/// The size of a dictionary, as zstd recommends it.
const DICTIONARY_BYTES: usize = 110 << 10;

/// Measures and prints.
pub(crate) fn dictionaries() -> Result<()> {
    let full = W1::STANDARD.full_revision();
    let hour = W2::STANDARD.begins();
    measure("W1", &deltas(full + 1, |show| W1::STANDARD.play(show))?)?;
    measure("W2", &deltas(hour + 1, |show| W2::STANDARD.play(show))?)
}

/// The columns of each chunk of a delta.
type Chunks = Vec<[Vec<u8>; COLUMNS.len()]>;

/// The first deltas of a work, from revision `from` on.
fn deltas(from: i64, play: impl FnOnce(Show<'_>)) -> Result<Vec<Chunks>> {
    let mut gathered: Vec<(RevKey, Vec<u8>)> = Vec::new();
    let mut deltas: Vec<Result<Chunks>> = Vec::new();
    play(&mut |change: Change<'_>| {
        if change.at.main.0 < from || deltas.len() == DELTAS {
            return;
        }
        let begins = gathered.first().map_or(change.at.main.0, |(first, _)| first.main.0);
        if change.at.main.0 >= begins + REVISIONS {
            deltas.push(columns(&std::mem::take(&mut gathered)));
        }
        let mut encoded = Vec::new();
        change.key_value.encode(&mut encoded);
        gathered.push((change.at, encoded));
    });
    deltas.into_iter().collect()
}

/// The columns of a delta of `records`, as whoever reads the object finds them.
fn columns(records: &[(RevKey, Vec<u8>)]) -> Result<Chunks> {
    let (Some((first, _)), Some((last, _))) = (records.first(), records.last()) else { return Ok(Vec::new()) };
    let mut stored = Vec::new();
    let header = header(ObjectKind::Delta, (first.main.0, last.main.0), None);
    let mut writer = ObjectWriter::create(&mut stored, header, None, WriteSettings::delta())?;
    for (at, record) in records {
        writer.push(*at, record)?;
    }
    writer.finish(&Closing::default(), None)?;
    let stored = Bytes::from(stored);
    let object = Object::open("delta", Arc::new(stored.clone()), &NoKeys)?;
    let chunks = object.chunk_facts().map(|chunk| -> Result<[Vec<u8>; COLUMNS.len()]> {
        let begin = usize::try_from(chunk.stored_at)?;
        let end = begin + usize::try_from(chunk.stored_bytes)?;
        let mut rest = stored.get(begin..end).ok_or("a chunk lies outside of its object")?;
        number(&mut rest)?;
        let mut columns: [Vec<u8>; COLUMNS.len()] = std::array::from_fn(|_| Vec::new());
        for column in &mut columns {
            *column = unpacked(&mut rest)?;
        }
        if rest.is_empty() { Ok(columns) } else { Err("a chunk has other columns than were expected".into()) }
    });
    chunks.collect()
}

/// Takes a column off `rest`: docs/format/objects.md.
fn unpacked(rest: &mut &[u8]) -> Result<Vec<u8>> {
    let how = take(rest, 1)?.to_vec();
    let len = number(rest)?;
    match how.as_slice() {
        [0] => Ok(take(rest, len)?.to_vec()),
        [1] => {
            let frame = number(rest)?;
            Ok(zstd::bulk::decompress(take(rest, frame)?, len)?)
        }
        [2] => {
            let byte = take(rest, 1)?;
            Ok(byte.repeat(len))
        }
        _ => Err("a column is packed in an unknown way".into()),
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len).ok_or("a chunk ends too early")?;
    *rest = left;
    Ok(taken)
}

fn number(rest: &mut &[u8]) -> Result<usize> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = take(rest, 1)?.iter().copied().next().unwrap_or_default();
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is too long".into())
}

fn measure(name: &str, deltas: &[Chunks]) -> Result<()> {
    let (training, packed) = deltas.split_at(deltas.len() / 2);
    say(&format!("{name}: columns of {} deltas, dictionaries of {} others; in KB", packed.len(), training.len()));
    say(&format!(
        "{:<16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "", "plain", "level 1", "with", "level 7", "with", "dictionary"
    ));
    let mut total = [0; 6];
    for (at, column) in COLUMNS.iter().enumerate() {
        let of = |deltas: &[Chunks]| -> Vec<Vec<u8>> {
            let columns = deltas.iter().flatten().filter_map(|chunk| chunk.get(at));
            columns.filter(|column| !column.is_empty()).cloned().collect()
        };
        let (training, columns) = (of(training), of(packed));
        // Of too little, or of what has nothing in common, there is none.
        let dictionary = zstd::dict::from_samples(&training, DICTIONARY_BYTES).unwrap_or_default();
        let sizes = [
            columns.iter().map(Vec::len).sum::<usize>(),
            packed_bytes(&columns, 1, &[])?,
            packed_bytes(&columns, 1, &dictionary)?,
            packed_bytes(&columns, 7, &[])?,
            packed_bytes(&columns, 7, &dictionary)?,
            dictionary.len(),
        ];
        tell(column, &sizes);
        total.iter_mut().zip(sizes).for_each(|(total, size)| *total += size);
    }
    tell("all", &total);
    Ok(())
}

/// What `columns` take when each is packed by itself, as it is where that is shorter.
fn packed_bytes(columns: &[Vec<u8>], level: i32, dictionary: &[u8]) -> Result<usize> {
    let mut zstd = zstd::bulk::Compressor::with_dictionary(level, dictionary)?;
    let mut bytes = 0;
    for column in columns {
        let is_repeated = column.iter().all(|byte| Some(byte) == column.first());
        bytes += if is_repeated { 1 } else { zstd.compress(column)?.len().min(column.len()) };
    }
    Ok(bytes)
}

fn tell(name: &str, sizes: &[usize; 6]) {
    let columns: String = sizes.iter().map(|&bytes| format!(" {:>9.1}", bytes as f64 / 1e3)).collect();
    say(&format!("{name:<16}{columns}"));
}
