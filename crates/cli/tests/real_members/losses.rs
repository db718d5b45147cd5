//! What members lose, and what has to be there afterwards.

use crate::pod::Wrap;
use crate::running::Running;
use crate::world::{World, is_there};

/// The only member is stopped, and then loses its disk. Gives what runs then, and all that it had.
pub(crate) fn lose_the_only_disk(world: &World, mut wrap: Wrap) -> (Wrap, (i64, u32)) {
    let (version, before) = (world.version, world.truth());
    // A stop that was asked for: its directory is kept.
    wrap.stop();
    wrap = world.pods[0].wrap(version);
    wrap.until("it is back", || world.reads(0, "key 3", "value 39"));
    assert_eq!(world.truth(), before, "{version}");

    wrap.kill();
    world.pods[0].lose_disk();
    let mut wrap = world.pods[0].wrap(version);
    wrap.until("it is back from the archive", || world.reads(0, "key 3", "value 39"));
    assert!(is_there(&world.pods[0].data()));
    assert_eq!(world.truth(), before, "{version}");
    (wrap, before)
}

/// Of three members one loses its disk, and then all do. They are well afterwards.
pub(crate) fn lose_one_disk_and_then_all(world: &mut World, wraps: &mut Vec<Wrap>) {
    let version = world.version;
    // One: it joins again as a learner, and whoever writes gives it its vote.
    wraps.remove(1).kill();
    world.pods[1].lose_disk();
    wraps[0].until("the others have a leader", || world.puts("while it is away", "2"));
    let mut wrap = world.pods[1].wrap(version);
    wrap.until("it has a vote and what it missed", || world.reads(1, "while it is away", "2"));
    wraps.insert(1, wrap);
    let before = world.truth();
    world.until_sealed(before.0);
    world.require(before);

    // All, and the agents end too: the first by name brings the cluster back, and the others join.
    for ((wrap, pod), agent) in wraps.drain(..).zip(&world.pods).zip(world.agents.drain(..)) {
        wrap.kill();
        agent.kill();
        pod.lose_disk();
    }
    world.start_agents();
    wraps.extend(world.wrap_all());
    for (number, wrap) in wraps.iter_mut().enumerate() {
        wrap.until("it has a vote and everything", || world.reads(number, "while it is away", "2"));
    }
    assert_eq!(world.truth(), before, "{version}");
    wraps[0].until("it is written to", || world.puts("afterwards", "3"));
    let after = world.truth();
    world.until_sealed(after.0);
    world.require(after);
    world.require(before);
}

/// Two of three machines are gone. The member that is left runs, and is no cluster: it becomes one, with all that it has, and
/// those that come back with what they had join it.
pub(crate) fn lose_the_quorum(world: &mut World, wraps: &mut Vec<Wrap>) {
    let (version, before) = (world.version, world.truth());
    world.until_sealed(before.0);

    wraps.pop().unwrap().kill();
    wraps[0].until("two of three have a leader", || world.puts("with two of three", "2"));
    wraps.pop().unwrap().kill();
    let wrap = wraps.pop().unwrap();
    world.agents.drain(1..).for_each(Running::kill);
    wrap.until_ended("its cluster is given up");
    let mut wrap = world.pods[0].wrap(version);
    wrap.until("it is a cluster", || world.puts("alone", "3"));
    assert!(world.reads(0, "with two of three", "2"), "{version}");
    assert_eq!(world.client().member_list().unwrap().len(), 1);
    assert_eq!(world.client().hash_kv(before.0).unwrap().hash, before.1);
    wraps.push(wrap);

    world.start_agents_from(1);
    for (number, pod) in world.pods.iter().enumerate().skip(1) {
        let mut wrap = pod.wrap(version);
        wrap.until("it has a vote and everything", || world.reads(number, "alone", "3"));
        wraps.push(wrap);
    }
    wraps[0].until("it is written to", || world.puts("afterwards", "4"));
    let after = world.truth();
    world.until_sealed(after.0);
    world.require(after);
    world.require(before);
}
