//! Compaction that is quicker than an agent: while nothing comes through the line between it and a real etcd.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::path::{Path, PathBuf};

use running::{Running, refloat, succeed};
use serde_json::Value;
use testkit::stores::Toxic;
use testkit::{Client, Etcd, Member, MemberPorts, Port, Version};
use truth::truth;

/// An etcd, an agent, and the line between them, past which nobody leads the agent.
struct World {
    folder: tempfile::TempDir,
    etcd: Etcd,
    line: Toxic,
    page: Port,
}

impl World {
    fn new(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = MemberPorts::reserve();
        let line = Toxic::before(ports.client.address());
        let member = Member::new(version, folder.path().join("etcd")).ports(ports).without_fsync();
        let etcd = member.flag(format!("--advertise-client-urls={}", line.url())).start();
        std::fs::create_dir(folder.path().join("archive")).unwrap();
        Self { folder, etcd, line, page: Port::reserve() }
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn client(&self) -> Client {
        self.etcd.client()
    }

    fn agent(&self) -> Running {
        let (archive, spool) = (self.archive(), self.folder.path().join("spool"));
        let args = ["agent", text(&archive), "--endpoints", &self.line.url(), "--spool", text(&spool)];
        let args = [&args[..], &["--seal-after", "500ms"]].concat();
        Running::start(&args, self.page.address(), &self.folder.path().join("log"))
    }

    /// HashKV of the archive at `revision`.
    fn hash_at(&self, revision: i64) -> u64 {
        let archive = self.archive();
        let found = succeed(&["hashkv", text(&archive), "--at", &revision.to_string(), "-o", "json"]);
        serde_json::from_str::<Value>(&found).unwrap()["hash"].as_u64().unwrap()
    }

    /// What the archive can restore. With holes, that ends with 1.
    fn points(&self) -> Value {
        serde_json::from_slice(&refloat(&["points", text(&self.archive()), "-o", "json"]).stdout).unwrap()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What is told of a watch that compaction has overtaken.
const OVERTAKEN: &str = "has been compacted away";

#[test]
fn an_agent_that_compaction_has_overtaken_while_its_line_stood_still_tells_that_and_takes_a_full() {
    for version in [Version::V34, Version::V36] {
        let world = World::new(version);
        let client = world.client();
        for at in 0..50 {
            client.put(format!("key {}", at % 7), format!("before {at}")).unwrap();
        }
        let mut agent = world.agent();
        let before = truth(&client);
        agent.until_sealed(before.0);

        world.line.stalled(true);
        for at in 0..300 {
            client.put(format!("key {}", at % 11), format!("unseen {at}")).unwrap();
        }
        let unseen = client.status().unwrap().revision;
        client.compact(unseen - 10).unwrap();
        client.put("after the compaction", "1").unwrap();
        // It notices that nothing comes any more before anything does.
        agent.until("it is told that etcd is silent", |status| !status["capture"]["trouble"].is_null());
        world.line.stalled(false);
        let after = truth(&client);
        agent.until_sealed(after.0);
        assert!(agent.said().contains(OVERTAKEN), "{version}: it is not named:\n{}", agent.said());
        client.put("and it is followed on", "1").unwrap();
        let last = truth(&client);
        agent.until_sealed(last.0);
        assert!(agent.stop().success());

        for (revision, hash) in [before, after, last] {
            assert_eq!(world.hash_at(revision), u64::from(hash), "{version}: HashKV at {revision}");
        }
        // What was never seen is a hole with a name, where it is one, and nobody restores something else for it.
        let missing = (before.0 + after.0) / 2;
        let refused = refloat(&["hashkv", text(&world.archive()), "--at", &missing.to_string()]);
        assert_eq!(refused.status.code(), Some(3), "{version}: {}", String::from_utf8_lossy(&refused.stderr));
        let points = world.points();
        let covers = |range: &Value, revision: i64| {
            range["from"].as_i64().unwrap() <= revision && revision <= range["to"].as_i64().unwrap()
        };
        let ranges = points["ranges"].as_array().unwrap();
        let covered = |revision| ranges.iter().any(|range| covers(range, revision));
        assert!(covered(before.0) && covered(last.0) && !covered(missing), "{version}: {points:#}");
    }
}
