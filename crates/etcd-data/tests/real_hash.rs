//! The hash of a whole database is what the server that keeps it answers to Hash.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use etcd_data::bolt_file::BoltFile;
use etcd_data::database::Database;
use etcd_data::hash::{Flavour, hash_backend};
use testkit::{Client, Member, Version};

fn flavour(version: Version) -> Flavour {
    match version {
        Version::V34 => Flavour::V34,
        Version::V35 => Flavour::V35,
        Version::V36 | Version::V37 => Flavour::V36,
    }
}

fn hash_of(db: &Path, version: Version) -> u32 {
    let file = BoltFile::open(Arc::new(File::open(db).unwrap())).unwrap();
    hash_backend(&Database::open(file).unwrap(), flavour(version)).unwrap()
}

/// A new cluster agrees on its version some seconds after its start, which is a write that would come between.
fn wait_for_cluster_version(client: &Client, version: Version) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.cluster_version().unwrap().starts_with(version.minor()) {
        assert!(Instant::now() < deadline, "etcd {version} does not agree on its version");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Puts something into every bucket. Returns a client that may ask for hashes then.
fn fill(client: &Client) -> Client {
    for lease in [7, -8] {
        client.grant(3600, lease).unwrap();
    }
    client.put_leased("on a lease", "1", 7).unwrap();
    client.put_leased("on a lease that ends", "1", -8).unwrap();
    client.revoke(-8).unwrap();
    for number in 0..200 {
        client.put(format!("key {}", number % 50), "value ".repeat(number)).unwrap();
    }
    client.delete_range("key 2", "key 4").unwrap();
    let deleted = client.status().unwrap().revision;
    client.put("key 3", "again").unwrap();
    client.compact(deleted).unwrap();

    let learner = client.learner_add("http://127.0.0.1:1").unwrap();
    client.member_remove(learner).unwrap();
    client.raise_alarm(client.status().unwrap().member_id, "NOSPACE").unwrap();
    client.user_add("root", "secret").unwrap();
    client.role_add("root").unwrap();
    client.user_grant_role("root", "root").unwrap();
    client.role_add("reader").unwrap();
    client.role_grant("reader", "READ", "key", "kez").unwrap();
    client.auth_enable().unwrap();
    client.log_in("root", "secret").unwrap()
}

#[test]
fn every_version_answers_to_hash_what_its_database_gives() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Member::new(version, folder.path().join("data")).without_fsync().start();
        wait_for_cluster_version(&etcd.client(), version);
        let client = fill(&etcd.client());

        let answered = client.hash().unwrap();
        let snapshot = folder.path().join("snapshot");
        client.snapshot_to(&snapshot).unwrap();
        assert_eq!(hash_of(&snapshot, version), answered, "a snapshot of etcd {version}");
        let member = etcd.stop();
        assert_eq!(hash_of(&member.db(), version), answered, "etcd {version}, stopped");
    }
}
