//! What is compacted while it is restored, and what was being compacted when its server was killed.

use std::fs;

use etcd_data::restore::Options;
use etcd_data::{Revision, Source};
use testkit::fixtures::points;
use testkit::{Etcd, Golden, Member, Version};

use crate::judged::{runs_and_says, suits_every_tool, works};
use crate::origin::{Origin, options, restored, target};

#[test]
fn what_is_compacted_here_is_what_a_server_compacts() {
    for version in Version::ALL {
        let origin = Origin::of(version);
        let source = origin.open(&origin.snapshot());
        let original = Member::new(version, &origin.data_dir).start();
        // At the first of these keys are deleted.
        for compact in [41, 60] {
            let what = format!("{version} compacted at {compact}");
            let member = Member::new(version, origin.folder.path().join(compact.to_string()));
            restored(&source, &Options { compact_at: Some(Revision(compact)), ..options(&member) });
            let db_before = member.db();
            let db = origin.folder.path().join(format!("{compact}.db"));
            fs::copy(&db_before, &db).unwrap();
            let etcd = member.start();
            let said = etcd.client().hash_kv(64).unwrap();
            assert_eq!(said.compact_revision, compact, "{what}");
            suits_every_tool(&db, 64, (64, said), &what);
            // The same as the server of the source says once it is compacted there.
            original.client().compact(compact).unwrap();
            assert_eq!(original.client().hash_kv(64).unwrap().hash, said.hash, "{what}");
            let member = etcd.stop();
            assert_eq!(member.db(), db_before, "{what}");
            works(member.start(), &what);
        }
    }
}

/// Then a server counts all that it meets: also a deletion at the compact revision, if it should not be there.
#[test]
fn a_store_in_which_no_key_is_left_has_the_hash_of_one_that_its_server_compacted() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let original = Etcd::start(version, folder.path().join("origin"));
        for key in ["a", "b"] {
            original.client().put(key, "1").unwrap();
            original.client().delete(key).unwrap();
        }
        original.client().snapshot_to(folder.path().join("snapshot.db")).unwrap();
        let source = Source::open(&folder.path().join("snapshot.db"), folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("compacted"));
        let options = Options { compact_at: Some(Revision(3)), version: target(version), ..options(&member) };
        let done = restored(&source, &options);
        let said = member.start().client().hash_kv(5).unwrap();
        original.client().compact(3).unwrap();
        let expected = original.client().hash_kv(5).unwrap();
        assert_eq!((said.hash, said.compact_revision), (expected.hash, 3), "{version}");
        assert_eq!(done.hash.hash, said.hash, "{version}");
    }
}

#[test]
fn a_member_that_was_killed_while_it_compacted_comes_up_compacted() {
    for version in Version::ALL {
        let golden = Golden::get(version, "compacting");
        let (db, folder) = (golden.db(), tempfile::tempdir().unwrap());
        let source = Source::open(&db, folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));
        runs_and_says(member, &points(&golden.truth()), &format!("{version}, killed while it compacted"));
    }
}
