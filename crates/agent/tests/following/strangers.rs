//! Who has no business with the archive.

use std::sync::Arc;

use agent::backup::BackupPlan;
use agent::follow::resume::{ForeignCluster, ResumeError};
use agent::follow::session::SessionError;
use etcd_data::Revision;
use store::Key;
use tokio::time::timeout;

use crate::cluster::{Cluster, Scripted};
use crate::time::in_its_own_time;
use crate::world::{SOON, World};

/// One that can never write lays the right down again, and another one takes it.
#[test]
fn who_is_beside_another_cluster_or_is_refused_leaves_the_archive_to_its_own() {
    in_its_own_time(|| async {
        for (is_refused, why, remedy) in
            [(false, "another cluster", "--replaces"), (true, "permission denied", "the role root")]
        {
            let mut world = World::with_a_delta(11).await;
            let lineage = world.lineage_of(0);
            world.kill(0).await;
            let own = std::mem::replace(&mut world.cluster, Cluster::new(99));
            world.cluster.write(100);
            if is_refused {
                world.cluster.refuse();
            }
            world.begin(1).await;
            let mut standing = world.agents[1].as_ref().unwrap().progress.standing();
            let told =
                standing.wait_for(|told| told.trouble.as_ref().is_some_and(|trouble| trouble.what.contains(why)));
            let told = timeout(SOON, told).await.unwrap().unwrap().trouble.clone().unwrap();
            assert!(told.remedy.as_ref().is_some_and(|told| told.contains(remedy)), "{told:?}");

            world.cluster = own;
            world.begin(0).await;
            world.cluster.write(5);
            assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())), "{why}");
            assert_eq!(world.lineage_of(0), lineage, "{why}");
        }
    });
}

#[test]
fn a_backup_of_another_cluster_leaves_the_right_to_write_as_it_is() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(12).await;
        world.stop(0).await;
        let claim = Key::parse("prod/writer.json").unwrap();
        let before = world.memory.get(&claim, 0..1 << 20).await.unwrap();
        let stranger = Cluster::new(99);
        stranger.write(100);
        let plan = BackupPlan {
            live: Arc::new(Scripted(stranger)),
            home: world.home().await,
            holder: "a backup".into(),
            patience: SOON,
            gone: None,
            foreign: ForeignCluster::Refuse,
        };
        let refused = plan.back_up().await.unwrap_err();
        assert!(matches!(refused, SessionError::Resume(ResumeError::Stranger { .. })), "{refused}");
        assert_eq!(world.memory.get(&claim, 0..1 << 20).await.unwrap(), before);
    });
}
