//! What comes along beside the keys, and what does not: leases, alarms and users.

use etcd_data::Source;
use etcd_data::restore::Options;
use etcd_data::restore::options::{Alarms, Leases};
use testkit::{Etcd, Member, Version};

use crate::origin::{options, origins, restored};

#[test]
fn leases_go_on_and_can_be_dropped() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        for (leases, expected) in [(Leases::Keep, vec![-5, 77]), (Leases::Drop, vec![])] {
            let folder = origin.folder.path().join(format!("{leases:?}"));
            let member = Member::new(origin.version, folder);
            restored(&source, &Options { leases, ..options(&member) });
            let etcd = member.start();
            let mut found: Vec<i64> = etcd.client().leases().unwrap().iter().map(|lease| lease.id).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{}", origin.version);
            if leases == Leases::Keep {
                etcd.client().revoke(-5).unwrap();
                assert!(etcd.client().get([0, 255, 1]).unwrap().is_none());
            }
        }
    }
}

#[test]
fn an_alarm_for_want_of_space_does_not_come_along() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Etcd::start(version, folder.path().join("origin"));
        let client = etcd.client();
        client.put("a", "1").unwrap();
        let id = client.status().unwrap().member_id;
        client.raise_alarm(id, "NOSPACE").unwrap();
        let stopped = etcd.stop();
        let source = Source::open(stopped.data_dir(), folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));
        let etcd = member.start();
        assert!(etcd.client().alarms().unwrap().is_empty(), "{version}");
        etcd.client().put("b", "1").unwrap();

        let member = Member::new(version, folder.path().join("kept"));
        restored(&source, &Options { alarms: Alarms::Keep, ..options(&member) });
        let etcd = member.start();
        assert_eq!(etcd.client().alarms().unwrap().len(), 1, "{version}");
    }
}

#[test]
fn who_had_to_log_in_has_to_log_in_again() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Etcd::start(version, folder.path().join("origin"));
        let client = etcd.client();
        client.put("/app/a", "1").unwrap();
        for (user, password) in [("root", "root-secret"), ("reader", "reader-secret")] {
            client.user_add(user, password).unwrap();
        }
        client.role_add("readers").unwrap();
        client.role_grant("readers", "READ", "/app/", "/app0").unwrap();
        client.user_grant_role("root", "root").unwrap();
        client.user_grant_role("reader", "readers").unwrap();
        client.auth_enable().unwrap();
        let stopped = etcd.stop();
        let source = Source::open(stopped.data_dir(), folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));

        let etcd = member.start();
        let client = etcd.client();
        let error = client.get("/app/a").unwrap_err();
        assert!(error.message.contains("user name is empty"), "{version}: {error}");
        assert!(client.log_in("reader", "a guess").is_err(), "{version}");
        let reader = client.log_in("reader", "reader-secret").unwrap();
        assert_eq!(reader.get("/app/a").unwrap().unwrap().value, b"1", "{version}");
        let error = reader.put("/app/a", "2").unwrap_err();
        assert!(error.message.contains("permission denied"), "{version}: {error}");
        let root = client.log_in("root", "root-secret").unwrap();
        root.put("/app/a", "2").unwrap();
        assert_eq!(root.roles_of("reader").unwrap(), ["readers"], "{version}");
    }
}
