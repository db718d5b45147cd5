//! Objects: what is put is there, whole and in ranges, with what is told of it, and for as long as it is kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use store::{Fault, Put, Retention};

use super::{Opened, keys, scratch};

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
