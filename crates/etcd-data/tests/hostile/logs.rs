//! Logs whose frames are sound, or lie about their length, and whose requests ask for too much.

use etcd_data::Database;
use etcd_data::replay::{CaughtUp, ReplayError, catch_up};
use etcd_data::request::{
    Command, CompactionRequest, Compare, CompareTarget, CompareWith, DeleteRangeRequest, LeaseGrantRequest, Op,
    PutRequest, Request, RequestOp, TxnRequest,
};
use etcd_data::wal::{Fault, Tail, read_segment};
use prost::Message;

use crate::entry::exercise::{look_at, open_bolt, segment};
use crate::entry::hand::{Frames, bolt_file, key_space, put, put_entry, record};
use crate::entry::naive::tail;

/// A database of a member that is alone, with `keys` keys from revision 2 on, at entry 3.
pub(crate) fn database(keys: i64) -> Database {
    let name = |n: i64| format!("k{n:04}").into_bytes();
    let mut buckets = key_space((0..keys).map(|n| record(n + 2, 0, put(n + 2, &name(n), b"value", n + 2, 1))));
    put_entry(&mut buckets, "meta", "consistent_index", 3u64.to_be_bytes());
    put_entry(&mut buckets, "members", "1", r#"{"id":1,"peerURLs":["http://a:1"]}"#);
    open_bolt(bolt_file(&buckets)).unwrap()
}

pub(crate) fn carried(database: Database, commands: Vec<Command>) -> Result<CaughtUp, ReplayError> {
    let mut frames = Frames::of_a_member(3);
    for (index, command) in (4..).zip(commands) {
        frames.request(index, command);
    }
    catch_up(database, &read_segment(frames.bytes).unwrap(), &[])
}

pub(crate) fn put_of(key: &str) -> PutRequest {
    PutRequest { key: key.as_bytes().to_vec().into(), value: "new".into(), ..PutRequest::default() }
}

pub(crate) fn txn(ops: Vec<Op>) -> TxnRequest {
    let success = ops.into_iter().map(|op| RequestOp { op: Some(op) }).collect();
    TxnRequest { success, ..TxnRequest::default() }
}

#[test]
fn transactions_a_thousand_deep_are_refused() {
    // By hand, innermost first: an encoder would call itself a thousand times.
    let mut bytes = Vec::new();
    for _ in 0..1000 {
        for tag in [0x22, 0x12] {
            let mut around = vec![tag];
            prost::encode_length_delimiter(bytes.len(), &mut around).unwrap();
            around.extend(bytes);
            bytes = around;
        }
    }
    let mut request = vec![0x32];
    prost::encode_length_delimiter(bytes.len(), &mut request).unwrap();
    request.extend(bytes);
    let mut frames = Frames::of_a_member(3);
    frames.entry(4, 0, &request);
    let error = catch_up(database(1), &read_segment(frames.bytes).unwrap(), &[]).err().unwrap();
    assert!(matches!(error, ReplayError::Entry { index: 4 }), "{error}");
}

#[test]
fn conditions_on_ranges_look_at_every_key() {
    let compare = |end: &'static [u8], version| Compare {
        result: 0,
        target: CompareTarget::Version as i32,
        key: b"k".to_vec().into(),
        range_end: end.into(),
        with: Some(CompareWith::Version(version)),
    };
    for (end, version, expected) in [(&b"\0"[..], 1, 1), (b"l", 1, 1), (b"l", 2, 0), (b"a", 1, 0), (b"k0000", 0, 1)] {
        let compare = vec![compare(end, version); 500];
        let request = TxnRequest { compare, ..txn(vec![Op::Put(put_of("z"))]) };
        let caught_up = carried(database(300), vec![Command::Txn(request)]).unwrap();
        assert_eq!(tail(&caught_up.database).len(), expected, "{end:?} {version}");
    }
}

#[test]
fn a_compaction_beyond_the_last_revision_is_refused_as_etcd_refuses_it() {
    for revision in [i64::MIN, -1, 13, i64::MAX] {
        let compact = Command::Compaction(CompactionRequest { revision });
        let caught_up = carried(database(10), vec![compact, Command::Put(put_of("z"))]).unwrap();
        assert_eq!(caught_up.database.tables().compact_revision(), Ok(None), "{revision}");
        assert_eq!(tail(&caught_up.database).len(), 1);
    }
}

#[test]
fn there_is_no_revision_after_the_last() {
    let mut buckets = key_space([record(i64::MAX, 0, put(i64::MAX, b"a", b"1", 2, 1))]);
    put_entry(&mut buckets, "meta", "consistent_index", 3u64.to_be_bytes());
    put_entry(&mut buckets, "members", "1", r#"{"id":1,"peerURLs":[]}"#);
    let database = open_bolt(bolt_file(&buckets)).unwrap();
    let error = carried(database, vec![Command::Put(put_of("a"))]).err().unwrap();
    assert!(matches!(error, ReplayError::RevisionOverflow), "{error}");
}

#[test]
fn versions_at_their_ends_are_carried_on() {
    for version in [i64::MAX, i64::MIN, -1] {
        let mut buckets = key_space([record(2, 0, put(2, b"a", b"1", i64::MIN, version))]);
        put_entry(&mut buckets, "meta", "consistent_index", 3u64.to_be_bytes());
        put_entry(&mut buckets, "members", "1", r#"{"id":1,"peerURLs":[]}"#);
        let grant = Command::LeaseGrant(LeaseGrantRequest { ttl: i64::MIN, id: i64::MIN });
        let delete = DeleteRangeRequest { key: "".into(), range_end: "\0".into(), prev_kv: true };
        let commands = vec![grant, Command::Put(put_of("a")), Command::DeleteRange(delete)];
        let caught_up = carried(open_bolt(bolt_file(&buckets)).unwrap(), commands).unwrap();
        assert_eq!(tail(&caught_up.database).len(), 2);
        look_at(&caught_up.database, &[2, 4]);
    }
}

#[test]
fn lengths_of_records_are_not_believed() {
    for len in [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 56, (1 << 56) - 1, (1 << 56) - 8, 1 << 40, 1 << 31] {
        let mut bytes = Frames::of_a_member(0).bytes;
        let whole = bytes.len() as u64;
        bytes.extend(len.to_le_bytes());
        bytes.resize(bytes.len() + 4096, 1);
        segment(bytes.clone());
        let log = read_segment(bytes).unwrap();
        assert_eq!(log.end.offset, whole, "{len:x}");
        assert_ne!(log.tail, Tail::Clean);
    }
}

/// Fields inside of records and entries that claim to be longer than what is left.
#[test]
fn lengths_inside_of_records_are_not_believed() {
    for len in [5, 0xffff, u32::MAX as u64, i64::MAX as u64, u64::MAX] {
        let mut entry = vec![0x08, 0, 0x10, 1, 0x18, 1, 0x22];
        prost::encode_length_delimiter(len as usize, &mut entry).unwrap();
        let mut frames = Frames::of_a_member(0);
        frames.push(2, &entry);
        let log = read_segment(frames.bytes).unwrap();
        assert_eq!(log.findings.first().map(|finding| finding.fault), Some(Fault::NotOfItsKind));
        assert!(Request::decode(&entry[6..]).is_err());
    }
}

#[test]
fn indices_at_their_ends_are_read() {
    for index in [0, 2, u64::MAX - 1, u64::MAX] {
        let mut frames = Frames::of_a_member(u64::MAX);
        frames.entry(index, 0, b"");
        frames.entry(index.wrapping_add(1), 0, b"");
        segment(frames.bytes);
    }
}
