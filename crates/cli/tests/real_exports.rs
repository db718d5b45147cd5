//! A snapshot goes to where another system has its own: into its bucket, under its names, with what it tells of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;

use std::fs;

use alone::{Variables, fail, succeed};
use serde_json::Value;
use testkit::fixtures;
use testkit::stores::Moto;

/// Of moto, which takes whatever credentials.
const KEYS: Variables<'static> =
    &[("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY)];

/// What `refloat` with `args` prints as JSON.
#[track_caller]
fn told(args: &[&str]) -> Value {
    serde_json::from_str(&succeed(&[args, &["-o", "json"]].concat(), KEYS)).unwrap()
}

/// What moto keeps with an object, of what K3s looks at.
fn told_of(moto: &Moto, key: &str) -> [Option<String>; 3] {
    let object = moto.object("backups", key);
    let header = |name: &str| object.header(&format!("x-amz-meta-k3s-{name}")).map(str::to_owned);
    ["cluster-id", "node-name", "token-hash"].map(header)
}

#[test]
fn a_snapshot_of_k3s_goes_to_its_bucket_with_what_k3s_tells_of_it() {
    let moto = Moto::start();
    moto.bucket("backups");
    let (url, server) = (moto.url(), fixtures::path("k3s/node-a/server/db"));
    let truth = fixtures::truth("k3s/node-a.truth.json");
    let name = "before-upgrade-node-a-1795224996";
    let reached = ["--dest-endpoint", url.as_str()];
    let to = ["--output", "s3://backups/prod", "--for", "k3s", "--node", "node-b", "--container", "zip"];
    let args = [&["export", server.to_str().unwrap(), "--at", name], &to[..], &reached].concat();

    let dry = told(&[&args[..], &["--dry-run"]].concat());
    assert!(dry["dry_run"] == true && dry["hash"].is_null(), "{dry}");
    assert_eq!(moto.keys("backups"), [] as [&str; 0]);

    let written = told(&args);
    let path = written["path"].as_str().unwrap();
    let key = path.strip_prefix("s3://backups/").unwrap();
    let snapshot = key.strip_prefix("prod/on-demand-node-b-").unwrap();
    assert!(snapshot.ends_with(".zip"), "{path}");
    let beside = key.replace("prod/", "prod/.metadata/");
    assert_eq!(written["beside"], format!("s3://backups/{beside}"));
    let mut keys = moto.keys("backups");
    keys.sort();
    assert_eq!(keys, [beside.clone(), key.to_owned()]);
    let token = truth["token_hash"].as_str().unwrap();
    let expected = [None, Some("node-b".to_owned()), Some(token.to_owned())];
    assert_eq!([told_of(&moto, key), told_of(&moto, &beside)], [expected.clone(), expected]);
    assert!(written["lacks"].as_str().unwrap().contains(token), "{written}");

    // What is there is the cluster's state, and its metadata is what K3s had written.
    let there = ["s3://backups/prod", "--endpoint", url.as_str()];
    let found = told(&[&["hashkv"], &there[..]].concat());
    let points = fixtures::points(&truth);
    let point = points.iter().find(|point| point.revision == 321).unwrap();
    assert_eq!(found["hash"], point.hashes[0].hash);
    assert_eq!(found["revision"], 321);
    let metadata = moto.object("backups", &beside).text();
    assert_eq!(metadata.as_bytes(), fs::read(server.join(".metadata").join(name)).unwrap());
}

#[test]
fn the_cluster_that_a_bucket_of_k3s_tells_goes_along() {
    let moto = Moto::start();
    moto.bucket("backups");
    let name = "on-demand-node-a-1795224993";
    let bytes = fs::read(fixtures::path("k3s/node-a/server/db/snapshots").join(name)).unwrap();
    let scope = "Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
    let authorization = format!("AWS4-HMAC-SHA256 {scope}");
    let headers = [("Authorization", authorization.as_str()), ("x-amz-meta-k3s-cluster-id", "c1")];
    moto.ask("PUT", &format!("/backups/theirs/{name}"), &headers, &bytes).done("putting a snapshot");

    let url = moto.url();
    let args = ["export", "s3://backups/theirs", "--endpoint", &url, "--output", "s3://backups/copies"];
    let written = told(&[&args[..], &["--for", "k3s", "--node", "n"]].concat());
    let key = written["path"].as_str().unwrap().strip_prefix("s3://backups/").unwrap();
    assert_eq!(told_of(&moto, key)[0].as_deref(), Some("c1"));
    assert_eq!(written["beside"], Value::Null);
}

#[test]
fn a_full_for_etcdbrctl_goes_to_a_bucket_where_it_looks() {
    let moto = Moto::start();
    moto.bucket("backups");
    let (url, archive) = (moto.url(), fixtures::path("etcdbrctl/small-3.5.30"));
    let to = ["--output", "s3://backups/ns/etcd", "--for", "etcdbrctl", "--container", "gzip"];
    let source = ["export", archive.to_str().unwrap(), "--at", "257"];
    let written = told(&[&source[..], &to, &["--dest-endpoint", &url]].concat());
    let keys = moto.keys("backups");
    let [key] = &keys[..] else { panic!("{keys:?}") };
    assert!(key.starts_with("ns/etcd/v2/Full-00000000-00000257-") && key.ends_with(".gz"), "{key}");
    let found = told(&["hashkv", "s3://backups/ns/etcd", "--endpoint", &url]);
    assert_eq!(found["hash"], written["hash"]);

    // Without a system there is no telling what it would be called there.
    let (code, said) = fail(&["export", archive.to_str().unwrap(), "--output", "s3://backups/snap.db"], KEYS);
    assert!(code == 2 && said.contains("--for tells whose snapshots are there"), "{code}: {said}");
}
