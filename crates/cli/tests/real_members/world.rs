//! Members, the agents beside them and their archive.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Client, Version};

use crate::doors::Doors;
use crate::pod::{Pod, Wrap};
use crate::running::{Running, refloat, succeed};

/// Longer than it takes to log in, to follow, and to be told by another one that it writes no more.
const LONG: Duration = Duration::from_secs(180);

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) pods: Vec<Pod>,
    pub(crate) agents: Vec<Running>,
    pub(crate) version: Version,
    doors: Doors,
    more: &'static [&'static str],
}

/// Who may ask members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    Guarded,
}

impl World {
    /// So many members that are yet to be started, with agents beside them that are told `more`.
    pub(crate) fn new(count: usize, version: Version, access: Access, more: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("archive")).unwrap();
        let doors = match access {
            Access::Open => Doors::Open,
            Access::Guarded => Doors::guarded(folder.path()),
        };
        let pods = Pod::several(count, folder.path(), &doors);
        let mut world = Self { folder, pods, agents: Vec::new(), version, doors, more };
        world.start_agents();
        world
    }

    /// Starts all members, writes a little, and waits until that is sealed, with the users that there are from now on where
    /// doors are guarded.
    pub(crate) fn begin(&mut self) -> Vec<Wrap> {
        let mut wraps = self.wrap_all();
        wraps[0].until("it can be written to", || self.puts("first", "1"));
        self.doors.close(&self.client());
        for at in 0..40 {
            let (key, value) = (format!("key {}", at % 9), format!("value {at}"));
            wraps[0].until("it is written", || self.puts(&key, &value));
        }
        self.until_sealed(self.truth().0);
        if let Doors::Guarded(_) = self.doors {
            wraps[0].until("a full has the users", || self.archived_users() == Some(3));
        }
        wraps
    }

    pub(crate) fn start_agents(&mut self) {
        self.agents.clear();
        self.start_agents_from(0);
    }

    /// Those of the pods from number `from` on.
    pub(crate) fn start_agents_from(&mut self, from: usize) {
        for number in from..self.pods.len() {
            self.start_agent(number);
        }
    }

    pub(crate) fn start_agent(&mut self, number: usize) {
        let endpoints = Pod::endpoints(&self.pods);
        self.agents.push(self.pods[number].agent(Path::new(&self.archive()), &endpoints, self.more));
    }

    pub(crate) fn wrap_all(&self) -> Vec<Wrap> {
        self.pods.iter().map(|pod| pod.wrap(self.version)).collect()
    }

    /// A client of the first member, which has to be there.
    pub(crate) fn client(&self) -> Client {
        self.pods[0].client().unwrap()
    }

    /// The revision of the first member, and HashKV there.
    pub(crate) fn truth(&self) -> (i64, u32) {
        crate::truth::truth(&self.client())
    }

    /// Whether the first member takes this.
    pub(crate) fn puts(&self, key: &str, value: &str) -> bool {
        self.pods[0].client().is_ok_and(|client| client.put(key, value).is_ok())
    }

    /// Whether member `number` has this.
    pub(crate) fn reads(&self, number: usize, key: &str, value: &str) -> bool {
        let found = self.pods[number].client().and_then(|client| client.get(key));
        found.is_ok_and(|found| found.is_some_and(|found| found.value == value.as_bytes()))
    }

    /// Waits until one of the agents has sealed `revision`.
    pub(crate) fn until_sealed(&mut self, revision: i64) {
        let deadline = Instant::now() + LONG;
        let is_sealed = |agent: &Running| {
            let status = agent.status().unwrap_or_default();
            status["capture"]["state"] == "following" && status["recoverable"]["revision"].as_i64() >= Some(revision)
        };
        let what = format!("revision {revision} is sealed");
        while !self.agents.iter().any(is_sealed) {
            self.agents.iter_mut().for_each(|agent| agent.require_alive(&what));
            assert!(Instant::now() < deadline, "waiting until {what}\n{}", self.told());
            sleep(Duration::from_millis(20));
        }
    }

    /// Requires that the archive has at a revision what the live member had there.
    #[track_caller]
    pub(crate) fn require(&self, (revision, hash): (i64, u32)) {
        let at = revision.to_string();
        let found = succeed(&["hashkv", &self.archive(), "--at", &at, "-o", "json"]);
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["hash"].as_u64(), Some(u64::from(hash)), "HashKV at {at}");
    }

    /// How many users the newest point of the archive has, if it is one in which they have to log in.
    pub(crate) fn archived_users(&self) -> Option<u64> {
        let told = refloat(&["inspect", &self.archive(), "-o", "json"]).stdout;
        let told: Value = serde_json::from_slice(&told).ok()?;
        told["users"].as_u64().filter(|_| told["auth_enabled"] == true)
    }

    /// What agents tell of themselves, and everything that they and those around etcd have logged.
    fn told(&self) -> String {
        let of_agents = self.agents.iter().map(|agent| format!("{:#}\n", agent.status().unwrap_or_default()));
        of_agents.chain(self.pods.iter().map(Pod::said)).collect()
    }

    fn archive(&self) -> String {
        self.folder.path().join("archive").to_str().unwrap().to_owned()
    }
}

/// Plays it with each version, all at once: most of the time somebody waits for somebody.
pub(crate) fn at_once<const N: usize>(versions: [Version; N], play: impl Fn(Version) + Sync) {
    let play = &play;
    std::thread::scope(|scope| {
        versions.map(|version| scope.spawn(move || play(version))).map(|played| played.join().unwrap())
    });
}

pub(crate) fn is_there(path: &Path) -> bool {
    path.join("member").exists()
}
