//! A machine that is set back to an earlier state of itself.

use etcd_data::Revision;

use crate::spooled::copy;
use crate::time::in_its_own_time;
use crate::world::{SOON, World};

/// A machine that is set back has an earlier etcd and an earlier spool, and both go on from there a second time.
#[test]
fn what_a_machine_captures_that_was_set_back_does_not_come_into_the_history_that_it_left() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(7).await;
        world.kill(0).await;
        let (back, spools) = (world.cluster.current(), world.folder.path().to_owned());
        copy(&spools.join("spool-0"), &spools.join("earlier"));
        world.begin(0).await;
        world.cluster.write(30);
        world.seal(SOON).await.unwrap();
        let left = world.lineage_of(0);
        world.kill(0).await;

        world.faulty[0].cut_off(true);
        world.cluster.restore_to(back, false, 0);
        std::fs::remove_dir_all(spools.join("spool-0")).unwrap();
        std::fs::rename(spools.join("earlier"), spools.join("spool-0")).unwrap();
        world.begin(0).await;
        for _ in 0..4 {
            world.cluster.write(15);
            world.until_spooled(Revision(world.cluster.current())).await;
        }
        world.heal().await;
        assert!(!world.set_aside().is_empty(), "what is of another history");
        assert_ne!(world.acknowledged.last().unwrap().0, left, "it is another history");
        world.compare().await;
    });
}
