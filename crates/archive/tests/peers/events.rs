//! Deltas made here: every shape that counts, and every way to be wrong.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use archive::error::ObjectError;
use archive::layout::etcdbrctl::Events;
use archive::read_at::{ReadAt, ReadFailed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use etcd_data::database::Direction;
use etcd_data::records::Records;
use etcd_data::{KeyValue, Kind, LeaseId, RevKey, Revision};
use jiff::Timestamp;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use store::Key;

type Change = (i64, Option<Vec<u8>>, Vec<u8>, i64);
type Record = (RevKey, Vec<u8>);

/// An event: revision, value or nothing for a deletion, key, lease. `second` is its time.
fn event((revision, value, key, lease): &Change, second: i64) -> String {
    let base64 = |bytes: &[u8]| STANDARD.encode(bytes);
    let time = Timestamp::from_second(1_700_000_000 + second).unwrap();
    match value {
        None => format!(
            r#"{{"etcdEvent":{{"type":1,"kv":{{"key":"{}","mod_revision":{revision}}}}},"time":"{time}"}}"#,
            base64(key)
        ),
        Some(value) => {
            let value = if value.is_empty() { String::new() } else { format!(r#","value":"{}""#, base64(value)) };
            let lease = if *lease == 0 { String::new() } else { format!(r#","lease":{lease}"#) };
            let numbers = format!(r#""create_revision":2,"mod_revision":{revision},"version":3"#);
            let kv = format!(r#""key":"{}",{numbers}{value}{lease}"#, base64(key));
            format!(r#"{{"etcdEvent":{{"kv":{{{kv}}}}},"time":"{time}"}}"#)
        }
    }
}

/// The records that changes come to, by hand.
fn records(changes: &[Change]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for (revision, value, key, lease) in changes {
        let main = Revision(*revision);
        let sub = records.iter().filter(|(at, _)| at.main == main).count() as i64;
        let record = match value {
            None => KeyValue { key, ..KeyValue::default() },
            Some(value) => KeyValue {
                key,
                create_revision: Revision(2),
                mod_revision: main,
                version: 3,
                value,
                lease: LeaseId(*lease),
            },
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        records.push((RevKey { main, sub, tombstone: value.is_none() }, bytes));
    }
    records
}

fn text(changes: &[Change]) -> String {
    let events: Vec<String> = changes.iter().zip(0..).map(|(change, second)| event(change, second)).collect();
    format!("[{}]", events.join(","))
}

/// The text with its digest.
fn sealed(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend(Sha256::digest(text));
    bytes
}

fn wrapped(bytes: &[u8], suffix: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match suffix {
        ".gz" => {
            let mut gzip = flate2::write::GzEncoder::new(&mut out, flate2::Compression::fast());
            gzip.write_all(bytes).unwrap();
            gzip.finish().unwrap();
        }
        ".zlib" => {
            let mut zlib = flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::fast());
            zlib.write_all(bytes).unwrap();
            zlib.finish().unwrap();
        }
        ".Z" => out = weezl::encode::Encoder::new(weezl::BitOrder::Lsb, 8).encode(bytes).unwrap(),
        _ => out = bytes.into(),
    }
    out
}

fn open(from: i64, to: i64, suffix: &str, object: impl ReadAt + 'static) -> Events {
    let key = Key::parse(format!("v2/Incr-{from:08}-{to:08}-1700000000{suffix}")).unwrap();
    Events::open(&key, Arc::new(object), &std::env::temp_dir()).unwrap()
}

/// A plain delta of `from..=to`.
fn plain(from: i64, to: i64, bytes: Vec<u8>) -> Events {
    open(from, to, "", Bytes::from(bytes))
}

fn read(events: &Events, direction: Direction) -> Result<Vec<Record>, etcd_data::Error> {
    let mut found = Vec::new();
    events.read(direction, &mut |at, value| {
        found.push((at, value.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn put(revision: i64, key: &str, value: &str) -> Change {
    (revision, Some(value.into()), key.into(), 0)
}

fn delete(revision: i64, key: &str) -> Change {
    (revision, None, key.into(), 0)
}

/// A few of each, in one transaction too.
fn few() -> Vec<Change> {
    vec![put(5, "a", "1"), delete(6, "b"), put(6, "a", ""), (7, Some(b"x".into()), vec![0, 255], i64::MIN)]
}

#[track_caller]
fn refused(events: &Events, expected: &str) {
    let error = events.facts().unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    for direction in [Direction::Forwards, Direction::Backwards] {
        let found = read(events, direction).unwrap_err();
        assert!(found.kind() == error.kind() && found.to_string().starts_with("v2/Incr-"), "{found}");
    }
}

#[test]
fn a_delta_reads_alike_in_every_container() {
    for suffix in ["", ".gz", ".zlib", ".Z"] {
        let events = open(5, 7, suffix, Bytes::from(wrapped(&sealed(&text(&few())), suffix)));
        assert_eq!(read(&events, Direction::Forwards).unwrap(), records(&few()), "{suffix}");
        let facts = events.facts().unwrap();
        assert_eq!((facts.events, facts.revisions.from.0, facts.revisions.to.0), (4, 5, 7));
        assert_eq!(facts.moments.iter().map(|moment| moment.revision.0).collect::<Vec<_>>(), [5, 6, 6, 7]);
        let mut backwards = read(&events, Direction::Backwards).unwrap();
        backwards.reverse();
        assert_eq!(backwards, records(&few()));
    }
}

#[test]
fn the_example_of_the_format_is_read() {
    let text = r#"[{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"value":"YmFy"}},"time":"2024-01-01T00:00:00Z"}]"#;
    let bytes = sealed(text);
    let digest: String = bytes[bytes.len() - 32..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "d50cd2d22d694ec650698a37a9c908686e3bc5f08af120ac11dd56d60c3fe02a");
    assert_eq!(plain(2, 2, bytes).facts().unwrap().events, 1);
}

#[test]
fn blanks_and_other_orders_of_fields_mean_the_same() {
    let text = "\n [ {\"time\":\"2024-01-01T00:00:00Z\", \"etcdEvent\": {\"kv\":{\"mod_revision\":5,\"key\":\"YQ==\"}, \"type\":1}}\n, \
                {\"etcdEvent\":{\"kv\":{\"key\":\"YQ==\",\"create_revision\":2,\"mod_revision\":5,\"version\":3,\"value\":\"\\u004dQ==\"}},\"time\":\"2024-01-01T00:00:00Z\"} ] ";
    let found = read(&plain(5, 5, sealed(text)), Direction::Forwards).unwrap();
    assert_eq!(found, records(&[delete(5, "a"), put(5, "a", "1")]));
}

#[test]
fn a_value_larger_than_the_window_is_read() {
    let large = "ab".repeat(900_000);
    let changes = vec![put(5, "a", "1"), put(6, "b", &large), put(7, "c", "2"), put(8, "d", &large)];
    let events = open(5, 8, ".gz", Bytes::from(wrapped(&sealed(&text(&changes)), ".gz")));
    assert!(read(&events, Direction::Forwards).unwrap() == records(&changes));
    assert!(read(&events, Direction::Backwards).unwrap().into_iter().rev().eq(records(&changes)));
}

#[test]
fn every_flipped_byte_and_every_cut_is_found() {
    let good = sealed(&text(&few()));
    for at in 0..good.len() {
        for bit in [1, 0x10, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= bit;
            let error = plain(5, 7, bytes).facts().unwrap_err();
            assert_eq!(error.to_string(), format!("at byte {}: its SHA-256 is not that of its bytes", good.len()));
        }
    }
    for len in 0..good.len() {
        assert_eq!(plain(5, 7, good[..len].into()).facts().unwrap_err().kind(), Kind::Corrupt, "{len}");
    }
    for suffix in [".gz", ".zlib", ".Z"] {
        let good = wrapped(&good, suffix);
        for len in 0..good.len() {
            let events = open(5, 7, suffix, Bytes::from(good[..len].to_vec()));
            assert_eq!(events.facts().unwrap_err().kind(), Kind::Corrupt, "{suffix} {len}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            let events = open(5, 7, suffix, Bytes::from(bytes));
            // Some bits of a container mean nothing.
            if events.facts().is_ok() {
                assert_eq!(read(&events, Direction::Forwards).unwrap(), records(&few()), "{suffix} {at}");
            }
        }
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    refused(&plain(5, 7, Vec::new()), "it is empty");
    refused(&plain(5, 7, vec![b'['; 31]), "it is too short to have a digest");
    refused(&plain(5, 7, sealed("")), "it is no array of events");
    refused(&plain(5, 7, sealed("{}")), "it is no array of events");
    refused(&plain(5, 7, sealed("[]")), "this is no event");
    refused(&plain(5, 7, sealed("[{}]")), "this is no event");
    let good = text(&few());
    refused(&plain(5, 7, sealed(&good[..good.len() - 1])), "it is no array of events");
    refused(&plain(5, 7, sealed(&good[..good.len() - 2])), "the text ends inside of an event");
    refused(&plain(5, 7, sealed(&format!("{good}]"))), "it goes on after the events");
    refused(&plain(5, 7, sealed(&good.replace("},{", "}{"))), "it is no array of events");
    refused(&plain(5, 7, sealed(&text(&[put(5, "a", "1"), put(7, "a", "2")]))), "revision 7 comes after 5");
    refused(&plain(5, 7, sealed(&text(&[put(5, "a", "1"), put(4, "a", "2")]))), "revision 4 comes after 5");
    for (from, to) in [(4, 7), (6, 7), (5, 8), (5, 6)] {
        let expected = format!("its name says revisions {from} to {to}, and itself revisions 5 to 7");
        refused(&plain(from, to, sealed(&good)), &expected);
    }
}

#[test]
fn bytes_after_the_end_are_found() {
    for suffix in [".gz", ".zlib", ".Z"] {
        let mut bytes = wrapped(&sealed(&text(&few())), suffix);
        bytes.extend(b"and something else after it");
        refused(
            &open(5, 7, suffix, Bytes::from(bytes)),
            if suffix == ".gz" { "it cannot be unwrapped" } else { "the object goes on" },
        );
    }
}

#[test]
fn who_has_enough_stops_the_reading() {
    let changes: Vec<Change> = (5..9000).map(|revision| put(revision, "a", &"x".repeat(1000))).collect();
    let mut bytes = sealed(&text(&changes));
    *bytes.last_mut().unwrap() ^= 1;
    let events = plain(5, 8999, bytes);
    let mut seen = 0;
    events
        .read(Direction::Forwards, &mut |_, _| {
            seen += 1;
            Ok(if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
    assert_eq!(seen, 3);
    assert!(read(&events, Direction::Forwards).is_err());
}

/// An object that can be read up to a place.
struct Torn(Bytes, u64);

impl ReadAt for Torn {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadFailed> {
        if offset + len as u64 > self.1 {
            return Err(ReadFailed::new(offset, len, std::io::Error::other("the line is dead")));
        }
        self.0.read_at(offset, len)
    }
}

#[test]
fn what_cannot_be_had_is_not_called_damaged() {
    let changes: Vec<Change> = (5..2000).map(|revision| put(revision, "a", &"x".repeat(300))).collect();
    for suffix in ["", ".gz", ".zlib", ".Z"] {
        let bytes = Bytes::from(wrapped(&sealed(&text(&changes)), suffix));
        let fails_at = (bytes.len() as u64).min(400 << 10) - 1;
        let events = open(5, 1999, suffix, Torn(bytes, fails_at));
        assert!(matches!(events.facts(), Err(ObjectError::Read(_))), "{suffix}");
        assert_eq!(read(&events, Direction::Forwards).unwrap_err().kind(), Kind::Unavailable);
    }
}

#[test]
fn a_clock_that_was_set_back_stands_still() {
    let changes = [put(5, "a", "1"), put(6, "a", "2"), put(7, "a", "3")];
    let events = [event(&changes[0], 10), event(&changes[1], 3), event(&changes[2], 20)];
    let delta = plain(5, 7, sealed(&format!("[{}]", events.join(","))));
    let at = |second: i64| delta.revision_at(Timestamp::from_second(1_700_000_000 + second).unwrap()).unwrap();
    assert_eq!([9, 10, 19, 20].map(at), [None, Some(Revision(6)), Some(Revision(6)), Some(Revision(7))]);
    let moments = &delta.facts().unwrap().moments;
    assert_eq!(moments.iter().map(|moment| moment.revision.0).collect::<Vec<_>>(), [6, 7]);
}

#[test]
fn what_is_no_name_of_a_delta_is_refused() {
    for name in ["v2/Full-00000000-00000009-1700000000", "v2/Incr-5-9-1700000000", "v2/x"] {
        let key = Key::parse(name).unwrap();
        let found = Events::open(&key, Arc::new(Bytes::new()), &std::env::temp_dir());
        assert!(matches!(found, Err(ObjectError::Misplaced { .. })), "{name}");
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let bytes = |max| proptest::collection::vec(proptest::num::u8::ANY, 1..max);
    let value = prop_oneof![
        1 => Just(None),
        1 => Just(Some(Vec::new())),
        4 => bytes(300).prop_map(Some),
    ];
    let change = (0..2i64, value, bytes(20), prop_oneof![Just(0), proptest::num::i64::ANY]);
    proptest::collection::vec(change, 1..200).prop_map(|steps| {
        let mut revision = 5;
        let mut changes = Vec::new();
        for (index, (step, value, key, lease)) in steps.into_iter().enumerate() {
            revision += if index == 0 { 0 } else { step };
            changes.push((revision, value, key, lease));
        }
        changes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_history_reads_as_it_was(changes in changes(), suffix in prop_oneof![Just(""), Just(".gz"), Just(".zlib"), Just(".Z")]) {
        let to = changes.last().unwrap().0;
        let events = open(5, to, suffix, Bytes::from(wrapped(&sealed(&text(&changes)), suffix)));
        let expected = records(&changes);
        prop_assert_eq!(events.last().unwrap(), expected.last().map(|(at, _)| *at));
        prop_assert_eq!(&read(&events, Direction::Forwards).unwrap(), &expected);
        let mut backwards = read(&events, Direction::Backwards).unwrap();
        backwards.reverse();
        prop_assert_eq!(backwards, expected);
    }
}
