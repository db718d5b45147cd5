//! Drills that an agent does by itself, as its flags say.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::path::{Path, PathBuf};

use running::{Running, refloat, succeed};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Etcd, Member, Port, Version};
use truth::{require_archived, truth};

/// A member, and places for an archive, a spool and sandboxes.
struct Desk {
    folder: TempDir,
    etcd: Etcd,
}

impl Desk {
    fn new(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["archive", "scratch"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let etcd = Member::new(version, folder.path().join("etcd")).without_fsync().start();
        Self { folder, etcd }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An agent's arguments, with `more`.
    fn agent(&self, more: &[&str]) -> Vec<String> {
        let (url, [archive, scratch, spool]) =
            (self.etcd.client_url(), ["archive", "scratch", "spool"].map(|name| text(&self.path(name)).to_owned()));
        let args = ["agent", &archive, "--endpoints", &url, "--spool", &spool, "--scratch", &scratch];
        args.into_iter().chain(["--seal-after", "300ms"]).chain(more.iter().copied()).map(str::to_owned).collect()
    }

    fn points(&self) -> Value {
        let archive = self.path("archive");
        serde_json::from_str(&succeed(&["points", text(&archive), "-o", "json"])).unwrap()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn borrowed(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Etcds of the oldest and the newest version are followed, each drilled with its own.
#[test]
fn a_drill_is_done_when_the_schedule_says_so_and_what_it_proved_is_in_the_archive() {
    for version in [Version::V34, Version::V37] {
        let desk = Desk::new(version);
        let client = desk.etcd.client();
        client.put("first", "one").unwrap();
        let program = version.etcd();
        let args = desk.agent(&["--drill-at", "@every 4s", "--drill-etcd", text(&program)]);
        let mut agent = Running::start(&borrowed(&args), Port::reserve().address(), &desk.path("log"));
        agent.until_sealed(truth(&client).0);
        for at in 0..20 {
            client.put(format!("key {}", at % 7), format!("value {at}")).unwrap();
        }
        let (revision, hash) = truth(&client);
        agent.until_sealed(revision);

        // It is told where it is asked for, and counted, and the next one is due.
        let told = agent.until("the newest point is drilled", |status| {
            let proven = status["recoverable"]["proven"].as_array().unwrap();
            proven.iter().any(|point| point["proof"] == "drilled" && point["revision"] == revision)
        });
        assert_eq!(told["recoverable"]["restore_measured"], true, "{version}: {told:#}");
        let told = agent.until("how it went is told", |status| {
            let last = &status["upkeep"]["drill"]["last"];
            let what = last["what"].as_str().unwrap_or_default();
            last["succeeded"] == true && what.contains(&format!("came up with revision {revision} "))
        });
        assert!(told["upkeep"]["drill"]["next"].is_string(), "{version}: {told:#}");
        let drilled = agent.metric("refloat_point_revision{", &["proof=\"drilled\""]);
        assert_eq!(drilled.map(|of| of as i64), Some(revision), "{version}");
        assert!(agent.metric("refloat_drill_seconds_count{", &["succeeded=\"true\""]) >= Some(1.0), "{version}");
        assert!(agent.stop().success());

        // It stands in the archive, for whoever looks there without the agent.
        let newest = &desk.points()["newest_proven"];
        assert_eq!((&newest["revision"], &newest["proof"]), (&revision.into(), &"drilled".into()), "{version}");
        require_archived(desk.path("archive"), (revision, hash));
        let left: Vec<_> = fs::read_dir(desk.path("scratch")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [] as [PathBuf; 0], "{version}: a sandbox is left");
    }
}

/// At night nobody would see it.
#[test]
fn without_an_etcd_for_drills_or_with_a_schedule_that_is_none_an_agent_does_not_begin() {
    let desk = Desk::new(Version::V36);
    let nowhere = desk.path("no-etcd");
    for (flags, code, expected) in [
        (&["--drill-at", "@daily", "--drill-etcd", text(&nowhere)][..], 3, "--drill-etcd names one"),
        (&["--drill-at", "@sometimes"][..], 2, "it is none of the names that there are"),
        (&["--drill-etcd", text(&nowhere)][..], 2, "--drill-at"),
    ] {
        let page = Port::reserve().address().to_string();
        let args = desk.agent(&[flags, &["--listen", &page]].concat());
        let refused = refloat(&borrowed(&args));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(expected), "{flags:?}: {said}");
    }
    assert_eq!(fs::read_dir(desk.path("archive")).unwrap().count(), 0, "nothing was begun");
}
