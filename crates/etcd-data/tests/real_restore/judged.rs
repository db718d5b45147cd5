//! What servers and their tools must make of what we wrote.

use std::fmt::Debug;
use std::path::Path;

use testkit::client::HashKv;
use testkit::fixtures::{Point, PointHash};
use testkit::{Client, Etcd, Member, Version, judges};

/// What a server that runs on a restored directory must be able to do.
pub(crate) fn works(etcd: Etcd, what: &str) {
    carries_on(etcd, what, |client| client.all(0).unwrap());
}

/// The same, where not everything can be read: what `look` finds has to be there after a restart.
pub(crate) fn carries_on<T: PartialEq + Debug>(etcd: Etcd, what: &str, look: impl Fn(&Client) -> T) {
    let client = etcd.client();
    let before = client.status().unwrap().revision;
    assert_eq!(client.put("after", "1").unwrap(), before + 1, "{what}");
    client.delete("/registry/pods/4").unwrap();
    for number in 0..50 {
        client.put(format!("more/{}", number % 7), vec![1; 3000]).unwrap();
    }
    let now = client.status().unwrap().revision;
    client.compact(now - 5).unwrap();
    client.defragment().unwrap();
    client.put("after", "2").unwrap();
    let said = client.hash_kv(0).unwrap();
    let found = look(&client);

    let member = etcd.stop();
    judges::bbolt_check(member.db()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let etcd = member.start();
    let client = etcd.client();
    assert_eq!(client.hash_kv(0).unwrap().hash, said.hash, "{what}: after a restart");
    assert_eq!(look(&client), found, "{what}: after a restart");
    let db = etcd.stop().db();
    judges::bbolt_check(db).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Starts `member`, which says of `points` what the server before it said, and works.
pub(crate) fn runs_and_says(member: Member, points: &[Point], what: &str) {
    let etcd = member.start();
    let client = etcd.client();
    for point in points {
        for before in &point.hashes {
            let now = client.hash_kv(point.revision).unwrap();
            let now = PointHash { hash: now.hash, compact_revision: now.compact_revision };
            assert_eq!(now, *before, "{what} at {}", point.revision);
        }
        assert_eq!(client.all(point.revision).unwrap().len(), point.key_count, "{what} at {}", point.revision);
    }
    works(etcd, what);
}

/// Requires that etcd's tools of every version have no complaint about `db`, a database without a digest whose newest record is of
/// revision `newest`, and which has at `revision` the hash that was `expected` of it.
pub(crate) fn suits_every_tool(db: &Path, newest: i64, (revision, expected): (i64, HashKv), what: &str) {
    for version in Version::ALL {
        let what = format!("{what}, by the tool of {version}");
        let status = judges::snapshot_status(version, db).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(status.revision, newest, "{what}");
        let folder = tempfile::tempdir().unwrap();
        judges::etcdutl_restore(version, db, folder.path().join("restored"), &["--skip-hash-check=true"])
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    // That of 3.6 panics on leases, whoever wrote the file.
    let hash = judges::etcdutl_hashkv(Version::V37, db, revision).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((hash.hash, hash.compact_revision), (expected.hash, expected.compact_revision), "{what}");
}
