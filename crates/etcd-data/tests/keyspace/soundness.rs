//! Sound databases have no findings; each way of being wrong has its own, and only it.

use std::sync::Arc;

use etcd_data::bolt_file::{BoltFile, Cursor};
use etcd_data::compaction::{Rules, Survivors};
use etcd_data::database::{Direction, Next, RevisionRange};
use etcd_data::hash::hash_kv;
use etcd_data::key_value::ValueFault;
use etcd_data::live::get;
use etcd_data::raft::ConfState;
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan, restore};
use etcd_data::soundness::{Finding, Severity, check};
use etcd_data::tables::{Alarm, Lease, Member, TableFault, User};
use etcd_data::{Database, KeyValue, LeaseId, MemberId, RevKey, Revision, Source};
use testkit::fixtures;

use super::model::{Model, Op, Random, Stored, database_of};
use super::scan::scan;

fn findings(database: &Database) -> Vec<Finding> {
    let report = check(database).unwrap();
    assert_eq!(report.further, 0);
    report.findings
}

fn at(main: i64, sub: i64) -> RevKey {
    RevKey { main: Revision(main), sub, tombstone: false }
}

/// Three keys and a deletion, compacted at 4: revision 2 is gone, 3 and 4 are what is left of before, 5 to 8 are whole.
fn small() -> Model {
    let mut model = Model::new();
    model.put("a", "1").put("a", "2").put("b", "1");
    model.txn(&[Op::Put(b"a", b"3", 0), Op::Put(b"c", b"1", 0)]).put("a", "4").delete("b").put("b", "2");
    model.compact(4, true);
    model
}

/// What is found after `change` to the small database's records.
fn after(change: impl FnOnce(&mut Vec<Stored>)) -> Vec<Finding> {
    let mut model = small();
    change(&mut model.records);
    findings(&model.database())
}

/// What is found after `change` to its tables.
fn with_tables(change: impl FnOnce(&mut Model)) -> Vec<Finding> {
    let mut model = small();
    change(&mut model);
    findings(&model.database())
}

#[test]
fn whatever_transactions_and_compactions_lead_to_is_sound() {
    assert_eq!(findings(&Model::new().database()), []);
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, if seed == 0 { 6000 } else { 200 });
        model.tables.put_lease(&Lease { id: -7, ttl_seconds: 60, remaining_seconds: 0 });
        let tail = random.below(30) as usize;
        assert_eq!(findings(&model.database_with_tail(tail)), []);
        for at in [model.current / 3, model.current / 2] {
            model.compact(at, seed % 2 == 0);
            assert_eq!(findings(&model.database_with_tail(tail)), []);
        }
    }
}

#[test]
fn stopped_real_servers_left_sound_databases() {
    let scratch = tempfile::tempdir().unwrap();
    for name in fixtures::DATA_DIRS.into_iter().filter(|name| name.ends_with("clean")) {
        let folder = fixtures::data_dir(name);
        let source = Source::open(folder.path(), scratch.path()).unwrap();
        assert_eq!(findings(&source.database), [], "{name}");
    }
}

#[test]
fn a_missing_revision_is_a_gap_and_a_missing_change_is_named() {
    let version = |at, key: &str, (create, version), (expected_create, expected_version)| Finding::Version {
        at,
        key: key.into(),
        create: Revision(create),
        version,
        expected_create: Revision(expected_create),
        expected_version,
    };
    assert_eq!(
        after(|records| records.retain(|record| record.at.main.0 != 6)),
        [Finding::Gap { at: RevKey { tombstone: true, ..at(7, 0) }, after: Revision(5) }]
    );
    assert_eq!(
        after(|records| records.retain(|record| record.at != at(5, 0))),
        [Finding::ChangeMissing { at: at(5, 1), expected: 0 }, version(at(6, 0), "a", (2, 4), (2, 3))]
    );
    assert_eq!(
        after(|records| records.retain(|record| record.at.main.0 != 5)),
        [Finding::Gap { at: at(6, 0), after: Revision(4) }, version(at(6, 0), "a", (2, 4), (2, 3))]
    );
    assert_eq!(after(|records| records.retain(|record| record.at.main.0 != 8)), []);
}

#[test]
fn numbers_that_do_not_follow_from_history_are_named() {
    let changed = |main: i64, change: fn(&mut Stored)| {
        after(|records| change(records.iter_mut().find(|record| record.at.main.0 == main).unwrap()))
    };
    let version = |create: i64, version| Finding::Version {
        at: at(8, 0),
        key: b"b".into(),
        create: Revision(create),
        version,
        expected_create: Revision(8),
        expected_version: 1,
    };
    assert_eq!(changed(8, |record| record.version = 2), [version(8, 2)]);
    assert_eq!(changed(8, |record| record.create = 4), [version(4, 1)]);
    let impossible = |create: i64, version| Finding::Impossible {
        at: at(4, 0),
        key: b"b".into(),
        create: Revision(create),
        version,
    };
    assert_eq!(changed(4, |record| record.version = 0), [impossible(4, 0)]);
    assert_eq!(changed(4, |record| record.version = 2), [impossible(4, 2)]);
    assert_eq!(changed(4, |record| record.create = 5), [impossible(5, 1)]);
    assert_eq!(changed(4, |record| record.version = i64::MIN).first(), Some(&impossible(4, i64::MIN)));
    let nothing = Finding::DeletesNothing { at: RevKey { tombstone: true, ..at(7, 0) }, key: b"x".into() };
    let found = changed(7, |record| record.key = b"x".into());
    assert_eq!(found.first(), Some(&nothing));
}

#[test]
fn entries_that_cannot_be_read_are_named_and_the_rest_is_checked() {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> =
        small().records.iter().map(|record| (record.at.encode().to_vec(), record.encoded())).collect();
    entries.last_mut().unwrap().1 = vec![0x0a, 9];
    entries.push((b"rubbish".into(), Vec::new()));
    let found = findings(&database_of(entries, &small().tables));
    let unreadable = Finding::Unreadable { at: at(8, 0), fault: ValueFault::CutShort };
    assert_eq!(found, [unreadable, Finding::NoRevision { entry: "rubbish".into() }]);
    assert!(found.iter().all(|finding| finding.severity() == Severity::Fatal));
}

/// The page of the record called `at`, the last revision before those on it, and the first behind them.
fn page_around(database: &Database, at: RevKey) -> (u64, Revision, Revision) {
    let bucket = database.file().unwrap().bucket(b"key").unwrap().unwrap();
    let mut cursor = bucket.cursor();
    let main = |key: &[u8]| RevKey::parse(key).unwrap().main;
    cursor.seek(&at.encode()).unwrap().unwrap();
    let (page, _) = cursor.place();
    let mut beside = |step: fn(&mut Cursor) -> Option<Vec<u8>>| {
        cursor.seek(&at.encode()).unwrap();
        loop {
            let key = step(&mut cursor).unwrap();
            if cursor.place().0 != page {
                return main(&key);
            }
        }
    };
    let before = beside(|cursor| cursor.previous().unwrap().map(|entry| entry.key.to_vec()));
    let behind = beside(|cursor| cursor.next().unwrap().map(|entry| entry.key.to_vec()));
    (page.0, before, behind)
}

#[test]
fn what_is_wrong_behind_pages_that_cannot_be_read_is_found_too() {
    let mut model = Model::new();
    for number in 0..3000 {
        model.put(&format!("key{:02}", number % 50), "a value");
    }
    // Between the two pages, and behind both.
    for main in [1000, 2500] {
        model.records.iter_mut().find(|record| record.at.main.0 == main).unwrap().version += 1;
    }
    let whole = model.database();
    let lost = [500, 2000].map(|main| page_around(&whole, at(main, 0)));
    let storage = whole.file().unwrap().storage();
    let mut bytes = vec![0; storage.size().unwrap() as usize];
    storage.read_exact_at(&mut bytes, 0).unwrap();
    for (page, ..) in lost {
        bytes[page as usize * 1024] ^= 0xff;
    }
    let report = check(&Database::open(BoltFile::open(Arc::new(bytes)).unwrap()).unwrap()).unwrap();
    let unchecked = |(_, after, until)| Finding::Unchecked { after, until: Some(until) };
    let (mut pages, mut gaps, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for finding in report.findings {
        match finding {
            Finding::Page(corrupt) => pages.push(corrupt.page.0),
            Finding::Version { at, .. } => versions.push(at.main.0),
            finding @ Finding::Unchecked { .. } => gaps.push(finding),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pages, lost.map(|(page, ..)| page));
    assert_eq!(gaps, lost.map(unchecked));
    // A put that is right again does not follow from one that is wrong.
    assert_eq!(versions, [1000, 1050, 2500, 2550]);
    let hidden: i64 = lost.iter().map(|(_, after, until)| until.0 - after.0 - 1).sum();
    assert_eq!((report.records as i64, report.hash), (3000 - hidden, None));
}

#[test]
fn a_put_that_says_another_revision_is_named() {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> =
        small().records.iter().map(|record| (record.at.encode().to_vec(), record.encoded())).collect();
    let moved = Stored { at: at(9, 0), ..small().records.last().unwrap().clone() };
    entries.last_mut().unwrap().1 = moved.encoded();
    let expected = [Finding::ModRevision { at: at(8, 0), found: Revision(9) }];
    assert_eq!(findings(&database_of(entries, &small().tables)), expected);
}

#[test]
fn records_out_of_order_are_named() {
    let mut model = small();
    let tail = model.records.clone();
    model.records.push(tail.last().unwrap().clone());
    let found = findings(&model.database_with_tail(1));
    assert!(found.contains(&Finding::OutOfOrder { at: at(8, 0), before: at(8, 0) }), "{found:?}");
}

#[test]
fn a_lease_that_live_keys_name_must_exist() {
    let mut model = Model::new();
    model.txn(&[Op::Put(b"a", b"", -7), Op::Put(b"b", b"", -7), Op::Put(b"c", b"", 5), Op::Put(b"d", b"", 6)]);
    model.delete("c").put("d", "");
    let missing = |keys| Finding::LeaseMissing { lease: LeaseId(-7), keys };
    assert_eq!(findings(&model.database()), [missing(2)]);
    model.delete("a");
    assert_eq!(findings(&model.database()), [missing(1)]);
    model.tables.put_lease(&Lease { id: -7, ttl_seconds: 60, remaining_seconds: 0 });
    assert_eq!(findings(&model.database()), []);
}

#[test]
fn compactions_that_do_not_add_up_are_named() {
    let pending = with_tables(|model| {
        model.mark(5, 4);
    });
    assert_eq!(pending, [Finding::CompactionPending { scheduled: Revision(5) }]);
    let (finished, scheduled) = (Revision(5), Revision(4));
    assert_eq!(
        with_tables(|model| {
            model.mark(4, 5);
        }),
        [Finding::FinishedUnscheduled { finished, scheduled }]
    );
    let (last, compact) = (Revision(8), Revision(1000));
    assert_eq!(
        with_tables(|model| {
            model.mark(1000, 1000);
        }),
        [Finding::EndsBeforeCompaction { last, compact }]
    );
}

#[test]
fn a_raised_revision_is_sound() {
    let mut model = small();
    model.records.push(Stored { at: at(1000, 0), key: vec![], value: vec![], create: 0, version: 0, lease: 0 });
    let mut entries: Vec<_> =
        model.records.iter().map(|record| (record.at.encode().to_vec(), record.encoded())).collect();
    entries.last_mut().unwrap().1.clear();
    model.mark(1000, 1000);
    assert_eq!(findings(&database_of(entries, &model.tables)), []);
}

#[test]
fn tables_that_do_not_fit_together_are_named() {
    let member = |id| Member { id, peer_urls: vec![], is_learner: false, name: String::new(), client_urls: vec![] };
    let user = |name: &str, role: &str| User { name: name.into(), roles: vec![role.into()], ..User::default() };
    let differ = with_tables(|model| {
        model.tables.put_member(&member(1));
        model.tables.set_conf_state(Some(&ConfState { voters: vec![1, 2], ..ConfState::default() }));
    });
    let (one, two) = (MemberId(1), MemberId(2));
    assert_eq!(differ, [Finding::MembersDiffer { members: vec![one], raft: vec![one, two] }]);
    let removed = with_tables(|model| {
        model.tables.remove_member(one);
        model.tables.put_member(&member(1));
    });
    assert_eq!(removed, [Finding::RemovedMember(one)]);
    let no_root = with_tables(|model| {
        model.tables.set_auth_enabled(true);
        model.tables.put_user(&user("root", "reader"));
    });
    assert_eq!(no_root, [Finding::RoleMissing { user: "root".into(), role: "reader".into() }, Finding::NoRootUser]);
    let root = with_tables(|model| {
        model.tables.set_auth_enabled(true);
        model.tables.put_user(&user("root", "root"));
    });
    assert_eq!(root, []);
    let alarms = with_tables(|model| {
        for kind in [1, 2, 3] {
            model.tables.put_alarm(Alarm { member: 1, kind });
        }
    });
    let unknown = Finding::UnknownAlarm { member: one, kind: 3 };
    assert_eq!(alarms, [Finding::NoSpace(one), Finding::CorruptAlarm(one), unknown]);
    assert_eq!(
        with_tables(|model| model.tables.set_storage_version(Some("3.6.0"))),
        [Finding::VersionWithoutTerm { version: "3.6.0".into() }]
    );
}

#[test]
fn what_no_version_knows_is_named_and_harmless() {
    let found = with_tables(|model| {
        model.tables.bucket_mut("other");
        model.tables.bucket_mut("meta").insert(b"new".into(), b"1".into());
    });
    assert_eq!(found, [Finding::UnknownBucket("other".into()), Finding::UnknownMark("new".into())]);
    assert!(found.iter().all(|finding| finding.severity() == Severity::Harmless));
}

#[test]
fn records_of_tables_that_cannot_be_understood_are_named() {
    let broken = [
        ("alarm", "\u{1}", "an alarm"),
        ("auth", "authRevision", "8 bytes"),
        ("authRoles", "x", "a role"),
        ("authUsers", "x", "a user"),
        ("cluster", "downgrade", "a downgrade in JSON"),
        ("lease", "12345678", "a lease under its id"),
        ("members", "x", "a member under its id"),
        ("members_removed", "x", "a removed member's id"),
        ("meta", "confState", "raft's members in JSON"),
        ("meta", "consistent_index", "8 bytes"),
        ("meta", "term", "8 bytes"),
    ];
    for (bucket, key, expected) in broken {
        let found = with_tables(|model| {
            model.tables.bucket_mut(bucket).insert(key.into(), b"\xff".into());
        });
        let [Finding::Table(TableFault { bucket: found_bucket, expected: found_expected, .. })] = &found[..] else {
            panic!("{bucket} {key}: {found:?}")
        };
        assert_eq!((*found_bucket, *found_expected), (bucket, expected));
    }
}

#[test]
fn the_hash_comes_along_whatever_is_left_of_what_was_compacted() {
    let hashed = |model: &Model| {
        let database = model.database();
        let hash = check(&database).unwrap().hash.unwrap();
        assert_eq!(hash, hash_kv(&database, None, None).unwrap());
        assert_eq!(hash.hash, model.hash_kv(hash.revision.0, model.compact));
    };
    hashed(&Model::new());
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let everything = Model::random(&mut random, if seed == 0 { 5000 } else { 100 });
        hashed(&everything);
        let mut model = everything.clone();
        let at = 2 + random.below(model.current as u64 - 2) as i64;
        hashed(model.compact(at, seed % 2 == 0));
        hashed(model.mark(i64::midpoint(at, model.current), at));
        hashed(everything.clone().mark(at, at));
        for key in model.live(model.current).into_keys().collect::<Vec<_>>() {
            model.txn(&[Op::Delete(&key)]);
        }
        hashed(&model);
        hashed(model.compact(model.current, seed % 2 == 0));
    }
}

#[test]
fn a_raised_revision_hashes_like_any_however_often_it_was_raised() {
    let mut model = small();
    for main in [100, 200] {
        model.current = main - 1;
        model.put("", "").put("a", "5").put("b", "3");
        let put = model.records.iter_mut().find(|record| record.at.main.0 == main).unwrap();
        (put.create, put.version) = (0, 0);
        let mut entries: Vec<_> =
            model.records.iter().map(|record| (record.at.encode().to_vec(), record.encoded())).collect();
        for entry in entries.iter_mut().filter(|entry| KeyValue::parse(&entry.1).unwrap().key.is_empty()) {
            entry.1.clear();
        }
        for compact in [main, main + 1, main + 2] {
            model.mark(compact, compact);
            let database = database_of(entries.clone(), &model.tables);
            let report = check(&database).unwrap();
            assert_eq!(report.hash, Some(hash_kv(&database, None, None).unwrap()), "{main} {compact}");
        }
    }
}

#[test]
fn there_is_no_hash_of_what_cannot_be_read() {
    let broken = [(at(2, 0).encode().to_vec(), vec![0x0a, 9])];
    assert_eq!(check(&database_of(broken, &Model::new().tables)).unwrap().hash, None);
    let mut model = small();
    model.tables.bucket_mut("meta").insert(b"scheduledCompactRev".into(), b"?".into());
    assert_eq!(check(&model.database()).unwrap().hash, None);
}

#[test]
fn of_a_flood_of_findings_the_first_are_kept_and_the_rest_counted() {
    let entries = (0..5000u32).map(|number| (number.to_be_bytes().to_vec(), Vec::new()));
    let report = check(&database_of(entries, &Model::new().tables)).unwrap();
    assert_eq!((report.findings.len(), report.further), (1000, 4000));
    assert_eq!(report.worst(), Some(Severity::Fatal));
}

#[test]
fn a_key_that_a_transaction_changes_more_than_once_is_named_and_is_what_the_last_change_says() {
    let mut model = Model::new();
    model.put("b", "1");
    model.txn(&[Op::Put(b"a", b"1", 0), Op::Put(b"b", b"2", 0), Op::Delete(b"a"), Op::Put(b"a", b"2", 0)]);
    model.txn(&[Op::Put(b"b", b"3", 0), Op::Put(b"b", b"4", 0)]).put("b", "5");
    let twice = |main, sub, tombstone, key: &[u8]| Finding::ChangedTwice {
        at: RevKey { main: Revision(main), sub, tombstone },
        key: key.into(),
    };
    let expected = [twice(3, 2, true, b"a"), twice(3, 3, false, b"a"), twice(4, 1, false, b"b")];
    let database = model.database();
    assert_eq!(findings(&database), expected);
    assert_eq!(check(&database).unwrap().hash, hash_kv(&database, None, None).ok());

    for at in [3, 4] {
        let found = get(&database, b"a", Some(Revision(at))).unwrap().unwrap();
        assert_eq!((found.value, found.version, found.create_revision), (b"2".to_vec(), 1, Revision(3)));
        assert_eq!(hash_kv(&database, Some(Revision(at)), None).unwrap().hash, model.hash_kv(at, None));
    }
    let survivors = Survivors::find(&database, Revision(3), Rules::KeepLastDeletion).unwrap();
    let mut reader = survivors.reader();
    let kept: Vec<RevKey> = model.records.iter().map(|record| record.at).filter(|&at| reader.keeps(at)).collect();
    assert_eq!(kept, [at(3, 1), at(3, 3), at(4, 0), at(4, 1), at(5, 0)]);

    let whole = restored(&database, None);
    assert_eq!(records(&whole), records(&database));
    let compacted = restored(&database, Some(Revision(3)));
    assert_eq!(records(&compacted).into_iter().map(|(at, _)| at).collect::<Vec<_>>(), kept);
    assert_eq!(findings(&compacted), [twice(4, 1, false, b"b")]);
    assert_eq!(get(&compacted, b"a", None).unwrap().unwrap().value, b"2");
}

fn records(database: &Database) -> Vec<(RevKey, Vec<u8>)> {
    scan(database, RevisionRange::ALL, Direction::Forwards, |_| Next::More).concat()
}

/// What a restore of `source` makes.
fn restored(source: &Database, compact_at: Option<Revision>) -> Database {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let options = Options { compact_at, ..Options::new(&data_dir, Token::Named("token".into()), "now") };
    restore(source, &Plan::make(source, &options).unwrap(), &mut |_| {}).unwrap();
    let bytes = std::fs::read(data_dir.join("member/snap/db")).unwrap();
    Database::open(BoltFile::open(Arc::new(bytes)).unwrap()).unwrap()
}
