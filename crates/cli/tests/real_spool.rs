//! What is sealed on this machine while the store is away: it comes to the archive, whatever happens to it and to the
//! agent meanwhile.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/bucket.rs"]
mod bucket;
#[path = "desk/history.rs"]
mod history;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bucket::{BUCKET, Bucket};
use history::require_one_history;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use running::Running;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Client, Etcd, Member, Port, Version};
use truth::truth;

struct World {
    folder: TempDir,
    bucket: Bucket,
    etcd: Etcd,
}

impl World {
    fn new(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bucket = Bucket::new(folder.path());
        let etcd = Member::new(version, folder.path().join("etcd")).without_fsync().start();
        Self { folder, bucket, etcd }
    }

    fn client(&self) -> Client {
        self.etcd.client()
    }

    fn spools(&self) -> PathBuf {
        self.folder.path().join("spools")
    }

    fn agent(&self, more: &[&str]) -> Running {
        let (url, spools, page) = (self.etcd.client_url(), self.spools(), Port::reserve());
        let args = ["agent", BUCKET, "--endpoints", &url, "--spool", spools.to_str().unwrap(), "--takeover", "2s"];
        let args = args.into_iter().chain(["--seal-after", "100ms"]).chain(more.iter().copied());
        let args = args.map(str::to_owned).chain(self.bucket.reached());
        let args: Vec<String> = args.collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Running::start(&args, page.address(), &self.folder.path().join("agent.log"))
    }

    /// An agent that has sealed the full that it begins with, and a delta behind that: what it goes on from.
    fn followed(&self) -> Followed {
        let mut agent = self.agent(&[]);
        let mut hashes = self.write(3);
        agent.until_sealed(hashes[2].0);
        hashes.extend(self.write(2));
        let lineage = agent.until_sealed(hashes[4].0)["recoverable"]["lineage"].clone();
        Followed { agent, hashes, lineage }
    }

    /// Brings the store back, and requires that the archive has all of `before` then, and what is written from now on. Gives
    /// the lineage that this is of.
    fn require_when_back(&self, mut agent: Running, before: &[(i64, u32)]) -> Value {
        self.bucket.is_away(false);
        let after = self.write(2);
        let lineage = agent.until_sealed(after[1].0)["recoverable"]["lineage"].clone();
        // That it was compacted is known from the next seal on.
        self.require(&[before, &after[1..]].concat());
        assert!(agent.stop().success());
        lineage
    }

    /// Puts some, and gives the hash at each revision.
    fn write(&self, count: usize) -> Vec<(i64, u32)> {
        let client = self.client();
        let mut hashes = Vec::new();
        for at in 0..count {
            client.put(format!("key {}", at % 5), format!("value {at}")).unwrap();
            hashes.push(truth(&client));
        }
        hashes
    }

    fn require(&self, hashes: &[(i64, u32)]) {
        for (revision, hash) in hashes {
            assert_eq!(self.bucket.hash_at(*revision), *hash, "revision {revision}");
        }
    }

    /// Requires that nothing is missing, and that no other history was begun.
    fn require_one_history(&self) {
        let reached = self.bucket.reached();
        let archive: Vec<&str> = [BUCKET].into_iter().chain(reached.iter().map(String::as_str)).collect();
        require_one_history(&archive);
    }

    /// Waits until everything up to `last` is sealed on this machine.
    fn until_spooled(&self, agent: &mut Running, last: i64) {
        agent.until("all is in the spool", |_| {
            self.waiting().pop().is_some_and(|path| path.to_str().unwrap().ends_with(&format!("{last}.delta")))
        });
    }

    /// The sealed deltas that wait.
    fn waiting(&self) -> Vec<PathBuf> {
        fn below(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => below(&entry.path(), found),
                    false if entry.path().extension().is_some_and(|kind| kind == "delta") => found.push(entry.path()),
                    false => {}
                }
            }
        }
        let mut found = Vec::new();
        below(&self.spools(), &mut found);
        found.sort();
        found
    }
}

/// What was sealed while all was well.
struct Followed {
    agent: Running,
    hashes: Vec<(i64, u32)>,
    lineage: Value,
}

/// Sealed while the store was away, then the agent died, and etcd has compacted it away: nobody but the spool has it.
#[test]
fn what_a_killed_agent_has_sealed_the_next_one_delivers() {
    for version in Version::ALL {
        let world = World::new(version);
        let mut agent = world.agent(&[]);
        let before = world.write(3);
        let lineage = agent.until_sealed(before[2].0)["recoverable"]["lineage"].clone();

        world.bucket.is_away(true);
        let hashes = world.write(10);
        let last = hashes[9].0;
        world.until_spooled(&mut agent, last);
        agent.kill();
        world.client().compact(last).unwrap();

        // The next one begins before the store is back.
        let mut agent = world.agent(&[]);
        agent.until("it waits for the store", |status| status["capture"]["state"] == "waiting_for_store");
        assert_eq!(world.require_when_back(agent, &[&before[..], &hashes].concat()), lineage, "{version}");
        assert_eq!(world.waiting(), [] as [PathBuf; 0]);
    }
}

/// etcd does not wait for the store: what it compacts before that is back has been captured on from where the spool ends.
#[test]
fn an_agent_that_starts_while_the_store_is_away_captures_on_and_there_is_no_hole() {
    for (version, undelivered) in [(Version::V34, 0), (Version::V35, 5), (Version::V36, 0), (Version::V37, 5)] {
        let world = World::new(version);
        let Followed { mut agent, hashes: before, lineage } = world.followed();

        world.bucket.is_away(true);
        let waiting = world.write(undelivered);
        if let Some((last, _)) = waiting.last() {
            world.until_spooled(&mut agent, *last);
        }
        agent.kill();

        let mut agent = world.agent(&[]);
        let mut hashes = Vec::new();
        for _ in 0..2 {
            let some = world.write(10);
            world.until_spooled(&mut agent, some[9].0);
            world.client().compact(some[9].0).unwrap();
            // That it was compacted is known from the next seal on.
            let known = world.client().put("known", "1").unwrap();
            world.until_spooled(&mut agent, known);
            hashes.extend(some);
        }
        agent.until("it tells what it waits for", |status| status["capture"]["state"] == "waiting_for_store");

        world.bucket.is_away(false);
        let after = world.write(2);
        let status = agent.until_sealed(after[1].0);
        assert_eq!(status["recoverable"]["lineage"], lineage, "{version}: the history goes on");
        world.require(&[&before[..], &waiting, &hashes, &after].concat());
        assert!(agent.stop().success());
    }
}

/// Whether that is why nothing is captured while the store is away.
fn is_why_nothing_is_captured(status: &Value, why: &str) -> bool {
    let what = status["capture"]["trouble"]["what"].as_str().unwrap_or_default();
    what.contains("meanwhile nothing is captured") && what.contains(why)
}

/// Of what came after the end of the spool etcd tells nothing any more.
#[test]
fn where_etcd_has_overtaken_the_spool_that_is_told_and_a_full_is_taken_when_the_store_is_back() {
    for version in [Version::V35, Version::V36] {
        let world = World::new(version);
        world.client().put("lives on", "1").unwrap();
        let Followed { agent, hashes: before, lineage } = world.followed();
        agent.kill();

        world.bucket.is_away(true);
        let untold = world.write(10);
        world.client().compact(untold[9].0).unwrap();
        let mut agent = world.agent(&[]);
        agent.until("it tells why it waits", |status| is_why_nothing_is_captured(status, "compacted away"));
        assert_eq!(world.waiting(), [] as [PathBuf; 0]);
        assert_ne!(world.require_when_back(agent, &before), lineage, "{version}: a chain begins anew");
    }
}

/// A full is not in the spool, so it does not tell where to go on.
#[test]
fn where_nothing_was_delivered_since_the_full_nothing_is_captured_before_the_store_is_back() {
    let world = World::new(Version::V36);
    let before = world.write(3);
    let mut agent = world.agent(&[]);
    let lineage = agent.until_sealed(before[2].0)["recoverable"]["lineage"].clone();
    agent.kill();

    world.bucket.is_away(true);
    let untold = world.write(10);
    let mut agent = world.agent(&[]);
    agent.until("it waits for the store", |status| status["capture"]["state"] == "waiting_for_store");
    // One elsewhere that begins later, and knows where to go on, has captured as much by then.
    let elsewhere = World::new(Version::V36);
    let Followed { agent: other, .. } = elsewhere.followed();
    other.kill();
    elsewhere.bucket.is_away(true);
    let told = elsewhere.write(10);
    let mut other = elsewhere.agent(&[]);
    elsewhere.until_spooled(&mut other, told[9].0);
    assert_eq!(world.waiting(), [] as [PathBuf; 0]);

    world.client().compact(untold[9].0).unwrap();
    assert_ne!(world.require_when_back(agent, &before), lineage, "a chain begins anew");
}

/// The cluster has become another while nobody looked, and the archive is not there to be compared with.
#[test]
fn where_the_spool_is_of_another_cluster_that_is_told_and_a_full_is_taken_when_the_store_is_back() {
    let world = World::new(Version::V36);
    let Followed { agent, lineage, .. } = world.followed();
    agent.kill();

    world.bucket.is_away(true);
    let World { folder, bucket, etcd } = world;
    let member = etcd.kill();
    fs::remove_dir_all(member.data_dir()).unwrap();
    let world = World { folder, bucket, etcd: member.start() };
    world.write(2);
    let mut agent = world.agent(&[]);
    agent.until("it tells why it waits", |status| is_why_nothing_is_captured(status, "restored, or replaced"));
    assert_eq!(world.waiting(), [] as [PathBuf; 0]);

    world.bucket.is_away(false);
    // Past where the other one was.
    let after = world.write(10);
    let status = agent.until("the new one is followed", |status| {
        let recoverable = &status["recoverable"];
        recoverable["lineage"] != lineage && recoverable["revision"].as_i64() >= Some(after[9].0)
    });
    assert!(status["recoverable"]["lineage"].is_string(), "{status:#}");
    world.require(&after[9..]);
    assert!(agent.stop().success());
}

/// What comes before it nobody but the spool has any more, and that is delivered.
#[test]
fn what_is_damaged_in_the_spool_is_thrown_away_and_etcd_tells_it_again() {
    for is_its_head in [true, false] {
        let world = World::new(Version::V36);
        let Followed { mut agent, hashes: before, lineage } = world.followed();

        world.bucket.is_away(true);
        let waiting = world.write(5);
        world.until_spooled(&mut agent, waiting[4].0);
        let client = world.client();
        client.compact(waiting[4].0).unwrap();
        // That it was compacted is known from the next seal on.
        let known = client.put("known", "1").unwrap();
        world.until_spooled(&mut agent, known);
        let mut value = vec![0; 64 << 10];
        StdRng::seed_from_u64(5).fill_bytes(&mut value);
        client.put("large", value).unwrap();
        let told_again = [truth(&client)];
        world.until_spooled(&mut agent, told_again[0].0);
        agent.kill();

        let damaged = world.waiting().pop().unwrap();
        let mut bytes = fs::read(&damaged).unwrap();
        let at = if is_its_head { 20 } else { bytes.len() / 2 };
        bytes[at] ^= 1;
        fs::write(&damaged, bytes).unwrap();

        world.bucket.is_away(false);
        let mut agent = world.agent(&[]);
        let status = agent.until_sealed(told_again[0].0);
        assert_eq!(status["recoverable"]["lineage"], lineage, "its head {is_its_head}: the history goes on");
        assert_eq!(world.waiting(), [] as [PathBuf; 0]);
        world.require(&[&before[..], &waiting, &told_again].concat());
        world.require_one_history();
        assert!(agent.stop().success());
    }
}

#[test]
fn a_spool_that_is_full_takes_no_more_until_there_is_room() {
    const LIMIT: u64 = 64 << 10;
    const LARGE: usize = 16 << 10;
    let world = World::new(Version::V35);
    let mut agent = world.agent(&["--spool-limit", &LIMIT.to_string()]);
    let before = world.write(1);
    agent.until_sealed(before[0].0);

    world.bucket.is_away(true);
    let (client, mut random) = (world.client(), StdRng::seed_from_u64(1));
    let mut put = || {
        let mut value = vec![0; LARGE];
        random.fill_bytes(&mut value);
        client.put("large", value).unwrap();
    };
    (0..8).for_each(|_| put());
    let full =
        agent.until("the spool is full", |status| status["capture"]["spool"]["size_bytes"].as_u64() >= Some(LIMIT));
    let seen = full["capture"]["revision_seen"].as_i64().unwrap();
    // Nothing of this is taken: the limit is passed by no more than what was under way.
    (0..40).for_each(|_| put());
    let hashes = [truth(&client)];
    let status = agent.until("it tells why", |status| status["capture"]["state"] == "waiting_for_store");
    assert!(status["capture"]["trouble"]["what"].as_str().unwrap().contains(BUCKET), "{status:#}");
    let waits: u64 = world.waiting().iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(waits < LIMIT + 10 * LARGE as u64, "{waits} bytes wait");
    assert!(status["capture"]["revision_seen"].as_i64().unwrap() < hashes[0].0, "from {seen} on nothing was taken");

    world.bucket.is_away(false);
    agent.until_sealed(hashes[0].0);
    world.require(&hashes);
    assert!(agent.stop().success());
}

/// The spool's disk fills while the store is away. etcd has everything still, and tells it again when there is room.
#[test]
fn a_spool_whose_disk_is_full_loses_nothing() {
    let world = World::new(Version::V36);
    let (url, spools, page) = (world.etcd.client_url(), world.spools(), Port::reserve());
    fs::create_dir(&spools).unwrap();
    // A disk of its own, which is gone with the agent, and has room for a few deltas.
    let mount = "mount -t tmpfs -o size=16m,mode=0700 none \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mount]).arg(&spools).arg(env!("CARGO_BIN_EXE_refloat"));
    command.args(["agent", BUCKET, "--endpoints", &url, "--takeover", "2s", "--seal-after", "100ms"]);
    command.arg("--spool").arg(spools.join("of-agent")).args(world.bucket.reached());
    let mut agent = Running::begin(&mut command, page.address(), &world.folder.path().join("agent.log"));
    let before = world.write(3);
    let lineage = agent.until_sealed(before[2].0)["recoverable"]["lineage"].clone();

    world.bucket.is_away(true);
    let (client, mut random) = (world.client(), StdRng::seed_from_u64(9));
    let mut hashes = Vec::new();
    for at in 0..40 {
        let mut value = vec![0; 500_000];
        random.fill_bytes(&mut value);
        client.put(format!("large {}", at % 7), value).unwrap();
        hashes.push(truth(&client));
    }
    agent.until("it says that the disk is full", |status| status.to_string().contains("No space left on device"));

    world.bucket.is_away(false);
    let after = world.write(2);
    let status = agent.until_sealed(after[1].0);
    assert_eq!(status["recoverable"]["lineage"], lineage, "the history goes on");
    world.require(&[&before[..], &hashes, &after].concat());
    world.require_one_history();
    assert!(agent.stop().success());
}
