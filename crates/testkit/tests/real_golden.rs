//! etcd's own tools find in the golden files what the live servers had said.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use testkit::{Golden, Version, fixtures, judges};

#[test]
fn the_judges_agree_with_the_truth() {
    for golden in Golden::all() {
        let db = golden.db();
        judges::bbolt_check(&db).unwrap();

        let truth = golden.truth();
        for point in fixtures::points(&truth) {
            let judged = judges::etcdutl_hashkv(Version::V37, &db, point.revision).unwrap();
            assert_eq!(judged.hash, point.hashes[0].hash, "{golden:?} at {}", point.revision);
            assert_eq!(judged.compact_revision, point.hashes[0].compact_revision, "{golden:?}");
        }
    }
}
