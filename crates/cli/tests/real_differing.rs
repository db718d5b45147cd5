//! Of three real members one has something else than the others, and says nothing of it: a page of its database was changed while
//! it did not run. It is named, nothing is followed or taken from it, and what is in the archive is what most have.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::path::{Path, PathBuf};

use running::{Running, refloat, succeed};
use serde_json::Value;
use testkit::{Client, Cluster, ClusterPlan, Etcd, Member, Port, Version, until};
use truth::{require_archived, truth};

/// What was written, and what one of them has of it.
const WRITTEN: &str = "what was written, as most of them have it";
const OTHERWISE: &str = "what was written, and one of them has not";

struct World {
    folder: tempfile::TempDir,
    /// Each by its number; nothing while it does not run.
    members: Vec<Option<Etcd>>,
}

impl World {
    fn new(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = ClusterPlan::of(3);
        let dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
        let members = plan.members(version, &dirs).into_iter().map(Member::without_fsync).collect();
        let members = Cluster::start(members).members.into_iter().map(Some).collect();
        let world = Self { folder, members };
        let client = world.other_than(usize::MAX);
        for at in 0..40 {
            client.put(format!("key {}", at % 7), format!("value {at}")).unwrap();
        }
        client.put("odd", WRITTEN).unwrap();
        client.put("after it", "1").unwrap();
        world
    }

    /// A client of a member that runs, and is not this one.
    fn other_than(&self, number: usize) -> Client {
        let mut members = self.members.iter().enumerate().filter(|(at, _)| *at != number);
        members.find_map(|(_, member)| member.as_ref()).unwrap().client()
    }

    fn endpoints(&self) -> String {
        let url = |member: &Option<Etcd>| member.as_ref().map(Etcd::client_url);
        self.members.iter().filter_map(url).collect::<Vec<_>>().join(",")
    }

    fn stop(&mut self, number: usize) -> Member {
        self.members[number].take().unwrap().stop()
    }

    fn start(&mut self, number: usize, member: Member) {
        self.members[number] = Some(member.start());
    }

    /// Has a member come back with `to` where it had `from`.
    fn change(&mut self, number: usize, from: &str, to: &str) {
        let member = self.stop(number);
        let mut bytes = fs::read(member.db()).unwrap();
        let places: Vec<usize> = bytes
            .windows(from.len())
            .enumerate()
            .filter(|(_, bytes)| *bytes == from.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "the value is not in the database");
        places.iter().for_each(|&at| bytes[at..at + to.len()].copy_from_slice(to.as_bytes()));
        fs::write(member.db(), bytes).unwrap();
        self.start(number, member);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An agent that follows them into a new archive.
    fn agent(&self, archive: &Path, page: &Port) -> Running {
        fs::create_dir_all(archive).unwrap();
        let spool = archive.with_extension("spool");
        let endpoints = self.endpoints();
        let args = ["agent", text(archive), "--endpoints", &endpoints, "--spool", text(&spool)];
        let args = [&args[..], &["--seal-after", "300ms", "--anchor-every", "1s"]].concat();
        Running::start(&args, page.address(), &archive.with_extension("log"))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Whether it is told, as what a person has to do something about, that `name` has something else.
fn is_named(status: &Value, name: &str) -> bool {
    let differs = format!(" at {name}, and ");
    let findings = status["findings"].as_array().into_iter().flatten();
    findings.into_iter().any(|finding| {
        finding["severity"] == "critical" && finding["what"].as_str().is_some_and(|what| what.contains(&differs))
    })
}

/// Requires of `archive` what most members have.
#[track_caller]
fn require(archive: &Path, truth: (i64, u32), about: &str) {
    require_archived(archive, truth);
    assert_eq!(succeed(&["get", text(archive), "odd"]).trim(), WRITTEN, "{about}");
}

#[test]
fn no_full_is_taken_from_a_member_that_has_something_else_whichever_it_is() {
    for version in [Version::V34, Version::V36] {
        let mut world = World::new(version);
        for odd in 0..3 {
            let about = format!("etcd {version}, m{odd}");
            world.change(odd, WRITTEN, OTHERWISE);
            let (right, wrong) = (world.other_than(odd), world.members[odd].as_ref().unwrap().client());
            let written = right.put(format!("while m{odd} differs"), "1").unwrap();
            let hash = |client: &Client| until("a member has come as far", || client.hash_kv(written)).hash;
            assert_ne!(hash(&right), hash(&wrong), "{about}");

            let backed_up = world.path(&format!("backup {odd}"));
            fs::create_dir(&backed_up).unwrap();
            let told = refloat(&["backup", text(&backed_up), "--endpoints", &world.endpoints()]);
            let said = String::from_utf8_lossy(&told.stderr);
            assert_eq!(told.status.code(), Some(1), "{about}: {said}");
            assert!(said.contains(&format!(" at m{odd}, and ")), "{about}: it is not named: {said}");
            require(&backed_up, truth(&right), &about);

            let (archive, page) = (world.path(&format!("archive {odd}")), Port::reserve());
            let mut agent = world.agent(&archive, &page);
            let name = format!("m{odd}");
            // It may have been followed until it was named.
            agent.until("it is named, and not followed", |status| {
                is_named(status, &name) && status["capture"]["member"] != name.as_str()
            });
            right.put("after that", "1").unwrap();
            let last = truth(&right);
            agent.until_sealed(last.0);
            assert!(agent.stop().success());
            require(&archive, last, &about);
            world.change(odd, OTHERWISE, WRITTEN);
        }
    }
}

#[test]
fn a_member_that_comes_back_with_something_else_is_followed_no_more() {
    let mut world = World::new(Version::V35);
    let (archive, page) = (world.path("archive"), Port::reserve());
    let mut agent = world.agent(&archive, &page);
    let is_followed = |status: &Value| status["capture"]["state"] == "following";
    let status = agent.until("it follows", is_followed);
    let number = |status: &Value| -> usize {
        status["capture"]["member"].as_str().unwrap().strip_prefix('m').unwrap().parse().unwrap()
    };
    let odd = number(&status);
    let name = format!("m{odd}");
    world.change(odd, WRITTEN, OTHERWISE);
    let client = world.other_than(odd);
    client.put("while it differs", "1").unwrap();
    // It is named a moment before it is left.
    let is_left = |status: &Value| is_followed(status) && status["capture"]["member"] != name.as_str();
    let status = agent.until("it is named, and left", |status| is_named(status, &name) && is_left(status));

    // The one that is followed instead goes away for some time: there is one more that has what was written.
    let second = number(&status);
    assert_ne!(second, odd, "{status:#}");
    let gone = world.stop(second);
    let third = format!("m{}", 3 - odd - second);
    let client = world.members[3 - odd - second].as_ref().unwrap().client();
    until("there is a leader again", || client.put("while two are there", "1"));
    let last = truth(&client);
    let status = agent.until_sealed(last.0);
    assert_eq!(status["capture"]["member"], third.as_str(), "{status:#}");
    require(&archive, last, "two are there");
    world.start(second, gone);
    client.put("while all are there", "1").unwrap();
    let last = truth(&client);
    agent.until_sealed(last.0);
    let status = agent.status().unwrap();
    assert_ne!(status["capture"]["member"], name.as_str(), "{status:#}");

    // What is put right is told of no longer, and each of them may be followed again.
    world.change(odd, OTHERWISE, WRITTEN);
    client.put("while all have the same", "1").unwrap();
    agent.until("nothing is told of it any more", |status| !is_named(status, &name));
    assert!(agent.stop().success());
    require(&archive, truth(&client), "all have the same");
}
