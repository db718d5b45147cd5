//! Transactions: on which condition, in which order, and when nothing of them is done.

use super::*;

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
