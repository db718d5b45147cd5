//! A cluster of real members, the agents beside them, and their archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testkit::{Client, Cluster, ClusterPlan, Etcd, Member, Port, Version};

use crate::agents::Agents;
use crate::place::Place;
use crate::secured::{ROOT, Secured};
use crate::traffic::Reach;

/// What is played with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast {
    pub(crate) version: Version,
    pub(crate) members: usize,
    pub(crate) agents: usize,
    pub(crate) access: Access,
    pub(crate) store: Store,
}

/// Who may ask members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody.
    Open,
    /// Whoever has a certificate, and a user with a role.
    Secured,
}

/// Where the archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Folder,
    Bucket,
}

/// Everything that runs. Dropped, it is gone.
pub(crate) struct Stage {
    pub(crate) agents: Agents,
    members: Vec<Slot>,
    secured: Option<Secured>,
    pub(crate) reach: Reach,
    pub(crate) place: Place,
    pub(crate) folder: TempDir,
    _pages: Vec<Port>,
}

/// A member that runs, or does not.
enum Slot {
    Up(Etcd),
    Down(Member),
    /// Between the two.
    Changing,
}

impl Stage {
    /// Starts everything.
    pub(crate) fn set(cast: Cast) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = match cast.store {
            Store::Folder => Place::folder(folder.path()),
            Store::Bucket => Place::bucket(folder.path()),
        };
        let secured = (cast.access == Access::Secured).then(|| Secured::of(cast.members, folder.path()));
        let etcds = start(cast, folder.path(), secured.as_ref());
        let of = |etcd: &Etcd| (etcd.client_address(), etcd.member().peer_address());
        let mut reach = Reach { members: etcds.iter().map(of).collect(), login: None };
        if secured.is_some() {
            Secured::close(&etcds[0].client());
            reach.login = Some((ROOT.0.into(), ROOT.1.into()));
        }
        let pages: Vec<Port> = (0..cast.agents).map(|_| Port::reserve()).collect();
        let agents = Agents::of(pages.iter().map(Port::address), folder.path());
        let members = etcds.into_iter().map(Slot::Up).collect();
        let mut stage = Self { agents, members, secured, reach, place, folder, _pages: pages };
        (0..cast.agents).for_each(|agent| stage.start_agent(agent));
        stage
    }

    pub(crate) fn client(&self, member: usize) -> Client {
        self.reach.client(member).unwrap()
    }

    pub(crate) fn start_agent(&mut self, number: usize) {
        self.agents.start(number, self.agent());
    }

    /// Starts an agent by a clock that is as far from the right one as [`Self::set_clock`] says.
    pub(crate) fn start_agent_by_clock(&mut self, number: usize, ahead_seconds: i64) {
        self.set_clock(ahead_seconds);
        let mut agent = self.agent();
        agent
            .env("LD_PRELOAD", testkit::servers::libfaketime())
            .env("FAKETIME_TIMESTAMP_FILE", self.clock())
            .env("FAKETIME_CACHE_DURATION", "1")
            // Only what people set jumps: no kernel lets the other clocks do so.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        self.agents.start(number, agent);
    }

    /// Sets that clock, also while the agent runs.
    pub(crate) fn set_clock(&self, ahead_seconds: i64) {
        let new = self.clock().with_extension("new");
        fs::write(&new, format!("{ahead_seconds:+}\n")).unwrap();
        fs::rename(new, self.clock()).unwrap();
    }

    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    fn agent(&self) -> Command {
        let mut command = self.place.command("agent");
        let urls: Vec<String> = match &self.secured {
            Some(secured) => (0..self.members.len()).map(|member| secured.url(member)).collect(),
            None => self.reach.members.iter().map(|(clients, _)| format!("http://{clients}")).collect(),
        };
        if let Some(secured) = &self.secured {
            secured.introduce(&mut command);
        }
        command.args(["--endpoints", &urls.join(",")]);
        command
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn kill_member(&mut self, number: usize) {
        self.change(number, |slot| Slot::Down(up(slot).kill()));
    }

    pub(crate) fn stop_member(&mut self, number: usize) {
        self.change(number, |slot| Slot::Down(up(slot).stop()));
    }

    pub(crate) fn start_member(&mut self, number: usize) {
        self.change(number, |slot| match slot {
            Slot::Down(member) => Slot::Up(member.start()),
            Slot::Up(_) | Slot::Changing => panic!("member {number} is not down"),
        });
    }

    fn change(&mut self, number: usize, change: impl FnOnce(Slot) -> Slot) {
        let slot = std::mem::replace(&mut self.members[number], Slot::Changing);
        self.members[number] = change(slot);
    }
}

fn up(slot: Slot) -> Etcd {
    match slot {
        Slot::Up(etcd) => etcd,
        Slot::Down(_) | Slot::Changing => panic!("the member is not up"),
    }
}

fn start(cast: Cast, folder: &Path, secured: Option<&Secured>) -> Vec<Etcd> {
    let dirs: Vec<PathBuf> = (0..cast.members).map(|member| folder.join(format!("m{member}"))).collect();
    let members = match cast.members {
        1 => vec![Member::new(cast.version, &dirs[0]).name("m0")],
        several => ClusterPlan::of(several).members(cast.version, &dirs),
    };
    let prepared = members.into_iter().enumerate().map(|(number, member)| {
        let member = member.without_fsync();
        match secured {
            Some(secured) => secured.apply(number, member),
            None => member,
        }
    });
    Cluster::start(prepared.collect()).members
}
