//! Several members, one with its log elsewhere, one that was replaced, and those that were killed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use etcd_data::restore::Options;
use etcd_data::restore::destination::Existing;
use etcd_data::restore::options::Token;
use etcd_data::undo::undo;
use etcd_data::{Revision, Source};
use testkit::fixtures::{DATA_DIRS, data_dir, data_dir_truth, points};
use testkit::{Client, Cluster, ClusterPlan, Member, Version, until};

use crate::judged::{runs_and_says, works};
use crate::origin::{Origin, options, origins, restored};

#[test]
fn three_restored_members_are_a_cluster_and_one_can_be_lost() {
    for origin in origins() {
        let mut cluster = three_restored(&origin);
        let expected = origin.said_at(64);
        for member in &cluster.members {
            assert_eq!(member.client().hash_kv(64).unwrap().hash, expected.hash, "{}", origin.version);
        }
        let lost = cluster.members.remove(1).kill();
        for number in 0..20 {
            put_once_there_is_a_leader(&cluster.members[0].client(), &number.to_string());
        }
        let back = lost.start();
        assert_eq!(back.client().get("alive").unwrap().unwrap().value, b"19", "{}", origin.version);
        let revision = cluster.members[0].client().status().unwrap().revision;
        let hash = cluster.members[0].client().hash_kv(revision).unwrap();
        assert_eq!(back.client().hash_kv(revision).unwrap().hash, hash.hash, "{}", origin.version);
    }
}

#[test]
fn in_a_restored_cluster_of_3_4_an_empty_disk_takes_the_place_of_a_lost_one() {
    an_empty_disk_takes_the_place_of_a_lost_one(Version::V34);
}

#[test]
fn in_a_restored_cluster_of_3_7_an_empty_disk_takes_the_place_of_a_lost_one() {
    an_empty_disk_takes_the_place_of_a_lost_one(Version::V37);
}

/// Who comes has nothing, and no restored member has the first entries of the log: the leader sends its whole database.
fn an_empty_disk_takes_the_place_of_a_lost_one(version: Version) {
    let origin = Origin::of(version);
    let mut cluster = three_restored(&origin);
    let lost = cluster.members.remove(1).kill();
    fs::remove_dir_all(lost.data_dir()).unwrap();
    let (there, url) = (cluster.client(), lost.peer_url());
    // A change of members that is handed to a leader who is gone is lost, and whoever asked for it waits.
    put_once_there_is_a_leader(&there, "with two of the first three");
    // etcd takes none before they have all seen each other for five seconds.
    until("the lost member is removed", || match member_at(&there, &url) {
        Some(id) => Err(there.member_remove(id)),
        None => Ok(()),
    });
    until("another one is added in its place", || match member_at(&there, &url) {
        Some(_) => Ok(()),
        None => Err(there.member_add(&url)),
    });

    let back = lost.flag("--initial-cluster-state=existing").start();
    let (said, expected) = (back.client().hash_kv(64).unwrap(), origin.said_at(64));
    assert_eq!((said.hash, said.compact_revision), (expected.hash, expected.compact_revision));
    // With one more of the others gone, nothing is written without it.
    cluster.members.remove(1).kill();
    put_once_there_is_a_leader(&back.client(), "with two of three");
    for client in [&there, &back.client()] {
        let read = until("what was written is read", || client.get("alive"));
        assert_eq!(read.unwrap().value, b"with two of three");
    }
    let hash = there.hash_kv(0).unwrap();
    assert_eq!(back.client().hash_kv(hash.header_revision).unwrap().hash, hash.hash);
}

/// The id of the member that the others find at `url`, if they know of one.
fn member_at(client: &Client, url: &str) -> Option<u64> {
    let listed = client.member_list().unwrap();
    listed.iter().find(|member| member.peer_urls.iter().any(|peer| peer == url)).map(|member| member.id)
}

/// The members of a cluster of three that was restored of what `origin` left.
fn three_restored(origin: &Origin) -> Cluster {
    let source = origin.open(&origin.snapshot());
    let plan = ClusterPlan::of(3);
    let dirs: Vec<PathBuf> = plan.names().iter().map(|name| origin.folder.path().join(name)).collect();
    for ((name, url), dir) in plan.names().iter().zip(plan.peer_urls()).zip(&dirs) {
        let options = Options {
            name: name.clone(),
            initial_cluster: Some(plan.initial_cluster()),
            peer_urls: Some(url),
            ..Options::new(dir, Token::Named("three".into()), "now")
        };
        restored(&source, &options);
    }
    plan.start(origin.version, &dirs)
}

/// The member that was lost may have been the leader; the others then elect one, which takes a second or two.
fn put_once_there_is_a_leader(client: &Client, value: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = client.put("alive", value) {
        assert!(Instant::now() < deadline, "{error:?}");
    }
}

#[test]
fn the_log_may_lie_on_another_disk() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        let member = Member::new(origin.version, origin.folder.path().join("data"));
        let wal_dir = origin.folder.path().join("logs/wal");
        restored(&source, &Options { wal_dir: Some(wal_dir.clone()), ..options(&member) });
        let etcd = member.flag(format!("--wal-dir={}", wal_dir.display())).start();
        assert_eq!(etcd.client().hash_kv(64).unwrap().hash, origin.said_at(64).hash, "{}", origin.version);
        works(etcd, &format!("{} with its log elsewhere", origin.version));
    }
}

#[test]
fn a_member_that_was_replaced_runs_again_after_undo() {
    let origin = Origin::of(Version::V36);
    let source = origin.open(&origin.snapshot());
    let member = Member::new(origin.version, &origin.data_dir);
    let again = Options { existing: Existing::KeepAside, at: Some(Revision(50)), ..options(&member) };
    restored(&source, &again);
    let etcd = member.start();
    assert_eq!(etcd.client().put("on the wrong path", "1").unwrap(), 51);
    // While it runs, nothing is moved.
    assert!(undo(&origin.data_dir, "later").is_err());
    let member = etcd.stop();
    undo(&origin.data_dir, "later").unwrap();
    let etcd = member.start();
    assert_eq!(etcd.client().hash_kv(64).unwrap().hash, origin.said_at(64).hash);
    assert!(etcd.client().get("on the wrong path").unwrap().is_none());
}

#[test]
fn what_became_of_a_killed_member_runs() {
    for name in DATA_DIRS.into_iter().filter(|name| name.ends_with("-killed")) {
        let version = Version::ALL.into_iter().find(|version| name.starts_with(version.minor())).unwrap();
        let (dir, folder) = (data_dir(name), tempfile::tempdir().unwrap());
        let source = Source::open(dir.path(), folder.path()).unwrap().database;
        let mut truth = data_dir_truth(name);
        truth["points"] = serde_json::json!([truth["final"]]);
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));
        runs_and_says(member, &points(&truth), name);
    }
}
