//! Uploads through what goes wrong on the way to a real server.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use store::{Abilities, Listing, Pieces, Put, Retrying, Store, Uploader, list_all};
use testkit::stores::{Falter, Faltering};

use super::{filled, scratch};

const SEED: u64 = 4;

/// What goes wrong with every third request is put right with that request alone, until everything has gone wrong that can: each
/// object arrives whole, once, and of no other part of it anything is left. `store` is behind `faltering`.
pub async fn uploads_arrive_whole_on_a_bad_day(store: Arc<dyn Store>, faltering: &Faltering) {
    let (place, Abilities { part_bytes, .. }) = (store.place().to_owned(), store.abilities());
    let store: Arc<dyn Store> = Arc::new(Retrying::new(store, store::Patience::default()));
    let (scratch, pieces) = (scratch(), Pieces { bytes: part_bytes.0.max(1 << 20), at_once: 3 });
    let whole: Bytes =
        (b'a'..=b'i').flat_map(|letter| filled(letter, pieces.bytes as usize)).collect::<Vec<u8>>().into();
    faltering.falter(0.3, SEED);
    let mut keys = Vec::new();
    while faltering.counts().len() < Falter::ALL.len() || keys.len() < 2 {
        assert!(keys.len() < 20, "{place}: only {:?} with seed {SEED}", faltering.counts());
        let key = scratch.key(&format!("{}.full", keys.len()));
        let when = if store.abilities().put_if_absent { Put::if_absent() } else { Put::default() };
        let mut uploader = Uploader::new(Arc::clone(&store), key.clone(), when, pieces);
        let sent = async {
            uploader.write(whole.clone()).await?;
            uploader.finish().await
        };
        let sent = sent.await.unwrap_or_else(|error| panic!("{place} with seed {SEED}: {error}: {}", error.fault));
        assert_eq!(sent.size_bytes, whole.len() as u64);
        keys.push(key);
    }
    faltering.recover();

    let there: BTreeSet<_> =
        list_all(&*store, Listing::below(&*scratch.0)).await.unwrap().into_iter().map(|info| info.key).collect();
    assert_eq!(there, keys.iter().cloned().collect(), "{place}");
    for key in &keys {
        let mut at = 0;
        while at < whole.len() as u64 {
            let piece = store.get(key, at..at + (8 << 20)).await.unwrap();
            assert!(piece == whole.slice(at as usize..at as usize + piece.len()), "{place}: {key} at {at}");
            at += piece.len() as u64;
        }
    }
    // One that was begun and whose id nobody was told has no part, and is given up by whoever cleans up.
    for left in store.uploads(&scratch.0).await.unwrap() {
        store.abort(&left).await.unwrap();
    }
    assert_eq!(store.uploads(&scratch.0).await.unwrap(), []);
}
