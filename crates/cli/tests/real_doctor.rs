//! `refloat doctor` as people run it: on real members of every version, with TLS and users, and on what is wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/examined.rs"]
mod examined;
#[path = "desk/users.rs"]
mod users;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use examined::{examine, read, refloat};
use serde_json::Value;
use testkit::stores::{Denial, Moto, Unpermitted};
use testkit::{Authority, Cluster, ClusterPlan, Ends, Etcd, Member, Port, Version};
use users::{PASSWORD, with_users};

fn succeed(args: &[&str]) {
    let output = refloat(args);
    assert!(output.status.success(), "refloat {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn archive_in(folder: &Path) -> PathBuf {
    let archive = folder.join("archive");
    fs::create_dir(&archive).unwrap();
    archive
}

fn etcd(version: Version, folder: &Path) -> Etcd {
    Member::new(version, folder.join(format!("etcd-{version:?}"))).without_fsync().start()
}

/// Every file below `folder` but what the store keeps for itself.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() == ".refloat" => {}
                true => folders.push(entry.path()),
                false => drop(found.insert(entry.path())),
            }
        }
    }
    found
}

#[test]
fn a_member_of_every_version_and_its_archive_are_well_and_nothing_is_changed() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = etcd(version, folder.path());
        let client = etcd.client();
        for at in 0..30 {
            client.put(format!("/registry/things/{}", at % 7), format!("value {at}")).unwrap();
        }
        client.compact(10).unwrap();
        let archive = archive_in(folder.path());
        let url = etcd.client_url();
        succeed(&["backup", text(&archive), "--endpoints", &url]);
        let (before, revision) = (files(&archive), client.status().unwrap().revision);

        let data_dir = etcd.member().data_dir().to_owned();
        let found = examine(&[text(&archive), "--endpoints", &url, "--data-dir", text(&data_dir)]);
        found.require_nothing_broken();
        for (area, checks) in [
            ("store", &["reach", "put", "list", "get", "put-if-absent", "put-if-unchanged", "upload", "delete"][..]),
            ("archive", &["open", "newest", "holes", "sealed", "anchored", "history", "behind"]),
            ("etcd", &["reach", "leader", "version", "alarms", "rights", "quota", "clock", "compaction"]),
            ("machine", &["permissions", "files"]),
        ] {
            checks.iter().for_each(|check| found.require(area, check, "ok"));
        }
        // Nobody follows since the backup, and nobody has drilled.
        found.require("archive", "writer", "warning");
        let writer = found.checks.iter().find(|found| found["check"] == "writer").unwrap();
        assert!(writer["seen"].as_str().unwrap().contains(" stopped "), "{writer}");
        found.require("archive", "drilled", "advice");
        found.require("etcd", "members", "advice");
        assert_eq!(files(&archive), before, "{version}");
        assert_eq!(client.status().unwrap().revision, revision, "{version}");
    }
}

#[test]
fn three_members_agree_and_one_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "c"].map(|name| folder.path().join(name));
    let plan = ClusterPlan::of(3);
    let members: Vec<Member> =
        plan.members(Version::V36, &dirs).into_iter().map(|member| member.without_fsync()).collect();
    let mut cluster = Cluster::start(members);
    let client = cluster.client();
    client.put("a", "1").unwrap();
    let url = cluster.members[0].client_url();
    let found = examine(&["--endpoints", &url]);
    found.require_nothing_broken();
    found.require("etcd", "members", "ok");
    found.require("etcd", "agreement", "ok");

    cluster.members.pop().unwrap().kill();
    let found = examine(&["--endpoints", &url]);
    found.require_broken("etcd", "member", "start it");
    assert_eq!(found.broken().len(), 1, "{:?}", found.broken());
}

#[test]
fn an_archive_that_is_another_clusters_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = archive_in(folder.path());
    let (one, other) = (etcd(Version::V36, folder.path()), etcd(Version::V35, folder.path()));
    for at in 0..9 {
        one.client().put(format!("one {at}"), "1").unwrap();
        other.client().put(format!("other {at}"), "2").unwrap();
    }
    succeed(&["backup", text(&archive), "--endpoints", &one.client_url()]);
    let found = examine(&[text(&archive), "--endpoints", &other.client_url()]);
    found.require_broken("archive", "history", "--replaces");
}

#[test]
fn every_destination_is_tried_and_one_that_another_cluster_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = archive_in(folder.path());
    let [second, third] = ["second", "third"].map(|name| folder.path().join(name));
    fs::create_dir(&second).unwrap();
    fs::create_dir(&third).unwrap();
    let (one, other) = (etcd(Version::V36, folder.path()), etcd(Version::V35, folder.path()));
    one.client().put("one", "1").unwrap();
    other.client().put("other", "2").unwrap();
    let url = one.client_url();
    succeed(&["backup", text(&archive), "--endpoints", &url]);
    succeed(&["backup", text(&third), "--endpoints", &other.client_url()]);
    let before = (files(&archive), files(&second), files(&third));

    let found = examine(&[text(&archive), "--endpoints", &url, "--also", text(&second)]);
    found.require_nothing_broken();
    let of_second = |found: &&Value| found["subject"].as_str().is_some_and(|subject| subject.contains(text(&second)));
    let checks: BTreeSet<&str> =
        found.checks.iter().filter(of_second).map(|found| found["check"].as_str().unwrap()).collect();
    for check in ["reach", "put", "list", "get", "upload", "delete", "open"] {
        assert!(checks.contains(check), "{check} was not tried: {checks:?}");
    }
    let found = examine(&[text(&archive), "--also", text(&second), "--also", text(&third)]);
    found.require_broken("archive", "whose", "no other cluster");
    assert_eq!(found.broken().len(), 1, "{:?}", found.broken());
    let found = examine(&[text(&archive), "--also", text(&folder.path().join("missing"))]);
    found.require_broken("store", "settings", "");
    assert!((files(&archive), files(&second), files(&third)) == before, "something was left there");
    assert_eq!(refloat(&["doctor", text(&archive), "--also", text(&archive)]).status.code(), Some(2), "given twice");
    assert_eq!(refloat(&["doctor", "--endpoints", &url, "--also", text(&second)]).status.code(), Some(2));
}

#[test]
fn a_user_who_may_not_is_told_what_to_grant() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = etcd(version, folder.path());
        with_users(&etcd);
        let password = folder.path().join("password");
        fs::write(&password, format!("{PASSWORD}\n")).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        let url = etcd.client_url();
        let as_user =
            |name| examine(&["--endpoints", &url, "--etcd-username", name, "--etcd-password-file", text(&password)]);

        let found = as_user("root");
        found.require_nothing_broken();
        found.require("etcd", "rights", "ok");
        let found = as_user("reader");
        found.require_broken("etcd", "rights", "etcdctl user grant-role reader root");
        let subjects: BTreeSet<&str> = found.checks.iter().filter_map(|found| found["subject"].as_str()).collect();
        assert!(
            ["read", "watch", "snapshot", "hash"].iter().all(|right| subjects.contains(right)),
            "{version}: {subjects:?}"
        );
        let nobody = examine(&["--endpoints", &url]);
        assert_eq!(nobody.code, Some(1), "{version}");
        assert!(
            nobody.broken().iter().any(|told| told.contains("--etcd-username")),
            "{version}: {:?}",
            nobody.broken()
        );
        fs::write(&password, "wrong\n").unwrap();
        let wrong = as_user("root");
        assert!(
            wrong.broken().iter().any(|told| told.contains("--etcd-password-file")),
            "{version}: {:?}",
            wrong.broken()
        );
    }
}

#[test]
fn certificates_that_ran_out_or_are_not_believed_are_told() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        ours.write(path("ca.pem"));
        others.write(path("others.pem"));
        ours.sign(&["127.0.0.1"]).write(folder.path(), "server");
        ours.sign(&["client"]).write(folder.path(), "client");
        ours.sign_expired(&["client"]).write(folder.path(), "old");
        let secured = Port::reserve();
        let url = format!("https://{}", secured.address());
        let start = || Member::new(version, path("data")).without_fsync().certified(&url, folder.path()).start();
        let etcd = start();
        let with = |ca: &str, name: &str| {
            let [ca, cert, key] = [ca, &format!("{name}.crt"), &format!("{name}.key")].map(path);
            examine(&["--endpoints", &url, "--cacert", text(&ca), "--cert", text(&cert), "--key", text(&key)])
        };
        let found = with("ca.pem", "client");
        found.require_nothing_broken();
        found.require("etcd", "certificate", "ok");
        assert!(found.checks.iter().any(|found| found["seen"].as_str().unwrap().starts_with("the server's is good")));
        with("others.pem", "client").require_broken("etcd", "reach", "--cacert");
        let found = with("ca.pem", "old");
        found.require_broken("etcd", "certificate", "renew it");
        found.require_broken("etcd", "reach", "");
        let plain = examine(&["--endpoints", &url.replace("https", "http")]);
        plain.require_broken("etcd", "reach", "https");

        let stopped = etcd.stop();
        drop(stopped);
        ours.sign_expired(&["127.0.0.1"]).write(folder.path(), "server");
        let _etcd = start();
        with("ca.pem", "client").require_broken("etcd", "reach", "--cert-file");
    }
}

#[test]
fn a_bucket_is_tried_and_one_that_is_not_there_is_told() {
    let moto = Moto::start();
    moto.bucket("there");
    let at = |bucket: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        command.args(["doctor", "-o", "json", &format!("s3://{bucket}/etcd"), "--endpoint", &moto.url()]);
        command.args(["--region", "us-east-1", "--path-style", "true"]);
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        read(command.output_in_time().unwrap())
    };
    let found = at("there");
    found.require_nothing_broken();
    for check in
        ["reach", "put", "list", "get", "put-if-absent", "put-if-unchanged", "upload", "give-up", "delete", "clock"]
    {
        found.require("store", check, "ok");
    }
    found.require("archive", "open", "ok");
    at("missing").require_broken("store", "reach", "make the bucket");
}

/// A key may be allowed to put holds on objects, and not to have them kept until a time: then the first seal would fail.
#[test]
fn what_retain_takes_is_tried_where_it_is_said_and_not_elsewhere() {
    let moto = Moto::start();
    moto.bucket("unlocked");
    moto.bucket_with_lock("locked");
    let unpermitted = Unpermitted::before_url(&moto.url(), Denial::Retention);
    let at = |endpoint: &str, bucket: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        command.args(["doctor", "-o", "json", &format!("s3://{bucket}/etcd"), "--endpoint", endpoint]).args(more);
        command.args(["--region", "us-east-1", "--path-style", "true"]);
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        read(command.output_in_time().unwrap())
    };
    let retain = ["--retain", "30d"];
    let found = at(&moto.url(), "locked", &retain);
    found.require_nothing_broken();
    found.require("store", "retain", "ok");
    found.require("store", "kept", "ok");
    at(&unpermitted.url(), "locked", &retain).require_broken("store", "retain", "allow s3:PutObjectRetention");
    at(&moto.url(), "unlocked", &retain).require_broken("store", "retain", "the bucket needs object lock");
    for bucket in ["locked", "unlocked"] {
        let found = at(&unpermitted.url(), bucket, &[]);
        found.require_nothing_broken();
        found.require("store", "kept", "advice");
        assert_eq!(found.verdicts("store", "retain"), BTreeSet::new());
    }
}

#[test]
fn what_cannot_be_reached_is_told_within_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Port::reserve();
    let found = examine(&[text(&folder.path().join("missing")), "--endpoints", &nobody.url()]);
    found.require_broken("store", "settings", "");
    found.require_broken("etcd", "reach", "--endpoints");
    found.require("machine", "files", "ok");
    assert_eq!(refloat(&["doctor"]).status.code(), Some(2));
}
