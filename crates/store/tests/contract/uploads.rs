//! Uploads: parts that become an object, or nothing.

use store::{Fault, Put};

use super::{Opened, filled, keys, part_size, scratch};

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
