//! The right to write is handed over from one agent to the next: by one that is stopped, and where nothing tells any more who
//! had it before.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/history.rs"]
mod history;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use history::require_one_history;
use running::{Running, refloat, succeed};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Etcd, Member, PATIENCE, Port, Version};
use truth::{require_archived, truth};

/// An archive, and room for agents beside it.
struct World {
    folder: TempDir,
    archive: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        fs::create_dir(&archive).unwrap();
        Self { folder, archive }
    }

    fn archive(&self) -> &str {
        text(&self.archive)
    }

    fn etcd(&self, version: Version) -> Etcd {
        Member::new(version, self.folder.path().join("etcd")).without_fsync().start()
    }

    /// An agent that is called `name`, with a spool of its own, which serves its page at `page`.
    fn agent(&self, name: &str, etcd: &Etcd, page: &Port, more: &[&str]) -> Running {
        let (url, spool) = (etcd.client_url(), self.folder.path().join(format!("spool-{name}")));
        let args = ["agent", self.archive(), "--endpoints", &url, "--name", name, "--spool", text(&spool)];
        let log = self.folder.path().join(format!("{name}.log"));
        Running::start(&[&args[..], more].concat(), page.address(), &log)
    }

    /// Compares points with what the cluster had.
    fn require(&self, truths: &[(i64, u32)]) {
        for truth in truths {
            require_archived(self.archive(), *truth);
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Waits until the agent that is called `name` writes.
fn until_it_writes(agent: &mut Running, name: &str) {
    agent.until("it writes", |status| {
        let capture = &status["capture"];
        capture["state"] == "following" && capture["holder"] == name
    });
}

/// Waits until an agent has seen everything up to `revision`.
fn until_it_has_seen(agent: &mut Running, revision: i64) -> Value {
    agent.until("all of it is seen", |status| status["capture"]["revision_seen"].as_i64() >= Some(revision))
}

/// Asks an agent to seal everything now, and waits for that.
fn seal(page: SocketAddr) {
    let mut stream = TcpStream::connect(page).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "POST /snapshot/delta HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n").unwrap();
    write!(stream, "Content-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Nothing is due for an hour, neither a seal nor the end of a claim: what happens sooner happens because the agent is stopped.
#[test]
fn who_is_stopped_seals_what_it_has_seen_and_the_next_one_writes_at_once() {
    for version in [Version::V34, Version::V37] {
        let world = World::new();
        let (etcd, pages) = (world.etcd(version), [Port::reserve(), Port::reserve()]);
        let hours = ["--seal-after", "1h", "--takeover", "1h", "--allow-unauthenticated"];
        let client = etcd.client();
        client.put("first", "one").unwrap();
        let mut agent = world.agent("a", &etcd, &pages[0], &hours);
        until_it_writes(&mut agent, "a");
        // What came before it began to listen is sealed soon. From then on an hour is waited for.
        seal(pages[0].address());

        let mut truths = Vec::new();
        for at in 0..10 {
            client.put(format!("key {}", at % 4), format!("value {at}")).unwrap();
            truths.push(truth(&client));
        }
        let status = until_it_has_seen(&mut agent, truths[9].0);
        assert!(status["capture"]["revision_sealed"].as_i64() < Some(truths[0].0), "{version}: {status:#}");
        assert!(agent.stop().success());

        // Nobody is asked for it any more.
        let stopped = etcd.stop();
        world.require(&truths);

        let etcd = stopped.start();
        let mut next = world.agent("b", &etcd, &pages[1], &hours);
        until_it_writes(&mut next, "b");
        etcd.client().put("last", "one").unwrap();
        truths.push(truth(&etcd.client()));
        until_it_has_seen(&mut next, truths[10].0);
        assert!(next.stop().success());
        world.require(&truths);
        require_one_history(&[world.archive()]);
    }
}

/// Nobody has laid the right down, as where a machine is lost, and it lasts for an hour.
#[test]
fn a_writer_that_is_said_to_be_gone_is_not_waited_for() {
    let world = World::new();
    let (etcd, pages) = (world.etcd(Version::V36), [Port::reserve(), Port::reserve()]);
    let (client, url) = (etcd.client(), etcd.client_url());
    let hour = ["--seal-after", "200ms", "--takeover", "1h"];
    let mut truths = Vec::new();
    let mut write = |agent: &mut Running| {
        client.put("key", format!("{}", truths.len())).unwrap();
        truths.push(truth(&client));
        let status = agent.until_sealed(truths[truths.len() - 1].0);
        status["capture"]["epoch"].as_u64().unwrap()
    };
    let backup = |gone: u64| {
        let gone = gone.to_string();
        let args = ["backup", world.archive(), "--endpoints", &url, "--wait", "1s", "--writer-is-gone", &gone];
        let ended = refloat(&args);
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let mut first = world.agent("a", &etcd, &pages[0], &hour);
    until_it_writes(&mut first, "a");
    let of_first = write(&mut first);
    first.kill();

    // What is said of another one says nothing of this one, and it is told what to say.
    let (code, said) = backup(of_first + 7);
    assert!(code == Some(6) && said.contains(&format!("--writer-is-gone {of_first} does not wait")), "{said}");
    let gone = of_first.to_string();
    let mut next = world.agent("b", &etcd, &pages[1], &[&hour[..], &["--writer-is-gone", &gone]].concat());
    until_it_writes(&mut next, "b");
    let of_next = write(&mut next);
    assert!(of_next > of_first);
    next.kill();

    let (code, said) = backup(of_first);
    assert_eq!(code, Some(6), "another one has it by now: {said}");
    let (code, said) = backup(of_next);
    assert_eq!(code, Some(0), "{said}");
    world.require(&truths);
    require_one_history(&[world.archive()]);
}

/// Somebody deletes it, or leaves it out of a copy: what is written then counts as what came before did.
#[test]
fn where_writer_json_is_gone_the_next_one_comes_after_all_who_have_written() {
    let world = World::new();
    let etcd = world.etcd(Version::V36);
    let client = etcd.client();
    client.put("first", "one").unwrap();
    let mut truths = Vec::new();
    // One after the other follows, and tells by which right it has written.
    let mut follow = || {
        let mut agent = world.agent("a", &etcd, &Port::reserve(), &["--seal-after", "200ms"]);
        until_it_writes(&mut agent, "a");
        for at in 0..3 {
            client.put("key", format!("{at}")).unwrap();
            truths.push(truth(&client));
        }
        let status = agent.until_sealed(truths[truths.len() - 1].0);
        assert!(agent.stop().success());
        status["capture"]["epoch"].as_u64().unwrap()
    };
    let delete = || fs::remove_file(world.archive.join("etcd/writer.json")).unwrap();
    follow();
    follow();
    let before = follow();
    delete();
    let after = follow();
    assert!(after > before, "{after} after {before}");
    delete();
    succeed(&["backup", world.archive(), "--endpoints", &etcd.client_url()]);
    let last = follow();
    assert!(last > after + 1, "{last} after {after}, and one that wrote the backup");
    world.require(&truths);
    require_one_history(&[world.archive()]);
}
