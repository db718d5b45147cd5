//! Tokens that a server has forgotten, or that have run out, while the connection lives: nobody who asks something sees that.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::time::Duration;

use etcd_rpc::{Access, Deadlines, DeleteRangeRequest, Fault, Login, Member, PutRequest, Word};
use testkit::{FakeEtcd, in_time, until_told};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(60);

fn root(etcd: &FakeEtcd, deadlines: Deadlines) -> Member {
    let access = Access { tls: None, login: Some(Login::new("root", "secret")), deadlines };
    Member::new(etcd.url(0).parse().unwrap(), &access)
}

/// A server that asks for users, and one of them who is known there.
async fn with_users() -> (FakeEtcd, Member) {
    let etcd = FakeEtcd::start(1);
    etcd.ask_for_users();
    let root = root(&etcd, Deadlines::default());
    assert!(root.get("a").await.unwrap().is_none());
    assert_eq!(etcd.logins(), 1);
    (etcd, root)
}

/// Asks for everything there is, each after `first`. Gives how much that is.
async fn ask_for_everything(member: &Member, first: impl Fn()) -> u64 {
    let mut count = 0;
    let mut next = || {
        first();
        count += 1;
    };
    next();
    member.put(PutRequest { key: "a".into(), ..PutRequest::default() }).await.unwrap();
    next();
    assert!(member.get("a").await.unwrap().is_some());
    next();
    member.delete(DeleteRangeRequest { key: "a".into(), ..DeleteRangeRequest::default() }).await.unwrap();
    next();
    member.compact(2).await.unwrap();
    next();
    assert_eq!(member.grant(60, 7).await.unwrap(), 7);
    next();
    assert_eq!(member.leases().await.unwrap(), [7]);
    next();
    assert_eq!(member.keep_alive_once(7).await.unwrap(), Some(60));
    next();
    member.hash_kv(0).await.unwrap();
    next();
    assert_eq!(member.alarms().await.unwrap(), []);
    next();
    member.status().await.unwrap();
    next();
    assert_eq!(member.members(Word::Own).await.unwrap().members.len(), 1);
    next();
    drop(member.watch(0).await.unwrap());
    next();
    assert!(member.snapshot().await.unwrap().next().await.unwrap().is_some());
    count
}

#[tokio::test]
async fn a_token_that_has_run_out_is_got_anew_whatever_is_asked() {
    let (etcd, root) = with_users().await;
    etcd.snapshots_by(|_| vec![7; 100]);
    let count = ask_for_everything(&root, || etcd.forget_tokens()).await;
    // Each met the one that was there, and one login was enough for it.
    assert_eq!((etcd.refused_tokens(), etcd.logins()), (count, 1 + count));
}

/// Whoever looks before there are users, and asks what most servers tell anybody, has nothing else that would make it log in.
#[tokio::test]
async fn where_users_are_asked_for_from_now_on_whoever_asks_openly_logs_in() {
    let etcd = FakeEtcd::start(1);
    let root = root(&etcd, Deadlines::default());
    assert!(root.get("a").await.unwrap().is_none());
    etcd.ask_for_users();
    root.status().await.unwrap();
    assert_eq!(root.members(Word::Own).await.unwrap().members.len(), 1);
    assert!(root.get("a").await.unwrap().is_none());
}

/// Who rotates passwords changes the file and etcd, and nobody starts again for it.
#[tokio::test]
async fn a_password_is_read_again_whenever_somebody_logs_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let read = {
        let file = file.clone();
        move || fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let etcd = FakeEtcd::start(1);
    etcd.ask_for_users();
    let access = Access { login: Some(Login::reading("root", read)), ..Access::default() };
    let root = Member::new(etcd.url(0).parse().unwrap(), &access);

    // Who looks before the file is there is told which one.
    let Fault::NoPassword { why } = root.get("a").await.unwrap_err().fault else { panic!("it was not missed") };
    assert!(why.starts_with(file.to_str().unwrap()), "{why}");

    etcd.change_password("first");
    fs::write(&file, "first").unwrap();
    root.get("a").await.unwrap();
    etcd.change_password("second");
    assert_eq!(root.get("a").await.unwrap_err().fault, Fault::WrongPassword);
    fs::write(&file, "second").unwrap();
    root.get("a").await.unwrap();
    assert_eq!(etcd.logins(), 2);
}

#[tokio::test]
async fn of_many_whose_token_has_run_out_one_logs_in_for_all() {
    let (etcd, root) = with_users().await;
    etcd.forget_tokens();
    let ask = |_| {
        let root = root.clone();
        tokio::spawn(async move { root.get("a").await })
    };
    let asked: Vec<_> = (0..20).map(ask).collect();
    for answer in asked {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(etcd.logins(), 2);
}

#[tokio::test]
async fn a_watch_that_is_open_outlives_the_token_that_it_was_opened_with() {
    let (etcd, root) = with_users().await;
    let mut watch = root.watch(0).await.unwrap();
    etcd.forget_tokens();
    let revision = etcd.put("a", "1");
    let seen = in_time("the change", watch.next()).await.unwrap();
    assert_eq!(seen.events[0].revision(), revision);
}

/// Who answers there may have been restored meanwhile, and would hold whoever shows it a token of before.
#[tokio::test]
async fn a_token_is_shown_on_the_connection_on_which_it_was_got_and_on_no_other() {
    let (mut etcd, root) = with_users().await;
    etcd.stop(0);
    // Until it is known that the connection is gone.
    until_told("it is known", async || root.get("a").await.map_or(Ok(()), Err)).await;
    etcd.forget_tokens();
    etcd.serve(0);
    until_told("it is there again", async || {
        let found = root.get("a").await;
        found.inspect_err(|error| assert!(error.is_transient(), "{error:?}"))
    })
    .await;
    assert_eq!((etcd.refused_tokens(), etcd.logins()), (0, 2));
}

/// Others may wait for the same token, and hashing may take long.
#[tokio::test]
async fn a_login_that_is_not_answered_is_waited_for_no_longer_than_any_answer() {
    let etcd = FakeEtcd::start(1);
    etcd.ask_for_users();
    etcd.script(0, |script| {
        script.never_answers.insert("Authenticate");
    });
    let root = root(&etcd, Deadlines { answer: SHORT, work: LONG, ..Deadlines::default() });
    assert_eq!(root.hash_kv(0).await.unwrap_err().fault, Fault::Deadline { after: SHORT });
}
