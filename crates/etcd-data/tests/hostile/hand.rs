//! Databases and logs as an enemy makes them: well framed, so that they are read, with anything inside.

use std::collections::BTreeMap;

use etcd_data::bolt_file::write::{Builder, Options};
use etcd_data::raft::{Entry, HardState};
use etcd_data::request::{
    AlarmRequest, Command, CompactionRequest, Compare, CompareWith, DeleteRangeRequest, Empty, Header, LeaseCheckpoint,
    LeaseCheckpointRequest, LeaseGrantRequest, LeaseRevokeRequest, Op, PutRequest, RangeRequest, Request, RequestOp,
    TxnRequest, UserAddRequest, UserGrantRoleRequest,
};
use etcd_data::tables::{Alarm, Lease, Permission, Role, User};
use etcd_data::wal::record::Record;
use etcd_data::wal::{Metadata, SnapshotMark};
use etcd_data::{KeyValue, LeaseId, RevKey, Revision};
use prost::Message;

use super::input::Input;

/// What stands in a database: of each bucket its entries.
pub(crate) type Buckets = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

const NAMES: [&str; 11] = [
    "alarm",
    "auth",
    "authRoles",
    "authUsers",
    "cluster",
    "lease",
    "members",
    "members_removed",
    "meta",
    "key",
    "quotas",
];

const MARKS: [&str; 11] = [
    "consistent_index",
    "term",
    "confState",
    "storageVersion",
    "scheduledCompactRev",
    "finishedCompactRev",
    "clusterVersion",
    "downgrade",
    "authEnabled",
    "authRevision",
    "unheard",
];

/// The bytes of a bolt file with `buckets`, of small pages, so that a few entries make a tree. Nothing, if no bolt file
/// can have them.
pub(crate) fn bolt_file(buckets: &Buckets) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut builder = Builder::create(&mut bytes, Options { page_size: 1024, txid: 2 }).ok()?;
    for (name, entries) in buckets {
        let mut bucket = builder.bucket(name).ok()?;
        for (key, value) in entries {
            bucket.push(key, value).ok()?;
        }
        bucket.finish().ok()?;
    }
    builder.finish().ok()?;
    Some(bytes)
}

/// What a database with these records and nothing else has in its buckets.
pub(crate) fn key_space(records: impl IntoIterator<Item = (RevKey, Vec<u8>)>) -> Buckets {
    let entries = records.into_iter().map(|(at, value)| (at.encode().to_vec(), value));
    Buckets::from([(b"key".to_vec(), entries.collect())])
}

pub(crate) fn put_entry(buckets: &mut Buckets, bucket: &str, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
    let key = key.into();
    if !key.is_empty() {
        buckets.entry(bucket.into()).or_default().insert(key, value.into());
    }
}

/// A record of `key` that says what it says.
pub(crate) fn record(main: i64, sub: i64, kv: KeyValue<'_>) -> (RevKey, Vec<u8>) {
    let mut value = Vec::new();
    kv.encode(&mut value);
    (RevKey { main: Revision(main), sub, tombstone: kv.mod_revision.0 == 0 && kv.version == 0 }, value)
}

/// A put as etcd does it, of a key that is `version` puts old.
pub(crate) fn put<'a>(main: i64, key: &'a [u8], value: &'a [u8], create: i64, version: i64) -> KeyValue<'a> {
    let (create_revision, mod_revision) = (Revision(create), Revision(main));
    KeyValue { key, create_revision, mod_revision, version, value, lease: LeaseId(0) }
}

/// Buckets of what `input` chooses.
pub(crate) fn buckets(input: &mut Input<'_>) -> Buckets {
    let mut buckets = key_space([]);
    let mut main = 1i64;
    let mut sub = 0;
    for _ in 0..300 {
        if input.is_empty() {
            break;
        }
        match input.below(12) {
            0..=5 => {
                (main, sub) = if input.below(3) == 0 { (main, sub + 1) } else { (main.saturating_add(1), 0) };
                plausible_record(&mut buckets, main, sub, input);
            }
            6 => {
                main = input.number().max(0);
                sub = input.number().max(0);
                plausible_record(&mut buckets, main, sub, input);
                sub = sub.min(1 << 40);
            }
            7 => {
                let at = RevKey { main: Revision(main), sub, tombstone: input.below(2) == 0 };
                let value = input.bytes();
                put_entry(&mut buckets, "key", &*at.encode(), value);
            }
            8 => {
                let (bucket, key, value) = (input.one_of(&NAMES), input.bytes(), input.bytes());
                put_entry(&mut buckets, bucket, key, value);
            }
            9 => mark(&mut buckets, input),
            _ => table_entry(&mut buckets, input),
        }
    }
    buckets
}

fn plausible_record(buckets: &mut Buckets, main: i64, sub: i64, input: &mut Input<'_>) {
    let key = input.key();
    let odd = input.below(8);
    let mut kv = put(main, &key, b"", main, 1);
    let value = input.bytes();
    kv.value = &value;
    match odd {
        0 => kv = KeyValue { key: &key, ..KeyValue::default() },
        1 => kv.lease = LeaseId(input.number()),
        2 => kv.version = input.number(),
        3 => kv.create_revision = Revision(input.number()),
        4 => kv.mod_revision = Revision(input.number()),
        _ => {}
    }
    let mut bytes = Vec::new();
    kv.encode(&mut bytes);
    let at = RevKey { main: Revision(main), sub, tombstone: odd == 0 };
    put_entry(buckets, "key", &*at.encode(), bytes);
}

fn mark(buckets: &mut Buckets, input: &mut Input<'_>) {
    let bucket = input.one_of(&["meta", "meta", "meta", "cluster", "auth"]);
    let key = input.one_of(&MARKS);
    let at = RevKey { main: Revision(input.number().max(0)), sub: 0, tombstone: false };
    let value = match input.below(6) {
        0 | 1 => at.encode().to_vec(),
        2 => input.number().to_be_bytes().to_vec(),
        3 => b"3.6.0".to_vec(),
        4 => vec![1],
        _ => input.bytes(),
    };
    put_entry(buckets, bucket, key, value);
}

fn table_entry(buckets: &mut Buckets, input: &mut Input<'_>) {
    let id = input.number();
    match input.below(6) {
        0 => {
            let claimed = if input.below(4) == 0 { input.number() } else { id };
            let lease = Lease { id: claimed, ttl_seconds: input.number(), remaining_seconds: input.number() };
            put_entry(buckets, "lease", id.to_be_bytes(), lease.encode_to_vec());
        }
        1 => {
            let alarm = Alarm { member: id as u64, kind: input.number() as i32 };
            put_entry(buckets, "alarm", alarm.encode_to_vec(), []);
        }
        2 => {
            let name = input.key();
            let roles = (0..input.below(4)).map(|_| input.one_of(&["root", "a", "b"]).to_owned()).collect();
            let user = User { name: name.clone(), password_hash: Vec::new(), roles, options: None };
            put_entry(buckets, "authUsers", name, user.encode_to_vec());
        }
        3 => {
            let name = input.key();
            let permission = |input: &mut Input<'_>| Permission {
                kind: input.number() as i32,
                key: input.key(),
                range_end: input.one_of(&[&b""[..], b"\0", b"c", b"z"]).to_vec(),
            };
            let permissions = (0..input.below(4)).map(|_| permission(input)).collect();
            put_entry(buckets, "authRoles", name.clone(), Role { name, permissions }.encode_to_vec());
        }
        4 => {
            let json = format!(r#"{{"id":{id},"peerURLs":["http://a:1"],"name":"a"}}"#);
            put_entry(buckets, "members", format!("{id:x}"), json);
        }
        _ => put_entry(buckets, "members_removed", format!("{id:x}"), "removed"),
    }
}

/// A segment in the making: frames, each with the checksum that its data call for.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) bytes: Vec<u8>,
    crc: u32,
}

impl Frames {
    /// The log of a member that is alone, shortened to what comes after entry `commit`.
    pub(crate) fn of_a_member(commit: u64) -> Self {
        let mut frames = Self::default();
        frames.push(4, &[]);
        frames.push(1, &Metadata { node_id: 1, cluster_id: 2 }.encode_to_vec());
        frames.push(5, &SnapshotMark { index: commit, term: 1, conf_state: None }.encode_to_vec());
        frames.push(3, &HardState { term: 1, vote: 1, commit }.encode_to_vec());
        frames
    }

    /// Goes on in a segment after that of `before`.
    pub(crate) fn after(before: &Self) -> Self {
        let mut frames = Self { bytes: Vec::new(), crc: before.crc };
        frames.push(4, &[]);
        frames.push(1, &Metadata { node_id: 1, cluster_id: 2 }.encode_to_vec());
        frames
    }

    /// Goes on with the records in `segment`, up to where there is none, each with the checksum that it should have.
    pub(crate) fn take_over(&mut self, segment: &[u8]) {
        let mut rest = segment;
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            let [len @ .., pad] = *head;
            let len = len.into_iter().rev().fold(0, |len, byte| len << 8 | usize::from(byte));
            let pad = if pad & 0x80 > 0 { usize::from(pad & 7) } else { 0 };
            let record = behind.get(..len).and_then(|record| Record::decode(record).ok());
            let Some(record) = record.filter(|_| len > 0) else { return };
            self.push(record.kind, &record.data);
            rest = behind.get(len + pad..).unwrap_or_default();
        }
    }

    pub(crate) fn push(&mut self, kind: i64, data: &[u8]) {
        if kind != 4 {
            self.crc = crc32c::crc32c_append(self.crc, data);
        }
        let mut record = vec![0x08];
        varint(&mut record, kind as u64);
        record.push(0x10);
        varint(&mut record, self.crc.into());
        if !data.is_empty() {
            record.push(0x1a);
            varint(&mut record, data.len() as u64);
            record.extend(data);
        }
        let pad = (8 - record.len() % 8) % 8;
        let head = record.len() as u64 | if pad > 0 { (0x80 | pad as u64) << 56 } else { 0 };
        self.bytes.extend(head.to_le_bytes());
        self.bytes.extend(record);
        self.bytes.resize(self.bytes.len() + pad, 0);
    }

    pub(crate) fn entry(&mut self, index: u64, kind: i32, data: &[u8]) {
        let entry = Entry { kind, term: 1, index, data: data.to_vec().into() };
        self.push(2, &entry.encode_to_vec());
    }

    pub(crate) fn request(&mut self, index: u64, command: Command) {
        self.entry(index, 0, &Request { id: 0, header: None, command: Some(command) }.encode_to_vec());
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The log of a member that is alone, with entries of what `input` chooses.
pub(crate) fn log(input: &mut Input<'_>, first: u64) -> Frames {
    let mut frames = Frames::of_a_member(first - 1);
    for index in first..first + 100 {
        if input.is_empty() {
            break;
        }
        match input.below(24) {
            0 => {
                let (kind, data) = (input.below(3) as i32, input.bytes());
                frames.entry(index, kind, &data);
            }
            1 | 2 => {
                let (kind, node) = (input.below(5), input.number());
                let context = format!(r#"{{"id":{node},"peerURLs":["http://a:1"],"isLearner":true}}"#);
                let change = etcd_data::raft::ConfChange {
                    id: 1,
                    kind: kind as i32,
                    node_id: node as u64,
                    context: context.into(),
                };
                frames.entry(index, 1, &change.encode_to_vec());
            }
            _ => {
                let header = (input.below(2) == 0).then(|| Header {
                    id: 1,
                    username: input.one_of(&["root", "a", "b"]).into(),
                    auth_revision: input.number() as u64,
                });
                let request = Request { id: 0, header, command: Some(command(input)) };
                frames.entry(index, 0, &request.encode_to_vec());
            }
        }
    }
    frames
}

fn command(input: &mut Input<'_>) -> Command {
    match input.below(16) {
        0..=3 => Command::Put(put_request(input)),
        4 | 5 => Command::DeleteRange(delete_request(input)),
        6..=8 => Command::Txn(txn(input, 4)),
        9 => Command::Compaction(CompactionRequest { revision: input.number() }),
        10 => Command::LeaseGrant(LeaseGrantRequest { ttl: input.number(), id: input.number() }),
        11 => Command::LeaseRevoke(LeaseRevokeRequest { id: input.number() }),
        12 => Command::Alarm(AlarmRequest {
            action: input.number() as i32,
            member_id: input.number() as u64,
            alarm: input.number() as i32,
        }),
        13 => Command::LeaseCheckpoint(LeaseCheckpointRequest {
            checkpoints: vec![LeaseCheckpoint { id: input.number(), remaining_ttl: input.number() }],
        }),
        14 => Command::UserAdd(UserAddRequest { name: input.one_of(&["root", "a", ""]).into(), ..Default::default() }),
        _ => match input.below(3) {
            0 => Command::AuthEnable(Empty {}),
            1 => Command::AuthDisable(Empty {}),
            _ => Command::UserGrantRole(UserGrantRoleRequest {
                user: input.one_of(&["root", "a"]).into(),
                role: input.one_of(&["root", "a"]).into(),
            }),
        },
    }
}

fn put_request(input: &mut Input<'_>) -> PutRequest {
    let flags = input.byte();
    PutRequest {
        key: input.key().into(),
        value: input.bytes().into(),
        lease: if flags & 8 > 0 { input.number() } else { 0 },
        prev_kv: flags & 1 > 0,
        ignore_value: flags & 6 == 2,
        ignore_lease: flags & 6 == 4,
    }
}

fn delete_request(input: &mut Input<'_>) -> DeleteRangeRequest {
    let range_end = input.one_of(&[&b""[..], b"\0", b"c", b"z"]);
    DeleteRangeRequest { key: input.key().into(), range_end: range_end.into(), prev_kv: input.below(2) == 0 }
}

fn txn(input: &mut Input<'_>, depth: usize) -> TxnRequest {
    let compare = (0..input.below(3)).map(|_| compare(input)).collect();
    let mut branch = || (0..input.below(5)).map(|_| RequestOp { op: op(input, depth) }).collect();
    TxnRequest { compare, success: branch(), failure: branch() }
}

fn op(input: &mut Input<'_>, depth: usize) -> Option<Op> {
    match input.below(6) {
        0 | 1 => Some(Op::Put(put_request(input))),
        2 => Some(Op::DeleteRange(delete_request(input))),
        3 if depth > 0 => Some(Op::Txn(txn(input, depth - 1))),
        4 => Some(Op::Range(RangeRequest {
            key: input.key().into(),
            range_end: input.bytes().into(),
            revision: input.number(),
        })),
        _ => None,
    }
}

fn compare(input: &mut Input<'_>) -> Compare {
    Compare {
        result: input.below(5) as i32,
        target: input.below(6) as i32,
        key: input.key().into(),
        range_end: input.one_of(&[&b""[..], b"\0", b"c", b"z"]).into(),
        with: match input.below(6) {
            0 => Some(CompareWith::Version(input.number())),
            1 => Some(CompareWith::CreateRevision(input.number())),
            2 => Some(CompareWith::ModRevision(input.number())),
            3 => Some(CompareWith::Value(input.bytes().into())),
            4 => Some(CompareWith::Lease(input.number())),
            _ => None,
        },
    }
}
