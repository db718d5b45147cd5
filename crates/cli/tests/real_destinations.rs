//! An archive that is kept at two places: the other one has what the first has, goes on without it, and is nobody's burden
//! when it is away.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/bucket.rs"]
mod bucket;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;

use bucket::{BUCKET, Bucket};
use jiff::SignedDuration;
use running::{Running, refloat, succeed};
use serde_json::Value;
use testkit::{Client, Member, Port, Version};
use truth::truth;

fn write(client: &Client, count: usize) -> Vec<(i64, u32)> {
    let put = |at: usize| {
        client.put(format!("key {}", at % 5), format!("value {at}")).unwrap();
        truth(client)
    };
    (0..count).map(put).collect()
}

/// Whether what was written up to `revision` is at the second place.
fn is_elsewhere(status: &Value, revision: i64) -> bool {
    let reached = status["destinations"][1]["reached"].as_array();
    reached.is_some_and(|reached| reached.iter().any(|point| point["revision"].as_i64() >= Some(revision)))
}

#[test]
fn the_other_place_has_what_the_first_has_and_goes_on_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let (first, spools) = (folder.path().join("first"), folder.path().join("spools"));
    fs::create_dir(&first).unwrap();
    let [endpoint, url, credentials, key] = bucket.reached();
    let (endpoint, credentials) = (endpoint.trim_start_matches('-'), credentials.trim_start_matches('-'));
    let other = folder.path().join("other.yaml");
    let said = format!("archive: {BUCKET}\n{endpoint}: {url}\n{credentials}: {key}\npatience: 1\ncopy-every: 100ms\n");
    fs::write(&other, said).unwrap();

    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    let (client, log) = (etcd.client(), folder.path().join("agent.log"));
    let agent = |archive: &str, more: &[&str]| {
        let (endpoints, page) = (etcd.client_url(), Port::reserve());
        let args = ["agent", archive, "--endpoints", &endpoints, "--spool", spools.to_str().unwrap()];
        let args = [&args[..], &["--takeover", "2s", "--seal-after", "100ms"], more].concat();
        Running::start(&args, page.address(), &log)
    };
    let mut running = agent(first.to_str().unwrap(), &["--also", other.to_str().unwrap()]);
    let before = write(&client, 5);
    running.until("it is at the other place", |status| is_elsewhere(status, before[4].0));

    // Away, it is told, and nothing else is any the worse for it.
    bucket.is_away(true);
    let meanwhile = write(&client, 5);
    running.until_sealed(meanwhile[4].0);
    let told = running.until("it is told to be away", |status| status["destinations"][1]["health"] == "failing");
    assert_eq!(told["recoverable"]["verdict"], "yes");
    assert_eq!(told["destinations"][0]["health"], "healthy");
    assert_eq!(told["findings"][0]["place"], BUCKET, "{told:#}");
    assert!(!is_elsewhere(&told, meanwhile[4].0));
    bucket.is_away(false);
    running.until("it has caught up", |status| {
        is_elsewhere(status, meanwhile[4].0) && status["destinations"][1]["health"] == "healthy"
    });
    for (revision, hash) in before.iter().chain(&meanwhile) {
        assert_eq!(bucket.hash_at(*revision), *hash, "revision {revision}");
    }

    // It is taken over twice, as by every start.
    for _ in 0..2 {
        running.kill();
        running = agent(first.to_str().unwrap(), &["--also", other.to_str().unwrap()]);
        let more = write(&client, 3);
        running.until("it is at the other place", |status| is_elsewhere(status, more[2].0));
    }

    // The first is lost, with the agent: the other one is gone on with, in the same lineage.
    running.kill();
    fs::remove_dir_all(&first).unwrap();
    let reached = bucket.reached();
    let mut running = agent(BUCKET, &reached.each_ref().map(String::as_str));
    let after = write(&client, 5);
    let status = running.until_sealed(after[4].0);
    assert_eq!(status["recoverable"]["lineage"], told["recoverable"]["lineage"]);
    for (revision, hash) in [before, meanwhile, after].concat() {
        assert_eq!(bucket.hash_at(revision), hash, "revision {revision}");
    }
    assert!(running.stop().success());
}

/// Gardener's immutable backups: a retention policy on the whole bucket, in which there is an archive already.
#[test]
fn where_a_bucket_replaces_nothing_it_is_followed_into_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    let (client, log) = (etcd.client(), folder.path().join("agent.log"));
    let reached = bucket.reached();
    let there = |command: &[&str]| {
        let args = [command, &[BUCKET], &reached.each_ref().map(String::as_str)].concat();
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let agent = |spool: &str| {
        let (endpoints, page, spool) = (etcd.client_url(), Port::reserve(), folder.path().join(spool));
        let more = ["--endpoints", &endpoints, "--spool", spool.to_str().unwrap(), "--takeover", "2s"];
        let args = there(&["agent"]);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more).chain(["--seal-after", "100ms"]).collect();
        Running::start(&args, page.address(), &log)
    };
    let mut running = agent("first");
    let mut written = write(&client, 5);
    running.until_sealed(written[4].0);
    bucket.keep_for(SignedDuration::from_hours(24));
    running.until("it has found out", |_| bucket.names().iter().any(|name| name.contains("/writer/")));
    written.extend(write(&client, 5));
    running.until_sealed(written[9].0);

    // With its spool it goes on at once, though nobody else might for minutes; and so does another one when it has stopped.
    running.kill();
    let mut running = agent("first");
    written.extend(write(&client, 5));
    running.until_sealed(written[14].0);
    assert!(running.stop().success());
    let mut running = agent("second");
    written.extend(write(&client, 5));
    running.until_sealed(written[19].0);
    assert!(running.stop().success());

    for command in [&["merge"][..], &["verify"], &["prune", "--keep-last", "1", "--merged-grace", "0s"]] {
        let args = there(command);
        succeed(&args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    for (revision, hash) in written {
        assert_eq!(bucket.hash_at(revision), hash, "revision {revision}");
    }
    let args = there(&["doctor"]);
    let told = refloat(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("288 objects a day") && !told.contains("broken"), "{told}");
}

#[test]
fn a_place_that_makes_no_sense_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    fs::create_dir(&archive).unwrap();
    let (archive, missing) = (archive.to_str().unwrap(), folder.path().join("missing"));
    let misspelt = folder.path().join("misspelt.yaml");
    fs::write(&misspelt, "archive: s3://bucket\nregoin: eu-1\n").unwrap();
    let nothing = folder.path().join("nothing.yaml");
    fs::write(&nothing, "region: eu-1\n").unwrap();
    let spools = folder.path().join("spools");
    for (also, code, expected) in [
        (archive, 2, "is given twice"),
        (missing.to_str().unwrap(), 3, "missing"),
        (misspelt.to_str().unwrap(), 2, "misspelt.yaml, line 2: regoin: there is no such setting"),
        (nothing.to_str().unwrap(), 2, "nothing.yaml: the following required arguments were not provided: <ARCHIVE>"),
    ] {
        let page = Port::reserve();
        let args = ["agent", archive, "--also", also, "--spool", spools.to_str().unwrap()];
        let page = page.address().to_string();
        let output = refloat(&[&args[..], &["--listen", &page, "--endpoints", "http://127.0.0.1:1"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{also}: {said}");
        assert!(said.contains(expected), "{also}: {said}");
        assert!(!said.contains("refloat also"), "{said}");
    }
}
