//! Whatever deltas are put together of, all of it is there, found by key, and no damage comes along.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use etcd_data::database::{Direction, Readers};
use etcd_data::{KeyValue, Kind as ErrorKind, LeaseId, RevKey, Revision};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::closing::Closing;
use crate::encryption::ArchiveKey;
use crate::error::{ObjectError, is_its_own};
use crate::header::Kind;
use crate::identity::ClusterUid;
use crate::object::WriteSettings;
use crate::read_at::{ReadAt, ReadFailed};
use crate::sealing::NoKeys;
use crate::sketch::header;

type Pair = (RevKey, Vec<u8>);

/// The keys that changes are made to.
const KEYS: usize = 60;

fn range(from: i64, to: i64) -> RevisionRange {
    RevisionRange { from: Revision(from), to: Revision(to) }
}

/// Values that have nothing in common and values that differ in a few bytes, leases, deletions, and transactions of which
/// some are larger than a chunk.
fn history(random: &mut StdRng, from: i64, to: i64) -> Vec<Pair> {
    let mut records = Vec::new();
    for main in from..=to {
        let changes = if random.random_ratio(1, 15) { random.random_range(10..50) } else { 1 };
        let first = random.random_range(0..KEYS);
        for sub in 0..changes {
            let which = (first + sub) % KEYS;
            let tombstone = random.random_ratio(1, 12);
            let key = format!("/registry/pods/{which:02}");
            let value = match which % 3 {
                0 => {
                    format!("{{\"name\":\"{key}\",\"text\":\"much of it stays as it is\",\"now\":{main}}}").into_bytes()
                }
                _ => (0..random.random_range(0..300)).map(|_| random.random()).collect::<Vec<u8>>(),
            };
            let put = KeyValue {
                key: key.as_bytes(),
                create_revision: Revision(main - main % 7),
                mod_revision: Revision(main),
                version: main % 7 + 1,
                value: &value,
                lease: LeaseId(if which.is_multiple_of(4) { which as i64 + 1 } else { 0 }),
            };
            let deletion = KeyValue { key: key.as_bytes(), ..KeyValue::default() };
            let mut encoded = Vec::new();
            if tombstone { deletion } else { put }.encode(&mut encoded);
            records.push((RevKey { main: Revision(main), sub: sub as i64, tombstone }, encoded));
        }
    }
    records
}

/// A delta of small chunks, of what `fill` gives.
fn written(
    revisions: RevisionRange,
    key: Option<&ArchiveKey>,
    fill: impl FnOnce(&mut ObjectWriter<&mut Vec<u8>>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut header = header(Kind::Delta, revisions.from.0, revisions.to.0);
    let data_key = key.map(|key| {
        let (data_key, mut encryption) = key.data_key(vec!["somebody".into()]);
        encryption.segment_bytes = 700;
        header.encryption = Some(encryption);
        data_key
    });
    let mut bytes = Vec::new();
    let settings = WriteSettings { chunk_bytes: 1000, ..WriteSettings::delta() };
    let mut writer = ObjectWriter::create(&mut bytes, header, data_key, settings).unwrap();
    fill(&mut writer)?;
    writer.finish(&Closing::default(), None).unwrap();
    Ok(bytes)
}

fn delta(records: &[Pair], key: Option<&ArchiveKey>) -> Vec<u8> {
    let revisions = range(records[0].0.main.0, records[records.len() - 1].0.main.0);
    let fill = |writer: &mut ObjectWriter<&mut Vec<u8>>| {
        records.iter().for_each(|(at, record)| writer.push(*at, record).unwrap());
        Ok::<_, Error>(())
    };
    written(revisions, key, fill).unwrap()
}

fn merged(sources: &[(Object, RevisionRange)], key: Option<&ArchiveKey>) -> Result<Vec<u8>, Error> {
    let revisions = RevisionRange { from: sources[0].1.from, to: sources[sources.len() - 1].1.to };
    written(revisions, key, |writer| put_together(sources, Readers::Cores, writer, &Key::parse("merged").unwrap()))
}

fn open(place: &str, bytes: Vec<u8>, keys: &[ArchiveKey]) -> Object {
    Object::open(place, Arc::new(Bytes::from(bytes)), keys).unwrap()
}

fn plain(place: &str, records: &[Pair]) -> Object {
    open(place, delta(records, None), &[])
}

fn records(object: &Object, direction: Direction) -> Vec<Pair> {
    let chunks: Vec<_> = object.chunks().map(|(_, records)| records).collect();
    let mut found = Vec::new();
    for index in direction.places(chunks.len()) {
        let mut see = |at: RevKey, value: &[u8]| {
            found.push((at, value.to_vec()));
            Ok(ControlFlow::Continue(()))
        };
        chunks[index].read(direction, &mut see).unwrap();
    }
    found
}

/// Requires that `object` has `expected`, read either way, and that whoever looks for a key finds it.
#[track_caller]
fn check(object: &Object, expected: &[Pair]) {
    assert_eq!(records(object, Direction::Forwards), expected);
    let mut backwards = records(object, Direction::Backwards);
    backwards.reverse();
    assert_eq!(backwards, expected);
    assert_eq!(object.records(), expected.len() as u64);
    assert!(object.key_index_agrees().unwrap() && object.verify_digest().unwrap());
}

/// The first and the last record of each chunk, and its size.
fn spans(object: &Object) -> Vec<(RevKey, RevKey, u64)> {
    object.chunk_facts().map(|chunk| (chunk.first, chunk.last, chunk.stored_bytes)).collect()
}

#[test]
fn whatever_deltas_have_is_in_what_is_made_of_them() {
    let (mut taken_over, mut within) = (0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let keys = [ArchiveKey::draw(ClusterUid(7)), ArchiveKey::draw(ClusterUid(7))];
        let key_of = |random: &mut StdRng| keys.get(random.random_range(0..3_usize));
        let (mut sources, mut expected, mut from) = (Vec::new(), Vec::new(), 2);
        for _ in 0..random.random_range(2..6) {
            let to = from + random.random_range(0..80);
            let records = history(&mut random, from, to);
            let object = open("source", delta(&records, key_of(&mut random)), &keys);
            sources.push((object, range(from, to)));
            expected.extend(records);
            from = to + 1;
        }
        let merged = open("merged", merged(&sources, key_of(&mut random)).unwrap(), &keys);
        check(&merged, &expected);

        let before: BTreeSet<_> = sources.iter().flat_map(|(object, _)| spans(object)).collect();
        let same: Vec<_> = spans(&merged).into_iter().filter(|span| before.contains(span)).collect();
        taken_over += same.len();
        within += same.iter().filter(|(first, ..)| first.sub > 0).count();
    }
    assert!(taken_over > 100 && within > 10, "{taken_over} taken over, {within} of them begin within a transaction");
}

#[test]
fn what_is_taken_may_begin_and_end_anywhere() {
    let all = history(&mut StdRng::seed_from_u64(100), 2, 80);
    let ends = all.partition_point(|(at, _)| at.main <= Revision(60));
    let (first, second) = (plain("first", &all[..ends]), plain("second", &all));
    for from in 3..=60 {
        let sources = [(first.clone(), range(2, from - 1)), (second.clone(), range(from, 80))];
        let merged = open("merged", merged(&sources, None).unwrap(), &[]);
        check(&merged, &all);
    }
}

/// A delta of puts of values of which none is like another.
fn puts(from: i64, to: i64) -> Object {
    let put = |main: i64| {
        let value: Vec<u8> = (0..200_i64).map(|at| (main * 7919 + at * at * 31 % 251) as u8).collect();
        let key = format!("/registry/pods/{:02}", main % 40);
        let put = KeyValue {
            key: key.as_bytes(),
            create_revision: Revision(main),
            mod_revision: Revision(main),
            version: 1,
            value: &value,
            ..KeyValue::default()
        };
        let mut encoded = Vec::new();
        put.encode(&mut encoded);
        (RevKey { main: Revision(main), sub: 0, tombstone: false }, encoded)
    };
    plain("puts", &(from..=to).map(put).collect::<Vec<_>>())
}

#[test]
fn what_is_not_full_is_packed_with_what_follows() {
    // Large, small, and one of which only the middle is wanted.
    let sources = [(puts(2, 60), range(2, 60)), (puts(61, 66), range(61, 66)), (puts(50, 120), range(67, 110))];
    let merged = open("merged", merged(&sources, None).unwrap(), &[]);
    let taken = |(object, take): &(Object, RevisionRange)| {
        let all = records(object, Direction::Forwards);
        all.into_iter().filter(|(at, _)| take.has(*at)).collect::<Vec<_>>()
    };
    check(&merged, &sources.iter().flat_map(taken).collect::<Vec<_>>());

    let (merged, [large, small, cut]) = (spans(&merged), sources.map(|(object, _)| spans(&object)));
    let is_there = |span| merged.contains(span);
    let (rest, full) = large.split_last().unwrap();
    assert!(full.len() >= FULL_CHUNKS && full.iter().all(is_there), "{merged:?}");
    assert!(!is_there(rest) && !is_there(&small[0]), "what is not full is put together with what follows");
    assert!(cut.len() > FULL_CHUNKS && !is_there(&cut[0]), "what is not wanted as a whole is not taken over");
    assert!(cut[..cut.len() - 1].iter().any(is_there), "{merged:?}");
}

#[test]
fn where_all_is_large_nothing_is_packed_anew() {
    let sources = [(puts(2, 60), range(2, 60)), (puts(61, 130), range(61, 130))];
    let merged = open("merged", merged(&sources, None).unwrap(), &[]);
    let both: Vec<_> = sources.iter().flat_map(|(object, _)| spans(object)).collect();
    assert_eq!(spans(&merged), both);
}

#[test]
fn a_damaged_chunk_is_not_taken_over() {
    let mut random = StdRng::seed_from_u64(200);
    let (first, second) = (history(&mut random, 2, 60), history(&mut random, 61, 120));
    let (first, bytes) = (plain("first", &first), delta(&second, None));
    let chunks: Vec<_> = open("second", bytes.clone(), &[]).chunk_facts().collect();
    assert!(chunks.len() > FULL_CHUNKS + 1);
    for chunk in chunks {
        // At its ends, which tell of records and values, and in between.
        for place in [0, chunk.stored_bytes / 2, chunk.stored_bytes - 1] {
            let mut damaged = bytes.clone();
            damaged[(chunk.stored_at + place) as usize] ^= 0x10;
            let sources = [(first.clone(), range(2, 60)), (open("second", damaged, &[]), range(61, 120))];
            let error = merged(&sources, None).unwrap_err();
            let told = crate::error::in_one_line(&error);
            assert!(matches!(&error, Error::Object { key, .. } if key.as_str() == "second"), "{told}");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{told}");
        }
    }
}

/// Bytes that somebody has until they are lost.
struct Lost(Bytes, AtomicBool);

impl ReadAt for Lost {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(ReadFailed::new(offset, len, std::io::Error::other("the line is dead"))),
            false => self.0.read_at(offset, len),
        }
    }

    /// So that nothing is remembered of what was read.
    fn is_near(&self) -> bool {
        true
    }
}

#[test]
fn a_chunk_that_cannot_be_had_is_not_called_damaged() {
    let records = history(&mut StdRng::seed_from_u64(300), 2, 60);
    let bytes = Arc::new(Lost(delta(&records, None).into(), AtomicBool::new(false)));
    let object = Object::open("lost", Arc::clone(&bytes) as Arc<dyn ReadAt>, &NoKeys).unwrap();
    bytes.1.store(true, Ordering::Relaxed);
    let error = merged(&[(object, range(2, 60))], None).unwrap_err();
    assert!(matches!(&error, Error::Object { source: ObjectError::Read(_), .. }), "{error}");
    assert!(!is_its_own(error.kind()));
}
