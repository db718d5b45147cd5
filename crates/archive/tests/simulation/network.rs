//! The way from one actor to the store: what is sent may arrive late, and whoever sends may die at any request.
//!
//! Reading changes nothing, so dying at a read is dying before the next request that does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Abilities, Fault, Info, Key, Listing, Memory, Page, Part, Put, Retention, Store, StoreError, Tag, Upload};
use testkit::ManualClock;

/// What has been sent and has not arrived.
pub(crate) type Sea = Arc<Mutex<Vec<Late>>>;

/// A request that arrives after whoever made it has stopped waiting.
pub(crate) struct Late {
    pub(crate) arrives: Duration,
    pub(crate) what: Request,
}

#[derive(Clone)]
pub(crate) enum Request {
    Put(Key, Bytes, Put),
    Complete(Upload, Vec<Part>, Put),
}

impl Request {
    pub(crate) async fn carry_out(&self, store: &dyn Store) -> Result<Tag, StoreError> {
        match self {
            Self::Put(key, bytes, put) => store.put(key, bytes.clone(), put).await,
            Self::Complete(upload, parts, put) => store.complete(upload, parts, put).await,
        }
    }
}

/// What may happen to an actor's requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    /// How likely what is sent arrives late.
    pub(crate) late: f64,
    /// After how many changes it dies; before the last of them is carried out, or after.
    pub(crate) dies: Option<(u32, bool)>,
    /// Larger objects are sent in parts of this size.
    pub(crate) piece_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Network {
    inner: Arc<Memory>,
    sea: Sea,
    clock: ManualClock,
    /// When all began.
    began: jiff::Timestamp,
    piece_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    fate: Fate,
    is_dead: bool,
    stalls: u64,
    late: u64,
}

impl std::fmt::Debug for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Late").field("arrives", &self.arrives).finish_non_exhaustive()
    }
}

/// What becomes of a request.
enum Lot {
    Arrives,
    Late(Duration),
    DiesBefore,
    DiesAfter,
}

impl Network {
    pub(crate) fn new(
        inner: Arc<Memory>,
        sea: Sea,
        clock: ManualClock,
        began: jiff::Timestamp,
        fate: Fate,
        seed: u64,
    ) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let state = State { random, fate, is_dead: false, stalls: 0, late: 0 };
        Self { inner, sea, clock, began, piece_bytes: fate.piece_bytes, state: Mutex::new(state) }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().unwrap().is_dead
    }

    /// How many requests took long, and how many arrived late.
    pub(crate) fn told(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        (state.stalls, state.late)
    }

    fn living(&self) -> Result<(), StoreError> {
        if self.is_dead() { Err(dead()) } else { Ok(()) }
    }

    fn draw(&self) -> Lot {
        let mut state = self.state.lock().unwrap();
        // A put takes its time, and whoever has sent it does not notice.
        if state.random.random_ratio(1, 30) {
            state.stalls += 1;
            self.clock.advance(Duration::from_secs(state.random.random_range(1..60)));
        }
        if let Some((left, after)) = &mut state.fate.dies {
            *left = left.saturating_sub(1);
            if *left == 0 {
                let after = *after;
                state.is_dead = true;
                return if after { Lot::DiesAfter } else { Lot::DiesBefore };
            }
        }
        let likelihood = state.fate.late;
        if state.random.random_bool(likelihood) {
            state.late += 1;
            let longest = if state.random.random_ratio(1, 4) { 3000 } else { 60 };
            return Lot::Late(Duration::from_secs(state.random.random_range(1..longest)));
        }
        Lot::Arrives
    }

    async fn send(&self, what: Request) -> Result<Tag, StoreError> {
        self.living()?;
        match self.draw() {
            Lot::Arrives => what.carry_out(&*self.inner).await,
            Lot::Late(by) => {
                let now = self.clock.now().duration_since(self.began).unsigned_abs();
                self.sea.lock().unwrap().push(Late { arrives: now + by, what });
                Err(Fault::TimedOut { after: Duration::from_secs(30) }.at("sending", "the sea", None))
            }
            Lot::DiesBefore => Err(dead()),
            Lot::DiesAfter => {
                drop(what.carry_out(&*self.inner).await);
                Err(dead())
            }
        }
    }
}

fn dead() -> StoreError {
    Fault::Forbidden("whoever asks is dead".into()).at("asking", "the sea", None)
}

#[async_trait]
impl Store for Network {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn abilities(&self) -> Abilities {
        let Abilities { part_bytes, .. } = self.inner.abilities();
        Abilities {
            max_put_bytes: self.piece_bytes,
            part_bytes: (1, part_bytes.1.min(self.piece_bytes)),
            ..self.inner.abilities()
        }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.send(Request::Put(key.clone(), bytes, put.clone())).await
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.living()?;
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.living()?;
        self.inner.head(key).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.living()?;
        self.inner.labels(key).await
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.living()?;
        self.inner.list(listing).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::new();
        for key in keys {
            let one = std::slice::from_ref(key);
            results.push(match self.living().map(|()| self.draw()) {
                Err(error) => Err(error),
                Ok(Lot::DiesBefore) => Err(dead()),
                Ok(Lot::DiesAfter) => self.inner.delete(one).await.pop().unwrap().and(Err(dead())),
                Ok(_) => self.inner.delete(one).await.pop().unwrap(),
            });
        }
        results
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.living()?;
        self.inner.begin(key, put).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.living()?;
        self.inner.put_part(upload, index, bytes).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.send(Request::Complete(upload.clone(), parts.to_vec(), put.clone())).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.living()?;
        self.inner.abort(upload).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.living()?;
        self.inner.uploads(prefix).await
    }

    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.living()?;
        self.inner.retain(key, retention).await
    }
}
