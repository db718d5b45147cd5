//! A file that is written by a thread of its own, so that whoever builds it does not wait for the disk.
//!
//! The numbers were chosen by building 1 GiB against `cp` and fsync of the result, in alternation, on two busy cores
//! and ext4. Buffers of 256 KiB are as good as of 1 MiB or better, those of 4 MiB fell out of the processor's cache and
//! took twice as long; with two buffers instead of four the two sides waited for each other, 1.6 times as long. Writing
//! back early took a tenth to a third off, at any step from 8 to 128 MiB; reserving the space, up to a third more.
//! Of steps that a fast disk has written before the system is through with them, the first pages leave the cache: at
//! 32 MiB up to a tenth of them, at 128 up to two thirds, at 8 none.
//! With both, building took between a third and three quarters of what copying took.

use std::fs::File;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fstatvfs};

use crate::aligned::AlignedBytes;
use crate::sink::Sink;

/// Bytes that gather before the thread writes them.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers in all: one is being filled while the others are written.
const BUFFERS: usize = 8;
/// Bytes after which the system is told to begin writing back, which leaves little for the sync at the end.
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// A [`Sink`] that gathers what is written in buffers and lets a thread write them.
///
/// A failure of the thread comes out of the next call that needs a buffer, or of the next sync. What was not
/// synced when this is dropped may or may not be in the file.
pub struct WriteBehind {
    file: Arc<File>,
    filling: Buffer,
    spare: Vec<Buffer>,
    /// To the thread; nothing only while being dropped.
    full: Option<Sender<Buffer>>,
    /// Back from it, or what went wrong.
    written: Receiver<io::Result<Buffer>>,
    thread: Option<JoinHandle<()>>,
    /// Where the last byte so far ends.
    end: u64,
    /// Where the last byte ends that was written and told of.
    readable_bytes: u64,
    reserved_bytes: u64,
}

/// Bytes for one place in the file.
struct Buffer {
    bytes: AlignedBytes,
    offset: u64,
}

impl WriteBehind {
    /// Will write to `file`, which must be empty.
    pub fn new(file: File) -> io::Result<Self> {
        let file = Arc::new(file);
        let (full, to_write) = channel();
        let (done, written) = channel();
        let writer = Writer { file: Arc::clone(&file), write_back_from: 0 };
        let run = move || writer.run(&to_write, &done);
        let thread = Some(thread::Builder::new().name("write-behind".into()).spawn(run)?);
        let spare = (1..BUFFERS).map(|_| Buffer::new()).collect::<io::Result<_>>()?;
        let (filling, full) = (Buffer::new()?, Some(full));
        Ok(Self { file, filling, spare, full, written, thread, end: 0, readable_bytes: 0, reserved_bytes: 0 })
    }

    /// Reserves room for `bytes`, the size that the file will have at the most, or will about have. Fails if there is
    /// no room; does nothing where the file system cannot reserve. What turns out to be too much is given back by
    /// the next sync.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        // Asked for nothing, the system says that this is no question.
        if bytes == 0 {
            return Ok(());
        }
        // A file system that is asked for too much takes all there is before it says no, from everybody else too.
        let free = fstatvfs(&*self.file)?;
        if free.f_bavail.saturating_mul(free.f_frsize) < bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match fallocate(&*self.file, FallocateFlags::KEEP_SIZE, 0, bytes).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            outcome => outcome.map(|()| self.reserved_bytes = bytes),
        }
    }

    /// How far the file can be read by now, though a crash may take that back. Holds for what is written one behind the
    /// other.
    pub fn readable_bytes(&mut self) -> io::Result<u64> {
        while let Ok(written) = self.written.try_recv() {
            self.retire(written?);
        }
        Ok(self.readable_bytes)
    }

    /// Returns when everything written so far can be read from the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_over()?;
        while self.spare.len() < BUFFERS - 1 {
            let written = self.take_back()?;
            self.retire(written);
        }
        Ok(())
    }

    /// Gives the thread what has gathered.
    fn hand_over(&mut self) -> io::Result<()> {
        if self.filling.bytes.is_empty() {
            return Ok(());
        }
        if self.spare.is_empty() {
            let written = self.take_back()?;
            self.retire(written);
        }
        let empty = self.spare.pop().ok_or(io::ErrorKind::Other)?;
        let gathered = mem::replace(&mut self.filling, empty);
        let sent = self.full.as_ref().is_some_and(|full| full.send(gathered).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Makes use of a buffer again that has been written.
    fn retire(&mut self, mut written: Buffer) {
        self.readable_bytes = self.readable_bytes.max(written.end());
        written.bytes.clear();
        self.spare.push(written);
    }

    /// Waits for a buffer that has been written.
    fn take_back(&self) -> io::Result<Buffer> {
        self.written.recv().unwrap_or_else(|_| Err(io::Error::other("an earlier write failed")))
    }

    /// Why the thread stopped.
    fn failure(&self) -> io::Error {
        loop {
            if let Err(error) = self.take_back() {
                return error;
            }
        }
    }
}

impl Sink for WriteBehind {
    fn write_all_at(&mut self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            if offset != self.filling.end() || self.filling.is_full() {
                self.hand_over()?;
                self.filling.offset = offset;
            }
            let later = self.filling.bytes.fill(bytes);
            offset += (bytes.len() - later.len()) as u64;
            bytes = later;
        }
        self.end = self.end.max(offset);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        if mem::take(&mut self.reserved_bytes) > self.end {
            self.file.set_len(self.end)?;
        }
        self.file.sync_data()
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

impl Buffer {
    fn new() -> io::Result<Self> {
        let bytes = AlignedBytes::with_capacity(BUFFER_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { bytes, offset: 0 })
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.bytes.capacity()
    }
}

/// The thread's side.
struct Writer {
    file: Arc<File>,
    /// Up to here, the system was told to write back.
    write_back_from: u64,
}

impl Writer {
    /// Writes what comes in until nothing more does, or something fails.
    fn run(mut self, full: &Receiver<Buffer>, written: &Sender<io::Result<Buffer>>) {
        for buffer in full {
            let outcome = self.write(buffer);
            let failed = outcome.is_err();
            if written.send(outcome).is_err() || failed {
                return;
            }
        }
    }

    fn write(&mut self, buffer: Buffer) -> io::Result<Buffer> {
        self.file.write_all_at(&buffer.bytes, buffer.offset)?;
        self.write_back(buffer.end());
        Ok(buffer)
    }

    /// Lets the disk begin with what was written, once it is worth the while.
    fn write_back(&mut self, end: u64) {
        let len = end.saturating_sub(self.write_back_from);
        if len < WRITE_BACK_BYTES {
            return;
        }
        // Linux answers this advice by starting to write what is dirty; pages being written stay in the cache. It is
        // a hint that costs only time if it is not taken, so its failure is none.
        let _ = fadvise(&*self.file, self.write_back_from, NonZeroU64::new(len), Advice::DontNeed);
        self.write_back_from = end;
    }
}
