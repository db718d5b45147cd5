//! What a database holds, in the words of the truth that lies beside a file of a real server.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use etcd_data::database::Database;
use etcd_data::hash::hash_kv;
use etcd_data::live::{self, Keys};
use etcd_data::revision::Revision;
use testkit::fixtures::{KeysDigest, Point};

/// A live key's value, create revision, mod revision, version and lease.
pub(crate) type Live = (Vec<u8>, [i64; 4]);

/// The live keys of `database` at a revision; nothing for now.
pub(crate) fn live_keys(database: &Database, at: Option<Revision>) -> BTreeMap<Vec<u8>, Live> {
    let mut keys = BTreeMap::new();
    live::visit(database, at, Keys::All, |_, kv| {
        let numbers = [kv.create_revision.0, kv.mod_revision.0, kv.version, kv.lease.0];
        keys.insert(kv.key.to_vec(), (kv.value.to_vec(), numbers));
        ControlFlow::Continue(())
    })
    .unwrap();
    keys
}

/// Requires of `database` the keys and the hashes that the live server gave at `point`. Returns how many hashes it gave.
pub(crate) fn require_point(database: &Database, point: &Point, what: &str) -> usize {
    let Point { revision, key_count, keys_sha256: digest, hashes } = point;
    assert_eq!(keys_sha256(database, *revision), (*key_count, digest.clone()), "{what} at {revision}");
    for said in hashes {
        let compact = Some(Revision(said.compact_revision));
        let ours = hash_kv(database, Some(Revision(*revision)), compact).unwrap();
        assert_eq!(ours.hash, said.hash, "{what} at {revision}");
    }
    hashes.len()
}

/// How many live keys there are at `at`, and their digest as the truth beside a file has it.
fn keys_sha256(database: &Database, at: i64) -> (usize, String) {
    let keys = live_keys(database, Some(Revision(at)));
    let mut digest = KeysDigest::default();
    for (key, (value, numbers)) in &keys {
        digest.add(key, value, *numbers);
    }
    (keys.len(), digest.finish())
}
