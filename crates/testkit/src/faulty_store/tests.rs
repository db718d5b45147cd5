//! What the store does, and what becomes of it with the retry wrapper above it.

use jiff::SignedDuration;
use store::{Memory, Patience, Retrying};

use super::*;

fn key(name: &str) -> Key {
    Key::parse(name).unwrap()
}

async fn some_work(store: &dyn Store) -> Vec<String> {
    let mut told = Vec::new();
    for round in 0..60 {
        let key = key(&format!("delta/{}", round % 7));
        told.push(format!("{:?}", store.put(&key, "x".into(), &Put::default()).await.is_ok()));
        told.push(format!("{:?}", store.list(&Listing::below("delta")).await.map(|page| page.objects.len()).ok()));
        told.push(format!("{:?}", store.delete(&[key]).await.iter().all(Result::is_ok)));
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_seed_fails_the_same_way_again_and_another_otherwise() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let store = FaultyStore::new(Arc::new(Memory::new()), Faults::WILD, seed);
        runs.push((some_work(&store).await, store.injected()));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    let injected = runs[0].1;
    assert_eq!(injected.requests, 180);
    let kinds = [
        injected.failures,
        injected.throttlings,
        injected.lost_answers,
        injected.stalls,
        injected.stale_listings,
        injected.repeated_listings,
        injected.disordered_listings,
        injected.double_deletions,
    ];
    assert!(kinds.iter().all(|&count| count > 0), "{injected:?}");
    assert_eq!(injected.total(), kinds.iter().sum::<u64>());
}

#[tokio::test(start_paused = true)]
async fn without_faults_nothing_goes_wrong() {
    let store = FaultyStore::new(Arc::new(Memory::new()), Faults::NONE, 1);
    some_work(&store).await;
    assert_eq!(store.injected().total(), 0);
    store.cut_off(true);
    store.list(&Listing::default()).await.unwrap_err();
    store.cut_off(false);
    store.list(&Listing::default()).await.unwrap();
    assert_eq!(store.injected().cut_off, 1);
}

/// Whatever goes wrong below, with the retry wrapper above each write is in the end done once, or told as failed.
#[tokio::test(start_paused = true)]
async fn who_tries_again_gets_through() {
    let mut all = Injected::default();
    let mut injected = 0;
    // Who writes only what is as they know it is safe from their own writes that come late, too.
    let faults = Faults { torn_part: 0.2, late_write: 0.1, ..Faults::ROUGH };
    for seed in 0..200 {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&memory), faults, seed));
        let patience = Patience { spare_tries: 1000, ..Patience::default() };
        let store = Retrying::with_dice(Arc::clone(&faulty) as Arc<dyn Store>, patience, Box::new(|| 0.5));
        let mut tag = store.put(&key("count"), "0".into(), &Put::if_absent()).await.unwrap();
        for count in 1..10 {
            let put = Put::if_unchanged(tag);
            tag = store.put(&key("count"), count.to_string().into(), &put).await.unwrap_or_else(|error| {
                panic!("seed {seed}, {count}: {error}: {}", error.fault);
            });
        }
        let upload = store.begin(&key("large"), &Put::if_absent()).await.unwrap();
        let part = store.put_part(&upload, 0, "all".into()).await.unwrap();
        store.complete(&upload, &[part], &Put::if_absent()).await.unwrap();

        faulty.settle().await;
        assert_eq!(memory.get(&key("count"), 0..10).await.unwrap(), "9", "seed {seed}");
        assert_eq!(memory.get(&key("large"), 0..10).await.unwrap(), "all", "seed {seed}");
        injected += faulty.injected().total();
        all.late_writes += faulty.injected().late_writes;
        all.torn_parts += faulty.injected().torn_parts;
    }
    assert!(injected > 200, "{injected}");
    assert!(all.late_writes > 20 && all.torn_parts > 20, "{all:?}");
}

#[tokio::test]
async fn a_torn_write_leaves_its_beginning_and_is_told_to_have_failed() {
    let store = FaultyStore::new(Arc::new(Memory::new()), Faults { torn_write: 1.0, ..Faults::NONE }, 1);
    let fault = store.put(&key("a"), "whole".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    assert_eq!(store.get(&key("a"), 0..10).await.unwrap(), "wh");
    assert_eq!(store.injected().torn_writes, 1);

    let store = FaultyStore::new(Arc::new(Memory::new()), Faults { torn_part: 1.0, ..Faults::NONE }, 1);
    let upload = store.begin(&key("a"), &Put::default()).await.unwrap();
    assert!(store.put_part(&upload, 0, "whole".into()).await.is_err());
    assert_eq!(store.injected().torn_parts, 1);
}

#[tokio::test]
async fn a_late_write_comes_after_what_was_asked_later() {
    let memory = Arc::new(Memory::new());
    let late = FaultyStore::new(Arc::clone(&memory) as Arc<dyn Store>, Faults { late_write: 1.0, ..Faults::NONE }, 1);
    let fault = late.put(&key("a"), "late".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::TimedOut { .. }), "{fault:?}");
    memory.put(&key("a"), "meanwhile".into(), &Put::default()).await.unwrap();
    let mut asked = 0;
    while late.get(&key("a"), 0..10).await.unwrap() != "late" {
        asked += 1;
        assert!(asked < LATEST);
    }
    // One that is under way comes also if nobody asks any more, and finds what is there by then.
    late.put(&key("a"), "too late".into(), &Put::if_absent()).await.unwrap_err();
    late.settle().await;
    assert_eq!(memory.get(&key("a"), 0..10).await.unwrap(), "late");
    assert_eq!(late.injected().late_writes, 2);
}

#[tokio::test]
async fn what_was_written_a_moment_ago_is_found_a_little_later() {
    let store = FaultyStore::new(Arc::new(Memory::new()), Faults { late_sight: 1.0, ..Faults::NONE }, 1);
    store.put(&key("a"), "x".into(), &Put::default()).await.unwrap();
    for fault in [store.get(&key("a"), 0..1).await.unwrap_err().fault, store.head(&key("a")).await.unwrap_err().fault] {
        assert!(matches!(fault, Fault::NotFound), "{fault:?}");
    }
    for later in ["b", "c", "d", "e"] {
        store.put(&key(later), "x".into(), &Put::default()).await.unwrap();
    }
    assert_eq!(store.get(&key("a"), 0..1).await.unwrap(), "x");
    assert_eq!(store.injected().late_sights, 2);
}

/// Page after page, whatever is repeated.
#[tokio::test]
async fn a_listing_that_repeats_and_is_out_of_order_shows_everything_all_the_same() {
    let memory = Arc::new(Memory::new().with_page_size(4));
    let faults = Faults { repeated_listing: 0.5, disordered_listing: 0.5, ..Faults::NONE };
    let store = FaultyStore::new(Arc::clone(&memory) as Arc<dyn Store>, faults, 1);
    let all: Vec<Key> = (0..30).map(|at| key(&format!("delta/{at:02}"))).collect();
    for key in &all {
        memory.put(key, "x".into(), &Put::default()).await.unwrap();
    }
    let listed = store::list_all(&store, Listing::below("delta")).await.unwrap();
    let mut keys: Vec<Key> = listed.into_iter().map(|info| info.key).collect();
    assert!(keys.len() > all.len() && !keys.is_sorted(), "{keys:?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys, all);
    let injected = store.injected();
    assert!(injected.repeated_listings > 0 && injected.disordered_listings > 0, "{injected:?}");
}

#[tokio::test]
async fn a_clock_that_is_wrong_tells_times_that_are() {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let skew = SignedDuration::from_hours(-1);
    let store = FaultyStore::new(Arc::clone(&memory), Faults { skew, ..Faults::NONE }, 1);
    store.put(&key("a"), "x".into(), &Put::default()).await.unwrap();
    store.begin(&key("b"), &Put::default()).await.unwrap();
    let written = memory.head(&key("a")).await.unwrap().modified;
    let begun = memory.uploads("").await.unwrap()[0].begun.unwrap();
    assert_eq!(store.head(&key("a")).await.unwrap().modified, written + skew);
    assert_eq!(store.list(&Listing::default()).await.unwrap().objects[0].modified, written + skew);
    assert_eq!(store.uploads("").await.unwrap()[0].begun, Some(begun + skew));
}

#[tokio::test]
async fn retention_follows_the_clock_that_is_told_to_go_on() {
    let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
    let store = Memory::new().with_clock(clock.skewed(SignedDuration::ZERO));
    let until = clock.now().checked_add(SignedDuration::from_hours(1)).unwrap();
    let retention = Some(Retention { until: Some(until), legal_hold: false });
    store.put(&key("a"), "x".into(), &Put { retention, ..Put::default() }).await.unwrap();

    assert!(store.delete(&[key("a")]).await[0].is_err());
    clock.advance(Duration::from_secs(3601));
    assert!(store.delete(&[key("a")]).await[0].is_ok());
}
