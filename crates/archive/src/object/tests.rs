//! What goes into an object comes out of it, sealed or not, whole or by key; and whatever is done to its bytes is found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use etcd_data::bolt_file::BoltFile;
use etcd_data::bolt_file::write::{Builder, Options};
use etcd_data::database::{Direction, Next, RevisionRange};
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::closing::{Closing, Moment};
use crate::encryption::ArchiveKey;
use crate::error::ObjectError;
use crate::header::Kind;
use crate::identity::{ClusterUid, Epoch};
use crate::read_at::{ReadAt, ReadFailed};
use crate::sealing::NoKeys;
use crate::sketch::header;

type Pair = (RevKey, Vec<u8>);

fn closing() -> Closing {
    Closing {
        moments: vec![Moment { second: 1_795_000_000, revision: Revision(5) }],
        leases: vec![(LeaseId(-4), 60), (LeaseId(7), 3600)],
        auth_revision: Some(1),
        ..Closing::default()
    }
}

fn tables() -> Tables {
    let mut tables = Tables::default();
    tables.bucket_mut("meta").insert(b"term".to_vec(), vec![0, 0, 0, 0, 0, 0, 0, 2]);
    tables.bucket_mut("members");
    tables.bucket_mut(&b"\xff\0"[..]).insert(vec![], vec![]);
    tables
}

/// Puts and deletions of `keys` keys, one or a few for every main revision from `from` on.
fn history(random: &mut StdRng, from: i64, count: usize, keys: usize) -> Vec<Pair> {
    let mut records = Vec::new();
    let mut main = from - 1;
    while records.len() < count {
        main += 1;
        for sub in 0..random.random_range(1..3) {
            let key = key(random.random_range(0..keys));
            let tombstone = random.random_ratio(1, 10);
            let value: Vec<u8> = (0..random.random_range(0..80)).map(|_| random.random()).collect();
            let put = KeyValue {
                key: &key,
                create_revision: Revision(random.random_range(2..=main.max(2))),
                mod_revision: Revision(main),
                version: random.random_range(1..5),
                value: &value,
                lease: LeaseId(0),
            };
            let deletion = KeyValue { key: &key, ..KeyValue::default() };
            let mut encoded = Vec::new();
            if tombstone { deletion } else { put }.encode(&mut encoded);
            if random.random_ratio(1, 100) {
                encoded.push(0xff);
            }
            records.push((RevKey { main: Revision(main), sub, tombstone }, encoded));
        }
    }
    records
}

fn key(number: usize) -> Vec<u8> {
    format!("/registry/pods/namespace-{}/pod-{number}", number % 7).into_bytes()
}

fn small() -> WriteSettings {
    WriteSettings { chunk_bytes: 2000, gather_bytes: 3000, ..WriteSettings::delta() }
}

fn written(kind: Kind, records: &[Pair], settings: WriteSettings, key: Option<&ArchiveKey>) -> (Vec<u8>, Written) {
    let (first, last) = (records.first().unwrap().0.main.0, records.last().unwrap().0.main.0);
    let mut header = header(kind, if kind == Kind::Full { 0 } else { first }, last);
    let data_key = key.map(|key| {
        let (data_key, mut encryption) = key.data_key(vec!["somebody".into()]);
        encryption.segment_bytes = 1000;
        header.encryption = Some(encryption);
        data_key
    });
    let mut out = Vec::new();
    let mut writer = ObjectWriter::create(&mut out, header, data_key, settings).unwrap();
    for (at, record) in records {
        writer.push(*at, record).unwrap();
    }
    let tables = (kind == Kind::Full).then(tables);
    let written = writer.finish(&closing(), tables.as_ref()).unwrap();
    (out, written)
}

fn open(bytes: &[u8], keys: &[ArchiveKey]) -> Result<Object, ObjectError> {
    Object::open("test", Arc::new(Bytes::copy_from_slice(bytes)), keys)
}

fn records_of(
    chunks: impl Iterator<Item = (RevisionRange, Arc<dyn etcd_data::records::Records>)>,
    direction: Direction,
) -> Result<Vec<Pair>, etcd_data::Error> {
    let database = chunks
        .fold(Database::empty(Tables::default()), |database, (range, records)| database.followed_by(range, records));
    let mut found = Vec::new();
    let step = |part: &mut Vec<Pair>, record: etcd_data::database::Record<'_>| {
        part.push((record.at, record.value.to_vec()));
        Ok(Next::More)
    };
    database.scan::<_, etcd_data::Error>(RevisionRange::ALL, direction, step, |part| {
        found.extend(part);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

#[track_caller]
fn check(object: &Object, records: &[Pair]) {
    assert_eq!(records_of(object.chunks(), Direction::Forwards).unwrap(), records);
    let mut backwards = records_of(object.chunks(), Direction::Backwards).unwrap();
    backwards.reverse();
    assert_eq!(backwards, records);
    assert_eq!(object.records(), records.len() as u64);
    assert_eq!(object.closing().unwrap(), &closing());
    let tables = (object.header().kind == Kind::Full).then(tables);
    assert_eq!(object.tables().unwrap(), tables);
    assert!(object.verify_digest().unwrap());
}

#[test]
fn records_come_out_as_they_went_in() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(1..2000);
        let records = history(&mut random, 2, count, 50);
        let archive_key = ArchiveKey::draw(ClusterUid(7));
        for (kind, key) in [
            (Kind::Full, None),
            (Kind::Full, Some(&archive_key)),
            (Kind::Delta, None),
            (Kind::Delta, Some(&archive_key)),
        ] {
            let settings = if random.random() { small() } else { WriteSettings::delta() };
            let (bytes, written) = written(kind, &records, settings, key);
            let keys = key.cloned().into_iter().collect::<Vec<_>>();
            let object = open(&bytes, &keys).unwrap();
            check(&object, &records);
            assert_eq!((written.digest, written.size_bytes), (object.digest(), bytes.len() as u64));
            assert_eq!((written.records, written.link), (records.len() as u64, object.link()));
        }
    }
}

#[test]
fn a_full_may_be_empty_and_a_delta_may_not() {
    let writer = |kind| ObjectWriter::create(Vec::new(), header(kind, 0, 1), None, small()).unwrap();
    let mut out = Vec::new();
    let full = ObjectWriter::create(&mut out, header(Kind::Full, 0, 1), None, small()).unwrap();
    full.finish(&closing(), Some(&tables())).unwrap();
    check(&open(&out, &[]).unwrap(), &[]);
    let refused = writer(Kind::Delta).finish(&closing(), None);
    assert!(matches!(refused, Err(WriteError::Gap { .. })), "{refused:?}");
}

#[test]
fn a_full_that_would_lose_something_is_not_made() {
    // A bucket's header, and the leaf inside the value.
    let mut inner = [0; 32];
    inner[24] = 2;
    let mut bytes = Vec::new();
    let mut builder = Builder::create(&mut bytes, Options::default()).unwrap();
    let mut bucket = builder.bucket(b"quotas").unwrap();
    bucket.push(b"inner", &inner).unwrap();
    bucket.finish().unwrap();
    builder.finish().unwrap();
    // The element that stands for the pair: flags, then where it is, and the lengths of key and value.
    let element: Vec<u8> = [0, 16, 5, 32].into_iter().flat_map(u32::to_le_bytes).collect();
    let at = bytes.windows(element.len()).position(|bytes| bytes == element).unwrap();
    bytes[at] = 1;
    let tables = Tables::read(&BoltFile::open(Arc::new(bytes)).unwrap()).unwrap();

    let full = ObjectWriter::create(Vec::new(), header(Kind::Full, 0, 1), None, small()).unwrap();
    let refused = full.finish(&closing(), Some(&tables)).unwrap_err();
    assert!(matches!(refused, WriteError::Uncarried(_)), "{refused}");
    let told = "it cannot have all that the database has: \
                bucket quotas: it holds a bucket, inner, which cannot be carried along";
    assert_eq!(crate::error::in_one_line(&refused), told);
}

#[test]
fn records_that_cannot_be_next_are_refused() {
    let at = |main, sub| RevKey { main: Revision(main), sub, tombstone: false };
    let mut delta = ObjectWriter::create(Vec::new(), header(Kind::Delta, 5, 9), None, small()).unwrap();
    assert!(matches!(delta.push(at(4, 0), b""), Err(WriteError::Outside { .. })));
    assert!(matches!(delta.push(at(6, 0), b""), Err(WriteError::Gap { after: Revision(4) })));
    delta.push(at(5, 0), b"").unwrap();
    assert!(matches!(delta.push(at(5, 0), b""), Err(WriteError::OutOfOrder { .. })));
    delta.push(at(5, 1), b"").unwrap();
    delta.push(at(6, 0), b"").unwrap();
    assert!(matches!(delta.push(at(8, 0), b""), Err(WriteError::Gap { after: Revision(6) })));
    assert!(matches!(delta.push(at(10, 0), b""), Err(WriteError::Outside { .. })));
    assert!(matches!(delta.finish(&closing(), None), Err(WriteError::Gap { after: Revision(6) })));
    let mut full = ObjectWriter::create(Vec::new(), header(Kind::Full, 0, 9), None, small()).unwrap();
    full.push(at(2, 0), b"").unwrap();
    full.push(at(7, 0), b"").unwrap();
}

#[test]
fn a_key_is_found_in_the_chunks_that_have_it() {
    let records = history(&mut StdRng::seed_from_u64(5), 2, 3000, 400);
    let (bytes, _) = written(Kind::Full, &records, small(), None);
    let object = open(&bytes, &[]).unwrap();
    assert!(object.chunk_facts().len() > 50);
    let of = |wanted: &dyn Fn(&[u8]) -> bool| -> BTreeSet<RevKey> {
        let has = |record: &[u8]| KeyValue::parse_key(record).map_or(true, wanted);
        records.iter().filter(|(_, record)| has(record)).map(|(at, _)| *at).collect()
    };
    let found = |wanted: Wanted<'_>| -> BTreeSet<RevKey> {
        let chunks: Vec<_> = object.chunks_with(wanted).unwrap().collect();
        records_of(chunks.into_iter(), Direction::Forwards).unwrap().into_iter().map(|(at, _)| at).collect()
    };
    for number in 0..401 {
        let key = key(number);
        assert!(found(Wanted::Key(&key)).is_superset(&of(&|found| found == key)), "{number}");
    }
    for prefix in [&b""[..], b"/registry/pods/namespace-3", b"/registry/pods/namespace-3/pod-3", b"z", b"/a"] {
        assert!(found(Wanted::Prefix(prefix)).is_superset(&of(&|found| found.starts_with(prefix))));
    }
    let chunks = |wanted: Wanted<'_>| object.chunks_with(wanted).unwrap().count();
    let keyless = chunks(Wanted::Key(b"nothing has this key"));
    assert!(keyless < object.chunk_facts().len());
    assert!(chunks(Wanted::Key(&key(399))) < keyless + 25);
}

#[test]
fn chunks_are_taken_over_as_they_are() {
    let records = history(&mut StdRng::seed_from_u64(6), 2, 1000, 60);
    let archive_key = ArchiveKey::draw(ClusterUid(7));
    let (bytes, _) = written(Kind::Delta, &records, small(), Some(&archive_key));
    let source = open(&bytes, &[archive_key]).unwrap();
    let more = history(&mut StdRng::seed_from_u64(7), source.header().to.0 + 1, 100, 60);
    let to = more.last().unwrap().0.main.0;
    let mut out = Vec::new();
    let mut writer = ObjectWriter::create(&mut out, header(Kind::Full, 0, to), None, small()).unwrap();
    for index in 0..source.chunk_facts().len() {
        writer.push_chunk_of(&source, index).unwrap();
    }
    assert!(matches!(writer.push_chunk_of(&source, 0), Err(WriteError::OutOfOrder { .. })));
    for (at, record) in &more {
        writer.push(*at, record).unwrap();
    }
    writer.finish(&closing(), Some(&tables())).unwrap();
    let merged = open(&out, &[]).unwrap();
    check(&merged, &[&records[..], &more].concat());
    assert_eq!(merged.chunks_with(Wanted::Prefix(b"")).unwrap().count(), merged.chunk_facts().len());
}

/// Reads everything there is to read.
fn read_all(bytes: &[u8], keys: &[ArchiveKey]) -> Result<Vec<Pair>, String> {
    let object = open(bytes, keys).map_err(|error| error.to_string())?;
    object.closing().map_err(|error| error.to_string())?;
    object.tables().map_err(|error| error.to_string())?;
    object.chunks_with(Wanted::Prefix(b"")).map(|_| ()).map_err(|error| error.to_string())?;
    records_of(object.chunks(), Direction::Forwards).map_err(|error| error.to_string())
}

#[test]
fn every_flip_is_found_when_the_part_is_read() {
    let records = history(&mut StdRng::seed_from_u64(8), 2, 40, 10);
    let archive_key = ArchiveKey::draw(ClusterUid(7));
    for (kind, key) in [(Kind::Full, None), (Kind::Delta, Some(&archive_key))] {
        let (bytes, _) = written(kind, &records, WriteSettings { chunk_bytes: 700, ..small() }, key);
        let keys: Vec<ArchiveKey> = key.cloned().into_iter().collect();
        assert!(read_all(&bytes, &keys).is_ok());
        let digest = bytes.len() - 40..bytes.len() - 8;
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            if digest.contains(&place) {
                assert!(!open(&flipped, &keys).unwrap().verify_digest().unwrap());
            } else {
                assert!(read_all(&flipped, &keys).is_err(), "byte {place} of {}", bytes.len());
            }
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_found_at_once() {
    let records = history(&mut StdRng::seed_from_u64(9), 2, 40, 10);
    let archive_key = ArchiveKey::draw(ClusterUid(7));
    for key in [None, Some(&archive_key)] {
        let (bytes, _) = written(Kind::Delta, &records, small(), key);
        let keys: Vec<ArchiveKey> = key.cloned().into_iter().collect();
        for len in 0..bytes.len() {
            assert!(open(&bytes[..len], &keys).is_err(), "cut at {len}");
        }
        for len in [1, 40, 5000] {
            let longer = [&bytes[..], &vec![0; len]].concat();
            assert!(open(&longer, &keys).is_err());
            let twice = [&bytes[..], &bytes[bytes.len() - len.min(bytes.len())..]].concat();
            assert!(open(&twice, &keys).is_err());
        }
    }
}

#[test]
fn a_body_does_not_open_behind_another_header() {
    let records = history(&mut StdRng::seed_from_u64(10), 2, 40, 10);
    let (bytes, _) = written(Kind::Delta, &records, small(), None);
    let object = open(&bytes, &[]).unwrap();
    let mut other = object.header().clone();
    other.epoch = Epoch(4);
    let [head, new] = [object.header(), &other].map(|header| frame::head(header).unwrap());
    assert_eq!(head.len(), new.len());
    let forged = [&new[..], &bytes[head.len()..]].concat();
    let refused = open(&forged, &[]).err().unwrap().to_string();
    assert!(refused.contains("belongs to another header"), "{refused}");
}

#[test]
fn chunks_of_equal_length_do_not_change_places() {
    let record = |main: i64| {
        let put = KeyValue { key: b"k", mod_revision: Revision(main), version: 1, value: &[9], ..KeyValue::default() };
        let mut encoded = Vec::new();
        put.encode(&mut encoded);
        (RevKey { main: Revision(main), sub: 0, tombstone: false }, encoded)
    };
    let records: Vec<Pair> = (2..6).map(record).collect();
    let (bytes, _) = written(Kind::Delta, &records, WriteSettings { chunk_bytes: 1, ..small() }, None);
    let object = open(&bytes, &[]).unwrap();
    let facts: Vec<ChunkFacts> = object.chunk_facts().collect();
    assert_eq!(facts.len(), 4);
    let [second, third] = [1, 2]
        .map(|chunk| facts[chunk].stored_at as usize..(facts[chunk].stored_at + facts[chunk].stored_bytes) as usize);
    assert_eq!(second.len(), third.len());
    let mut swapped = bytes.clone();
    swapped[second.clone()].copy_from_slice(&bytes[third.clone()]);
    swapped[third].copy_from_slice(&bytes[second]);
    assert!(read_all(&swapped, &[]).is_err());
}

#[test]
fn a_newer_format_and_a_missing_key_are_told_as_such() {
    let records = history(&mut StdRng::seed_from_u64(11), 2, 10, 10);
    let archive_key = ArchiveKey::draw(ClusterUid(7));
    let (mut bytes, _) = written(Kind::Delta, &records, small(), Some(&archive_key));
    let sealed = Object::open("test", Arc::new(Bytes::from(bytes.clone())), &NoKeys).err().unwrap();
    assert!(matches!(&sealed, ObjectError::NoKey { recipients } if recipients == &["somebody"]), "{sealed}");
    assert!(read_header(&Bytes::from(bytes.clone())).unwrap().encryption.is_some());
    bytes[8] = 2;
    let newer = open(&bytes, &[]).err().unwrap();
    assert!(matches!(newer, ObjectError::Newer { found: 2, known: 1 }), "{newer}");
}

#[test]
fn lengths_that_lie_are_refused_before_anything_is_read_for_them() {
    let (bytes, _) = written(Kind::Delta, &history(&mut StdRng::seed_from_u64(12), 2, 10, 10), small(), None);
    let mut header = bytes.clone();
    header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(open(&header, &[]), Err(ObjectError::Damaged { offset: 8, .. })));
    header[12..16].copy_from_slice(&(1u32 << 20).to_le_bytes());
    assert!(matches!(open(&header, &[]), Err(ObjectError::Damaged { offset: 16, .. })));
    let tail_at = bytes.len() - 92;
    let tail = frame::Tail::parse(&bytes[tail_at..tail_at + 52]).unwrap();
    for (index_at, index_bytes) in
        [(0, u64::MAX), (u64::MAX, 1), (tail.index_at + 1, tail.index_bytes), (0, tail.index_at + tail.index_bytes)]
    {
        let mut lying = bytes.clone();
        let tail = frame::Tail { index_at, index_bytes, ..tail };
        lying[tail_at..tail_at + 52].copy_from_slice(&tail.encode());
        assert!(matches!(open(&lying, &[]), Err(ObjectError::Damaged { .. })));
    }
}

/// Counts what is read.
struct Counted {
    bytes: Bytes,
    requests: AtomicU64,
    read: AtomicU64,
}

impl ReadAt for Counted {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        self.bytes.read_at(offset, len)
    }
}

fn counted(bytes: Vec<u8>) -> Arc<Counted> {
    Arc::new(Counted { bytes: bytes.into(), requests: AtomicU64::new(0), read: AtomicU64::new(0) })
}

#[test]
fn a_small_object_takes_one_request() {
    let records = history(&mut StdRng::seed_from_u64(13), 2, 500, 100);
    let bytes = counted(written(Kind::Delta, &records, WriteSettings::delta(), None).0);
    let object = Object::open("test", Arc::clone(&bytes) as Arc<dyn ReadAt>, &NoKeys).unwrap();
    assert_eq!(records_of(object.chunks(), Direction::Forwards).unwrap(), records);
    assert_eq!(bytes.requests.load(Ordering::Relaxed), 1);
}

#[test]
fn of_a_large_object_nothing_is_kept_for_somebody_who_reads_all_of_it() {
    let records: Vec<Pair> = history(&mut StdRng::seed_from_u64(15), 2, 10_000, 100);
    let bytes = counted(written(Kind::Full, &records, WriteSettings::full(), None).0);
    let object = || Object::open("test", Arc::clone(&bytes) as Arc<dyn ReadAt>, &NoKeys).unwrap();
    let holding = |object: &Object| {
        bytes.requests.store(0, Ordering::Relaxed);
        object.closing().unwrap();
        object.tables().unwrap();
        let told = bytes.requests.swap(0, Ordering::Relaxed);
        object.key_block(0).unwrap().unwrap();
        (told, bytes.requests.load(Ordering::Relaxed))
    };
    let chunks = |object: &Object| records_of(object.chunks(), Direction::Forwards).unwrap();
    let (kept, forgotten) = (object(), object().without_ends());
    assert_eq!(chunks(&forgotten), chunks(&kept));
    // What both tell of the cluster is known; for its keys, only the one that may be asked for many has to ask nobody.
    assert_eq!((holding(&kept), holding(&forgotten)), ((0, 0), (0, 1)));
}

#[test]
fn one_key_of_a_large_full_takes_five_requests() {
    let records: Vec<Pair> = history(&mut StdRng::seed_from_u64(14), 2, 100_000, usize::MAX >> 8);
    let settings = WriteSettings { chunk_bytes: 64 << 10, gather_bytes: 1 << 20, ..WriteSettings::full() };
    let bytes = counted(written(Kind::Full, &records, settings, None).0);
    let size = bytes.size_bytes();
    let mut wanted = BTreeMap::new();
    for (at, record) in records.iter().step_by(9973) {
        wanted.insert(KeyValue::parse_key(record).unwrap().to_vec(), *at);
    }
    for (key, at) in wanted {
        for count in [&bytes.requests, &bytes.read] {
            count.store(0, Ordering::Relaxed);
        }
        let object = Object::open("test", Arc::clone(&bytes) as Arc<dyn ReadAt>, &NoKeys).unwrap();
        let chunks = object.chunks_with(Wanted::Key(&key)).unwrap();
        let keyless = object.chunks_with(Wanted::Key(b"~")).unwrap().count();
        let mine: Vec<_> = chunks.filter(|(range, _)| (range.from..=range.to).contains(&at.main)).collect();
        let found = records_of(mine.into_iter(), Direction::Backwards).unwrap();
        assert!(found.iter().any(|(found, _)| *found == at));
        assert!(keyless < object.chunk_facts().len());
        // Head, tail, the rest of the index, two blocks for two lookups, and the chunk.
        let (requests, read) = (bytes.requests.load(Ordering::Relaxed), bytes.read.load(Ordering::Relaxed));
        assert!(requests <= 6, "{requests} requests");
        assert!(read < size / 8, "{read} of {size} bytes");
    }
}
