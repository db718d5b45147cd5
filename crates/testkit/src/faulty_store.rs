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
//! | a listing repeats | shows something twice, on one page or at the end of one and the beginning of the next |
//! | a listing is out of order | shows a page in any order |
//! | a deletion is carried out twice | what was asked |
//! | an upload is forgotten | discards what was written of it |
//! | a write is torn | keeps the beginning of an object, or of a part; who wrote it is told that it failed |
//! | a write is late | what was asked, after later requests; who wrote it is told that nobody answered |
//! | an object is not found yet | says that what was written a moment ago is not there |
//! | its clock is wrong | tells times that are |
//!
//! Stalls wait on tokio's clock, which tests pause. What a store keeps by time (retention) follows [`ManualClock`].

mod clock;
mod faults;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use store::{Abilities, Fault, Info, Key, Listing, Page, Part, Put, Retention, Store, StoreError, Tag, Upload};

pub use clock::ManualClock;
pub use faults::{Faults, Injected};

/// The store.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Faults,
    seed: u64,
    /// How often was asked about what.
    asked: Mutex<HashMap<String, u64>>,
    injected: Mutex<Injected>,
    recent: Mutex<VecDeque<Change>>,
    under_way: Mutex<Vec<Late>>,
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

/// So many changes a listing may lag, and so long what was written may not be found.
const LAG: usize = 4;

/// What was sent, and arrives when the request of this number is made.
#[derive(Debug)]
struct Late {
    arrives: u64,
    key: Key,
    bytes: Bytes,
    put: Put,
}

/// No write comes later than after so many requests.
const LATEST: u64 = 12;
/// So long, people are told, they have waited for an answer.
const WAITED: Duration = Duration::from_secs(30);

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
            under_way: Mutex::default(),
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

    /// Everything that is still under way arrives.
    pub async fn settle(&self) {
        self.arrive_by(u64::MAX).await;
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
        let fails = |what: &str| Err(self.failed(what, key));
        let number = {
            let mut injected = self.injected.lock().unwrap();
            injected.requests += 1;
            injected.requests
        };
        self.arrive_by(number).await;
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

    fn failed(&self, what: &str, key: Option<&Key>) -> StoreError {
        let fault = Fault::Unavailable { what: format!("{what} (seed {})", self.seed), source: None };
        fault.at("asking", self.inner.place(), key)
    }

    /// What is late by no more than to this request arrives, whatever became of who sent it.
    async fn arrive_by(&self, number: u64) {
        let mut arrived: Vec<Late> = {
            let mut under_way = self.under_way.lock().unwrap();
            under_way.extract_if(.., |late| late.arrives <= number).collect()
        };
        arrived.sort_by_key(|late| late.arrives);
        for Late { key, bytes, put, .. } in arrived {
            // Nobody waits for the answer.
            drop(self.write(&key, self.inner.put(&key, bytes, &put)).await);
        }
    }

    /// Lets a write come late, if that is its fate.
    fn let_wait(&self, key: &Key, bytes: &Bytes, put: &Put) -> bool {
        let subject = format!("{key}, late");
        if !self.chance(&subject, self.faults.late_write) {
            return false;
        }
        let by = self.dice(&subject).random_range(1..=LATEST);
        self.count(|injected| injected.late_writes += 1);
        let late =
            Late { arrives: self.injected().requests + by, key: key.clone(), bytes: bytes.clone(), put: put.clone() };
        self.under_way.lock().unwrap().push(late);
        true
    }

    /// Whether something that was written a moment ago is not found yet.
    fn is_out_of_sight(&self, key: &Key) -> bool {
        let is_it = |change: &Change| matches!(change, Change::Written(written) if written == key);
        let is_new = self.recent.lock().unwrap().iter().any(is_it);
        let is_hidden = is_new && self.chance(&format!("{key}, seen"), self.faults.late_sight);
        self.count(|injected| injected.late_sights += u64::from(is_hidden));
        is_hidden
    }

    /// A time of what keeps the objects, as the store tells it.
    fn told(&self, time: Timestamp) -> Timestamp {
        time.checked_add(self.faults.skew).unwrap()
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

    /// Shows something of a page a second time: there, and on the next page what this one ends with.
    fn let_repeat(&self, listing: &Listing, page: &mut Page) {
        let subject = format!("{}, repeated", listing.prefix);
        if page.objects.len() < 2 || !self.chance(&subject, self.faults.repeated_listing) {
            return;
        }
        self.count(|injected| injected.repeated_listings += 1);
        if let (Some(next), [.., before, _]) = (&mut page.next, &page.objects[..]) {
            *next = Listing { after: Some(before.key.as_str().to_owned()), mark: None, ..listing.clone() };
        }
        let [which, place] = self.dice(&subject).random::<[u32; 2]>().map(|drawn| drawn as usize % page.objects.len());
        let again = page.objects[which].clone();
        page.objects.insert(place, again);
    }

    fn let_be_out_of_order(&self, listing: &Listing, page: &mut Page) {
        let subject = format!("{}, in order", listing.prefix);
        if page.objects.len() < 2 || !self.chance(&subject, self.faults.disordered_listing) {
            return;
        }
        self.count(|injected| injected.disordered_listings += 1);
        page.objects.shuffle(&mut self.dice(&subject));
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

    fn retains(&self) -> Option<Duration> {
        self.inner.retains()
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        let writing = async {
            if self.let_wait(key, &bytes, put) {
                return Err(Fault::TimedOut { after: WAITED }.at("asking", self.inner.place(), Some(key)));
            }
            if self.chance(&format!("{key}, torn"), self.faults.torn_write) {
                self.count(|injected| injected.torn_writes += 1);
                let beginning = bytes.slice(..bytes.len() / 2);
                self.write(key, self.inner.put(key, beginning, put)).await?;
                return Err(self.failed("broke off in the middle", Some(key)));
            }
            self.write(key, self.inner.put(key, bytes.clone(), put)).await
        };
        self.ask(key.as_str(), Some(key), writing).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let reading = async {
            match self.is_out_of_sight(key) {
                true => Err(Fault::NotFound.at("reading", self.inner.place(), Some(key))),
                false => self.inner.get(key, range).await,
            }
        };
        self.ask(key.as_str(), Some(key), reading).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        let asking = async {
            match self.is_out_of_sight(key) {
                true => Err(Fault::NotFound.at("asking for", self.inner.place(), Some(key))),
                false => self.inner.head(key).await,
            }
        };
        let info = self.ask(key.as_str(), Some(key), asking).await?;
        Ok(Info { modified: self.told(info.modified), ..info })
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.labels(key)).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.retention(key)).await
    }

    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        // Most stores know without being asked.
        self.inner.keeps_untold().await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let mut page = self.ask(&listing.prefix, None, self.inner.list(listing)).await?;
        if self.chance(&listing.prefix, self.faults.stale_listing) {
            self.count(|injected| injected.stale_listings += 1);
            self.let_lag(listing, &mut page);
        }
        self.let_repeat(listing, &mut page);
        self.let_be_out_of_order(listing, &mut page);
        page.objects.iter_mut().for_each(|info| info.modified = self.told(info.modified));
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
        let writing = async {
            if self.chance(&subject, self.faults.torn_part) {
                self.count(|injected| injected.torn_parts += 1);
                self.inner.put_part(upload, index, bytes.slice(..bytes.len() / 2)).await?;
                return Err(self.failed("broke off in the middle", None));
            }
            self.inner.put_part(upload, index, bytes.clone()).await
        };
        self.ask(&subject, None, writing).await
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
        let mut uploads = self.ask(prefix, None, self.inner.uploads(prefix)).await?;
        uploads.iter_mut().for_each(|upload| upload.begun = upload.begun.map(|begun| self.told(begun)));
        Ok(uploads)
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.ask(key.as_str(), Some(key), self.inner.retain(key, retention)).await
    }
}
