//! Names: in which order they are listed, which there can be, and how many go at once.

use std::collections::BTreeSet;

use futures::future::join_all;
use store::{Key, Listing, Put};

use super::{Opened, assert_deleted, keys, list, scratch};

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
