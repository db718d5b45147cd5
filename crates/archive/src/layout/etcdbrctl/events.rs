//! The changes in a delta, as records of the key space.
//!
//! Going forwards, they are decoded as they are wanted, some way ahead of who reads them, so that several deltas are
//! decoded at once. What is decoded is shown before the digest at the delta's end is compared: who reads must take an
//! error for all of it. Going backwards, they are decoded into scratch space first, and come from there from then on.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{io, mem, thread};

use etcd_data::database::{Direction, RevisionRange};
use etcd_data::records::{Records, Visit};
use etcd_data::{Error, RevKey, Revision};
use jiff::Timestamp;
use store::Key;

use super::block::{BLOCK_BYTES, Block};
use super::event::{Event, EventFault};
use super::facts::Facts;
use super::name::{Kind, Name};
use super::spool::Spool;
use super::text::Text;
use crate::error::ObjectError;
use crate::read_at::ReadAt;

/// A delta.
pub struct Events {
    key: Key,
    object: Arc<dyn ReadAt>,
    name: Name,
    /// The revisions that its name tells.
    revisions: RevisionRange,
    scratch: PathBuf,
    facts: OnceLock<Facts>,
    spool: Mutex<Option<Arc<Spool>>>,
}

/// What is decoded ahead of who reads a delta, in blocks: more than most deltas have, so that the next one is decoded
/// while one is read.
const AHEAD: usize = (16 << 20) / BLOCK_BYTES;

impl Events {
    /// The delta `object`, whose key is `key`. What it turns out to hold is compared with its name. Scratch files are
    /// made in the folder `scratch`.
    pub fn open(key: &Key, object: Arc<dyn ReadAt>, scratch: &Path) -> Result<Self, ObjectError> {
        let wrong = || ObjectError::Misplaced { name: key.name().into(), itself: "a delta of etcdbrctl".into() };
        let name = Name::parse(key.name()).ok_or_else(wrong)?;
        let Kind::Incr { from } = name.kind else { return Err(wrong()) };
        let revisions = RevisionRange { from, to: name.to };
        let (facts, spool) = Default::default();
        Ok(Self { key: key.clone(), object, name, revisions, scratch: scratch.into(), facts, spool })
    }

    /// What it holds. All of it is read for that, once.
    pub fn facts(&self) -> Result<&Facts, ObjectError> {
        match self.facts.get() {
            Some(facts) => Ok(facts),
            None => {
                let facts = self.decode(&mut |_, _| ControlFlow::Continue(()))?;
                // Nothing stopped it before the end.
                facts.map(|facts| self.facts.get_or_init(|| facts)).ok_or_else(|| damaged(0, "it has no end"))
            }
        }
    }

    /// The last revision that there was at `time`; nothing if all came later.
    pub fn revision_at(&self, time: Timestamp) -> Result<Option<Revision>, ObjectError> {
        let mut later = None;
        let mut look = |at: RevKey, event: &Event| {
            if event.time > time && later.is_none() {
                later = Some(at.main);
            }
            ControlFlow::Continue(())
        };
        self.decode(&mut look)?;
        Ok(match later {
            None => Some(self.revisions.to),
            Some(later) if later > self.revisions.from => Some(Revision(later.0 - 1)),
            Some(_) => None,
        })
    }

    /// Shows every event to `see`, until it breaks. If it does not, everything is compared with everything, and what
    /// the delta holds comes out.
    fn decode(&self, see: &mut See<'_>) -> Result<Option<Facts>, ObjectError> {
        let mut text = Text::open(&*self.object, self.name.container)?;
        match self.read_array(&mut text, see) {
            Ok(None) => Ok(None),
            Ok(facts) => text.finish().map(|()| facts),
            Err(error) if text.is_broken() => Err(error),
            // That the digest is another says more than what that led to.
            Err(error) => text.finish().and(Err(error)),
        }
    }

    fn read_array(&self, text: &mut Text<'_>, see: &mut See<'_>) -> Result<Option<Facts>, ObjectError> {
        let mut event = Event::default();
        let mut found: Option<Facts> = None;
        let mut expected = b'[';
        loop {
            match next_byte(text)? {
                Some(b']') if expected == b',' => break,
                Some(byte) if byte == expected => text.consume(1),
                _ => return Err(damaged(text.offset(), "it is no array of events")),
            }
            expected = b',';
            read_event(&mut event, text)?;
            let at = self.place(&event, found.as_ref(), text.offset())?;
            found.get_or_insert_with(|| Facts::new(at, &event)).add(at, &event);
            if see(at, &event).is_break() {
                return Ok(None);
            }
        }
        text.consume(1);
        if next_byte(text)?.is_some() {
            return Err(damaged(text.offset(), "it goes on after the events"));
        }
        match found {
            Some(facts) if facts.revisions == self.revisions => Ok(Some(facts)),
            Some(facts) => Err(self.misnamed(facts.revisions)),
            None => Err(damaged(text.offset(), "it has no events")),
        }
    }

    /// Where `event`, which comes after what was `found`, belongs. No revision is left out.
    fn place(&self, event: &Event, found: Option<&Facts>, offset: u64) -> Result<RevKey, ObjectError> {
        let main = Revision(event.mod_revision);
        let tombstone = event.deletes;
        match found.map(|found| found.last) {
            None if main != self.revisions.from => {
                Err(self.misnamed(RevisionRange { from: main, to: self.revisions.to.max(main) }))
            }
            Some(last) if main == last.main => Ok(RevKey { main, sub: last.sub + 1, tombstone }),
            Some(last) if main != last.main.next() => {
                Err(damaged(offset, &format!("revision {main} comes after {}", last.main)))
            }
            _ => Ok(RevKey { main, sub: 0, tombstone }),
        }
    }

    fn misnamed(&self, found: RevisionRange) -> ObjectError {
        let text = |range: RevisionRange| format!("revisions {} to {}", range.from, range.to);
        ObjectError::Misplaced { name: text(self.revisions), itself: text(found) }
    }

    /// Decodes on a thread of its own, and shows what is ready.
    fn read_ahead(&self, visit: &mut Visit<'_>) -> Result<(), Error> {
        thread::scope(|scope| {
            let (sender, blocks) = sync_channel(AHEAD);
            let decoder = scope.spawn(move || self.send(&sender));
            let shown = show(&blocks, visit);
            drop(blocks);
            let sent = decoder.join().unwrap_or_else(|panic| resume_unwind(panic));
            match shown? {
                ControlFlow::Break(()) => Ok(()),
                ControlFlow::Continue(()) => sent.map_err(|error| self.error(error)),
            }
        })
    }

    /// Sends the records in blocks, until nobody wants more.
    fn send(&self, blocks: &SyncSender<Block>) -> Result<(), ObjectError> {
        let mut push =
            |block| if blocks.send(block).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        self.decode_blocks(&mut push)
    }

    fn decode_blocks(&self, push: &mut dyn FnMut(Block) -> ControlFlow<()>) -> Result<(), ObjectError> {
        let mut block = Block::default();
        let mut see = |at: RevKey, event: &Event| {
            block.push(at, event);
            if block.is_full() { push(mem::take(&mut block)) } else { ControlFlow::Continue(()) }
        };
        if let Some(facts) = self.decode(&mut see)? {
            let _ = push(block);
            self.facts.get_or_init(|| facts);
        }
        Ok(())
    }

    /// The spool, which is made if there is none.
    fn spooled(&self) -> Result<Arc<Spool>, Error> {
        let mut place = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spool) = &*place {
            return Ok(Arc::clone(spool));
        }
        let scratch = |source| Error::Io { action: "writing scratch space in", path: self.scratch.clone(), source };
        let mut spool = Spool::new(&self.scratch).map_err(scratch)?;
        let mut failed: io::Result<()> = Ok(());
        let mut push = |block: Block| {
            failed = spool.push(&block);
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        self.decode_blocks(&mut push).map_err(|error| self.error(error))?;
        failed.map_err(scratch)?;
        Ok(Arc::clone(place.insert(Arc::new(spool))))
    }

    fn error(&self, error: ObjectError) -> Error {
        Error::Elsewhere { place: self.key.to_string(), kind: error.kind(), source: error.into() }
    }
}

impl Records for Events {
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        let is_spooled = self.spool.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if direction == Direction::Forwards && !is_spooled {
            return self.read_ahead(visit);
        }
        self.spooled()?.read(direction, &self.scratch, visit)
    }

    fn size_bytes(&self) -> u64 {
        /// What gzip makes of Kubernetes' objects as JSON.
        const USUAL_RATIO: u64 = 6;
        self.facts.get().map_or(self.object.size_bytes().saturating_mul(USUAL_RATIO), |facts| facts.record_bytes)
    }

    fn last(&self) -> Result<Option<RevKey>, Error> {
        self.facts().map(|facts| Some(facts.last)).map_err(|error| self.error(error))
    }
}

/// What events are shown to.
type See<'a> = dyn FnMut(RevKey, &Event) -> ControlFlow<()> + 'a;

/// The next byte that is no blank, which is not consumed. Nothing at the end.
fn next_byte(text: &mut Text<'_>) -> Result<Option<u8>, ObjectError> {
    loop {
        let rest = text.rest();
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if let Some(&byte) = rest.get(blanks) {
            text.consume(blanks);
            return Ok(Some(byte));
        }
        text.consume(blanks);
        if !text.more()? {
            return Ok(None);
        }
    }
}

fn read_event(event: &mut Event, text: &mut Text<'_>) -> Result<(), ObjectError> {
    loop {
        match event.read(text.rest()) {
            Ok(len) => {
                text.consume(len);
                return Ok(());
            }
            Err(EventFault::CutShort) if text.more()? => {}
            Err(fault) => return Err(damaged(text.offset(), &fault.to_string())),
        }
    }
}

fn show(blocks: &Receiver<Block>, visit: &mut Visit<'_>) -> Result<ControlFlow<()>, Error> {
    for block in blocks {
        if block.read(Direction::Forwards, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn damaged(offset: u64, what: &str) -> ObjectError {
    ObjectError::Damaged { offset, what: what.into() }
}
