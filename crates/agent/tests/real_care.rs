//! Care of real clusters.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use agent::care::{Because, Care, Policy, Step, Waste};
use etcd_rpc::{Access, Endpoint, Member, Word};
use jiff::Timestamp;
use testkit::{Cluster, ClusterPlan, Etcd, MemberPorts, Version};

const PATIENCE: Duration = Duration::from_secs(120);

fn endpoints<'a>(members: impl IntoIterator<Item = &'a Etcd>) -> Vec<Endpoint> {
    members.into_iter().map(|etcd| etcd.client_url().parse().unwrap()).collect()
}

fn care_of(cluster: &Cluster, policy: Policy) -> Care {
    Care::new(endpoints(&cluster.members), Access::default(), policy, Timestamp::now())
}

fn cluster_of(size: usize, version: Version, folder: &std::path::Path) -> Cluster {
    let plan = ClusterPlan::of(size);
    let dirs: Vec<_> = plan.names().iter().map(|name| folder.join(name)).collect();
    let members = plan.members(version, &dirs);
    // Who leads is to lead for as long as nobody orders otherwise, though somebody stands still for a while.
    let lasting = |member: testkit::Member| member.flag("--heartbeat-interval=500").flag("--election-timeout=5000");
    Cluster::start(members.into_iter().map(testkit::Member::without_fsync).map(lasting).collect())
}

/// Turns until nothing is left to be done; what was done.
async fn until_done(care: &mut Care, kept: Option<i64>) -> Vec<Step> {
    let deadline = Instant::now() + PATIENCE;
    let mut done = Vec::new();
    while Instant::now() < deadline {
        let turn = care.turn(kept, Timestamp::now()).await.unwrap();
        assert!(turn.failed.is_none(), "{turn:?}");
        match turn.did {
            Some(step) => done.push(step),
            None if care.is_defragmenting() => {}
            None => return done,
        }
    }
    panic!("it did not end: {done:?}");
}

#[tokio::test]
async fn three_members_are_defragmented_one_after_the_other() {
    for version in [Version::V34, Version::V37] {
        let folder = tempfile::tempdir().unwrap();
        let cluster = cluster_of(3, version, folder.path());
        let client = cluster.client();
        let before = cluster.waste();
        let leader = client.status().unwrap().leader;
        let hash = client.hash_kv(0).unwrap().hash;

        let policy = Policy { defragment_from: Some(Waste { ratio: 0.5, least_bytes: 1 << 20 }), ..Policy::default() };
        let mut care = care_of(&cluster, policy);
        let done = until_done(&mut care, None).await;
        let order: Vec<u64> = done
            .iter()
            .map(|step| match step {
                Step::Defragment { member, because: Because::Waste } => *member,
                Step::MoveLeader { .. } => 0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order.len(), 4, "{done:?}");
        assert!(matches!(done[2], Step::MoveLeader { from, .. } if from == leader), "{done:?}");
        assert!(matches!(done[3], Step::Defragment { member, .. } if member == leader), "{done:?}");
        for member in &cluster.members {
            let status = member.client().status().unwrap();
            assert!(status.db_size < before / 4, "{version}: {} of {before}", status.db_size);
            assert_ne!(status.leader, leader, "{version}");
            assert_eq!(member.client().hash_kv(0).unwrap().hash, hash, "{version}");
        }
    }
}

#[tokio::test]
async fn a_cluster_whose_space_is_used_up_takes_writes_again() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = testkit::Member::new(version, folder.path().join("data"))
            .without_fsync()
            .flag("--quota-backend-bytes=16777216")
            .start();
        let client = etcd.client();
        assert!((0..100).any(|_| client.put("a", vec![b'x'; 1_000_000]).is_err()));
        assert_eq!(client.alarms().unwrap().len(), 1, "{version}");
        let cluster = Cluster { members: vec![etcd] };

        let mut unkind = care_of(&cluster, Policy::default());
        assert_eq!(until_done(&mut unkind, Some(i64::MAX)).await, []);
        let mut care = care_of(&cluster, Policy { relieves_no_space: true, ..Policy::default() });
        let done = until_done(&mut care, Some(i64::MAX)).await;
        let [Step::Compact { .. }, Step::Defragment { because: Because::NoSpace, .. }, Step::Disarm { .. }] = &done[..]
        else {
            panic!("{version}: {done:?}")
        };
        assert_eq!(client.alarms().unwrap(), [], "{version}");
        client.put("a", "1").unwrap();
    }
}

#[tokio::test]
async fn a_learner_gets_its_vote_when_it_has_caught_up() {
    for version in [Version::V35, Version::V36] {
        let folder = tempfile::tempdir().unwrap();
        let cluster = cluster_of(1, version, folder.path());
        let ports = MemberPorts::reserve();
        let (first, peer_url) = (&cluster.members[0], ports.peer.url());
        let speaker = Member::new(endpoints([first]).remove(0), &Access::default());
        let learner = speaker.add_learner(vec![peer_url.clone()]).await.unwrap();
        let joining = testkit::Member::new(version, folder.path().join("new"))
            .name("m1")
            .ports(ports)
            .initial_cluster(&format!("m0={},m1={peer_url}", first.member().peer_url()))
            .flag("--initial-cluster-state=existing")
            .without_fsync();
        // As a learner it answers no linearizable read, by which readiness is told; so it is promoted while it starts.
        let joined = tokio::task::spawn_blocking(move || joining.start());
        let mut care = care_of(&cluster, Policy::default());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let turn = care.turn(None, Timestamp::now()).await.unwrap();
            if turn.did == Some(Step::Promote { member: learner }) && turn.failed.is_none() {
                break;
            }
            assert!(Instant::now() < deadline, "{turn:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let _joined = joined.await.unwrap();
        // The one that has just been promoted may not know yet.
        let listed = speaker.members(Word::Majority).await.unwrap().members;
        assert_eq!(listed.len(), 2, "{version}");
        assert!(listed.iter().all(|member| !member.is_learner), "{version} {listed:?}");
    }
}

#[tokio::test]
async fn whoever_joins_the_only_member_finds_it_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster_of(1, Version::V36, folder.path());
    let urls = BTreeSet::from([MemberPorts::reserve().peer.url()]);
    let policy = Policy { peer_urls: [("m0".into(), urls.clone())].into(), ..Policy::default() };
    let done = until_done(&mut care_of(&cluster, policy), None).await;
    let [Step::UpdatePeerUrls { peer_urls, .. }] = &done[..] else { panic!("{done:?}") };
    assert_eq!(*peer_urls, urls);
    let listed = cluster.client().member_list().unwrap();
    assert_eq!(listed[0].peer_urls.iter().cloned().collect::<BTreeSet<_>>(), urls);
}
