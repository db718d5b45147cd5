//! Users, passwords and tokens with real servers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;

use etcd_rpc::{Access, Event, Fault, Login, May, Member, PutRequest, Status, Tls, Word};
use testkit::{Authority, Etcd, MemberPorts, Port, Version, in_time, until_told};

/// A server that asks for users.
async fn with_users(version: Version) -> (tempfile::TempDir, Etcd) {
    let folder = tempfile::tempdir().unwrap();
    let etcd = testkit::Member::new(version, folder.path().join("data")).without_fsync().start();
    ask_for_users(&etcd, version).await;
    (folder, etcd)
}

/// From now on it asks for users: `root`, and `reader` who may read what begins with `r`.
async fn ask_for_users(etcd: &Etcd, version: Version) {
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
        let seen = in_time("the change", watch.next()).await.unwrap();
        assert!(matches!(&seen.events[..], [Event::Put(_)]));

        // A change of users makes every token old.
        root.add_user("late", "comer").await.unwrap();
        root.put(put("g")).await.unwrap();
    }
}

/// Who shows it a token of a later index of raft is held by etcd until it has applied that.
#[tokio::test]
async fn a_member_that_begins_anew_is_not_shown_a_token_of_before() {
    for version in Version::ALL {
        let (_folder, etcd) = with_users(version).await;
        let raising = as_user(&etcd, "root", "secret");
        for _ in 0..50 {
            raising.put(put("a")).await.unwrap();
        }
        let root = as_user(&etcd, "root", "secret");
        root.put(put("a")).await.unwrap();
        let member = etcd.kill();
        fs::remove_dir_all(member.data_dir()).unwrap();
        let etcd = member.start();
        ask_for_users(&etcd, version).await;
        until_connected(&root).await;
        assert_eq!(root.put(put("a")).await.unwrap().header.unwrap().revision, 2, "{version}");
    }
}

/// With a learner nobody can log in, and without a quorum neither. Our certificate is for no user.
#[tokio::test]
async fn where_nobody_can_log_in_a_member_tells_how_it_is_to_whoever_has_a_certificate() {
    let authority = Authority::new("ours");
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        authority.write(path("ca.pem"));
        authority.sign(&["127.0.0.1"]).write(folder.path(), "server");
        authority.sign(&["somebody"]).write(folder.path(), "client");
        let doors = [Port::reserve(), Port::reserve()];
        let url = |door: &Port| format!("https://{}", door.address());
        let at = |door: &Port| {
            let (certificate, key) = (Some(path("client.crt")), Some(path("client.key")));
            let tls = Some(Tls { ca: Some(path("ca.pem")), certificate, key, ..Tls::default() });
            let access = Access { tls, login: Some(Login::new("root", "secret")), ..Access::default() };
            Member::new(url(door).parse().unwrap(), &access)
        };
        let alone = testkit::Member::new(version, path("m0")).name("m0").without_fsync();
        let etcd = alone.certified(&url(&doors[0]), folder.path()).start();
        let first = at(&doors[0]);
        first.put(put("r1")).await.unwrap();
        // It was let in without a user, and is not any more.
        ask_for_users(&etcd, version).await;
        assert!(first.get("r1").await.unwrap().is_some(), "{version}");

        let ports = MemberPorts::reserve();
        let learner = first.add_learner(vec![ports.peer.url()]).await.unwrap();
        let initial = format!("m0={},m1={}", etcd.member().peer_url(), ports.peer.url());
        let joining = testkit::Member::new(version, path("m1")).name("m1").ports(ports).initial_cluster(&initial);
        let joining = joining.without_fsync().flag("--initial-cluster-state=existing");
        let joining = joining.certified(&url(&doors[1]), folder.path());
        // It answers no linearizable read, by which readiness is told, before it has its vote.
        let joined = tokio::task::spawn_blocking(move || joining.start());
        let second = at(&doors[1]);
        // 3.5 has come to ask whoever has a certificate for a user, too, and says only why it cannot.
        let asks_for_users = version == Version::V35;
        let status = until_told("it serves", async || match second.status().await {
            Ok(status) => Ok(Some(status)),
            Err(error) if asks_for_users && error.fault == Fault::Learner => Ok(None),
            Err(error) => {
                assert!(error.is_transient(), "{version}: {error:?}");
                Err(error)
            }
        })
        .await;
        let is_learner = |status: Status| status.is_learner && status.header.member_id == learner;
        assert!(status.is_none_or(is_learner), "{version}");
        assert_eq!(second.get("r1").await.unwrap_err().fault, Fault::Learner, "{version}");
        until_told("it has its vote", async || {
            let promoted = first.promote(learner).await;
            promoted.inspect_err(|error| {
                assert!(matches!(error.fault, Fault::LearnerBehind | Fault::Unhealthy), "{version}: {error:?}");
            })
        })
        .await;
        let _joined = joined.await.unwrap();
        // One that is a learner as far as it knows takes whoever was the leader for that for ever.
        until_told("it knows of its vote", async || match second.status().await {
            Ok(status) if !status.is_learner => Ok(()),
            otherwise => Err(otherwise.map_or_else(|error| error.to_string(), |status| format!("{status:?}"))),
        })
        .await;

        drop(etcd);
        if asks_for_users {
            continue;
        }
        let left = at(&doors[1]);
        until_told("it knows that it has no leader", async || {
            let status = left.status().await.unwrap();
            if status.leader == 0 { Ok(()) } else { Err(status) }
        })
        .await;
        assert_eq!(left.members(Word::Own).await.unwrap().members.len(), 2, "{version}");
    }
}

/// Until the connection to the server that was stopped is known to be gone. This needs no token.
async fn until_connected(member: &Member) {
    until_told("it is connected", async || member.status().await).await;
}
