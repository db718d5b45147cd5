//! What every store promises, one case per promise, called for each of them: memory and a folder in
//! `memory_and_folder.rs`, the others, with their real servers, in `real_*.rs`.
//!
//! `contract!(open)` makes a test of each case. `open` is an async function that opens the same place anew each time.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use store::{Fault, Info, Key, Listing, Part, Put, Retention, Store, StoreError, Tag, Upload};

/// Makes a test of every case.
#[macro_export]
macro_rules! contract {
    ($open:path) => {
        $crate::contract!($open:
            what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
            a_put_replaces, only_one_of_many_is_first, no_change_is_lost_among_many, a_stale_tag_replaces_nothing,
            listings_are_in_order_of_bytes, listings_go_on_after_a_key, a_folder_is_not_its_namesakes, odd_names_are_names,
            many_are_deleted_at_once, metadata_comes_back, labels_come_back, parts_come_in_any_order, an_upload_is_gone_on_with_by_another,
            an_upload_is_given_up, nothing_shows_before_it_is_complete, completion_keeps_its_condition,
            what_is_retained_stays,
        );
    };
    ($open:path: $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let first = $open().await;
                let second = $open().await;
                $crate::contract::$case(first, second).await;
            }
        )+
    };
}

type Opened = Arc<dyn Store>;

pub async fn what_is_put_is_read_back(store: Opened, other: Opened) {
    let key = scratch().key("full/1.full");
    let tag = store.put(&key, "something".into(), &Put::default()).await.unwrap();

    for store in [&store, &other] {
        assert_eq!(store.get(&key, 0..100).await.unwrap(), "something");
        let info = store.head(&key).await.unwrap();
        assert_eq!((info.key, info.size_bytes), (key.clone(), 9));
        assert_eq!(info.tag, Some(tag.clone()));
        let age = Timestamp::now().duration_since(info.modified).abs();
        assert!(age < SignedDuration::from_mins(5), "written {age:?} ago");
    }
}

pub async fn an_empty_object_is_an_object(store: Opened, _: Opened) {
    let scratch = scratch();
    let key = scratch.key("nothing");
    store.put(&key, Bytes::new(), &Put::default()).await.unwrap();

    assert_eq!(store.get(&key, 0..10).await.unwrap(), "");
    assert_eq!(store.head(&key).await.unwrap().size_bytes, 0);
    assert_eq!(keys(&store, scratch.below("")).await, [key]);
}

pub async fn ranges_are_clipped_or_refused(store: Opened, _: Opened) {
    let key = scratch().key("digits");
    store.put(&key, "0123456789".into(), &Put::default()).await.unwrap();

    assert_eq!(store.get(&key, 0..1).await.unwrap(), "0");
    assert_eq!(store.get(&key, 3..7).await.unwrap(), "3456");
    assert_eq!(store.get(&key, 9..10).await.unwrap(), "9");
    assert_eq!(store.get(&key, 8..1000).await.unwrap(), "89");
    for nowhere in [10..11, 10..10, 5..5, 5000..6000] {
        let fault = store.get(&key, nowhere.clone()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Invalid(_)), "{nowhere:?}: {fault:?}");
    }
}

pub async fn what_is_not_there_is_told(store: Opened, _: Opened) {
    let scratch = scratch();
    let key = scratch.key("a/b");

    let fault = store.get(&key, 0..10).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NotFound), "{fault:?}");
    let error = store.head(&key).await.unwrap_err();
    assert!(matches!(error.fault, Fault::NotFound), "{error:?}");
    assert_eq!(error.key.as_ref(), Some(&key));
    assert_eq!(keys(&store, scratch.below("")).await, []);
    assert_eq!(store.list(&scratch.below("x")).await.unwrap().next, None);
    assert!(store.delete(std::slice::from_ref(&key)).await.iter().all(Result::is_ok));
    assert!(store.delete(&[]).await.is_empty());
    assert_eq!(store.uploads(&scratch.0).await.unwrap(), []);
}

pub async fn a_put_replaces(store: Opened, _: Opened) {
    let key = scratch().key("a");
    let first = store.put(&key, "one".into(), &Put::default()).await.unwrap();
    let second = store.put(&key, "three".into(), &Put::default()).await.unwrap();

    assert_ne!(first, second);
    assert_eq!(store.get(&key, 0..10).await.unwrap(), "three");
    assert_eq!(store.head(&key).await.unwrap().tag, Some(second));
}

pub async fn only_one_of_many_is_first(store: Opened, other: Opened) {
    let key = scratch().key("cluster.json");
    if !store.abilities().put_if_absent {
        // Refused, or kept at least against what has been there before.
        let first = store.put(&key, "0".into(), &Put::if_absent()).await.map_err(|error| error.fault);
        assert!(matches!(first, Ok(_) | Err(Fault::Unable(_))), "{first:?}");
        if first.is_ok() {
            let fault = store.put(&key, "1".into(), &Put::if_absent()).await.unwrap_err().fault;
            assert!(matches!(fault, Fault::Exists), "{fault:?}");
        }
        return;
    }
    let racers = (0..16).map(|racer: u32| {
        let store = if racer.is_multiple_of(2) { Arc::clone(&store) } else { Arc::clone(&other) };
        let key = key.clone();
        tokio::spawn(async move { store.put(&key, racer.to_string().into(), &Put::if_absent()).await })
    });
    let results = join_all(racers).await;

    let mut winners = Vec::new();
    for (racer, result) in results.into_iter().enumerate() {
        match result.unwrap() {
            Ok(_) => winners.push(racer.to_string()),
            Err(error) => assert!(matches!(error.fault, Fault::Exists) || error.fault.is_transient(), "{error:?}"),
        }
    }
    let there = store.get(&key, 0..10).await.unwrap();
    assert_eq!(winners, [String::from_utf8(there.to_vec()).unwrap()]);
}

pub async fn no_change_is_lost_among_many(store: Opened, other: Opened) {
    if !store.abilities().put_if_unchanged {
        return;
    }
    let key = scratch().key("writer.json");
    store.put(&key, "0".into(), &Put::default()).await.unwrap();
    let writers = (0..6).map(|writer: u32| {
        let store = if writer.is_multiple_of(2) { Arc::clone(&store) } else { Arc::clone(&other) };
        let key = key.clone();
        tokio::spawn(async move {
            let mut written = 0;
            while written < 5 {
                let tag = store.head(&key).await.unwrap().tag.unwrap();
                let there = store.get(&key, 0..20).await.unwrap();
                let count: u32 = std::str::from_utf8(&there).unwrap().parse().unwrap();
                match store.put(&key, (count + 1).to_string().into(), &Put::if_unchanged(tag)).await {
                    Ok(_) => written += 1,
                    Err(error) if matches!(error.fault, Fault::Changed) || error.fault.is_transient() => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        })
    });
    join_all(writers).await.into_iter().for_each(Result::unwrap);

    // Between asking for the tag and reading, another may have written: then the number that is written belongs to a newer tag
    // and the put fails. So none is lost.
    assert_eq!(store.get(&key, 0..20).await.unwrap(), "30");
}

pub async fn a_stale_tag_replaces_nothing(store: Opened, _: Opened) {
    let scratch = scratch();
    let key = scratch.key("writer.json");
    if !store.abilities().put_if_unchanged {
        let put = Put::if_unchanged(Tag("x".into()));
        let fault = store.put(&key, "0".into(), &put).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Unable(_)), "{fault:?}");
        return;
    }
    let old = store.put(&key, "one".into(), &Put::default()).await.unwrap();
    let new = store.put(&key, "two".into(), &Put::if_unchanged(old.clone())).await.unwrap();

    let fault = store.put(&key, "three".into(), &Put::if_unchanged(old)).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Changed), "{fault:?}");
    assert_eq!(store.get(&key, 0..10).await.unwrap(), "two");
    assert_deleted(&store, std::slice::from_ref(&key)).await;
    let fault = store.put(&key, "three".into(), &Put::if_unchanged(new)).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Changed), "{fault:?}");
    assert_eq!(keys(&store, scratch.below("")).await, []);
}

pub async fn listings_are_in_order_of_bytes(store: Opened, _: Opened) {
    let scratch = scratch();
    let names = ["a/b/1", "a-b", "a/b-1", "a.b", "a0", "a/c/2", "b", "Z", "a/b/0/deep/er", "ä", "a/ü"];
    for name in names {
        store.put(&scratch.key(name), name.to_owned().into(), &Put::default()).await.unwrap();
    }

    let expected: BTreeSet<Key> = names.iter().map(|name| scratch.key(name)).collect();
    let expected: Vec<Key> = expected.into_iter().collect();
    assert_eq!(keys(&store, scratch.below("")).await, expected);
    let sizes: Vec<u64> = list(&store, scratch.below("a")).await.iter().map(|info| info.size_bytes).collect();
    assert_eq!(sizes, [5, 13, 5, 5, 4]);
}

pub async fn listings_go_on_after_a_key(store: Opened, _: Opened) {
    let scratch = scratch();
    let all: Vec<Key> = (0..25).map(|at| scratch.key(&format!("delta/{}/{at:03}", at / 10))).collect();
    let put = Put::default();
    join_all(all.iter().map(|key| store.put(key, "x".into(), &put)))
        .await
        .into_iter()
        .for_each(|tag| drop(tag.unwrap()));

    for (at, key) in all.iter().enumerate() {
        let listing = Listing { after: Some(key.to_string()), ..scratch.below("delta") };
        assert_eq!(keys(&store, listing).await, all[at + 1..]);
    }
    // A start that is no key itself: before, between and after.
    for (after, rest) in [("delta", 25), ("delta/", 25), ("delta/1", 15), ("delta/0/0045", 20), ("delta/3", 0)] {
        let listing = Listing { after: Some(format!("{}{after}", scratch.0)), ..scratch.below("delta") };
        assert_eq!(keys(&store, listing).await.len(), rest, "{after}");
    }
}

pub async fn a_folder_is_not_its_namesakes(store: Opened, _: Opened) {
    let scratch = scratch();
    for name in ["prod/1", "prod2/1", "prod", "prod-eu/1", "pro/1"].into_iter().filter(|name| {
        // A folder of files cannot have both `prod` and `prod/1`.
        *name != "prod" || !store.place().starts_with("file:")
    }) {
        store.put(&scratch.key(name), "x".into(), &Put::default()).await.unwrap();
    }

    assert_eq!(keys(&store, scratch.below("prod")).await, [scratch.key("prod/1")]);
}

pub async fn odd_names_are_names(store: Opened, _: Opened) {
    let scratch = scratch();
    let names = [
        "with space",
        "plus+plus",
        "per%20cent",
        "a&b=c",
        "quest?ion",
        "ha#sh",
        "<xml>&amp;",
        "quote\"'",
        "ümläut",
        "日本",
        "co:lon;semi,comma",
        "2026-11-21T10:00:00Z.full",
        "~tilde",
        "st*r(s)[x]{y}|^`$@!",
        "dots...and..",
    ];
    let mut expected: Vec<Key> = names.iter().map(|name| scratch.key(&format!("odd {name}/{name}"))).collect();
    for key in &expected {
        store.put(key, key.to_string().into(), &Put::default()).await.unwrap();
    }

    for key in &expected {
        assert_eq!(store.get(key, 0..1000).await.unwrap(), key.as_str());
        assert_eq!(store.head(key).await.unwrap().key, *key);
    }
    expected.sort();
    assert_eq!(keys(&store, scratch.below("")).await, expected);
    let after = Listing { after: Some(expected[6].to_string()), ..scratch.below("") };
    assert_eq!(keys(&store, after).await, expected[7..]);
    assert_eq!(keys(&store, scratch.below("odd <xml>&amp;")).await.len(), 1);
    assert_deleted(&store, &expected).await;
    assert_eq!(keys(&store, scratch.below("")).await, []);
}

pub async fn many_are_deleted_at_once(store: Opened, other: Opened) {
    let scratch = scratch();
    let there: Vec<Key> = (0..30).map(|at| scratch.key(&format!("there/{at:02}"))).collect();
    let put = Put::default();
    join_all(there.iter().map(|key| store.put(key, "x".into(), &put)))
        .await
        .into_iter()
        .for_each(|tag| drop(tag.unwrap()));
    let kept = scratch.key("there/kept");
    store.put(&kept, "x".into(), &Put::default()).await.unwrap();
    let not_there = (0..1100).map(|at| scratch.key(&format!("not/{at}")));
    let victims: Vec<Key> = there.iter().cloned().chain(not_there).chain(there.iter().cloned()).collect();

    assert_deleted(&store, &victims).await;
    assert_deleted(&other, &there).await;
    assert_eq!(keys(&store, scratch.below("")).await, [kept]);
}

pub async fn metadata_comes_back(store: Opened, _: Opened) {
    let key = scratch().key("a");
    let metadata: BTreeMap<String, String> =
        [("cluster-id", "a b/c=d"), ("x2", "1")].map(|(n, v)| (n.into(), v.into())).into();
    let put = Put { metadata: metadata.clone(), ..Put::default() };
    store.put(&key, "x".into(), &put).await.unwrap();

    let expected = if store.abilities().metadata { metadata } else { BTreeMap::new() };
    assert_eq!(store.head(&key).await.unwrap().metadata, expected);

    let upload = store.begin(&key, &put).await.unwrap();
    let part = store.put_part(&upload, 0, "y".into()).await.unwrap();
    store.complete(&upload, &[part], &put).await.unwrap();
    assert_eq!(store.head(&key).await.unwrap().metadata, expected);
}

pub async fn labels_come_back(store: Opened, _: Opened) {
    let (scratch, keeps) = (scratch(), store.abilities().metadata);
    let (plain, labelled) = (scratch.key("plain"), scratch.key("labelled"));
    store.put(&plain, "x".into(), &Put::default()).await.unwrap();
    assert_eq!(store.labels(&plain).await.unwrap(), BTreeMap::new());

    let labels: BTreeMap<String, String> =
        [("x-exclude", "true"), ("why", "a b+c=d")].map(|(n, v)| (n.into(), v.into())).into();
    let put = Put { labels: labels.clone(), ..Put::default() };
    let expected = if keeps { labels } else { BTreeMap::new() };
    store.put(&labelled, "x".into(), &put).await.unwrap();
    assert_eq!(store.labels(&labelled).await.unwrap(), expected);
    store.put(&labelled, "x".into(), &Put::default()).await.unwrap();
    assert_eq!(store.labels(&labelled).await.unwrap(), BTreeMap::new());

    let upload = store.begin(&labelled, &put).await.unwrap();
    let part = store.put_part(&upload, 0, "y".into()).await.unwrap();
    store.complete(&upload, &[part], &put).await.unwrap();
    assert_eq!(store.labels(&labelled).await.unwrap(), expected);

    let fault = store.labels(&scratch.key("nothing")).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NotFound), "{fault:?}");
}

pub async fn parts_come_in_any_order(store: Opened, _: Opened) {
    let key = scratch().key("large");
    let size = part_size(&store);
    let upload = store.begin(&key, &Put::default()).await.unwrap();
    let last = store.put_part(&upload, 2, "the end".into()).await.unwrap();
    let mistaken = store.put_part(&upload, 0, filled(b'x', size)).await.unwrap();
    let middle = store.put_part(&upload, 1, filled(b'b', size)).await.unwrap();
    let first = store.put_part(&upload, 0, filled(b'a', size)).await.unwrap();
    drop(mistaken);
    let parts = [first, middle, last];
    let tag = store.complete(&upload, &parts, &Put::default()).await.unwrap();

    let info = store.head(&key).await.unwrap();
    assert_eq!((info.size_bytes, info.tag), (2 * size as u64 + 7, Some(tag)));
    let size = size as u64;
    assert_eq!(store.get(&key, 0..3).await.unwrap(), "aaa");
    assert_eq!(store.get(&key, size - 2..size + 2).await.unwrap(), "aabb");
    assert_eq!(store.get(&key, 2 * size - 2..2 * size + 100).await.unwrap(), "bbthe end");
}

pub async fn an_upload_is_gone_on_with_by_another(store: Opened, other: Opened) {
    let scratch = scratch();
    let key = scratch.key("full/large one.full");
    let size = part_size(&store);
    let upload = store.begin(&key, &Put::default()).await.unwrap();
    let first = store.put_part(&upload, 0, filled(b'a', size)).await.unwrap();

    if other.abilities().uploads {
        let found = other.uploads(&format!("{}full/", scratch.0)).await.unwrap();
        let found: Vec<(String, String)> = found.into_iter().map(|upload| (upload.key, upload.id)).collect();
        assert_eq!(found, [(upload.key.clone(), upload.id.clone())]);
        assert_eq!(other.uploads(&format!("{}fullest/", scratch.0)).await.unwrap(), []);
    }
    let second = other.put_part(&upload, 1, "b".into()).await.unwrap();
    other.complete(&upload, &[first, second], &Put::default()).await.unwrap();

    assert_eq!(store.get(&key, size as u64 - 1..u64::MAX / 2).await.unwrap(), "ab");
    assert_eq!(other.uploads(&scratch.0).await.unwrap(), []);
}

pub async fn an_upload_is_given_up(store: Opened, other: Opened) {
    let scratch = scratch();
    let key = scratch.key("large");
    let upload = store.begin(&key, &Put::default()).await.unwrap();
    let part = store.put_part(&upload, 0, "part".into()).await.unwrap();
    other.abort(&upload).await.unwrap();
    other.abort(&upload).await.unwrap();

    assert_eq!(store.uploads(&scratch.0).await.unwrap(), []);
    assert_eq!(keys(&store, scratch.below("")).await, []);
    if !store.abilities().uploads {
        return;
    }
    let fault = store.complete(&upload, std::slice::from_ref(&part), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NoSuchUpload), "{fault:?}");
    let fault = store.put_part(&upload, 1, "more".into()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NoSuchUpload), "{fault:?}");
}

pub async fn nothing_shows_before_it_is_complete(store: Opened, _: Opened) {
    let scratch = scratch();
    let key = scratch.key("large");
    let upload = store.begin(&key, &Put::default()).await.unwrap();
    let part = store.put_part(&upload, 0, "part".into()).await.unwrap();

    assert_eq!(keys(&store, scratch.below("")).await, []);
    let fault = store.head(&key).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NotFound), "{fault:?}");
    store.complete(&upload, &[part], &Put::default()).await.unwrap();
    assert_eq!(keys(&store, scratch.below("")).await, [key]);
}

pub async fn completion_keeps_its_condition(store: Opened, _: Opened) {
    let scratch = scratch();
    let key = scratch.key("large");
    if !store.abilities().put_if_absent {
        return;
    }
    let first = complete(&store, &key, "one", &Put::if_absent()).await.unwrap();
    let fault = complete(&store, &key, "two", &Put::if_absent()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Exists), "{fault:?}");
    assert_eq!(store.get(&key, 0..10).await.unwrap(), "one");

    if store.abilities().put_if_unchanged {
        complete(&store, &key, "three", &Put::if_unchanged(first.clone())).await.unwrap();
        let fault = complete(&store, &key, "four", &Put::if_unchanged(first)).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Changed), "{fault:?}");
        assert_eq!(store.get(&key, 0..10).await.unwrap(), "three");
    }
    assert_eq!(keys(&store, scratch.below("")).await, [key]);
}

pub async fn what_is_retained_stays(store: Opened, _: Opened) {
    let key = scratch().key("full/1.full");
    let until = |seconds| Timestamp::from_second(Timestamp::now().as_second() + seconds).unwrap();
    let retention = Retention { until: Some(until(600)), legal_hold: false };
    let put = Put { retention: Some(retention), ..Put::default() };
    let result = store.put(&key, "kept".into(), &put).await;
    if !store.abilities().retention {
        let fault = result.unwrap_err().fault;
        assert!(matches!(fault, Fault::Unable(_)), "{fault:?}");
        return;
    }
    result.unwrap();

    assert_eq!(store.retention(&key).await.unwrap(), Some(retention));
    let longer = Retention { until: Some(until(1200)), legal_hold: true };
    store.retain(&key, longer).await.unwrap();
    assert_eq!(store.retention(&key).await.unwrap(), Some(longer));
    let released = Retention { legal_hold: false, ..longer };
    store.retain(&key, released).await.unwrap();
    assert_eq!(store.retention(&key).await.unwrap(), Some(released));
    let fault = store.retain(&key, retention).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Retained { .. } | Fault::Forbidden(_)), "{fault:?}");

    // Where versions are kept, a deletion hides what is there and may succeed; where not, it is refused.
    if let [Err(error)] = &store.delete(std::slice::from_ref(&key)).await[..] {
        assert!(matches!(error.fault, Fault::Retained { .. }), "{error:?}");
        assert_eq!(store.get(&key, 0..10).await.unwrap(), "kept");
    }
}

async fn complete(store: &Opened, key: &Key, text: &'static str, put: &Put) -> Result<Tag, StoreError> {
    let upload = store.begin(key, put).await?;
    let part = store.put_part(&upload, 0, text.into()).await?;
    let done = store.complete(&upload, &[part], put).await;
    if done.is_err() {
        store.abort(&upload).await?;
    }
    done
}

/// Names that no other test has.
pub struct Scratch(pub String);

pub fn scratch() -> Scratch {
    Scratch(format!("contract-{:016x}/", rand::random::<u64>()))
}

impl Scratch {
    pub fn key(&self, name: &str) -> Key {
        Key::parse(format!("{}{name}", self.0)).unwrap()
    }

    pub fn below(&self, folder: &str) -> Listing {
        Listing::below(format!("{}{folder}", self.0))
    }
}

/// All pages of a listing.
pub async fn list(store: &Opened, listing: Listing) -> Vec<Info> {
    let mut next = Some(listing);
    let mut found = Vec::new();
    while let Some(listing) = next {
        let page = store.list(&listing).await.unwrap();
        found.extend(page.objects);
        next = page.next;
    }
    found
}

pub async fn keys(store: &Opened, listing: Listing) -> Vec<Key> {
    list(store, listing).await.into_iter().map(|info| info.key).collect()
}

pub async fn assert_deleted(store: &Opened, keys: &[Key]) {
    let results = store.delete(keys).await;
    assert_eq!(results.len(), keys.len());
    results.into_iter().for_each(Result::unwrap);
}

/// The smallest size that a part before the last may have.
pub fn part_size(store: &Opened) -> usize {
    usize::try_from(store.abilities().part_bytes.0).unwrap().max(1000)
}

pub fn filled(byte: u8, size: usize) -> Bytes {
    vec![byte; size].into()
}

/// A store that says that it can do less, where only a probe could know.
#[derive(Debug)]
pub struct Lesser {
    pub inner: Opened,
    pub uploads: bool,
}

#[async_trait::async_trait]
impl Store for Lesser {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn abilities(&self) -> store::Abilities {
        store::Abilities { retention: false, uploads: self.uploads, ..self.inner.abilities() }
    }

    async fn put(&self, key: &Key, bytes: Bytes, put: &Put) -> Result<Tag, StoreError> {
        match put.retention {
            Some(_) => Err(Fault::Unable("retain").at("writing", self.place(), Some(key))),
            None => self.inner.put(key, bytes, put).await,
        }
    }

    async fn get(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Bytes, StoreError> {
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Info, StoreError> {
        self.inner.head(key).await
    }

    async fn labels(&self, key: &Key) -> Result<BTreeMap<String, String>, StoreError> {
        self.inner.labels(key).await
    }

    async fn retention(&self, key: &Key) -> Result<Option<Retention>, StoreError> {
        self.inner.retention(key).await
    }

    async fn list(&self, listing: &Listing) -> Result<store::Page, StoreError> {
        self.inner.list(listing).await
    }

    async fn delete(&self, keys: &[Key]) -> Vec<Result<(), StoreError>> {
        self.inner.delete(keys).await
    }

    async fn begin(&self, key: &Key, put: &Put) -> Result<Upload, StoreError> {
        self.inner.begin(key, put).await
    }

    async fn put_part(&self, upload: &Upload, index: u32, bytes: Bytes) -> Result<Part, StoreError> {
        self.inner.put_part(upload, index, bytes).await
    }

    async fn complete(&self, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, StoreError> {
        self.inner.complete(upload, parts, put).await
    }

    async fn abort(&self, upload: &Upload) -> Result<(), StoreError> {
        self.inner.abort(upload).await
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        match self.uploads {
            true => self.inner.uploads(prefix).await,
            false => Ok(Vec::new()),
        }
    }

    async fn retain(&self, key: &Key, _: Retention) -> Result<(), StoreError> {
        Err(Fault::Unable("retain").at("keeping", self.place(), Some(key)))
    }
}
