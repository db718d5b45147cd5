//! Write-ahead logs and raft snapshots that real servers left behind.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;
use std::path::Path;

use etcd_data::initial_cluster::InitialCluster;
use etcd_data::member_id::{ClusterId, MemberId};
use etcd_data::raft::{ConfState, EntryKind};
use etcd_data::request::Request;
use etcd_data::snap::{Membership, Snap, SnapName};
use etcd_data::tables::Member;
use etcd_data::wal::fresh::SEGMENT_BYTES;
use etcd_data::wal::{Log, SegmentName, Tail, fresh_log};
use testkit::fixtures::{self, DATA_DIRS, data_dir, data_dir_truth};
use testkit::{Version, judges};

fn hexadecimal(truth: &serde_json::Value) -> u64 {
    u64::from_str_radix(truth.as_str().unwrap(), 16).unwrap()
}

#[test]
fn the_log_of_every_version_reads_to_its_end_without_a_finding() {
    for name in DATA_DIRS {
        let (dir, truth) = (data_dir(name), data_dir_truth(name));
        let log = Log::open(&dir.path().join("member/wal")).unwrap();

        assert_eq!((log.findings.as_slice(), log.tail), (&[][..], Tail::Clean), "{name}");
        let metadata = log.metadata.unwrap();
        assert_eq!(metadata.node_id, hexadecimal(&truth["member_id"]), "{name}");
        assert_eq!(metadata.cluster_id, hexadecimal(&truth["cluster_id"]), "{name}");
        assert_eq!(log.hard_state.term, truth["before_stop"]["raft_term"].as_u64().unwrap(), "{name}");
        assert!(log.last_index() >= truth["before_stop"]["raft_index"].as_u64().unwrap(), "{name}");
        // What a restart adds: the entry of a new leader, the member's attributes, and perhaps the cluster version.
        let after = truth["after_restart_of_a_copy"]["raft_index"].as_u64().unwrap();
        assert!((1..=6).contains(&(after - log.last_index())), "{name}: {after} after {}", log.last_index());
    }
}

#[test]
fn every_entry_of_every_version_is_understood() {
    for name in DATA_DIRS {
        let dir = data_dir(name);
        let log = Log::open(&dir.path().join("member/wal")).unwrap();
        let mut expected = 1;
        for entry in log.entries_after(0) {
            let entry = entry.unwrap();
            assert_eq!(entry.index, expected, "{name}");
            expected += 1;
            if entry.kind == EntryKind::Normal as i32 && !entry.data.is_empty() {
                let request = Request::parse(entry.data).unwrap();
                assert!(request.command.is_some(), "{name}: entry {}", entry.index);
            }
        }
        assert_eq!(expected, log.last_index() + 1, "{name}");
    }
}

#[test]
fn ids_follow_from_urls_and_token() {
    for name in DATA_DIRS {
        let truth = data_dir_truth(name);
        let url = truth["members"][0]["peer_urls"][0].as_str().unwrap();
        let member = MemberId::of(&[url], truth["initial_cluster_token"].as_str().unwrap());
        assert_eq!(member.0, hexadecimal(&truth["member_id"]), "{name}");
        assert_eq!(ClusterId::of(&[member]).0, hexadecimal(&truth["cluster_id"]), "{name}");
    }
}

#[test]
fn raft_snapshots_of_every_version_tell_who_is_in_the_cluster() {
    for name in DATA_DIRS.into_iter().filter(|name| name.ends_with("clean")) {
        let (dir, truth) = (data_dir(name), data_dir_truth(name));
        let log = Log::open(&dir.path().join("member/wal")).unwrap();
        let snaps = snaps(&dir.path().join("member/snap"));
        assert!(!snaps.is_empty(), "{name}");
        for snap in snaps {
            assert_eq!(snap.conf_state.voters, [hexadecimal(&truth["member_id"])], "{name}");
            assert!(log.snapshots.iter().any(|mark| (mark.index, mark.term) == (snap.index, snap.term)), "{name}");
            let [member] = &snap.membership.members[..] else { panic!("{name}: not one member") };
            assert_eq!(member.name, truth["members"][0]["name"].as_str().unwrap(), "{name}");
            assert_eq!(member.peer_urls[0], truth["members"][0]["peer_urls"][0].as_str().unwrap(), "{name}");
            assert_eq!(member.client_urls[0], truth["members"][0]["client_urls"][0].as_str().unwrap(), "{name}");
            let version = truth["etcd_version"].as_str().unwrap();
            let minor = version.rsplit_once('.').unwrap().0;
            assert_eq!(snap.membership.cluster_version, Some(format!("{minor}.0")), "{name}");
            assert_eq!(Snap::parse(snap.encode().into()).unwrap(), snap, "{name}");
        }
    }
}

fn snaps(folder: &Path) -> Vec<Snap> {
    let mut snaps = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if let Some(name) = SnapName::parse(entry.file_name().to_str().unwrap()) {
            let snap = Snap::parse(fs::read(entry.path()).unwrap().into()).unwrap();
            assert_eq!(snap.name(), name);
            snaps.push(snap);
        }
    }
    snaps
}

#[test]
fn a_fresh_log_is_the_one_that_etcdutl_writes_byte_for_byte() {
    let snapshot = fixtures::path("k3s/node-a/server/db/snapshots/on-demand-node-a-1795224993");
    let lists = [
        "one=http://127.0.0.1:2380",
        "c=http://10.0.0.3:2380,a=http://10.0.0.1:2380,b=https://10.0.0.2:2380,a=http://10.0.0.9:2380",
        "<a&b>=http://127.0.0.1:2380",
    ];
    for list in lists {
        let cluster = InitialCluster::parse(list).unwrap();
        let members = cluster.members("a token").unwrap();
        let member = &members[0];
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("restored");
        let flags = [
            ["--name", &member.name],
            ["--initial-cluster", list],
            ["--initial-cluster-token", "a token"],
            ["--initial-advertise-peer-urls", &member.peer_urls.join(",")],
        ];
        judges::etcdutl_restore(Version::V36, &snapshot, &data_dir, flags.as_flattened()).unwrap();

        let theirs = fs::read(data_dir.join("member/wal").join(SegmentName::FIRST.to_string())).unwrap();
        let ours = fresh_log(MemberId(member.id), &members);
        assert_eq!(theirs.len() as u64, SEGMENT_BYTES, "{list}");
        assert!(theirs[..ours.len()] == ours, "{list}");
        assert!(theirs[ours.len()..].iter().all(|byte| *byte == 0), "{list}");

        let theirs = snaps(&data_dir.join("member/snap"));
        let voters = members.iter().map(|member| member.id).collect();
        let members = members.iter().map(|member| Member { name: String::new(), ..member.clone() }).collect();
        let membership = Membership { members, ..Membership::default() };
        let index = membership.members.len() as u64;
        let ours = Snap { term: 1, index, conf_state: ConfState::of_voters(voters), membership };
        assert_eq!(theirs, [ours], "{list}");
    }
}

#[test]
fn etcdutl_refuses_the_clusters_that_we_refuse() {
    let snapshot = fixtures::path("k3s/node-a/server/db/snapshots/on-demand-node-a-1795224993");
    let cases = [
        ("a=http://a:1", "b", "http://a:1"),
        ("a=http://127.0.0.1:1,a=http://127.0.0.1:2", "a", "http://127.0.0.1:1"),
        ("a=http://127.0.0.1:1,b=http://127.0.0.1:1", "a", "http://127.0.0.1:1"),
        ("a=http://127.0.0.1", "a", "http://127.0.0.1"),
        ("a=http://127.0.0.1:x", "a", "http://127.0.0.1:x"),
        ("a=http://127.0.0.1:1/", "a", "http://127.0.0.1:1/"),
        ("a=ftp://127.0.0.1:1", "a", "ftp://127.0.0.1:1"),
        ("a", "a", "http://127.0.0.1:1"),
        ("", "a", "http://127.0.0.1:1"),
    ];
    for (list, name, urls) in cases {
        let ours = InitialCluster::parse(list).and_then(|cluster| cluster.require(name, urls));
        let folder = tempfile::tempdir().unwrap();
        let flags = ["--name", name, "--initial-cluster", list, "--initial-advertise-peer-urls", urls];
        let theirs = judges::etcdutl_restore(Version::V36, &snapshot, folder.path().join("restored"), &flags);
        assert!(ours.is_err() && theirs.is_err(), "{list}: {ours:?} {theirs:?}");
    }
}
