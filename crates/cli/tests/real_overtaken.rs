//! Compaction that is quicker than an agent: while nothing comes through the line between it and a real etcd, and while its first
//! full comes through a slow one.

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
use truth::{require_archived, truth};

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

        for point in [before, after, last] {
            require_archived(world.archive(), point);
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

#[test]
fn while_the_first_full_comes_through_a_slow_line_nothing_is_lost_though_etcd_compacts() {
    for version in [Version::V34, Version::V36] {
        let world = World::new(version);
        let client = world.client();
        for at in 0..200 {
            // Nothing of it can be packed: the line has to carry all.
            let value: String =
                (0..16_000).map(|byte| char::from(b'!' + ((byte * byte + at * 7919) % 90) as u8)).collect();
            client.put(format!("large {at}"), value).unwrap();
        }
        // Some 4 MiB: longer than anything else here takes.
        world.line.bandwidth(512 << 10);
        let mut agent = world.agent();
        let begun = agent.until("the full is being taken", |status| status["capture"]["state"] == "taking_full");
        assert!(begun["recoverable"]["revision"].is_null(), "{begun:#}");
        let from = client.status().unwrap().revision;
        let mut written = Vec::new();
        while agent.status().is_none_or(|status| status["capture"]["state"] == "taking_full") {
            let value = format!("value {}", written.len());
            let revision = client.put(format!("key {}", written.len() % 5), &value).unwrap();
            written.push((revision, value));
            if written.len() % 20 == 0 {
                // The newest revision stays one whose hash can be compared.
                client.compact(revision - 1).unwrap();
            }
        }
        world.line.bandwidth(0);
        assert!(written.len() > 40, "{version}: the line was not slow: {}", written.len());
        let last = truth(&client);
        agent.until_sealed(last.0);
        // Members may well say it of a hash that they are asked for.
        let is_overtaken = |line: &str| line.contains(OVERTAKEN) && !line.contains("anchor");
        assert!(!agent.said().lines().any(is_overtaken), "{version}:\n{}", agent.said());
        assert!(agent.stop().success());

        require_archived(world.archive(), last);
        let points = world.points();
        let (ranges, fulls) = (points["ranges"].as_array().unwrap(), points["points"].as_array().unwrap());
        assert_eq!((ranges.len(), points["holes"].as_array().unwrap().len()), (1, 0), "{version}: {points:#}");
        let full = fulls.iter().find(|point| point["kind"] == "full").unwrap()["revision"].as_i64().unwrap();
        assert!(from <= full && full < last.0, "{version}: {full} in {points:#}");
        // What was written while it came is there, each revision by itself, and compacted in etcd long ago.
        let archive = world.archive();
        for (revision, value) in written.iter().filter(|(revision, _)| *revision > full).step_by(7) {
            let key = format!("key {}", written.iter().position(|(one, _)| one == revision).unwrap() % 5);
            let found = succeed(&["get", text(&archive), &key, "--at", &revision.to_string()]);
            assert_eq!(found.trim(), value, "{version}: at {revision}");
        }
    }
}
