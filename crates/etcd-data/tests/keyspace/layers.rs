//! A database in layers gives what the same records in one file give, however they are cut.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use etcd_data::compaction::{Rules, Survivors};
use etcd_data::database::{Direction, Next, Record, RevisionRange};
use etcd_data::diff::{Side, diff_databases, diff_revisions};
use etcd_data::export::{Against, export};
use etcd_data::facts::Facts;
use etcd_data::hash::{Flavour, HashKv, hash_backend, hash_kv};
use etcd_data::history::history;
use etcd_data::live::{Keys, LiveKeys, count, get, visit};
use etcd_data::records::{Records, TailRecord, Visit};
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan, RestoreError, restore};
use etcd_data::soundness::{Finding, check};
use etcd_data::tables::Lease;
use etcd_data::{Database, Error, Kind, RevKey, Revision, Tables};

use super::model::{Model, Random, Stored};
use super::scan::scan;

/// Records that tell their last one by being read.
struct Shown(Vec<TailRecord>);

impl Records for Shown {
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.0.read(direction, visit)
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
}

fn range(from: i64, to: i64) -> RevisionRange {
    RevisionRange { from: Revision(from), to: Revision(to) }
}

fn of(records: &[Stored], range: RevisionRange) -> Vec<Stored> {
    records.iter().filter(|record| range.has(record.at)).cloned().collect()
}

fn elsewhere(records: &[Stored], range: RevisionRange) -> Vec<TailRecord> {
    of(records, range).iter().map(Stored::elsewhere).collect()
}

/// The first revisions of `everything`, up to that of `model`, in layers: perhaps a file, then others. Each may hold
/// more than counts, on either side, and some hold nothing.
fn layered(model: &Model, everything: &Model, random: &mut Random) -> Database {
    let mut any = |end: i64| random.below(end as u64 + 1) as i64;
    let mut cuts: Vec<i64> = (0..any(6)).map(|_| any(model.current)).collect();
    cuts.sort_unstable();
    let (first, with_file) = (cuts.first().copied().unwrap_or_default(), any(2) > 0);
    let mut database = match with_file {
        true => everything.database_from(&of(&everything.records, range(0, first + any(9)))).cut_after(Revision(first)),
        false => Database::empty(Tables::default()),
    };
    let mut next = if with_file { first + 1 } else { 0 };
    for to in cuts.into_iter().chain([model.current + any(9)]) {
        let held = elsewhere(&everything.records, range(next - any(9), to + any(9)));
        let counted = range(next, to);
        database = match any(1) {
            0 => database.followed_by(counted, Arc::new(held)),
            _ => database.followed_by(counted, Arc::new(Shown(held))),
        };
        next = to + 1;
        if any(4) == 0 {
            // Nothing counts of it.
            let held = elsewhere(&everything.records, range(next - any(9), next + any(9)));
            database = database.followed_by(range(next, to), Arc::new(held));
        }
    }
    database.cut_after(Revision(model.current)).with_tables(model.tables.clone())
}

/// A model, a layered database of its records, and the same records in a file.
fn sample(seed: u64, steps: usize) -> (Random, Model, Database, Database) {
    let mut random = Random::new(seed);
    let mut everything = Model::random(&mut random, steps);
    everything.tables.put_lease(&Lease { id: -7, ttl_seconds: 60, remaining_seconds: 0 });
    if !seed.is_multiple_of(3) {
        everything.compact(everything.current / 3, seed % 3 == 1);
    }
    let mut model = everything.clone();
    model.current -= random.below(everything.current as u64 / 3) as i64;
    model.records.retain(|record| record.at.main.0 <= model.current);
    let database = layered(&model, &everything, &mut random);
    let file = model.database();
    (random, model, database, file)
}

const SEEDS: std::ops::Range<u64> = 0..24;

#[test]
fn a_scan_sees_every_record_once_in_order_and_of_a_range_no_other() {
    for seed in SEEDS {
        let (mut random, model, database, file) = sample(seed, if seed == 0 { 3000 } else { 200 });
        let mut ranges = vec![RevisionRange::ALL];
        for _ in 0..20 {
            let from = random.below(model.current as u64 + 2) as i64;
            ranges.push(range(from, from + random.below(1 + model.current as u64 / 2) as i64));
        }
        for range in ranges {
            for direction in [Direction::Forwards, Direction::Backwards] {
                let expected = scan(&file, range, direction, |_| Next::More).concat();
                assert_eq!(scan(&database, range, direction, |_| Next::More).concat(), expected, "{range:?}");
                let cut = |len| if len == 3 { Next::Cut } else { Next::More };
                assert_eq!(scan(&database, range, direction, cut).concat(), expected, "{range:?}");
            }
        }
    }
}

#[test]
fn enough_goes_on_with_the_next_layer() {
    for seed in SEEDS {
        let (_, _, database, _) = sample(seed, 200);
        for direction in [Direction::Forwards, Direction::Backwards] {
            let whole = scan(&database, RevisionRange::ALL, direction, |_| Next::More);
            let enough = |len| if len == 2 { Next::Enough } else { Next::More };
            let expected: Vec<_> = whole.iter().map(|part| part[..part.len().min(2)].to_vec()).collect();
            assert_eq!(scan(&database, RevisionRange::ALL, direction, enough), expected);
        }
    }
}

#[test]
fn of_other_layers_nothing_is_read_that_is_not_asked_for() {
    struct Untouchable;
    impl Records for Untouchable {
        fn read(&self, _: Direction, _: &mut Visit<'_>) -> Result<(), Error> {
            panic!("it was read");
        }
        fn size_bytes(&self) -> u64 {
            0
        }
    }
    let mut model = Model::new();
    for number in 0..20 {
        model.put("a", &number.to_string());
    }
    let database = model
        .database_from(&of(&model.records, range(0, 5)))
        .followed_by(range(6, 8), Arc::new(Untouchable))
        .followed_by(range(9, 12), Arc::new(elsewhere(&model.records, range(9, 12))))
        .followed_by(range(13, 20), Arc::new(Untouchable))
        .followed_by(range(21, 21), Arc::new(elsewhere(&model.records, range(21, 21))));
    let found = scan(&database, range(9, 12), Direction::Forwards, |_| Next::More).concat();
    assert_eq!(found.len(), 4);
    let at = |main| RevKey { main: Revision(main), sub: 0, tombstone: false };
    assert!(database.record(at(10)).unwrap().is_some() && database.record(at(3)).unwrap().is_some());
    assert_eq!(database.last_record().unwrap(), Some(at(21)));
}

#[test]
fn a_record_is_found_wherever_it_is_and_the_last_is_the_last() {
    for seed in SEEDS {
        let (_, model, database, _) = sample(seed, 120);
        for record in &model.records {
            assert_eq!(database.record(record.at).unwrap(), Some(record.encoded()), "{}", record.at);
            for other in [RevKey { sub: 99, ..record.at }, RevKey { tombstone: !record.at.tombstone, ..record.at }] {
                assert_eq!(database.record(other).unwrap(), None);
            }
        }
        let beyond = RevKey { main: Revision(model.current + 1), sub: 0, tombstone: false };
        assert_eq!(database.record(beyond).unwrap(), None);
        assert_eq!(database.last_record().unwrap(), model.records.last().map(|record| record.at));
    }
}

#[test]
fn hashes_are_those_of_one_file() {
    for seed in SEEDS {
        let (mut random, model, database, file) = sample(seed, 200);
        assert_eq!(hash_backend(&database, Flavour::V35).unwrap(), hash_backend(&file, Flavour::V35).unwrap());
        assert_eq!(hash_kv(&database, None, None).unwrap().hash, model.hash_kv(model.current, model.compact));
        let oldest = model.compact.unwrap_or(1);
        for _ in 0..10 {
            let at = oldest + random.below((model.current - oldest) as u64 + 1) as i64;
            let compact = oldest + random.below((at - oldest) as u64 + 1) as i64;
            for compact in [None, Some(Revision(compact))] {
                let expected = hash_kv(&file, Some(Revision(at)), compact).unwrap();
                assert_eq!(hash_kv(&database, Some(Revision(at)), compact).unwrap(), expected);
            }
            for rules in [Rules::KeepLastDeletion, Rules::DropLastDeletion] {
                assert_eq!(kept(&database, &model, compact, rules), kept(&file, &model, compact, rules));
            }
        }
    }
}

/// The records of `model` that a compaction of `database`, which has them, keeps.
fn kept(database: &Database, model: &Model, compact: i64, rules: Rules) -> Vec<RevKey> {
    let survivors = Survivors::find(database, Revision(compact), rules).unwrap();
    let mut reader = survivors.reader();
    model.records.iter().map(|record| record.at).filter(|&at| reader.keeps(at)).collect()
}

#[test]
fn keys_and_their_history_and_differences_are_those_of_one_file() {
    for seed in SEEDS {
        let (mut random, model, database, file) = sample(seed, 200);
        let oldest = model.compact.unwrap_or(1);
        for _ in 0..6 {
            let mut any = || Some(Revision(oldest + random.below((model.current - oldest) as u64 + 1) as i64));
            let (at, other) = (any(), any());
            for keys in [Keys::All, Keys::Prefix(b"/a/"), Keys::One(b"/b/7")] {
                assert_eq!(count(&database, at, keys).unwrap(), count(&file, at, keys).unwrap());
                assert_eq!(shown(&database, at, keys), shown(&file, at, keys));
                let live = LiveKeys::find(&database, at, keys).unwrap();
                assert!(live.iter().eq(LiveKeys::find(&file, at, keys).unwrap().iter()));
                assert_eq!(changes(&database, keys), changes(&file, keys));
                let expected = diff_revisions(&file, at, other, keys).unwrap();
                assert_eq!(diff_revisions(&database, at, other, keys).unwrap(), expected);
            }
            for key in [&b"/a/1"[..], b"/b/7", b"/ab/19", b"none"] {
                assert_eq!(get(&database, key, at).unwrap(), get(&file, key, at).unwrap());
            }
            let (one, two) = (Side { database: &database, at }, Side { database: &file, at });
            assert_eq!(diff_databases(one, two, Keys::All).unwrap().keys, []);
        }
    }
}

fn shown(database: &Database, at: Option<Revision>, keys: Keys<'_>) -> BTreeMap<Vec<u8>, (RevKey, Vec<u8>)> {
    let mut shown = BTreeMap::new();
    let mut note = |at, key: &[u8], value: &[u8]| shown.insert(key.to_vec(), (at, value.to_vec()));
    visit(database, at, keys, |at, kv| {
        assert_eq!(note(at, kv.key, kv.value), None, "shown twice");
        ControlFlow::Continue(())
    })
    .unwrap();
    shown
}

fn changes(database: &Database, keys: Keys<'_>) -> Vec<(RevKey, Vec<u8>)> {
    let mut changes = Vec::new();
    history(database, RevisionRange::ALL, keys, |at, kv| {
        changes.push((at, kv.key.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    changes
}

#[test]
fn facts_and_soundness_are_those_of_one_file() {
    for seed in SEEDS {
        let (_, _, database, file) = sample(seed, if seed == 0 { 3000 } else { 200 });
        let report = check(&database).unwrap();
        assert_eq!(report.findings, []);
        assert_eq!(report, check(&file).unwrap());
        let (facts, expected) = (Facts::of(&database, None).unwrap(), Facts::of(&file, None).unwrap());
        assert_eq!(facts.key_space, expected.key_space);
        assert_eq!(facts.tables, expected.tables);
        assert_eq!((facts.revision, facts.compact_revision), (expected.revision, expected.compact_revision));
    }
}

#[test]
fn what_is_built_of_layers_is_byte_for_byte_what_is_built_of_one_file() {
    for seed in SEEDS.step_by(2) {
        let (mut random, model, database, file) = sample(seed, 200);
        let oldest = model.compact.unwrap_or(1);
        let at = Revision(oldest + random.below((model.current - oldest) as u64 + 1) as i64);
        let compact_at = (random.below(2) == 0).then_some(at);
        let folder = tempfile::tempdir().unwrap();
        let restored = |name: &str, source| restored(folder.path(), name, source, at, compact_at);

        let exported = |name: &str, source| {
            let path = folder.path().join(name);
            let exported = export(source, Some(at), &Against::default(), &path, &mut |_| {}).unwrap();
            (exported.hash, exported.records, fs::read(path).unwrap())
        };
        for (one, two) in [
            (restored("layers", &database), restored("file", &file)),
            (exported("layers.db", &database), exported("file.db", &file)),
        ] {
            assert_eq!((one.0, one.1), (two.0, two.1));
            // Pages are as large as the source's, and layers without a file have none.
            assert!(one.2 == two.2 || database.file().is_none(), "the files differ");
        }
    }
}

/// As of a cluster to which nobody has written yet.
#[test]
fn of_layers_without_a_record_a_database_without_one_is_built() {
    let tables = Model::new().database().tables().clone();
    let empty = Database::empty(tables).followed_by(range(0, 1), Arc::new(Vec::<TailRecord>::new()));
    let folder = tempfile::tempdir().unwrap();
    let (hash, records, _) = restored(folder.path(), "data", &empty, Revision(1), None);
    assert_eq!((hash, records), (hash_kv(&empty, None, None).unwrap(), 0));
    let exported = export(&empty, None, &Against::default(), &folder.path().join("db"), &mut |_| {}).unwrap();
    assert_eq!((exported.hash.hash, exported.records), (hash.hash, 0));
}

/// The hash of what a restore makes, the number of its records, and its database.
fn restored(
    folder: &Path,
    name: &str,
    source: &Database,
    at: Revision,
    compact_at: Option<Revision>,
) -> (HashKv, u64, Vec<u8>) {
    let data_dir = folder.join(name);
    let token = Token::Named("token".into());
    let options = Options { at: Some(at), compact_at, ..Options::new(&data_dir, token, "now") };
    let plan = Plan::make(source, &options).unwrap();
    let restored = restore(source, &plan, &mut |_| {}).unwrap();
    assert_eq!(restored.hash.revision, at);
    (restored.hash, restored.records, fs::read(data_dir.join("member/snap/db")).unwrap())
}

/// Twelve revisions, compacted at 4, in a file up to 5 and two further layers.
fn with_layers(second: RevisionRange, third: RevisionRange) -> Database {
    let mut model = Model::new();
    for number in 0..11 {
        model.put(["a", "b", "c"][number % 3], "1");
    }
    model.compact(4, true);
    let layer = |range| Arc::new(elsewhere(&model.records, range));
    let file = model.database_from(&of(&model.records, range(0, 5)));
    file.followed_by(range(6, 8), layer(second)).followed_by(range(9, 12), layer(third))
}

/// What is found, and the revision that a restore says is missing.
fn judge(database: &Database) -> (Vec<Finding>, Option<i64>) {
    // Versions do not follow from what is missing; that is another matter.
    let mut findings = check(database).unwrap().findings;
    findings.retain(|finding| !matches!(finding, Finding::Version { .. }));
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new(folder.path().join("data"), Token::Named("token".into()), "now");
    let plan = Plan::make(database, &Options { at: Some(Revision(12)), ..options.clone() });
    let plan = plan.unwrap_or_else(|_| Plan::make(database, &options).unwrap());
    let missing = match restore(database, &plan, &mut |_| {}) {
        Ok(_) => None,
        Err(RestoreError::Hole { missing, .. }) => Some(missing.0),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(folder.path().join("data").exists(), missing.is_none());
    (findings, missing)
}

#[test]
fn a_gap_between_layers_or_in_one_is_named_not_jumped() {
    let at = |main| RevKey { main: Revision(main), sub: 0, tombstone: false };
    let gap = |after, main| Finding::Gap { at: at(main), after: Revision(after) };
    let whole = with_layers(range(6, 8), range(9, 12));
    assert_eq!(judge(&whole), (vec![], None));
    assert_eq!(judge(&with_layers(range(7, 8), range(9, 12))), (vec![gap(5, 7)], Some(6)));
    assert_eq!(judge(&with_layers(range(6, 7), range(9, 12))), (vec![gap(7, 9)], Some(8)));
    assert_eq!(judge(&with_layers(range(1, 0), range(9, 12))), (vec![gap(5, 9)], Some(6)));
    assert_eq!(judge(&with_layers(range(6, 8), range(11, 12))), (vec![gap(8, 11)], Some(9)));

    // Who asks for no revision gets as far as it goes, and is told.
    let early = |last| Finding::EndsEarly { last: Revision(last), promised: Revision(12) };
    assert_eq!(judge(&with_layers(range(6, 8), range(9, 10))), (vec![early(10)], None));
    assert_eq!(judge(&with_layers(range(6, 8), range(1, 0))), (vec![early(8)], None));
    assert_eq!(judge(&with_layers(range(6, 8), range(9, 12)).cut_after(Revision(10))), (vec![], None));
}

#[test]
fn a_transaction_of_which_a_layer_lacks_a_change_is_named() {
    let mut model = Model::new();
    model.put("a", "1");
    model.random_txn(&mut Random::new(3));
    while model.records.last().unwrap().at.sub == 0 {
        model.random_txn(&mut Random::new(model.current as u64));
    }
    let last = model.records.last().unwrap().at;
    let mut records = elsewhere(&model.records, RevisionRange::ALL);
    let lost = records.iter().position(|record| record.at.main == last.main).unwrap();
    records.remove(lost);
    let database = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records));
    let (findings, missing) = judge(&database);
    assert!(findings.iter().any(|found| matches!(found, Finding::ChangeMissing { expected: 0, .. })), "{findings:?}");
    assert_eq!(missing, Some(last.main.0));
}

/// Records of which only the first can be had.
struct Broken(TailRecord, Kind);

impl Records for Broken {
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        let error = || Error::Elsewhere {
            place: "delta 7".into(),
            kind: self.1,
            source: Box::new(std::io::Error::other("torn")),
        };
        if direction == Direction::Forwards && visit(self.0.at, &self.0.value)?.is_break() {
            return Ok(());
        }
        Err(error())
    }

    fn size_bytes(&self) -> u64 {
        1
    }

    fn last(&self) -> Result<Option<RevKey>, Error> {
        Ok(Some(self.0.at))
    }
}

#[test]
fn what_cannot_be_read_elsewhere_is_named_with_its_place() {
    let model = Model::new().put("a", "1").put("a", "2").clone();
    let broken = |kind| {
        let layer = Broken(model.records[1].elsewhere(), kind);
        let file = model.database_from(&model.records[..1]);
        file.followed_by(range(3, 3), Arc::new(layer)).followed_by(range(4, 9), Arc::new(Vec::<TailRecord>::new()))
    };
    let report = check(&broken(Kind::Corrupt)).unwrap();
    let found = Finding::Elsewhere { place: "delta 7".into(), reason: "torn".into() };
    assert_eq!((report.findings, report.hash), (vec![found], None));

    for kind in [Kind::Corrupt, Kind::Unavailable, Kind::Denied] {
        let database = broken(kind);
        let fails = |error: Error| {
            assert_eq!((error.to_string(), error.kind()), ("delta 7".into(), kind));
        };
        let step = |_: &mut (), _: Record<'_>| Ok(Next::More);
        let go_on = |()| Ok::<_, Error>(ControlFlow::Continue(()));
        fails(database.scan(RevisionRange::ALL, Direction::Forwards, step, go_on).unwrap_err());
        fails(
            Facts::of(&database, None)
                .map_err(|error| match error {
                    etcd_data::view::ViewError::Data(error) => error,
                    other => panic!("{other}"),
                })
                .unwrap_err(),
        );
        if kind != Kind::Corrupt {
            fails(check(&database).unwrap_err());
        }
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(folder.path().join("data"), Token::Named("token".into()), "now");
        let plan = Plan::make(&database, &options).unwrap();
        assert_eq!(restore(&database, &plan, &mut |_| {}).unwrap_err().kind(), kind);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
