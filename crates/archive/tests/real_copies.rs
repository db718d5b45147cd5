//! Archives copied to a real S3 server and between two places of it, and pruned there and at others.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "own_archives/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archive::copy::Outcome;
use archive::copy::plan::Selection;
use archive::fence::{Candidate, Fence, Gate, Instance, Terms};
use archive::point::At;
use archive::prune::Gone;
use archive::retention::{Block, Rule, Verdict};
use archive::{Epoch, Policy};
use bytes::Bytes;
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use rand::SeedableRng;
use rand::rngs::StdRng;
use store::download::list_all;
use store::{Bag, Credentials, Key, Listing, Retention, Secret, Settings, Store};
use testkit::stores::{Azurite, FakeGcs, ImmutableBlobs, Moto};

use world::World;

const LAST: i64 = 90;

fn world() -> World {
    let mut random = StdRng::seed_from_u64(11);
    let world = World::new(&mut random, LAST);
    let mut follows = Some(world.write(0, 10, None));
    for from in (11..LAST).step_by(10) {
        follows = Some(world.write(from, from + 9, follows));
    }
    world.write(0, 50, None);
    world
}

fn settings(moto: &Moto) -> Settings {
    let credentials = Credentials::Keys { id: Moto::ACCESS_KEY.into(), secret: Moto::SECRET_KEY.into(), token: None };
    let region = Some(Moto::REGION.into());
    Settings { credentials, endpoint: Some(moto.url()), region, ..Settings::default() }
}

fn contents(world: &World, store: &Arc<dyn Store>) -> BTreeMap<String, Bytes> {
    world.runtime.block_on(async {
        let mut found = BTreeMap::new();
        for info in list_all(&**store, Listing::default()).await.unwrap() {
            if !info.key.as_str().contains("/proof/") {
                let bytes = store.get(&info.key, 0..info.size_bytes.max(1)).await.unwrap();
                found.insert(info.key.to_string(), bytes);
            }
        }
        found
    })
}

fn copy(world: &World, from: &Arc<dyn Store>, to: &Arc<dyn Store>) -> usize {
    let archive = world.open_at(from);
    let target = archive.copy_target(Arc::clone(to)).unwrap();
    let plan = archive.plan_copy(&target, &Selection::All, None);
    let copying = archive.copy(&target, &plan, false, Timestamp::now()).unwrap();
    assert!(copying.unrecorded.is_none());
    assert!(
        copying.copied.iter().all(|one| matches!(one.outcome, Outcome::Sent(_) | Outcome::There(_))),
        "{copying:?}"
    );
    copying.copied.iter().filter(|one| matches!(one.outcome, Outcome::Sent(_))).count()
}

#[test]
fn an_archive_goes_to_s3_and_on_from_there() {
    let (world, moto) = (world(), Moto::start());
    moto.bucket("copies");
    let settings = settings(&moto);
    let there = store::open("s3://copies/one", &settings).unwrap();
    let further = store::open("s3://copies/two", &settings).unwrap();
    let whole = contents(&world, &world.store);
    assert_eq!(copy(&world, &world.store, &there), whole.len());
    assert_eq!(copy(&world, &there, &further), whole.len());
    assert!(contents(&world, &there) == whole && contents(&world, &further) == whole);
    assert_eq!(copy(&world, &world.store, &further), 0);
    for at in [10, 37, LAST] {
        world.require_at(&further, &At::Revision(Revision(at)), at);
    }
}

#[test]
fn what_the_bucket_keeps_is_not_pruned() {
    let moto = Moto::start();
    moto.bucket_with_lock("locked");
    require_kept_things_to_stay(&store::open("s3://locked", &settings(&moto)).unwrap());
}

#[test]
fn what_google_keeps_is_not_pruned() {
    let gcs = FakeGcs::start();
    gcs.bucket("kept");
    require_kept_things_to_stay(&at_google(&gcs, "kept"));

    // The policy of a bucket keeps all of it, and so does a hold that only some event lifts.
    gcs.bucket("by-policy");
    let (world, store) = (world(), at_google(&gcs, "by-policy"));
    copy(&world, &world.store, &store);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let now = Timestamp::now();
    let plan = || world.open_at(&store).plan_prune(&policy, now, world.scratch.path()).unwrap();
    let before = plan();
    let doomed: Vec<&Key> = before.retention.deletions().collect();
    assert!(doomed.len() > 2);
    gcs.keep_for("by-policy", SignedDuration::from_hours(24));
    gcs.hold_until_an_event("by-policy", doomed[0].as_str());
    let plan = plan();
    assert_eq!(plan.retention.deletions().count(), 0, "{}", plan.retention);
    for key in doomed {
        let verdict = &plan.retention.decisions.iter().find(|one| one.entry.key == *key).unwrap().verdict;
        assert!(
            matches!(verdict, Verdict::Blocked(_, Block::RetainedUntil(_) | Block::LegalHold)),
            "{key}: {verdict:?}"
        );
    }
}

/// A policy on a bucket, as Gardener has it: what is written is neither replaced nor deleted before its time.
#[test]
fn where_google_replaces_nothing_one_writes_and_a_copy_is_told_of_writers() {
    let gcs = FakeGcs::start();
    gcs.bucket("by-policy");
    gcs.keep_for("by-policy", SignedDuration::from_hours(24));
    let (world, store) = (world(), at_google(&gcs, "by-policy"));
    let [one, two, three] = [(); 3].map(|()| Instance::draw());
    let gate = |holder: &str, instance, gone| {
        let me = Candidate { cluster: world.cluster.clone(), holder: holder.to_owned(), serves: None, instance };
        let mut fence = Fence::new(me, Terms { renew_after: Duration::ZERO, ..Terms::default() }, Epoch(0));
        fence.comes_after(gone);
        Gate::new(&*store, "prod/", fence).unwrap()
    };
    let at_once = Duration::ZERO;
    world.runtime.block_on(async {
        let nobody = Instance::draw();
        let mut first = gate("one", one, nobody);
        assert_eq!(first.acquire(at_once).await.unwrap().epoch(), Epoch(1));
        for _ in 0..3 {
            assert!(first.renew().await.unwrap().is_some());
        }
        assert!(gate("two", two, nobody).acquire(at_once).await.is_err());
        first.release().await.unwrap();
        let mut second = gate("two", two, nobody);
        assert_eq!(second.acquire(at_once).await.unwrap().epoch(), Epoch(2));
        let mut third = gate("three", three, two);
        assert_eq!(third.acquire(at_once).await.unwrap().epoch(), Epoch(3));
        third.release().await.unwrap();
    });
    let written = gcs.names("by-policy");
    let claims: Vec<&String> = written.iter().filter(|name| name.starts_with("prod/writer")).collect();
    assert!(claims.len() >= 7 && claims[0] == "prod/writer.json", "{claims:?}");

    // What has been written there since is told to be of epoch 9.
    world.hand_out(&world.store, 9);
    copy(&world, &world.store, &store);
    assert_eq!(world.open_at(&store).claim().unwrap().unwrap().epoch, Epoch(9));
    world.require_at(&store, &At::Latest, LAST);
    assert_eq!(world.open_at(&store).highest_epoch(world.scratch.path()).unwrap(), Epoch(9));
}

#[test]
fn what_azure_keeps_is_not_pruned() {
    let azurite = Azurite::start();
    azurite.container("kept");
    let server = ImmutableBlobs::before_url(&azurite.url());
    let credentials = Credentials::Keys { id: Azurite::ACCOUNT.into(), secret: Azurite::KEY.into(), token: None };
    let settings = Settings { credentials, endpoint: Some(server.url()), ..Settings::default() };
    let store = store::open("az://kept", &settings).unwrap();
    require_kept_things_to_stay(&store);

    // Nothing of a container goes that somebody holds, nor what goes along with it.
    server.hold_container("kept");
    let (world, store) = (world(), store::open("az://kept", &settings).unwrap());
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let late = Timestamp::now() + SignedDuration::from_hours(1000);
    let plan = world.open_at(&store).plan_prune(&policy, late, world.scratch.path()).unwrap();
    assert_eq!(plan.retention.deletions().count(), 0, "{}", plan.retention);
    let is_held = |verdict: &Verdict| matches!(verdict, Verdict::Blocked(_, Block::LegalHold));
    assert!(plan.retention.decisions.iter().any(|one| is_held(&one.verdict)), "{}", plan.retention);
}

fn at_google(gcs: &FakeGcs, bucket: &str) -> Arc<dyn Store> {
    let values = [("serviceaccount.json".to_owned(), Secret::new(gcs.service_account_key()))];
    let credentials = Credentials::Bag(Bag::Values(values.into()));
    let settings = Settings { credentials, endpoint: Some(gcs.url()), ..Settings::default() };
    store::open(&format!("gs://{bucket}"), &settings).unwrap()
}

/// One object of those that would go is kept until tomorrow; what stays is kept until noon.
fn require_kept_things_to_stay(store: &Arc<dyn Store>) {
    let world = world();
    copy(&world, &world.store, store);
    let policy = Policy { rules: vec![Rule::Number(1)], merged_grace: SignedDuration::ZERO, ..Policy::default() };
    let now = Timestamp::now();
    let plan = || world.open_at(store).plan_prune(&policy, now, world.scratch.path()).unwrap();
    let doomed: Vec<Key> = plan().retention.deletions().cloned().collect();
    let until = now + SignedDuration::from_hours(24);
    let kept = doomed.last().unwrap();
    world.runtime.block_on(store.retain(kept, Retention { until: Some(until), legal_hold: false })).unwrap();

    let second = plan();
    let verdict = &second.retention.decisions.iter().find(|one| one.entry.key == *kept).unwrap().verdict;
    assert!(matches!(verdict, Verdict::Blocked(_, Block::RetainedUntil(_))), "{verdict:?}");
    let archive = world.open_at(store);
    let pruned = archive.prune_keeping(&second, &policy, now + SignedDuration::from_hours(12), now).unwrap();
    let extended = &pruned.extended;
    assert!(extended.len() > 2 && extended.iter().all(|(key, kept_so)| kept_so.is_ok() && key != kept), "{extended:?}");
    assert_eq!(pruned.objects.len(), doomed.len() - 1);
    assert!(pruned.objects.iter().all(|(_, gone)| matches!(gone, Gone::Deleted)), "{pruned:?}");
    world.require_at(store, &At::Latest, LAST);
    assert!(contents(&world, store).contains_key(kept.as_str()));
}
