//! Users, passwords and tokens with real servers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use etcd_rpc::{Access, Event, Fault, Login, May, Member, PutRequest};
use testkit::{Etcd, Version};

/// A server that asks for users: `root`, and `reader` who may read what begins with `r`.
async fn with_users(version: Version) -> (tempfile::TempDir, Etcd) {
    let folder = tempfile::tempdir().unwrap();
    let etcd = testkit::Member::new(version, folder.path().join("data")).without_fsync().start();
    let member = Member::new(etcd.client_url().parse().unwrap(), &Access::default());
    match member.auth_status().await {
        Ok(status) => assert!(!status.is_enabled),
        Err(error) => assert_eq!((error.fault, version), (Fault::Unsupported, Version::V34)),
    }
    for (user, password) in [("root", "secret"), ("reader", "books")] {
        member.add_user(user, password).await.unwrap();
        if user == "reader" {
            member.add_role(user).await.unwrap();
        } else {
            // Which role there already is depends on the version.
            let _ = member.add_role(user).await;
        }
        member.grant_role(user, user).await.unwrap();
    }
    member.grant_permission("reader", May::Read, "r", "s").await.unwrap();
    member.enable_auth().await.unwrap();
    (folder, etcd)
}

fn as_user(etcd: &Etcd, user: &str, password: &str) -> Member {
    let login = Some(Login::new(user, password));
    Member::new(etcd.client_url().parse().unwrap(), &Access { login, ..Access::default() })
}

fn put(key: &'static str) -> PutRequest {
    PutRequest { key: key.into(), ..PutRequest::default() }
}

#[tokio::test]
async fn who_may_do_what() {
    for version in Version::ALL {
        let (_folder, etcd) = with_users(version).await;
        let root = as_user(&etcd, "root", "secret");
        root.authenticate().await.unwrap();
        root.put(put("r1")).await.unwrap();
        assert_eq!(root.hash_kv(0).await.unwrap().header.revision, 2);
        if version > Version::V34 {
            let status = root.auth_status().await.unwrap();
            assert!(status.is_enabled && status.revision > 1, "{status:?}");
        }

        let reader = as_user(&etcd, "reader", "books");
        assert!(reader.get("r1").await.unwrap().is_some());
        assert_eq!(reader.put(put("r1")).await.unwrap_err().fault, Fault::Denied, "{version}");
        assert_eq!(reader.get("x").await.unwrap_err().fault, Fault::Denied, "{version}");
        assert_eq!(reader.watch(1).await.unwrap_err().fault, Fault::Denied, "{version}");
        assert_eq!(reader.snapshot_fault().await, Fault::Denied, "{version}");

        let nobody = Member::new(etcd.client_url().parse().unwrap(), &Access::default());
        assert_eq!(nobody.get("r1").await.unwrap_err().fault, Fault::LoginNeeded, "{version}");
        let wrong = as_user(&etcd, "root", "guess");
        assert_eq!(wrong.authenticate().await.unwrap_err().fault, Fault::WrongPassword, "{version}");
        let error = wrong.get("r1").await.unwrap_err();
        assert_eq!(error.fault, Fault::WrongPassword, "{version}");
        assert!(!format!("{error:?} {wrong:?}").contains("guess"));
        assert_eq!(as_user(&etcd, "no one", "x").get("r1").await.unwrap_err().fault, Fault::WrongPassword);
    }
}

/// A snapshot is refused when it is asked for, or when its first piece is.
trait SnapshotFault {
    async fn snapshot_fault(&self) -> Fault;
}

impl SnapshotFault for Member {
    async fn snapshot_fault(&self) -> Fault {
        match self.snapshot().await {
            Ok(mut snapshot) => snapshot.next().await.unwrap_err().fault,
            Err(error) => error.fault,
        }
    }
}

#[tokio::test]
async fn a_token_that_the_server_has_forgotten_is_got_anew() {
    for version in Version::ALL {
        let (_folder, etcd) = with_users(version).await;
        let root = as_user(&etcd, "root", "secret");
        root.put(put("a")).await.unwrap();
        // The token is lost with the server's memory; the connection too, which the first calls may meet.
        let etcd = etcd.kill().start();
        until_connected(&root).await;
        root.put(put("b")).await.unwrap();
        // Of many who find that out at once, all get through.
        let etcd = etcd.kill().start();
        until_connected(&root).await;
        let puts = ["c", "d", "e", "f"].map(|key| {
            let root = root.clone();
            tokio::spawn(async move { root.put(put(key)).await })
        });
        for put in puts {
            put.await.unwrap().unwrap();
        }
        // A watch too.
        let _etcd = etcd.kill().start();
        until_connected(&root).await;
        let mut watch = root.watch(7).await.unwrap();
        assert!(matches!(&watch.next().await.unwrap().events[..], [Event::Put(_)]));

        // A change of users makes every token old.
        root.add_user("late", "comer").await.unwrap();
        root.put(put("g")).await.unwrap();
    }
}

/// Until the connection to the server that was stopped is known to be gone. This needs no token.
async fn until_connected(member: &Member) {
    while member.status().await.is_err() {}
}
