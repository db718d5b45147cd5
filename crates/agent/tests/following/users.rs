//! Users and roles: they change without a revision, and are in fulls alone.

use agent::follow::live::Auth;
use archive::plan::Wanted;
use archive::point::At;
use etcd_data::Revision;
use tokio::time::{Instant, sleep, timeout};

use crate::time::in_its_own_time;
use crate::world::{A_MOMENT, SOON, World};

impl World {
    /// Waits until who restores the newest point has the users that the cluster has.
    async fn until_a_full_has_the_users(&self) {
        let until = Instant::now() + SOON;
        loop {
            let home = self.home().await;
            let found = home.with(|archive, home| {
                let agreed = archive.agree(&Wanted::default(), &At::Latest, &home.scratch)?;
                Ok(Auth::of(archive.open_in_place(&agreed)?.database.tables()))
            });
            let held = found.await.unwrap();
            if held == Some(self.cluster.auth()) {
                return;
            }
            assert!(Instant::now() < until, "no full has them: {held:?}");
            sleep(A_MOMENT).await;
        }
    }
}

/// Users are in fulls alone, and a full cannot be taken without the store.
#[test]
fn users_that_change_before_the_store_is_back_come_into_a_full_then() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(4).await;
        world.faulty[0].cut_off(true);
        world.kill(0).await;
        world.begin(0).await;
        world.cluster.change_users();
        world.cluster.write(5);
        let last = Revision(world.cluster.current());
        world.until_spooled(last).await;
        world.faulty[0].cut_off(false);
        world.until_a_full_has_the_users().await;
    });
}

/// It is lacking until one was taken, whatever became of the one before.
#[test]
fn users_that_change_come_into_a_full_though_the_first_one_fails() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(8).await;
        world.cluster.refuse_snapshots(1);
        world.cluster.change_users();
        world.cluster.write(5);
        world.seal(SOON).await.unwrap();
        world.until_a_full_has_the_users().await;
    });
}

/// A delta tells that they have changed, and the next agent learns from the archive that no full has them.
#[test]
fn users_that_change_come_into_a_full_though_the_agent_is_killed_before() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(9).await;
        world.cluster.refuse_snapshots(u32::MAX);
        world.cluster.change_users();
        world.cluster.write(5);
        world.seal(SOON).await.unwrap();
        world.kill(0).await;
        world.cluster.refuse_snapshots(0);
        world.begin(0).await;
        world.until_a_full_has_the_users().await;
    });
}

/// A full of the same revision may be called the same then.
#[test]
fn users_that_change_in_the_second_of_a_full_come_into_another_one() {
    in_its_own_time(|| async {
        let mut world = World::new(11);
        world.cluster.write(20);
        world.begin(0).await;
        world.seal(SOON).await.unwrap();
        world.cluster.change_users();
        world.until_a_full_has_the_users().await;
    });
}

/// That users are asked for from now on is no revision of theirs. Without it a cluster that is restored would let in anybody.
#[test]
fn that_users_are_asked_for_comes_into_a_full() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(12).await;
        world.cluster.change_users();
        world.seal(SOON).await.unwrap();
        world.until_a_full_has_the_users().await;
        world.cluster.enable_auth();
        world.until_a_full_has_the_users().await;
    });
}

#[test]
fn that_users_are_asked_for_comes_into_a_full_though_the_agent_was_away() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(13).await;
        world.kill(0).await;
        world.cluster.enable_auth();
        world.begin(0).await;
        world.until_a_full_has_the_users().await;
    });
}

/// What is delivered meanwhile makes it no better.
#[test]
fn that_no_full_can_be_taken_is_told_until_one_is() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(14).await;
        world.cluster.refuse_snapshots(u32::MAX);
        world.cluster.change_users();
        world.seal(SOON).await.unwrap();
        let mut standing = world.agents[0].as_ref().unwrap().progress.standing();
        let told = standing.wait_for(|told| told.full_trouble.is_some());
        drop(timeout(SOON, told).await.expect("it is told").unwrap());
        for _ in 0..3 {
            world.cluster.write(5);
            world.seal(SOON).await.unwrap();
            let (trouble, full) = (standing.borrow().trouble.clone(), standing.borrow().full_trouble.clone());
            assert_eq!((trouble, full.unwrap().remedy.as_deref()), (None, Some("give the user the role root")));
        }
        world.cluster.refuse_snapshots(0);
        let taken = standing.wait_for(|told| told.full_trouble.is_none());
        drop(timeout(SOON, taken).await.expect("one is taken").unwrap());
        world.until_a_full_has_the_users().await;
    });
}

#[test]
fn users_that_change_while_nobody_writes_come_into_a_full() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(10).await;
        world.kill(0).await;
        world.cluster.change_users();
        world.begin(0).await;
        world.until_a_full_has_the_users().await;
    });
}
