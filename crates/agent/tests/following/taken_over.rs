//! Another one takes the right to write over.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use archive::plan::{Target, Wanted};
use archive::point::At;
use etcd_data::Revision;
use store::{Memory, Store};
use tokio::time::{advance, sleep};

use crate::cluster::Cluster;
use crate::compare::same;
use crate::time::in_its_own_time;
use crate::world::{Acknowledged, SOON, World};

/// What one agent has sealed and could not deliver, when another one had to begin anew: nobody else has it.
#[test]
fn what_was_sealed_before_another_one_took_over_comes_to_its_lineage() {
    in_its_own_time(|| async {
        let mut world = World::new(1);
        world.cluster.write(20);
        world.begin(0).await;
        world.seal(SOON).await.unwrap();
        world.faulty[0].cut_off(true);
        world.cluster.write(50);
        let (last, truth, lineage) = (Revision(world.cluster.current()), world.cluster.truth(), world.lineage_of(0));
        world.until_spooled(last).await;
        world.kill(0).await;
        world.cluster.compact(0);
        world.cluster.write(1);

        world.begin(1).await;
        world.seal(SOON).await.unwrap();
        assert_ne!(world.lineage_of(1), lineage);
        world.stop(1).await;

        world.faulty[0].cut_off(false);
        world.begin(0).await;
        world.cluster.write(1);
        world.seal(SOON).await.unwrap();
        let home = world.home().await;
        let found = home.with(move |archive, home| {
            let wanted = Wanted { lineage: Some(lineage), target: Target::Latest };
            same(archive, &home.scratch, &wanted, &At::Revision(last), &truth)
        });
        assert_eq!(found.await.unwrap(), last);
    });
}

#[test]
fn what_is_captured_without_the_right_is_set_aside_where_another_one_has_written() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(5).await;
        world.faulty[0].cut_off(true);
        world.kill(0).await;
        world.begin(0).await;
        world.cluster.write(20);
        world.until_spooled(Revision(world.cluster.current())).await;

        world.begin(1).await;
        world.cluster.write(20);
        world.seal(SOON).await.unwrap();
        world.kill(1).await;
        world.cluster.write(20);
        world.until_spooled(Revision(world.cluster.current())).await;

        world.heal().await;
        assert!(!world.set_aside().is_empty(), "what was captured by a right that is over");
        world.compare().await;
    });
}

/// A machine is suspended with deltas that are not delivered yet, and wakes when another one has long been writing and is gone.
/// Only a request that was under way may still arrive then by the right that it had, and that counts for nothing.
#[test]
fn who_was_suspended_for_an_hour_goes_on_by_another_right() {
    const HOUR: Duration = Duration::from_secs(3600);
    let began = std::time::Instant::now();
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let cluster = Cluster::new(15);
    let machine = |seed| World::beside(Arc::clone(&cluster), Arc::clone(&memory), seed);
    let (suspends, is_suspended) = channel::<()>();
    let (wakes, is_woken) = channel::<Vec<Acknowledged>>();
    thread::scope(|scope| {
        let first = move || async move {
            let mut world = machine(15).after_a_delta().await;
            let (lineage, right) = (world.lineage_of(0), world.epoch_of(0));
            let reached = Revision(world.cluster.current());
            world.faulty[0].cut_off(true);
            for _ in 0..3 {
                world.cluster.write(10);
                world.until_spooled(Revision(world.cluster.current())).await;
            }

            // Nothing goes on here, and then all is due at once.
            world.faulty[0].cut_off(false);
            suspends.send(()).unwrap();
            world.acknowledged.extend(is_woken.recv_timeout(HOUR / 10).unwrap());
            advance(HOUR).await;

            world.cluster.write(5);
            assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
            assert_eq!(world.lineage_of(0), lineage, "the other one went on with it, and so does this one");
            let rights = world.rights_after(reached).await;
            assert!(rights.iter().filter(|by| **by == right).count() <= 1, "{right}: {rights:?}");
            assert!(world.epoch_of(0) > right);
            world.heal().await;
            world.compare().await;
        };
        let first = scope.spawn(|| in_its_own_time(first));
        is_suspended.recv_timeout(HOUR / 10).unwrap();
        let acknowledged = in_its_own_time(|| async {
            let mut world = machine(16);
            world.begin(1).await;
            for _ in 0..12 {
                world.cluster.write(5);
                world.seal(SOON).await.unwrap();
                sleep(HOUR / 12).await;
            }
            world.kill(1).await;
            std::mem::take(&mut world.acknowledged)
        });
        wakes.send(acknowledged).unwrap();
        first.join().unwrap();
    });
    assert!(began.elapsed() < HOUR / 10, "{:?}", began.elapsed());
}
