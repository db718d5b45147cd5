//! What came of every version, at every revision, on servers of every version.

use std::fs;

use etcd_data::Revision;
use etcd_data::restore::Options;
use etcd_data::restore::options::Bump;
use testkit::{Member, Version, judges};

use crate::judged::{suits_every_tool, works};
use crate::origin::{options, origins, restored, target};

#[test]
fn every_version_runs_on_what_came_from_every_version() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        for version in Version::ALL {
            let what = format!("{} for {version}", origin.version);
            let member = Member::new(version, origin.folder.path().join(version.minor()));
            let done = restored(&source, &Options { version: target(version), ..options(&member) });
            let db = member.db();
            judges::bbolt_check(&db).unwrap_or_else(|error| panic!("{what}: {error}"));

            let etcd = member.flag(version.initial_corrupt_check()).start();
            let said = etcd.client().hash_kv(64).unwrap();
            let expected = origin.said_at(64);
            assert_eq!((said.hash, said.compact_revision), (expected.hash, expected.compact_revision), "{what}");
            assert_eq!(done.hash.hash, said.hash, "{what}");
            assert_eq!(etcd.client().status().unwrap().revision, 64, "{what}");
            works(etcd, &what);
        }
    }
}

#[test]
fn every_revision_has_the_hash_that_the_server_had_there() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        for at in [41, 45, 52, 63] {
            let what = format!("{} at {at}", origin.version);
            let member = Member::new(origin.version, origin.folder.path().join(at.to_string()));
            let done = restored(&source, &Options { at: Some(Revision(at)), ..options(&member) });
            let expected = origin.said_at(at);
            assert_eq!((done.hash.hash, done.hash.compact_revision), (expected.hash, Some(Revision(40))), "{what}");
            let etcd = member.start();
            let said = etcd.client().hash_kv(0).unwrap();
            assert_eq!((said.hash, said.compact_revision), (expected.hash, expected.compact_revision), "{what}");
            assert_eq!(etcd.client().put("next", "1").unwrap(), at + 1, "{what}");
        }
        // At the compact revision itself: the first that can still be read.
        let member = Member::new(origin.version, origin.folder.path().join("40"));
        restored(&source, &Options { at: Some(Revision(40)), ..options(&member) });
        let etcd = member.start();
        assert_eq!(etcd.client().status().unwrap().revision, 40, "{}", origin.version);
        works(etcd, &format!("{} at its compact revision", origin.version));
    }
}

#[test]
fn what_a_source_version_says_of_itself_suits_that_version() {
    for origin in origins() {
        let source = origin.open(&origin.data_dir);
        let member = Member::new(origin.version, origin.folder.path().join("same"));
        restored(&source, &options(&member));
        suits_every_tool(&member.db(), 64, (64, origin.said_at(64)), &format!("{} as it is", origin.version));
        let etcd = member.start();
        assert_eq!(etcd.client().hash_kv(64).unwrap().hash, origin.said_at(64).hash, "{}", origin.version);
        works(etcd, &format!("{} as it is", origin.version));
    }
}

#[test]
fn a_bumped_member_goes_on_after_all_that_clients_have_seen() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        for version in Version::ALL {
            let what = format!("{} for {version}, bumped", origin.version);
            let member = Member::new(version, origin.folder.path().join(format!("bumped-{version}")));
            let options = Options {
                at: Some(Revision(50)),
                bump: Bump::By(1_000_000),
                version: target(version),
                ..options(&member)
            };
            let done = restored(&source, &options);
            let db = origin.folder.path().join(format!("bumped-{version}.db"));
            fs::copy(member.db(), &db).unwrap();
            let etcd = member.start();
            let client = etcd.client();
            let revision = 64 + 1_000_000;
            // The revision has no record of its own: where it is compacted is where it goes on.
            suits_every_tool(&db, 50, (revision, client.hash_kv(0).unwrap()), &what);
            assert_eq!(client.status().unwrap().revision, revision, "{what}");
            assert_eq!(done.hash.revision, Revision(revision), "{what}");
            assert_eq!(client.all(0).unwrap(), origin.keys_at_50, "{what}");
            assert_eq!(client.put("next", "1").unwrap(), revision + 1, "{what}");
            let error = client.range("a", "", revision - 1).unwrap_err();
            assert!(error.message.contains("compacted"), "{what}: {error:?}");
            works(etcd, &what);
        }
    }
}
