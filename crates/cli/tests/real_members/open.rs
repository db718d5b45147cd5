//! Members of whom nobody asks who they are.

use std::path::Path;

use testkit::Version;

use crate::bucket::{BUCKET, Bucket};
use crate::doors::Doors;
use crate::losses::{lose_one_disk_and_then_all, lose_the_only_disk, lose_the_quorum};
use crate::pod::{Pod, Wrap};
use crate::running::Running;
use crate::truth::truth;
use crate::world::{Access, World, at_once};

#[test]
fn the_only_member_loses_its_disk_and_everything_comes_back() {
    at_once(Version::ALL, |version| {
        let mut world = World::new(1, version, Access::Open, &[]);
        let wrap = world.begin().remove(0);
        let (wrap, _) = lose_the_only_disk(&world, wrap);
        world.client().put("afterwards", "2").unwrap();
        let after = world.truth();
        world.until_sealed(after.0);
        world.require(after);
        wrap.stop();
        assert!(world.agents.remove(0).stop().success());
    });
}

/// After a restore, the revisions of a Kubernetes go on from a higher one, and nothing before it can be watched: what lives
/// shows that it is the same cluster.
#[test]
fn a_kubernetes_that_lost_its_disk_is_followed_on() {
    at_once(Version::ALL, |version| {
        let mut world = World::new(1, version, Access::Open, &[]);
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
        wrap.until("it is back from the archive", || world.reads(0, back, "value 39"));
        let client = world.client();
        let bumped = client.status().unwrap().revision;
        assert!(bumped > before.0 + 1000, "{version}: nobody who watched meets a revision twice: {bumped}");
        client.put(back, "afterwards").unwrap();
        let after = truth(&client);
        world.until_sealed(after.0);
        world.require(after);
        world.require(before);

        // Whoever comes later finds that too.
        world.agents.remove(0).kill();
        world.start_agents();
        client.put(back, "later").unwrap();
        let later = truth(&client);
        world.until_sealed(later.0);
        world.require(later);
        wrap.stop();
    });
}

#[test]
fn of_three_members_one_and_then_all_lose_their_disks() {
    at_once([Version::V34, Version::V36], |version| {
        let mut world = World::new(3, version, Access::Open, &["--rebuild-after", "1s"]);
        let mut wraps = world.begin();
        lose_one_disk_and_then_all(&mut world, &mut wraps);
    });
}

#[test]
fn a_cluster_that_lost_its_quorum_is_built_anew_by_the_member_that_is_left() {
    at_once([Version::V34, Version::V36], |version| {
        let mut world = World::new(3, version, Access::Open, &["--rebuild-after", "3s", "--set-outdated-aside"]);
        let mut wraps = world.begin();
        lose_the_quorum(&mut world, &mut wraps);
    });
}

/// Before 3.6 an etcd that is started without a quorum serves nobody, and cannot be asked anything.
#[test]
fn after_a_power_cut_the_one_machine_that_comes_back_is_a_cluster_again() {
    at_once([Version::V35, Version::V37], |version| {
        let mut world = World::new(3, version, Access::Open, &["--rebuild-after", "3s"]);
        let wraps = world.begin();
        let before = world.truth();
        wraps.into_iter().for_each(Wrap::kill);
        world.agents.drain(..).for_each(Running::kill);

        world.start_agent(0);
        world.pods[0].wrap(version).until_ended("its cluster is given up");
        let mut wrap = world.pods[0].wrap(version);
        wrap.until("it is a cluster", || world.puts("alone", "2"));
        assert!(world.reads(0, "key 3", "value 39"), "{version}");
        assert_eq!(world.client().hash_kv(before.0).unwrap().hash, before.1);
        let after = world.truth();
        world.until_sealed(after.0);
        world.require(after);
    });
}

#[test]
fn a_member_starts_while_the_store_is_away_and_what_it_was_told_is_sealed_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::new(folder.path());
    let pod = Pod::several(1, folder.path(), &Doors::Open).remove(0);
    let (reached, endpoints) = (bucket.reached(), Pod::endpoints(std::slice::from_ref(&pod)));
    let begin = || pod.agent(Path::new(BUCKET), &endpoints, &reached.each_ref().map(String::as_str));
    let client = pod.client().unwrap();

    let mut agent = begin();
    let mut wrap = pod.wrap(Version::V36);
    wrap.until("it can be written to", || client.put("before", "1").is_ok());
    agent.until_sealed(client.status().unwrap().revision);
    wrap.stop();
    assert!(agent.stop().success());

    bucket.is_away(true);
    let mut agent = begin();
    let mut wrap = pod.wrap(Version::V36);
    let reads_before = || client.get("before").is_ok_and(|found| found.is_some_and(|found| found.value == b"1"));
    wrap.until("it serves what it had", reads_before);
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
