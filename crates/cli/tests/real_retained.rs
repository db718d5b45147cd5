//! What is written is kept by the store for as long as was ordered, and what has to be replaced is not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/bucket.rs"]
mod bucket;
#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/running.rs"]
mod running;

use alone::{Original, Variables, fail, succeed};
use bucket::{BUCKET, Bucket};
use jiff::{SignedDuration, Timestamp};
use running::Running;
use serde_json::Value;
use store::Listing;
use testkit::stores::Moto;
use testkit::{Member, Port, Version};

/// Of moto, which takes whatever credentials.
const KEYS: Variables<'static> =
    &[("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY)];

/// What of the objects in a bucket of `moto` does not stay: all others have to be kept for about `hours`, as the server tells it.
#[track_caller]
fn unkept(moto: &Moto, bucket: &str, hours: i64) -> Vec<String> {
    let now = Timestamp::now();
    let is_unkept = |key: &String| match moto.object(bucket, key).header("x-amz-object-lock-retain-until-date") {
        None => true,
        Some(until) => {
            let kept = until.parse::<Timestamp>().unwrap().duration_since(now);
            // S3 keeps whole seconds, and so it is rounded.
            let (most, second) = (SignedDuration::from_hours(hours), SignedDuration::from_secs(1));
            assert!((most - 600 * second..=most + second).contains(&kept), "{key} until {until}");
            false
        }
    };
    moto.keys(bucket).into_iter().filter(is_unkept).collect()
}

#[test]
fn a_backup_is_kept_and_only_what_comes_and_goes_is_not() {
    let (folder, moto) = (tempfile::tempdir().unwrap(), Moto::start());
    moto.bucket_with_lock("locked");
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    let (endpoints, url) = (etcd.client_url(), moto.url());
    let there = ["s3://locked/etcd", "--endpoint", &url];
    let password = alone::write_secret(&folder.path().join("passphrase"), "a passphrase that is long enough");
    let keys = ["--passphrase-file", &password];
    let run = |command: &[&str], more: &[&str]| succeed(&[command, &there, &keys, more].concat(), KEYS);
    let backup = || run(&["backup"], &["--endpoints", &endpoints, "--encrypt-for", "passphrase", "--retain", "2h"]);
    for value in ["first", "second"] {
        etcd.client().put("key", value).unwrap();
        backup();
    }
    run(&["verify"], &["--retain", "2h"]);
    let (proofs, others): (Vec<String>, Vec<String>) =
        unkept(&moto, "locked", 2).into_iter().partition(|key| key.contains("/proof/"));
    assert!(!proofs.is_empty());
    assert_eq!(others.iter().map(|key| key.rsplit('/').next().unwrap()).collect::<Vec<_>>(), ["writer.json"]);
    let keys_of_archive = |kind: &str| moto.keys("locked").into_iter().filter(|key| key.contains(kind)).count();
    assert_eq!((keys_of_archive("/full/"), keys_of_archive("/keys/")), (2, 1));

    // What no rule keeps stays all the same, and the plan tells why.
    let rules = ["--keep-last", "1", "--merged-grace", "0s", "-o", "json"];
    let pruned: Value = serde_json::from_str(&run(&["prune"], &rules)).unwrap();
    let blocked = pruned["objects"].as_array().unwrap().iter().find(|object| object["verdict"] == "blocked").unwrap();
    assert!(blocked["reason"].as_str().unwrap().contains("as the store keeps it until"), "{pruned:#}");
    assert_eq!((pruned["deleted"].as_u64(), pruned["failed"].as_u64()), (Some(0), Some(0)), "{pruned:#}");
    assert_eq!(keys_of_archive("/full/"), 2);
}

/// Google replaces nothing that is kept, so that a claim that was kept could only be gone on with by creating others.
#[test]
fn an_agent_goes_on_where_what_is_kept_cannot_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    let (client, log, spool) = (etcd.client(), folder.path().join("agent.log"), folder.path().join("spool"));
    let reached = bucket.reached();
    let there = reached.each_ref().map(String::as_str);
    let (endpoints, page) = (etcd.client_url(), Port::reserve());
    let args = ["agent", BUCKET, "--endpoints", &endpoints, "--spool", spool.to_str().unwrap(), "--retain", "1h"];
    let args = [&args[..], &there, &["--takeover", "2s", "--seal-after", "100ms"]].concat();
    let mut running = Running::start(&args, page.address(), &log);
    for at in 0..5 {
        let revision = client.put("key", format!("value {at}")).unwrap();
        running.until_sealed(revision);
    }
    let latest: Value = serde_json::from_str(&running.asked("/snapshot/latest").unwrap()).unwrap();
    let until = latest["fullSnapshot"]["immutabilityExpriyTime"].as_str().unwrap();
    assert!(until.parse::<Timestamp>().unwrap() > Timestamp::now(), "{latest}");
    assert!(running.stop().success());
    for command in [&["merge"][..], &["verify"], &["prune", "--keep-last", "1", "--merged-grace", "0s"]] {
        let args = [command, &[BUCKET, "--retain", "1h"], &there].concat();
        succeed(&args, &[]);
    }

    let store = bucket.open();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let objects = runtime.block_on(store::list_all(&*store, Listing::default())).unwrap();
    let is_kept = |info: &store::Info| runtime.block_on(store.retention(&info.key)).unwrap().is_some();
    let (kept, unkept): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_kept);
    assert!(kept.iter().filter(|info| info.key.as_str().contains("/delta/")).count() > 3, "{kept:?}");
    let comes_and_goes = |key: &str| key.ends_with("/writer.json") || key.contains("/proof/");
    assert!(unkept.iter().all(|info| comes_and_goes(info.key.as_str())), "{unkept:?}");
}

#[test]
fn a_copy_is_kept_as_is_said_of_where_it_goes() {
    let (original, moto) = (Original::new(), Moto::start());
    moto.bucket_with_lock("locked");
    let url = moto.url();
    original.copy_to("s3://locked/copy", &["--endpoint", &url, "--retain", "3h"], KEYS);
    let unkept = unkept(&moto, "locked", 3);
    assert!(unkept.iter().all(|key| key.contains("/proof/") || key.ends_with("/writer.json")), "{unkept:?}");

    let archive = original.archive();
    let copy = ["copy", &archive, "s3://locked/again", "--dest-endpoint", &url, "--retain", "3h"];
    let (code, said) = fail(&copy, KEYS);
    assert!(code == 2 && said.contains("--dest-retain says it of s3://locked/again"), "{code}: {said}");
}

#[test]
fn who_keeps_nothing_is_refused_before_anything_is_written() {
    let (original, moto) = (Original::new(), Moto::start());
    moto.bucket("unlocked");
    let (archive, url) = (original.archive(), moto.url());
    let folder = original.beside("empty");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let oss = ["--endpoint", &url, "--flavour", "oss", "--path-style", "true"];
    let etcd = ["--endpoints", "http://127.0.0.1:1", "--retain", "1h"];
    for args in [
        [&["backup", folder][..], &etcd].concat(),
        [&["agent", folder, "--listen", "127.0.0.1:0"][..], &etcd].concat(),
        [&["backup", "s3://unlocked/x"][..], &etcd, &oss].concat(),
        vec!["copy", &archive, folder, "--dest-retain", "1h"],
        vec!["copy", &archive, "s3://unlocked/x", "--dest-endpoint", &url, "--dest-retain", "1h"],
    ] {
        let (code, said) = fail(&args, KEYS);
        assert_eq!(code, 5, "{args:?}: {said}");
        assert!(said.contains("cannot keep objects from being deleted"), "{args:?}: {said}");
        assert!(said.contains("S3 with object lock, Google Cloud Storage and Azure can"), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
    assert_eq!(moto.keys("unlocked"), [] as [String; 0]);
}
