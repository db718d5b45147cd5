//! The files of a log, called `<sequence>-<index>.wal`, both numbers as 16 hexadecimal digits.
//!
//! Sequence numbers count on by one, from where old segments have been removed. The index is that of the first entry
//! that was to come when the segment was begun.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use bolt_file::Storage;

use super::WalError;

/// What a segment is called. The order is that of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// Its place among the segments.
    pub sequence: u64,
    /// The index of the first entry that was to come.
    pub index: u64,
}

impl SegmentName {
    /// The name of a log's first segment.
    pub const FIRST: SegmentName = SegmentName { sequence: 0, index: 0 };

    /// Reads a file's name; `None` if it is not a segment's.
    pub fn parse(name: &str) -> Option<SegmentName> {
        let (sequence, index) = name.strip_suffix(".wal")?.split_once('-')?;
        Some(SegmentName { sequence: hexadecimal(sequence)?, index: hexadecimal(index)? })
    }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let all_digits = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    all_digits.then(|| u64::from_str_radix(digits, 16).ok())?
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}.wal", self.sequence, self.index)
    }
}

/// One segment: its name and where its bytes are.
pub struct Segment<S> {
    /// What it is called.
    pub name: SegmentName,
    /// Its bytes.
    pub storage: S,
}

/// What is in the folder of a log.
pub struct Folder<S> {
    /// The segments in order.
    pub segments: Vec<Segment<S>>,
    /// The names of all other files, sorted: segments prepared for later (`.tmp`), copies of torn ones (`.broken`).
    pub others: Vec<String>,
}

impl Folder<File> {
    /// Opens the segments in `path` for reading, and nothing else.
    pub fn open(path: &Path) -> Result<Folder<File>, WalError> {
        let names = list(path).map_err(|source| WalError::List { path: path.into(), source })?;
        let mut folder = Folder { segments: Vec::new(), others: Vec::new() };
        for name in names {
            match SegmentName::parse(&name) {
                None => folder.others.push(name),
                Some(segment) => {
                    let opened = open_file(&path.join(&name));
                    let storage = opened.map_err(|source| WalError::Read { segment, source })?;
                    folder.segments.push(Segment { name: segment, storage });
                }
            }
        }
        Ok(folder)
    }
}

/// Opens a file, and nothing else: opening a pipe would wait for somebody to write to it.
fn open_file(path: &Path) -> io::Result<File> {
    if path.metadata()?.is_file() { File::open(path) } else { Err(io::Error::other("not a file")) }
}

fn list(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads a segment from its beginning.
pub(super) struct SegmentReader<'a, S> {
    storage: &'a S,
    size: u64,
    offset: u64,
}

impl<'a, S: Storage> SegmentReader<'a, S> {
    /// Begins to read `storage`, which has `size` bytes now, at `offset`.
    pub(super) fn new(storage: &'a S, size: u64, offset: u64) -> SegmentReader<'a, S> {
        SegmentReader { storage, size, offset }
    }
}

impl<S: Storage> io::Read for SegmentReader<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let Some(buf) = buf.get_mut(..len) else { return Ok(0) };
        self.storage.read_exact_at(buf, self.offset)?;
        self.offset += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_it_is_shown() {
        let name = SegmentName { sequence: 0x1f, index: u64::MAX };
        assert_eq!(name.to_string(), "000000000000001f-ffffffffffffffff.wal");
        assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
    }

    #[test]
    fn other_files_have_no_segment_name() {
        for name in [
            "0.tmp",
            "0000000000000000-0000000000000000.wal.broken",
            "0-0.wal",
            "+000000000000000-0000000000000000.wal",
        ] {
            assert_eq!(SegmentName::parse(name), None, "{name}");
        }
    }
}
