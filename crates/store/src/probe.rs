//! Tries what a store can do, and what we may do there, before it matters.
//!
//! A store may not do what its settings say, and whoever set it up may have forgotten a permission. Everything is tried with
//! objects in a folder of its own, which are gone afterwards. What a probe that was killed has left, a later one deletes.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tokio::time::timeout;

use crate::error::{Fault, StoreError};
use crate::key::{Key, NotAKey};
use crate::object::{Listing, Put, Retention, Tag};
use crate::store::{Abilities, Store};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trial {
    /// Writing an object.
    Put,
    /// Reading it.
    Get,
    /// Asking for it.
    Head,
    /// Listing it.
    List,
    /// Writing only where nothing is, and being refused where something is.
    PutIfAbsent,
    /// Replacing only what has not changed, and being refused if it has.
    PutIfUnchanged,
    /// Writing part by part.
    Upload,
    /// Giving an upload up, after finding it.
    GiveUp,
    /// Asking what keeps an object from being deleted.
    Kept,
    /// Writing one that the store is told to keep, in one piece and in parts, and being told that it does.
    Retain,
    /// Deleting.
    Delete,
}

impl Trial {
    /// It in a word, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::PutIfAbsent => "put-if-absent",
            Self::PutIfUnchanged => "put-if-unchanged",
            Self::Upload => "upload",
            Self::GiveUp => "give-up",
            Self::Kept => "kept",
            Self::Retain => "retain",
            Self::Delete => "delete",
        }
    }
}

/// What came of all trials.
#[derive(Debug)]
pub struct Probe {
    /// Each trial in turn. What depends on one that failed was not tried.
    pub results: Vec<Tried>,
    /// Objects that could not be deleted.
    pub left: Vec<Key>,
    /// What keeps an object there that nobody told the store to keep. Without a time and a hold, the place keeps it and does not
    /// tell until when.
    pub kept: Option<Retention>,
    /// The object that the store was told to keep, and until when it stays.
    pub retained: Option<(Key, Timestamp)>,
    /// When the store says that the first object was written, if it told.
    pub clock: Option<StoreClock>,
}

/// What came of one trial.
#[derive(Debug)]
pub struct Tried {
    /// Which.
    pub trial: Trial,
    /// Whether it works.
    pub result: Result<(), StoreError>,
    /// How long it took.
    pub took: Duration,
}

/// One moment by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreClock {
    /// Before the object was sent, by ours.
    pub sent: Timestamp,
    /// After it was acknowledged, by ours.
    pub acknowledged: Timestamp,
    /// When it was written, by the store's, which may leave out parts of a second.
    pub written: Timestamp,
}

impl Probe {
    /// Whether this was tried and works.
    pub fn works(&self, trial: Trial) -> bool {
        self.results.iter().any(|tried| tried.trial == trial && tried.result.is_ok())
    }

    fn fails(&self, trial: Trial) -> bool {
        self.results.iter().any(|tried| tried.trial == trial && tried.result.is_err())
    }

    /// What the store can do: what it says, as far as that is true.
    pub fn abilities(&self, told: Abilities) -> Abilities {
        Abilities {
            put_if_absent: told.put_if_absent && self.works(Trial::PutIfAbsent),
            put_if_unchanged: told.put_if_unchanged && self.works(Trial::PutIfUnchanged),
            retention: told.retention && self.works(Trial::Kept) && !self.fails(Trial::Retain),
            uploads: told.uploads && self.works(Trial::GiveUp),
            ..told
        }
    }
}

/// What a probe has left is deleted by the next one when it is older.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

/// The store is told to keep an object for so long, or for as long as it is told to keep what lasts if that is less. No store wants
/// more, and until then it may stay there: a later probe deletes it.
const RETAINED: SignedDuration = SignedDuration::from_mins(1);

/// Tries everything that the store says it can do, in the folder `folder`, which nobody else uses. No trial takes longer than
/// `within`. That objects are kept is tried where the store is told to keep what lasts, and in the very way.
pub async fn probe(store: &dyn Store, folder: &str, within: Duration) -> Result<Probe, NotAKey> {
    let scratch = Scratch::new(store, folder, within)?;
    let abilities = store.abilities();
    let mut results = Vec::new();

    let (mut written, mut clock, mut kept, mut retained) = (None, None, None, None);
    let sent = Timestamp::now();
    results.push(scratch.tried(Trial::Put, async { scratch.put().await.map(|tag| written = Some(tag)) }).await);
    let acknowledged = Timestamp::now();
    results.push(scratch.tried(Trial::List, scratch.list(written.is_some())).await);
    if let Some(tag) = written {
        results.push(scratch.tried(Trial::Get, scratch.get()).await);
        let head = async {
            let written = scratch.head().await?;
            clock = Some(StoreClock { sent, acknowledged, written });
            Ok(())
        };
        results.push(scratch.tried(Trial::Head, head).await);
        if abilities.put_if_absent {
            results.push(scratch.tried(Trial::PutIfAbsent, scratch.put_if_absent()).await);
        }
        if abilities.put_if_unchanged {
            results.push(scratch.tried(Trial::PutIfUnchanged, scratch.put_if_unchanged(tag)).await);
        }
        results.push(scratch.tried(Trial::Upload, scratch.upload()).await);
        if abilities.uploads {
            results.push(scratch.tried(Trial::GiveUp, scratch.give_up()).await);
        }
        if abilities.retention {
            let asked = async { scratch.kept_untold().await.map(|told| kept = told) };
            results.push(scratch.tried(Trial::Kept, asked).await);
        }
        if let Some(span) = store.retains() {
            // A time that is over by either clock is refused.
            let now = clock.map_or(acknowledged, |clock: StoreClock| clock.written.max(acknowledged));
            let until = now + RETAINED.min(SignedDuration::try_from(span).unwrap_or(RETAINED));
            results.push(scratch.tried(Trial::Retain, scratch.retain(until)).await);
            retained = Some((scratch.retained.clone(), until));
        }
    }
    let mut left = vec![scratch.plain.clone(), scratch.parts.clone()];
    results.push(scratch.tried(Trial::Delete, scratch.delete(&mut left)).await);
    if let Some((key, _)) = &retained {
        // It is to stay. A store that keeps versions takes it out of sight all the same.
        let gone = timeout(within, store.delete(std::slice::from_ref(key))).await;
        retained = retained.filter(|_| !gone.is_ok_and(|gone| gone.iter().all(Result::is_ok)));
    }
    let _ = timeout(within, scratch.sweep(acknowledged)).await;
    Ok(Probe { results, left, kept, retained, clock })
}

struct Scratch<'s> {
    store: &'s dyn Store,
    within: Duration,
    /// Where this and all other probes have theirs.
    above: String,
    folder: String,
    plain: Key,
    parts: Key,
    dropped: Key,
    retained: Key,
}

const TEXT: &str = "This was written to see whether it can be. It may be deleted.\n";

impl<'s> Scratch<'s> {
    fn new(store: &'s dyn Store, folder: &str, within: Duration) -> Result<Self, NotAKey> {
        let above = folder.trim_matches('/').to_owned();
        let folder = format!("{above}/{:016x}", rand::random::<u64>());
        let folder = folder.trim_start_matches('/').to_owned();
        let key = |name: &str| Key::parse(format!("{folder}/{name}"));
        let (plain, parts, dropped, retained) = (key("plain")?, key("parts")?, key("dropped")?, key("retained")?);
        Ok(Self { store, within, above, folder, plain, parts, dropped, retained })
    }

    /// What comes of a trial, within the time that it has.
    async fn tried(&self, trial: Trial, work: impl Future<Output = Result<(), StoreError>>) -> Tried {
        let begun = Instant::now();
        let late = || Fault::TimedOut { after: self.within }.at("trying", self.store.place(), Some(&self.plain));
        let result = timeout(self.within, work).await.unwrap_or_else(|_| Err(late()));
        Tried { trial, result, took: begun.elapsed() }
    }

    fn differs(&self, what: &str) -> StoreError {
        Fault::Nonsense(what.to_owned()).at("trying", self.store.place(), Some(&self.plain))
    }

    fn unable(&self, what: &'static str) -> StoreError {
        Fault::Unable(what).at("trying", self.store.place(), Some(&self.plain))
    }

    async fn put(&self) -> Result<Tag, StoreError> {
        self.store.put(&self.plain, TEXT.into(), &Put::default()).await
    }

    async fn get(&self) -> Result<(), StoreError> {
        match self.store.get(&self.plain, 5..1000).await? == TEXT.get(5..).unwrap_or_default() {
            true => Ok(()),
            false => Err(self.differs("what is read is not what was written")),
        }
    }

    /// When it was written.
    async fn head(&self) -> Result<Timestamp, StoreError> {
        let info = self.store.head(&self.plain).await?;
        match info.size_bytes == TEXT.len() as u64 {
            true => Ok(info.modified),
            false => Err(self.differs("it has another size than what was written")),
        }
    }

    async fn list(&self, has_any: bool) -> Result<(), StoreError> {
        let page = self.store.list(&Listing::below(&*self.folder)).await?;
        match page.objects.iter().any(|info| info.key == self.plain) == has_any {
            true => Ok(()),
            false => Err(self.differs("what was written is not listed")),
        }
    }

    async fn put_if_absent(&self) -> Result<(), StoreError> {
        match self.store.put(&self.plain, TEXT.into(), &Put::if_absent()).await {
            // Where the place keeps everything, that may be said first; what is there is not replaced either way.
            Err(StoreError { fault: Fault::Exists | Fault::Retained { .. }, .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(self.unable("put only if nothing is there: it does so in any case")),
        }
    }

    async fn put_if_unchanged(&self, tag: Tag) -> Result<(), StoreError> {
        // Another put may have been carried out above although it was not to be.
        let tag = self.store.head(&self.plain).await?.tag.unwrap_or(tag);
        let newer =
            self.store.put(&self.plain, format!("{TEXT}{TEXT}").into(), &Put::if_unchanged(tag.clone())).await?;
        let stale = self.store.put(&self.plain, TEXT.into(), &Put::if_unchanged(tag)).await;
        match stale {
            Err(StoreError { fault: Fault::Changed, .. }) => drop(newer),
            Err(error) => return Err(error),
            Ok(_) => return Err(self.unable("replace only if unchanged: it does so in any case")),
        }
        Ok(())
    }

    async fn upload(&self) -> Result<(), StoreError> {
        let upload = self.store.begin(&self.parts, &Put::default()).await?;
        let written = async {
            let part = self.store.put_part(&upload, 0, Bytes::from_static(TEXT.as_bytes())).await?;
            self.store.complete(&upload, &[part], &Put::default()).await
        };
        match written.await {
            Ok(_) => Ok(()),
            Err(error) => {
                let _ = self.store.abort(&upload).await;
                Err(error)
            }
        }
    }

    async fn give_up(&self) -> Result<(), StoreError> {
        let upload = self.store.begin(&self.dropped, &Put::default()).await?;
        let found = self.store.uploads(&format!("{}/", self.folder)).await;
        self.store.abort(&upload).await?;
        match found?.iter().any(|found| found.id == upload.id) {
            true => Ok(()),
            false => Err(self.differs("an upload that was begun is not listed")),
        }
    }

    async fn kept_untold(&self) -> Result<Option<Retention>, StoreError> {
        match self.store.retention(&self.plain).await? {
            None if self.store.keeps_untold().await? => Ok(Some(Retention::default())),
            told => Ok(told),
        }
    }

    async fn retain(&self, until: Timestamp) -> Result<(), StoreError> {
        let retention = Some(Retention { until: Some(until), legal_hold: false });
        let put = Put { retention, ..Put::lasting(self.store.abilities()) };
        let upload = self.store.begin(&self.dropped, &put).await?;
        let _ = self.store.abort(&upload).await;
        self.store.put(&self.retained, TEXT.into(), &put).await?;
        let told = self.store.retention(&self.retained).await?.and_then(|kept| kept.until);
        // Stores keep whole seconds.
        match told >= Some(until - SignedDuration::from_secs(1)) {
            true => Ok(()),
            false => Err(self.differs("it took what it was told to keep, and does not tell that it keeps it")),
        }
    }

    /// Deletes what is in `left`, and leaves there what could not be.
    async fn delete(&self, left: &mut Vec<Key>) -> Result<(), StoreError> {
        let mut first = Ok(());
        let keys = left.clone();
        for (key, result) in keys.iter().zip(self.store.delete(&keys).await) {
            match result {
                Ok(()) => left.retain(|other| other != key),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// Deletes what a probe that was killed has left. Names that are not a probe's are left alone.
    async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        if self.above.is_empty() {
            return Ok(());
        }
        let page = self.store.list(&Listing::below(&*self.above)).await?;
        let old = page.objects.iter().filter(|info| now.duration_since(info.modified) > FORGOTTEN);
        let forgotten: Vec<Key> =
            old.filter(|info| self.is_of_a_probe(&info.key)).map(|info| info.key.clone()).collect();
        self.store.delete(&forgotten).await.into_iter().collect()
    }

    fn is_of_a_probe(&self, key: &Key) -> bool {
        let rest = key.as_str().strip_prefix(&self.above).and_then(|rest| rest.strip_prefix('/'));
        rest.and_then(|rest| rest.split_once('/')).is_some_and(|(drawn, name)| {
            drawn.len() == 16
                && drawn.bytes().all(|byte| byte.is_ascii_hexdigit())
                && matches!(name, "plain" | "parts" | "dropped" | "retained")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::memory::Memory;
    use crate::retaining::Retaining;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_a_killed_probe_has_left_goes_and_nothing_else() {
        let start: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
        let store = Memory::new().with_clock(Arc::new(move || start));
        let of_probes = ["plain", "retained", "other"].map(|name| format!("doctor/0123456789abcdef/{name}"));
        for name in of_probes.iter().map(String::as_str).chain(["doctor/plain", "doctors/x"]) {
            store.put(&Key::parse(name).unwrap(), TEXT.into(), &Put::default()).await.unwrap();
        }
        probe(&store, "doctor", LONG).await.unwrap();
        let page = store.list(&Listing::default()).await.unwrap();
        let left: Vec<&str> = page.objects.iter().map(|info| info.key.as_str()).collect();
        assert_eq!(left, ["doctor/0123456789abcdef/other", "doctor/plain", "doctors/x"]);
    }

    #[tokio::test]
    async fn what_a_store_can_do_is_found_out_and_nothing_is_left() {
        let store = Memory::new();
        let probe = probe(&store, "doctor", LONG).await.unwrap();

        assert!(probe.results.iter().all(|tried| tried.result.is_ok()), "{probe:?}");
        assert_eq!((probe.results.len(), probe.left), (10, vec![]));
        assert_eq!((probe.kept, probe.retained), (None, None));
        assert!(probe.clock.is_some_and(|clock| clock.sent <= clock.acknowledged));
        assert_eq!(store.list(&Listing::default()).await.unwrap().objects, []);
        assert_eq!(store.uploads("").await.unwrap(), []);
    }

    /// What is tried is kept as what lasts is, but not for as long; and whoever tries later takes it away.
    #[tokio::test]
    async fn where_what_lasts_is_kept_one_object_stays_for_a_minute() {
        let begun = Timestamp::now();
        let clock = Arc::new(Mutex::new(begun - SignedDuration::from_hours(2)));
        let told = Arc::clone(&clock);
        let memory = Arc::new(Memory::new().with_clock(Arc::new(move || *told.lock().unwrap())));
        let store = Retaining::new(Arc::clone(&memory) as _, Duration::from_secs(30 * 86_400)).unwrap();
        let there = async || {
            let page = memory.list(&Listing::default()).await.unwrap();
            page.objects.into_iter().map(|info| info.key).collect::<Vec<_>>()
        };
        let first = probe(&store, "doctor", LONG).await.unwrap();

        assert!(first.works(Trial::Retain) && first.results.iter().all(|tried| tried.result.is_ok()), "{first:?}");
        assert_eq!((first.left, first.kept), (vec![], None));
        let (key, until) = first.retained.unwrap();
        let minute = begun + RETAINED..=Timestamp::now() + RETAINED;
        assert!(minute.contains(&until), "{until} is not in {minute:?}");
        assert_eq!(there().await, std::slice::from_ref(&key));
        let refused = memory.delete(std::slice::from_ref(&key)).await.remove(0).unwrap_err();
        assert!(matches!(refused.fault, Fault::Retained { .. }), "{refused:?}");

        *clock.lock().unwrap() = until;
        let (second, _) = probe(&store, "doctor", LONG).await.unwrap().retained.unwrap();
        assert_eq!(there().await, [second]);
    }

    #[tokio::test]
    async fn what_it_says_it_cannot_do_is_not_tried() {
        let memory = Memory::new();
        let abilities =
            Abilities { put_if_absent: false, put_if_unchanged: false, retention: false, ..memory.abilities() };
        let store = memory.with_abilities(abilities);
        let probe = probe(&store, "", LONG).await.unwrap();
        assert!(probe.results.iter().all(|tried| tried.result.is_ok()), "{probe:?}");
        assert_eq!(probe.abilities(abilities), abilities);
    }
}
