//! Whatever records a chunk is made of, those and no others come out of it, in both directions.

use std::ops::ControlFlow;

use etcd_data::database::Direction;
use etcd_data::records::Visit;
use etcd_data::{KeyValue, LeaseId, RevKey, Revision};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::fields::{Fault, put_number};

type Pair = (RevKey, Vec<u8>);

fn at(main: i64, sub: i64, tombstone: bool) -> RevKey {
    RevKey { main: Revision(main), sub, tombstone }
}

fn packed(records: &[Pair]) -> Packed {
    let mut builder = ChunkBuilder::default();
    for (at, record) in records {
        builder.push(*at, record);
    }
    let mut packers = Packers { literal: Packer::new(1).unwrap(), edited: Packer::new(7).unwrap() };
    builder.pack(&mut packers).unwrap().unwrap()
}

fn unpacked(stored: &[u8], direction: Direction) -> Result<Vec<Pair>, Stop> {
    let chunk = Chunk::unpack(stored, &mut Unpacker::new().unwrap())?;
    shown(|visit| chunk.read(direction, visit))
}

fn shown(read: impl FnOnce(&mut Visit<'_>) -> Result<(), Stop>) -> Result<Vec<Pair>, Stop> {
    let mut all = Vec::new();
    read(&mut |at, bytes: &[u8]| {
        all.push((at, bytes.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(all)
}

#[track_caller]
fn check(records: &[Pair]) -> Packed {
    let packed = packed(records);
    assert_eq!(unpacked(&packed.stored, Direction::Forwards).unwrap(), records);
    let mut backwards = unpacked(&packed.stored, Direction::Backwards).unwrap();
    backwards.reverse();
    assert_eq!(backwards, records);
    assert_eq!(Some(packed.first), records.first().map(|(at, _)| *at));
    assert_eq!(Some(packed.last), records.last().map(|(at, _)| *at));
    assert_eq!(packed.records as usize, records.len());

    let keys = records.iter().filter_map(|(_, record)| KeyValue::parse_key(record).ok().map(<[u8]>::to_vec));
    let keys: std::collections::BTreeSet<Vec<u8>> = keys.collect();
    let found = keys_of(&packed.stored, &mut Unpacker::new().unwrap()).unwrap();
    assert!(found.iter().eq(keys.iter().map(Vec::as_slice)));
    let course = Course::of(&packed.stored, &mut Unpacker::new().unwrap()).unwrap();
    assert_eq!((course.records(), course.has_keyless()), (records.len(), packed.keyless));
    if !packed.keyless {
        let keys = |(at, record): &Pair| (*at, KeyValue::parse_key(record).unwrap().to_vec());
        let keys: Vec<Pair> = records.iter().map(keys).collect();
        assert_eq!(shown(|visit| course.read(Direction::Forwards, visit)).unwrap(), keys);
        let mut backwards = shown(|visit| course.read(Direction::Backwards, visit)).unwrap();
        backwards.reverse();
        assert_eq!(backwards, keys);
    }
    assert_eq!(packed.keyless, records.iter().any(|(_, record)| KeyValue::parse_key(record).is_err()));
    packed
}

fn encoded(value: &KeyValue<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

/// Records of few keys: puts with values that are edited or new, deletions, leases, transactions, jumps, and
/// everything odd that a database can hold.
fn history(random: &mut StdRng, records: usize) -> Vec<Pair> {
    let mut out = Vec::new();
    let (mut main, mut sub) = (random.random_range(0..1000), 0);
    let mut values = vec![Vec::new(); 12];
    let mut generations = [(0, 0); 12];
    for _ in 0..records {
        match random.random_range(0..10) {
            0..6 => (main, sub) = (main + 1, 0),
            6..9 => sub += 1,
            _ => (main, sub) = (main + random.random_range(1..1 << 40), random.random_range(0..5)),
        }
        let which = random.random_range(0..values.len());
        let key = if which == 0 { String::new() } else { format!("/registry/things/{}", "x".repeat(which)) };
        let tombstone = random.random_ratio(1, 6);
        if tombstone {
            generations[which] = (0, 0);
            out.push((at(main, sub, true), encoded(&KeyValue { key: key.as_bytes(), ..KeyValue::default() })));
        } else {
            let (created, version) = generations[which];
            generations[which] = if version == 0 { (main, 1) } else { (created, version + 1) };
            change(random, &mut values[which]);
            let put = KeyValue {
                key: key.as_bytes(),
                create_revision: Revision(generations[which].0),
                mod_revision: Revision(main),
                version: generations[which].1,
                value: &values[which],
                lease: LeaseId(if which % 3 == 0 { which as i64 * 1000 } else { 0 }),
            };
            out.push((at(main, sub, false), encoded(&put)));
        }
        if random.random_ratio(1, 15) {
            sub += 1;
            out.push((at(main, sub, random.random()), odd(random)));
        }
    }
    out
}

fn change(random: &mut StdRng, value: &mut Vec<u8>) {
    match random.random_range(0..5) {
        0 => *value = (0..random.random_range(0..300)).map(|_| random.random()).collect(),
        1 => value.extend_from_slice(b"appended"),
        2 => value.truncate(random.random_range(0..=value.len())),
        _ => {
            for _ in 0..random.random_range(0..4) {
                if let Some(last) = value.len().checked_sub(1) {
                    value[random.random_range(0..=last)] = random.random();
                }
            }
        }
    }
}

fn odd(random: &mut StdRng) -> Vec<u8> {
    let wild = KeyValue {
        key: b"/registry/things/xx",
        create_revision: Revision(random.random()),
        mod_revision: Revision(random.random()),
        version: random.random(),
        value: b"wild",
        lease: LeaseId(random.random()),
    };
    let good = encoded(&wild);
    match random.random_range(0..6) {
        0 => good,
        1 => good[..random.random_range(0..good.len())].to_vec(),
        2 => (0..random.random_range(0..50)).map(|_| random.random()).collect(),
        // Fields in another order, twice, or with zeros that etcd leaves out.
        3 => [&[0x20, 7][..], &good].concat(),
        4 => [&good[..], &[0x20, 7]].concat(),
        _ => [&good[..], &[0x30, 0x80, 0]].concat(),
    }
}

#[test]
fn random_histories_come_out_as_they_went_in() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let records = random.random_range(1..200);
        check(&history(&mut random, records));
    }
}

#[test]
fn a_single_record_of_any_size_comes_out() {
    for len in [0, 1, 1000, 3 << 20] {
        let value: Vec<u8> = (0..len as u32).map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        check(&[(at(5, 0, false), encoded(&KeyValue { key: b"k", value: &value, ..KeyValue::default() }))]);
    }
    check(&[(at(0, 0, false), vec![])]);
    check(&[(at(i64::MAX, i64::MAX, true), vec![0xff])]);
}

#[test]
fn a_chunk_of_new_values_is_smaller_than_one_in_which_keys_come_again() {
    const VALUE: usize = 64 << 10;
    // The bytes of new keys until there is no room for more. The first of them are changed again at once.
    let filled = |builder: &mut ChunkBuilder, edited: usize| {
        for number in 0.. {
            let noise = |place: usize| ((number * VALUE + place).wrapping_mul(0x9e37_79b9) >> 24) as u8;
            let mut value: Vec<u8> = (0..VALUE).map(noise).collect();
            let changes = if number < edited { 2 } else { 1 };
            for change in 0..changes {
                if !builder.has_room(VALUE, 16 << 20) {
                    return number * VALUE;
                }
                value[VALUE / 2] ^= change;
                let (key, main) = (format!("{number:04}"), number as i64 * 2 + i64::from(change));
                let put = KeyValue { key: key.as_bytes(), value: &value, ..KeyValue::default() };
                builder.push(at(main, 0, false), &encoded(&put));
            }
        }
        0
    };
    let about = |bytes: usize, mib: usize| assert_eq!((bytes + (1 << 19)) >> 20, mib, "{bytes}");
    // Too few for it to pay, and then they are waited for half as long; so many that it does until there are too many new
    // ones; and so many that it does to the end, after which there may be as many again.
    for (edited, first, next) in [(0, 8, 4), (5, 8, 4), (40, 10, 4), (200, 32, 8)] {
        let mut builder = ChunkBuilder::default();
        about(filled(&mut builder, edited), first);
        about(filled(&mut builder.next(), 0), next);
    }
}

#[test]
fn renewals_take_a_few_bytes_each() {
    let keys: Vec<String> = (0..50).map(|node| format!("/registry/leases/kube-node-lease/node-{node:04}")).collect();
    let records = (0..5000i64).map(|index| {
        let random = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let uid = (index as u64 % 50).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = format!(
            "k8s\0lease of {uid:016x} renewed at {:08} and {:06} for 40 seconds by the kubelet of the node",
            index / 50 * 10,
            random >> 44
        );
        let put = KeyValue {
            key: keys[index as usize % 50].as_bytes(),
            create_revision: Revision(index % 50 + 2),
            mod_revision: Revision(index + 2),
            version: index / 50 + 1,
            value: value.as_bytes(),
            lease: LeaseId(0),
        };
        (at(index + 2, 0, false), encoded(&put))
    });
    let records: Vec<Pair> = records.collect();
    let stored = check(&records).stored.len();
    // Six random digits need 2.5 bytes.
    assert!(stored < records.len() * 6, "{stored} bytes for {} records", records.len());
}

#[test]
fn every_cut_and_every_flip_is_found_or_harmless() {
    let records = history(&mut StdRng::seed_from_u64(1), 60);
    let stored = packed(&records).stored;
    let reads = |bytes: &[u8]| {
        let forwards = unpacked(bytes, Direction::Forwards);
        let backwards = unpacked(bytes, Direction::Backwards);
        // What is read without a fault is read alike from both ends.
        assert_eq!(forwards.is_ok(), backwards.is_ok());
        if let (Ok(forwards), Ok(mut backwards)) = (forwards, backwards) {
            backwards.reverse();
            assert_eq!(forwards, backwards);
        }
    };
    for len in 0..stored.len() {
        assert!(unpacked(&stored[..len], Direction::Forwards).is_err(), "cut at {len}");
    }
    for place in 0..stored.len() {
        for bit in 0..8 {
            let mut flipped = stored.clone();
            flipped[place] ^= 1 << bit;
            reads(&flipped);
        }
    }
}

/// A chunk of `records` records, put together by hand: columns as they are, or one byte again and again.
fn by_hand(records: usize, columns: &[Column<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, records as u64);
    for column in columns {
        let (how, len, bytes) = match *column {
            Column::Plain(bytes) => (0, bytes.len(), bytes),
            Column::Repeated(len, ref byte) => (2, len, std::slice::from_ref(byte)),
        };
        out.push(how);
        put_number(&mut out, len as u64);
        out.extend_from_slice(bytes);
    }
    out
}

enum Column<'a> {
    Plain(&'a [u8]),
    Repeated(usize, u8),
}

#[test]
fn a_large_value_that_is_kept_again_and_again_is_refused_from_either_end() {
    use Column::{Plain, Repeated};
    const RECORDS: usize = 100_000;
    const NONE: Column<'_> = Plain(&[]);
    let flags = [&[LITERAL][..], &[EDITED; RECORDS - 1]].concat();
    let back = [&[0][..], &[1; RECORDS - 1]].concat();
    let forms = [&[1][..], &[0; RECORDS - 2]].concat();
    let mut size = Vec::new();
    put_number(&mut size, 16 << 20);
    let zeros = || Repeated(RECORDS, 0);
    let (keys, back) = ([Plain(&[0, 1]), Plain(b"k")], [Plain(&back), zeros(), zeros()]);
    let ranks = [Plain(&[0]), Plain(&[0]), Plain(&[0])];
    let numbers = [NONE, NONE, NONE, NONE];
    let edits = [Plain(&size), Plain(&forms), Plain(&[0]), NONE];
    let columns = keys.into_iter().chain([Plain(&flags), NONE]).chain(back).chain(ranks).chain(numbers).chain(edits);
    let stored = by_hand(RECORDS, &columns.chain([Repeated(16 << 20, b'v')]).collect::<Vec<_>>());
    let chunk = Chunk::unpack(&stored, &mut Unpacker::new().unwrap()).unwrap();
    for direction in [Direction::Forwards, Direction::Backwards] {
        let read = chunk.read(direction, &mut |_, _: &[u8]| Ok(ControlFlow::Continue(())));
        assert!(matches!(read, Err(Stop::Fault(Fault("its records are larger than they can be")))), "{read:?}");
    }
}

#[test]
fn more_keys_than_records_are_refused_before_anything_is_kept_of_each() {
    let keys = [Column::Plain(&[0, 1, 0, 1]), Column::Plain(b"ab")];
    let rest = (0..17).map(|_| Column::Plain(&[]));
    let stored = by_hand(1, &keys.into_iter().chain(rest).collect::<Vec<_>>());
    let fault = Fault("a key has no record");
    assert_eq!(keys_of(&stored, &mut Unpacker::new().unwrap()).err(), Some(fault));
    assert_eq!(Chunk::unpack(&stored, &mut Unpacker::new().unwrap()).err(), Some(fault));
}
