//! What is refused while an alarm stands.

use super::*;
use crate::tables::{Alarm, AlarmKind};

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
