use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use prost::Message;
use prost::bytes::Bytes;

use super::*;
use crate::database::{Direction, RevisionRange};
use crate::key_value::KeyValue;
use crate::raft::ConfChangeKind;
use crate::records::{Records, TailRecord};
use crate::request::*;
use crate::revision::RevKey;
use crate::tables::{Alarm, AlarmKind, Lease, LeaseId, Permission, PermissionKind, Role, User};
use crate::wal::{Entries, Fault, Log};

/// A small member whose requests are written as they come to mind; keys `a` to `c` were put at revisions 2 to 4,
/// `c` on lease 7.
struct Scene {
    tables: Tables,
    entries: Vec<Entry>,
}

impl Scene {
    fn new() -> Scene {
        let mut tables = Tables::default();
        tables.set_consistent_index(10);
        tables.put_lease(&Lease { id: 7, ttl_seconds: 60, remaining_seconds: 0 });
        Scene { tables, entries: Vec::new() }
    }

    fn asks(&mut self, command: Command) -> &mut Scene {
        self.asks_as("", 0, command)
    }

    fn asks_as(&mut self, username: &str, auth_revision: u64, command: Command) -> &mut Scene {
        let header = Some(Header { id: 1, username: username.into(), auth_revision });
        let request = Request { id: 0, header, command: Some(command) };
        self.entry(EntryKind::Normal, request.encode_to_vec())
    }

    fn changes_members(&mut self, kind: ConfChangeKind, node_id: u64, context: &str) -> &mut Scene {
        let context = Bytes::copy_from_slice(context.as_bytes());
        let change = ConfChange { id: 0, kind: kind as i32, node_id, context };
        self.entry(EntryKind::ConfChange, change.encode_to_vec())
    }

    fn entry(&mut self, kind: EntryKind, data: Vec<u8>) -> &mut Scene {
        let index = 11 + self.entries.len() as u64;
        self.entries.push(Entry { kind: kind as i32, term: 3, index, data: Bytes::from(data) });
        self
    }

    fn result(&self) -> Result<Replayed, ReplayError> {
        self.result_of(Arc::new(Counted { entries: self.entries.clone(), read: AtomicUsize::new(0) }))
    }

    fn result_of(&self, entries: Arc<Counted>) -> Result<Replayed, ReplayError> {
        let mut interest = Interest::of(&*entries, &self.tables)?;
        // As the one with the database does: what hangs on leases first.
        if interest.wants_lease(LeaseId(7)) {
            interest.add_key(b"c");
        }
        let mut rows = Rows::default();
        let mut before = Vec::new();
        for (main, key, lease) in [(2, "a", 0), (3, "b", 0), (4, "c", 7)] {
            let at = RevKey { main: Revision(main), sub: 0, tombstone: false };
            let record = KeyValue {
                key: key.as_bytes(),
                create_revision: at.main,
                mod_revision: at.main,
                version: 1,
                value: b"old",
                lease: LeaseId(lease),
            };
            if let Some(sighting) = interest.sight(at, &record) {
                rows.note(sighting);
            }
            let mut value = Vec::new();
            record.encode(&mut value);
            before.push(TailRecord { at, value });
        }
        let database = Database::empty(self.tables.clone()).followed_by(RevisionRange::ALL, Arc::new(before));
        let pending = Pending { conf_state: ConfState::of_voters(vec![1]), entries, uncommitted: 0 };
        replay(&database, rows, pending)
    }

    fn done(&self) -> Replayed {
        self.result().unwrap()
    }

    /// The new records: `revision/sub key=value` with what else is not as for a new key, deletions as `key` alone.
    fn records(&self) -> Vec<String> {
        let show = |record: &TailRecord| {
            let kv = KeyValue::parse(&record.value).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            if record.at.tombstone {
                return format!("{} {}", record.at, text(kv.key));
            }
            assert_eq!(kv.mod_revision, record.at.main);
            let mut shown = format!("{} {}={}", record.at, text(kv.key), text(kv.value));
            if kv.create_revision != record.at.main || kv.version != 1 {
                shown += &format!(" created {} version {}", kv.create_revision, kv.version);
            }
            if kv.lease != LeaseId(0) {
                shown += &format!(" lease {}", kv.lease.0);
            }
            shown
        };
        all(&self.done().records).iter().map(show).collect()
    }
}

/// Entries in memory, and how often one was read.
struct Counted {
    entries: Vec<Entry>,
    read: AtomicUsize,
}

impl Entries for Counted {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn read(&self, number: usize) -> Result<Entry, WalError> {
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(self.entries[number].clone())
    }
}

fn all(tail: &Tail) -> Vec<TailRecord> {
    let mut found = Vec::new();
    let mut note = |at, value: &[u8]| {
        found.push(TailRecord { at, value: value.to_vec() });
        Ok(ControlFlow::Continue(()))
    };
    tail.read(Direction::Forwards, &mut note).unwrap();
    found
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: Bytes::from(key.to_owned()), value: Bytes::from(value.to_owned()), ..PutRequest::default() }
}

fn delete(key: &str, end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: Bytes::from(key.to_owned()), range_end: Bytes::from(end.to_owned()), prev_kv: false }
}

fn op(op: Op) -> RequestOp {
    RequestOp { op: Some(op) }
}

fn compare(key: &str, end: &str, result: CompareResult, with: CompareWith) -> Compare {
    let target = match with {
        CompareWith::Version(_) => CompareTarget::Version,
        CompareWith::CreateRevision(_) => CompareTarget::Create,
        CompareWith::ModRevision(_) => CompareTarget::Mod,
        CompareWith::Value(_) => CompareTarget::Value,
        CompareWith::Lease(_) => CompareTarget::Lease,
    };
    Compare {
        result: result as i32,
        target: target as i32,
        key: Bytes::from(key.to_owned()),
        range_end: Bytes::from(end.to_owned()),
        with: Some(with),
    }
}

#[test]
fn values_stay_in_the_log_and_are_read_when_they_are_asked_for() {
    let mut scene = Scene::new();
    let keep = PutRequest { ignore_value: true, ..put("x", "") };
    let success = ["x", "y", "z"].map(|key| op(Op::Put(put(key, &format!("{key} in one entry")))));
    scene.asks(Command::Txn(TxnRequest { success: success.into(), ..TxnRequest::default() }));
    scene.asks(Command::Put(put("x", "in another")));
    scene.asks(Command::DeleteRange(delete("y", "")));
    scene.asks(Command::Put(keep));
    let counted = Arc::new(Counted { entries: scene.entries.clone(), read: AtomicUsize::new(0) });
    let tail = scene.result_of(Arc::clone(&counted)).unwrap().records;
    let read = || counted.read.swap(0, Ordering::Relaxed);
    read();

    let last = RevKey { main: Revision(8), sub: 0, tombstone: false };
    assert_eq!((tail.len(), tail.last().unwrap(), read()), (6, Some(last), 0));
    let records = all(&tail);
    // Neighbours of one entry take one look, and so do the two that have the value of another; deletions take none.
    assert_eq!((records.len(), read()), (6, 2));
    for record in &records {
        assert_eq!(tail.find(record.at).unwrap().as_ref(), Some(&record.value));
        assert_eq!(read(), usize::from(!record.at.tombstone));
    }
    assert_eq!(tail.find(RevKey { tombstone: true, ..last }).unwrap(), None);
    assert_eq!(KeyValue::parse(&records[5].value).unwrap().value, b"in another");
}

#[test]
fn puts_and_deletions_go_on_from_what_is_there() {
    let mut scene = Scene::new();
    scene.asks(Command::Put(put("a", "1")));
    scene.asks(Command::Put(put("z", "2")));
    scene.asks(Command::DeleteRange(delete("a", "c")));
    scene.asks(Command::Put(put("a", "3")));
    scene.asks(Command::DeleteRange(delete("b", "")));
    assert_eq!(scene.records(), ["5/0 a=1 created 2 version 2", "6/0 z=2", "7/0t a", "7/1t b", "8/0 a=3"]);
    // The last deletion hit nothing and made no revision, but was applied.
    let done = scene.done();
    assert_eq!((done.revision, done.tables.consistent_index()), (Revision(8), Ok(Some(15))));
}

#[test]
fn a_put_may_keep_the_value_or_the_lease_of_a_key_that_is_there() {
    let mut scene = Scene::new();
    scene.asks(Command::Put(PutRequest { ignore_lease: true, ..put("c", "new") }));
    scene.asks(Command::Put(PutRequest { ignore_value: true, ..put("c", "") }));
    scene.asks(Command::Put(PutRequest { ignore_value: true, lease: 7, ..put("b", "") }));
    scene.asks(Command::Put(PutRequest { ignore_value: true, ..put("x", "") }));
    scene.asks(Command::Put(PutRequest { lease: 8, ..put("x", "no such lease") }));
    assert_eq!(
        scene.records(),
        [
            "5/0 c=new created 4 version 2 lease 7",
            "6/0 c=new created 4 version 3",
            "7/0 b=old created 3 version 2 lease 7",
        ]
    );
}

#[test]
fn a_condition_holds_if_all_keys_of_its_range_meet_it() {
    use CompareResult::{Equal, Greater, Less, NotEqual};
    let value = |value: &'static str| CompareWith::Value(Bytes::from(value));
    let cases = [
        (compare("a", "", Equal, CompareWith::ModRevision(2)), true),
        (compare("a", "", Greater, CompareWith::ModRevision(2)), false),
        (compare("a", "d", Greater, CompareWith::CreateRevision(1)), true),
        (compare("a", "d", Greater, CompareWith::CreateRevision(2)), false),
        (compare("a", "\0", Less, CompareWith::Version(2)), true),
        (compare("c", "", Equal, CompareWith::Lease(7)), true),
        (compare("b", "\0", Equal, CompareWith::Lease(7)), false),
        (compare("a", "c", Equal, value("old")), true),
        (compare("a", "c", NotEqual, value("older")), true),
        (compare("a", "c", Less, value("p")), true),
        // A key that is not there compares as zeros, but its value as nothing at all.
        (compare("x", "", Equal, CompareWith::Version(0)), true),
        (compare("x", "", Less, CompareWith::ModRevision(1)), true),
        (compare("x", "", NotEqual, value("v")), false),
        // A number of another kind counts as zero.
        (Compare { target: CompareTarget::Mod as i32, ..compare("a", "", Greater, CompareWith::Version(9)) }, true),
    ];
    for (compare, holds) in cases {
        let mut scene = Scene::new();
        let (success, failure) = (vec![op(Op::Put(put("k", "yes")))], vec![op(Op::Put(put("k", "no")))]);
        scene.asks(Command::Txn(TxnRequest { compare: vec![compare.clone()], success, failure }));
        assert_eq!(scene.records(), [if holds { "5/0 k=yes" } else { "5/0 k=no" }], "{compare:?}");
    }
}

#[test]
fn transactions_within_transactions_are_decided_on_the_state_before() {
    let inner = TxnRequest {
        compare: vec![compare("a", "", CompareResult::Equal, CompareWith::Value(Bytes::from("old")))],
        success: vec![op(Op::Put(put("seen", "old"))), op(Op::DeleteRange(delete("b", "")))],
        failure: vec![op(Op::Put(put("seen", "new")))],
    };
    let mut scene = Scene::new();
    let success = vec![op(Op::Put(put("a", "new"))), op(Op::Txn(inner)), op(Op::Put(put("b", "again")))];
    scene.asks(Command::Txn(TxnRequest { success, ..TxnRequest::default() }));
    assert_eq!(scene.records(), ["5/0 a=new created 2 version 2", "5/1 seen=old", "5/2t b", "5/3 b=again"]);
}

#[test]
fn a_transaction_with_one_step_that_fails_does_nothing() {
    let read = |revision| op(Op::Range(RangeRequest { revision, ..RangeRequest::default() }));
    let nested = |step: RequestOp| op(Op::Txn(TxnRequest { success: vec![step], ..TxnRequest::default() }));
    let cases = [
        (op(Op::Put(PutRequest { lease: 9, ..put("y", "") })), false),
        (op(Op::Put(PutRequest { ignore_value: true, ..put("y", "") })), false),
        (nested(read(99)), false),
        (nested(read(4)), true),
        // Nobody waits for the answers of a member that starts, so a read that could not be answered is dropped.
        (read(99), true),
    ];
    for (step, succeeds) in cases {
        let mut scene = Scene::new();
        scene.asks(Command::Txn(TxnRequest {
            success: vec![op(Op::Put(put("k", "v"))), step],
            ..TxnRequest::default()
        }));
        assert_eq!(scene.done().records.len(), usize::from(succeeds));
    }
}

#[test]
fn a_transaction_that_only_reads_or_hits_nothing_makes_no_revision() {
    let mut scene = Scene::new();
    let success = vec![op(Op::DeleteRange(delete("x", "\0"))), RequestOp { op: None }];
    scene.asks(Command::Txn(TxnRequest { success, ..TxnRequest::default() }));
    assert_eq!((scene.done().revision, scene.records().len()), (Revision(4), 0));
}

#[test]
fn the_end_of_a_lease_deletes_what_hangs_on_it_in_the_order_of_keys() {
    let mut scene = Scene::new();
    scene.asks(Command::LeaseGrant(LeaseGrantRequest { ttl: 1, id: -5 }));
    for key in ["z", "m", "a"] {
        scene.asks(Command::Put(PutRequest { lease: -5, ..put(key, "") }));
    }
    scene.asks(Command::Put(put("m", "left")));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: -5 }));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }));
    assert_eq!(scene.records()[4..], ["9/0t a", "9/1t z", "10/0t c"]);
    assert_eq!(scene.done().tables.leases().count(), 0);
}

#[test]
fn a_lease_is_granted_once_and_not_for_too_short_a_time() {
    let mut scene = Scene::new();
    for (id, ttl) in [(7, 90), (0, 90), (9, 9_000_000_001), (8, -1), (10, 90)] {
        scene.asks(Command::LeaseGrant(LeaseGrantRequest { ttl, id }));
    }
    let leases: Vec<(i64, i64)> =
        scene.done().tables.leases().map(|lease| lease.map(|lease| (lease.id, lease.ttl_seconds)).unwrap()).collect();
    assert_eq!(leases, [(7, 60), (8, 2), (10, 90)]);
}

#[test]
fn what_a_lease_has_left_is_kept_from_cluster_version_3_6_on() {
    for (version, expected) in [("3.5.0", 0), ("3.6.0", 33), ("3.10.0", 33)] {
        let mut scene = Scene::new();
        scene.asks(Command::ClusterVersionSet(ClusterVersionSetRequest { version: version.into() }));
        let checkpoints =
            vec![LeaseCheckpoint { id: 7, remaining_ttl: 33 }, LeaseCheckpoint { id: 99, remaining_ttl: 1 }];
        scene.asks(Command::LeaseCheckpoint(LeaseCheckpointRequest { checkpoints }));
        let lease = scene.done().tables.lease(LeaseId(7)).unwrap().unwrap();
        assert_eq!(lease.remaining_seconds, expected, "{version}");
    }
}

#[test]
fn a_compaction_is_marked_as_begun_where_it_is_possible() {
    let mut scene = Scene::new();
    scene.asks(Command::Compaction(CompactionRequest { revision: 5 }));
    assert_eq!(scene.done().tables.compact_revision(), Ok(None));
    scene.asks(Command::Compaction(CompactionRequest { revision: 3 }));
    scene.asks(Command::Compaction(CompactionRequest { revision: 2 }));
    let tables = scene.done().tables;
    assert_eq!(tables.scheduled_compaction(), Ok(Some(Revision(3))));
    assert_eq!(tables.finished_compaction(), Ok(None));
}

#[test]
fn alarms_forbid_what_could_do_harm() {
    let alarm = |action, alarm: AlarmKind| {
        Command::Alarm(AlarmRequest { action: action as i32, member_id: 1, alarm: alarm as i32 })
    };
    let mut scene = Scene::new();
    scene.asks(alarm(AlarmAction::Activate, AlarmKind::NoSpace));
    scene.asks(Command::Put(put("a", "refused")));
    scene.asks(Command::LeaseGrant(LeaseGrantRequest { ttl: 9, id: 8 }));
    let puts = TxnRequest { failure: vec![op(Op::Put(put("x", "")))], ..TxnRequest::default() };
    scene.asks(Command::Txn(TxnRequest { success: vec![op(Op::Txn(puts.clone()))], ..puts }));
    scene.asks(Command::DeleteRange(delete("b", "")));
    scene.asks(alarm(AlarmAction::Activate, AlarmKind::Corrupt));
    scene.asks(Command::DeleteRange(delete("a", "")));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }));
    assert_eq!(scene.records(), ["5/0t b"]);
    let standing: Vec<Alarm> = scene.done().tables.alarms().map(Result::unwrap).collect();
    assert_eq!(standing.len(), 2);

    scene.asks(alarm(AlarmAction::Deactivate, AlarmKind::Corrupt));
    scene.asks(alarm(AlarmAction::Deactivate, AlarmKind::NoSpace));
    scene.asks(Command::Put(put("a", "taken")));
    assert_eq!(scene.records(), ["5/0t b", "6/0 a=taken created 2 version 2"]);
}

#[test]
fn a_put_within_a_nested_transaction_is_in_doubt_while_there_is_no_space() {
    for (version, is_carried_out, is_in_doubt) in
        [("3.4.0", true, false), ("3.5.0", true, true), ("3.6.0", false, true)]
    {
        let mut scene = Scene::new();
        scene.asks(Command::ClusterVersionSet(ClusterVersionSetRequest { version: version.into() }));
        scene.tables.put_alarm(Alarm { member: 1, kind: AlarmKind::NoSpace as i32 });
        let inner = TxnRequest { success: vec![op(Op::Put(put("x", "")))], ..TxnRequest::default() };
        scene.asks(Command::Txn(TxnRequest { success: vec![op(Op::Txn(inner))], ..TxnRequest::default() }));
        let done = scene.done();
        assert_eq!(!done.records.is_empty(), is_carried_out, "{version}");
        assert_eq!(done.in_doubt, if is_in_doubt { vec![12] } else { vec![] }, "{version}");
    }
}

/// Users `root`, and `u` with a role that may write `a` to `c` in two parts, and read `m`.
fn with_users(scene: &mut Scene) {
    let permission = |kind: PermissionKind, key: &str, end: &str| Permission {
        kind: kind as i32,
        key: key.into(),
        range_end: end.into(),
    };
    let user = |name: &str, role: &str| User {
        name: name.into(),
        password_hash: b"hash".to_vec(),
        roles: vec![role.into()],
        options: None,
    };
    scene.tables.put_user(&user("root", "root"));
    scene.tables.put_user(&user("u", "r"));
    let permissions = vec![
        permission(PermissionKind::Write, "a", "b"),
        permission(PermissionKind::Write, "b", "d"),
        permission(PermissionKind::Read, "m", ""),
    ];
    scene.tables.put_role(&Role { name: b"r".to_vec(), permissions });
    scene.tables.set_auth_revision(5);
    scene.tables.set_auth_enabled(true);
}

#[test]
fn who_asked_must_be_allowed_to_when_the_entry_is_applied() {
    let cases: [(&str, u64, Command, bool); 14] = [
        ("u", 5, Command::Put(put("a", "")), true),
        ("u", 6, Command::Put(put("a", "")), true),
        ("u", 4, Command::Put(put("a", "")), false),
        ("u", 0, Command::Put(put("a", "")), false),
        ("", 5, Command::Put(put("a", "")), false),
        ("nobody", 5, Command::Put(put("a", "")), false),
        ("u", 5, Command::Put(put("d", "")), false),
        ("root", 5, Command::Put(put("d", "")), true),
        ("u", 5, Command::Put(PutRequest { prev_kv: true, ..put("a", "") }), false),
        ("u", 5, Command::DeleteRange(delete("a", "d")), true),
        ("u", 5, Command::DeleteRange(delete("a", "e")), false),
        ("u", 5, Command::DeleteRange(delete("a", "\0")), false),
        ("u", 5, Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }), true),
        ("root", 5, Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }), true),
    ];
    for (user, revision, command, allowed) in cases {
        let mut scene = Scene::new();
        with_users(&mut scene);
        scene.asks_as(user, revision, command.clone());
        assert_eq!(!scene.done().records.is_empty(), allowed, "{user} {revision} {command:?}");
    }
}

#[test]
fn all_of_a_transaction_must_be_allowed_whichever_branch_is_taken() {
    let read = |key: &str| op(Op::Range(RangeRequest { key: Bytes::from(key.to_owned()), ..RangeRequest::default() }));
    let nested = |step| op(Op::Txn(TxnRequest { success: vec![step], ..TxnRequest::default() }));
    let on = |key| vec![compare(key, "", CompareResult::Equal, CompareWith::Version(0))];
    let cases = [
        (TxnRequest { compare: on("m"), ..TxnRequest::default() }, true),
        (TxnRequest { compare: on("n"), ..TxnRequest::default() }, false),
        (TxnRequest { failure: vec![op(Op::Put(put("x", "")))], ..TxnRequest::default() }, false),
        (TxnRequest { failure: vec![nested(read("m"))], ..TxnRequest::default() }, true),
        (TxnRequest { failure: vec![nested(read("n"))], ..TxnRequest::default() }, false),
        (TxnRequest { failure: vec![read("n")], ..TxnRequest::default() }, true),
    ];
    for (mut txn, allowed) in cases {
        let mut scene = Scene::new();
        with_users(&mut scene);
        txn.success.push(op(Op::Put(put("a", "done"))));
        scene.asks_as("u", 5, Command::Txn(txn.clone()));
        assert_eq!(!scene.done().records.is_empty(), allowed, "{txn:?}");
    }
}

#[test]
fn a_lease_with_a_key_that_one_may_not_write_is_out_of_reach() {
    let mut scene = Scene::new();
    with_users(&mut scene);
    scene.asks_as("root", 5, Command::Put(PutRequest { lease: 7, ..put("x", "") }));
    scene.asks_as("u", 5, Command::Put(PutRequest { lease: 7, ..put("a", "") }));
    scene.asks_as("u", 5, Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }));
    assert_eq!(scene.records(), ["5/0 x= lease 7"]);
}

#[test]
fn administration_needs_root_and_counts_the_revision_on() {
    let mut scene = Scene::new();
    with_users(&mut scene);
    let add = |name: &str| {
        let hashed_password = "aGFzaA==".into();
        Command::UserAdd(UserAddRequest { name: name.into(), hashed_password, ..UserAddRequest::default() })
    };
    let grant =
        |user: &str, role: &str| Command::UserGrantRole(UserGrantRoleRequest { user: user.into(), role: role.into() });
    scene.asks_as("u", 5, add("refused"));
    scene.asks_as("root", 5, add("v"));
    scene.asks_as("root", 6, add("v"));
    scene.asks_as("root", 6, grant("v", "r"));
    scene.asks_as("root", 7, grant("v", "r"));
    scene.asks_as("root", 7, grant("v", "no such role"));
    scene.asks_as("v", 7, Command::Put(put("a", "allowed")));
    scene.asks_as("root", 7, Command::RoleDelete(RoleDeleteRequest { role: "r".into() }));
    scene.asks_as("v", 8, Command::Put(put("a", "not any more")));
    scene.asks_as("root", 8, Command::UserDelete(UserDeleteRequest { name: "root".into() }));

    let tables = scene.done().tables;
    assert_eq!(tables.auth_revision(), Ok(Some(8)));
    let user = tables.user(b"v").unwrap().unwrap();
    assert_eq!((user.password_hash, user.roles), (b"hash".to_vec(), vec![]));
    assert!(tables.user(b"refused").unwrap().is_none() && tables.user(b"root").unwrap().is_some());
    assert_eq!(scene.records(), ["5/0 a=allowed created 2 version 2"]);
}

#[test]
fn permissions_are_kept_sorted_and_replaced_by_range() {
    let mut scene = Scene::new();
    let grant = |kind: PermissionKind, key: &str, end: &str| {
        let permission = Some(Permission { kind: kind as i32, key: key.into(), range_end: end.into() });
        Command::RoleGrantPermission(RoleGrantPermissionRequest { name: "r".into(), permission })
    };
    scene.asks(Command::RoleAdd(RoleAddRequest { name: "r".into() }));
    scene.asks(grant(PermissionKind::Read, "m", ""));
    scene.asks(grant(PermissionKind::Write, "a", "c"));
    scene.asks(grant(PermissionKind::ReadWrite, "m", ""));
    scene.asks(grant(PermissionKind::Read, "m", "a"));
    let revoke = |key: &str, end: &str| RoleRevokePermissionRequest {
        role: "r".into(),
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
    };
    scene.asks(Command::RoleRevokePermission(revoke("a", "")));
    let role = scene.done().tables.role(b"r").unwrap().unwrap();
    let shown: Vec<(i32, &[u8])> = role.permissions.iter().map(|known| (known.kind, &known.key[..])).collect();
    assert_eq!(shown, [(1, &b"a"[..]), (2, b"m")]);
    assert_eq!(scene.done().tables.auth_revision(), Ok(Some(4)));

    scene.asks(Command::RoleRevokePermission(revoke("a", "c")));
    assert_eq!(scene.done().tables.role(b"r").unwrap().unwrap().permissions.len(), 1);
}

#[test]
fn authentication_is_turned_on_only_with_a_root_to_turn_it_off() {
    let mut scene = Scene::new();
    scene.asks(Command::AuthEnable(Empty {}));
    assert!(!scene.done().tables.auth_enabled());

    let mut scene = Scene::new();
    let user = UserAddRequest { name: "root".into(), password: "plain".into(), ..UserAddRequest::default() };
    scene.asks(Command::UserAdd(user));
    let grant = UserGrantRoleRequest { user: "root".into(), role: "root".into() };
    scene.asks(Command::UserGrantRole(grant));
    scene.asks(Command::AuthEnable(Empty {}));
    scene.asks(Command::Put(put("a", "refused")));
    let done = scene.done();
    assert!(done.tables.auth_enabled() && done.records.is_empty());
    assert_eq!(done.lost_passwords, ["root"]);

    scene.asks_as("root", 2, Command::AuthDisable(Empty {}));
    scene.asks(Command::Put(put("a", "taken")));
    let done = scene.done();
    assert_eq!((done.tables.auth_enabled(), done.tables.auth_revision(), done.records.len()), (false, Ok(Some(3)), 1));
}

#[test]
fn members_come_and_go() {
    let mut scene = Scene::new();
    scene.tables.set_term(Some(2));
    let id = u64::MAX - 1;
    let add = format!(r#"{{"id":{id},"peerURLs":["http://b:1"],"isLearner":true,"isPromote":false}}"#);
    scene.changes_members(ConfChangeKind::AddLearnerNode, id, &add);
    let tables = scene.done().tables;
    assert_eq!(tables.conf_state().unwrap().unwrap().learners, [id]);

    let promote = format!(r#"{{"id":{id},"peerURLs":["http://b:1"],"isPromote":true}}"#);
    scene.changes_members(ConfChangeKind::AddNode, id, &promote);
    let attributes = Some(MemberAttributes { name: "b".into(), client_urls: vec!["http://b:2".into()] });
    scene.asks(Command::MemberAttributesSet(MemberAttributesSetRequest { member_id: id, attributes }));
    scene.changes_members(ConfChangeKind::UpdateNode, id, &format!(r#"{{"id":{id},"peerURLs":["http://b:9"]}}"#));
    let tables = scene.done().tables;
    let member = tables.member(crate::MemberId(id)).unwrap().unwrap();
    assert_eq!(
        (member.is_learner, member.name.as_str(), &member.peer_urls[..]),
        (false, "b", &["http://b:9".to_owned()][..])
    );
    assert_eq!(tables.conf_state().unwrap().unwrap().voters, [1, id]);

    scene.changes_members(ConfChangeKind::RemoveNode, id, "");
    scene.changes_members(ConfChangeKind::AddLearnerNode, id, &add);
    let tables = scene.done().tables;
    assert_eq!((tables.members().count(), tables.removed_members().count()), (0, 1));
    assert_eq!(tables.conf_state().unwrap().unwrap(), ConfState::of_voters(vec![1]));
    assert_eq!(tables.term(), Ok(Some(3)));
}

#[test]
fn a_database_of_3_4_gets_nothing_that_3_4_does_not_know() {
    let mut scene = Scene::new();
    let v2 =
        |path: &str, value: &str| V2Request { id: 1, method: "PUT".into(), path: path.into(), value: value.into() };
    scene.changes_members(ConfChangeKind::AddNode, 0xab, r#"{"id":171,"peerURLs":["http://a:1"],"isPromote":false}"#);
    scene.entry(
        EntryKind::Normal,
        v2("/0/members/ab/attributes", r#"{"name":"m","clientURLs":["http://a:2"]}"#).encode_to_vec(),
    );
    scene.entry(EntryKind::Normal, v2("/0/version", "3.4.0").encode_to_vec());
    scene.entry(EntryKind::Normal, v2("/1/a/users/key", "anything").encode_to_vec());
    let tables = scene.done().tables;
    assert_eq!((tables.term(), tables.conf_state()), (Ok(None), Ok(None)));
    assert_eq!(tables.cluster_version(), Ok(Some("3.4.0".into())));
    assert_eq!(tables.member(crate::MemberId(0xab)).unwrap().unwrap().name, "m");
    assert_eq!(tables.consistent_index(), Ok(Some(14)));
}

#[test]
fn an_entry_that_cannot_be_understood_stops() {
    let mut scene = Scene::new();
    scene.entry(EntryKind::Normal, vec![0xff, 0xff]);
    assert!(matches!(scene.result(), Err(ReplayError::Entry { index: 11 })));

    let mut scene = Scene::new();
    // Field 1400, as some later version may have it.
    scene.entry(EntryKind::Normal, vec![8, 1, 0xc2, 0x57, 0]);
    assert!(matches!(scene.result(), Err(ReplayError::UnknownRequest { index: 11 })));

    let mut scene = Scene::new();
    scene.changes_members(ConfChangeKind::AddNode, 5, "{}");
    assert!(matches!(scene.result(), Err(ReplayError::Entry { index: 11 })));
}

mod of_a_log {
    use super::*;
    use crate::member_id::MemberId;
    use crate::tables::Member;
    use crate::wal::{fresh_log, read_segment};

    fn log(names: &[&str]) -> Log<Vec<u8>> {
        let member = |name: &&str| {
            let peer_urls = vec![format!("http://{name}:1")];
            let id = MemberId::of(&peer_urls, "t").0;
            Member { id, peer_urls, is_learner: false, name: name.to_string(), client_urls: vec![] }
        };
        let mut members: Vec<Member> = names.iter().map(member).collect();
        members.sort_by_key(|member| member.id);
        read_segment(fresh_log(MemberId(members[0].id), &members)).unwrap()
    }

    #[test]
    fn a_single_voter_has_all_of_its_log_and_others_what_is_committed() {
        for (names, expected) in [(&["a"][..], (1, 0)), (&["a", "b", "c"][..], (2, 1))] {
            let mut log = log(names);
            let conf_state = conf_state_at(&log, &[], log.last_index()).unwrap().unwrap();
            assert_eq!(conf_state.voters.len(), names.len());
            log.hard_state.commit -= 1;
            let pending = Pending::read(&log, 0, conf_state).unwrap();
            assert_eq!((pending.len(), pending.uncommitted), expected);
        }
    }

    #[test]
    fn a_database_that_does_not_fit_the_log_is_told() {
        let log = log(&["a", "b", "c"]);
        let ahead = Pending::read(&log, 4, ConfState::default());
        assert!(matches!(ahead, Err(ReplayError::DatabaseAhead { applied: 4, last: 3 })));
        assert!(Pending::read(&log, 3, ConfState::default()).unwrap().is_empty());
    }

    #[test]
    fn a_damaged_log_is_not_carried_out() {
        let member = Member {
            id: 5,
            peer_urls: vec!["http://a:1".into()],
            is_learner: false,
            name: "a".into(),
            client_urls: vec![],
        };
        let mut bytes = fresh_log(MemberId(5), &[member]);
        bytes[120] ^= 1;
        let log = read_segment(bytes).unwrap();
        assert_eq!(log.tail, crate::wal::Tail::Damaged);
        let Err(ReplayError::Damaged(finding)) = Pending::read(&log, 0, ConfState::default()) else {
            panic!("carried out")
        };
        assert!(matches!(finding.fault, Fault::Checksum { .. }));
    }
}
