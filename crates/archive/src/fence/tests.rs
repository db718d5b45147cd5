//! The gate on a store, step by step; and thousands of histories of writers that are paused, restarted, answered late
//! or not at all, with clocks that run unequally.
//!
//! In every history: nobody holds an epoch that another process held; no two permits hold at once; and whatever was
//! acknowledged under a permit is there in the end, with no hole before it. Where somebody takes over by force, only the
//! first is promised.

mod history;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::Kind;
use jiff::SignedDuration;
use store::memory::Memory;
use store::{Abilities, Key, Listing, Put, Store, StoreError};
use testkit::KeepingStore;

use super::*;
use crate::Error;
use crate::identity::ClusterUid;
use crate::name::Name;

fn candidate(holder: &str, cluster: u128) -> Candidate {
    let cluster = Cluster { name: "prod".into(), id: ClusterUid(cluster) };
    Candidate { cluster, holder: holder.into(), serves: None, instance: Instance::draw() }
}

fn gate<'a>(store: &'a dyn Store, holder: &str, lasts: Duration) -> Gate<'a> {
    Gate::new(store, "prod/", Fence::new(candidate(holder, 1), Terms::lasting(lasts), Epoch(0))).unwrap()
}

/// The gate of one who knows that the process `gone` is.
fn gate_after<'a>(store: &'a dyn Store, holder: &str, gone: Instance) -> Gate<'a> {
    let mut fence = Fence::new(candidate(holder, 1), Terms::lasting(LONG), Epoch(0));
    fence.comes_after(gone);
    Gate::new(store, "prod/", fence).unwrap()
}

fn fence_error<T: std::fmt::Debug>(result: Result<T, Error>) -> FenceError {
    match result {
        Err(Error::Fence(error)) => error,
        other => panic!("not an error of the fence: {other:?}"),
    }
}

/// One where claims are replaced, and one where nothing is.
fn places() -> [KeepingStore; 2] {
    let (replaces, keeps) = (keeping(), keeping());
    replaces.keep_for(None);
    [replaces, keeps]
}

fn keeping() -> KeepingStore {
    KeepingStore::of(Arc::new(Memory::new()), SignedDuration::from_hours(24))
}

async fn names(store: &dyn Store) -> Vec<String> {
    let listed = store.list(&Listing::below("prod")).await.unwrap().objects;
    listed.iter().map(|info| info.key.name().trim_start_matches('0').to_owned()).collect()
}

/// One that renews whenever it can, and which process it is.
fn at_once(holder: &str) -> (Instance, Fence) {
    let terms = Terms { renew_after: Duration::ZERO, ..Terms::lasting(LONG) };
    let mut fence = Fence::new(candidate(holder, 1), terms, Epoch(0));
    fence.seldom.renew_after = Duration::ZERO;
    (fence.me.instance, fence)
}

const LONG: Duration = Duration::from_secs(3600);
const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn the_first_one_writes_and_the_second_is_told_who_does() {
    for store in places() {
        let mut first = gate(&store, "one", LONG);
        let permit = first.acquire(NOW).await.unwrap();
        assert_eq!(permit.epoch(), Epoch(1));
        assert_eq!(first.acquire(NOW).await.unwrap().epoch(), Epoch(1), "it still has it");

        let error = fence_error(gate(&store, "two", LONG).acquire(NOW).await);
        let FenceError::Held { holder, ends_in } = &error else { panic!("{error}") };
        assert_eq!((holder.holder.as_str(), holder.epoch), ("one", Epoch(1)));
        assert!(*ends_in > LONG / 2 && *ends_in <= LONG);
        assert_eq!(error.kind(), Kind::Conflict);

        first.release().await.unwrap();
        assert_eq!(gate(&store, "two", LONG).acquire(NOW).await.unwrap().epoch(), Epoch(2));
    }
}

#[tokio::test]
async fn who_is_taken_over_from_stops_as_soon_as_it_looks() {
    for store in places() {
        let (one, fence) = at_once("one");
        let mut first = Gate::new(&store, "prod/", fence).unwrap();
        first.acquire(NOW).await.unwrap();
        // Where it finds that nothing is replaced, it has to look first.
        for _ in 0..2 {
            assert!(first.renew().await.unwrap().is_some());
        }

        let mut second = gate_after(&store, "two", one);
        assert_eq!(second.acquire(NOW).await.unwrap().epoch(), Epoch(2));
        // Its put finds another claim, and then it looks.
        let renewed = match first.renew().await {
            Ok(_) => first.renew().await,
            error => error,
        };
        assert!(matches!(fence_error(renewed), FenceError::Lost { by } if by.holder == "two"));
        assert!(first.permit().is_none());
        assert!(matches!(fence_error(first.acquire(NOW).await), FenceError::Lost { .. }), "and it stays so");
        assert!(second.permit().is_some());
    }
}

#[tokio::test]
async fn one_who_is_gone_is_followed_when_its_claim_has_run_out() {
    for store in places() {
        let mut gone = gate(&store, "one", Duration::from_millis(20));
        let _ = gone.acquire(NOW).await;
        let patient = LONG;
        assert_eq!(gate(&store, "two", LONG).acquire(patient).await.unwrap().epoch(), Epoch(2));
    }
}

#[tokio::test]
async fn the_epoch_is_higher_than_any_in_the_archive_though_the_file_is_gone() {
    let store = Memory::new();
    let fence = Fence::new(candidate("one", 1), Terms::default(), Epoch(41));
    let mut gate = Gate::new(&store, "", fence).unwrap();
    assert_eq!(gate.acquire(NOW).await.unwrap().epoch(), Epoch(42));
    assert!(store.head(&Key::parse("writer.json").unwrap()).await.is_ok());

    let last = Fence::new(candidate("two", 1), Terms::default(), Epoch(u64::MAX));
    let error = fence_error(Gate::new(&store, "other/", last).unwrap().acquire(NOW).await);
    assert!(matches!(error, FenceError::Malformed { .. }));
}

#[tokio::test]
async fn who_is_known_to_be_gone_is_not_waited_for_and_everybody_else_is() {
    for store in places() {
        let gone = candidate("one", 1);
        let after = |earlier: &Candidate| gate_after(&store, "next", earlier.instance);
        let fence = Fence::new(gone.clone(), Terms::lasting(LONG), Epoch(0));
        Gate::new(&store, "prod/", fence).unwrap().acquire(NOW).await.unwrap();
        let of_another = fence_error(after(&candidate("other", 1)).acquire(NOW).await);
        assert!(matches!(of_another, FenceError::Held { .. }), "{of_another}");
        assert_eq!(after(&gone).acquire(NOW).await.unwrap().epoch(), Epoch(2));
        // Somebody writes since.
        let since = fence_error(after(&gone).acquire(NOW).await);
        assert!(matches!(since, FenceError::Held { .. }), "{since}");
    }
}

#[tokio::test]
async fn what_stands_there_and_is_no_claim_of_ours_is_refused() {
    let store = Memory::new();
    gate(&store, "one", LONG).acquire(NOW).await.unwrap();
    let other = Fence::new(candidate("other", 2), Terms::default(), Epoch(0));
    let mut other = Gate::new(&store, "prod/", other).unwrap();
    let error = fence_error(other.acquire(NOW).await);
    assert!(matches!(error, FenceError::OtherCluster { .. }), "{error}");

    let key = Key::parse("prod/writer.json").unwrap();
    for (bytes, kind) in [
        (b"".to_vec(), Kind::Corrupt),
        (b"{}".to_vec(), Kind::Corrupt),
        (vec![b' '; MAX_CLAIM_BYTES + 1], Kind::Corrupt),
        (br#"{"format": 2}"#.to_vec(), Kind::Unsupported),
    ] {
        store.put(&key, bytes.into(), &Put::default()).await.unwrap();
        let error = fence_error(gate(&store, "one", LONG).acquire(NOW).await);
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn where_nothing_is_replaced_claims_are_only_created_and_last_longer() {
    let store = keeping();
    let mut first = gate(&store, "one", Duration::from_secs(8));
    first.acquire(NOW).await.unwrap();
    assert_eq!(names(&store).await, ["writer.json"], "nobody knows it yet");
    first.release().await.unwrap();
    assert_eq!(names(&store).await, ["writer.json", ".json", "1.json", "2.json"]);

    let mut second = gate(&store, "two", Duration::from_secs(8));
    let permit = second.acquire(NOW).await.unwrap();
    assert_eq!(permit.epoch(), Epoch(2));
    let (left, due) = (permit.until().since(Tick::now()), second.due().since(Tick::now()));
    assert!(left > Duration::from_secs(490) && left <= Duration::from_secs(500), "{left:?}");
    assert!(due > Duration::from_secs(290) && due <= Duration::from_secs(300), "{due:?}");
    assert_eq!(Terms::lasting(Duration::from_secs(8)).renewed_seldom().claims_a_day(), 288);
    let held = fence_error(gate(&store, "three", LONG).acquire(NOW).await);
    assert!(matches!(held, FenceError::Held { ends_in, .. } if ends_in > Duration::from_secs(590)), "{held}");

    // Nor is anything replaced when the place does not keep it any more.
    store.keep_for(None);
    let written = store.get(&Key::parse("prod/writer.json").unwrap(), 0..1 << 16).await.unwrap();
    second.release().await.unwrap();
    gate(&store, "three", LONG).acquire(NOW).await.unwrap();
    assert_eq!(store.get(&Key::parse("prod/writer.json").unwrap(), 0..1 << 16).await.unwrap(), written);
}

/// One who was refused begins with claims that are created, while the holder goes on to replace its own.
#[tokio::test]
async fn a_claim_that_is_replaced_after_others_are_created_counts_for_nothing() {
    let store = keeping();
    store.keep_for(None);
    let (one, fence) = at_once("one");
    let mut first = Gate::new(&store, "prod/", fence).unwrap();
    first.acquire(NOW).await.unwrap();
    store.keep_for(Some(SignedDuration::from_hours(24)));
    let mut second = gate_after(&store, "two", one);
    assert_eq!(second.acquire(NOW).await.unwrap().epoch(), Epoch(2));
    store.keep_for(None);
    let renewed = match first.renew().await {
        Ok(_) => first.renew().await,
        error => error,
    };
    assert!(matches!(fence_error(renewed), FenceError::Lost { by } if by.holder == "two"));
    assert!(first.permit().is_none() && second.permit().is_some());
}

/// A writer that was paused for days finds the name of its next claim free, as that was deleted meanwhile.
#[tokio::test]
async fn a_claim_whose_name_is_free_again_counts_for_nothing() {
    let store = keeping();
    let (one, fence) = at_once("one");
    let mut first = Gate::new(&store, "prod/", fence).unwrap();
    first.acquire(NOW).await.unwrap();
    for _ in 0..3 {
        first.renew().await.unwrap();
    }
    let next = names(&store).await.len() - 1;
    let (_, mut fence) = at_once("two");
    fence.comes_after(one);
    let mut second = Gate::new(&store, "prod/", fence).unwrap();
    second.acquire(NOW).await.unwrap();
    second.renew().await.unwrap();
    store.keep_for(None);
    let taken = Name::Claim(next as u64).below("prod/").unwrap();
    assert!(store.head(&taken).await.is_ok());
    store.delete(std::slice::from_ref(&taken)).await.remove(0).unwrap();

    let renewed = match first.renew().await {
        Ok(_) => first.renew().await,
        error => error,
    };
    assert!(matches!(fence_error(renewed), FenceError::Lost { by } if by.holder == "two"));
    assert!(first.permit().is_none() && second.permit().is_some());
}

#[test]
fn a_store_without_conditional_puts_is_refused() {
    let all = Memory::new().abilities();
    for abilities in [Abilities { put_if_absent: false, ..all }, Abilities { put_if_unchanged: false, ..all }] {
        let store = Memory::new().with_abilities(abilities);
        let fence = Fence::new(candidate("one", 1), Terms::default(), Epoch(0));
        let made = Gate::new(&store, "prod/", fence);
        assert!(matches!(made, Err(Error::Fence(FenceError::Unable))));
    }
}

/// A store that takes conditions and does not heed some of them.
#[derive(Debug)]
struct Heedless {
    inner: Memory,
    heeds: Heeds,
}

type Heeds = fn(&When) -> bool;

#[async_trait]
impl store::Forward for Heedless {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        let when = if (self.heeds)(&put.when) { put.when.clone() } else { When::default() };
        self.inner.put(key, bytes, &Put { when, ..put.clone() }).await
    }
}

#[tokio::test]
async fn a_store_that_does_not_heed_conditions_is_refused() {
    let all: [(Heeds, bool); 4] = [
        (|_| true, true),
        (|_| false, false),
        (|when| *when != When::Absent, false),
        (|when| !matches!(when, When::Unchanged(_)), false),
    ];
    for (heeds, is_taken) in all {
        let store = Heedless { inner: Memory::new(), heeds };
        let note = Key::parse("prod/cluster.json").unwrap();
        store.put(&note, "{}".into(), &Put::default()).await.unwrap();
        let fence = Fence::new(candidate("one", 1), Terms::lasting(LONG), Epoch(0));
        let mut gate = Gate::new(&store, "prod/", fence).unwrap();
        let acquired = gate.acquire(NOW).await;
        if is_taken {
            assert!(acquired.is_ok() && gate.permit().is_some());
            continue;
        }
        assert!(matches!(fence_error(acquired), FenceError::Unable));
        assert!(gate.permit().is_none() && gate.acquire(NOW).await.is_err());
        // Whoever comes next finds what stood there.
        let claim = store.get(&Key::parse("prod/writer.json").unwrap(), 0..1 << 16).await.unwrap();
        assert_eq!(Claim::parse(&claim).unwrap().epoch, Epoch(1));
    }
}

#[test]
fn nobody_holds_a_claim_for_longer_than_others_wait_for_it() {
    let (at, clock) = (|seconds| Tick(Duration::from_secs(seconds)), Timestamp::UNIX_EPOCH);
    for hours in [1, 2, 24] {
        let terms = Terms::lasting(Duration::from_secs(3600 * hours));
        let mut holder = Fence::new(candidate("one", 1), terms, Epoch(0));
        holder.saw(at(0), None);
        let Ok(Move::Put(claim, _)) = holder.next(at(0), clock) else { panic!("a first claim") };
        let tag = Tag("a".into());
        holder.put(&claim, PutOutcome::Done(tag.clone()), at(0));

        let mut other = Fence::new(candidate("two", 1), terms, Epoch(0));
        other.saw(at(0), Some((claim, tag)));
        let Ok(Move::Wait { until, .. }) = other.next(at(0), clock) else { panic!("it is held") };
        assert!(matches!(other.next(until, clock), Ok(Move::Put(..))), "{hours} h");
        assert_eq!(holder.permit(until), None, "{hours} h");
    }
}

#[test]
fn a_permit_ends_before_anybody_else_may_begin() {
    let terms = Terms::default();
    let (at, clock) = (|seconds| Tick(Duration::from_secs(seconds)), Timestamp::UNIX_EPOCH);
    let mut holder = Fence::new(candidate("one", 1), terms, Epoch(0));
    assert_eq!(holder.next(at(100), clock), Ok(Move::Look));
    holder.saw(at(100), None);
    let Ok(Move::Put(claim, When::Absent)) = holder.next(at(100), clock) else { panic!("a first claim") };
    let tag = Tag("a".into());
    holder.put(&claim, PutOutcome::Done(tag.clone()), at(103));
    // The answer took 3 s, and does not lengthen it.
    let permit = holder.permit(at(124)).unwrap();
    assert_eq!((permit.until(), permit.check(at(125))), (at(125), Err(PermitEnded { epoch: Epoch(1) })));
    assert_eq!(holder.permit(at(125)), None);

    // The other one's clock shows something else, and it saw the claim at once.
    let mut other = Fence::new(candidate("two", 1), terms, Epoch(0));
    other.saw(at(5000), Some((claim.clone(), tag.clone())));
    assert_eq!(other.next(at(5029), clock), Ok(Move::Wait { holder: claim.clone(), until: at(5030) }));
    assert!(matches!(other.next(at(5030), clock), Ok(Move::Put(next, _)) if next.epoch == Epoch(2)));

    // A claim that was renewed is waited for anew; one that is the same is not.
    other.saw(at(5020), Some((claim.clone(), tag.clone())));
    assert!(matches!(other.next(at(5029), clock), Ok(Move::Wait { until, .. }) if until == at(5030)));
    other.saw(at(5021), Some((claim.clone(), Tag("b".into()))));
    assert!(matches!(other.next(at(5030), clock), Ok(Move::Wait { until, .. }) if until == at(5051)));

    // Nobody followed, so it can go on with the same epoch.
    let Ok(Move::Put(renewed, When::Unchanged(_))) = holder.next(at(900), clock) else { panic!("a renewal") };
    assert_eq!(holder.permit(at(900)), None);
    // The answer is lost, but the claim stands there: it is good from before it was sent.
    holder.put(&renewed, PutOutcome::Unclear, at(905));
    assert_eq!(holder.next(at(905), clock), Ok(Move::Look));
    holder.saw(at(906), Some((renewed, Tag("c".into()))));
    assert_eq!(holder.permit(at(906)).map(|permit| permit.until()), Some(at(925)));

    holder.look_again();
    holder.saw(at(907), None);
    assert_eq!(holder.next(at(907), clock), Err(FenceError::Deleted));
    assert_eq!(holder.permit(at(907)), None);
}
