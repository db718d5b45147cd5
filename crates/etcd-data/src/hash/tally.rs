//! HashKV in one pass over the records, in revision order, where the compaction left one record of each key.
//!
//! Whether a record up to the compact revision counts depends on what comes after it: whether its key changes. So each of
//! them is hashed by itself, and those that count are put together at the end. That takes 8 bytes per record up to the
//! compact revision, and an entry in a table for its key: 30 to 36 bytes in all.

use crate::crc::Crc;
use crate::database::Record;
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeyMap};
use crate::revision::Revision;
use crate::tables::KEY;

/// Looks at records, on any thread.
pub(crate) struct Look {
    compact: Option<Revision>,
    prints: Fingerprinter,
}

/// What was seen of neighbouring records.
#[derive(Default)]
pub(crate) struct Seen {
    /// Those up to the compact revision, and of all of them.
    early: Vec<(Fingerprint, Piece)>,
    all_early: Crc,
    /// Of those after it.
    late: Crc,
    /// The keys that those change.
    changed: Vec<Fingerprint>,
}

/// A record by itself.
#[derive(Clone, Copy)]
struct Piece {
    crc: u32,
    /// Nothing if it does not count. No record has so many bytes that this could not tell them, nor so few.
    len: u32,
}

impl Look {
    pub(crate) fn new(compact: Option<Revision>) -> Self {
        Self { compact, prints: Fingerprinter::default() }
    }

    /// Adds a record to those that were seen before it.
    pub(crate) fn at(&self, record: &Record<'_>, seen: &mut Seen) -> Result<(), Error> {
        let Some(compact) = self.compact else {
            seen.late.add_record(record);
            return Ok(());
        };
        let print = self.prints.of(record.key()?);
        if record.at.main > compact {
            seen.late.add_record(record);
            seen.changed.push(print);
            return Ok(());
        }
        let mut alone = Crc::default();
        alone.add_record(record);
        seen.all_early.join(alone);
        let len = if record.at.tombstone { 0 } else { alone.len as u32 };
        seen.early.push((print, Piece { crc: alone.crc, len }));
        Ok(())
    }
}

/// Puts together what was seen.
pub(crate) struct Tally {
    is_compacted: bool,
    all_early: Crc,
    /// Where the piece of each key is; of no use any more once a key had two.
    places: KeyMap<u32>,
    pieces: Vec<Piece>,
    late: Crc,
    once: bool,
}

impl Tally {
    pub(crate) fn new(look: &Look) -> Self {
        Self {
            is_compacted: look.compact.is_some(),
            all_early: Crc::of(KEY),
            places: KeyMap::default(),
            pieces: Vec::new(),
            late: Crc::default(),
            once: true,
        }
    }

    /// Whether there is still something to be learnt of HashKV.
    pub(crate) fn is_of_use(&self) -> bool {
        self.once
    }

    /// Takes what was seen next.
    pub(crate) fn take(&mut self, seen: Seen) {
        self.all_early.join(seen.all_early);
        self.late.join(seen.late);
        if !self.once {
            return;
        }
        for (key, piece) in seen.early {
            let (_, known) = self.places.find_or_add(key, self.pieces.len() as u32);
            if known.is_some() {
                return self.forget();
            }
            self.pieces.push(piece);
        }
        for key in seen.changed {
            if let Some(piece) = self.places.get(key).and_then(|&place| self.pieces.get_mut(place as usize)) {
                piece.len = 0;
            }
        }
    }

    fn forget(&mut self) {
        self.once = false;
        self.places = KeyMap::default();
        self.pieces = Vec::new();
    }

    /// The CRC-32C of `key` and of all records.
    pub(crate) fn all(&self) -> u32 {
        let mut all = self.all_early;
        all.join(self.late);
        all.crc
    }

    /// HashKV. Nothing if a key had several records up to the compact revision, or if none of those counts: then it
    /// takes more to know what does.
    pub(crate) fn hash(&self) -> Option<u32> {
        if !self.is_compacted {
            return Some(self.all());
        }
        let mut counted = Crc::of(KEY);
        for piece in self.pieces.iter().filter(|piece| piece.len > 0) {
            counted.join(Crc { crc: piece.crc, len: piece.len as usize });
        }
        let any_left = counted.len > KEY.len();
        counted.join(self.late);
        (self.once && any_left).then_some(counted.crc)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::key_value::KeyValue;
    use crate::revision::RevKey;

    const COMPACT: Revision = Revision(100);

    /// A change of a key: which, and whether it is deleted.
    type Change = (u8, bool);

    fn record(main: i64, (key, tombstone): Change) -> (RevKey, Vec<u8>) {
        let mut value = Vec::new();
        let version = i64::from(!tombstone);
        KeyValue { key: &[b'k', key], value: &vec![key; usize::from(key) * 20], version, ..KeyValue::default() }
            .encode(&mut value);
        (RevKey { main: Revision(main), sub: 0, tombstone }, value)
    }

    fn tally(records: &[(RevKey, Vec<u8>)], part: usize) -> Tally {
        let look = Look::new(Some(COMPACT));
        let mut tally = Tally::new(&look);
        for records in records.chunks(part) {
            let mut seen = Seen::default();
            for (at, value) in records {
                look.at(&Record { at: *at, value }, &mut seen).unwrap();
            }
            tally.take(seen);
        }
        tally
    }

    fn crc<'a>(records: impl Iterator<Item = &'a (RevKey, Vec<u8>)>) -> u32 {
        let records = records.flat_map(|(at, value)| [at.encode().to_vec(), value.clone()].concat());
        crc32c::crc32c(&KEY.iter().copied().chain(records).collect::<Vec<u8>>())
    }

    #[test]
    fn what_counts_is_what_was_put_and_did_not_change() {
        for seed in 0..300 {
            let mut random = StdRng::seed_from_u64(seed);
            let early: BTreeSet<u8> = (0..random.random_range(0..20)).map(|_| random.random_range(0..20)).collect();
            let early: Vec<Change> = early.into_iter().map(|key| (key, random.random_bool(0.2))).collect();
            let late: Vec<Change> = (0..random.random_range(0..40))
                .map(|_| (random.random_range(0..30), random.random_bool(0.5)))
                .collect();
            let changed: BTreeSet<u8> = late.iter().map(|&(key, _)| key).collect();
            let early = early.into_iter().zip(1..).map(|(change, main)| record(main, change));
            let late = late.into_iter().zip(101..).map(|(change, main)| record(main, change));
            let records: Vec<_> = early.chain(late).collect();
            let counts = |(at, value): &&(RevKey, Vec<u8>)| {
                let key = KeyValue::parse_key(value).unwrap()[1];
                at.main > COMPACT || (!at.tombstone && !changed.contains(&key))
            };
            let any_left = records.iter().filter(counts).any(|(at, _)| at.main <= COMPACT);

            let tally = tally(&records, random.random_range(1..10));
            assert_eq!(tally.all(), crc(records.iter()), "seed {seed}");
            assert_eq!(tally.hash(), any_left.then(|| crc(records.iter().filter(counts))), "seed {seed}");
        }
    }

    #[test]
    fn where_a_key_has_two_records_before_the_compaction_one_pass_is_not_enough() {
        let records = [record(3, (1, false)), record(4, (2, false)), record(5, (1, false))];
        let tally = tally(&records, 2);
        assert!(!tally.is_of_use());
        assert_eq!((tally.hash(), tally.all()), (None, crc(records.iter())));
    }
}
