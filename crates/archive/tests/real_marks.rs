//! Objects of etcdbrctl that somebody marked as not to be restored from, at the servers that keep such marks: object tags of S3,
//! index tags of Azure, metadata of Google.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::sync::Arc;

use archive::agree::Agreed;
use archive::archive::{Archive, Which};
use archive::copy::plan::Selection;
use archive::layout::etcdbrctl::EXCLUDE;
use archive::plan::{Remark, Wanted};
use archive::point::At;
use archive::sealing::NoKeys;
use etcd_data::Revision;
use jiff::Timestamp;
use store::{Bag, Credentials, Environment, Key, Put, Secret, Settings, Store};
use testkit::fixtures;
use testkit::stores::{Azurite, FakeGcs, Moto, S3sFs};
use tokio::runtime::Runtime;

const PLACE: &str = "etcd-main";
const NEWEST_FULL: &str = "Full-00000000-00000225-1795224146.gz";
const NEWEST_DELTA: &str = "Incr-00000299-00000320-1795224146.gz";

fn with_keys(id: &str, secret: &str, endpoint: String) -> Settings {
    let credentials = Credentials::Keys { id: id.into(), secret: secret.into(), token: None };
    Settings { credentials, endpoint: Some(endpoint), region: Some("us-east-1".into()), ..Settings::default() }
}

/// Puts an archive of etcdbrctl into `store`, with `put` for the object `marked`.
fn fill(runtime: &Runtime, store: &dyn Store, marked: &str, put: &Put) {
    for file in std::fs::read_dir(fixtures::path("etcdbrctl/small-3.5.30/v2")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let put = if name == marked { put.clone() } else { Put::default() };
        let bytes = std::fs::read(&path).unwrap();
        runtime.block_on(store.put(&key(name), bytes.into(), &put)).unwrap();
    }
}

fn key(name: &str) -> Key {
    Key::parse(format!("v2/{name}")).unwrap()
}

fn newest(runtime: &Runtime, store: Arc<dyn Store>) -> Agreed {
    let archive = Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    archive.agree(&Wanted::default(), &At::Latest, scratch.path()).unwrap()
}

fn copy_all(runtime: &Runtime, from: &Arc<dyn Store>, to: &Arc<dyn Store>) {
    let (handle, keys) = (runtime.handle().clone(), Arc::new(NoKeys));
    let archive = Archive::open(Arc::clone(from), handle, &Which::default(), keys).unwrap();
    let target = archive.copy_target(Arc::clone(to)).unwrap();
    let plan = archive.plan_copy(&target, &Selection::All, None);
    let copying = archive.copy(&target, &plan, false, Timestamp::now()).unwrap();
    assert!(copying.failed().is_none(), "{copying:?}");
}

#[track_caller]
fn require_without(agreed: &Agreed, marked: &str, target: i64) {
    assert_eq!(agreed.plan.target, Some(Revision(target)));
    assert_eq!(agreed.set_aside, [(key(marked), "it is marked as excluded".to_owned())]);
    assert!(agreed.plan.objects().all(|entry| entry.name != marked), "{}", agreed.plan);
    assert!(!is_untold(agreed), "{:?}", agreed.plan.remarks);
}

fn is_untold(agreed: &Agreed) -> bool {
    agreed.plan.remarks.iter().any(|remark| matches!(remark, Remark::MarksUntold { .. }))
}

#[test]
fn what_is_marked_at_google_is_not_restored_from() {
    let gcs = FakeGcs::start();
    gcs.bucket("backups");
    let values = [("serviceaccount.json".to_owned(), Secret::new(gcs.service_account_key()))];
    let credentials = Credentials::Bag(Bag::Values(values.into()));
    let settings = Settings { credentials, endpoint: Some(gcs.url()), ..Settings::default() };
    let store = store::open(&format!("gs://backups/{PLACE}"), &settings).unwrap();
    let runtime = Runtime::new().unwrap();
    let marked = Put { metadata: [(EXCLUDE.to_owned(), "true".to_owned())].into(), ..Put::default() };
    fill(&runtime, &*store, NEWEST_DELTA, &marked);
    require_without(&newest(&runtime, store), NEWEST_DELTA, 298);
}

#[test]
fn what_is_tagged_in_s3_is_not_restored_from_and_neither_is_its_copy() {
    let (moto, runtime) = (Moto::start(), Runtime::new().unwrap());
    moto.bucket("backups");
    let settings = with_keys(Moto::ACCESS_KEY, Moto::SECRET_KEY, moto.url());
    let store = store::open(&format!("s3://backups/{PLACE}"), &settings).unwrap();
    fill(&runtime, &*store, "", &Put::default());
    assert_eq!(newest(&runtime, Arc::clone(&store)).plan.target, Some(Revision(320)));

    moto.tag("backups", &format!("{PLACE}/v2/{NEWEST_FULL}"), EXCLUDE, "true");
    // What comes after it continues nothing else.
    require_without(&newest(&runtime, Arc::clone(&store)), NEWEST_FULL, 205);

    moto.bucket("copies");
    let copy = store::open(&format!("s3://copies/{PLACE}"), &settings).unwrap();
    copy_all(&runtime, &store, &copy);
    require_without(&newest(&runtime, copy), NEWEST_FULL, 205);
}

#[test]
fn what_is_tagged_in_azure_is_not_restored_from_and_who_may_not_see_tags_is_told() {
    let (azurite, runtime) = (Azurite::start(), Runtime::new().unwrap());
    azurite.container("backups");
    let place = format!("az://backups/{PLACE}");
    let store = store::open(&place, &with_keys(Azurite::ACCOUNT, Azurite::KEY, azurite.url())).unwrap();
    fill(&runtime, &*store, "", &Put::default());
    assert_eq!(newest(&runtime, Arc::clone(&store)).plan.target, Some(Revision(320)));

    azurite.tag("backups", &format!("{PLACE}/v2/{NEWEST_FULL}"), EXCLUDE, "true");
    require_without(&newest(&runtime, store), NEWEST_FULL, 205);

    let reader = |permissions| {
        let environment = Environment::of([
            ("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT.to_owned()),
            ("AZURE_STORAGE_SAS_TOKEN", azurite.shared_access(permissions)),
        ]);
        store::open(&place, &Settings { environment, endpoint: Some(azurite.url()), ..Settings::default() }).unwrap()
    };
    require_without(&newest(&runtime, reader("rlt")), NEWEST_FULL, 205);
    let blind = newest(&runtime, reader("rl"));
    assert_eq!((blind.plan.target, &blind.set_aside[..]), (Some(Revision(320)), &[][..]));
    assert!(is_untold(&blind), "{:?}", blind.plan.remarks);
}

#[test]
fn a_store_without_tags_has_nothing_marked() {
    let (server, runtime) = (S3sFs::start(), Runtime::new().unwrap());
    server.bucket("backups");
    let settings = with_keys(S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY, server.url());
    let store = store::open(&format!("s3://backups/{PLACE}"), &settings).unwrap();
    fill(&runtime, &*store, "", &Put::default());
    let agreed = newest(&runtime, store);
    assert_eq!(agreed.plan.target, Some(Revision(320)));
    assert!(!is_untold(&agreed), "{:?}", agreed.plan.remarks);
}
