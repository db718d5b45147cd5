//! A store that goes away while a point is restored: at whichever request, that is said for what it is, and nothing is there
//! that looks like a restore. No object is blamed for it, and no lesser point is taken instead.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::plan::Wanted;
use archive::point::At;
use archive::rebuild::{BuildError, BuildPoint};
use archive::sealing::NoKeys;
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan, restore};
use etcd_data::{Kind, Revision};
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::{Patience, Retrying, Store};
use testkit::{Faults, FaultyStore};
use world::World;

/// So many that objects are read in more than one request.
const LAST: i64 = 160_000;

fn world() -> World {
    let world = World::new(&mut StdRng::seed_from_u64(9), LAST);
    let mut follows = world.write(0, 100_000, None);
    for from in (100_001..LAST).step_by(30_000) {
        follows = world.write(from, from + 29_999, Some(follows));
    }
    world
}

fn restored(world: &World, store: Arc<dyn Store>, data_dir: &Path) -> Result<HashKv, BuildError> {
    let build = |point: &BuildPoint| {
        let options = Options::new(data_dir, Token::unique().unwrap(), "20261122T000000-000Z".to_owned());
        let plan = Plan::make(&point.opened.database, &options)?;
        restore(&point.opened.database, &plan, &mut |_| {}).map(|restored| restored.hash)
    };
    let archive = Archive::open(store, world.runtime.handle().clone(), &Which::default(), Arc::new(NoKeys))?;
    let (point, hash) = archive.build(&Wanted::default(), &At::Latest, world.scratch.path(), build)?;
    assert_eq!(point.opened.revision, Revision(LAST), "a lesser point is not what was asked for");
    Ok(hash)
}

#[test]
fn a_store_that_goes_away_in_the_middle_of_a_restore_leaves_nothing_half_made() {
    let world = world();
    let expected = hash_kv(&world.truth, None, None).unwrap().hash;
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut requests = 0;
    loop {
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&world.store), Faults::NONE, 1));
        faulty.cut_off_after(requests);
        match restored(&world, Arc::clone(&faulty) as Arc<dyn Store>, &data_dir) {
            Ok(hash) => {
                assert_eq!(hash.hash, expected);
                break;
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::Unavailable, "after {requests} requests: {error:?}");
                let left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
                assert!(left.is_empty(), "after {requests} requests: {left:?}");
                requests += 1;
            }
        }
    }
    println!("{requests} requests");
    assert!(requests > 12, "objects are read in one request, and there is no middle: {requests}");
}

#[test]
fn one_that_fails_now_and_then_is_asked_again() {
    let world = world();
    let expected = hash_kv(&world.truth, None, None).unwrap().hash;
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults { failure: 0.3, ..Faults::NONE };
    let faulty = Arc::new(FaultyStore::new(Arc::clone(&world.store), faults, 1));
    let patience = Patience { first_pause: std::time::Duration::from_millis(1), ..Patience::default() };
    let store = Retrying::new(Arc::clone(&faulty) as Arc<dyn Store>, patience);
    let hash = restored(&world, Arc::new(store), &folder.path().join("data")).unwrap();
    assert_eq!(hash.hash, expected);
    assert!(faulty.injected().failures > 0, "{:?}", faulty.injected());
}
