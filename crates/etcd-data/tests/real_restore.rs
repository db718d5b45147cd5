//! Real etcd of every version, started from what we wrote, and its own tools on the same files.
//!
//! Whatever version the source is of, and whatever version the directory is for: the server has the HashKV that the
//! source's server had, takes writes, compacts, defragments, and starts again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_data::bolt_file::BoltFile;
use etcd_data::defrag::defrag;
use etcd_data::export::{Against, export};
use etcd_data::restore::destination::Existing;
use etcd_data::restore::options::{Alarms, Bump, EtcdVersion, ForVersion, Leases, Token};
use etcd_data::restore::{Options, Plan, Restored, restore};
use etcd_data::undo::undo;
use etcd_data::{Database, Revision, Source};
use tempfile::TempDir;
use testkit::client::{HashKv, Kv};
use testkit::fixtures::{DATA_DIRS, Point, PointHash, data_dir, data_dir_truth, points};
use testkit::{Client, ClusterPlan, Compare, Etcd, Golden, Member, Op, Txn, Version, judges};

/// What a server of one version was made to hold, and what it said of it.
struct Origin {
    version: Version,
    folder: TempDir,
    /// HashKV at every revision after the compaction.
    hashes: Vec<(i64, HashKv)>,
    /// All keys at revision 50.
    keys_at_50: Vec<Kv>,
    /// What is left of a stopped server.
    data_dir: PathBuf,
}

/// The key space: revisions 2 to 64, compacted at 40; overwritten, deleted and put again, in transactions too, with
/// leases, large and empty values, and odd keys.
fn fill(client: &Client) {
    client.grant(3600, 77).unwrap();
    client.grant(3600, -5).unwrap();
    for number in 0..36 {
        client.put(format!("/registry/pods/{}", number % 11), format!("value {number}").repeat(number + 1)).unwrap();
    }
    client.put_leased("leased", "1", 77).unwrap();
    client.put_leased([0, 255, 1], "odd", -5).unwrap();
    client.delete("/registry/pods/3").unwrap();
    client.compact(40).unwrap();
    client.delete_range("/registry/pods/1", "/registry/pods/2").unwrap();
    client.txn(&Txn::new().then(Op::put("a", "1")).then(Op::delete("leased")).then(Op::put("b", ""))).unwrap();
    client.txn(&Txn::new().when(Compare::absent("zzz")).then(Op::put("/registry/pods/3", "again"))).unwrap();
    client.put("large", vec![7; 1 << 20]).unwrap();
    client.put("k".repeat(32 << 10), "long key").unwrap();
    while client.status().unwrap().revision < 64 {
        client.put("counter", "x").unwrap();
    }
}

impl Origin {
    fn of(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Etcd::start(version, folder.path().join("origin"));
        let client = etcd.client();
        fill(&client);
        let hashes = (41..=64).map(|revision| (revision, client.hash_kv(revision).unwrap())).collect();
        let keys_at_50 = client.all(50).unwrap();
        client.snapshot_to(folder.path().join("snapshot.db")).unwrap();
        let data_dir = etcd.stop().data_dir().to_owned();
        Self { version, folder, hashes, keys_at_50, data_dir }
    }

    fn snapshot(&self) -> PathBuf {
        self.folder.path().join("snapshot.db")
    }

    fn open(&self, path: &Path) -> Database {
        Source::open(path, self.folder.path()).unwrap().database
    }

    fn said_at(&self, revision: i64) -> HashKv {
        self.hashes.iter().find(|(at, _)| *at == revision).unwrap().1
    }
}

fn options(member: &Member) -> Options {
    let token = Token::unique().unwrap();
    Options { peer_urls: Some(member.peer_url()), ..Options::new(member.data_dir(), token, "now") }
}

fn restored(source: &Database, options: &Options) -> Restored {
    let plan = Plan::make(source, options).unwrap();
    restore(source, &plan, &mut |_| {}).unwrap()
}

fn target(version: Version) -> ForVersion {
    ForVersion::Version(version.minor().parse::<EtcdVersion>().unwrap())
}

/// What a server that runs on a restored directory must be able to do.
fn works(etcd: Etcd, what: &str) {
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
    let keys = client.all(0).unwrap();

    let member = etcd.stop();
    judges::bbolt_check(member.db()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let etcd = member.start();
    let client = etcd.client();
    assert_eq!(client.hash_kv(0).unwrap().hash, said.hash, "{what}: after a restart");
    assert_eq!(client.all(0).unwrap(), keys, "{what}: after a restart");
    let db = etcd.stop().db();
    judges::bbolt_check(db).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Requires that etcd's tools of every version have no complaint about `db`, a database without a digest that ends at
/// revision 64 and has the hash that was `expected` of it.
fn suits_every_tool(db: &Path, expected: HashKv, what: &str) {
    for version in Version::ALL {
        let what = format!("{what}, by the tool of {version}");
        let status = judges::snapshot_status(version, db).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(status.revision, 64, "{what}");
        let folder = tempfile::tempdir().unwrap();
        judges::etcdutl_restore(version, db, folder.path().join("restored"), &["--skip-hash-check=true"])
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    // That of 3.6 panics on leases, whoever wrote the file.
    let hash = judges::etcdutl_hashkv(Version::V37, db, 64).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((hash.hash, hash.compact_revision), (expected.hash, expected.compact_revision), "{what}");
}

fn origins() -> Vec<Origin> {
    Version::ALL.into_iter().map(Origin::of).collect()
}

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
        suits_every_tool(&member.db(), origin.said_at(64), &format!("{} as it is", origin.version));
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
            let etcd = member.start();
            let client = etcd.client();
            let revision = 64 + 1_000_000;
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

#[test]
fn leases_go_on_and_can_be_dropped() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        for (leases, expected) in [(Leases::Keep, vec![-5, 77]), (Leases::Drop, vec![])] {
            let folder = origin.folder.path().join(format!("{leases:?}"));
            let member = Member::new(origin.version, folder);
            restored(&source, &Options { leases, ..options(&member) });
            let etcd = member.start();
            let mut found: Vec<i64> = etcd.client().leases().unwrap().iter().map(|lease| lease.id).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{}", origin.version);
            if leases == Leases::Keep {
                etcd.client().revoke(-5).unwrap();
                assert!(etcd.client().get([0, 255, 1]).unwrap().is_none());
            }
        }
    }
}

#[test]
fn an_alarm_for_want_of_space_does_not_come_along() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Etcd::start(version, folder.path().join("origin"));
        let client = etcd.client();
        client.put("a", "1").unwrap();
        let id = client.status().unwrap().member_id;
        client.raise_alarm(id, "NOSPACE").unwrap();
        let stopped = etcd.stop();
        let source = Source::open(stopped.data_dir(), folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));
        let etcd = member.start();
        assert!(etcd.client().alarms().unwrap().is_empty(), "{version}");
        etcd.client().put("b", "1").unwrap();

        let member = Member::new(version, folder.path().join("kept"));
        restored(&source, &Options { alarms: Alarms::Keep, ..options(&member) });
        let etcd = member.start();
        assert_eq!(etcd.client().alarms().unwrap().len(), 1, "{version}");
    }
}

#[test]
fn who_had_to_log_in_has_to_log_in_again() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Etcd::start(version, folder.path().join("origin"));
        let client = etcd.client();
        client.put("/app/a", "1").unwrap();
        for (user, password) in [("root", "root-secret"), ("reader", "reader-secret")] {
            client.user_add(user, password).unwrap();
        }
        client.role_add("readers").unwrap();
        client.role_grant("readers", "READ", "/app/", "/app0").unwrap();
        client.user_grant_role("root", "root").unwrap();
        client.user_grant_role("reader", "readers").unwrap();
        client.auth_enable().unwrap();
        let stopped = etcd.stop();
        let source = Source::open(stopped.data_dir(), folder.path()).unwrap().database;
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));

        let etcd = member.start();
        let client = etcd.client();
        let error = client.get("/app/a").unwrap_err();
        assert!(error.message.contains("user name is empty"), "{version}: {error}");
        assert!(client.log_in("reader", "a guess").is_err(), "{version}");
        let reader = client.log_in("reader", "reader-secret").unwrap();
        assert_eq!(reader.get("/app/a").unwrap().unwrap().value, b"1", "{version}");
        let error = reader.put("/app/a", "2").unwrap_err();
        assert!(error.message.contains("permission denied"), "{version}: {error}");
        let root = client.log_in("root", "root-secret").unwrap();
        root.put("/app/a", "2").unwrap();
        assert_eq!(root.roles_of("reader").unwrap(), ["readers"], "{version}");
    }
}

#[test]
fn three_restored_members_are_a_cluster_and_one_can_be_lost() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        let plan = ClusterPlan::of(3);
        let dirs: Vec<PathBuf> = plan.names().iter().map(|name| origin.folder.path().join(name)).collect();
        for ((name, url), dir) in plan.names().iter().zip(plan.peer_urls()).zip(&dirs) {
            let options = Options {
                name: name.clone(),
                initial_cluster: Some(plan.initial_cluster()),
                peer_urls: Some(url),
                ..Options::new(dir, Token::Named("three".into()), "now")
            };
            restored(&source, &options);
        }
        let mut cluster = plan.start(origin.version, &dirs);
        let expected = origin.said_at(64);
        for member in &cluster.members {
            assert_eq!(member.client().hash_kv(64).unwrap().hash, expected.hash, "{}", origin.version);
        }
        let lost = cluster.members.remove(1).kill();
        for number in 0..20 {
            put_once_there_is_a_leader(&cluster.members[0].client(), &number.to_string());
        }
        let back = lost.start();
        assert_eq!(back.client().get("alive").unwrap().unwrap().value, b"19", "{}", origin.version);
        let revision = cluster.members[0].client().status().unwrap().revision;
        let hash = cluster.members[0].client().hash_kv(revision).unwrap();
        assert_eq!(back.client().hash_kv(revision).unwrap().hash, hash.hash, "{}", origin.version);
    }
}

/// The member that was lost may have been the leader; the others then elect one, which takes a second or two.
fn put_once_there_is_a_leader(client: &Client, value: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = client.put("alive", value) {
        assert!(Instant::now() < deadline, "{error:?}");
    }
}

#[test]
fn the_log_may_lie_on_another_disk() {
    for origin in origins() {
        let source = origin.open(&origin.snapshot());
        let member = Member::new(origin.version, origin.folder.path().join("data"));
        let wal_dir = origin.folder.path().join("logs/wal");
        restored(&source, &Options { wal_dir: Some(wal_dir.clone()), ..options(&member) });
        let etcd = member.flag(format!("--wal-dir={}", wal_dir.display())).start();
        assert_eq!(etcd.client().hash_kv(64).unwrap().hash, origin.said_at(64).hash, "{}", origin.version);
        works(etcd, &format!("{} with its log elsewhere", origin.version));
    }
}

#[test]
fn a_member_that_was_replaced_runs_again_after_undo() {
    let origin = Origin::of(Version::V36);
    let source = origin.open(&origin.snapshot());
    let member = Member::new(origin.version, &origin.data_dir);
    let again = Options { existing: Existing::KeepAside, at: Some(Revision(50)), ..options(&member) };
    restored(&source, &again);
    let etcd = member.start();
    assert_eq!(etcd.client().put("on the wrong path", "1").unwrap(), 51);
    // While it runs, nothing is moved.
    assert!(undo(&origin.data_dir, "later").is_err());
    let member = etcd.stop();
    undo(&origin.data_dir, "later").unwrap();
    let etcd = member.start();
    assert_eq!(etcd.client().hash_kv(64).unwrap().hash, origin.said_at(64).hash);
    assert!(etcd.client().get("on the wrong path").unwrap().is_none());
}

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
        let done = defrag(&file, &path, &mut |_| {}).unwrap();
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
        suits_every_tool(&path, origin.said_at(64), &format!("{} defragmented", origin.version));

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
        defrag(source.file().unwrap(), &defragmented, &mut |_| {}).unwrap();
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

#[test]
fn what_became_of_a_killed_member_runs() {
    for name in DATA_DIRS.into_iter().filter(|name| name.ends_with("-killed")) {
        let version = Version::ALL.into_iter().find(|version| name.starts_with(version.minor())).unwrap();
        let (dir, folder) = (data_dir(name), tempfile::tempdir().unwrap());
        let source = Source::open(dir.path(), folder.path()).unwrap().database;
        let mut truth = data_dir_truth(name);
        truth["points"] = serde_json::json!([truth["final"]]);
        let member = Member::new(version, folder.path().join("restored"));
        restored(&source, &options(&member));
        runs_and_says(member, &points(&truth), name);
    }
}

/// Starts `member`, which says of `points` what the server before it said, and works.
fn runs_and_says(member: Member, points: &[Point], what: &str) {
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
