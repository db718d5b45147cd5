//! Keys at a revision, against the model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use etcd_data::live::{Keys, LiveKeys, count, get, visit};
use etcd_data::view::ViewError;
use etcd_data::{Database, LeaseId, Revision};

use super::model::{Model, Random, Stored};

const SOME: [Keys<'static>; 7] = [
    Keys::All,
    Keys::Prefix(b""),
    Keys::Prefix(b"/a"),
    Keys::Prefix(b"/a/"),
    Keys::Range(b"/a/3", b"/b/1"),
    Keys::One(b"/b/7"),
    Keys::Prefix(b"nothing"),
];

fn visited(database: &Database, at: i64, keys: Keys<'_>) -> BTreeMap<Vec<u8>, Stored> {
    let mut found = BTreeMap::new();
    visit(database, Some(Revision(at)), keys, |at, kv| {
        assert_eq!(at.main, kv.mod_revision);
        let (create, version) = (kv.create_revision.0, kv.version);
        let stored = Stored { at, key: kv.key.into(), value: kv.value.into(), create, version, lease: kv.lease.0 };
        assert_eq!(found.insert(kv.key.to_vec(), stored), None, "shown twice");
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn keys_at_any_revision_are_the_models() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, if seed == 0 { 6000 } else { 300 });
        if seed % 2 == 1 {
            model.compact(model.current / 2, true);
        }
        let database = model.database_with_tail(random.below(30) as usize);
        for _ in 0..10 {
            let oldest = model.compact.unwrap_or(0);
            let at = oldest + random.below((model.current - oldest) as u64 + 1) as i64;
            for keys in SOME {
                let mut expected = model.live(at);
                expected.retain(|key, _| keys.has(key));
                assert_eq!(count(&database, Some(Revision(at)), keys).unwrap(), expected.len() as u64);
                assert_eq!(visited(&database, at, keys), expected, "{keys:?} at {at}");
                let found = LiveKeys::find(&database, Some(Revision(at)), keys).unwrap();
                assert!(found.iter().eq(expected.iter().map(|(key, record)| (&key[..], record.at))));
                assert_eq!((found.len(), found.is_empty()), (expected.len(), expected.is_empty()));
            }
        }
    }
}

#[test]
fn one_key_at_any_revision_is_the_models() {
    let mut random = Random::new(77);
    let model = Model::random(&mut random, 3000);
    let database = model.database_with_tail(30);
    for _ in 0..300 {
        let at = random.below(model.current as u64 + 1) as i64;
        let key = format!("/{}/{}", ["a", "b", "ab", "none"][random.below(4) as usize], random.below(20));
        let found = get(&database, key.as_bytes(), Some(Revision(at))).unwrap();
        let live = model.live(at);
        let expected = live.get(key.as_bytes());
        assert_eq!(found.is_some(), expected.is_some(), "{key} at {at}");
        if let (Some(found), Some(expected)) = (found, expected) {
            assert_eq!((found.key, found.value), (expected.key.clone(), expected.value.clone()));
            assert_eq!((found.create_revision.0, found.mod_revision), (expected.create, expected.at.main));
            assert_eq!((found.version, found.lease), (expected.version, LeaseId(expected.lease)));
        }
    }
}

#[test]
fn a_visitor_may_break() {
    let database = Model::random(&mut Random::new(3), 500).database();
    let mut shown = 0;
    let break_at_five = |_, _: etcd_data::KeyValue<'_>| {
        shown += 1;
        if shown == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    visit(&database, None, Keys::All, break_at_five).unwrap();
    assert_eq!(shown, 5);
}

#[test]
fn what_was_compacted_away_or_is_to_come_is_refused() {
    let mut model = Model::new();
    model.put("a", "1").put("a", "2").put("a", "3").compact(3, true);
    let database = model.database();
    let value = |at: i64| get(&database, b"a", Some(Revision(at))).map(|found| found.map(|kv| kv.value));
    assert!(matches!(value(2), Err(ViewError::Compacted { at: Revision(2), compact: Revision(3) })));
    assert_eq!(value(3).unwrap(), Some(b"2".to_vec()));
    assert_eq!(value(4).unwrap(), Some(b"3".to_vec()));
    assert!(matches!(value(5), Err(ViewError::Future { at: Revision(5), current: Revision(4) })));
    assert!(matches!(count(&database, Some(Revision(0)), Keys::All), Err(ViewError::Compacted { .. })));
}

#[test]
fn what_a_file_lacks_is_refused_and_what_is_before_and_behind_it_is_not() {
    let mut model = Model::random(&mut Random::new(11), 400);
    model.compact(50, true);
    let lost = [51, 52, 90, model.current - 1];
    model.records.retain(|record| !lost.contains(&record.at.main.0));
    // What a log has comes after all of the file, which lacks nothing by not having it.
    for tail in [0, 1, 100] {
        let database = model.database_with_tail(tail);
        let file_ends = model.records[model.records.len() - tail - 1].at.main.0;
        for at in 50..=model.current {
            let last = (50..at).rev().find(|revision| !lost.contains(revision)).unwrap_or(50);
            match count(&database, Some(Revision(at)), Keys::All) {
                Err(ViewError::Hole { at: asked, last: found }) => {
                    assert_eq!((asked.0, found.0), (at, last));
                    assert!(lost.contains(&at) && at < file_ends, "{at}, of a file up to {file_ends}");
                }
                counted => {
                    assert!(!lost.contains(&at) || at > file_ends, "{at}, of a file up to {file_ends}");
                    counted.unwrap();
                }
            }
        }
    }
    // A file that was cut where it lacks something.
    let file = model.database_from(&model.records);
    let cut = file.clone().cut_after(Revision(90));
    assert!(matches!(count(&cut, None, Keys::All), Err(ViewError::Hole { at: Revision(90), last: Revision(89) })));
    count(&file.cut_after(Revision(91)), None, Keys::All).unwrap();
}

#[test]
fn an_empty_database_is_at_revision_one_and_has_no_keys() {
    let database = Model::new().database();
    assert_eq!(count(&database, Some(Revision(1)), Keys::All).unwrap(), 0);
    assert!(LiveKeys::find(&database, None, Keys::All).unwrap().is_empty());
    assert_eq!(get(&database, b"a", None).unwrap(), None);
}

#[test]
fn the_empty_key_of_a_raised_revision_is_no_key() {
    let mut model = Model::new();
    model.put("a", "1").put("", "").mark(3, 3);
    let database = model.database();
    for keys in [Keys::All, Keys::Prefix(b""), Keys::One(b""), Keys::Range(b"", b"z")] {
        assert!(!keys.has(b""));
    }
    assert_eq!(count(&database, None, Keys::All).unwrap(), 1);
}

#[test]
fn empty_values_and_negative_leases_are_as_they_were_put() {
    let mut model = Model::new();
    model.txn(&[super::model::Op::Put(b"a", b"", i64::MIN)]);
    let found = get(&model.database(), b"a", None).unwrap().unwrap();
    assert_eq!((found.value, found.lease), (Vec::new(), LeaseId(i64::MIN)));
}
