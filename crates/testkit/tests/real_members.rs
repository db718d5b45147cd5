//! The test bed itself: every version starts, answers, is stopped, killed and started again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use testkit::client::{HashKv, Kv};
use testkit::{ClusterPlan, Compare, Etcd, Member, Op, Txn, Version, fixtures, judges};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn the_same_history_has_the_same_hash_on_every_version() {
    let hashes = Version::ALL.map(|version| {
        let folder = folder();
        let etcd = Etcd::start(version, folder.path().join("data"));
        let client = etcd.client();
        assert!(client.status().unwrap().version.starts_with(version.minor()));

        for number in 0..20 {
            client.put(format!("key-{}", number % 7), [number; 9]).unwrap();
        }
        client.delete("key-3").unwrap();
        client.compact(10).unwrap();
        client.put("after", "").unwrap();
        let HashKv { hash, compact_revision, header_revision, .. } = client.hash_kv(0).unwrap();
        (hash, compact_revision, header_revision)
    });

    assert_eq!(hashes, [hashes[0]; 4]);
    assert_eq!((hashes[0].1, hashes[0].2), (10, 23));
}

#[test]
fn a_snapshot_is_what_the_judges_accept_and_restore() {
    for version in Version::ALL {
        let folder = folder();
        let etcd = Etcd::start(version, folder.path().join("data"));
        let client = etcd.client();
        client.put("a", vec![b'x'; 100_000]).unwrap();
        client.put("b", b"\x00\xff").unwrap();
        let snapshot = folder.path().join("snapshot.db");
        client.snapshot_to(&snapshot).unwrap();

        judges::bbolt_check(&snapshot).unwrap();
        let status = judges::snapshot_status(version, &snapshot).unwrap();
        assert_eq!(status.revision, 3);
        if version >= Version::V36 {
            let live = client.hash_kv(3).unwrap();
            let offline = judges::etcdutl_hashkv(version, &snapshot, 3).unwrap();
            assert_eq!((offline.hash, offline.revision), (live.hash, 3));
        }

        let restored = folder.path().join("restored");
        judges::etcdutl_restore(version, &snapshot, &restored, &[]).unwrap();
        let restored = Etcd::start(version, &restored);
        assert_eq!(restored.client().all(0).unwrap(), client.all(0).unwrap());
    }
}

#[test]
fn damage_is_a_complaint_of_the_judges() {
    let folder = folder();
    let file = folder.path().join("cut.db");
    let whole = fs::read(fixtures::path("openshift/snapshot_2026-11-21_013642.db")).unwrap();
    fs::write(&file, &whole[..30_000]).unwrap();

    assert!(judges::bbolt_check(&file).is_err());
    assert!(judges::snapshot_status(Version::V36, &file).is_err());
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for version in Version::ALL {
        let folder = folder();
        let etcd = Etcd::start(version, folder.path().join("data"));
        let revision = etcd.client().put("k", "v").unwrap();

        let etcd = etcd.kill().start();
        assert_eq!(etcd.client().get("k").unwrap().unwrap().mod_revision, revision);

        let etcd = etcd.stop().start();
        assert_eq!(etcd.client().status().unwrap().revision, revision);
    }
}

#[test]
fn the_client_knows_transactions_leases_ranges_and_alarms() {
    for version in Version::ALL {
        let folder = folder();
        let etcd = Etcd::start(version, folder.path().join("data"));
        let client = etcd.client();

        assert_eq!(client.grant(1000, -7).unwrap(), -7);
        let lock = Txn::new()
            .when(Compare::absent("lock"))
            .then(Op::put_leased("lock", "mine", -7))
            .then(Op::txn(&Txn::new().then(Op::put("z", "1"))))
            .otherwise(Op::delete_range("lock", "m"));
        assert!(client.txn(&lock).unwrap().succeeded);
        let held = Kv {
            key: b"lock".to_vec(),
            value: b"mine".to_vec(),
            create_revision: 2,
            mod_revision: 2,
            version: 1,
            lease: -7,
        };
        assert_eq!(client.get("lock").unwrap(), Some(held));
        let leases = client.leases().unwrap();
        assert_eq!((leases[0].id, leases[0].granted_ttl), (-7, 1000));
        assert_eq!(leases[0].keys, [b"lock"]);

        assert!(!client.txn(&lock).unwrap().succeeded);
        assert_eq!(client.all(0).unwrap().len(), 1);
        assert_eq!(client.all(2).unwrap().len(), 2);
        client.revoke(-7).unwrap();
        assert_eq!(client.leases().unwrap(), []);
        assert_eq!(client.delete_range("a", "zz").unwrap(), 1);

        client.compact(4).unwrap();
        assert_eq!(client.all(2).unwrap_err().code, 11);
        client.defragment().unwrap();

        let member = client.member_list().unwrap()[0].id;
        client.raise_alarm(member, "NOSPACE").unwrap();
        assert!(client.put("a", "b").unwrap_err().message.contains("space"));
        let etcd = etcd.stop().start();
        let client = etcd.client();
        assert_eq!(client.alarms().unwrap()[0].kind, "NOSPACE");
        client.disarm(member, "NOSPACE").unwrap();
        assert_eq!(client.alarms().unwrap(), []);
    }
}

#[test]
fn a_member_with_authentication_lets_its_users_in() {
    for version in Version::ALL {
        let folder = folder();
        let etcd = Etcd::start(version, folder.path().join("data"));
        let client = etcd.client();
        client.user_add("root", "secret").unwrap();
        client.user_grant_role("root", "root").unwrap();
        client.role_add("reader").unwrap();
        client.role_grant("reader", "READ", "a", "b").unwrap();
        client.auth_enable().unwrap();
        assert!(client.put("a", "1").is_err());

        let etcd = etcd.stop().start();
        let root = etcd.client().log_in("root", "secret").unwrap();
        root.put("a", "1").unwrap();
        assert_eq!(root.users().unwrap(), ["root"]);
        assert!(root.roles().unwrap().contains(&"reader".to_owned()));
        assert_eq!(root.roles_of("root").unwrap(), ["root"]);
        assert_eq!(etcd.client().hash_kv(0).unwrap().header_revision, 2);
    }
}

#[test]
fn three_members_elect_lose_one_and_take_it_back() {
    for version in Version::ALL {
        let folder = folder();
        let plan = ClusterPlan::of(3);
        let dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
        let mut cluster = plan.start(version, &dirs);
        cluster.client().put("a", "1").unwrap();

        let lost = cluster.members.remove(1).kill();
        // The survivors may have to elect first.
        let put = (0..20).any(|_| cluster.client().put("a", "2").is_ok());
        assert!(put, "two of three members can still write");
        cluster.members.push(lost.start());

        let values: Vec<_> = cluster.members.iter().map(|etcd| etcd.client().get("a").unwrap()).collect();
        assert_eq!(values[0].as_ref().unwrap().value, b"2");
        assert_eq!(values, vec![values[0].clone(); 3]);
        assert_eq!(cluster.client().member_list().unwrap().len(), 3);
    }
}

#[test]
fn a_member_that_cannot_start_says_why() {
    let folder = folder();
    let failure = Member::new(Version::V36, folder.path().join("data")).flag("--no-such-flag").try_start().unwrap_err();
    assert!(failure.ended.is_some());
    assert!(failure.log.contains("no-such-flag"));

    let two_of_three = "default=http://127.0.0.1:1,other=http://127.0.0.1:2";
    let failure = Member::new(Version::V36, folder.path().join("data"))
        .initial_cluster(two_of_three)
        .flag("--initial-advertise-peer-urls=http://127.0.0.1:1")
        .ready_within(Duration::from_secs(2))
        .try_start()
        .unwrap_err();
    assert_eq!(failure.ended, None, "{failure}");
}

#[test]
fn the_fixtures_start_and_agree_with_their_truth() {
    for name in fixtures::DATA_DIRS {
        let truth = fixtures::data_dir_truth(name);
        let folder = fixtures::data_dir(name);
        let version = Version::ALL.into_iter().find(|version| name.starts_with(version.minor())).unwrap();
        let etcd = Etcd::start(version, folder.path());
        let client = etcd.client();

        let after = &truth["after_restart_of_a_copy"];
        assert_eq!(client.status().unwrap().revision, after["revision"].as_i64().unwrap(), "{name}");
        for point in fixtures::points(&truth) {
            let live = client.all(point.revision).unwrap();
            assert_eq!(live.len(), point.key_count, "{name}");
            assert_eq!(fixtures::keys_sha256(&live), point.keys_sha256, "{name}");
            let hash = client.hash_kv(point.revision).unwrap();
            let known = point.hashes.iter().find(|known| known.compact_revision == hash.compact_revision);
            assert_eq!(known.unwrap().hash, hash.hash, "{name}");
        }
    }
}
