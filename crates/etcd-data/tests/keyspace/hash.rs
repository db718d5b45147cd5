//! HashKV against etcd's own known answers, the model; and refusals.

use etcd_data::hash::{Flavour, HashKv, hash_backend, hash_kv};
use etcd_data::view::ViewError;
use etcd_data::{Database, Revision, Tables};

use super::model::{Model, Op, Random, database_of};

fn hash_of(database: &Database, at: i64, compact: Option<i64>) -> HashKv {
    hash_kv(database, Some(Revision(at)), compact.map(Revision)).unwrap()
}

/// The keys of etcd's own test of the hash.
fn pick_key(number: i64) -> &'static str {
    match number {
        _ if number % 142 == 30 => "zenek",
        _ if number % 71 == 30 => "xavery",
        _ => ["alice", "bob", "celine", "dominik", "eve", "frederica", "gorge"][(number % 7) as usize],
    }
}

/// Plays etcd's own test of the hash. `at` chooses what to hash and compact at, from the number of the first put and the current
/// revision. Hashes before each compaction, compacted as servers do, are compared with the answers, and so are
/// hashes of everything that ever was.
fn check_known_answers(at: impl Fn(i64, i64, i64) -> i64, expected: &[(u32, i64, i64)]) {
    let mut model = Model::new();
    let mut everything = Model::new();
    let mut expected = expected.iter();
    let mut check = |first: i64, count: i64| {
        for number in first..=first + count {
            model.put(pick_key(number), &number.to_string());
            everything.put(pick_key(number), &number.to_string());
        }
        let revision = Revision(at(first, count, model.current));
        let compact = model.compact.map(Revision);
        let &(hash, known_compact, known_revision) = expected.next().unwrap();
        assert_eq!((compact.map_or(-1, |it| it.0), revision.0), (known_compact, known_revision));
        let known = HashKv { hash, revision, compact_revision: compact };
        assert_eq!(hash_kv(&model.database(), Some(revision), None).unwrap(), known);
        assert_eq!(hash_kv(&everything.database(), Some(revision), compact).unwrap(), known);
        model.compact(revision.0, true);
    };
    for round in 0..18 {
        check(round * 71, 71);
    }
    check(18 * 71, 1210);
    assert_eq!(expected.next(), None);
}

#[test]
fn etcds_known_answers_half_way_between_compactions() {
    check_known_answers(
        |first, count, _| first + count / 2,
        &[
            (4082599214, -1, 35),
            (2279933401, 35, 106),
            (3284231217, 106, 177),
            (126286495, 177, 248),
            (900108730, 248, 319),
            (2475485232, 319, 390),
            (1226296507, 390, 461),
            (2503661030, 461, 532),
            (4155130747, 532, 603),
            (106915399, 603, 674),
            (406914006, 674, 745),
            (1882211381, 745, 816),
            (806177088, 816, 887),
            (664311366, 887, 958),
            (1496914449, 958, 1029),
            (2434525091, 1029, 1100),
            (3988652253, 1100, 1171),
            (1122462288, 1171, 1242),
            (724436716, 1242, 1883),
        ],
    );
}

#[test]
fn etcds_known_answers_at_the_last_revision() {
    check_known_answers(
        |_, _, current| current,
        &[
            (1913897190, -1, 73),
            (224860069, 73, 145),
            (1565167519, 145, 217),
            (1566261620, 217, 289),
            (2037173024, 289, 361),
            (691659396, 361, 433),
            (2713730748, 433, 505),
            (3919322507, 505, 577),
            (769967540, 577, 649),
            (2909194793, 649, 721),
            (1576921157, 721, 793),
            (4067701532, 793, 865),
            (2226384237, 865, 937),
            (2923408134, 937, 1009),
            (2680329256, 1009, 1081),
            (1546717673, 1081, 1153),
            (2713657846, 1153, 1225),
            (1046575299, 1225, 1297),
            (2017735779, 1297, 2508),
        ],
    );
}

#[test]
fn an_empty_store_hashes_to_the_name_of_its_bucket() {
    let hash = hash_kv(&Model::new().database(), None, None).unwrap();
    assert_eq!(hash, HashKv { hash: 1084519789, revision: Revision(1), compact_revision: None });
}

#[test]
fn any_revision_with_any_compact_revision_hashes_as_the_model_does() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let model = Model::random(&mut random, 30 + 300 * (seed as usize % 4));
        let database = model.database_with_tail(random.below(20) as usize);
        for _ in 0..20 {
            let at = 1 + random.below(model.current as u64) as i64;
            let compact = random.below(at as u64 + 1) as i64;
            assert_eq!(hash_of(&database, at, Some(compact)).hash, model.hash_kv(at, Some(compact)), "{at} {compact}");
            assert_eq!(hash_of(&database, at, None).hash, model.hash_kv(at, None), "{at}");
        }
    }
}

#[test]
fn what_compaction_has_removed_already_does_not_matter() {
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let everything = Model::random(&mut random, 400);
        let compact = 2 + random.below(everything.current as u64 - 2) as i64;
        let compacted = |keep_last_deletion| {
            let mut model = everything.clone();
            model.compact(compact, keep_last_deletion);
            model
        };
        let mut begun = everything.clone();
        begun.mark(compact, compact / 2);
        let mut halfway = compacted(true);
        let half = everything.records.iter().filter(|record| record.at.main.0 > compact / 2).cloned();
        halfway.records.retain(|record| record.at.main.0 <= compact / 2);
        halfway.records.extend(half);
        halfway.mark(compact, compact / 2);
        for model in [compacted(true), compacted(false), begun, halfway] {
            for at in [compact, compact + 1, i64::midpoint(compact, model.current), model.current] {
                let expected = everything.hash_kv(at.min(model.current), Some(compact));
                assert_eq!(hash_of(&model.database(), at.min(model.current), None).hash, expected, "{compact} {at}");
            }
        }
    }
}

#[test]
fn when_every_key_is_gone_servers_keep_what_the_compaction_kept() {
    let mut model = Model::new();
    model.put("a", "1").put("b", "1").put("a", "2").delete("b").delete("a");
    for (at, compact) in [(6, 4), (6, 5), (6, 6), (5, 4), (6, 2)] {
        assert_eq!(
            hash_of(&model.database(), at, Some(compact)).hash,
            model.hash_kv(at, Some(compact)),
            "{at} {compact}"
        );
    }
}

#[test]
fn a_key_put_deleted_and_put_in_one_transaction_counts_by_its_last_change() {
    let mut model = Model::new();
    model.txn(&[Op::Put(b"a", b"1", 0), Op::Delete(b"a"), Op::Put(b"a", b"2", 0)]).put("b", "1");
    for (at, compact) in [(3, None), (2, Some(2)), (3, Some(2)), (3, Some(3))] {
        assert_eq!(hash_of(&model.database(), at, compact).hash, model.hash_kv(at, compact));
    }
}

#[test]
fn revisions_that_are_gone_or_to_come_are_refused_with_the_numbers() {
    let mut model = Model::new();
    for _ in 0..8 {
        model.put("a", "1");
    }
    model.compact(5, true);
    let database = model.database();
    let ask = |at: i64, compact: Option<i64>| hash_kv(&database, Some(Revision(at)), compact.map(Revision));
    let compacted = |result, at: i64, compact: i64| match result {
        Err(ViewError::Compacted { at: a, compact: c }) => assert_eq!((a.0, c.0), (at, compact)),
        other => panic!("{other:?}"),
    };
    let future = |result, at: i64| match result {
        Err(ViewError::Future { at: a, current }) => assert_eq!((a.0, current.0), (at, 9)),
        other => panic!("{other:?}"),
    };
    compacted(ask(4, None), 4, 5);
    compacted(ask(9, Some(4)), 4, 5);
    compacted(ask(6, Some(7)), 6, 7);
    future(ask(10, None), 10);
    future(ask(9, Some(10)), 10);
    assert!(ask(5, None).is_ok() && ask(9, Some(9)).is_ok());
}

#[test]
fn a_raised_revision_is_current_although_no_record_has_it() {
    let mut model = Model::new();
    model.put("a", "1").put("a", "2").put("b", "1").mark(1000, 1000);
    let hash = hash_kv(&model.database(), None, None).unwrap();
    assert_eq!((hash.revision, hash.compact_revision), (Revision(1000), Some(Revision(1000))));
    assert_eq!(hash.hash, model.hash_kv(1000, Some(1000)));
}

#[test]
fn marks_at_the_end_of_all_numbers_hash_like_any() {
    let mut model = Model::new();
    model.put("a", "1").put("a", "2").mark(i64::MAX, 3);
    assert_eq!(hash_kv(&model.database(), None, None).unwrap().hash, model.hash_kv(i64::MAX, Some(i64::MAX)));
}

#[test]
fn the_hash_of_everything_leaves_out_what_each_version_leaves_out() {
    let mut tables = Tables::default();
    tables.bucket_mut("alarm");
    tables.set_consistent_index(7);
    tables.set_term(Some(2));
    tables.set_storage_version(Some("3.6.0"));
    let database = database_of([(b"k".to_vec(), b"v".to_vec())], &tables);
    let index = [&b"consistent_index"[..], &7u64.to_be_bytes()].concat();
    let term = [&b"term"[..], &2u64.to_be_bytes()].concat();
    let check = |flavour, meta: &[&[u8]]| {
        let bytes = [&[&b"alarm"[..], b"key", b"k", b"v", b"meta"], meta].concat().concat();
        assert_eq!(hash_backend(&database, flavour).unwrap(), crc32c::crc32c(&bytes), "{flavour:?}");
    };
    check(Flavour::Snapshot, &[&index, b"storageVersion3.6.0", &term]);
    check(Flavour::V34, &[b"storageVersion3.6.0", &term]);
    check(Flavour::V35, &[b"storageVersion3.6.0"]);
    check(Flavour::V36, &[]);
}
