//! How a history begins in an archive.

use std::sync::Arc;

use agent::follow::progress::Doing;
use etcd_data::Revision;
use testkit::faulty_store::{Faults, FaultyStore};
use tokio::time::timeout;

use crate::time::in_its_own_time;
use crate::world::{SOON, World};

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
        assert!(asked < 10 * objects as u64, "{asked} requests for {objects} objects");
        assert_eq!(world.lineage_of(0), lineage);
    });
}
