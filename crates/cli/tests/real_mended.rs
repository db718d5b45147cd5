//! What an agent has of a real etcd when something of its archive is gone or damaged behind its back: it takes a full by itself,
//! and from that on the newest point is what the member has.
//!
//! What is gone is found by the program as it is. Of what was proven, damage is found when it is read again, which takes days: the
//! agent that finds that is this program once more, which reads everything each second.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/own_rhythm.rs"]
mod own_rhythm;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::follow::Rhythm;
use agent::upkeep::Schedule;
use running::{Running, refloat, succeed};
use serde_json::Value;
use testkit::{Client, Etcd, Member, Port, Version};
use truth::truth;

/// What befalls an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Gone,
    Damaged,
}

/// Which object.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// The newest full.
    Full,
    /// A delta that others follow on.
    Delta,
}

/// How many deltas there are before something is lost.
const DELTAS: usize = 4;
/// How often everything is read again, after a full, without another one being taken.
const LOOKS: usize = 3;

#[test]
fn a_full_that_is_gone_from_the_archive_is_taken_anew_from_etcd() {
    play(Loss::Gone, Of::Full);
}

#[test]
fn after_a_delta_that_is_gone_from_the_archive_a_full_is_taken_from_etcd() {
    play(Loss::Gone, Of::Delta);
}

#[test]
fn after_a_full_that_is_damaged_in_the_archive_another_is_taken_from_etcd() {
    match own_rhythm::told() {
        Some(told) => follow(&told),
        None => play(Loss::Damaged, Of::Full),
    }
}

#[test]
fn after_a_delta_that_is_damaged_in_the_archive_a_full_is_taken_from_etcd() {
    play(Loss::Damaged, Of::Delta);
}

fn play(loss: Loss, of: Of) {
    let folder = tempfile::tempdir().unwrap();
    let world = World::begin(folder.path());
    let mut agent = world.agent(loss);
    let (client, mut sealed) = (world.etcd.client(), 0);
    for _ in 0..DELTAS {
        sealed = write(&client);
        agent.until_sealed(sealed);
    }
    let ([fulls, deltas], before) = (world.objects(), agent.said().len());
    assert!(deltas.len() > 1, "{deltas:?}");
    let lost = match of {
        Of::Full => fulls.last().unwrap(),
        Of::Delta => &deltas[1],
    };
    befall(loss, lost);
    // Nor does etcd have it any more.
    client.compact(sealed).unwrap();
    let now = write(&client);

    agent.until("a full was taken and everything can be restored", |status| {
        world.new_fulls(&fulls) > 0
            && status["recoverable"]["verdict"] == "yes"
            && status["recoverable"]["revision"].as_i64() >= Some(now)
    });
    let said = agent.said();
    assert!(said[before..].contains("a full from etcd is needed"), "{said}");
    world.require_restored();
    agent.until_sealed(write(&client));
    world.require_restored();
    if loss == Loss::Damaged {
        // What is as it was found asks for nothing more.
        let reread = || fs::read_to_string(world.beside.join("log")).unwrap().matches("work=Reread").count();
        let enough = reread() + LOOKS;
        agent.until("everything is read again", |_| reread() >= enough);
    }
    assert_eq!(world.new_fulls(&fulls), 1, "{}", agent.said());
    assert!(agent.stop().success());

    // A hole that has a name.
    let asked = refloat(&["hashkv", text(&world.archive), "--at", &(sealed - 1).to_string()]);
    let why = String::from_utf8_lossy(&asked.stderr);
    assert!(!asked.status.success(), "what was lost is not there: {loss:?} {of:?}");
    let names = ["are missing", "is before everything that", "is of no use"];
    assert!(names.iter().any(|name| why.contains(name)), "{why}");
    world.require_restored();
}

/// Puts a little. Gives the revision of the last.
fn write(client: &Client) -> i64 {
    (0..20).map(|at| client.put(format!("key {}", at % 9), format!("value {at}")).unwrap()).last().unwrap()
}

fn befall(loss: Loss, object: &Path) {
    let mut bytes = fs::read(object).unwrap();
    fs::remove_file(object).unwrap();
    if loss == Loss::Damaged {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(object, bytes).unwrap();
    }
}

/// A member, and its archive.
struct World {
    etcd: Etcd,
    archive: PathBuf,
    beside: PathBuf,
}

impl World {
    fn begin(beside: &Path) -> Self {
        let archive = beside.join("archive");
        fs::create_dir(&archive).unwrap();
        let etcd = Member::new(Version::V36, beside.join("etcd")).without_fsync().start();
        etcd.client().put("first", "1").unwrap();
        Self { etcd, archive, beside: beside.into() }
    }

    fn agent(&self, loss: Loss) -> Running {
        let url = self.etcd.client_url();
        if loss == Loss::Damaged {
            return own_rhythm::start(THIS, &self.archive, &self.beside, &url);
        }
        let (page, spool, log) = (Port::reserve().address(), self.beside.join("spool"), self.beside.join("log"));
        let args = ["agent", text(&self.archive), "--endpoints", &url, "--seal-after", "300ms", "--spool"];
        Running::start(&[&args[..], &[text(&spool)]].concat(), page, &log)
    }

    /// The fulls of the archive and its deltas, each in their order.
    fn objects(&self) -> [Vec<PathBuf>; 2] {
        let (mut found, mut folders) = ([Vec::new(), Vec::new()], vec![self.archive.clone()]);
        while let Some(folder) = folders.pop() {
            // What is in the making is none yet, and may be gone a moment later.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|of| of.file_name() != ".refloat")
            {
                let path = entry.path();
                match path.extension().and_then(|kind| kind.to_str()) {
                    Some("full") => found[0].push(path),
                    Some("delta") => found[1].push(path),
                    _ if path.is_dir() => folders.push(path),
                    _ => {}
                }
            }
        }
        found.iter_mut().for_each(|of| of.sort());
        found
    }

    /// How many fulls there are that were not there `before`.
    fn new_fulls(&self, before: &[PathBuf]) -> usize {
        let [fulls, _] = self.objects();
        fulls.iter().filter(|full| !before.contains(full)).count()
    }

    /// Requires that the newest point, and a member that is started on it, is what the live one has.
    fn require_restored(&self) {
        let (revision, hash) = truth(&self.etcd.client());
        let found: Value = serde_json::from_str(&succeed(&["hashkv", text(&self.archive), "-o", "json"])).unwrap();
        let told = (found["revision"].as_i64(), found["hash"].as_u64());
        assert_eq!(told, (Some(revision), Some(u64::from(hash))), "HashKV of the newest point");
        let restored = tempfile::tempdir_in(&self.beside).unwrap();
        let dir = restored.path().join("data");
        succeed(&["restore", text(&self.archive), "--bump-revision", "0", "--data-dir", text(&dir)]);
        let etcd = Member::new(Version::V36, &dir).without_fsync().start();
        assert_eq!(truth(&etcd.client()), (revision, hash), "HashKV of a member that is started on it");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const THIS: &str = "after_a_full_that_is_damaged_in_the_archive_another_is_taken_from_etcd";

/// Follows until it is told to stop, and reads everything each second.
fn follow(told: &str) {
    tracing_subscriber::fmt().with_ansi(false).init();
    let second = Duration::from_secs(1);
    let rhythm = Rhythm { seal_after: Duration::from_millis(300), ..Rhythm::default() };
    let reading = Schedule { reread_every: second, reread_within: second, ..Schedule::default() };
    own_rhythm::follow(told, rhythm, reading, Duration::from_secs(8));
}
