//! What a compaction keeps.
//!
//! Of every key, a compaction at revision C keeps the newest record up to C, unless that deletes the key, and
//! everything after C. From 3.4.34, 3.5.16 and 3.6.0 on, servers also keep a deletion at C itself, until the next
//! compaction, so that who watches from C on is told of it.
//!
//! No server lets one transaction change a key twice, so that a key has one newest record. Where a file has it all the
//! same, made by hand, the last change is the newest; servers that keep a last deletion would keep that of a key put,
//! deleted and put again at C, and lose the key.
//!
//! To know the newest record of a key, one pass goes through the records up to C backwards and remembers the keys
//! that it came by (20 to 39 bytes per key, see [`crate::fingerprint`]). What it leaves behind is one bit per record.

use std::ops::ControlFlow;

use crate::database::{Database, Direction, Next, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeySet};
use crate::revision::{RevKey, Revision};

/// Whether a deletion at the compact revision itself is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// It is: 3.4.34, 3.5.16, 3.6.0 and later.
    KeepLastDeletion,
    /// It is not: earlier servers.
    DropLastDeletion,
}

impl Rules {
    /// Whether a compaction at `compact` keeps `newest`, the newest record of its key up to there.
    pub fn keep(self, newest: RevKey, compact: Revision) -> bool {
        !newest.tombstone || (self == Self::KeepLastDeletion && newest.main == compact)
    }
}

/// What a compaction keeps, record by record.
#[derive(Debug, Clone)]
pub struct Survivors {
    compact: Revision,
    /// In revision order.
    stretches: Vec<Stretch>,
    kept: u64,
    dropped: u64,
}

/// Neighbouring records, and which of them are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    first: RevKey,
    /// How many records it has.
    len: usize,
    /// One bit for each, the last record first.
    bits: Vec<u64>,
}

/// So many records are looked at before they are handed over.
const STRETCH: usize = 4096;

impl Survivors {
    /// What a compaction of `database` at `compact` keeps.
    pub fn find(database: &Database, compact: Revision, rules: Rules) -> Result<Self, Error> {
        let mut seen = KeySet::default();
        Self::search(database, compact, compact, |at, key| seen.insert(key) && rules.keep(at, compact))
    }

    /// Asks `keep` of every record up to `until`, the last first, and notes the answers for those up to `compact`.
    pub(crate) fn search(
        database: &Database,
        compact: Revision,
        until: Revision,
        mut keep: impl FnMut(RevKey, Fingerprint) -> bool,
    ) -> Result<Self, Error> {
        let prints = Fingerprinter::default();
        let mut survivors = Self { compact, stretches: Vec::new(), kept: 0, dropped: 0 };
        let step = |part: &mut Vec<(RevKey, Fingerprint)>, at: RevKey, key: &[u8]| {
            part.push((at, prints.of(key)));
            Ok(if part.len() < STRETCH { Next::More } else { Next::Cut })
        };
        let take = |part: Vec<(RevKey, Fingerprint)>| {
            survivors.note(part.into_iter().map(|(at, key)| (at, keep(at, key))));
            Ok::<_, Error>(ControlFlow::Continue(()))
        };
        database.scan_keys(RevisionRange::up_to(until), Direction::Backwards, step, take)?;
        survivors.stretches.reverse();
        Ok(survivors)
    }

    /// How many records up to the compact revision are kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// How many records are dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Tells of one record after the other whether it is kept.
    pub fn reader(&self) -> SurvivorReader<'_> {
        SurvivorReader { survivors: self, stretches: None, index: 0 }
    }

    fn note(&mut self, answers: impl Iterator<Item = (RevKey, bool)>) {
        let mut stretch: Option<Stretch> = None;
        for (at, keep) in answers.filter(|(at, _)| at.main <= self.compact) {
            stretch.get_or_insert_with(|| Stretch { first: at, len: 0, bits: Vec::new() }).push(at, keep);
            *if keep { &mut self.kept } else { &mut self.dropped } += 1;
        }
        self.stretches.extend(stretch);
    }
}

impl Stretch {
    /// Adds the record before the first.
    fn push(&mut self, at: RevKey, keep: bool) {
        self.first = at;
        if self.len.is_multiple_of(64) {
            self.bits.push(0);
        }
        if let Some(word) = self.bits.last_mut() {
            *word |= u64::from(keep) << (self.len % 64);
        }
        self.len += 1;
    }

    /// Whether the record at `index`, in revision order, is kept.
    fn keeps(&self, index: usize) -> bool {
        let place = self.len.saturating_sub(index + 1);
        self.bits.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }
}

/// Tells of records whether they are kept. They must be shown in revision order and without leaving one out; the
/// first may be any that a part of a [`Database::scan`] begins with.
#[derive(Debug, Clone)]
pub struct SurvivorReader<'a> {
    survivors: &'a Survivors,
    /// What is left; nothing before the first record.
    stretches: Option<&'a [Stretch]>,
    /// The place in the first of them.
    index: usize,
}

impl SurvivorReader<'_> {
    /// Whether the record at `at` is kept.
    pub fn keeps(&mut self, at: RevKey) -> bool {
        if at.main > self.survivors.compact {
            return true;
        }
        let mut left = self.stretches.unwrap_or_else(|| self.from(at));
        while let Some((stretch, after)) = left.split_first() {
            if self.index < stretch.len {
                self.stretches = Some(left);
                self.index += 1;
                return stretch.keeps(self.index - 1);
            }
            (left, self.index) = (after, 0);
        }
        self.stretches = Some(left);
        false
    }
}

impl<'a> SurvivorReader<'a> {
    fn from(&self, at: RevKey) -> &'a [Stretch] {
        let stretches = &self.survivors.stretches;
        let after = stretches.partition_point(|stretch| stretch.first <= at);
        stretches.get(after.saturating_sub(1)..).unwrap_or_default()
    }
}
