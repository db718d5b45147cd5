//! Disks that are full, or may not be written to. Each is a mount in a namespace of its own, in which the test is run again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod contract;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use contract::{filled, keys};
use store::{Fault, Folder, Key, Listing, Put, Store};
use testkit::on_a_small_disk;

fn open(place: &Path) -> Arc<dyn Store> {
    Arc::new(Folder::at(place).unwrap())
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[tokio::test]
async fn a_full_disk_is_told_and_nothing_is_half_written() {
    let Some(place) = on_a_small_disk("a_full_disk_is_told_and_nothing_is_half_written", 2) else { return };
    let store = open(&place);
    store.put(&key("writer.json"), "first".into(), &Put::default()).await.unwrap();

    let fault = store.put(&key("full/1"), filled(b'x', 3 << 20), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Full), "{fault:?}");
    let upload = store.begin(&key("full/2"), &Put::default()).await.unwrap();
    let first = store.put_part(&upload, 0, filled(b'x', 1_500_000)).await.unwrap();
    let fault = store.put_part(&upload, 1, filled(b'x', 1_500_000)).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Full), "{fault:?}");
    let fault = store.complete(&upload, &[first], &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Full), "{fault:?}");

    assert_eq!(keys(&store, Listing::default()).await, [key("writer.json")]);
    assert_eq!(store.get(&key("writer.json"), 0..9).await.unwrap(), "first");
    store.abort(&upload).await.unwrap();
    assert_eq!(store.uploads("").await.unwrap(), []);
    // With room again, all is as before.
    store.put(&key("full/1"), filled(b'x', 1_500_000), &Put::if_absent()).await.unwrap();
}

#[tokio::test]
async fn a_disk_that_is_mounted_read_only_is_read() {
    let Some(place) = on_a_small_disk("a_disk_that_is_mounted_read_only_is_read", 2) else { return };
    let store = open(&place);
    store.put(&key("full/1"), "x".into(), &Put::default()).await.unwrap();
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&place).status().unwrap();
    assert!(status.success());

    assert_eq!(keys(&store, Listing::default()).await, [key("full/1")]);
    assert_eq!(store.get(&key("full/1"), 0..9).await.unwrap(), "x");
    assert_eq!(store.uploads("").await.unwrap(), []);
    let faults = [
        store.put(&key("full/2"), "x".into(), &Put::default()).await.unwrap_err().fault,
        store.begin(&key("full/2"), &Put::default()).await.unwrap_err().fault,
        store.delete(&[key("full/1")]).await.pop().unwrap().unwrap_err().fault,
    ];
    for fault in faults {
        assert!(matches!(&fault, Fault::Forbidden(what) if what.contains("read-only")), "{fault:?}");
    }
    assert!(store.delete(&[key("not/there")]).await[0].is_ok());
}
