//! An archive of etcdbrctl that is far away: in a store that counts, and has no files on this machine.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::sealing::NoKeys;
use store::{Counting, Key, Memory, Put, Store};
use testkit::fixtures;

pub(crate) struct World {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) store: Arc<Counting>,
}

impl World {
    /// The archive `name`. Nothing was counted yet.
    pub(crate) fn of(name: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let store = Arc::new(Counting::new(Arc::new(Memory::new())));
        for entry in fs::read_dir(fixtures::path(format!("etcdbrctl/{name}/v2"))).unwrap() {
            let entry = entry.unwrap();
            let key = Key::parse(format!("v2/{}", entry.file_name().into_string().unwrap())).unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            runtime.block_on(store.put(&key, bytes.into(), &Put::default())).unwrap();
        }
        store.take();
        Self { runtime, scratch: tempfile::tempdir().unwrap(), store }
    }

    pub(crate) fn open(&self) -> Archive {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        Archive::open(store, self.runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap()
    }
}
