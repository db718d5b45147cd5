//! Files by themselves: exports, defragmented ones, and what every tool computes of them.

use std::fs;

use etcd_data::bolt_file::BoltFile;
use etcd_data::defrag::defrag;
use etcd_data::export::{Against, export};
use etcd_data::restore::options::DigestRule;
use etcd_data::{Revision, Source};
use testkit::fixtures::{PointHash, points};
use testkit::{Golden, Member, Version, judges};

use crate::judged::{suits_every_tool, works};
use crate::origin::{options, origins, restored};

#[test]
fn an_export_is_a_snapshot_to_every_tool() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        for at in [50, 64] {
            let path = origin.folder.path().join(format!("export-{at}.db"));
            let exported = export(&source, Some(Revision(at)), &Against::default(), &path, &mut |_| {}).unwrap();
            let expected = origin.said_at(at);
            assert_eq!(exported.hash.hash, expected.hash);
            judges::bbolt_check(&path).unwrap();
            for version in Version::ALL {
                let what = format!("{} at {at}, restored by {version}", origin.version);
                let status = judges::snapshot_status(version, &path).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(status.revision, at, "{what}");
                // 3.4 keeps the old members in the database, and a newer version refuses those of a newer one.
                let is_newer = origin.version > version && version >= Version::V36;
                let member = Member::new(version, origin.folder.path().join(format!("{at}-by-{version}")));
                let peer = member.peer_url();
                let flags = [
                    "--name=default",
                    &format!("--initial-cluster=default={peer}"),
                    &format!("--initial-advertise-peer-urls={peer}"),
                ];
                judges::etcdutl_restore(version, &path, member.data_dir(), &flags)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                if !is_newer {
                    let etcd = member.start();
                    let said = etcd.client().hash_kv(at).unwrap();
                    assert_eq!(
                        (said.hash, said.compact_revision),
                        (expected.hash, expected.compact_revision),
                        "{what}"
                    );
                }
            }
            // That of 3.6 panics on leases, whoever wrote the file.
            let hash = judges::etcdutl_hashkv(Version::V37, &path, at).unwrap();
            assert_eq!((hash.hash, hash.compact_revision), (expected.hash, expected.compact_revision));
        }
    }
}

#[test]
fn a_defragmented_file_takes_the_place_of_the_members_own() {
    for origin in origins() {
        let db = origin.data_dir.join("member/snap/db");
        let path = origin.folder.path().join("db");
        let file = BoltFile::open(std::sync::Arc::new(fs::File::open(&db).unwrap())).unwrap();
        let done = defrag(&file, DigestRule::MustMatch, &path, &mut |_| {}).unwrap();
        drop(file);
        judges::bbolt_check(&path).unwrap();
        let status = judges::snapshot_status(Version::V36, &path).unwrap();
        assert_eq!(
            status,
            judges::snapshot_status(Version::V36, &db)
                .map(|old| judges::SnapshotStatus { total_size: status.total_size, ..old })
                .unwrap()
        );
        assert_eq!(done.hash, status.hash);
        suits_every_tool(&path, 64, (64, origin.said_at(64)), &format!("{} defragmented", origin.version));

        fs::rename(&path, &db).unwrap();
        let etcd = Member::new(origin.version, &origin.data_dir).start();
        assert_eq!(etcd.client().hash_kv(64).unwrap().hash, origin.said_at(64).hash, "{}", origin.version);
        works(etcd, &format!("{} defragmented", origin.version));
    }
}

/// Of a history without leases, which the tool of 3.6 computes a hash of too.
#[test]
fn the_hash_that_every_tool_computes_is_the_one_that_the_server_said() {
    for golden in Version::ALL.map(|version| Golden::get(version, "history")) {
        let (db, folder) = (golden.db(), tempfile::tempdir().unwrap());
        let source = Source::open(&db, folder.path()).unwrap().database;
        let member = Member::new(golden.version, folder.path().join("restored"));
        restored(&source, &options(&member));
        let defragmented = folder.path().join("defragmented");
        defrag(source.file().unwrap(), DigestRule::MustMatch, &defragmented, &mut |_| {}).unwrap();
        let points = points(&golden.truth());
        let last = points.last().unwrap();
        for db in [member.db(), defragmented] {
            for version in [Version::V36, Version::V37] {
                let what = format!("{} of {}, by the tool of {version}", db.display(), golden.version);
                let said = judges::etcdutl_hashkv(version, &db, last.revision)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let said = PointHash { hash: said.hash, compact_revision: said.compact_revision };
                assert_eq!(last.hashes, [said], "{what}");
            }
        }
    }
}
