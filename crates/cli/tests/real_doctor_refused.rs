//! `refloat doctor` where a store refuses one thing, and where etcd is told what it should not be: each has its own line, with what to
//! do about it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/examined.rs"]
mod examined;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use examined::{Examined, examine, read};
use testkit::stores::{Denial, Moto, Unpermitted};
use testkit::{Authority, Ends, Port};

fn examine_bucket(endpoint: &str, more: &[&str]) -> Examined {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command.args(["doctor", "-o", "json", "s3://bucket/etcd", "--endpoint", endpoint]).args(more);
    command.args(["--region", "us-east-1", "--path-style", "true"]);
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    read(command.output_in_time().unwrap())
}

#[test]
fn each_permission_that_a_bucket_refuses_is_told_with_what_to_allow() {
    let moto = Moto::start();
    moto.bucket_with_lock("bucket");
    let all_well = examine_bucket(&moto.url(), &["--retain", "1d"]);
    all_well.require_nothing_broken();
    for (denial, lines, remedy) in [
        // Without an object nothing else can be tried with it.
        (Denial::Put, &["put"][..], "allow s3:PutObject on arn:aws:s3:::bucket/etcd/*"),
        (Denial::PutIfAbsent, &["put-if-absent"], "allow s3:PutObject on"),
        (Denial::PutIfUnchanged, &["put-if-unchanged"], "allow s3:PutObject on"),
        (Denial::List, &["list"], "allow s3:ListBucket on arn:aws:s3:::bucket"),
        (Denial::Get, &["get", "head"], "allow s3:GetObject on arn:aws:s3:::bucket/etcd/*"),
        (Denial::Delete, &["delete"], "allow s3:DeleteObject on arn:aws:s3:::bucket/etcd/*"),
        (Denial::Retention, &["retain"], "allow s3:PutObjectRetention and s3:GetObjectRetention on"),
    ] {
        let store = Unpermitted::before_url(&moto.url(), denial);
        let found = examine_bucket(&store.url(), &["--retain", "1d"]);
        lines.iter().for_each(|line| found.require_broken("store", line, remedy));
        let of_store = found.checks.iter().filter(|check| check["area"] == "store" && check["verdict"] == "broken");
        let broken: BTreeSet<&str> = of_store.map(|check| check["check"].as_str().unwrap()).collect();
        println!("{denial:?}: {broken:?}");
        // Who replaces only what has not changed has to look at it, and so has who wants to know how long it is kept; what is to be
        // kept is written only where nothing is.
        let along: &[&str] = match denial {
            Denial::Get => &["put-if-unchanged", "kept", "retain"],
            Denial::PutIfAbsent => &["retain"],
            _ => &[],
        };
        let expected: BTreeSet<&str> = lines.iter().chain(along).copied().collect();
        assert_eq!(broken, expected, "{denial:?}: {:#?}", found.checks);
    }
}

#[test]
fn what_etcd_is_told_is_judged_and_certificates_that_it_names_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    Authority::new("ours").sign_expired(&["127.0.0.1"]).write(folder.path(), "old");
    let told = format!(
        "name: m0\nquota-backend-bytes: 17179869184\nsnapshot-count: 500000\nunsafe-no-fsync: true\n\
         heartbeat-interval: 500\nlisten-client-urls: http://0.0.0.0:2379\n\
         client-transport-security:\n  cert-file: {}\npeer-transport-security:\n  cert-file: {}\n",
        path("old.crt"),
        path("missing.crt"),
    );
    fs::write(path("etcd.yaml"), told).unwrap();
    let nobody = Port::reserve();
    for more in [&["--endpoints", &nobody.url()][..], &[]] {
        let found = examine(&[&["--etcd-config", &path("etcd.yaml")][..], more].concat());
        found.require_broken("etcd", "unsafe-no-fsync", "take unsafe-no-fsync out");
        found.require_broken("etcd", "election-timeout", "ten times that");
        found.require_broken("etcd", "certificate", "renew it");
        for check in ["snapshot-count", "quota-backend-bytes", "listen-client-urls"] {
            found.require("etcd", check, "warning");
        }
        for check in ["auto-compaction", "initial-cluster-token"] {
            found.require("etcd", check, "advice");
        }
        let of_missing = found.checks.iter().find(|check| check["subject"] == path("missing.crt").as_str()).unwrap();
        assert_eq!(of_missing["verdict"], "unknown", "{of_missing:#}");
    }
    fs::write(path("etcd.yaml"), "name: [").unwrap();
    examine(&["--etcd-config", &path("etcd.yaml")]).require_broken("etcd", "configuration", "in YAML");
    examine(&["--etcd-config", &path("nowhere.yaml")]).require_broken("etcd", "configuration", "--etcd-config names");
}
