//! Members with damaged disks, and machines without room: a base comes from whom it can, and nobody reads all of etcd in vain
//! over and over.

use std::time::Duration;

use agent::follow::progress::Standing;
use etcd_data::Revision;
use tokio::time::sleep;

use crate::time::in_its_own_time;
use crate::world::{SOON, World};

fn standing(world: &World) -> Standing {
    world.agents[0].as_ref().unwrap().progress.standing().borrow().clone()
}

/// The second is the best of three that are well: the first is the leader.
#[test]
fn where_one_member_has_a_damaged_disk_a_base_comes_from_another_and_it_is_told() {
    in_its_own_time(|| async {
        let mut world = World::new(21);
        world.cluster.damage(&[2]);
        world.cluster.write(20);
        world.begin(0).await;
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        let told = standing(&world).distrusted;
        assert_eq!(told.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(told[&2].why.called, "m2");
        let asked = world.cluster.asked_for_snapshots();
        assert!(asked.contains(&3) && !asked.contains(&1), "{asked:?}");

        // Nor is it asked for the next ones.
        world.cluster.change_users();
        world.cluster.write(1);
        let asked_again = async {
            while world.cluster.asked_for_snapshots().len() == asked.len() {
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(SOON, asked_again).await.unwrap();
        let asked = world.cluster.asked_for_snapshots();
        assert_eq!(asked.iter().filter(|asked| **asked == 2).count(), 1, "{asked:?}");
        assert_eq!(asked.last(), Some(&3));
    });
}

/// What a member gave is not held against it for ever.
#[test]
fn where_all_are_damaged_each_is_asked_again_but_seldom() {
    in_its_own_time(|| async {
        let mut world = World::new(22);
        world.cluster.damage(&[1, 2, 3]);
        world.cluster.write(20);
        world.begin(0).await;
        sleep(Duration::from_secs(3600)).await;
        let told = standing(&world);
        assert_eq!(told.distrusted.len(), 3);
        assert!(told.trouble.is_some_and(|trouble| trouble.remedy.is_some()));
        let asked = world.cluster.asked_for_snapshots();
        for member in 1..=3 {
            let times = asked.iter().filter(|asked| **asked == member).count();
            // Each pause is twice as long as the last, up to five minutes.
            assert!((8..30).contains(&times), "{member} was asked {times} times in an hour");
        }

        world.cluster.damage(&[1, 3]);
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        let left: Vec<u64> = standing(&world).distrusted.into_keys().collect();
        assert_eq!(left, [1, 3]);
    });
}

#[test]
fn what_there_is_no_room_for_is_not_asked_for() {
    in_its_own_time(|| async {
        let mut world = World::new(23);
        world.cluster.say_size(1 << 60);
        world.cluster.write(20);
        world.begin(0).await;
        sleep(Duration::from_secs(600)).await;
        assert!(world.cluster.asked_for_snapshots().is_empty());
        let trouble = standing(&world).trouble.unwrap();
        assert!(trouble.what.contains("a snapshot takes 1152921504606846976"), "{}", trouble.what);
        assert!(trouble.remedy.is_some_and(|remedy| remedy.contains("--scratch")));

        world.cluster.say_size(1 << 10);
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
    });
}
