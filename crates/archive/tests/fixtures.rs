//! Archives that other systems wrote, opened and restored as anybody would: every point of every truth.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "fixtures/point.rs"]
mod point;

use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::plan::Wanted;
use archive::point::At;
use archive::sealing::NoKeys;
use etcd_data::{Database, Revision};
use store::Folder;
use testkit::fixtures;

use point::require;

/// The archives that etcdbrctl wrote.
const ETCDBRCTL: [&str; 6] =
    ["plain-3.5.30", "gzip-3.4.23", "lzw-3.5.30", "zlib-3.5.30", "compacted-3.5.30", "small-3.5.30"];

struct World {
    runtime: tokio::runtime::Runtime,
    scratch: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { runtime, scratch: tempfile::tempdir().unwrap() }
    }

    fn open(&self, path: &Path) -> Archive {
        let store = Arc::new(Folder::at(path).unwrap());
        Archive::open(store, self.runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap()
    }

    fn database(&self, archive: &Archive, at: &At) -> (Revision, Database) {
        let agreed = archive.agree(&Wanted::default(), at, self.scratch.path()).unwrap();
        assert_eq!(agreed.set_aside, [], "{at}");
        let point = archive.open_whole(&agreed, self.scratch.path()).unwrap();
        (point.revision, point.database)
    }
}

#[test]
fn every_point_of_etcdbrctls_archives_is_as_the_live_server_had_it() {
    let world = World::new();
    for name in ETCDBRCTL {
        let archive = world.open(&fixtures::path(format!("etcdbrctl/{name}")));
        for point in fixtures::points(&fixtures::truth(format!("etcdbrctl/{name}.truth.json"))) {
            println!("{name} at {}", point.revision);
            let (revision, database) = world.database(&archive, &At::Revision(Revision(point.revision)));
            assert_eq!(revision.0, point.revision);
            require(&point, &database);
        }
    }
}
