//! A bucket for archives, behind a network that can fail.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use store::{Bag, Credentials, Secret, Settings, Store};
use testkit::stores::{FakeGcs, Toxic};

use crate::running::succeed;

/// The bucket, and where in it.
pub(crate) const BUCKET: &str = "gs://archives/of/ours";

/// A server with it.
pub(crate) struct Bucket {
    server: FakeGcs,
    network: Toxic,
    key: PathBuf,
}

impl Bucket {
    /// One with its key in the folder `beside`.
    pub(crate) fn new(beside: &Path) -> Self {
        let server = FakeGcs::start();
        server.bucket("archives");
        let network = Toxic::before_url(&server.url());
        let key = beside.join("service-account.json");
        fs::write(&key, server.service_account_key()).unwrap();
        Self { server, network, key }
    }

    /// How `refloat` reaches it by the network that can fail.
    pub(crate) fn reached(&self) -> [String; 4] {
        self.reached_at(self.network.url())
    }

    /// It, for the test itself: not through that network.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        open_bucket(&self.server)
    }

    /// Everything in it is kept for so long from now on, by a policy of the bucket.
    pub(crate) fn keep_for(&self, time: SignedDuration) {
        self.server.keep_for("archives", time);
    }

    /// What is in it.
    pub(crate) fn names(&self) -> Vec<String> {
        self.server.names("archives")
    }

    /// HashKV as `refloat` finds it there at `revision`, not through that network.
    pub(crate) fn hash_at(&self, revision: i64) -> u32 {
        let (reached, at) = (self.reached_at(self.server.url()), revision.to_string());
        let args = ["hashkv", BUCKET, "--at", &at, "-o", "json"];
        let args = args.into_iter().chain(reached.iter().map(String::as_str));
        let found: Value = serde_json::from_str(&succeed(&args.collect::<Vec<_>>())).unwrap();
        found["hash"].as_u64().unwrap().try_into().unwrap()
    }

    /// Nobody reaches it any more by that network, or everybody does again.
    pub(crate) fn is_away(&self, is_away: bool) {
        self.network.closed(is_away);
    }

    /// How many bytes came from there by that network.
    pub(crate) fn fetched(&self) -> u64 {
        self.network.bytes_to_clients()
    }

    fn reached_at(&self, url: String) -> [String; 4] {
        ["--endpoint".into(), url, "--credentials".into(), self.key.to_str().unwrap().into()]
    }
}

/// The bucket of a server, straight.
pub(crate) fn open_bucket(server: &FakeGcs) -> Arc<dyn Store> {
    let values = [("serviceaccount.json".to_owned(), Secret::new(server.service_account_key()))];
    let credentials = Credentials::Bag(Bag::Values(values.into()));
    let settings = Settings { credentials, endpoint: Some(server.url()), ..Settings::default() };
    store::open(BUCKET, &settings).unwrap()
}
