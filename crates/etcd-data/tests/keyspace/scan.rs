//! A scan sees what a cursor sees, in order, whoever reads.

use std::ops::ControlFlow;

use etcd_data::database::{Direction, Next, Readers, Record, RevisionRange};
use etcd_data::records::TailRecord;
use etcd_data::{Database, Error, RevKey, Revision, Tables};

use super::model::{Model, Random, database_of};

pub(crate) type Records = Vec<(RevKey, Vec<u8>)>;

/// What a cursor sees, and the tail behind it.
fn walk(database: &Database) -> Records {
    let bucket = database.file().unwrap().bucket(b"key").unwrap().unwrap();
    let mut cursor = bucket.cursor();
    let mut records = Vec::new();
    let mut entry = cursor.first().unwrap();
    while let Some(found) = entry {
        records.push((RevKey::parse(found.key).unwrap(), found.value.to_vec()));
        entry = cursor.next().unwrap();
    }
    records.extend(tail(database).into_iter().map(|TailRecord { at, value }| (at, value)));
    records
}

/// The records that come after the file.
fn tail(database: &Database) -> Vec<TailRecord> {
    let mut records = Vec::new();
    for addition in database.additions() {
        let mut note = |at, value: &[u8]| {
            records.push(TailRecord { at, value: value.to_vec() });
            Ok(ControlFlow::Continue(()))
        };
        addition.read(Direction::Forwards, &mut note).unwrap();
    }
    records
}

/// What a scan sees, by many threads and by the one that asks. `next` decides what follows the record that is shown as so
/// many-th of its part.
pub(crate) fn scan(
    database: &Database,
    range: RevisionRange,
    direction: Direction,
    next: impl Fn(usize) -> Next + Sync,
) -> Vec<Records> {
    let by_many = scan_as_it_is(database, range, direction, &next);
    let by_one = scan_as_it_is(&database.clone().read_by(Readers::Caller), range, direction, &next);
    assert!(by_one == by_many, "whoever reads, the same is seen");
    by_many
}

fn scan_as_it_is(
    database: &Database,
    range: RevisionRange,
    direction: Direction,
    next: impl Fn(usize) -> Next + Sync,
) -> Vec<Records> {
    let mut parts = Vec::new();
    let step = |part: &mut Records, record: Record<'_>| {
        part.push((record.at, record.value.to_vec()));
        Ok(next(part.len()))
    };
    let take = |part| {
        parts.push(part);
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan(range, direction, step, take).unwrap();
    parts
}

fn large() -> Model {
    Model::random(&mut Random::new(1), 6000)
}

#[test]
fn both_directions_see_every_record_once_in_order() {
    let model = large();
    for tail in [0, 1, 100] {
        let database = model.database_with_tail(tail);
        let mut expected = walk(&database);
        assert_eq!(expected.len(), model.records.len());
        let parts = scan(&database, RevisionRange::ALL, Direction::Forwards, |_| Next::More);
        assert!(parts.len() > 4, "a file of {} parts proves little", parts.len());
        assert_eq!(parts.concat(), expected);
        expected.reverse();
        assert_eq!(scan(&database, RevisionRange::ALL, Direction::Backwards, |_| Next::More).concat(), expected);
    }
}

#[test]
fn a_range_has_both_its_ends_and_nothing_else() {
    let model = large();
    let database = model.database_with_tail(50);
    let last = model.current;
    let walked = walk(&database);
    let mut random = Random::new(2);
    let mut ranges: Vec<(i64, i64)> = (0..40).map(|_| (random.below(last as u64) as i64, last)).collect();
    ranges.extend((0..40).map(|_| (random.below(last as u64) as i64, random.below(last as u64) as i64)));
    ranges.extend([(2, 2), (last, last), (0, 1), (last + 1, i64::MAX), (0, i64::MAX), (last - 20, last - 10)]);
    for (from, to) in ranges {
        let range = RevisionRange { from: Revision(from), to: Revision(to) };
        let mut expected = walked.clone();
        expected.retain(|(at, _)| (from..=to).contains(&at.main.0));
        assert_eq!(scan(&database, range, Direction::Forwards, |_| Next::More).concat(), expected, "{from}..={to}");
        expected.reverse();
        assert_eq!(scan(&database, range, Direction::Backwards, |_| Next::More).concat(), expected, "{from}..={to}");
    }
}

#[test]
fn cutting_hands_over_more_often_and_loses_nothing() {
    let database = large().database_with_tail(100);
    for direction in [Direction::Forwards, Direction::Backwards] {
        let whole = scan(&database, RevisionRange::ALL, direction, |_| Next::More);
        let cut = scan(&database, RevisionRange::ALL, direction, |len| if len == 7 { Next::Cut } else { Next::More });
        assert_eq!(cut.concat(), whole.concat());
        assert!(cut.iter().all(|part| part.len() <= 7));
    }
}

#[test]
fn enough_goes_on_with_the_next_part() {
    let database = large().database_with_tail(100);
    for direction in [Direction::Forwards, Direction::Backwards] {
        let whole = scan(&database, RevisionRange::ALL, direction, |_| Next::More);
        let some =
            scan(&database, RevisionRange::ALL, direction, |len| if len == 3 { Next::Enough } else { Next::More });
        let expected: Vec<Records> = whole.iter().map(|part| part[..part.len().min(3)].to_vec()).collect();
        assert_eq!(some, expected);
    }
}

/// A database that many threads read, and the same read by the one that asks.
fn whoever_reads() -> [Database; 2] {
    let database = large().database();
    [database.clone(), database.read_by(Readers::Caller)]
}

#[test]
fn breaking_ends_the_scan() {
    for database in whoever_reads() {
        let mut taken = Vec::new();
        let step = |part: &mut usize, _: Record<'_>| {
            *part += 1;
            Ok(Next::Cut)
        };
        let take = |part: usize| {
            taken.push(part);
            Ok::<_, Error>(if taken.len() == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        database.scan(RevisionRange::ALL, Direction::Forwards, step, take).unwrap();
        assert_eq!(taken, [1; 10]);
    }
}

#[test]
fn an_error_of_either_side_ends_the_scan() {
    for database in whoever_reads() {
        let fail = || Error::NoKeySpace;
        let step = |_: &mut (), record: Record<'_>| if record.at.main.0 == 3000 { Err(fail()) } else { Ok(Next::More) };
        let go_on = |()| Ok::<_, Error>(ControlFlow::Continue(()));
        assert!(matches!(database.scan(RevisionRange::ALL, Direction::Forwards, step, go_on), Err(Error::NoKeySpace)));
        let take = |()| Err::<ControlFlow<()>, _>(fail());
        assert!(matches!(
            database.scan(RevisionRange::ALL, Direction::Backwards, |_, _| Ok(Next::More), take),
            Err(Error::NoKeySpace)
        ));
    }
}

#[test]
fn who_reads_alone_does_so_on_its_own_thread() {
    let [_, database] = whoever_reads();
    let here = std::thread::current().id();
    let step = |_: &mut (), _: Record<'_>| {
        assert_eq!(std::thread::current().id(), here);
        Ok(Next::More)
    };
    let go_on = |()| Ok::<_, Error>(ControlFlow::Continue(()));
    database.scan(RevisionRange::ALL, Direction::Forwards, step, go_on).unwrap();
}

#[test]
fn a_key_that_is_no_revision_fails_a_scan_and_is_shown_as_an_entry() {
    let entries = [(b"rubbish".to_vec(), Vec::new())];
    let database = database_of(entries, &Tables::default());
    let step = |_: &mut (), _: Record<'_>| Ok(Next::More);
    let go_on = |()| Ok::<_, Error>(ControlFlow::Continue(()));
    assert!(matches!(database.scan(RevisionRange::ALL, Direction::Forwards, step, go_on), Err(Error::Record { .. })));

    let mut keys = Vec::new();
    let step = |part: &mut Vec<Vec<u8>>, key: &[u8], _: &[u8]| {
        part.push(key.to_vec());
        Ok(Next::More)
    };
    let take = |part: Vec<Vec<u8>>| {
        keys.extend(part);
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan_entries(RevisionRange::ALL, Direction::Forwards, step, take).unwrap();
    assert_eq!(keys, [b"rubbish"]);
}

#[test]
fn a_record_is_found_by_its_key_in_file_and_tail() {
    let model = large();
    let database = model.database_with_tail(100);
    for (index, record) in model.records.iter().enumerate().filter(|(index, _)| index % 37 == 0) {
        assert_eq!(database.record(record.at).unwrap(), Some(record.encoded()), "record {index}");
        let other = RevKey { sub: 99, ..record.at };
        assert_eq!(database.record(other).unwrap(), None);
    }
}

#[test]
fn an_empty_key_space_has_no_records() {
    let database = Model::new().database();
    assert_eq!(scan(&database, RevisionRange::ALL, Direction::Forwards, |_| Next::More).concat(), []);
    assert_eq!(database.last_record().unwrap(), None);
}

/// The first record of each part.
pub(crate) fn part_starts(database: &Database) -> Vec<RevKey> {
    let parts = scan(database, RevisionRange::ALL, Direction::Forwards, |_| Next::More);
    parts.iter().filter_map(|part| Some(part.first()?.0)).collect()
}
