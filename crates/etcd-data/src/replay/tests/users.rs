//! Users and roles: who may ask for what, and what asking for them changes.

use super::*;
use crate::tables::{Permission, PermissionKind, Role, User};

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
