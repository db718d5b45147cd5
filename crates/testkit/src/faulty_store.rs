//! A store that fails as stores do, driven by a seed: the same seed, asked the same, fails the same. What happens to a
//! request hangs on what it is about and on how often that was asked about before, so threads that ask at once do not
//! change each other's fate.
//!
//! | What goes wrong | What the store did |
//! |---|---|
//! | a request fails | nothing |
//! | a request is throttled | nothing |
//! | the answer is lost | what was asked |
//! | a request stalls | what was asked, late, unless nobody waits any longer |
//! | a listing lags | shows what was deleted a moment ago, and not yet what was written |
//! | a deletion is carried out twice | what was asked |
//! | an upload is forgotten | discards what was written of it |
//!
//! Stalls wait on tokio's clock, which tests pause. What a store keeps by time (retention) follows [`ManualClock`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::memory::Clock;
use store::{Abilities, Fault, Info, Key, Listing, Page, Part, Put, Retention, Store, StoreError, Tag, Upload};

/// How likely what goes wrong is, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// A request fails.
    pub failure: f64,
    /// A request is throttled.
    pub throttling: f64,
    /// The answer is lost.
    pub lost_answer: f64,
    /// A request stalls.
    pub stall: f64,
    /// A listing lags.
    pub stale_listing: f64,
    /// A deletion is carried out twice.
    pub double_deletion: f64,
    /// An upload is forgotten.
    pub forgotten_upload: f64,
    /// No stall is longer.
    pub longest_stall: Duration,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        failure: 0.0,
        throttling: 0.0,
        lost_answer: 0.0,
        stall: 0.0,
        stale_listing: 0.0,
        double_deletion: 0.0,
        forgotten_upload: 0.0,
        longest_stall: Duration::from_secs(90),
    };

    /// A store on a bad day, listings and uploads as a store has to have them.
    pub const ROUGH: Self =
        Self { failure: 0.05, throttling: 0.02, lost_answer: 0.05, stall: 0.02, double_deletion: 0.1, ..Self::NONE };

    /// A store that keeps no more than it has to: listings lag and uploads are forgotten as well.
    pub const WILD: Self = Self { stale_listing: 0.1, forgotten_upload: 0.01, ..Self::ROUGH };
}

/// How often something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Injected {
    /// Requests, with and without.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Requests that were throttled.
    pub throttlings: u64,
    /// Answers that were lost.
    pub lost_answers: u64,
    /// Requests that stalled.
    pub stalls: u64,
    /// Listings that lagged.
    pub stale_listings: u64,
    /// Deletions that were carried out twice.
    pub double_deletions: u64,
    /// Uploads that were forgotten.
    pub forgotten_uploads: u64,
    /// Requests that did not get through at all, see [`FaultyStore::cut_off`].
    pub cut_off: u64,
}

impl Injected {
    /// All that went wrong.
    pub fn total(&self) -> u64 {
        self.failures
            + self.throttlings
            + self.lost_answers
            + self.stalls
            + self.stale_listings
            + self.double_deletions
            + self.forgotten_uploads
            + self.cut_off
    }
}

/// The store.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Faults,
    seed: u64,
    /// How often was asked about what.
    asked: Mutex<HashMap<String, u64>>,
    injected: Mutex<Injected>,
    recent: Mutex<VecDeque<Change>>,
    is_cut_off: AtomicBool,
    /// The request that is the last one to get through, if there is one.
    last: AtomicU64,
}

/// What a lagging listing does not know yet.
#[derive(Debug, Clone)]
enum Change {
    Written(Key),
    Deleted(Info),
}

/// So many changes a listing may lag.
const LAG: usize = 4;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Fine,
    Fails,
    IsThrottled,
    LosesItsAnswer,
    Stalls(Duration),
}

impl FaultyStore {
    /// `inner`, failing by `faults` and `seed`.
    pub fn new(inner: Arc<dyn Store>, faults: Faults, seed: u64) -> Self {
        Self {
            inner,
            faults,
            seed,
            asked: Mutex::default(),
            injected: Mutex::default(),
            recent: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
            last: AtomicU64::new(u64::MAX),
        }
    }

    /// What went wrong so far.
    pub fn injected(&self) -> Injected {
        *self.injected.lock().unwrap()
    }

    /// From now on nothing gets through, or all does again: the network is away, or whoever asks is dead.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    }

    /// After so many requests more, nothing gets through: whoever asks dies there. Of the last that does, the answer is lost.
    pub fn cut_off_after(&self, requests: u64) {
        let so_far = self.injected().requests;
        self.last.store(so_far.saturating_add(requests), Ordering::SeqCst);
        self.cut_off(requests == 0);
    }

    /// The dice for the next request about `subject`.
    fn dice(&self, subject: &str) -> StdRng {
        let mut asked = self.asked.lock().unwrap();
        let times = asked.entry(subject.to_owned()).or_default();
        *times += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, subject, *times).hash(&mut hasher);
        StdRng::seed_from_u64(hasher.finish())
    }

    fn chance(&self, subject: &str, likelihood: f64) -> bool {
        likelihood > 0.0 && self.dice(subject).random_bool(likelihood)
    }

    fn count(&self, add: impl FnOnce(&mut Injected)) {
        add(&mut self.injected.lock().unwrap());
    }

    fn roll(&self, subject: &str) -> Event {
        let (number, part): (f64, f64) = self.dice(subject).random();
        let faults = &self.faults;
        let mut border = faults.failure;
        if number < border {
            return Event::Fails;
        }
        border += faults.throttling;
        if number < border {
            return Event::IsThrottled;
        }
        border += faults.lost_answer;
        if number < border {
            return Event::LosesItsAnswer;
        }
        border += faults.stall;
        if number < border {
            return Event::Stalls(faults.longest_stall.mul_f64(part));
        }
        Event::Fine
    }

    /// Carries a request about `subject` out, or not.
    async fn ask<T>(
        &self,
        subject: &str,
        key: Option<&Key>,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fails = |what: &str| {
            let fault = Fault::Unavailable { what: format!("{what} (seed {})", self.seed), source: None };
            Err(fault.at("asking", self.inner.place(), key))
        };
        let number = {
            let mut injected = self.injected.lock().unwrap();
            injected.requests += 1;
            injected.requests
        };
        if number >= self.last.load(Ordering::SeqCst) && !self.is_cut_off.swap(true, Ordering::SeqCst) {
            self.count(|injected| injected.cut_off += 1);
            drop(request.await);
            return fails("cut off before its answer");
        }
        if self.is_cut_off.load(Ordering::SeqCst) {
            self.count(|injected| injected.cut_off += 1);
            return fails("cut off");
        }
        match self.roll(subject) {
            Event::Fine => request.await,
            Event::Fails => {
                self.count(|injected| injected.failures += 1);
                fails("failed")
            }
            Event::IsThrottled => {
                self.count(|injected| injected.throttlings += 1);
                let after = self.chance(subject, 0.5).then_some(Duration::from_secs(1));
                Err(Fault::Throttled { after }.at("asking", self.inner.place(), key))
            }
            Event::LosesItsAnswer => {
                self.count(|injected| injected.lost_answers += 1);
                drop(request.await);
                fails("the answer was lost")
            }
            Event::Stalls(time) => {
                self.count(|injected| injected.stalls += 1);
                tokio::time::sleep(time).await;
                request.await
            }
        }
    }

    fn remember(&self, change: Change) {
        let mut recent = self.recent.lock().unwrap();
        recent.push_back(change);
        if recent.len() > LAG {
            recent.pop_front();
        }
    }

    async fn write(
        &self,
        key: &Key,
        writing: impl Future<Output = Result<Tag, StoreError>>,
    ) -> Result<Tag, StoreError> {
        let was_there = self.inner.head(key).await.is_ok();
        let tag = writing.await?;
        if !was_there {
            self.remember(Change::Written(key.clone()));
        }
        Ok(tag)
    }

    async fn delete_one(&self, key: &Key) -> Result<(), StoreError> {
        let there = self.inner.head(key).await.ok();
        let deleting = async {
            let one = std::slice::from_ref(key);
            if self.chance(key.as_str(), self.faults.double_deletion) {
                self.count(|injected| injected.double_deletions += 1);
                drop(self.inner.delete(one).await);
            }
            self.inner.delete(one).await.pop().unwrap()
        };
        let result = self.ask(key.as_str(), Some(key), deleting).await;
        if let Some(info) = there
            && self.inner.head(key).await.is_err()
        {
            self.remember(Change::Deleted(info));
        }
        result
    }

    fn let_lag(&self, listing: &Listing, page: &mut Page) {
        let recent = self.recent.lock().unwrap().clone();
        let after = listing.after.clone().unwrap_or_default();
        for change in recent.iter().rev() {
            match change {
                Change::Written(key) => page.objects.retain(|info| info.key != *key),
                Change::Deleted(info) => {
                    let name = info.key.as_str();
                    // Beyond this page it would be on the next.
                    let is_within =
                        page.next.is_none() || page.objects.last().is_some_and(|last| *last.key.as_str() > *name);
                    let is_listed = page.objects.iter().any(|there| there.key == info.key);
                    if name.starts_with(&listing.prefix) && *name > *after && is_within && !is_listed {
                        page.objects.push(info.clone());
                    }
                }
            }
        }
        page.objects.sort_by(|a, b| a.key.cmp(&b.key));
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("seed", &self.seed)
            .field("injected", &self.injected())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.ask(key.as_str(), Some(key), self.write(key, self.inner.put(key, bytes, put))).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.get(key, range)).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.head(key)).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.labels(key)).await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let mut page = self.ask(&listing.prefix, None, self.inner.list(listing)).await?;
        if self.chance(&listing.prefix, self.faults.stale_listing) {
            self.count(|injected| injected.stale_listings += 1);
            self.let_lag(listing, &mut page);
        }
        Ok(page)
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::new();
        for key in keys {
            results.push(self.delete_one(key).await);
        }
        results
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.begin(key, put)).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let subject = format!("{}, part {index}", upload.key);
        if self.chance(&subject, self.faults.forgotten_upload) {
            self.count(|injected| injected.forgotten_uploads += 1);
            self.inner.abort(upload).await?;
        }
        self.ask(&subject, None, self.inner.put_part(upload, index, bytes)).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let completing = async {
            match Key::parse(&upload.key) {
                Ok(key) => self.write(&key, self.inner.complete(upload, parts, put)).await,
                Err(_) => self.inner.complete(upload, parts, put).await,
            }
        };
        self.ask(&upload.key, None, completing).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.ask(&upload.key, None, self.inner.abort(upload)).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.ask(prefix, None, self.inner.uploads(prefix)).await
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.retain(key, retention)).await
    }
}

/// A clock that goes on when it is told.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// A clock that shows `time`.
    pub fn at(time: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(time)))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    /// Goes on by `time`.
    pub fn advance(&self, time: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(time).unwrap();
    }

    /// The same time, told by a clock that is `ahead` of this one or, if negative, behind.
    pub fn skewed(&self, ahead: SignedDuration) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now().checked_add(ahead).unwrap())
    }
}

#[cfg(test)]
mod tests {
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
        let mut injected = 0;
        for seed in 0..200 {
            let memory: Arc<dyn Store> = Arc::new(Memory::new());
            let faulty = Arc::new(FaultyStore::new(Arc::clone(&memory), Faults::ROUGH, seed));
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

            assert_eq!(memory.get(&key("count"), 0..10).await.unwrap(), "9", "seed {seed}");
            assert_eq!(memory.get(&key("large"), 0..10).await.unwrap(), "all", "seed {seed}");
            injected += faulty.injected().total();
        }
        assert!(injected > 200, "{injected}");
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
}
