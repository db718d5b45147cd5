//! Members with an agent beside each, as in pods: started, lost and brought back by nobody but `refloat wrap` and
//! `refloat agent`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/bucket.rs"]
mod bucket;
#[path = "desk/pod.rs"]
mod pod;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::path::Path;

use bucket::{BUCKET, Bucket};
use pod::{Pod, Wrap};
use running::{Running, succeed};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Client, Version};
use truth::truth;

struct World {
    folder: TempDir,
    pods: Vec<Pod>,
    agents: Vec<Running>,
    version: Version,
    more: &'static [&'static str],
}

impl World {
    fn new(count: usize, version: Version, more: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("archive")).unwrap();
        let pods = Pod::several(count, folder.path());
        let mut world = Self { folder, pods, agents: Vec::new(), version, more };
        world.start_agents();
        world
    }

    fn start_agents(&mut self) {
        self.agents.clear();
        self.start_agents_from(0);
    }

    /// Those of the pods from number `from` on.
    fn start_agents_from(&mut self, from: usize) {
        let (archive, endpoints) = (self.folder.path().join("archive"), Pod::endpoints(&self.pods));
        let agents = self.pods[from..].iter().map(|pod| pod.agent(&archive, &endpoints, self.more));
        self.agents.extend(agents);
    }

    fn wrap_all(&self) -> Vec<Wrap> {
        self.pods.iter().map(|pod| pod.wrap(self.version)).collect()
    }

    fn client(&self) -> Client {
        self.pods[0].client()
    }

    /// Waits until one of the agents has sealed `revision`.
    fn until_sealed(&mut self, revision: i64) {
        let writer = loop {
            let is_writing = |agent: &mut Running| agent.until("it tells", |_| true)["capture"]["state"] == "following";
            if let Some(writer) = self.agents.iter_mut().position(is_writing) {
                break writer;
            }
        };
        self.agents[writer].until_sealed(revision);
    }

    fn archive(&self) -> String {
        self.folder.path().join("archive").to_str().unwrap().to_owned()
    }
}

/// Plays it with each version, all at once: most of the time somebody waits for somebody.
fn at_once<const N: usize>(versions: [Version; N], play: impl Fn(Version) + Sync) {
    let play = &play;
    std::thread::scope(|scope| {
        versions.map(|version| scope.spawn(move || play(version))).map(|played| played.join().unwrap())
    });
}

fn reads(client: &Client, key: &str, value: &str) -> bool {
    client.get(key).is_ok_and(|found| found.is_some_and(|found| found.value == value.as_bytes()))
}

fn require(archive: &str, (revision, hash): (i64, u32)) {
    let at = revision.to_string();
    let found: Value = serde_json::from_str(&succeed(&["hashkv", archive, "--at", &at, "-o", "json"])).unwrap();
    assert_eq!(found["hash"].as_u64(), Some(u64::from(hash)), "HashKV at {at}");
}

fn is_there(path: &Path) -> bool {
    path.join("member").exists()
}

#[test]
fn the_only_member_loses_its_disk_and_everything_comes_back() {
    at_once(Version::ALL, |version| {
        let mut world = World::new(1, version, &[]);
        let mut wrap = world.wrap_all().remove(0);
        let client = world.client();
        wrap.until("it can be written to", || client.put("first", "1").is_ok());
        for at in 0..40 {
            client.put(format!("key {}", at % 9), format!("value {at}")).unwrap();
        }
        let before = truth(&client);
        world.until_sealed(before.0);

        // A stop that was asked for: its directory is kept.
        wrap.stop();
        let mut wrap = world.pods[0].wrap(version);
        wrap.until("it is back", || reads(&client, "key 3", "value 39"));
        assert_eq!(truth(&client), before, "{version}");

        wrap.kill();
        world.pods[0].lose_disk();
        let mut wrap = world.pods[0].wrap(version);
        wrap.until("it is back from the archive", || reads(&client, "key 3", "value 39"));
        assert!(is_there(&world.pods[0].data()));
        assert_eq!(truth(&client), before, "{version}");

        client.put("afterwards", "2").unwrap();
        let after = truth(&client);
        world.until_sealed(after.0);
        require(&world.archive(), after);
        wrap.stop();
        assert!(world.agents.remove(0).stop().success());
    });
}

/// After a restore, the revisions of a Kubernetes go on from a higher one, and nothing before it can be watched: what lives
/// shows that it is the same cluster.
#[test]
fn a_kubernetes_that_lost_its_disk_is_followed_on() {
    at_once(Version::ALL, |version| {
        let mut world = World::new(1, version, &[]);
        let mut wrap = world.wrap_all().remove(0);
        let client = world.client();
        wrap.until("it can be written to", || client.put("/registry/namespaces/default", "1").is_ok());
        for at in 0..40 {
            client.put(format!("/registry/configmaps/default/{}", at % 9), format!("value {at}")).unwrap();
        }
        client.delete("/registry/configmaps/default/1").unwrap();
        let before = truth(&client);
        world.until_sealed(before.0);

        wrap.kill();
        world.pods[0].lose_disk();
        let mut wrap = world.pods[0].wrap(version);
        let back = "/registry/configmaps/default/3";
        wrap.until("it is back from the archive", || reads(&client, back, "value 39"));
        let bumped = client.status().unwrap().revision;
        assert!(bumped > before.0 + 1000, "{version}: nobody who watched meets a revision twice: {bumped}");
        client.put(back, "afterwards").unwrap();
        let after = truth(&client);
        world.until_sealed(after.0);
        require(&world.archive(), after);
        require(&world.archive(), before);

        // Whoever comes later finds that too.
        world.agents.remove(0).kill();
        world.start_agents();
        client.put(back, "later").unwrap();
        let later = truth(&client);
        world.until_sealed(later.0);
        require(&world.archive(), later);
        wrap.stop();
    });
}

#[test]
fn of_three_members_one_and_then_all_lose_their_disks() {
    at_once([Version::V34, Version::V36], |version| {
        let mut world = World::new(3, version, &["--rebuild-after", "1s"]);
        let mut wraps = world.wrap_all();
        let client = world.client();
        wraps[0].until("it can be written to", || client.put("first", "1").is_ok());
        for at in 0..40 {
            client.put(format!("key {}", at % 9), format!("value {at}")).unwrap();
        }
        world.until_sealed(truth(&client).0);

        // One: it joins again as a learner, and whoever writes gives it its vote.
        wraps.remove(1).kill();
        world.pods[1].lose_disk();
        wraps[0].until("the others have a leader", || client.put("while it is away", "2").is_ok());
        let mut wrap = world.pods[1].wrap(version);
        let other = world.pods[1].client();
        wrap.until("it has a vote and what it missed", || reads(&other, "while it is away", "2"));
        wraps.insert(1, wrap);
        let before = truth(&client);
        world.until_sealed(before.0);
        require(&world.archive(), before);

        // All, and the agents end too: the first by name brings the cluster back, and the others join.
        for ((wrap, pod), agent) in wraps.drain(..).zip(&world.pods).zip(world.agents.drain(..)) {
            wrap.kill();
            agent.kill();
            pod.lose_disk();
        }
        world.start_agents();
        let mut wraps = world.wrap_all();
        for (wrap, pod) in wraps.iter_mut().zip(&world.pods) {
            let client = pod.client();
            wrap.until("it has a vote and everything", || reads(&client, "while it is away", "2"));
        }
        let client = world.client();
        assert_eq!(truth(&client), before, "{version}");
        client.put("afterwards", "3").unwrap();
        let after = truth(&client);
        world.until_sealed(after.0);
        require(&world.archive(), after);
        require(&world.archive(), before);
    });
}

/// Two of three machines are gone. The member that is left runs, and is no cluster: it becomes one, with all that it has, and
/// those that come back with what they had join it.
#[test]
fn a_cluster_that_lost_its_quorum_is_built_anew_by_the_member_that_is_left() {
    at_once([Version::V34, Version::V36], |version| {
        let mut world = World::new(3, version, &["--rebuild-after", "3s", "--set-outdated-aside"]);
        let mut wraps = world.wrap_all();
        let client = world.client();
        wraps[0].until("it can be written to", || client.put("first", "1").is_ok());
        for at in 0..40 {
            client.put(format!("key {}", at % 9), format!("value {at}")).unwrap();
        }
        let before = truth(&client);
        world.until_sealed(before.0);

        wraps.pop().unwrap().kill();
        wraps[0].until("two of three have a leader", || client.put("with two of three", "2").is_ok());
        wraps.pop().unwrap().kill();
        let wrap = wraps.pop().unwrap();
        for agent in world.agents.drain(1..) {
            agent.kill();
        }
        wrap.until_ended("its cluster is given up");
        let mut wrap = world.pods[0].wrap(version);
        wrap.until("it is a cluster", || client.put("alone", "3").is_ok());
        assert!(reads(&client, "with two of three", "2"), "{version}");
        assert_eq!(client.member_list().unwrap().len(), 1);
        assert_eq!(client.hash_kv(before.0).unwrap().hash, before.1);
        wraps.push(wrap);

        world.start_agents_from(1);
        for pod in &world.pods[1..] {
            let (mut wrap, client) = (pod.wrap(version), pod.client());
            wrap.until("it has a vote and everything", || reads(&client, "alone", "3"));
            wraps.push(wrap);
        }
        client.put("afterwards", "4").unwrap();
        let after = truth(&client);
        world.until_sealed(after.0);
        require(&world.archive(), after);
        require(&world.archive(), before);
    });
}

/// Before 3.6 an etcd that is started without a quorum serves nobody, and cannot be asked anything.
#[test]
fn after_a_power_cut_the_one_machine_that_comes_back_is_a_cluster_again() {
    at_once([Version::V35, Version::V37], |version| {
        let mut world = World::new(3, version, &["--rebuild-after", "3s"]);
        let mut wraps = world.wrap_all();
        let client = world.client();
        wraps[0].until("it can be written to", || client.put("first", "1").is_ok());
        client.put("key", "value").unwrap();
        let before = truth(&client);
        world.until_sealed(before.0);
        wraps.into_iter().for_each(Wrap::kill);
        world.agents.drain(..).for_each(Running::kill);

        let (archive, endpoints) = (world.folder.path().join("archive"), Pod::endpoints(&world.pods));
        world.agents.push(world.pods[0].agent(&archive, &endpoints, world.more));
        world.pods[0].wrap(version).until_ended("its cluster is given up");
        let mut wrap = world.pods[0].wrap(version);
        wrap.until("it is a cluster", || client.put("alone", "2").is_ok());
        assert!(reads(&client, "key", "value"), "{version}");
        assert_eq!(client.hash_kv(before.0).unwrap().hash, before.1);
        let after = truth(&client);
        world.until_sealed(after.0);
        require(&world.archive(), after);
    });
}

#[test]
fn a_member_starts_while_the_store_is_away_and_what_it_was_told_is_sealed_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let pod = Pod::several(1, folder.path()).remove(0);
    let (reached, endpoints) = (bucket.reached(), Pod::endpoints(std::slice::from_ref(&pod)));
    let begin = || pod.agent(Path::new(BUCKET), &endpoints, &reached.each_ref().map(String::as_str));
    let client = pod.client();

    let mut agent = begin();
    let mut wrap = pod.wrap(Version::V36);
    wrap.until("it can be written to", || client.put("before", "1").is_ok());
    agent.until_sealed(client.status().unwrap().revision);
    wrap.stop();
    assert!(agent.stop().success());

    bucket.is_away(true);
    let mut agent = begin();
    let mut wrap = pod.wrap(Version::V36);
    wrap.until("it serves what it had", || reads(&client, "before", "1"));
    client.put("meanwhile", "2").unwrap();
    agent.until("it tells that the store is away", |status| {
        status["capture"]["state"] == "waiting_for_store" && status["capture"]["trouble"]["what"].is_string()
    });

    bucket.is_away(false);
    client.put("afterwards", "3").unwrap();
    let (revision, hash) = truth(&client);
    agent.until_sealed(revision);
    assert_eq!(bucket.hash_at(revision), hash);
    assert_eq!(bucket.hash_at(revision - 1), client.hash_kv(revision - 1).unwrap().hash);
    wrap.stop();
}
