//! A chain that breaks in the store while an agent follows: a full from etcd mends it.

use std::sync::Arc;
use std::time::Duration;

use agent::home::Home;
use agent::run::Agent;
use agent::upkeep::Schedule;
use archive::Error;
use archive::error::in_one_line;
use archive::plan::Wanted;
use archive::point::At;
use archive::rebuild::BuildPoint;
use bytes::Bytes;
use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use jiff::Timestamp;
use store::{Key, Memory, Put, Store};
use tokio::time::{Instant, sleep};

use crate::compare::same;
use crate::time::in_its_own_time;
use crate::whole::{is_recoverable, reading_often, seal, stop, until_told};
use crate::world::{A_MOMENT, SOON, World};

/// What there would be another full in, if one were taken again and again.
const A_WHILE: Duration = Duration::from_secs(900);

/// What befalls an object.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Gone,
    Damaged,
}

impl Loss {
    async fn befalls(self, store: &Arc<dyn Store>, key: &Key) {
        match self {
            Self::Gone => store.delete(std::slice::from_ref(key)).await.remove(0).unwrap(),
            Self::Damaged => {
                let mut bytes = store.get(key, 0..1 << 30).await.unwrap().to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0xff;
                store.put(key, Bytes::from(bytes), &Put::default()).await.unwrap();
            }
        }
    }
}

/// What the archive has: fulls, and deltas.
async fn objects(home: &Home) -> [Vec<Key>; 2] {
    let listed = home.with(|archive, _| {
        let history = archive.catalogue().histories.last().unwrap();
        Ok([history.fulls(), history.deltas()].map(|all| all.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>()))
    });
    listed.await.unwrap()
}

async fn fulls(home: &Home) -> usize {
    objects(home).await[0].len()
}

/// How many fulls there are that were not there `before`.
async fn new_fulls(home: &Home, before: &[Key]) -> usize {
    objects(home).await[0].iter().filter(|full| !before.contains(full)).count()
}

impl World {
    /// One that has a full and some deltas.
    async fn kept(&self, schedule: Schedule, others: Vec<(Home, Schedule)>) -> Agent {
        self.cluster.write(20);
        let agent = self.begin_whole(0, schedule, others).await;
        for _ in 0..4 {
            self.cluster.write(20);
            seal(&agent).await;
        }
        agent
    }

    /// What restoring `at` gives, which is what the cluster had.
    async fn restored(&self, at: At) -> Result<Revision, Error> {
        let truth = self.cluster.truth();
        self.home().await.with(move |archive, home| same(archive, &home.scratch, &Wanted::default(), &at, &truth)).await
    }

    /// Why `revision` cannot be restored by whoever goes around damage.
    async fn why_not_restored(&self, revision: Revision) -> String {
        let home = self.home().await;
        let built = home.with(move |archive, home| {
            let hash = |point: &BuildPoint| Ok(hash_kv(&point.opened.database, Some(revision), None)?);
            let built = archive.build(&Wanted::default(), &At::Revision(revision), &home.scratch, hash);
            Ok(built.map(|_| ()).map_err(|error| in_one_line(&error)))
        });
        built.await.unwrap().expect_err("it is lost")
    }

    /// Requires that all can be restored from now on, and that one full was enough for that beside those of `before`.
    async fn require_mended(&self, agent: &Agent, before: &[Key]) {
        let (home, until) = (self.home().await, Instant::now() + SOON);
        while new_fulls(&home, before).await == 0 {
            assert!(Instant::now() < until, "no full is taken: {:#?}", agent.status.borrow());
            sleep(A_MOMENT).await;
        }
        until_told(agent, is_recoverable).await;
        sleep(A_WHILE).await;
        assert_eq!(new_fulls(&home, before).await, 1);
        assert!(is_recoverable(&agent.status.borrow()), "{:#?}", agent.status.borrow());
        assert_eq!(self.restored(At::Latest).await.unwrap(), Revision(self.cluster.current()));
        self.cluster.write(20);
        assert_eq!(seal(agent).await, Revision(self.cluster.current()));
        assert_eq!(self.restored(At::Latest).await.unwrap(), Revision(self.cluster.current()));
    }
}

/// Also where nobody writes any more. What was lost stays a hole that has a name.
#[test]
fn a_chain_that_breaks_in_the_store_is_begun_anew_while_the_agent_follows() {
    in_its_own_time(|| async {
        for (seed, loss, is_base, is_written) in [
            (20, Loss::Gone, true, false),
            (21, Loss::Gone, true, true),
            (22, Loss::Gone, false, false),
            (23, Loss::Damaged, true, true),
            (24, Loss::Damaged, false, false),
        ] {
            let world = World::new(seed);
            let agent = world.kept(reading_often(), Vec::new()).await;
            let [fulls, deltas] = objects(&world.home().await).await;
            let lost = if is_base { &fulls[0] } else { &deltas[1] };
            loss.befalls(&world.memory, lost).await;
            let last = Revision(world.cluster.current());
            // Nor does etcd have it any more.
            world.cluster.compact(0);
            if is_written {
                world.cluster.write(20);
            }
            world.require_mended(&agent, &fulls).await;
            let why = world.why_not_restored(Revision(last.0 - 1)).await;
            let is_named = why.contains("are missing") || why.contains("is before everything that can be restored");
            assert!(is_named, "{loss:?}, base {is_base}: {why}");
            stop(agent).await;
        }
    });
}

/// Nothing shows but what members answer.
#[test]
fn an_archive_that_members_contradict_is_begun_anew_while_the_agent_follows() {
    in_its_own_time(|| async {
        let often = Schedule { compare_every: Duration::from_secs(60), ..reading_often() };
        let world = World::new(30);
        let agent = world.kept(often, Vec::new()).await;
        world.cluster.lies(true);
        world.cluster.write(20);
        seal(&agent).await;
        world.cluster.lies(false);
        let [fulls, _] = objects(&world.home().await).await;
        world.require_mended(&agent, &fulls).await;
        stop(agent).await;
    });
}

/// There is nothing to mend.
#[test]
fn no_full_is_taken_because_the_store_was_away() {
    in_its_own_time(|| async {
        let world = World::new(40);
        let agent = world.kept(reading_often(), Vec::new()).await;
        world.faulty[0].cut_off(true);
        world.cluster.write(20);
        sleep(A_WHILE).await;
        world.faulty[0].cut_off(false);
        assert_eq!(seal(&agent).await, Revision(world.cluster.current()));
        until_told(&agent, is_recoverable).await;
        sleep(A_WHILE).await;
        assert_eq!(fulls(&world.home().await).await, 1);
        stop(agent).await;
    });
}

/// What is wrong there is told, and the first has everything.
#[test]
fn no_full_is_taken_because_another_place_is_damaged() {
    in_its_own_time(|| async {
        let (world, memory) = (World::new(41), Arc::new(Memory::new()) as Arc<dyn Store>);
        let home = world.home().await;
        let other = Home::at(world.site(&memory), home.cluster.clone());
        other.be_ready_to_write(Timestamp::now()).await.unwrap();
        let agent = world.kept(reading_often(), vec![(other.clone(), reading_often())]).await;
        let all = objects(&home).await;
        let until = Instant::now() + SOON;
        while memory.head(all[1].last().unwrap()).await.is_err() {
            assert!(Instant::now() < until, "it is not copied");
            sleep(A_MOMENT).await;
        }
        for key in all.iter().flatten() {
            Loss::Damaged.befalls(&memory, key).await;
        }
        until_told(&agent, |status| !status.findings.is_empty()).await;
        sleep(A_WHILE).await;
        assert!(is_recoverable(&agent.status.borrow()), "{:#?}", agent.status.borrow());
        assert_eq!(fulls(&home).await, 1);
        stop(agent).await;
    });
}
