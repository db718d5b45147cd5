//! Watches of real servers: what is too long for one message, how far they are, and why they end.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use etcd_rpc::{Access, Event, Fault, Member, Watch};
use testkit::{Client, ClusterPlan, Etcd, Op, Txn, Version, in_time, until_told};

async fn with_each_version(test: impl AsyncFn(Version, Etcd, Member)) {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = testkit::Member::new(version, folder.path().join("data")).without_fsync().start();
        let member = Member::new(etcd.client_url().parse().unwrap(), &Access::default());
        test(version, etcd, member).await;
    }
}

/// How many events came until one of `revision` did that ends its answer, and in how many fragments.
async fn until(watch: &mut Watch, revision: i64) -> (Vec<Event>, usize) {
    let (mut events, mut fragments) = (Vec::new(), 0);
    loop {
        let seen = in_time("the next change", watch.next()).await.unwrap();
        fragments += usize::from(seen.is_fragment);
        events.extend(seen.events);
        if !seen.is_fragment && events.last().is_some_and(|event| event.revision() >= revision) {
            return (events, fragments);
        }
    }
}

fn fill(truth: &Client, keys: usize) {
    let long = "k".repeat(400);
    for batch in 0..keys / 100 {
        let mut txn = Txn::new();
        for number in 0..100 {
            txn = txn.then(Op::put(format!("{long}{batch}-{number}"), "v"));
        }
        assert!(truth.txn(&txn).unwrap().succeeded);
    }
}

#[tokio::test]
async fn what_is_long_comes_in_fragments_and_is_whole() {
    with_each_version(async |version, etcd, member| {
        let truth = etcd.client();
        fill(&truth, 6_000);
        let revision = truth.status().unwrap().revision;
        // While the watch waits: one revision of some 2.5 MB.
        let mut watch = member.watch(revision + 1).await.unwrap();
        assert_eq!(truth.delete_range([0], [0]).unwrap(), 6_000);
        let (events, fragments) = until(&mut watch, revision + 1).await;
        assert_eq!(events.len(), 6_000, "{version}");
        assert!(events.iter().all(|event| event.revision() == revision + 1), "{version}");
        assert!(fragments > 0, "{version}");

        // Catching up: all that ever was.
        let mut watch = member.watch(1).await.unwrap();
        let (events, fragments) = until(&mut watch, revision + 1).await;
        assert_eq!(events.len(), 12_000, "{version}");
        assert!(events.is_sorted_by_key(Event::revision), "{version}");
        assert!(fragments > 0, "{version}");
    })
    .await;
}

#[tokio::test]
async fn a_watch_says_how_far_it_is() {
    with_each_version(async |version, etcd, member| {
        let truth = etcd.client();
        let mut watch = member.watch(0).await.unwrap();
        assert_eq!(watch.created().revision, 1);
        let revision = truth.put("a", "1").unwrap();
        until(&mut watch, revision).await;
        let ask = watch.ask_progress();
        ask.now();
        let progress = in_time("how far it is", watch.next()).await.unwrap();
        assert!(progress.is_progress(), "{version}: {progress:?}");
        assert_eq!(progress.header.revision, revision, "{version}");
        assert_eq!(progress.header.cluster_id, truth.status().unwrap().cluster_id, "{version}");
    })
    .await;
}

#[tokio::test]
async fn what_was_compacted_cannot_be_watched() {
    with_each_version(async |version, etcd, member| {
        let truth = etcd.client();
        for number in 0..9 {
            truth.put("a", number.to_string()).unwrap();
        }
        truth.compact(7).unwrap();
        let overtaken = member.watch(3).await.map(drop).map_err(|error| error.fault);
        let overtaken = match overtaken {
            Err(fault) => fault,
            // The watch is acknowledged before it is looked at.
            Ok(()) => in_time("it is told", member.watch(3).await.unwrap().next()).await.unwrap_err().fault,
        };
        assert_eq!(overtaken, Fault::Compacted { compact_revision: Some(7) }, "{version}");
        let mut watch = member.watch(7).await.unwrap();
        assert_eq!(until(&mut watch, 10).await.0.len(), 4, "{version}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_ends_ends_the_watch() {
    with_each_version(async |version, etcd, member| {
        let mut watch = member.watch(0).await.unwrap();
        let stopped = etcd.kill();
        let fault = in_time("the watch ends", watch.next()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Unreachable { .. }), "{version} {fault:?}");
        // The same member is reached again when it is back.
        let etcd = stopped.start();
        let mut watch = until_told("it is watched again", async || {
            let watch = member.watch(0).await;
            watch.inspect_err(|error| assert!(error.is_transient(), "{version} {error:?}"))
        })
        .await;
        let revision = etcd.client().put("a", "1").unwrap();
        until(&mut watch, revision).await;

        // A server that is told to stop says so itself.
        etcd.stop();
        let error = in_time("the watch ends", watch.next()).await.unwrap_err();
        assert!(error.is_transient(), "{version} {error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_member_that_lost_its_leader_ends_the_watch() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let plan = ClusterPlan::of(3);
        let dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
        let mut cluster = plan.start(version, &dirs);
        let left = cluster.members.remove(0);
        let member = Member::new(left.client_url().parse().unwrap(), &Access::default());
        let mut watch = member.watch(0).await.unwrap();
        drop(cluster);
        let ended = in_time("the watch ends", watch.next()).await.unwrap_err();
        assert_eq!(ended.fault, Fault::NoLeader, "{version}");
        let refused = member.watch(0).await.unwrap_err();
        assert_eq!(refused.fault, Fault::NoLeader, "{version}");
    }
}
