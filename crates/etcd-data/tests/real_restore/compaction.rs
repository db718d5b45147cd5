//! What is compacted while it is restored, and what was being compacted when its server was killed.

use etcd_data::restore::Options;
use etcd_data::{Revision, Source};
use testkit::fixtures::points;
use testkit::{Golden, Member, Version};

use crate::judged::{runs_and_says, works};
use crate::origin::{Origin, options, restored};

#[test]
fn what_is_compacted_here_is_what_a_server_compacts() {
    for version in Version::ALL {
        let origin = Origin::of(version);
        let source = origin.open(&origin.snapshot());
        let member = Member::new(version, origin.folder.path().join("compacted"));
        restored(&source, &Options { compact_at: Some(Revision(60)), ..options(&member) });
        let db_before = member.db();
        let etcd = member.start();
        let said = etcd.client().hash_kv(64).unwrap();
        assert_eq!(said.compact_revision, 60, "{version}");
        // The same as the server of the source says once it is compacted there.
        let original = Member::new(version, &origin.data_dir).start();
        original.client().compact(60).unwrap();
        assert_eq!(original.client().hash_kv(64).unwrap().hash, said.hash, "{version}");
        let db = etcd.stop().db();
        assert_eq!(db, db_before);
        works(Member::new(version, origin.folder.path().join("compacted")).start(), &format!("{version} compacted"));
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
