//! Every method against real servers of all versions; what is true is asked through etcd's own JSON gateway.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::time::{Duration, Instant};

use etcd_rpc::proto::etcdserverpb::request_op::Request as Op;
use etcd_rpc::proto::etcdserverpb::{Compare, RequestOp, compare};
use etcd_rpc::{
    Access, Alarm, AlarmKind, DeleteRangeRequest, EVERYTHING, Event, Fault, Member, PutRequest, RangeRequest, RpcError,
    Snapshot, Status, TxnRequest, Word,
};
use sha2::{Digest, Sha256};
use testkit::{Client, ClusterPlan, Etcd, Version, in_time, until_told};

/// A new server of each version, a client of ours, and one that tells the truth.
async fn with_each_version(test: impl AsyncFn(Version, Member, Client)) {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = testkit::Member::new(version, folder.path().join("data")).without_fsync().start();
        test(version, member_of(&etcd), etcd.client()).await;
    }
}

fn member_of(etcd: &Etcd) -> Member {
    Member::new(etcd.client_url().parse().unwrap(), &Access::default())
}

fn put(key: &'static str, value: impl Into<Vec<u8>>) -> PutRequest {
    PutRequest { key: key.into(), value: value.into().into(), ..PutRequest::default() }
}

fn delete(key: &'static str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: key.into(), ..DeleteRangeRequest::default() }
}

fn everything() -> RangeRequest {
    RangeRequest { key: EVERYTHING, range_end: EVERYTHING, ..RangeRequest::default() }
}

#[tokio::test]
async fn keys_are_read_and_written() {
    with_each_version(async |_, member, truth| {
        let answer = member.put(put("a", "1")).await.unwrap();
        assert_eq!(answer.header.unwrap().revision, 2);
        member.put(put("b", "2")).await.unwrap();
        assert_eq!(truth.get("a").unwrap().unwrap().value, b"1");
        assert_eq!(member.get("b").await.unwrap().unwrap().value, "2");
        assert_eq!(member.get("c").await.unwrap(), None);

        assert_eq!(member.delete(delete("a")).await.unwrap().deleted, 1);
        assert_eq!(member.range(everything()).await.unwrap().count, 1);
        let before = RangeRequest { revision: 3, keys_only: true, limit: 1, ..everything() };
        let before = member.range(before).await.unwrap();
        assert_eq!((before.kvs.len(), before.more, before.count), (1, true, 2));
        assert_eq!((&before.kvs[0].key[..], before.kvs[0].value.is_empty()), (&b"a"[..], true));

        let future = RangeRequest { revision: 99, ..everything() };
        assert_eq!(member.range(future).await.unwrap_err().fault, Fault::FutureRevision);
        member.compact(4).await.unwrap();
        let compacted = RangeRequest { revision: 2, ..everything() };
        let compacted = member.range(compacted).await.unwrap_err();
        assert_eq!(compacted.fault, Fault::Compacted { compact_revision: None });
        assert_eq!(compacted.to_string(), format!("reading a range of {}", member.endpoint()));
    })
    .await;
}

#[tokio::test]
async fn transactions_do_one_or_the_other() {
    with_each_version(async |_, member, truth| {
        let absent = Compare {
            key: "lock".into(),
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Create.into(),
            target_union: Some(compare::TargetUnion::CreateRevision(0)),
            ..Compare::default()
        };
        let op = |request| vec![RequestOp { request: Some(request) }];
        let txn = TxnRequest {
            compare: vec![absent],
            success: op(Op::RequestPut(put("lock", "mine"))),
            failure: op(Op::RequestDeleteRange(delete("lock"))),
        };
        assert!(member.txn(txn.clone()).await.unwrap().succeeded);
        assert_eq!(truth.get("lock").unwrap().unwrap().value, b"mine");
        assert!(!member.txn(txn).await.unwrap().succeeded);
        assert_eq!(truth.get("lock").unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn leases_live_and_end() {
    with_each_version(async |_, member, truth| {
        assert_eq!(member.grant(600, 77).await.unwrap(), 77);
        let other = member.grant(700, 0).await.unwrap();
        member.put(PutRequest { lease: 77, ..put("a", "1") }).await.unwrap();

        let mut ids = member.leases().await.unwrap();
        ids.sort_unstable();
        let mut expected = vec![77, other];
        expected.sort_unstable();
        assert_eq!(ids, expected);
        let lease = member.lease(77).await.unwrap().unwrap();
        assert_eq!((lease.id, lease.granted_seconds, &lease.keys[..]), (77, 600, &["a".into()][..]));
        assert!((1..=600).contains(&lease.left_seconds), "{lease:?}");
        assert_eq!(member.lease(5).await.unwrap(), None);

        assert_eq!(member.keep_alive_once(77).await.unwrap(), Some(600));
        assert_eq!(member.keep_alive_once(5).await.unwrap(), None);
        let twice = member.grant(600, 77).await.unwrap_err();
        assert!(matches!(twice.fault, Fault::Exists { .. }), "{twice:?}");
        member.revoke(77).await.unwrap();
        assert_eq!(truth.get("a").unwrap(), None);
        let gone = member.revoke(77).await.unwrap_err();
        assert!(matches!(gone.fault, Fault::NotFound { .. }), "{gone:?}");
    })
    .await;
}

#[tokio::test]
async fn a_member_tells_about_itself() {
    with_each_version(async |version, member, truth| {
        member.put(put("a", "1")).await.unwrap();
        let (status, expected) = both(&member, &truth).await;
        assert_eq!(status.version, expected.version);
        assert_eq!(status.header.revision, 2);
        assert_eq!((status.header.cluster_id, status.header.member_id), (expected.cluster_id, expected.member_id));
        assert_eq!((status.leader, status.is_learner), (expected.member_id, false));
        assert_eq!((status.db_size_bytes, status.db_in_use_bytes), (expected.db_size, expected.db_size_in_use));
        assert_eq!(status.quota_bytes.is_some(), version >= Version::V36);
        assert_eq!(status.errors, Vec::<String>::new());

        let hash = member.hash_kv(2).await.unwrap();
        let expected = truth.hash_kv(2).unwrap();
        assert_eq!((hash.hash, hash.compact_revision), (expected.hash, expected.compact_revision));
        assert_eq!(hash.hash_revision, expected.hash_revision.filter(|revision| *revision != 0));
        member.defragment().await.unwrap();
        assert_eq!(member.hash_kv(0).await.unwrap().hash, hash.hash);
        assert_eq!(member.hash_kv(99).await.unwrap_err().fault, Fault::FutureRevision);
    })
    .await;
}

/// What a member tells, and what is true: of a time when nothing changed, as its sizes do when a batch is committed.
async fn both(member: &Member, truth: &Client) -> (Status, testkit::client::Status) {
    until_told("nothing changes", async || {
        let before = truth.status().unwrap();
        let told = member.status().await.unwrap();
        let after = truth.status().unwrap();
        if after == before { Ok((told, before)) } else { Err((before, after)) }
    })
    .await
}

#[tokio::test]
async fn alarms_are_read_and_taken_back() {
    with_each_version(async |_, member, truth| {
        assert_eq!(member.alarms().await.unwrap(), vec![]);
        let id = truth.status().unwrap().member_id;
        truth.raise_alarm(id, "NOSPACE").unwrap();
        let raised = Alarm { member_id: id, kind: AlarmKind::NoSpace };
        assert_eq!(member.alarms().await.unwrap(), vec![raised]);
        assert_eq!(member.put(put("a", "1")).await.unwrap_err().fault, Fault::NoSpace);
        member.disarm(raised).await.unwrap();
        assert_eq!(truth.alarms().unwrap(), vec![]);
        member.put(put("a", "1")).await.unwrap();

        truth.raise_alarm(id, "CORRUPT").unwrap();
        assert_eq!(member.put(put("a", "1")).await.unwrap_err().fault, Fault::Corrupt);
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_is_the_database_and_its_digest() {
    with_each_version(async |_, member, truth| {
        for number in 0..40 {
            truth.put(format!("k{number}"), vec![b'x'; 10_000]).unwrap();
        }
        let mut snapshot = member.snapshot().await.unwrap();
        let bytes = all_of(&mut snapshot).await;
        let (database, digest) = bytes.split_at(bytes.len() - 32);
        assert_eq!(database.len() % 4096, 0);
        assert_eq!(Sha256::digest(database)[..], *digest);
    })
    .await;
}

async fn all_of(snapshot: &mut Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = in_time("the next piece", snapshot.next()).await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

#[tokio::test]
async fn a_watch_sees_every_change_in_order() {
    with_each_version(async |_, member, truth| {
        truth.put("before", "0").unwrap();
        let mut watch = member.watch(2).await.unwrap();
        truth.put("a", "1").unwrap();
        truth.delete("a").unwrap();

        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.extend(in_time("the next change", watch.next()).await.unwrap().events);
        }
        let told: Vec<(Vec<u8>, i64, bool)> =
            seen.iter().map(|event| (event.key().to_vec(), event.revision(), matches!(event, Event::Put(_)))).collect();
        assert_eq!(told, [(b"before".to_vec(), 2, true), (b"a".to_vec(), 3, true), (b"a".to_vec(), 4, false)]);
    })
    .await;
}

#[tokio::test]
async fn membership_changes() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let plan = ClusterPlan::of(3);
        let dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
        let cluster = plan.start(version, &dirs);
        let members: Vec<Member> = cluster.members.iter().map(member_of).collect();

        let listed = members[0].members(Word::Majority).await.unwrap();
        let expected = cluster.client().member_list().unwrap();
        assert_eq!(listed.members.len(), 3);
        assert_eq!(listed.members[0].id, expected[0].id);
        assert_eq!(listed.members[0].peer_urls, expected[0].peer_urls);
        assert_eq!(listed.cluster_id, cluster.client().status().unwrap().cluster_id);
        assert_eq!(members[1].members(Word::Own).await.unwrap(), listed);

        let leader_id = members[0].status().await.unwrap().leader;
        let mut ids = Vec::new();
        for member in &members {
            ids.push(member.status().await.unwrap().header.member_id);
        }
        let leader = ids.iter().position(|id| *id == leader_id).unwrap();
        let follower = (leader + 1) % 3;
        assert_eq!(members[follower].move_leader(ids[follower]).await.unwrap_err().fault, Fault::NotLeader);
        members[leader].move_leader(ids[follower]).await.unwrap();
        assert_eq!(members[leader].status().await.unwrap().leader, ids[follower]);

        let added = when_healthy(async || members[0].add_learner(vec!["http://127.0.0.1:1".into()]).await).await;
        let again = members[0].add_learner(vec!["http://127.0.0.1:1".into()]).await.unwrap_err();
        assert!(matches!(again.fault, Fault::Exists { .. }), "{again:?}");
        let behind = members[0].promote(added).await.unwrap_err();
        assert_eq!(behind.fault, Fault::LearnerBehind);
        members[0].update_peer_urls(added, vec!["http://127.0.0.1:2".into()]).await.unwrap();
        let listed = cluster.client().member_list().unwrap();
        let learner = listed.iter().find(|member| member.id == added).unwrap();
        assert_eq!(learner.peer_urls, ["http://127.0.0.1:2"]);
        // 3.4 and 3.5 forget on this occasion that it was a learner.
        assert_eq!(learner.is_learner, version >= Version::V36, "{version}");
        when_healthy(async || members[0].remove(added).await).await;
        let gone = members[0].remove(added).await.unwrap_err();
        assert!(matches!(gone.fault, Fault::NotFound { .. }), "{gone:?}");
        assert_eq!(cluster.client().member_list().unwrap().len(), 3);
    }
}

/// A new cluster takes changes of its members only when all have been connected for 5 s.
async fn when_healthy<T>(change: impl AsyncFn() -> Result<T, RpcError>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match change().await {
            Err(RpcError { fault: Fault::Unhealthy, .. }) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            changed => return changed.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_range_of_twenty_megabytes_is_one_answer() {
    with_each_version(async |version, member, truth| {
        let long = vec![b'v'; 1_000_000];
        for number in 0..20 {
            truth.put(format!("k{number:02}"), &long).unwrap();
        }
        let all = member.range(everything()).await.unwrap();
        assert_eq!(all.kvs.len(), 20, "{version}");
        assert!(all.kvs.iter().all(|kv| kv.value == long), "{version}");

        let too_long = put("long", vec![b'v'; 3_000_000]);
        let too_long = member.put(too_long).await.unwrap_err();
        assert!(matches!(too_long.fault, Fault::TooLarge { .. }), "{version} {too_long:?}");
    })
    .await;
}
