//! Gathering the keys of all chunks, and handing them out in order, with memory that does not grow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::BLOCK_BYTES;
use super::block::Block;
use crate::chunk::{KeyTable, shared};
use crate::fields::{Fields, put_number};

/// Keys on their way into the index.
pub(crate) struct Gather {
    scratch: PathBuf,
    memory_bytes: usize,
    /// What was not put aside yet: keys behind each other, and where each is, with its chunk.
    keys: Vec<u8>,
    entries: Vec<Entry>,
    aside: Option<Aside>,
}

#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    len: usize,
    chunk: u32,
}

/// Sorted runs in a scratch file.
struct Aside {
    file: BufWriter<File>,
    written: u64,
    /// Where each run ends.
    ends: Vec<u64>,
}

impl Gather {
    /// Gathers in about `memory_bytes`, and puts aside what is more in a file in `scratch` that has no name.
    pub(crate) fn new(scratch: PathBuf, memory_bytes: usize) -> Self {
        Self { scratch, memory_bytes, keys: Vec::new(), entries: Vec::new(), aside: None }
    }

    /// Adds the keys of a chunk.
    pub(crate) fn add(&mut self, chunk: u32, keys: &KeyTable) -> io::Result<()> {
        for key in keys.iter() {
            let start = self.keys.len();
            self.keys.extend_from_slice(key);
            self.entries.push(Entry { start, len: key.len(), chunk });
        }
        let bytes = self.keys.len() + self.entries.len() * size_of::<Entry>();
        if bytes >= self.memory_bytes { self.put_aside() } else { Ok(()) }
    }

    fn put_aside(&mut self) -> io::Result<()> {
        self.sort();
        let aside = match &mut self.aside {
            Some(aside) => aside,
            None => {
                let file = BufWriter::new(tempfile::tempfile_in(&self.scratch)?);
                self.aside.insert(Aside { file, written: 0, ends: Vec::new() })
            }
        };
        let mut before: &[u8] = &[];
        let mut line = Vec::new();
        for entry in &self.entries {
            let key = entry.key(&self.keys);
            let shared = shared(before, key);
            let rest = key.get(shared..).unwrap_or_default();
            line.clear();
            for number in [u64::from(entry.chunk), shared as u64, rest.len() as u64] {
                put_number(&mut line, number);
            }
            line.extend_from_slice(rest);
            aside.file.write_all(&line)?;
            aside.written += line.len() as u64;
            before = key;
        }
        aside.ends.push(aside.written);
        self.keys.clear();
        self.entries.clear();
        Ok(())
    }

    fn sort(&mut self) {
        let keys = &self.keys;
        self.entries.sort_unstable_by(|a, b| (a.key(keys), a.chunk).cmp(&(b.key(keys), b.chunk)));
    }

    /// Hands out the blocks, in order.
    pub(crate) fn finish(mut self, mut take: impl FnMut(Block) -> io::Result<()>) -> io::Result<()> {
        let mut blocks = Blocks { block: Block::default(), key: Vec::new(), chunks: Vec::new() };
        if self.aside.is_some() {
            self.put_aside()?;
        }
        let Some(aside) = self.aside else {
            self.sort();
            for entry in &self.entries {
                blocks.push(entry.key(&self.keys), entry.chunk, &mut take)?;
            }
            return blocks.end(&mut take);
        };
        let file = aside.file.into_inner()?;
        let starts = [0].into_iter().chain(aside.ends.iter().copied());
        let mut heap = BinaryHeap::new();
        for (start, &end) in starts.zip(&aside.ends) {
            let mut run = Run { start, end, buffer: Vec::new(), used: 0, key: Vec::new(), chunk: 0 };
            if run.next(&file)? {
                heap.push(Reverse(run));
            }
        }
        while let Some(mut least) = heap.peek_mut() {
            let Reverse(run) = &mut *least;
            blocks.push(&run.key, run.chunk, &mut take)?;
            if !run.next(&file)? {
                PeekMut::pop(least);
            }
        }
        blocks.end(&mut take)
    }
}

impl Entry {
    fn key<'a>(&self, keys: &'a [u8]) -> &'a [u8] {
        keys.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// A run that is being read, and its entry that is next.
struct Run {
    start: u64,
    end: u64,
    /// What was read ahead, and how much of it was taken.
    buffer: Vec<u8>,
    used: usize,
    key: Vec<u8>,
    chunk: u32,
}

/// What is read of a run at once.
const AHEAD_BYTES: u64 = 64 << 10;

impl Run {
    /// Goes on to the next entry. False if there is none.
    fn next(&mut self, file: &File) -> io::Result<bool> {
        let mut wanted = AHEAD_BYTES;
        loop {
            if self.used == self.buffer.len() && self.start == self.end {
                return Ok(false);
            }
            if self.entry().is_some() {
                return Ok(true);
            }
            let ahead = wanted.min(self.end - self.start);
            if ahead == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the scratch file is not as it was written"));
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            let known = self.buffer.len();
            self.buffer.resize(known + ahead as usize, 0);
            file.read_exact_at(self.buffer.get_mut(known..).unwrap_or_default(), self.start)?;
            self.start += ahead;
            wanted *= 2;
        }
    }

    /// Takes the entry that is next in the buffer, if all of it is there.
    fn entry(&mut self) -> Option<()> {
        let mut fields = Fields::of(self.buffer.get(self.used..)?);
        let chunk = u32::try_from(fields.number().ok()?).ok()?;
        let shared = fields.size(self.key.len()).ok()?;
        let rest = fields.sized_bytes().ok()?;
        self.chunk = chunk;
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.used = self.buffer.len() - fields.rest().len();
        Some(())
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.key, self.chunk).cmp(&(&other.key, other.chunk))
    }
}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Run {}

/// Makes blocks of sorted entries.
struct Blocks {
    block: Block,
    /// The key that is gathered, if it has chunks already.
    key: Vec<u8>,
    chunks: Vec<u32>,
}

impl Blocks {
    fn push(&mut self, key: &[u8], chunk: u32, take: &mut impl FnMut(Block) -> io::Result<()>) -> io::Result<()> {
        if self.key != key || self.chunks.is_empty() {
            self.close(take)?;
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.chunks.push(chunk);
        Ok(())
    }

    /// Puts the key that is gathered into the block, and hands the block over when it is full.
    fn close(&mut self, take: &mut impl FnMut(Block) -> io::Result<()>) -> io::Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let size = self.block.size_bytes() + self.key.len();
        if size > BLOCK_BYTES && self.block.first_key().is_some() {
            take(std::mem::take(&mut self.block))?;
        }
        self.block.push(&self.key, &self.chunks);
        self.chunks.clear();
        Ok(())
    }

    fn end(mut self, take: &mut impl FnMut(Block) -> io::Result<()>) -> io::Result<()> {
        self.close(take)?;
        if self.block.first_key().is_some() { take(self.block) } else { Ok(()) }
    }
}
