//! What can happen to an object.

use std::sync::Arc;

use archive::header::Link;
use archive::identity::{ClusterUid, LineageId};
use archive::object::WriteSettings;
use archive::{Epoch, Header, Object, ObjectKind, ObjectWriter};
use bytes::Bytes;
use etcd_data::database::RevisionRange;
use etcd_data::{Database, Revision, Tables};

use crate::sound::Subject;
use crate::world::moment;

/// What objects of ours begin with.
const MAGIC: &[u8] = b"\x8fREFL";

/// What is done to an archive, by a name for it.
pub(crate) struct Damage {
    pub(crate) what: String,
    pub(crate) objects: std::collections::BTreeMap<String, Bytes>,
    /// The object that is to be named: the victim, or what stands in its place.
    pub(crate) named: Vec<String>,
}

/// Everything that can be done to the object of `subject`.
pub(crate) fn of(subject: &Subject) -> Vec<Damage> {
    let mut all = Vec::new();
    let victim = &subject.objects[&subject.victim];
    let mut add = |what: &str, bytes: Vec<u8>| {
        let mut objects = subject.objects.clone();
        objects.insert(subject.victim.clone(), bytes.into());
        // What is told beside a full is that full's.
        let named = [Some(subject.victim.as_str()), subject.victim.strip_suffix(".json")];
        let named = named.into_iter().flatten().map(String::from).collect();
        all.push(Damage { what: what.into(), objects, named });
    };
    let len = victim.len();
    let flipped = |at: usize| {
        let mut bytes = victim.to_vec();
        bytes[at] ^= 0x10;
        bytes
    };
    for (what, at) in [
        ("first byte flipped", 0),
        ("a tenth in flipped", len / 10),
        ("a quarter in flipped", len / 4),
        ("half in flipped", len / 2),
        ("three quarters in flipped", len * 3 / 4),
        ("near the end flipped", len - len.min(20)),
        ("last byte flipped", len - 1),
    ] {
        add(what, flipped(at));
    }
    for (what, keep) in [
        ("empty", 0),
        ("cut after 10 bytes", 10.min(len)),
        ("cut after a quarter", len / 4),
        ("cut in half", len / 2),
        ("cut by 40 bytes", len - len.min(40)),
        ("cut by one byte", len - 1),
    ] {
        add(what, victim[..keep].to_vec());
    }
    add("twice", [&victim[..], &victim[..]].concat());
    add("garbage behind it", [&victim[..], &[0x5a; 100][..]].concat());
    let mut zeros = victim.to_vec();
    zeros[len / 2..(len / 2 + 64).min(len)].fill(0);
    add("zeros in the middle", zeros);
    let mut moved = victim.to_vec();
    moved.remove(len / 2);
    add("a byte lost in the middle", moved);
    add("other bytes", (0..len).map(|at| (at as u8).wrapping_mul(73).wrapping_add(11)).collect());

    for (what, bytes) in sections(subject, victim) {
        add(what, bytes);
    }
    places(subject, victim, &mut all);
    if victim.starts_with(MAGIC) {
        forged(subject, victim, &mut all);
    }
    all
}

/// The parts of an object of ours, and fields that lie.
fn sections(subject: &Subject, victim: &Bytes) -> Vec<(&'static str, Vec<u8>)> {
    if !victim.starts_with(MAGIC) {
        return json_lies(victim);
    }
    let len = victim.len();
    let header_len = u32::from_le_bytes(victim[12..16].try_into().unwrap()) as usize;
    let body = 20 + header_len;
    let object = Object::open("", Arc::new(victim.clone()), &*subject.keys).unwrap();
    let chunks: Vec<_> = object.chunk_facts().collect();
    let (first, last) = (chunks[0], chunks[chunks.len() - 1]);
    let chunks_end = (last.stored_at + last.stored_bytes) as usize;
    let tail = len - 40 - 52;
    let index = if subject.what.starts_with("encrypted") {
        tail - 100
    } else {
        body + u64::from_le_bytes(victim[tail..tail + 8].try_into().unwrap()) as usize
    };
    let flips = [
        ("magic flipped", 3),
        ("version flipped", 8),
        ("length of the header flipped", 13),
        ("header flipped", 16 + header_len / 2),
        ("sum of the header flipped", 17 + header_len),
        ("first chunk flipped", first.stored_at as usize + first.stored_bytes as usize / 2),
        ("last chunk flipped", last.stored_at as usize + last.stored_bytes as usize / 2),
        ("tables or closing flipped", chunks_end + 6),
        ("closing flipped", chunks_end + (index - chunks_end) / 2),
        ("key index flipped", index - 3),
        ("index flipped", index + 10),
        ("tail flipped", tail + 20),
        ("digest flipped", len - 30),
        ("end mark flipped", len - 4),
    ];
    let mut all: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for (what, at) in flips {
        let mut bytes = victim.to_vec();
        bytes[at] ^= 0x01;
        all.push((what, bytes));
    }
    for (what, at) in [
        ("cut after the header", body),
        ("cut after the chunks", chunks_end),
        ("cut before the index", index),
        ("cut before the tail", tail),
        ("cut before the digest", len - 40),
    ] {
        all.push((what, victim[..at].to_vec()));
    }
    let mut put = |what: &'static str, at: usize, field: &[u8], sums_tail: bool| {
        let mut bytes = victim.to_vec();
        bytes[at..at + field.len()].copy_from_slice(field);
        if sums_tail {
            let sum = crc32c::crc32c(&bytes[tail..tail + 48]);
            bytes[tail + 48..tail + 52].copy_from_slice(&sum.to_le_bytes());
        }
        all.push((what, bytes));
    };
    put("a newer format", 8, &7u32.to_le_bytes(), false);
    put("a header of 4 GiB", 12, &u32::MAX.to_le_bytes(), false);
    if !subject.what.starts_with("encrypted") {
        put("an index of 16 EiB", tail + 8, &u64::MAX.to_le_bytes(), true);
        put("an index far away", tail, &(1u64 << 60).to_le_bytes(), true);
    } else {
        // Two sealed segments change places, as far as there are two; otherwise two halves of one do.
        let mut bytes = victim.to_vec();
        let half = (tail - body) / 2;
        let (one, other) = bytes[body..body + 2 * half].split_at_mut(half);
        one.swap_with_slice(other);
        all.push(("sealed parts change places", bytes));
        let mut bytes = victim.to_vec();
        bytes.drain(body..body + 64);
        all.push(("a sealed part is cut out", bytes));
    }
    all
}

/// JSON that reads, and lies.
fn json_lies(victim: &Bytes) -> Vec<(&'static str, Vec<u8>)> {
    let Ok(text) = std::str::from_utf8(victim) else { return Vec::new() };
    if !text.starts_with('{') {
        return Vec::new();
    }
    let newer = text.replacen("\"format\":1", "\"format\":7", 1).replacen("\"format\": 1", "\"format\": 7", 1);
    let other = text.replace("00000000000000000000000000000007", "00000000000000000000000000000008");
    vec![
        ("a newer format", newer.into_bytes()),
        ("of another cluster", other.into_bytes()),
        ("an empty object", b"{}".to_vec()),
        ("not JSON", b"[1, 2".to_vec()),
    ]
}

/// What is right by itself, and in the wrong place or not there.
fn places(subject: &Subject, victim: &Bytes, all: &mut Vec<Damage>) {
    let key = &subject.victim;
    let mut missing = subject.objects.clone();
    missing.remove(key);
    all.push(Damage { what: "missing".into(), objects: missing.clone(), named: vec![key.clone()] });
    if let Some(other) = &subject.other {
        let mut swapped = subject.objects.clone();
        swapped.insert(key.clone(), subject.objects[other].clone());
        all.push(Damage { what: "another in its place".into(), objects: swapped.clone(), named: vec![key.clone()] });
        swapped.insert(other.clone(), victim.clone());
        let named = vec![key.clone(), other.clone()];
        all.push(Damage { what: "two changed places".into(), objects: swapped, named });
    }
    if !key.ends_with(".delta") {
        return;
    }
    let numbers = key.rsplit('/').next().unwrap().strip_suffix(".delta").unwrap();
    let (from, to) = numbers.split_once('-').unwrap();
    let (from, to): (i64, i64) = (from.parse().unwrap(), to.parse().unwrap());
    let folder = key.rsplit_once('/').unwrap().0;
    let (above, level) = folder.rsplit_once('/').unwrap();
    let level: u8 = level.parse().unwrap();
    let lineage = LineageId::new(moment(100), 9);
    let renamed = [
        ("called longer", format!("{folder}/{from:020}-{:020}.delta", to + 5)),
        ("called later", format!("{folder}/{:020}-{:020}.delta", from + 1, to + 1)),
        ("called merged more often", format!("{above}/{}/{numbers}.delta", level + 1)),
        ("in another lineage", format!("prod/{lineage}/delta/{level}/{numbers}.delta")),
    ];
    for (what, name) in renamed {
        let mut objects = missing.clone();
        objects.insert(name.clone(), victim.clone());
        all.push(Damage { what: what.into(), objects, named: vec![key.clone(), name] });
    }
}

/// Objects whose digest is right, and whose header is another.
fn forged(subject: &Subject, victim: &Bytes, all: &mut Vec<Damage>) {
    if subject.what.starts_with("encrypted") {
        return;
    }
    let object = Object::open("", Arc::new(victim.clone()), &*subject.keys).unwrap();
    type Lie = fn(&mut Header);
    let lies: [(&str, Lie); 8] = [
        ("forged: of another cluster", |header| header.cluster.id = ClusterUid(8)),
        ("forged: of another lineage", |header| header.lineage = LineageId::new(moment(9), 9)),
        ("forged: of an older writer", |header| header.epoch = Epoch(1)),
        ("forged: of a later writer", |header| header.epoch = Epoch(9)),
        ("forged: of other revisions", |header| header.to = Revision(header.to.0 + 7)),
        ("forged: the other kind", |header| {
            header.kind = if header.kind == ObjectKind::Full { ObjectKind::Delta } else { ObjectKind::Full }
        }),
        ("forged: follows on something else", |header| header.follows = Some(Link([9; 32]))),
        ("forged: stands for something else", |header| header.stands_for = Some(Link([9; 32]))),
    ];
    for (what, lie) in lies {
        let mut header = object.header().clone();
        lie(&mut header);
        let Some(bytes) = rewritten(&object, header) else { continue };
        let mut objects = subject.objects.clone();
        objects.insert(subject.victim.clone(), bytes.into());
        all.push(Damage { what: what.into(), objects, named: vec![subject.victim.clone()] });
    }
}

/// The object once more, with another header; nothing if none can be written so.
fn rewritten(object: &Object, header: Header) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let settings = WriteSettings { chunk_bytes: 1000, ..WriteSettings::delta() };
    let mut writer = ObjectWriter::create(&mut bytes, header, None, settings).ok()?;
    for (range, records) in object.chunks() {
        let database = Database::empty(Tables::default()).followed_by(range, records);
        let pushed = database.visit(RevisionRange::ALL, |record| {
            writer.push(record.at, record.value).map_err(|_| etcd_data::Error::NoKeySpace)?;
            Ok::<_, etcd_data::Error>(std::ops::ControlFlow::Continue(()))
        });
        pushed.ok()?;
    }
    let tables = object.tables().unwrap();
    writer.finish(object.closing().unwrap(), tables.as_ref()).ok()?;
    Some(bytes)
}
