//! A place that keeps everything, so that nothing in it can be replaced; and one that is told to keep what lasts.

use std::sync::Arc;
use std::time::Duration;

use archive::Policy;
use archive::check::{CheckPlan, Checking, Choice};
use archive::merge::plan::MergePolicy;
use archive::name::Name;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use store::{Listing, Memory, Retaining, Store, list_all};
use testkit::KeepingStore;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::time::in_its_own_time;
use crate::world::{SOON, World};

const QUARTER: Duration = Duration::from_secs(900);

impl World {
    /// The numbers of the claims that are only created.
    async fn claims(&self) -> Vec<u64> {
        let listed = self.memory.list(&Listing::below("prod/writer")).await.unwrap().objects;
        let names = listed.iter().map(|info| Name::parse(info.key.as_str().strip_prefix("prod/").unwrap()));
        names
            .map(|name| match name {
                Some(Name::Claim(number)) => number,
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

#[test]
fn where_nothing_is_replaced_it_is_followed_into_all_the_same_and_another_one_takes_over() {
    in_its_own_time(|| async {
        let place = Arc::new(KeepingStore::of(Arc::new(Memory::new()), SignedDuration::from_hours(24)));
        let mut world = World::beside(Cluster::new(21), Arc::clone(&place) as _, 21).after_a_delta().await;
        for _ in 0..4 {
            sleep(QUARTER).await;
            world.cluster.write(20);
            assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        }
        // For a while as everywhere, and then every five minutes; some requests fail.
        let claims = world.claims().await;
        assert!((8..=24).contains(&claims.len()), "{claims:?}");
        assert_eq!(claims, (0..claims.len() as u64).collect::<Vec<_>>());

        let (epoch, lineage) = (world.epoch_of(0), world.lineage_of(0));
        world.kill(0).await;
        world.begin(1).await;
        world.cluster.write(20);
        let reached = world.seal(2 * SOON).await;
        assert_eq!(reached, Some(Revision(world.cluster.current())));
        assert!(world.epoch_of(1) > epoch, "{} after {epoch}", world.epoch_of(1));
        assert_eq!(world.lineage_of(1), lineage);
        world.stop(1).await;
        world.begin(0).await;
        world.cluster.write(20);
        assert_eq!(world.seal(2 * SOON).await, Some(Revision(world.cluster.current())));

        // What is merged is written, and what is old stays until the place lets it go.
        let home = world.home().await;
        let late = Timestamp::now() + SignedDuration::from_hours(1000);
        let made = home.with(move |archive, home| {
            let mut made = 0;
            let policy = MergePolicy { windows: vec![SignedDuration::from_secs(1)], ..MergePolicy::default() };
            archive.merge_due(&policy, &home.writing(late)?, |_, merged| made += usize::from(merged.is_ok()))?;
            Ok(made)
        });
        assert!(made.await.unwrap() > 0);
        let prune = || async {
            let pruned = home.with(move |archive, home| {
                let plan = archive.plan_prune(&Policy::default(), late, &home.scratch)?;
                Ok((plan.claims.len(), archive.prune(&plan, &Policy::default(), late)?))
            });
            pruned.await.unwrap()
        };
        let there = world.claims().await;
        let (old, pruned) = prune().await;
        assert_eq!((old, pruned.claims), (there.len() - 2, 0), "{pruned:?}");
        assert!(pruned.claims_failed.is_none(), "{pruned:?}");
        place.keep_for(None);
        let (old, pruned) = prune().await;
        assert_eq!(pruned.claims, old, "{pruned:?}");
        assert_eq!(world.claims().await, [there[0], there[there.len() - 1]]);

        world.cluster.write(20);
        assert!(world.seal(SOON).await.is_some());
        world.compare().await;
    });
}

/// What small deltas were merged into, and what goes as soon as it may, are asked for each hour: nothing is tried that would fail.
#[test]
fn what_is_told_to_be_kept_stays_without_a_word_of_failure_and_claims_are_replaced_as_ever() {
    in_its_own_time(|| async {
        let late = Timestamp::now() + SignedDuration::from_hours(1000);
        let kept_for = 2 * late.duration_since(Timestamp::now()).unsigned_abs();
        let place = Arc::new(Retaining::new(Arc::new(Memory::new()), kept_for).unwrap());
        let mut world = World::beside(Cluster::new(22), Arc::clone(&place) as _, 22).after_a_delta().await;
        for _ in 0..4 {
            sleep(QUARTER).await;
            world.cluster.write(20);
            assert_eq!(world.seal(SOON).await, Some(Revision(world.cluster.current())));
        }
        assert!(world.claims().await.is_empty(), "it was gone on with by creating claims");

        let home = world.home().await;
        let merging = home.with(move |archive, home| {
            let policy = MergePolicy { windows: vec![SignedDuration::from_secs(1)], ..MergePolicy::default() };
            let mut made = 0;
            archive.merge_due(&policy, &home.writing(late)?, |_, merged| made += usize::from(merged.is_ok()))?;
            Ok(made)
        });
        assert!(merging.await.unwrap() > 0);
        let checking = home.with(|archive, home| {
            let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
            let (recorded, record) = (&archive.proven()?, Some(Timestamp::now()));
            archive
                .check(&plan, &Checking { recorded, anchors: None, scratch: &home.scratch, record, tell: &|_, _| {} })
        });
        assert!(checking.await.unwrap().objects.len() > 5);
        let pruning = home.with(move |archive, home| {
            let plan = archive.plan_prune(&Policy::default(), late, &home.scratch)?;
            let shown = plan.retention.to_string();
            Ok((shown, archive.prune(&plan, &Policy::default(), late)?))
        });
        let (shown, pruned) = pruning.await.unwrap();
        assert!(shown.contains("as the store keeps it until"), "{shown}");
        assert!(pruned.objects.is_empty() && pruned.claims_failed.is_none(), "{pruned:?}");

        let objects = list_all(&*place, Listing::below("prod")).await.unwrap();
        let mut unkept: Vec<String> = Vec::new();
        for info in objects {
            if place.retention(&info.key).await.unwrap().is_none() {
                unkept.push(info.key.to_string());
            }
        }
        unkept.retain(|key| !key.contains("/proof/"));
        assert_eq!(unkept, ["prod/writer.json"]);
        world.compare().await;
    });
}
