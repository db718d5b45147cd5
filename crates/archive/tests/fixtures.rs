//! Archives that other systems wrote, opened and restored as anybody would: every point of every truth.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::plan::Wanted;
use archive::point::At;
use archive::sealing::NoKeys;
use etcd_data::hash::hash_kv;
use etcd_data::live::{self, Keys};
use etcd_data::{Database, Revision};
use store::Folder;
use testkit::fixtures::{self, KeysDigest, Point};

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

fn require(point: &Point, database: &Database) {
    let at = Some(Revision(point.revision));
    assert_eq!(keys_sha256(database, at), point.keys_sha256, "keys at {}", point.revision);
    assert_eq!(live::count(database, at, Keys::All).unwrap(), point.key_count as u64, "count at {}", point.revision);
    let begins = database.tables().compact_revision().unwrap().unwrap_or(Revision(-1));
    for hash in point.hashes.iter().filter(|hash| hash.compact_revision >= begins.0) {
        let compact = (hash.compact_revision > 0).then_some(Revision(hash.compact_revision));
        let found = hash_kv(database, at, compact).unwrap();
        assert_eq!(found.hash, hash.hash, "HashKV at {} compacted at {}", point.revision, hash.compact_revision);
    }
}

/// SHA-256 over all live keys in their order, as the truth files have it.
fn keys_sha256(database: &Database, at: Option<Revision>) -> String {
    let mut keys = Vec::new();
    let note = |_, found: etcd_data::KeyValue<'_>| {
        keys.push(found.to_owned());
        std::ops::ControlFlow::Continue(())
    };
    live::visit(database, at, Keys::All, note).unwrap();
    keys.sort_by(|a, b| a.key.cmp(&b.key));
    let mut digest = KeysDigest::default();
    for found in keys {
        let numbers = [found.create_revision.0, found.mod_revision.0, found.version, found.lease.0];
        digest.add(&found.key, &found.value, numbers);
    }
    digest.finish()
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
