//! How a history begins in an archive.

use std::sync::Arc;

use agent::follow::progress::Doing;
use etcd_data::Revision;
use testkit::faulty_store::{Faults, FaultyStore};
use tokio::time::{sleep, timeout};

use crate::cluster::Whims;
use crate::time::in_its_own_time;
use crate::world::{A_MOMENT, SOON, World};

/// A world whose first agent waits for the snapshot that everything begins with.
async fn waiting_for_a_snapshot(seed: u64) -> World {
    let mut world = World::new(seed);
    world.faulty[0] = Arc::new(FaultyStore::new(Arc::clone(&world.memory), Faults::NONE, seed));
    world.cluster.write(20);
    begin_with_a_slow_snapshot(&mut world).await;
    world
}

/// Starts the first agent, and waits until it waits for a snapshot.
async fn begin_with_a_slow_snapshot(world: &mut World) {
    world.cluster.whims(Whims { slow_snapshots: 1000, ..Whims::default() });
    world.begin(0).await;
    while world.cluster.mishaps().slow_snapshots == 0 {
        sleep(A_MOMENT).await;
    }
}

/// etcd compacts every few minutes, and a large snapshot may be on its way for longer. What comes meanwhile is captured, so that no
/// other one has to be taken, which would be overtaken again.
#[test]
fn what_comes_while_the_first_full_is_taken_is_captured_though_etcd_compacts_it() {
    in_its_own_time(|| async {
        let mut world = waiting_for_a_snapshot(16).await;
        for _ in 0..5 {
            world.cluster.write(10);
            world.until_spooled(Revision(world.cluster.current())).await;
            world.cluster.compact(1);
        }
        let standing = world.agents[0].as_ref().unwrap().progress.standing();
        assert_eq!((standing.borrow().doing, standing.borrow().sealed), (Doing::TakingFull, None));
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        assert_eq!(standing.borrow().doing, Doing::Following);
        assert_eq!(world.cluster.asked_for_snapshots().len(), 1);
        world.require_all_in_one_history().await;
    });
}

/// It follows on a full that nobody will ever have. etcd is asked for another one, and nobody has to look at what is left.
#[test]
fn what_was_captured_for_a_full_that_never_came_is_forgotten() {
    in_its_own_time(|| async {
        for is_another_before in [false, true] {
            let mut world = match is_another_before {
                // The archive ends with another history.
                true => {
                    let mut world = World::with_a_delta(17).await;
                    world.kill(0).await;
                    world.cluster.restore_to(5, true, 0);
                    world.cluster.write(40);
                    begin_with_a_slow_snapshot(&mut world).await;
                    world
                }
                false => waiting_for_a_snapshot(17).await,
            };
            world.cluster.write(10);
            let captured = Revision(world.cluster.current());
            world.until_spooled(captured).await;
            world.kill(0).await;
            world.cluster.whims(Whims::default());

            world.begin(0).await;
            world.cluster.write(1);
            assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
            assert_eq!(world.set_aside(), Vec::<String>::new());
            world.stop(0).await;
            world.compare().await;
        }
    });
}

/// Whoever opens the archive reads where each lineage came from, and a member that gives no snapshot is asked again and again.
#[test]
fn a_lineage_that_cannot_begin_is_not_left_behind() {
    in_its_own_time(|| async {
        let mut world = World::new(14);
        world.cluster.write(20);
        world.cluster.refuse_snapshots(8);
        world.begin(0).await;
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        let home = world.home().await;
        let lineages = home.with(|archive, _| Ok(archive.catalogue().histories.len()));
        // One that the store did not take may leave its lineage; those that were refused may not.
        let lineages = lineages.await.unwrap();
        assert!(lineages < 5, "{lineages}");
    });
}

/// Beginning looks at every object that leads to the end of the archive, and one request that fails ends the look. What was read
/// by then is not asked for again: or else there would hardly ever be a look that none of so many fails in.
#[test]
fn where_every_fifth_request_fails_a_beginning_ends_after_a_few_tries() {
    const DELTAS: usize = 60;
    in_its_own_time(|| async {
        let mut world = World::new(15);
        let failing = |world: &World, failure| {
            let faults = Faults { failure, ..Faults::NONE };
            Arc::new(FaultyStore::new(Arc::clone(&world.memory), faults, 15))
        };
        world.faulty[0] = failing(&world, 0.0);
        world.cluster.write(20);
        world.begin(0).await;
        for _ in 0..=DELTAS {
            world.seal(SOON).await.unwrap();
            world.cluster.write(2);
        }
        let lineage = world.lineage_of(0);
        world.kill(0).await;
        let home = world.home().await;
        let objects = home.with(|archive, _| Ok(archive.catalogue().entries().count())).await.unwrap();
        assert!(objects >= DELTAS, "{objects}");

        world.faulty[0] = failing(&world, 0.2);
        // Nobody tries the same request again: a try at beginning fails with it.
        world.patience.spare_tries = 0;
        world.begin(0).await;
        let mut standing = world.agents[0].as_ref().unwrap().progress.standing();
        let begins = standing.wait_for(|told| told.doing == Doing::Following);
        let has_begun = matches!(timeout(SOON, begins).await, Ok(Ok(_)));
        let asked = world.faulty[0].injected().requests;
        assert!(has_begun, "it has not begun after {asked} requests for {objects} objects");
        assert!(asked < 40 * objects as u64, "{asked} requests for {objects} objects");
        assert_eq!(world.lineage_of(0), lineage);
    });
}
