//! The host of the agent that writes is cut off from the others, wholly or in one direction: another agent goes on, the one that
//! is cut off never writes again by its old right, and nothing is missing.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use testkit::stores::{FakeGcs, Toxic};
use testkit::{Client, Version};

use crate::agents::Agents;
use crate::bucket::{BUCKET, open_bucket};
use crate::compare::Reader;
use crate::hosts::{Hosts, at_desk, at_hub, test_at_desk, test_at_hub};
use crate::seed::seed;
use crate::server::Server;
use crate::traffic::{Reach, Traffic};

pub(crate) const CLIENTS: u16 = 2379;
pub(crate) const PEERS: u16 = 2380;
const PAGE: u16 = 8379;
const STORE: u16 = 443;

/// How hosts reach the store.
#[derive(Debug, Clone, Copy)]
enum Line {
    /// As they reach each other: who is cut off from the others has no store either.
    Shared,
    /// By a line of its own: who is cut off from the others still writes, and has nothing to write.
    Own,
}

#[test]
fn a_writer_that_is_cut_off_from_the_others_and_the_store_is_replaced() {
    let name = "partition::a_writer_that_is_cut_off_from_the_others_and_the_store_is_replaced";
    if let Some(hosts) = Hosts::of(3, name) {
        play(hosts, Version::V36, Line::Shared, Hosts::cut_off);
    }
}

#[test]
fn a_writer_that_is_cut_off_from_the_others_and_reaches_the_store_lays_the_pen_down() {
    let name = "partition::a_writer_that_is_cut_off_from_the_others_and_reaches_the_store_lays_the_pen_down";
    if let Some(hosts) = Hosts::of(3, name) {
        play(hosts, Version::V35, Line::Own, Hosts::cut_off);
    }
}

#[test]
fn a_writer_of_whom_nothing_arrives_any_more_is_replaced() {
    if let Some(hosts) = Hosts::of(3, "partition::a_writer_of_whom_nothing_arrives_any_more_is_replaced") {
        play(hosts, Version::V37, Line::Shared, Hosts::mute);
    }
}

#[test]
fn a_writer_that_hears_nobody_lays_the_pen_down() {
    if let Some(hosts) = Hosts::of(3, "partition::a_writer_that_hears_nobody_lays_the_pen_down") {
        play(hosts, Version::V34, Line::Own, Hosts::deafen);
    }
}

/// Three hosts, each with a member and an agent.
struct World {
    hosts: Hosts,
    agents: Agents,
    gcs: FakeGcs,
    members: Vec<Server>,
    folder: TempDir,
    _networks: Vec<Toxic>,
}

impl World {
    fn begin(hosts: Hosts, version: Version, line: Line) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let members = hosts.all().map(|host| member(&hosts, host, at_hub(host), version, folder.path())).collect();
        let gcs = FakeGcs::start();
        gcs.bucket("archives");
        let behind: SocketAddr = gcs.url().strip_prefix("http://").unwrap().parse().unwrap();
        let mut networks: Vec<Toxic> = hosts.all().map(|host| Toxic::at(test_at_desk(host, STORE), behind)).collect();
        networks.push(Toxic::at(test_at_hub(STORE), behind));
        let pages = hosts.all().map(|host| SocketAddr::new(at_desk(host), PAGE));
        let agents = Agents::of(pages, folder.path());
        let mut world = Self { hosts, agents, gcs, members, folder, _networks: networks };
        world.until_members_serve();
        for host in world.hosts.all() {
            let store = match line {
                Line::Shared => test_at_hub(STORE),
                Line::Own => test_at_desk(host, STORE),
            };
            let command = world.agent(host, store);
            world.agents.start(host, command);
        }
        world
    }

    /// An agent on a host, that finds the store at `store`.
    fn agent(&self, host: usize, store: SocketAddr) -> Command {
        let key = self.folder.path().join(format!("key-{host}.json"));
        // Where tokens come from is in the key.
        let there = format!("http://{store}");
        fs::write(&key, self.gcs.service_account_key().replace(&self.gcs.url(), &there)).unwrap();
        let urls: Vec<String> = self.hosts.all().map(|host| format!("http://{}:{CLIENTS}", at_hub(host))).collect();
        let mut command = self.hosts.command(host, env!("CARGO_BIN_EXE_refloat"));
        command.args(["agent", BUCKET, "--endpoint", &there, "--credentials"]).arg(key);
        command.args(["--endpoints", &urls.join(",")]);
        command
    }

    fn reach(&self) -> Reach {
        let of = |host| (SocketAddr::new(at_desk(host), CLIENTS), SocketAddr::new(at_desk(host), PEERS));
        Reach { members: self.hosts.all().map(of).collect(), login: None }
    }

    fn until_members_serve(&mut self) {
        let reach = self.reach();
        for host in self.hosts.all() {
            let client: Client = reach.client(host).unwrap();
            self.members[host].wait_until(|| client.get("ready").is_ok());
        }
    }

    fn reader(&self) -> Reader {
        Reader::open(open_bucket(&self.gcs))
    }
}

/// A member on a host, which tells that clients find it at the address `told`.
pub(crate) fn member(hosts: &Hosts, host: usize, told: IpAddr, version: Version, folder: &Path) -> Server {
    let (hub, desk) = (at_hub(host), at_desk(host));
    let urls = |port| format!("http://{hub}:{port},http://{desk}:{port}");
    let all: Vec<String> = hosts.all().map(|host| format!("host{host}=http://{}:{PEERS}", at_hub(host))).collect();
    let mut command = hosts.command(host, version.etcd());
    command
        .args(["--name", &format!("host{host}"), "--initial-cluster", &all.join(",")])
        .args(["--listen-client-urls", &urls(CLIENTS), "--advertise-client-urls", &format!("http://{told}:{CLIENTS}")])
        .args(["--listen-peer-urls", &urls(PEERS), "--initial-advertise-peer-urls", &format!("http://{hub}:{PEERS}")])
        .arg("--data-dir")
        .arg(folder.join(format!("etcd-{host}")))
        .args(version.without_fsync());
    Server::start(&mut command)
}

fn play(hosts: Hosts, version: Version, line: Line, cut_off: fn(&Hosts, usize)) {
    let seed = seed();
    let mut world = World::begin(hosts, version, line);
    let writer = world.agents.writer();
    let traffic = Traffic::begin(&world.reach(), seed, 20);
    world.agents.until_sealed(traffic.until_more(150));

    let right = world.agents.right_of(writer);
    cut_off(&world.hosts, writer);
    traffic.avoid(Some(writer));
    let next = world.agents.until_another_writes(writer);
    world.agents.until_sealed(traffic.until_more(150));
    let at_takeover = world.reader().epochs();
    // Whatever the one that is cut off still wanted to do, it has had the time for it.
    world.agents.until_sealed(traffic.until_more(600));
    world.hosts.heal(writer);
    traffic.avoid(None);
    let sealed = traffic.until_more(200);
    world.agents.until_sealed(sealed);
    world.agents.until_it_knows_a_later_right(writer, right);

    let reader = world.reader();
    require_order(&at_takeover, &reader.epochs());
    reader.require_whole();
    let truths: Vec<_> =
        traffic.truths().into_iter().filter(|truth| (reader.first()..=sealed).contains(&truth.revision)).collect();
    truths.iter().for_each(|truth| reader.require(truth));
    let written = reader.require_written(&traffic.written(), sealed);
    let counted = format!(
        "SEED={seed}, etcd {version}: agent {next} went on after agent {writer}; {} points compared, {written} \
         acknowledged puts found",
        truths.len()
    );
    println!("{counted}");
    testkit::keep_counts(&format!("partition-{version}"), &counted);
}

/// Requires that nothing was written by an older right once a newer one was used.
fn require_order(at_takeover: &BTreeMap<String, u64>, at_the_end: &BTreeMap<String, u64>) {
    let newest = at_takeover.values().max().unwrap();
    let later: Vec<_> = at_the_end.iter().filter(|(key, _)| !at_takeover.contains_key(*key)).collect();
    assert!(later.len() > 1, "{later:?}");
    assert!(later.iter().all(|(_, epoch)| *epoch >= newest), "written by an old right after {newest}: {later:?}");
    let in_order: Vec<u64> = at_the_end.values().copied().collect();
    assert!(in_order.is_sorted(), "{at_the_end:#?}");
    assert!(in_order.first() < in_order.last(), "nobody took over: {at_the_end:#?}");
}
