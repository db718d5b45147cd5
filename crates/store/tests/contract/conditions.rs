//! What is only put if nothing is there, or what was there before.

use std::sync::Arc;

use futures::future::join_all;
use store::{Fault, Key, Put, StoreError, Tag};
use testkit::in_time;

use super::{Opened, assert_deleted, keys, scratch};

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
    in_time("all have written", join_all(writers)).await.into_iter().for_each(Result::unwrap);

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

async fn complete(store: &Opened, key: &Key, text: &'static str, put: &Put) -> Result<Tag, StoreError> {
    let upload = store.begin(key, put).await?;
    let part = store.put_part(&upload, 0, text.into()).await?;
    let done = store.complete(&upload, &[part], put).await;
    if done.is_err() {
        store.abort(&upload).await?;
    }
    done
}
