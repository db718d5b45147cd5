//! The one place that tries again.
//!
//! What may succeed later is asked anew, after pauses that grow and differ, until the patience ends. All who use a store share
//! a budget for that: when most requests fail, it is soon used up, and a store in trouble is not hammered. What was written on
//! condition and got no answer may have been written: when the store then says that something is there, it is looked at, and
//! if it is what was to be written, it was.
//!
//! An upload is not lost to the budget: with one part all others would be, however many gigabytes have gone up. When no try is left
//! its requests go on, as seldom as can be, and only the patience ends them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Fault, StoreError};
use crate::key::Key;
use crate::object::{Info, Listing, Page, Put, Retention, Tag, When};
use crate::settings::Patience;
use crate::store::{Abilities, Part, Store, Upload};

/// What is compared at once when it is looked whether something was written.
const COMPARED_BYTES: u64 = 8 << 20;

/// A store that tries again.
pub struct Retrying {
    inner: Arc<dyn Store>,
    patience: Patience,
    budget: Mutex<Budget>,
    /// Numbers from 0 to 1.
    dice: Dice,
}

/// What pauses are varied with.
pub type Dice = Box<dyn Fn() -> f64 + Send + Sync>;

/// What is lost with a request that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stake {
    /// Only itself.
    Request,
    /// Whatever of an object has gone up before.
    Upload,
}

/// What became of one deletion, as far as that was told.
type Answer = Option<Result<(), StoreError>>;

/// How many tries are left.
#[derive(Debug)]
struct Budget {
    tries: f64,
    most: f64,
}

impl Budget {
    /// Ten requests that succeed pay for one more try.
    fn earn(&mut self) {
        self.tries = (self.tries + 0.1).min(self.most);
    }

    fn spend(&mut self) -> bool {
        let can = self.tries >= 1.0;
        if can {
            self.tries -= 1.0;
        }
        can
    }
}

impl Retrying {
    /// `inner`, tried with `patience`.
    pub fn new(inner: Arc<dyn Store>, patience: Patience) -> Self {
        Self::with_dice(inner, patience, Box::new(rand::random::<f64>))
    }

    /// The same, with chosen dice.
    pub fn with_dice(inner: Arc<dyn Store>, patience: Patience, dice: Dice) -> Self {
        let most = f64::from(patience.spare_tries);
        Self { inner, patience, budget: Mutex::new(Budget { tries: most, most }), dice }
    }

    /// Makes a request that moves `bytes` until it succeeds, fails for good, or patience ends. Tells whether an earlier try
    /// may have been carried out, too.
    async fn try_until<T, R: Future<Output = Result<T, StoreError>> + Send>(
        &self,
        action: &'static str,
        key: Option<&Key>,
        bytes: u64,
        stake: Stake,
        request: impl Fn() -> R + Send + Sync,
    ) -> (Result<T, StoreError>, bool) {
        let moving = Duration::from_secs(bytes / self.patience.slowest_bytes_per_second.max(1));
        let each = self.patience.request.saturating_add(moving);
        // Nothing if it is later than a clock can tell.
        let end = Instant::now().checked_add(self.patience.total.saturating_add(moving));
        let mut may_be_done = false;
        for attempt in 0.. {
            let result = match timeout(each, request()).await {
                Ok(result) => result,
                Err(_) => Err(Fault::TimedOut { after: each }.at(action, self.inner.place(), key)),
            };
            let error = match result {
                Err(error) if error.fault.is_transient() => error,
                other => {
                    // Whatever else it answered, the store is there.
                    self.budget.lock().unwrap_or_else(PoisonError::into_inner).earn();
                    return (other, may_be_done);
                }
            };
            let mut pause = pause(attempt, &error.fault, &self.patience, (self.dice)());
            let can_spend = self.budget.lock().unwrap_or_else(PoisonError::into_inner).spend();
            if !can_spend {
                pause = pause.max(self.patience.longest_pause);
            }
            let in_time = end.is_none_or(|end| pause < end.saturating_duration_since(Instant::now()));
            if !in_time || !(can_spend || stake == Stake::Upload) {
                return (Err(error), may_be_done);
            }
            may_be_done |= !matches!(error.fault, Fault::Throttled { .. });
            sleep(pause).await;
        }
        unreachable!("attempts are counted without end")
    }

    async fn until_done<T, R: Future<Output = Result<T, StoreError>> + Send>(
        &self,
        action: &'static str,
        key: Option<&Key>,
        bytes: u64,
        request: impl Fn() -> R + Send + Sync,
    ) -> Result<T, StoreError> {
        self.try_until(action, key, bytes, Stake::Request, request).await.0
    }

    /// Deletes those of `keys` whose answer may be another later: what was deleted is not asked for again. The request as a
    /// whole fails as long as there are such.
    async fn delete_what_is_left(&self, keys: &[Key], answers: &Mutex<Vec<Answer>>) -> Result<(), StoreError> {
        let answers = || answers.lock().unwrap_or_else(PoisonError::into_inner);
        let may_change = |answer: &Answer| match answer {
            Some(Ok(())) => false,
            Some(Err(error)) => error.fault.is_transient(),
            None => true,
        };
        let left: Vec<usize> =
            (0..).zip(answers().iter()).filter(|(_, answer)| may_change(answer)).map(|(at, _)| at).collect();
        let asked: Vec<Key> = left.iter().filter_map(|&at| keys.get(at).cloned()).collect();
        let told = self.inner.delete(&asked).await;
        let mut answers = answers();
        let mut first = None;
        for (at, answer) in left.into_iter().zip(told) {
            if let Err(error) = &answer
                && error.fault.is_transient()
            {
                first.get_or_insert_with(|| again(&error.fault).at("deleting", self.inner.place(), keys.get(at)));
            }
            if let Some(place) = answers.get_mut(at) {
                *place = Some(answer);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// The tag of what is at `key`, if its bytes are `bytes`.
    async fn tag_if_same(&self, key: &Key, bytes: &Bytes) -> Option<Tag> {
        let info = self.head(key).await.ok()?;
        let size = bytes.len() as u64;
        if info.size_bytes != size {
            return None;
        }
        let mut at = 0;
        while at < size {
            let end = (at + COMPARED_BYTES).min(size);
            if self.get(key, at..end).await.ok()? != bytes.slice(at as usize..end as usize) {
                return None;
            }
            at = end;
        }
        info.tag
    }

    /// The tag of what is at `key`, if it was made of `parts` by `put`. All of it is read back and compared with their digests:
    /// it is rare that nobody knows how a completion ended, and another writer's object may well have the name and the
    /// size of ours. Tags prove nothing here: not every store makes them of the content. What is not known to be ours is not ours.
    async fn tag_if_made_of(&self, key: &Key, parts: &[Part], put: &Put) -> Option<Tag> {
        let info = self.head(key).await.ok()?;
        let size: u64 = parts.iter().map(|part| part.size_bytes).sum();
        if info.size_bytes != size || !is_new(&info, put) {
            return None;
        }
        let mut at = 0_u64;
        for part in parts {
            let (end, digest) = (at.saturating_add(part.size_bytes), part.digest?);
            let mut found = Sha256::new();
            while at < end {
                let piece =
                    self.get(key, at..(at + COMPARED_BYTES).min(end)).await.ok().filter(|piece| !piece.is_empty())?;
                found.update(&piece);
                at += piece.len() as u64;
            }
            if digest != <[u8; 32]>::from(found.finalize()) {
                return None;
            }
        }
        info.tag
    }
}

/// How long to wait after the try that was the `attempt`th, from 0.
fn pause(attempt: u32, fault: &Fault, patience: &Patience, dice: f64) -> Duration {
    let doubled = patience.first_pause.saturating_mul(1 << attempt.min(20)).min(patience.longest_pause);
    // Half of it is left to chance, so that those who failed together do not come back together.
    let varied = doubled.mul_f64(0.5 + dice.clamp(0.0, 1.0) / 2.0);
    match fault {
        Fault::Throttled { after: Some(after) } => varied.max(*after),
        _ => varied,
    }
}

impl fmt::Debug for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying").field("inner", &self.inner).field("patience", &self.patience).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Retrying {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn retains(&self) -> Option<Duration> {
        self.inner.retains()
    }

    fn file(&self, key: &Key) -> Option<File> {
        self.inner.file(key)
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        let size = bytes.len() as u64;
        let write = || self.inner.put(key, bytes.clone(), put);
        let (result, may_be_done) = self.try_until("writing", Some(key), size, Stake::Request, write).await;
        match result {
            Err(error) if may_be_done && was_refused(&error.fault) => self.tag_if_same(key, &bytes).await.ok_or(error),
            other => other,
        }
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        // Ranges may be asked for that are much longer than the object.
        let bytes = range.end.saturating_sub(range.start).min(1 << 30);
        self.until_done("reading", Some(key), bytes, || self.inner.get(key, range.clone())).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.until_done("asking for", Some(key), 0, || self.inner.head(key)).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.until_done("reading the labels of", Some(key), 0, || self.inner.labels(key)).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.until_done("asking for", Some(key), 0, || self.inner.retention(key)).await
    }

    async fn keeps_untold(&self) -> Result<bool, StoreError> {
        self.until_done("asking for the policy of", None, 0, || self.inner.keeps_untold()).await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.until_done("listing", None, 0, || self.inner.list(listing)).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let answers = Mutex::new(keys.iter().map(|_| None).collect());
        // Some servers take each by itself: a thousand of them are not done in the time of one.
        let bytes = keys.len() as u64 * 8192;
        let failed = self.until_done("deleting", None, bytes, || self.delete_what_is_left(keys, &answers)).await.err();

        let unanswered = |key: &Key| {
            let fault = failed.as_ref().map_or(Fault::TimedOut { after: self.patience.request }, |e| again(&e.fault));
            Err(fault.at("deleting", self.inner.place(), Some(key)))
        };
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        keys.iter().zip(answers).map(|(key, answer)| answer.unwrap_or_else(|| unanswered(key))).collect()
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.until_done("beginning", Some(key), 0, || self.inner.begin(key, put)).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        let key = Key::parse(&upload.key).ok();
        let write = || self.inner.put_part(upload, index, bytes.clone());
        let size = bytes.len() as u64;
        let (part, _) = self.try_until("writing a part of", key.as_ref(), size, Stake::Upload, write).await;
        let part = part?;
        // What the object is known by, should nobody know how its completion ended. Some stores need it too, and tell it.
        let digest = part.digest.unwrap_or_else(|| Sha256::digest(&bytes).into());
        Ok(Part { digest: Some(digest), ..part })
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        let key = Key::parse(&upload.key).ok();
        let size: u64 = parts.iter().map(|part| part.size_bytes).sum();
        // Some stores copy all of it now.
        let complete = || self.inner.complete(upload, parts, put);
        let (result, may_be_done) = self.try_until("completing", key.as_ref(), size, Stake::Upload, complete).await;
        match (result, key) {
            (Err(error), Some(key)) if may_be_done && !error.fault.is_transient() => {
                // Something is there, or the upload is gone, in whichever words: it was finished by us, or somebody else was quicker.
                self.tag_if_made_of(&key, parts, put).await.ok_or(error)
            }
            (result, _) => result,
        }
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        let key = Key::parse(&upload.key).ok();
        self.until_done("giving up", key.as_ref(), 0, || self.inner.abort(upload)).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.until_done("listing uploads of", None, 0, || self.inner.uploads(prefix)).await
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.until_done("keeping", Some(key), 0, || self.inner.retain(key, retention)).await
    }
}

fn was_refused(fault: &Fault) -> bool {
    matches!(fault, Fault::Exists | Fault::Changed)
}

/// Whether this is not what was to be replaced.
fn is_new(info: &Info, put: &Put) -> bool {
    !matches!(&put.when, When::Unchanged(old) if info.tag.as_ref() == Some(old))
}

/// A transient fault once more, for another place.
fn again(fault: &Fault) -> Fault {
    match fault {
        Fault::Throttled { after } => Fault::Throttled { after: *after },
        Fault::TimedOut { after } => Fault::TimedOut { after: *after },
        other => Fault::Unavailable { what: other.to_string(), source: None },
    }
}

#[cfg(test)]
mod tests;
