//! The fake etcd is held against real ones: the same operations, the same answers. The operations are random by a seed that
//! a failure names; `FAKE_SEED` runs one again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use bytes::Bytes;
use etcd_rpc::proto::etcdserverpb as pb;
use etcd_rpc::proto::etcdserverpb::request_op::Request as Op;
use etcd_rpc::{Access, EVERYTHING, Event, Fault, Member, RangeRequest};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::{FakeEtcd, Version, in_time, until_told};

const OPERATIONS: usize = 300;

fn member(url: &str) -> Member {
    Member::new(url.parse().unwrap(), &Access::default())
}

fn key(random: &mut StdRng) -> Bytes {
    format!("k{}", random.random_range(0..20)).into()
}

fn put(random: &mut StdRng) -> pb::PutRequest {
    let value = "v".repeat(random.random_range(0..50)).into();
    let lease = if random.random_ratio(1, 10) { random.random_range(1..4) } else { 0 };
    pb::PutRequest { key: key(random), value, lease, ..pb::PutRequest::default() }
}

fn delete(random: &mut StdRng) -> pb::DeleteRangeRequest {
    let begin = key(random);
    let end = if random.random_ratio(1, 4) { Bytes::from("k3") } else { Bytes::new() };
    pb::DeleteRangeRequest { key: begin, range_end: end, prev_kv: false }
}

fn txn(random: &mut StdRng) -> pb::TxnRequest {
    let op = |request| pb::RequestOp { request: Some(request) };
    // etcd takes no transaction that changes a key twice.
    let put = pb::PutRequest { key: format!("t{}", random.random_range(0..5)).into(), ..put(random) };
    let compare = pb::Compare {
        key: key(random),
        result: random.random_range(0..4),
        target: pb::compare::CompareTarget::Version.into(),
        target_union: Some(pb::compare::TargetUnion::Version(random.random_range(0..3))),
        ..pb::Compare::default()
    };
    pb::TxnRequest {
        compare: vec![compare],
        success: vec![op(Op::RequestPut(put)), op(Op::RequestDeleteRange(delete(random)))],
        failure: vec![op(Op::RequestDeleteRange(delete(random)))],
    }
}

/// One operation on `member`, and what came of it. The same `random` does the same.
async fn operate(member: &Member, random: &mut StdRng, revision: i64) -> String {
    fn shown<T: std::fmt::Debug>(result: Result<T, etcd_rpc::RpcError>) -> String {
        result.map_or_else(|error| format!("{:?}", error.fault), |done| format!("{done:?}"))
    }
    match random.random_range(0..100) {
        0..50 => shown(member.put(put(random)).await.map(|done| done.header.unwrap().revision)),
        50..65 => shown(member.delete(delete(random)).await.map(|done| (done.deleted, done.header.unwrap().revision))),
        65..85 => shown(member.txn(txn(random)).await.map(|done| (done.succeeded, done.header.unwrap().revision))),
        85..90 => shown(member.grant(600, random.random_range(1..4)).await),
        90..93 => shown(member.revoke(random.random_range(1..4)).await),
        93..95 => shown(member.compact(revision * 2 / 3).await.map(drop)),
        _ => {
            let at = random.random_range(0..=revision + 1);
            let limit = random.random_range(0..5);
            let range =
                RangeRequest { key: EVERYTHING, range_end: EVERYTHING, revision: at, limit, ..Default::default() };
            shown(member.range(range).await.map(|found| (found.kvs, found.more, found.count)))
        }
    }
}

#[tokio::test]
async fn the_fake_does_what_etcd_does() {
    let seed = std::env::var("FAKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    for version in [Version::V35, Version::V37] {
        let folder = tempfile::tempdir().unwrap();
        let etcd = testkit::Member::new(version, folder.path().join("data")).without_fsync().start();
        let fake = FakeEtcd::start(1);
        let (real, faked) = (member(&etcd.client_url()), member(&fake.url(0)));
        let context = format!("{version}, FAKE_SEED={seed}");

        let mut begun = (real.watch(2).await.unwrap(), faked.watch(2).await.unwrap());
        let mut random = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(seed));
        for number in 0..OPERATIONS {
            let revision = fake.revision();
            let expected = operate(&real, &mut random.0, revision).await;
            let done = operate(&faked, &mut random.1, revision).await;
            assert_eq!(done, expected, "operation {number}, {context}");
        }

        let last = fake.revision();
        assert_eq!(real.status().await.unwrap().header.revision, last, "{context}");
        assert_eq!(events_up_to(&mut begun.1, last).await, events_up_to(&mut begun.0, last).await, "{context}");
        assert_eq!(hash(&faked, last).await, hash(&real, last).await, "{context}");
        assert_eq!(fake.hash_kv(0), hash(&real, last).await.0, "{context}");
        assert_eq!(from_two(&faked).await, from_two(&real).await, "{context}");
    }
}

async fn hash(member: &Member, revision: i64) -> (u32, i64) {
    let hash = member.hash_kv(revision).await.unwrap();
    (hash.hash, hash.compact_revision)
}

/// How a watch from the first change on ends, or begins.
async fn from_two(member: &Member) -> String {
    match member.watch(2).await {
        Ok(mut watch) => {
            let seen = in_time("the next change", watch.next()).await;
            format!("{:?}", seen.map(|seen| seen.events.len() > 1).map_err(|error| error.fault))
        }
        Err(error) => format!("{:?}", Err::<bool, _>(error.fault)),
    }
}

async fn events_up_to(watch: &mut etcd_rpc::Watch, revision: i64) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|event| event.revision() < revision) {
        events.extend(in_time("the next change", watch.next()).await.unwrap().events);
    }
    events
}

#[tokio::test]
async fn watches_go_wrong_as_the_script_says() {
    let mut fake = FakeEtcd::start(1);
    let member = member(&fake.url(0));
    for number in 0..6 {
        fake.put("a", number.to_string());
    }
    let revisions = |events: Vec<Event>| events.iter().map(Event::revision).collect::<Vec<i64>>();

    fake.script(0, |script| {
        script.skips.insert(3);
        script.repeats.insert(5);
        script.fragment_events = 2;
    });
    let mut watch = member.watch(2).await.unwrap();
    let first = in_time("the next change", watch.next()).await.unwrap();
    assert!(first.is_fragment);
    assert_eq!(revisions(first.events), [2, 4]);
    assert_eq!(revisions(events_up_to(&mut watch, 7).await), [5, 5, 6, 7]);

    fake.script(0, |script| script.stalls_watches = true);
    let silent = fake.put("a", "silent");
    watch.ask_progress().now();
    fake.script(0, |script| script.claims_revision = Some(4));
    assert_eq!(member.status().await.unwrap().header.revision, 4);
    fake.script(0, |script| *script = testkit::Script::default());
    assert_eq!(revisions(events_up_to(&mut watch, silent).await), [silent]);
    watch.ask_progress().now();
    let progress = in_time("the next change", watch.next()).await.unwrap();
    assert!(progress.is_progress() && progress.header.revision == silent);

    fake.drop_connections(0);
    let gone = in_time("the next change", watch.next()).await.unwrap_err().fault;
    assert!(matches!(gone, Fault::Unreachable { .. }), "{gone:?}");
    let mut watch = until_told("it is watched again", async || member.watch(silent + 1).await).await;

    // Compaction overtakes a watch that stalls.
    fake.script(0, |script| script.stalls_watches = true);
    fake.put("a", "1");
    let last = fake.put("a", "2");
    fake.compact(last);
    fake.script(0, |script| script.stalls_watches = false);
    let overtaken = in_time("the next change", watch.next()).await.unwrap_err().fault;
    assert_eq!(overtaken, Fault::Compacted { compact_revision: Some(last) });

    let mut watch = member.watch(0).await.unwrap();
    fake.script(0, |script| script.has_no_leader = true);
    assert_eq!(in_time("the next change", watch.next()).await.unwrap_err().fault, Fault::NoLeader);
}

#[tokio::test]
async fn calls_go_wrong_as_the_script_says() {
    let mut fake = FakeEtcd::start(2);
    let members = [member(&fake.url(0)), member(&fake.url(1))];
    let cluster = members[0].status().await.unwrap().header.cluster_id;
    assert_eq!(members[1].status().await.unwrap().header.cluster_id, cluster);

    fake.script(1, |script| {
        script.claims_cluster = Some(7);
        script.claims_hash = Some(8);
        script.refuses_calls.push(("MemberList", tonic::Code::Unavailable, "etcdserver: request timed out".to_owned()));
    });
    assert_eq!(members[1].status().await.unwrap().header.cluster_id, 7);
    assert_eq!(members[1].hash_kv(0).await.unwrap().hash, 8);
    assert_ne!(members[0].hash_kv(0).await.unwrap().hash, 8);
    let refused = members[1].members(etcd_rpc::Word::Own).await.unwrap_err().fault;
    assert!(matches!(refused, Fault::Busy { .. }), "{refused:?}");
    fake.script(0, |script| script.refuses = Some((tonic::Code::PermissionDenied, "no".to_owned())));
    assert_eq!(members[0].status().await.unwrap_err().fault, Fault::Denied);
    fake.stop(1);
    assert!(members[1].status().await.unwrap_err().is_transient());

    fake.script(0, |script| script.refuses = None);
    fake.put("a", "1");
    let before = fake.put("a", "2");
    fake.put("a", "3");
    fake.go_back_to(before);
    assert_eq!(members[0].status().await.unwrap().header.revision, before);
    assert_eq!(members[0].get("a").await.unwrap().unwrap().value, "2");
    fake.replace_cluster(9);
    let status = members[0].status().await.unwrap();
    assert_eq!((status.header.cluster_id, status.header.revision), (9, 1));

    fake.snapshots_by(|records| records.len().to_be_bytes().to_vec());
    fake.put("a", "1");
    let mut snapshot = members[0].snapshot().await.unwrap();
    assert_eq!(snapshot.next().await.unwrap().unwrap()[..], 1_usize.to_be_bytes());
    assert_eq!(snapshot.next().await.unwrap(), None);
}
