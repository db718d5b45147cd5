//! How a history begins in an archive.

use etcd_data::Revision;

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
