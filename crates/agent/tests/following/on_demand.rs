//! Fulls that somebody asks the agent for.

use std::sync::Arc;

use agent::http::published::{NoSnapshot, Snapshots};
use agent::metrics::Metrics;
use agent::pen::Right;
use agent::sidecar::Sidecar;
use api::status::{Agent, Cluster, Status};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::time::in_its_own_time;
use crate::world::{SOON, World};

async fn sidecar(world: &World) -> Sidecar {
    let running = world.agents[0].as_ref().unwrap();
    let about = Agent { name: "a".into(), version: "0".into(), began: Timestamp::UNIX_EPOCH };
    let status = Arc::new(Status::beginning(about, Cluster::default()));
    Sidecar {
        home: world.home().await,
        others: Vec::new(),
        orders: running.orders.clone(),
        status: watch::Sender::new(status).subscribe(),
        standing: running.progress.standing(),
        right: watch::Sender::new(Right::Unknown).subscribe(),
        merged: running.merged.clone(),
        metrics: Arc::new(Metrics::new()),
    }
}

/// Somebody has removed a delta in between: what leads to what is sealed now is there no more.
#[test]
fn a_full_that_is_asked_for_reaches_what_was_sealed_or_it_is_told_why_there_is_none() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(26).await;
        let sidecar = sidecar(&world).await;
        world.cluster.write(5);
        let full = sidecar.full(false).await.unwrap();
        assert_eq!(full.last_revision, world.cluster.current());
        // Nothing has changed since: it is the answer again.
        assert_eq!(sidecar.full(true).await.unwrap().snap_name, full.snap_name);

        for _ in 0..3 {
            world.cluster.write(5);
            world.seal(SOON).await.unwrap();
        }
        let after = |last: i64| {
            move |archive: &archive::archive::Archive| {
                let mut later: Vec<_> = archive.catalogue().entries().filter(|entry| !entry.is_full()).collect();
                later.retain(|entry| entry.changes().is_some_and(|range| range.from.0 > last));
                later.sort_by_key(|entry| entry.to);
                later.into_iter().map(|entry| entry.key.clone()).next()
            }
        };
        let lost = sidecar.home.with(move |archive, _| Ok(after(full.last_revision)(archive))).await.unwrap().unwrap();
        world.memory.delete(std::slice::from_ref(&lost)).await.remove(0).unwrap();
        let Err(NoSnapshot::Failed(why)) = sidecar.full(false).await else { panic!("there is a hole") };
        let current = world.cluster.current();
        assert!(why.starts_with(&format!("{current} is sealed, and no full can be made of it: ")), "{why}");
        assert!(why.contains(&full.last_revision.to_string()), "where the hole begins: {why}");
    });
}

#[test]
fn of_many_who_ask_for_a_full_at_once_one_makes_it_and_no_sooner_than_it_is_its_turn() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(27).await;
        world.cluster.write(5);
        world.seal(SOON).await.unwrap();
        let sidecar = sidecar(&world).await;
        let upkeep = sidecar.merged.turn().await;
        let mut asked = join_all((0..8).map(|_| sidecar.full(false)));
        let far = std::time::Duration::from_secs(60);
        assert!(tokio::time::timeout(far, &mut asked).await.is_err(), "somebody else is merging");
        drop(upkeep);
        let fulls: Vec<_> = asked.await.into_iter().map(Result::unwrap).collect();
        assert!(fulls.iter().all(|full| full.last_revision == world.cluster.current()), "{fulls:?}");
        let counted = sidecar.metrics();
        let made = r#"etcdbr_snapshot_duration_seconds_count{kind="Full",succeeded="true"} 1"#;
        assert!(counted.lines().any(|line| line == made), "{counted}");
    });
}
