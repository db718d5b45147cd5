//! What a server of each version left, and what is restored of it.

use std::path::{Path, PathBuf};

use etcd_data::restore::options::{EtcdVersion, ForVersion, Token};
use etcd_data::restore::{Options, Plan, Restored, restore};
use etcd_data::{Database, Source};
use tempfile::TempDir;
use testkit::client::{HashKv, Kv};
use testkit::{Client, Compare, Etcd, Member, Op, Txn, Version};

/// What a server of one version was made to hold, and what it said of it.
pub(crate) struct Origin {
    pub(crate) version: Version,
    pub(crate) folder: TempDir,
    /// HashKV at every revision after the compaction.
    pub(crate) hashes: Vec<(i64, HashKv)>,
    /// All keys at revision 50.
    pub(crate) keys_at_50: Vec<Kv>,
    /// What is left of a stopped server.
    pub(crate) data_dir: PathBuf,
}

impl Origin {
    pub(crate) fn of(version: Version) -> Self {
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

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.folder.path().join("snapshot.db")
    }

    pub(crate) fn open(&self, path: &Path) -> Database {
        Source::open(path, self.folder.path()).unwrap().database
    }

    pub(crate) fn said_at(&self, revision: i64) -> HashKv {
        self.hashes.iter().find(|(at, _)| *at == revision).unwrap().1
    }
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

pub(crate) fn origins() -> Vec<Origin> {
    Version::ALL.into_iter().map(Origin::of).collect()
}

pub(crate) fn options(member: &Member) -> Options {
    let token = Token::unique().unwrap();
    Options { peer_urls: Some(member.peer_url()), ..Options::new(member.data_dir(), token, "now") }
}

pub(crate) fn restored(source: &Database, options: &Options) -> Restored {
    let plan = Plan::make(source, options).unwrap();
    restore(source, &plan, &mut |_| {}).unwrap()
}

pub(crate) fn target(version: Version) -> ForVersion {
    ForVersion::Version(version.minor().parse::<EtcdVersion>().unwrap())
}
