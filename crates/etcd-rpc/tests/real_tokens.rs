//! Tokens of real servers that run out, or become old, while the connection lives.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::time::Duration;

use etcd_rpc::{Access, Login, Member, PutRequest};
use testkit::{Etcd, Version, in_time};
use tokio::time::{Instant, sleep};

/// No token here is good for so long.
const SOON: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// What etcd writes when a simple token has run out.
const FORGOTTEN: &str = "deleted a simple token";

/// `member` as it runs, once it asks for users.
async fn with_users(member: testkit::Member) -> Etcd {
    let etcd = member.without_fsync().flag("--bcrypt-cost=4").start();
    let nobody = Member::new(etcd.client_url().parse().unwrap(), &Access::default());
    nobody.add_user("root", "secret").await.unwrap();
    // Whether there is one already depends on the version.
    let _ = nobody.add_role("root").await;
    nobody.grant_role("root", "root").await.unwrap();
    nobody.enable_auth().await.unwrap();
    etcd
}

fn root(etcd: &Etcd) -> Member {
    let login = Some(Login::new("root", "secret"));
    Member::new(etcd.client_url().parse().unwrap(), &Access { login, ..Access::default() })
}

async fn put(member: &Member, key: &'static str) {
    member.put(PutRequest { key: key.into(), ..PutRequest::default() }).await.unwrap();
}

/// Waits until so many simple tokens have run out.
async fn until_forgotten(etcd: &Etcd, count: usize) {
    let until = Instant::now() + SOON;
    while etcd.log().matches(FORGOTTEN).count() < count {
        assert!(Instant::now() < until, "{count}: {}", etcd.log());
        sleep(POLL).await;
    }
}

/// 3.4 cannot be told how long they are good for.
#[tokio::test]
async fn a_simple_token_that_nobody_used_for_long_is_got_anew() {
    for version in [Version::V35, Version::V36, Version::V37] {
        let folder = tempfile::tempdir().unwrap();
        let member = testkit::Member::new(version, folder.path().join("data"));
        let etcd = with_users(member.flag("--auth-token-ttl=1").flag("--log-level=debug")).await;
        let root = root(&etcd);
        put(&root, "a").await;
        until_forgotten(&etcd, 1).await;
        assert!(root.get("a").await.unwrap().is_some(), "{version}");
        until_forgotten(&etcd, 2).await;
        let mut watch = root.watch(2).await.unwrap();
        // The watch goes on, and the token with which it was opened is used by nobody.
        until_forgotten(&etcd, 3).await;
        put(&root, "b").await;
        let mut seen = in_time("the next change", watch.next()).await.unwrap().events;
        while seen.len() < 2 {
            seen.extend(in_time("the next change", watch.next()).await.unwrap().events);
        }
        assert_eq!(seen.iter().map(|event| event.key().as_ref()).collect::<Vec<_>>(), [b"a", b"b"], "{version}");
    }
}

/// A signed token tells which users there were when it was given, and until when it is good.
#[tokio::test]
async fn a_signed_token_that_has_run_out_or_is_of_earlier_users_is_got_anew() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "5a".repeat(32)).unwrap();
        let tokens = format!("--auth-token=jwt,priv-key={},sign-method=HS256,ttl=2s", key.display());
        let member = testkit::Member::new(version, folder.path().join("data")).flag(tokens);
        let etcd = with_users(member).await;
        let (root, other) = (root(&etcd), root(&etcd));
        put(&root, "a").await;
        other.add_user("late", "comer").await.unwrap();
        put(&root, "b").await;

        // One that was given later has run out.
        let later = etcd.client().log_in("root", "secret").unwrap();
        let until = Instant::now() + SOON;
        while later.get("a").is_ok() {
            assert!(Instant::now() < until, "{version}: it is good for ever");
            sleep(POLL).await;
        }
        put(&root, "c").await;
        root.hash_kv(0).await.unwrap();
    }
}
