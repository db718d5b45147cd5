//! Packing chunks on threads of their own, in order.
//!
//! Chunks are dealt out in turn and taken back in turn, so they come back in the order in which they went. There are
//! never more on their way than there are threads.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::frame::digest;
use super::write::Levels;
use crate::chunk::{ChunkBuilder, Packed, Packer, Packers};

/// Threads that pack chunks.
pub(super) struct Packing {
    levels: Levels,
    threads: usize,
    /// Started when there is a second chunk: most deltas have one only.
    workers: Vec<Worker>,
    /// What packs where chunks are gathered, once it was needed.
    here: Option<Packers>,
    sent: usize,
    received: usize,
}

struct Worker {
    jobs: SyncSender<ChunkBuilder>,
    done: Receiver<io::Result<Option<Digested>>>,
}

/// A packed chunk, and the digest of its bytes.
pub(super) struct Digested {
    pub(super) packed: Packed,
    pub(super) digest: [u8; 16],
}

impl Packing {
    pub(super) fn new(levels: Levels, threads: usize) -> Self {
        Self { levels, threads: threads.max(1), workers: Vec::new(), here: None, sent: 0, received: 0 }
    }

    fn packers(&self) -> io::Result<Packers> {
        Ok(Packers { literal: Packer::new(self.levels.literal)?, edited: Packer::new(self.levels.edited)? })
    }

    /// Packs a chunk here and now, if none was given to the threads yet.
    pub(super) fn at_once(&mut self, builder: ChunkBuilder) -> io::Result<Option<Digested>> {
        let packers = match self.here.take() {
            Some(packers) => packers,
            None => self.packers()?,
        };
        pack(builder, self.here.insert(packers))
    }

    pub(super) fn was_used(&self) -> bool {
        self.sent > 0
    }

    /// Gives a chunk to a thread. Hands back the first that was given, if all threads have something to do.
    pub(super) fn send(&mut self, builder: ChunkBuilder) -> io::Result<Option<Digested>> {
        let first = if self.sent - self.received == self.threads { self.receive()? } else { None };
        if self.workers.len() < self.threads {
            let worker = Worker::start(self.packers()?)?;
            self.workers.push(worker);
        }
        if let Some(worker) = self.workers.get(self.sent % self.threads) {
            worker.jobs.send(builder).map_err(|_| gone())?;
        }
        self.sent += 1;
        Ok(first)
    }

    /// The first of those that were given and not handed back, when it is done. Nothing if there is none.
    pub(super) fn receive(&mut self) -> io::Result<Option<Digested>> {
        if self.received == self.sent {
            return Ok(None);
        }
        let worker = self.workers.get(self.received % self.threads).ok_or_else(gone)?;
        self.received += 1;
        worker.done.recv().map_err(|_| gone())?
    }
}

impl Worker {
    /// A thread that ends when nothing more can be given to it.
    fn start(mut packers: Packers) -> io::Result<Self> {
        let (jobs, todo) = sync_channel::<ChunkBuilder>(1);
        let (finished, done) = sync_channel(1);
        let work = move || {
            for builder in todo {
                if finished.send(pack(builder, &mut packers)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("pack".into()).spawn(work)?;
        Ok(Self { jobs, done })
    }
}

fn pack(builder: ChunkBuilder, packers: &mut Packers) -> io::Result<Option<Digested>> {
    let packed = builder.pack(packers)?;
    Ok(packed.map(|packed| Digested { digest: digest(&packed.stored), packed }))
}

fn gone() -> io::Error {
    io::Error::other("a thread that packs chunks is gone")
}
