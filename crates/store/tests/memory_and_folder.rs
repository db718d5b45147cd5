//! The stores that need no server keep the contract.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod contract;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use contract::{filled, keys, scratch};
use store::{Fault, Folder, Key, Listing, Memory, Put, Store};
use tempfile::TempDir;

mod memory {
    use super::*;

    /// Small pages, so that every listing has several.
    static MEMORY: LazyLock<Arc<Memory>> = LazyLock::new(|| Arc::new(Memory::new().with_page_size(4)));

    async fn open() -> Arc<dyn Store> {
        Arc::clone(&*MEMORY) as Arc<dyn Store>
    }

    crate::contract!(open);
}

mod folder {
    use super::*;

    static PLACE: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().unwrap());

    async fn open() -> Arc<dyn Store> {
        Arc::new(Folder::at(PLACE.path()).unwrap())
    }

    crate::contract!(open);
}

fn folder(path: &Path) -> Arc<dyn Store> {
    Arc::new(Folder::at(path).unwrap())
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_not_made() {
    let above = TempDir::new().unwrap();
    let place = above.path().join("not mounted");
    let store = folder(&place);

    let faults = [
        store.put(&key("a"), "x".into(), &Put::default()).await.unwrap_err().fault,
        store.list(&Listing::default()).await.unwrap_err().fault,
        store.get(&key("a"), 0..1).await.unwrap_err().fault,
        store.begin(&key("a"), &Put::default()).await.unwrap_err().fault,
        store.uploads("").await.unwrap_err().fault,
    ];
    for fault in faults {
        assert!(matches!(fault, Fault::NoSuchPlace), "{fault:?}");
    }
    assert!(!place.exists());
}

#[tokio::test]
async fn what_is_in_the_making_is_never_listed() {
    let place = TempDir::new().unwrap();
    let store = folder(place.path());
    store.put(&key("a/1"), "x".into(), &Put::default()).await.unwrap();
    let upload = store.begin(&key("a/2"), &Put::default()).await.unwrap();
    store.put_part(&upload, 0, filled(b'x', 100)).await.unwrap();

    assert_eq!(keys(&store, Listing::default()).await, [key("a/1")]);
    assert_eq!(keys(&store, Listing::below(".refloat")).await, []);
    let fault = store.put(&key(".refloat/lock"), "x".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Invalid(_)), "{fault:?}");
    // Another store, opened above, does not show it either.
    let above = folder(place.path().parent().unwrap());
    let name = place.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(keys(&above, Listing::below(name)).await, [key(&format!("{name}/a/1"))]);
}

#[tokio::test]
async fn what_a_dead_writer_left_is_found_and_cleaned() {
    let place = TempDir::new().unwrap();
    let store = folder(place.path());
    store.put(&key("a"), "x".into(), &Put::default()).await.unwrap();
    let left = place.path().join(".refloat/tmp/prod%2Ffull%2F50%25.full.0123456789abcdef");
    std::fs::write(&left, "half of it").unwrap();

    let uploads = store.uploads("prod/").await.unwrap();
    assert_eq!(uploads.iter().map(|upload| upload.key.as_str()).collect::<Vec<_>>(), ["prod/full/50%.full"]);
    assert_eq!(store.uploads("stage/").await.unwrap(), []);
    store.abort(&uploads[0]).await.unwrap();
    assert!(!left.exists());
    assert_eq!(store.uploads("").await.unwrap(), []);
}

#[tokio::test]
async fn an_upload_that_was_tampered_with_leads_nowhere_else() {
    let above = TempDir::new().unwrap();
    let place = above.path().join("place");
    std::fs::create_dir(&place).unwrap();
    std::fs::create_dir(above.path().join("precious")).unwrap();
    let store = folder(&place);
    let mut upload = store.begin(&key("a"), &Put::default()).await.unwrap();
    for id in ["../../../precious", "", "left:../../../precious", "left:..", "ffffffffffffffff"] {
        upload.id = id.into();
        let _ = store.abort(&upload).await;
        let fault = store.put_part(&upload, 0, "x".into()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::NoSuchUpload), "{id}: {fault:?}");
    }
    assert!(above.path().join("precious").exists());
}

#[tokio::test]
async fn links_are_followed_within_the_folder_only() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("real"), "real").unwrap();
    symlink("real", place.path().join("inside")).unwrap();
    symlink(outside.path().join("secret"), place.path().join("file")).unwrap();
    symlink(outside.path(), place.path().join("dir")).unwrap();
    symlink("..", place.path().join("up")).unwrap();
    symlink("/proc/self/fd/0", place.path().join("magic")).unwrap();
    let store = folder(place.path());

    assert_eq!(keys(&store, Listing::default()).await, [key("inside"), key("real")]);
    assert_eq!(store.get(&key("inside"), 0..9).await.unwrap(), "real");
    for way_out in ["file", "dir/secret", "magic"] {
        let fault = store.get(&key(way_out), 0..9).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Forbidden(_)), "{way_out}: {fault:?}");
    }
    let fault = store.put(&key("dir/new"), "x".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Forbidden(_)), "{fault:?}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    // Deleting a link deletes the link.
    assert!(store.delete(&[key("file")]).await[0].is_ok());
    assert!(outside.path().join("secret").exists());
}

#[tokio::test]
async fn an_object_and_a_folder_of_one_name_are_refused() {
    let place = TempDir::new().unwrap();
    let store = folder(place.path());
    store.put(&key("a/b"), "x".into(), &Put::default()).await.unwrap();

    for second in ["a", "a/b/c"] {
        let fault = store.put(&key(second), "x".into(), &Put::default()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Invalid(_)), "{second}: {fault:?}");
        let fault = store.get(&key(second), 0..1).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::NotFound), "{second}: {fault:?}");
    }
    assert!(store.delete(&[key("a")]).await[0].is_ok());
    assert_eq!(keys(&store, Listing::default()).await, [key("a/b")]);
    let long = format!("x/{}", "n".repeat(300));
    let fault = store.put(&key(&long), "x".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Invalid(_)), "{fault:?}");
}

#[tokio::test]
async fn folders_go_with_what_was_in_them() {
    let place = TempDir::new().unwrap();
    let store = folder(place.path());
    store.put(&key("a/b/c/1"), "x".into(), &Put::default()).await.unwrap();
    store.put(&key("a/2"), "x".into(), &Put::default()).await.unwrap();

    contract::assert_deleted(&store, &[key("a/b/c/1")]).await;
    assert!(!place.path().join("a/b").exists());
    assert!(place.path().join("a/2").exists());
}

#[tokio::test]
async fn what_others_put_there_is_shown_if_it_can_be_named() {
    use std::os::unix::ffi::OsStrExt;
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("snapshot.db"), "x").unwrap();
    std::fs::write(place.path().join("line\nbreak"), "x").unwrap();
    std::fs::write(place.path().join(std::ffi::OsStr::from_bytes(b"not \xff utf-8")), "x").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, place.path().join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();

    let store = folder(place.path());
    assert_eq!(keys(&store, Listing::default()).await, [key("snapshot.db")]);
    let fault = store.get(&key("pipe"), 0..1).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NotFound), "{fault:?}");
}

#[tokio::test]
async fn backups_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = TempDir::new().unwrap();
    let store = folder(place.path());
    store.put(&key("a/b"), "x".into(), &Put::default()).await.unwrap();

    let mode = |path: &str| std::fs::metadata(place.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a"), mode("a/b")), (0o700, 0o600));
}

mod huge {
    use super::*;

    /// Several pages, in several folders, and no more than the files there are.
    #[tokio::test]
    async fn a_large_folder_is_listed_page_by_page() {
        let place = TempDir::new().unwrap();
        for folder in 0..4 {
            let folder = place.path().join(format!("delta/{folder}"));
            std::fs::create_dir_all(&folder).unwrap();
            for file in 0..25_000 {
                std::fs::File::create(folder.join(format!("{file:020}-{file:020}.delta"))).unwrap();
            }
        }
        let store = folder(place.path());

        let begin = Instant::now();
        let found = keys(&store, Listing::below("delta")).await;
        println!("100,000 files listed in {:?}", begin.elapsed());
        assert_eq!(found.len(), 100_000);
        assert!(found.is_sorted());
        let scratch = scratch();
        assert_eq!(keys(&store, scratch.below("")).await, []);
    }
}
