//! Following while the cluster, or a member of it, says nothing.

use agent::follow::order::Order;
use agent::follow::progress::Doing;
use api::status::{CaptureState, Health, Status};
use etcd_data::Revision;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cluster::Whims;
use crate::time::in_its_own_time;
use crate::whole::{reading_often, stop, until_told};
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

/// Whoever writes, and whoever stands by.
#[test]
fn members_that_are_dead_are_told_to_be_by_every_agent() {
    in_its_own_time(|| async {
        let world = World::new(6);
        world.cluster.write(1);
        let mut agents = [0, 1].map(|_| None);
        for which in 0..2 {
            let agent = world.begin_whole(which, reading_often(), Vec::new()).await;
            let state = [CaptureState::Following, CaptureState::StandingBy][which];
            until_told(&agent, |status| status.capture.state == state && !status.members.is_empty()).await;
            agents[which] = Some(agent);
        }
        world.cluster.goes_away(true);
        for agent in agents.iter().flatten() {
            let are_dead = |status: &Status| status.members.iter().all(|member| member.health == Health::Failing);
            let told = until_told(agent, are_dead).await;
            assert_eq!(told.members.len(), 3);
            let text = agent.metrics.render(&told);
            assert_eq!(text.matches("\nrefloat_member_healthy{").count(), 3, "{text}");
            assert!(text.contains("\nrefloat_member_healthy{member=\"m1\"} 0.0\n"), "{text}");
        }
        world.cluster.goes_away(false);
        for agent in agents.iter().flatten() {
            until_told(agent, |status| status.members.iter().all(|member| member.health == Health::Healthy)).await;
        }
        for agent in agents.into_iter().flatten() {
            stop(agent).await;
        }
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
