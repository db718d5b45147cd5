//! The text of a delta: what its object is wrapped in taken off, and its digest compared.
//!
//! | bytes        | field                        |
//! |--------------|------------------------------|
//! | all but 32   | JSON: an array of events     |
//! | 32           | the SHA-256 of that          |
//!
//! Of the text, a window is in memory. Its end is held back until it is known not to be the digest.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use bytes::{Buf, Bytes};
use etcd_data::container::Container;
use sha2::{Digest, Sha256};

use crate::error::ObjectError;
use crate::read_at::{ReadAt, ReadFailed};

/// The text of a delta, from front to end.
pub(super) struct Text<'o> {
    stream: Box<dyn Read + 'o>,
    /// The bytes of the object that the stream did not take.
    unread: Rc<Cell<u64>>,
    window: Vec<u8>,
    /// What of the window is there, and not consumed yet.
    start: usize,
    end: usize,
    /// What of the window is hashed.
    hashed: usize,
    hasher: Sha256,
    is_at_end: bool,
    /// Whether the stream failed: nothing more comes then.
    is_broken: bool,
    /// The bytes of text before the window.
    before: u64,
}

const DIGEST: usize = 32;
/// What is unwrapped at once.
const WINDOW: usize = 256 << 10;
/// The longest text of one event. An etcd that takes requests of 10 MiB, as some are told to, writes less.
const MAX_WINDOW: usize = 64 << 20;

impl<'o> Text<'o> {
    /// The text of `object`, which is wrapped in `container`.
    pub(super) fn open(object: &'o dyn ReadAt, container: Container) -> Result<Self, ObjectError> {
        if object.size_bytes() == 0 {
            return Err(ObjectError::Damaged { offset: 0, what: "it is empty".into() });
        }
        let unread = Rc::new(Cell::new(object.size_bytes()));
        let input = Object { object, part: Bytes::new(), next: 0, unread: Rc::clone(&unread) };
        let stream = container.unwrapped(input).map_err(|error| read_error(error, 0))?;
        Ok(Self {
            stream,
            unread,
            window: vec![0; WINDOW],
            start: 0,
            end: 0,
            hashed: 0,
            hasher: Sha256::new(),
            is_at_end: false,
            is_broken: false,
            before: 0,
        })
    }

    /// The text that is there and not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        self.window.get(self.start..self.end.saturating_sub(DIGEST)).unwrap_or_default()
    }

    /// Counts `len` bytes of the rest as read.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len.min(self.rest().len());
    }

    /// Where the rest begins.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Whether its stream failed.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Brings more of the text. False if there is no more.
    pub(super) fn more(&mut self) -> Result<bool, ObjectError> {
        if self.is_at_end {
            return Ok(false);
        }
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.before += self.start as u64;
            self.end -= self.start;
            self.hashed -= self.start;
            self.start = 0;
        }
        if self.end == self.window.len() {
            if self.end >= MAX_WINDOW {
                let what = format!("an event of more than {MAX_WINDOW} bytes");
                return Err(ObjectError::Damaged { offset: self.offset(), what });
            }
            self.window.resize(self.end * 2, 0);
        }
        while let Some(room) = self.window.get_mut(self.end..).filter(|room| !room.is_empty()) {
            match self.stream.read(room) {
                Ok(0) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(len) => self.end += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_broken = true;
                    return Err(read_error(error, self.before + self.end as u64));
                }
            }
        }
        let text = self.end.saturating_sub(DIGEST).max(self.hashed);
        self.hasher.update(self.window.get(self.hashed..text).unwrap_or_default());
        self.hashed = text;
        Ok(true)
    }

    /// Reads what is left without looking at it, and compares the digest with all that was read.
    pub(super) fn finish(mut self) -> Result<(), ObjectError> {
        loop {
            self.consume(self.rest().len());
            if !self.more()? {
                break;
            }
        }
        let size = self.before + self.end as u64;
        let damaged = |what: &str| ObjectError::Damaged { offset: size, what: what.into() };
        let digest = self.window.get(..self.end).unwrap_or_default().last_chunk::<DIGEST>();
        match digest {
            None => Err(damaged("it is too short to have a digest")),
            Some(_) if self.unread.get() > 0 => Err(damaged("the object goes on after its end")),
            Some(digest) if self.hasher.finalize()[..] == digest[..] => Ok(()),
            Some(_) => Err(damaged("its SHA-256 is not that of its bytes")),
        }
    }
}

/// An object's bytes as a stream.
struct Object<'o> {
    object: &'o dyn ReadAt,
    part: Bytes,
    next: u64,
    unread: Rc<Cell<u64>>,
}

/// What is read of an object at once.
const PART: u64 = 256 << 10;

impl BufRead for Object<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.part.is_empty() {
            let len = self.object.size_bytes().saturating_sub(self.next).min(PART);
            if len > 0 {
                self.part = self.object.read_at(self.next, len as usize).map_err(io::Error::other)?;
                self.next += len;
            }
        }
        Ok(&self.part)
    }

    fn consume(&mut self, len: usize) {
        self.part.advance(len.min(self.part.len()));
        self.unread.set(self.unread.get().saturating_sub(len as u64));
    }
}

impl Read for Object<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(out)?;
        self.consume(len);
        Ok(len)
    }
}

/// Reading the stream failed after `offset` bytes of text: because of the object's bytes, or because they could not be
/// had.
fn read_error(error: io::Error, offset: u64) -> ObjectError {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it is cut short".into(),
        _ => format!("it cannot be unwrapped: {error}"),
    };
    match error.downcast::<ReadFailed>() {
        Ok(failed) => failed.into(),
        Err(_) => ObjectError::Damaged { offset, what },
    }
}
