//! Objects of a size that shows at the end, put in one piece if they are small and part by part if not.
//!
//! Parts go up several at a time, whether or not somebody is just writing; who writes faster than the store takes it waits.
//! No more is in memory than the parts under way and one more, or one part where none is to be under way meanwhile. What fails is given up, unless it may have been completed
//! all the same. What is left by who dies is never gone on with, and given up by whoever cleans up ([`Store::uploads`]): of
//! what was read and hashed on the way to it, nothing is left either.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::error::{Fault, StoreError};
use crate::key::Key;
use crate::object::{Put, Tag};
use crate::store::{Part, Store, Upload};

/// In what pieces large objects are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// The size of a piece.
    pub bytes: u64,
    /// So many are under way at once. Of what is written that may be none: then each is waited for before more is gathered,
    /// in the memory that it had.
    pub at_once: usize,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { bytes: 8 << 20, at_once: 4 }
    }
}

/// After so many parts their size doubles, so that no object has more than a store takes.
const PARTS_OF_A_SIZE: u32 = 2000;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Which content it is, to the store.
    pub tag: Tag,
    /// Its size.
    pub size_bytes: u64,
}

/// Writes one object.
#[derive(Debug)]
pub struct Uploader {
    store: Arc<dyn Store>,
    key: Key,
    put: Put,
    pieces: Pieces,
    /// What is not yet under way.
    next: Next,
    size_bytes: u64,
    begun: Option<Begun>,
}

/// The bytes of the next part. What comes in one piece stays where it is; what comes in several is copied together.
#[derive(Debug, Default)]
struct Next {
    whole: Bytes,
    copied: BytesMut,
}

impl Next {
    fn len(&self) -> usize {
        self.whole.len() + self.copied.len()
    }

    /// Adds to what is to have `size` bytes at the most.
    fn add(&mut self, bytes: Bytes, size: usize) {
        if self.len() == 0 {
            self.whole = bytes;
        } else {
            if self.copied.is_empty() {
                // All at once: growing would copy it again and again. It is the memory of the part before, if that is gone.
                self.copied.reserve(size);
            }
            self.copied.extend_from_slice(&std::mem::take(&mut self.whole));
            self.copied.extend_from_slice(&bytes);
        }
    }

    fn take(&mut self) -> Bytes {
        if self.whole.is_empty() { self.copied.split().freeze() } else { std::mem::take(&mut self.whole) }
    }
}

#[derive(Debug)]
struct Begun {
    upload: Upload,
    /// The index of the next part.
    next: u32,
    done: Vec<Part>,
    under_way: JoinSet<Result<Part, StoreError>>,
}

impl Uploader {
    /// Begins to write `key`. The store is asked for nothing before there is more than a piece.
    pub fn new(store: Arc<dyn Store>, key: Key, put: Put, pieces: Pieces) -> Self {
        let pieces = fitting(pieces, &*store);
        Self { store, key, put, pieces, next: Next::default(), size_bytes: 0, begun: None }
    }

    /// Appends bytes. Waits while enough is under way.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), StoreError> {
        self.size_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let size = self.next_size();
            // A piece that fills up is sent when more follows: what is just one piece is put in one.
            if self.next.len() == size {
                let part = self.next.take();
                self.send(part).await?;
            }
            let size = self.next_size();
            let room = size.saturating_sub(self.next.len());
            self.next.add(bytes.split_to(room.min(bytes.len())), size);
        }
        Ok(())
    }

    /// Makes the object of what was written. If that fails, what was written is given up, unless it may yet become the object.
    pub async fn finish(mut self) -> Result<Written, StoreError> {
        let size_bytes = self.size_bytes;
        let rest = self.next.take();
        if self.begun.is_none() {
            let tag = self.store.put(&self.key, rest, &self.put).await?;
            return Ok(Written { tag, size_bytes });
        }
        let sent = self.send_rest(rest).await;
        let is_asked_for = sent.is_ok();
        let completed = match sent {
            Ok(()) => self.complete().await,
            Err(error) => Err(error),
        };
        let error = match completed {
            Ok(tag) => return Ok(Written { tag, size_bytes }),
            Err(error) => error,
        };
        // A completion without an answer may be under way, and needs its parts till it is over.
        let is_of_use = error.fault.is_transient() && is_asked_for;
        if !is_of_use {
            // What is left then is found by whoever cleans up; why it failed is the first thing that went wrong.
            let _ = self.give_up().await;
        }
        Err(error)
    }

    async fn send_rest(&mut self, rest: Bytes) -> Result<(), StoreError> {
        if !rest.is_empty() {
            self.send(rest).await?;
        }
        self.wait_for(0).await
    }

    async fn complete(&self) -> Result<Tag, StoreError> {
        match &self.begun {
            Some(begun) => self.store.complete(&begun.upload, &self.parts_in_order(), &self.put).await,
            None => Err(Fault::NoSuchUpload.at("completing", self.store.place(), Some(&self.key))),
        }
    }

    /// Gives up what was written.
    pub async fn give_up(self) -> Result<(), StoreError> {
        let Some(mut begun) = self.begun else { return Ok(()) };
        // What came after would be left behind.
        begun.under_way.shutdown().await;
        self.store.abort(&begun.upload).await
    }

    fn parts_in_order(&self) -> Vec<Part> {
        let mut parts = self.begun.as_ref().map(|begun| begun.done.clone()).unwrap_or_default();
        parts.sort_by_key(|part| part.index);
        parts
    }

    fn next_size(&self) -> usize {
        let next = self.begun.as_ref().map_or(0, |begun| begun.next);
        let largest = self.store.abilities().part_bytes.1;
        let size = (self.pieces.bytes << (next / PARTS_OF_A_SIZE).min(16)).min(largest);
        usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// Puts a part under way.
    async fn send(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        if self.begun.is_none() {
            let upload = self.store.begin(&self.key, &self.put).await?;
            self.begun = Some(Begun { upload, next: 0, done: Vec::new(), under_way: JoinSet::new() });
        }
        self.wait_for(self.pieces.at_once.saturating_sub(1)).await?;
        let Some(begun) = &mut self.begun else { return Ok(()) };
        let (store, upload, index) = (Arc::clone(&self.store), begun.upload.clone(), begun.next);
        if index >= store.abilities().max_parts {
            let fault = Fault::Invalid(format!("an object of more than {index} parts is too large for this store"));
            return Err(fault.at("writing", store.place(), Some(&self.key)));
        }
        begun.next += 1;
        begun.under_way.spawn(async move { store.put_part(&upload, index, bytes).await });
        self.wait_for(self.pieces.at_once).await
    }

    /// Waits until no more than `most` parts are under way.
    async fn wait_for(&mut self, most: usize) -> Result<(), StoreError> {
        let Some(begun) = &mut self.begun else { return Ok(()) };
        while begun.under_way.len() > most {
            match begun.under_way.join_next().await {
                Some(Ok(part)) => begun.done.push(part?),
                Some(Err(error)) => {
                    return Err(Fault::unavailable(error).at("writing", self.store.place(), Some(&self.key)));
                }
                None => break,
            }
        }
        Ok(())
    }
}

/// Pieces that the store takes.
fn fitting(pieces: Pieces, store: &dyn Store) -> Pieces {
    let abilities = store.abilities();
    let largest = abilities.part_bytes.1.min(abilities.max_put_bytes);
    Pieces { bytes: pieces.bytes.clamp(abilities.part_bytes.0, largest), ..pieces }
}

/// So much is handed from a writer to its upload at once.
const HANDED_BYTES: usize = 256 << 10;

/// The end of an upload for who writes and may wait, on a thread of its own: [`io::Write`], buffered.
///
/// Dropped without [`Writer::finish`], it gives the object up.
#[derive(Debug)]
pub struct Writer {
    sender: mpsc::Sender<Said>,
    buffer: BytesMut,
}

#[derive(Debug)]
enum Said {
    Bytes(Bytes),
    End,
}

/// The two ends of an upload: one that is written to, and one that has to be awaited for anything to be done.
pub fn writer(uploader: Uploader) -> (Writer, impl Future<Output = Result<Written, StoreError>> + Send) {
    let (sender, mut receiver) = mpsc::channel(4);
    let uploading = async move {
        let mut uploader = uploader;
        let mut ended = false;
        while let Some(said) = receiver.recv().await {
            match said {
                Said::Bytes(bytes) => {
                    if let Err(error) = uploader.write(bytes).await {
                        // Closed first, so that the writer hears of it and not of what giving up may bring.
                        receiver.close();
                        let _ = uploader.give_up().await;
                        return Err(error);
                    }
                }
                Said::End => ended = true,
            }
        }
        if ended {
            return uploader.finish().await;
        }
        let (place, key) = (uploader.store.place().to_owned(), uploader.key.clone());
        uploader.give_up().await?;
        Err(Fault::Invalid("whoever wrote it did not finish".into()).at("writing", &place, Some(&key)))
    };
    (Writer { sender, buffer: BytesMut::with_capacity(HANDED_BYTES) }, uploading)
}

impl Writer {
    /// Says that this was all of it. That it is there shows at the other end.
    pub fn finish(mut self) -> io::Result<()> {
        io::Write::flush(&mut self)?;
        self.say(Said::End)
    }

    fn say(&self, said: Said) -> io::Result<()> {
        self.sender.blocking_send(said).map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the upload has failed"))
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(HANDED_BYTES.saturating_sub(self.buffer.len()));
        self.buffer.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.buffer.len() == HANDED_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = self.buffer.split().freeze();
        self.say(Said::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::counting::Counting;
    use crate::memory::Memory;
    use crate::object::Listing;

    const PIECES: Pieces = Pieces { bytes: 100, at_once: 3 };

    fn key() -> Key {
        Key::parse("full/1.full").unwrap()
    }

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at % 251) as u8).collect()
    }

    /// Sizes around the borders of pieces, written in pieces of other sizes, with several parts under way and with one.
    #[tokio::test]
    async fn every_size_arrives() {
        for size in [0, 1, 99, 100, 101, 199, 200, 201, 999, 1000, 1001] {
            for (step, at_once) in [1, 7, 100, 250, 2000].into_iter().flat_map(|step| [(step, 0), (step, 3)]) {
                let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
                let store = Arc::clone(&counting) as Arc<dyn Store>;
                let all = bytes(size);
                let pieces = Pieces { at_once, ..PIECES };
                let mut uploader = Uploader::new(Arc::clone(&store), key(), Put::if_absent(), pieces);
                for piece in all.chunks(step) {
                    uploader.write(Bytes::copy_from_slice(piece)).await.unwrap();
                    let under_way = uploader.begun.as_ref().map_or(0, |begun| begun.under_way.len());
                    assert!(under_way <= at_once, "{under_way} parts are in memory beside the one that is gathered");
                }
                let written = uploader.finish().await.unwrap();

                let counts = counting.take();
                assert_eq!(written.size_bytes, size as u64);
                let parts = if size <= 100 { 0 } else { size.div_ceil(100) as u64 };
                assert_eq!((counts.puts, counts.parts), (u64::from(parts == 0), parts), "{size} by {step}");
                assert_eq!(store.get(&key(), 0..2000).await.unwrap(), all);
                assert_eq!(store.head(&key()).await.unwrap().tag, Some(written.tag));
            }
        }
    }

    #[tokio::test]
    async fn what_is_given_up_leaves_nothing() {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let mut uploader = Uploader::new(Arc::clone(&store), key(), Put::default(), PIECES);
        uploader.write(bytes(500).into()).await.unwrap();
        assert_eq!(store.uploads("").await.unwrap().len(), 1);
        uploader.give_up().await.unwrap();
        assert_eq!(store.uploads("").await.unwrap(), []);
    }

    #[tokio::test]
    async fn what_cannot_become_an_object_is_given_up() {
        let memory = Memory::new();
        let abilities = crate::Abilities { max_parts: 3, ..memory.abilities() };
        let store: Arc<dyn Store> = Arc::new(memory.with_abilities(abilities));
        let old = store.put(&key(), "old".into(), &Put::default()).await.unwrap();
        store.put(&key(), "new".into(), &Put::default()).await.unwrap();
        // Something is there; it was changed; there are too many parts.
        for (put, size) in [(Put::if_absent(), 250), (Put::if_unchanged(old), 250), (Put::default(), 350)] {
            let mut uploader = Uploader::new(Arc::clone(&store), key(), put, PIECES);
            uploader.write(bytes(size).into()).await.unwrap();
            let fault = uploader.finish().await.unwrap_err().fault;
            assert!(matches!(fault, Fault::Exists | Fault::Changed | Fault::Invalid(_)), "{fault:?}");
            assert_eq!(store.uploads("").await.unwrap(), [], "{fault:?}");
        }
        assert_eq!(store.get(&key(), 0..10).await.unwrap(), "new");
    }

    #[tokio::test]
    async fn a_thread_writes_and_waits() {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let all = bytes(1 << 20);
        let pieces = Pieces { bytes: 100_000, at_once: 2 };
        let (mut writer, uploading) = writer(Uploader::new(Arc::clone(&store), key(), Put::default(), pieces));
        let source = all.clone();
        let thread = std::thread::spawn(move || {
            for piece in source.chunks(3333) {
                writer.write_all(piece).unwrap();
            }
            writer.finish().unwrap();
        });
        assert_eq!(uploading.await.unwrap().size_bytes, 1 << 20);
        thread.join().unwrap();
        assert_eq!(store.get(&key(), 0..2 << 20).await.unwrap(), all);
    }

    #[tokio::test]
    async fn a_writer_that_dies_leaves_nothing_and_is_not_taken_for_the_end() {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        for size in [10, 1 << 20] {
            let pieces = Pieces { bytes: 100_000, at_once: 2 };
            let (mut writer, uploading) = writer(Uploader::new(Arc::clone(&store), key(), Put::default(), pieces));
            let thread = std::thread::spawn(move || writer.write_all(&bytes(size)).unwrap());
            let fault = uploading.await.unwrap_err().fault;
            thread.join().unwrap();
            assert!(matches!(fault, Fault::Invalid(_)), "{fault:?}");
            assert_eq!(store.list(&Listing::default()).await.unwrap().objects, []);
            assert_eq!(store.uploads("").await.unwrap(), []);
        }
    }

    #[tokio::test]
    async fn a_writer_hears_that_the_upload_failed() {
        let memory = Memory::new();
        let abilities = crate::Abilities { max_parts: 3, ..memory.abilities() };
        let store: Arc<dyn Store> = Arc::new(memory.with_abilities(abilities));
        let pieces = Pieces { bytes: 100_000, at_once: 2 };
        let (mut writer, uploading) = writer(Uploader::new(Arc::clone(&store), key(), Put::default(), pieces));
        let thread = std::thread::spawn(move || {
            let error = std::iter::repeat_with(|| writer.write_all(&[0; 10_000])).find_map(Result::err).unwrap();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        });
        let fault = uploading.await.unwrap_err().fault;
        assert!(matches!(&fault, Fault::Invalid(what) if what.contains("3 parts")), "{fault:?}");
        thread.join().unwrap();
        assert_eq!(store.uploads("").await.unwrap(), []);
    }
}
