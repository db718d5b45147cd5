//! Members on hosts of their own. One host is lost for good, and the two that are left do not reach each other: between them
//! packets vanish, and nobody is told that anything is refused. Both reach the archive.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Client, Version};

use crate::hosts::{Hosts, at_desk, at_hub};
use crate::running::{Running, succeed};
use crate::truth::truth;

/// To join takes an election, a stop of etcd, a look or two, and a learner's time; and that the host which is lost may write no more
/// takes as long as [`TAKEOVER`].
const LONG: Duration = Duration::from_secs(180);

/// Whoever stands still for as long has its right taken by another, who then rightly builds the cluster anew: longer than a loaded
/// machine lets anybody stand still.
const TAKEOVER: &str = "15s";

const CLIENTS: u16 = 2379;
const PEERS: u16 = 2380;
const PAGE: u16 = 8379;
const WRAPPER: &str = "127.0.0.1:9095";

/// A member and an agent on each host, and their archive.
struct World {
    hosts: Hosts,
    folder: TempDir,
    version: Version,
    agents: Vec<Running>,
    wraps: Vec<Running>,
}

#[test]
fn survivors_that_are_apart_wait_and_tell_what_to_run() {
    let name = "apart::survivors_that_are_apart_wait_and_tell_what_to_run";
    let Some(hosts) = Hosts::of(3, name) else { return };
    let mut world = World::begin(hosts, Version::V35, World::wrap_once, &[]);
    let before = world.fall_apart();
    for agent in &mut world.agents {
        agent.until("it tells what to run", |status| {
            let says = |told: &Value, what: &str| told.as_str().is_some_and(|told| told.contains(what));
            status["findings"].as_array().into_iter().flatten().any(|finding| {
                says(&finding["what"], "the cluster has no leader: 1 of 3 members that vote answer")
                    && says(&finding["remedy"], "`refloat restore ARCHIVE --data-dir DIR --replace`")
            })
        });
    }
    // What is sound is started, whomever it does not reach.
    world.wraps.remove(0).kill();
    let again = world.wrap_once(0);
    world.wraps.insert(0, again);
    world.until("its etcd is started again", |world| world.log(0, "wrap").matches("etcd is started").count() == 2);
    assert!([0, 1].iter().all(|host| world.kept(*host).is_empty()), "{}", world.said());

    world.hosts.heal(0);
    for host in [0, 1] {
        world.until("they are a cluster again", |world| world.puts(host, "together", "3"));
    }
    assert_eq!(world.client(0).get("with two of three").unwrap().unwrap().value, b"2");
    let after = truth(&world.client(0));
    world.until_sealed(after.0);
    world.require(after);
    world.require(before);
    assert_eq!(world.lineages(), 1);
}

#[test]
fn of_survivors_that_are_apart_one_builds_the_cluster_anew_and_the_other_joins_it() {
    let name = "apart::of_survivors_that_are_apart_one_builds_the_cluster_anew_and_the_other_joins_it";
    let Some(hosts) = Hosts::of(3, name) else { return };
    let permitted = ["--rebuild-after", "3s", "--set-outdated-aside"];
    let mut world = World::begin(hosts, Version::V36, World::wrap, &permitted);
    let before = world.fall_apart();
    world.until("one has kept aside what it had", |world| [0, 1].iter().any(|host| !world.kept(*host).is_empty()));
    let builder = usize::from(world.kept(0).is_empty());
    let other = 1 - builder;
    world.until("it is a cluster", |world| world.puts(builder, "alone", "3"));
    // The other one looks every ten seconds at the least, and could have had its turn: to seal all this takes longer.
    for round in 0..50 {
        let revision = world.client(builder).put("round", round.to_string()).unwrap();
        world.agents[builder].until_sealed(revision);
    }
    assert_eq!(world.kept(other), Vec::<PathBuf>::new(), "{}", world.said());
    assert!(!world.log(other, "wrap").contains("asked to stop"), "{}", world.said());
    assert_eq!(world.client(other).status().unwrap().leader, 0);

    world.hosts.heal(0);
    world.until("the other has a vote and everything", |world| world.reads(other, "alone", "3"));
    assert!(!world.kept(other).is_empty());
    for host in [builder, other] {
        world.until("it has what was before", |world| {
            world.reads(host, "key 3", "value 39") && world.reads(host, "with two of three", "2")
        });
    }
    world.until("it is written to", |world| world.puts(builder, "afterwards", "4"));
    let after = truth(&world.client(builder));
    world.until_sealed(after.0);
    world.require(after);
    world.require(before);
    world.until("the other has that too", |world| world.reads(other, "afterwards", "4"));
    assert_eq!(world.client(other).hash_kv(after.0).unwrap().hash, after.1);
    assert_eq!(world.client(builder).member_list().unwrap().len(), 2);
    assert_eq!(world.lineages(), 2, "what was, and what one of them made of it");
}

/// What it has built is followed by nobody, so nobody knows whether it is a cluster. Where survivors are apart for so long, there
/// may be two of them.
#[test]
fn where_the_agent_that_built_the_cluster_anew_ends_before_it_follows_the_other_survivor_builds_one_as_well() {
    let name = "apart::where_the_agent_that_built_the_cluster_anew_ends_before_it_follows_the_other_survivor_builds_one_as_well";
    let Some(hosts) = Hosts::of(3, name) else { return };
    let mut world = World::begin(hosts, Version::V36, World::wrap, &["--rebuild-after", "3s"]);
    // What is built has an etcd that does not serve yet.
    [0, 1].iter().for_each(|host| fs::write(world.of(*host, "closed"), "").unwrap());
    let before = world.fall_apart();
    let is_built = |world: &World, host| world.log(host, "wrap").matches("etcd is started").count() == 2;
    world.until("one has built the cluster anew", |world| [0, 1].iter().any(|host| is_built(world, *host)));
    let builder = usize::from(!is_built(&world, 0));
    let other = 1 - builder;
    assert_eq!([builder, other].map(|host| world.kept(host).len()), [1, 0], "{}", world.said());
    world.agents.remove(builder).kill();
    fs::remove_file(world.of(other, "closed")).unwrap();

    world.until("the other builds the cluster anew", |world| world.puts(other, "alone", "3"));
    assert!(!world.kept(other).is_empty(), "{}", world.said());
    for (key, value) in [("key 3", "value 39"), ("with two of three", "2")] {
        assert!(world.reads(other, key, value), "{key}: {}", world.said());
    }
    let after = truth(&world.client(other));
    world.until_sealed(after.0);
    world.require(after);
    world.require(before);
    assert_eq!(world.client(other).member_list().unwrap().len(), 1);
}

impl World {
    /// All members of a new cluster run, two of them as `wrap` has it, with agents beside them that are told `more`.
    fn begin(hosts: Hosts, version: Version, wrap: fn(&Self, usize) -> Running, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("archive")).unwrap();
        let mut world = Self { hosts, folder, version, agents: Vec::new(), wraps: Vec::new() };
        for host in world.hosts.all() {
            fs::create_dir_all(world.of(host, "volume")).unwrap();
            fs::write(world.of(host, "etcd.yaml"), world.configuration(host)).unwrap();
            fs::write(world.of(host, "token"), "of-this-host-alone").unwrap();
            world.make_etcd(host);
        }
        world.agents = world.hosts.all().map(|host| world.agent(host, more)).collect();
        // The last one is not to come back.
        world.wraps = vec![wrap(&world, 0), wrap(&world, 1), world.wrap_once(2)];
        world.until("it can be written to", |world| world.puts(0, "first", "1"));
        world
    }

    /// One host is gone for good, and the others are cut off from each other. Gives what they had, all of which is sealed.
    fn fall_apart(&mut self) -> (i64, u32) {
        for at in 0..40 {
            let (key, value) = (format!("key {}", at % 9), format!("value {at}"));
            self.until("it is written", |world| world.puts(0, &key, &value));
        }
        self.wraps.pop().unwrap().kill();
        self.agents.pop().unwrap().kill();
        self.until("two of three have a leader", |world| world.puts(0, "with two of three", "2"));
        let before = truth(&self.client(0));
        self.until_sealed(before.0);
        self.require(before);
        // Both know that it is committed: nobody has it from the log of the other alone.
        self.until("the other has it too", |world| world.reads(1, "with two of three", "2"));
        self.hosts.mute(0);
        self.hosts.deafen(0);
        before
    }

    fn configuration(&self, host: usize) -> String {
        let url = |host, port| format!("http://{}:{port}", at_hub(host));
        let served = |port| format!("{},http://{}:{port}", url(host, port), at_desk(host));
        let of_all = |port| -> String {
            self.hosts.all().map(|host| format!("\n  m-{host}: [\"{}\"]", url(host, port))).collect()
        };
        let initial: Vec<String> = self.hosts.all().map(|host| format!("m-{host}={}", url(host, PEERS))).collect();
        format!(
            "name: etcd-config\ndata-dir: {}\nlisten-client-urls: {}\nlisten-peer-urls: {}\nenable-grpc-gateway: true\n\
             initial-cluster: {}\ninitial-cluster-state: new\ninitial-cluster-token: etcd-cluster\n\
             advertise-client-urls:{}\ninitial-advertise-peer-urls:{}\n",
            self.of(host, "volume/data").display(),
            served(CLIENTS),
            served(PEERS),
            initial.join(","),
            of_all(CLIENTS),
            of_all(PEERS),
        )
    }

    /// The etcd of a host: it begins as soon as there is no file `closed`.
    fn make_etcd(&self, host: usize) {
        let (program, closed, etcd) = (self.of(host, "etcd"), self.of(host, "closed"), self.version.etcd());
        let wait = format!("while [ -e '{}' ]; do sleep 0.05; done", closed.display());
        fs::write(&program, format!("#!/bin/sh\n{wait}\nexec '{}' \"$@\"\n", etcd.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// A file of one host.
    fn of(&self, host: usize, name: &str) -> PathBuf {
        self.folder.path().join(format!("m-{host}")).join(name)
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn page(host: usize) -> SocketAddr {
        SocketAddr::new(at_desk(host), PAGE)
    }

    fn agent(&self, host: usize, more: &[&str]) -> Running {
        let name = format!("m-{host}");
        let endpoints: Vec<String> =
            self.hosts.all().map(|host| format!("http://{}:{CLIENTS}", at_hub(host))).collect();
        let mut command = self.hosts.command(host, env!("CARGO_BIN_EXE_refloat"));
        command.arg("agent").arg(self.archive()).args(["--endpoints", &endpoints.join(","), "--name", &name]);
        command.arg("--spool").arg(self.of(host, "spool"));
        command.arg("--etcd-config").arg(self.of(host, "etcd.yaml")).args(["--member", &name]);
        command.arg("--token-file").arg(self.of(host, "token")).arg("--allow-unauthenticated");
        command
            .args(["--wrapper", &format!("http://{WRAPPER}"), "--seal-after", "300ms", "--takeover", TAKEOVER])
            .args(more);
        Running::begin(&mut command, Self::page(host), &self.of(host, "agent.log"))
    }

    /// Starts its etcd when the agent has prepared it, each time that it has ended.
    fn wrap(&self, host: usize) -> Running {
        self.wrap_with(host, "while :; do \"$@\"; sleep 1; done")
    }

    /// The same, and does not start it again.
    fn wrap_once(&self, host: usize) -> Running {
        self.wrap_with(host, "exec \"$@\"")
    }

    fn wrap_with(&self, host: usize, script: &str) -> Running {
        let mut command = self.hosts.command(host, "sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_refloat"), "wrap", "--listen", WRAPPER]);
        command.arg("--token-file").arg(self.of(host, "token"));
        command.args(["--agent", &format!("http://{}", Self::page(host))]);
        command.arg("--config-file").arg(self.of(host, "made.yaml"));
        command.arg("--exit-note").arg(self.of(host, "exit_code"));
        command.arg("--").arg(self.of(host, "etcd"));
        Running::spawn(&mut command, WRAPPER.parse().unwrap(), &self.of(host, "wrap.log"))
    }

    fn client(&self, host: usize) -> Client {
        let at = |port| SocketAddr::new(at_desk(host), port);
        Client::new(at(CLIENTS), at(PEERS))
    }

    fn puts(&self, host: usize, key: &str, value: &str) -> bool {
        self.client(host).put(key, value).is_ok()
    }

    fn reads(&self, host: usize, key: &str, value: &str) -> bool {
        let found = self.client(host).get(key);
        found.is_ok_and(|found| found.is_some_and(|found| found.value == value.as_bytes()))
    }

    /// What was kept aside beside its data directory.
    fn kept(&self, host: usize) -> Vec<PathBuf> {
        let beside = fs::read_dir(self.of(host, "volume")).unwrap().map(|entry| entry.unwrap().path());
        beside.filter(|path| path.to_string_lossy().contains(".before-")).collect()
    }

    fn log(&self, host: usize, whose: &str) -> String {
        fs::read_to_string(self.of(host, &format!("{whose}.log"))).unwrap_or_default()
    }

    /// Everything that was logged.
    fn said(&self) -> String {
        let logs = self.hosts.all().flat_map(|host| ["agent", "wrap"].map(|whose| (host, whose)));
        logs.map(|(host, whose)| format!("{whose} {host}:\n{}\n", self.log(host, whose))).collect()
    }

    #[track_caller]
    fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + LONG;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "waiting until {what}\n{}", self.said());
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until `revision` is in the archive, by the word of whoever writes.
    #[track_caller]
    fn until_sealed(&self, revision: i64) {
        let is_sealed = |agent: &Running| {
            let status = agent.status().unwrap_or_default();
            status["capture"]["state"] == "following" && status["recoverable"]["revision"].as_i64() >= Some(revision)
        };
        self.until("it is sealed", |world| world.agents.iter().any(is_sealed));
    }

    /// Requires that the archive has at a revision what the live member had there.
    #[track_caller]
    fn require(&self, (revision, hash): (i64, u32)) {
        let (archive, at) = (self.archive(), revision.to_string());
        let found = succeed(&["hashkv", archive.to_str().unwrap(), "--at", &at, "-o", "json"]);
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["hash"].as_u64(), Some(u64::from(hash)), "HashKV at {at}");
    }

    /// How many histories the archive has.
    fn lineages(&self) -> usize {
        let is_one = |folder: &Path| folder.join("lineage.json").exists();
        let clusters = fs::read_dir(self.archive()).unwrap().map(|entry| entry.unwrap().path());
        let within = clusters.filter(|path| path.is_dir()).flat_map(|cluster| fs::read_dir(cluster).unwrap());
        within.filter(|entry| is_one(&entry.as_ref().unwrap().path())).count()
    }
}
