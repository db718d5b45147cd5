//! Following while the store is away.

use std::time::Duration;

use etcd_data::Revision;
use tokio::time::{Instant, sleep};

use crate::time::in_its_own_time;
use crate::world::{SOON, World};

/// It goes on where it was, by what its spool tells: what etcd compacts before the store is back is seen all the same.
#[test]
fn what_is_captured_before_the_store_is_back_follows_on_the_archive() {
    in_its_own_time(|| async {
        for (undelivered, is_encrypted) in [(0, false), (30, false), (0, true), (30, true)] {
            let world = World::new(3);
            let mut world = if is_encrypted { world.encrypted() } else { world }.after_a_delta().await;
            let lineage = world.lineage_of(0);
            world.faulty[0].cut_off(true);
            if undelivered > 0 {
                world.cluster.write(undelivered);
                world.until_spooled(Revision(world.cluster.current())).await;
            }
            world.kill(0).await;

            world.begin(0).await;
            for _ in 0..3 {
                world.cluster.write(20);
                world.until_spooled(Revision(world.cluster.current())).await;
                world.cluster.compact(1);
            }
            world.faulty[0].cut_off(false);
            world.cluster.write(1);
            world.seal(SOON).await.unwrap();
            assert_eq!(world.lineage_of(0), lineage, "{undelivered}, encrypted {is_encrypted}: the history goes on");
            world.require_all_in_one_history().await;
        }
    });
}

/// What is seen waits on this machine, however long that takes, and etcd need not have it any more.
#[test]
fn a_store_that_is_away_for_half_an_hour_gets_everything_when_it_is_back() {
    const AWAY: Duration = Duration::from_secs(30 * 60);
    let began = std::time::Instant::now();
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(13).await;
        let (lineage, left) = (world.lineage_of(0), Instant::now());
        world.faulty[0].cut_off(true);
        while left.elapsed() < AWAY {
            world.cluster.write(2);
            sleep(Duration::from_secs(60)).await;
            world.cluster.compact(10);
        }
        world.faulty[0].cut_off(false);
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        assert_eq!(world.lineage_of(0), lineage);
        world.require_all_in_one_history().await;
    });
    assert!(began.elapsed() < AWAY / 10, "{:?}", began.elapsed());
}
