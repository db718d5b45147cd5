//! Archives of etcdbrctl that are far away: what is fetched of them, and what whoever looks for a key there notices.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

#[path = "far/world.rs"]
mod world;

use archive::object::Wanted as WantedKeys;
use archive::plan::Wanted;
use archive::point::At;
use archive::rebuild::BuildPoint;
use etcd_data::Revision;
use etcd_data::hash::hash_kv;

use world::World;

impl World {
    fn build(&self, keys: Option<WantedKeys<'_>>) -> BuildPoint {
        let (wanted, scratch, set_aside) = (Wanted::default(), self.scratch.path(), Vec::new());
        let built = match keys {
            None => self.open().open_point(&wanted, &At::Latest, scratch, set_aside),
            Some(keys) => self.open().open_point_for(&wanted, &At::Latest, keys, scratch, set_aside),
        };
        built.unwrap()
    }
}

#[test]
fn what_is_restored_of_an_archive_that_nothing_chains_is_fetched_once() {
    for name in ["small-3.5.30", "plain-3.5.30"] {
        let world = World::of(name);
        let point = world.build(None);
        hash_kv(&point.opened.database, None, None).unwrap();
        let counts = world.store.take();
        assert!(!point.agreed.plan.deltas.is_empty(), "{name}");
        assert_eq!(counts.bytes_read, point.agreed.plan.size_bytes(), "{name}: {counts:?}");
    }
}

#[test]
fn who_looks_for_keys_notices_a_delta_of_another_cluster_as_a_restore_does() {
    let world = World::of("damaged/foreign-cluster");
    let whole = world.build(None);
    for keys in [WantedKeys::Key(b"rng/0"), WantedKeys::Prefix(b"app/"), WantedKeys::Key(b"no such key")] {
        let BuildPoint { agreed, opened } = world.build(Some(keys));
        assert_eq!((opened.revision, whole.opened.revision), (Revision(320), Revision(320)), "{keys:?}");
        assert_eq!(agreed.set_aside, whole.agreed.set_aside);
        let [(key, _)] = &agreed.set_aside[..] else { panic!("{:?}", agreed.set_aside) };
        assert_eq!(key.name(), "Incr-00000321-00000351-1795224176.gz");
    }
}
