//! Databases whose pages are sound and whose records lie.

use std::sync::Arc;

use etcd_data::database::RevisionRange;
use etcd_data::facts::Facts;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::soundness::{self, Finding};
use etcd_data::tables::Lease;
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};
use prost::Message;

use crate::entry::exercise::{look_at, open_bolt};
use crate::entry::hand::{Buckets, bolt_file, key_space, put, put_entry, record};

/// What is found in a database with `buckets`, after everything has been done with it.
fn findings(buckets: &Buckets) -> Vec<Finding> {
    let database = open_bolt(bolt_file(buckets)).unwrap();
    look_at(&database, &[0, 2, i64::MAX, -1, i64::MIN]);
    soundness::check(&database).unwrap().findings
}

fn mark(buckets: &mut Buckets, name: &str, main: i64) {
    let at = RevKey { main: Revision(main), sub: 0, tombstone: false };
    put_entry(buckets, "meta", name, &*at.encode());
}

#[test]
fn leases_whose_ids_lie_are_found() {
    let mut buckets = key_space([]);
    for (id, claimed) in [(1, 2), (2, i64::MIN), (-1, 0), (0, 0)] {
        let lease = Lease { id: claimed, ttl_seconds: -5, remaining_seconds: i64::MIN };
        put_entry(&mut buckets, "lease", i64::to_be_bytes(id), lease.encode_to_vec());
    }
    put_entry(&mut buckets, "lease", "short", Lease::default().encode_to_vec());
    put_entry(&mut buckets, "lease", 9u64.to_be_bytes(), [0xff; 9]);
    let faults = findings(&buckets).into_iter().filter(|finding| matches!(finding, Finding::Table(_)));
    assert_eq!(faults.count(), 5, "all but the one that says what it is");
}

#[test]
fn numbers_at_their_ends_are_read() {
    let ends = [0, 1, -1, i64::MAX, i64::MIN];
    for create in ends {
        for version in ends {
            for main in [0, 1, i64::MAX - 1, i64::MAX] {
                let kv = put(main, b"a", b"", create, version);
                let leased = KeyValue { key: b"b", lease: LeaseId(create), ..kv };
                let at = |sub| RevKey { main: Revision(main), sub, tombstone: false };
                let records = [(at(0), record(0, 0, kv).1), (at(i64::MAX), record(0, 0, leased).1)];
                let mut buckets = key_space(records);
                assert_ne!(findings(&buckets), []);
                mark(&mut buckets, "scheduledCompactRev", main);
                mark(&mut buckets, "finishedCompactRev", i64::MAX - main);
                findings(&buckets);
            }
        }
    }
}

#[test]
fn a_compaction_beyond_the_last_revision_is_said_and_read() {
    for compact in [3, 1000, i64::MAX] {
        let mut buckets = key_space([record(2, 0, put(2, b"a", b"1", 2, 1))]);
        mark(&mut buckets, "scheduledCompactRev", compact);
        let found = findings(&buckets);
        assert!(found.iter().any(|finding| matches!(finding, Finding::EndsBeforeCompaction { .. })), "{found:?}");
        let database = open_bolt(bolt_file(&buckets)).unwrap();
        assert_eq!(Facts::of(&database, None).unwrap().revision, Revision(compact));
        assert_eq!(hash_kv(&database, None, None).unwrap().compact_revision, Some(Revision(compact)));
    }
}

/// JSON of 10,000 levels, which a reader that calls itself for each would not come back from.
#[test]
fn members_of_ten_thousand_levels_are_no_members() {
    for (open, close, expected) in [("[", "]", 3), ("{\"id\":", "}", 1)] {
        let deep = [&open.repeat(10_000), "1", &close.repeat(10_000)].concat();
        let mut buckets = key_space([]);
        put_entry(&mut buckets, "members", "1", deep.clone());
        // What nobody asks for is passed over, however deep.
        put_entry(&mut buckets, "members", "2", format!("{{\"id\":2,\"peerURLs\":[],\"unheard\":{deep}}}"));
        put_entry(&mut buckets, "meta", "confState", deep.clone());
        put_entry(&mut buckets, "cluster", "downgrade", deep);
        let faults = findings(&buckets).into_iter().filter(|finding| matches!(finding, Finding::Table(_)));
        assert_eq!(faults.count(), expected);
    }
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let lies = (2..5002).map(|main| record(main, 0, put(main, b"a", b"", 1, 99)));
    let database = open_bolt(bolt_file(&key_space(lies))).unwrap();
    let report = soundness::check(&database).unwrap();
    assert_eq!((report.findings.len(), report.further), (1000, 4000));
}

/// A record far ahead of those after it: the hash that comes with a check is the one that is computed by itself.
#[test]
fn records_out_of_order_count_alike_in_every_hash() {
    let records = [2, 3, 4, 5].map(|main| record(main, 0, put(main, b"a", b"", 2, main - 1)));
    let mut file = bolt_file(&key_space(records)).unwrap();
    let third = RevKey { main: Revision(4), sub: 0, tombstone: false }.encode();
    let at = file.windows(third.len()).position(|bytes| *bytes == *third).unwrap();
    file[at + 3] = 1;
    let database = open_bolt(Some(file)).unwrap();
    look_at(&database, &[2, 4]);
    let report = soundness::check(&database).unwrap();
    assert!(report.findings.iter().any(|finding| matches!(finding, Finding::OutOfOrder { .. })));
    assert_eq!(report.hash, Some(hash_kv(&database, None, None).unwrap()));
}

/// Of a key with two fields 1 the last counts; those who look only at the first must not fall over it.
#[test]
fn records_that_name_two_keys_are_read() {
    let mut twice = Vec::new();
    KeyValue { key: b"a", ..KeyValue::default() }.encode(&mut twice);
    put(2, b"b", b"1", 2, 1).encode(&mut twice);
    let at = RevKey { main: Revision(2), sub: 0, tombstone: false };
    findings(&key_space([(at, twice)]));
}

#[test]
fn changes_by_themselves_are_held_against_each_other_and_not_against_what_is_not_here() {
    // What follows on revision 10, where nobody knows what was there.
    let changes = |changes: &[(i64, i64, bool, i64, i64)]| {
        let records = changes.iter().map(|&(main, sub, tombstone, create, version)| {
            let kv = match tombstone {
                true => KeyValue { key: b"a", ..KeyValue::default() },
                false => put(main, if sub == 0 { b"a" } else { b"b" }, b"", create, version),
            };
            let mut value = Vec::new();
            kv.encode(&mut value);
            TailRecord { at: RevKey { main: Revision(main), sub, tombstone }, value }
        });
        let range = RevisionRange { from: Revision(11), to: Revision(14) };
        let records: Vec<TailRecord> = records.collect();
        let database = Database::empty(Tables::default()).followed_by(range, Arc::new(records));
        soundness::check_changes(&database, Revision(10)).unwrap()
    };
    let sound = [(11, 0, false, 3, 8), (11, 1, false, 11, 1), (12, 0, false, 3, 9), (13, 0, true, 0, 0)];
    let sound = [&sound[..], &[(14, 0, false, 14, 1)]].concat();
    assert_eq!((changes(&sound).findings, changes(&sound).records), (vec![], 5));
    assert_eq!(
        changes(&[(11, 0, true, 0, 0), (12, 0, false, 12, 1), (13, 0, false, 12, 2), (14, 0, true, 0, 0)]).findings,
        []
    );

    let one = |records: &[(i64, i64, bool, i64, i64)]| {
        let findings = changes(records).findings;
        let shown = format!("{:?}", findings.first().unwrap());
        (findings.len(), shown.split(' ').next().unwrap().to_owned())
    };
    let with = |at: usize, change: (i64, i64, bool, i64, i64)| {
        let mut records = sound.clone();
        records[at] = change;
        one(&records)
    };
    assert_eq!(with(2, (12, 0, false, 3, 10)), (1, "Version".into()));
    assert_eq!(with(4, (14, 0, false, 3, 10)), (1, "Version".into()));
    assert_eq!(with(4, (14, 0, true, 0, 0)), (1, "DeletesNothing".into()));
    assert_eq!(with(1, (11, 2, false, 11, 1)), (1, "ChangeMissing".into()));
    assert_eq!(with(0, (11, 0, false, 3, 9_000)).1, "Impossible");
    assert_eq!(one(&sound[2..]), (1, "Gap".into()));
    assert_eq!(one(&sound[..4]), (1, "EndsEarly".into()));
}
