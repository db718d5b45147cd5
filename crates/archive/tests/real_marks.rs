//! Objects of etcdbrctl that somebody marked as not to be restored from, in a store whose listing does not tell.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::layout::etcdbrctl::EXCLUDE;
use archive::plan::Wanted;
use archive::point::At;
use archive::sealing::NoKeys;
use etcd_data::Revision;
use store::{Bag, Credentials, Key, Put, Secret, Settings};
use testkit::fixtures;
use testkit::stores::FakeGcs;

#[test]
fn what_is_marked_is_not_restored_from() {
    let gcs = FakeGcs::start();
    gcs.bucket("backups");
    let values = [("serviceaccount.json".to_owned(), Secret::new(gcs.service_account_key()))];
    let settings = Settings {
        credentials: Credentials::Bag(Bag::Values(values.into())),
        endpoint: Some(gcs.url()),
        ..Settings::default()
    };
    let store = store::open("gs://backups/etcd-main", &settings).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let last = "Incr-00000299-00000320-1795224146.gz";
    for file in std::fs::read_dir(fixtures::path("etcdbrctl/small-3.5.30/v2")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mark = (name == last).then(|| (EXCLUDE.to_owned(), "true".to_owned()));
        let put = Put { metadata: mark.into_iter().collect(), ..Put::default() };
        let bytes = std::fs::read(&path).unwrap();
        runtime.block_on(store.put(&Key::parse(format!("v2/{name}")).unwrap(), bytes.into(), &put)).unwrap();
    }
    let archive = Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let agreed = archive.agree(&Wanted::default(), &At::Latest, scratch.path()).unwrap();
    assert_eq!(agreed.plan.target, Some(Revision(298)));
    assert_eq!(agreed.set_aside, [(Key::parse(format!("v2/{last}")).unwrap(), "it is marked as excluded".to_owned())]);
}
