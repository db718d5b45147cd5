//! A cluster as its members tell of it.

use etcd_rpc::Login;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::follow::live::Alarm;

#[tokio::test]
async fn whoever_is_a_member_no_more_is_forgotten() {
    let fake = testkit::FakeEtcd::start(2);
    let etcd = Etcd::at(vec![fake.url(0).parse().unwrap()], Access::default());
    let (stays, goes) = (fake.id(0), fake.id(1));
    assert_eq!(etcd.look().await.unwrap().members.len(), 2);
    assert_eq!((etcd.member(stays).is_some(), etcd.member(goes).is_some()), (true, true));
    etcd.member(stays).unwrap().remove(goes).await.unwrap();
    assert_eq!(etcd.look().await.unwrap().members.len(), 1);
    assert_eq!((etcd.member(stays).is_some(), etcd.member(goes).is_some()), (true, false));
    assert_eq!(etcd.known().by_url.len(), 0, "nor is there a connection");
}

#[tokio::test]
async fn where_etcd_does_not_let_us_in_waiting_does_not_help() {
    let fake = testkit::FakeEtcd::start(2);
    let endpoints = || vec![fake.url(0).parse().unwrap(), fake.url(1).parse().unwrap()];
    fake.ask_for_users();
    fake.change_password("right");
    let access = |password| Access { login: Some(Login::new("root", password)), ..Access::default() };
    for (access, expected) in [
        (access("wrong"), "the user or the password is wrong"),
        (Access::default(), "it asks for a user and a password"),
    ] {
        let etcd = Etcd::at(endpoints(), access);
        let refused = etcd.look().await.unwrap_err();
        assert!(matches!(&refused, Trouble::Refused { why, .. } if why.contains(expected)), "{refused}");
        assert!(refused.remedy().unwrap().contains("--etcd-password-file"), "{refused}");
    }
    assert_eq!(Etcd::at(endpoints(), access("right")).look().await.unwrap().members.len(), 2);

    let nobody: Endpoint = "http://127.0.0.1:1".parse().unwrap();
    for among in [vec![], endpoints()] {
        let all = [vec![nobody.clone()], among].concat();
        let away = Etcd::at(all, access("wrong")).look().await.unwrap_err();
        assert!(matches!(away, Trouble::Away { .. }) && away.remedy().is_none(), "who is away may be back: {away}");
    }
}

/// A member of 3.4 or 3.5 tells it nowhere else.
#[tokio::test]
async fn a_quota_is_read_of_the_page_of_metrics_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let etcd = Etcd::at(vec![endpoint.clone()], Access::default());
    let member = etcd.given.first().unwrap();
    let answering = async {
        let (mut asking, _) = listener.accept().await.unwrap();
        let mut asked = [0; 4];
        asking.read_exact(&mut asked).await.unwrap();
        let page = "# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 2.147483648e+09\n";
        asking.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{page}").as_bytes()).await.unwrap();
        asking.shutdown().await.unwrap();
        // What was asked is read to its end: closing before that would cut the answer off.
        asking.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let (quota, ()) = tokio::join!(etcd.quota(member, 7), answering);
    assert_eq!(quota, Some(2 << 30));
    // Nobody answers any more.
    drop(listener);
    assert_eq!(etcd.quota(member, 7).await, Some(2 << 30), "it was kept");
    assert_eq!(etcd.quota(member, 8).await, None, "another member's is not known");
    let unlimited = ["etcd_server_quota_backend_bytes 0", "etcd_server_quota_backend_bytes_other 5", ""];
    assert!(unlimited.into_iter().all(|page| quota_in(page).is_none()));
}

#[test]
fn of_the_alarms_that_a_member_tells_its_own_are_its_own() {
    let errors = ["memberID:7 alarm:NOSPACE ", "memberID:8  alarm:CORRUPT", "etcdserver: no leader"];
    let of = |member_id| {
        let header = etcd_rpc::Header { member_id, ..etcd_rpc::Header::default() };
        let errors = errors.map(str::to_owned).to_vec();
        let answer = answer(Status { header, errors, ..Status::default() });
        assert_eq!(answer.errors, ["etcdserver: no leader"]);
        answer.alarms
    };
    assert_eq!((of(7), of(8), of(9)), (vec![Alarm::NoSpace], vec![Alarm::Corrupt], vec![]));
    for no_alarm in ["", "alarm:NOSPACE", "memberID:x alarm:NOSPACE", "memberID:7"] {
        assert_eq!(raised(no_alarm), None, "{no_alarm}");
    }
}

#[test]
fn old_versions_are_not_asked_how_far_they_are() {
    let right = ["3.4.25", "3.4.34", "3.5.8", "3.5.30-rc.1", "3.6.0", "3.7.3"];
    assert!(right.into_iter().all(tells_progress_right));
    assert!(!["3.4.23", "3.5.7", "3.3.99", "", "none"].into_iter().any(tells_progress_right));
}
