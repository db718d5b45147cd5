//! Fulls that somebody takes now.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent::backup::{Backup, BackupPlan};
use agent::follow::resume::ForeignCluster;

use crate::cluster::Scripted;
use crate::time::in_its_own_time;
use crate::world::{SOON, World};

async fn back_up(world: &World) -> Backup {
    let plan = BackupPlan {
        live: Arc::new(Scripted(Arc::clone(&world.cluster))),
        home: world.home().await,
        holder: "a backup".into(),
        patience: SOON,
        gone: None,
        foreign: ForeignCluster::Refuse,
    };
    plan.back_up().await.unwrap()
}

/// Several of them are taken within a second, and that second is in their names.
#[test]
fn each_backup_of_one_revision_proves_just_the_full_that_it_took() {
    in_its_own_time(|| async {
        let world = World::new(24);
        world.cluster.write(20);
        let mut keys = BTreeSet::new();
        for _ in 0..6 {
            let backup = back_up(&world).await;
            assert!(backup.size_bytes > 0, "{backup:?}");
            assert!(keys.insert(backup.key.clone()), "{} was told before", backup.key);
            let digest = world.home().await.with(move |archive, _| archive.digest_at(&backup.key)).await;
            digest.unwrap();
        }
    });
}

#[test]
fn a_backup_is_taken_of_a_member_that_is_well_and_tells_of_one_that_is_not() {
    in_its_own_time(|| async {
        let world = World::new(25);
        world.cluster.damage(&[2]);
        world.cluster.write(20);
        let backup = back_up(&world).await;
        assert!(backup.size_bytes > 0, "{backup:?}");
        assert_eq!(world.cluster.asked_for_snapshots(), [2, 3]);
        let [told] = &backup.of_members[..] else { panic!("{backup:?}") };
        assert!(told.starts_with("the snapshot of m2 is not sound: "), "{told}");
    });
}
