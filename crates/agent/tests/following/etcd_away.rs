//! Following while the cluster, or a member of it, says nothing.

use agent::follow::order::Order;
use agent::follow::progress::Doing;
use etcd_data::Revision;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cluster::Whims;
use crate::time::in_its_own_time;
use crate::world::{SOON, World};

#[test]
fn while_nobody_answers_it_waits_and_refuses_what_is_asked_for() {
    in_its_own_time(|| async {
        let mut world = World::new(1);
        world.cluster.write(1);
        world.begin(0).await;
        world.seal(SOON).await.unwrap();
        world.cluster.goes_away(true);
        let running = world.agents[0].as_ref().unwrap();
        let mut standing = running.progress.standing();
        let waiting = standing.wait_for(|told| told.doing == Doing::WaitingForEtcd);
        drop(timeout(SOON, waiting).await.unwrap().unwrap());
        let (asked, answer) = oneshot::channel();
        running.orders.send(Order(asked)).await.unwrap();
        let refused = timeout(SOON, answer).await.unwrap().unwrap().unwrap_err();
        assert!(refused.to_string().contains("does not answer"), "{refused}");
        world.cluster.goes_away(false);
        let following = standing.wait_for(|told| told.doing == Doing::Following && told.trouble.is_none());
        drop(timeout(SOON, following).await.unwrap().unwrap());
    });
}

#[test]
fn a_member_that_says_nothing_at_all_is_left_for_another() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(5).await;
        let mut standing = world.agents[0].as_ref().unwrap().progress.standing();
        let silent = standing.borrow().member.clone();
        world.cluster.whims(Whims { mutes: 1000, ..Whims::default() });
        let left = standing.wait_for(|told| told.member.is_some() && told.member != silent);
        drop(timeout(SOON, left).await.unwrap().unwrap());
        world.cluster.whims(Whims::default());
        world.cluster.write(5);
        assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
    });
}
