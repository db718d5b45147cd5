use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::Distrust;
use crate::memory::Memory;

/// What happens to the next requests, in turn; then all goes well.
#[derive(Debug)]
struct Scripted {
    inner: Memory,
    script: Mutex<Vec<Event>>,
    asked: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Fails,
    Throttles(u64),
    LosesTheAnswer,
    Stalls,
    Answers(fn() -> Fault),
}

/// What does not pass by waiting.
const FOR_GOOD: [fn() -> Fault; 17] = [
    || Fault::NotFound,
    || Fault::NoSuchPlace,
    || Fault::Exists,
    || Fault::Changed,
    || Fault::Retained { until: None },
    || Fault::Credentials("unknown".into()),
    || Fault::Untrusted(Distrust::UnknownAuthority),
    || Fault::Forbidden("no".into()),
    || Fault::OtherKey("another".into()),
    || Fault::ForbiddenOrOtherKey("no".into()),
    || Fault::WrongRegion { region: None },
    || Fault::ClockSkew,
    || Fault::Full,
    || Fault::NoSuchUpload,
    || Fault::Damaged("half of it".into()),
    || Fault::Invalid("nonsense".into()),
    || Fault::Unable("do that"),
];

impl Scripted {
    fn new(script: &[Event]) -> Arc<Self> {
        let script = Mutex::new(script.iter().rev().copied().collect());
        Arc::new(Self { inner: Memory::new(), script, asked: AtomicUsize::new(0) })
    }

    async fn play<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let event = self.script.lock().unwrap().pop();
        let failed = || Fault::Unavailable { what: "gone".into(), source: None };
        let fault = match event {
            None => return request.await,
            Some(Event::Fails) => failed(),
            Some(Event::Throttles(seconds)) => Fault::Throttled { after: Some(Duration::from_secs(seconds)) },
            Some(Event::LosesTheAnswer) => {
                drop(request.await);
                failed()
            }
            Some(Event::Stalls) => std::future::pending().await,
            Some(Event::Answers(fault)) => fault(),
        };
        Err(fault.at("trying", "memory:", None))
    }
}

#[async_trait]
impl Store for Scripted {
    fn place(&self) -> &str {
        "memory:"
    }
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }
    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        self.play(self.inner.put(key, bytes, put)).await
    }
    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.play(self.inner.get(key, range)).await
    }
    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.play(self.inner.head(key)).await
    }
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.play(self.inner.list(listing)).await
    }
    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::new();
        for key in keys {
            let one = self.inner.delete(std::slice::from_ref(key));
            results.push(self.play(async { one.await.remove(0) }).await);
        }
        results
    }
    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.inner.begin(key, put).await
    }
    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.play(self.inner.put_part(upload, index, bytes)).await
    }
    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.play(self.inner.complete(upload, parts, put)).await
    }
    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.inner.abort(upload).await
    }
    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.inner.uploads(prefix).await
    }
    async fn retain(&self, key: &Key, retention: Retention) -> Result<(), StoreError> {
        self.inner.retain(key, retention).await
    }
}

fn retrying(inner: &Arc<Scripted>, patience: Patience) -> Retrying {
    Retrying::with_dice(Arc::clone(inner) as Arc<dyn Store>, patience, Box::new(|| 1.0))
}

fn key() -> Key {
    Key::parse("writer.json").unwrap()
}

async fn seconds<T>(work: impl Future<Output = T>) -> (T, f64) {
    let begin = Instant::now();
    let result = work.await;
    (result, begin.elapsed().as_secs_f64())
}

#[tokio::test(start_paused = true)]
async fn what_may_succeed_later_is_tried_again_after_longer_and_longer_pauses() {
    let inner = Scripted::new(&[Event::Fails; 4]);
    let store = retrying(&inner, Patience::default());
    let (result, took) = seconds(store.put(&key(), "x".into(), &Put::default())).await;

    result.unwrap();
    assert_eq!(inner.asked.load(Ordering::Relaxed), 5);
    // 0.1 + 0.2 + 0.4 + 0.8
    assert!((1.5..1.6).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn the_store_says_when_to_come_again() {
    let inner = Scripted::new(&[Event::Throttles(7)]);
    let (result, took) = seconds(retrying(&inner, Patience::default()).list(&Listing::default())).await;
    result.unwrap();
    assert!((7.0..7.1).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn no_time_is_too_long_for_a_clock() {
    let inner = Scripted::new(&[Event::Throttles(u64::MAX)]);
    let (result, took) = seconds(retrying(&inner, Patience::default()).list(&Listing::default())).await;
    let fault = result.unwrap_err().fault;
    assert!(matches!(fault, Fault::Throttled { .. }), "{fault:?}");
    assert!(took < 0.1, "{took}");

    let inner = Scripted::new(&[Event::Fails]);
    let patience = Patience { request: Duration::MAX, total: Duration::MAX, ..Patience::default() };
    retrying(&inner, patience).list(&Listing::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_good_is_not_tried_again() {
    for answered in FOR_GOOD {
        let inner = Scripted::new(&[Event::Answers(answered)]);
        let listed = retrying(&inner, Patience::default()).list(&Listing::default()).await;
        let told = listed.map_err(|error| error.fault.to_string()).map(drop);
        assert_eq!((told, inner.asked.load(Ordering::Relaxed)), (Err(answered().to_string()), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_stalls_is_given_up_and_made_anew() {
    let inner = Scripted::new(&[Event::Stalls]);
    let (result, took) = seconds(retrying(&inner, Patience::default()).list(&Listing::default())).await;
    result.unwrap();
    assert!((30.0..31.0).contains(&took), "{took}");
    // Much data may take longer than little.
    let inner = Scripted::new(&[Event::Stalls]);
    let store = retrying(&inner, Patience::default());
    let upload = store.begin(&key(), &Put::default()).await.unwrap();
    let (result, took) = seconds(store.put_part(&upload, 0, vec![0; 640 << 10].into())).await;
    result.unwrap();
    assert!((40.0..41.0).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let inner = Scripted::new(&[Event::Fails; 1000]);
    let patience = Patience { spare_tries: 1000, ..Patience::default() };
    let (result, took) = seconds(retrying(&inner, patience).list(&Listing::default())).await;

    let fault = result.unwrap_err().fault;
    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    assert!((250.0..=300.0).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_store_is_not_hammered() {
    let inner = Scripted::new(&[Event::Fails; 10_000]);
    let store = retrying(&inner, Patience { spare_tries: 20, ..Patience::default() });
    for _ in 0..100 {
        store.list(&Listing::default()).await.unwrap_err();
    }
    // One each, and the spare ones.
    assert_eq!(inner.asked.load(Ordering::Relaxed), 120);

    inner.script.lock().unwrap().clear();
    for _ in 0..100 {
        store.list(&Listing::default()).await.unwrap();
    }
    *inner.script.lock().unwrap() = vec![Event::Fails; 5];
    store.list(&Listing::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_written_and_not_answered_was_written() {
    let inner = Scripted::new(&[Event::LosesTheAnswer]);
    let store = retrying(&inner, Patience::default());
    let tag = store.put(&key(), "mine".into(), &Put::if_absent()).await.unwrap();
    assert_eq!(store.head(&key()).await.unwrap().tag, Some(tag.clone()));

    inner.script.lock().unwrap().push(Event::LosesTheAnswer);
    let newer = store.put(&key(), "mine too".into(), &Put::if_unchanged(tag)).await.unwrap();
    assert_eq!(store.head(&key()).await.unwrap().tag, Some(newer));
}

#[tokio::test(start_paused = true)]
async fn what_another_wrote_is_another_s() {
    for (ours, theirs) in [("mine", "another's"), ("mine", "nine"), ("mine", "")] {
        let inner = Scripted::new(&[Event::Fails]);
        inner.inner.put(&key(), theirs.into(), &Put::default()).await.unwrap();
        let fault =
            retrying(&inner, Patience::default()).put(&key(), ours.into(), &Put::if_absent()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Exists), "{fault:?}");
    }
    // Without a failure before, nothing is looked at: what is there is another's, whatever it is.
    let inner = Scripted::new(&[]);
    inner.inner.put(&key(), "mine".into(), &Put::default()).await.unwrap();
    retrying(&inner, Patience::default()).put(&key(), "mine".into(), &Put::if_absent()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_not_answered_is_found() {
    let inner = Scripted::new(&[]);
    let store = retrying(&inner, Patience::default());
    let upload = store.begin(&key(), &Put::if_absent()).await.unwrap();
    let part = store.put_part(&upload, 0, "all of it".into()).await.unwrap();
    inner.script.lock().unwrap().push(Event::LosesTheAnswer);
    let tag = store.complete(&upload, std::slice::from_ref(&part), &Put::if_absent()).await.unwrap();
    assert_eq!(store.head(&key()).await.unwrap().tag, Some(tag));

    // Given up by somebody else: that is no success.
    store.delete(&[key()]).await;
    let upload = store.begin(&key(), &Put::if_absent()).await.unwrap();
    store.abort(&upload).await.unwrap();
    inner.script.lock().unwrap().push(Event::Fails);
    let fault = store.complete(&upload, &[part], &Put::if_absent()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NoSuchUpload), "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_not_taken_for_that_of_another_of_the_same_size() {
    let inner = Scripted::new(&[]);
    let store = retrying(&inner, Patience::default());
    let upload = store.begin(&key(), &Put::if_absent()).await.unwrap();
    let parts = [
        store.put_part(&upload, 0, "our ".into()).await.unwrap(),
        store.put_part(&upload, 1, "own".into()).await.unwrap(),
    ];
    let complete = async |theirs: &'static str, parts: &[Part]| {
        inner.inner.put(&key(), theirs.into(), &Put::default()).await.unwrap();
        inner.script.lock().unwrap().push(Event::Fails);
        store.complete(&upload, parts, &Put::if_absent()).await.map_err(|error| error.fault)
    };
    for theirs in ["not one", "our one", "longer than ours"] {
        let completed = complete(theirs, &parts).await;
        assert!(matches!(completed, Err(Fault::Exists)), "{theirs}: {completed:?}");
    }
    complete("our own", &parts).await.unwrap();
    // Of parts that another has written nobody knows what they hold.
    let unknown = parts.map(|part| Part { digest: None, ..part });
    let completed = complete("our own", &unknown).await;
    assert!(matches!(completed, Err(Fault::Exists)), "{completed:?}");
}

#[tokio::test(start_paused = true)]
async fn only_what_was_not_deleted_is_deleted_again() {
    let inner = Scripted::new(&[]);
    let keys: Vec<Key> = (0..4).map(|at| Key::parse(format!("a/{at}")).unwrap()).collect();
    for key in &keys {
        inner.inner.put(key, "x".into(), &Put::default()).await.unwrap();
    }
    let forbidden = || Fault::Forbidden("no".into());
    *inner.script.lock().unwrap() = vec![Event::Answers(forbidden), Event::LosesTheAnswer, Event::Fails];
    let results = retrying(&inner, Patience::default()).delete(&keys).await;

    let faults: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(faults, [true, true, false, true]);
    assert_eq!(inner.asked.load(Ordering::Relaxed), 6);
    assert_eq!(inner.inner.list(&Listing::default()).await.unwrap().objects.len(), 1);
}

#[test]
fn pauses_vary_by_half_and_have_an_end() {
    let patience = Patience::default();
    let failed = Fault::Unavailable { what: String::new(), source: None };
    assert_eq!(pause(0, &failed, &patience, 0.0), Duration::from_millis(50));
    assert_eq!(pause(3, &failed, &patience, 1.0), Duration::from_millis(800));
    assert_eq!(pause(1000, &failed, &patience, 1.0), patience.longest_pause);
    let told = Fault::Throttled { after: Some(Duration::from_secs(60)) };
    assert_eq!(pause(0, &told, &patience, 0.5), Duration::from_secs(60));
}
