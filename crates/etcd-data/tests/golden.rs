//! Every file that a real server wrote for the golden files is to us what that server said of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod truth;

use std::fs::{self, File};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::bolt_file::{BoltFile, check};
use etcd_data::database::Database;
use etcd_data::export::{Against, export};
use etcd_data::tables::{AlarmKind, PermissionKind, Role, Tables};
use serde_json::{Value, json};
use testkit::Golden;
use testkit::fixtures::points;
use truth::{live_keys, require_point};

#[test]
fn every_golden_file_is_what_its_server_said_of_it() {
    let mut hashes = 0;
    for golden in Golden::all() {
        let (db, truth) = (golden.db(), golden.truth());
        let what = format!("{} of {}", golden.case, golden.version);
        let file = BoltFile::open(Arc::new(File::open(&db).unwrap())).unwrap();
        assert_eq!(check(&file, 2).unwrap().findings, [], "{what}");

        let database = Database::open(file).unwrap();
        let compacted = database.tables().compact_revision().unwrap().map_or(-1, |revision| revision.0);
        assert_eq!(compacted, truth["compact_revision"].as_i64().unwrap(), "{what}");
        let live = live_keys(&database, None);
        assert_eq!(live.len() as u64, truth["live_keys"].as_u64().unwrap(), "{what}");
        let leases: Vec<i64> = database.tables().leases().map(|lease| lease.unwrap().id).collect();
        let mut said: Vec<i64> =
            truth["leases"].as_array().unwrap().iter().map(|lease| lease["id"].as_i64().unwrap()).collect();
        said.sort_by_key(|id| id.cast_unsigned());
        assert_eq!(leases, said, "{what}");

        hashes += points(&truth).iter().map(|point| require_point(&database, point, &what)).sum::<usize>();
    }
    assert!(hashes > 100, "{hashes}");
}

#[test]
fn no_golden_file_lacks_a_revision() {
    let folder = tempfile::tempdir().unwrap();
    for golden in Golden::all() {
        let what = format!("{} of {}", golden.case, golden.version);
        let db = golden.db();
        let database = Database::open(BoltFile::open(Arc::new(File::open(&db).unwrap())).unwrap()).unwrap();
        let path = folder.path().join("snapshot.db");
        let exported = export(&database, None, &Against::default(), &path, &mut |_| {}).unwrap();
        assert_eq!(exported.holes, None, "{what}");
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn users_roles_alarms_and_members_are_those_that_the_server_listed() {
    let mut learners = 0;
    for golden in Golden::all() {
        let (db, truth) = (golden.db(), golden.truth());
        let what = format!("{} of {}", golden.case, golden.version);
        let file = BoltFile::open(Arc::new(File::open(&db).unwrap())).unwrap();
        let database = Database::open(file).unwrap();
        let tables = database.tables();
        assert_eq!(users(tables), truth["users"], "{what}");
        assert_eq!(tables.auth_enabled(), golden.case == "auth", "{what}");
        assert_eq!(roles(tables), truth["roles"], "{what}");
        assert_eq!(alarms(tables), sorted(&truth["alarms"], "member_id"), "{what}");
        assert_eq!(members(tables), sorted(&truth["members"], "id"), "{what}");
        learners += tables.members().filter(|member| member.as_ref().unwrap().is_learner).count();
    }
    assert!(learners > 3, "{learners}");
}

/// A list of the truth in the order of the ids in `field`: servers list some things in no order.
fn sorted(list: &Value, field: &str) -> Value {
    let mut list = list.as_array().unwrap().clone();
    list.sort_by_key(|entry| entry[field].as_str().unwrap().to_owned());
    list.into()
}

fn users(tables: &Tables) -> Value {
    let users = tables.users().map(Result::unwrap);
    users.map(|user| json!({"name": String::from_utf8(user.name).unwrap(), "roles": user.roles})).collect()
}

fn roles(tables: &Tables) -> Value {
    let roles = tables.roles().map(Result::unwrap);
    roles
        .map(|role| json!({"permissions": permissions(&role), "name": String::from_utf8(role.name).unwrap()}))
        .collect()
}

fn permissions(role: &Role) -> Value {
    let permission = role.permissions.iter().map(|permission| {
        let kind = match PermissionKind::try_from(permission.kind).unwrap() {
            PermissionKind::Read => "READ",
            PermissionKind::Write => "WRITE",
            PermissionKind::ReadWrite => "READWRITE",
        };
        let [key, range_end] = [&permission.key, &permission.range_end].map(|bytes| BASE64_STANDARD.encode(bytes));
        json!({"type": kind, "key": key, "range_end": range_end})
    });
    permission.collect()
}

fn alarms(tables: &Tables) -> Value {
    let alarms = tables.alarms().map(Result::unwrap).map(|alarm| {
        let kind = match AlarmKind::try_from(alarm.kind).unwrap() {
            AlarmKind::None => "NONE",
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        };
        json!({"member_id": format!("{:x}", alarm.member), "type": kind})
    });
    sorted(&alarms.collect::<Value>(), "member_id")
}

fn members(tables: &Tables) -> Value {
    let members = tables.members().map(Result::unwrap).map(|member| {
        json!({
            "id": format!("{:x}", member.id),
            "name": member.name,
            "peer_urls": member.peer_urls,
            "client_urls": member.client_urls,
            "is_learner": member.is_learner,
        })
    });
    sorted(&members.collect::<Value>(), "id")
}
