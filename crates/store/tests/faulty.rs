//! Whatever goes wrong on the way, nothing shows that is not whole, but what was told to have failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use store::counting::Counting;
use store::{Fault, Key, Memory, Patience, Pieces, Put, Retrying, Store, Uploader};
use testkit::{Faults, FaultyStore};
use tokio::time::sleep;

const PIECES: Pieces = Pieces { bytes: 100, at_once: 2 };

fn key() -> Key {
    Key::parse("full/1.full").unwrap()
}

/// What is there, if anything is.
async fn there(store: &dyn Store) -> Option<Bytes> {
    store.get(&key(), 0..1000).await.ok()
}

/// Parts that arrive in halves, answers that do not arrive, and uploads that are forgotten, for who tries again and for who does not.
#[tokio::test(start_paused = true)]
async fn an_upload_becomes_the_whole_object_or_none() {
    let whole: Bytes = (0..350_u32).map(|at| (at % 251) as u8).collect::<Vec<u8>>().into();
    let faults = Faults { torn_part: 0.1, forgotten_upload: 0.03, ..Faults::ROUGH };
    let (mut written, mut failed, mut torn) = (0, 0, 0);
    for seed in 0..300 {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&memory), faults, seed));
        let store: Arc<dyn Store> = match seed % 2 {
            0 => Arc::clone(&faulty) as Arc<dyn Store>,
            _ => {
                let faulty = Arc::clone(&faulty) as Arc<dyn Store>;
                Arc::new(Retrying::with_dice(faulty, Patience::default(), Box::new(|| 0.5)))
            }
        };
        let mut uploader = Uploader::new(store, key(), Put::if_absent(), PIECES);
        let result = match uploader.write(whole.clone()).await {
            Ok(()) => uploader.finish().await.map(|_| ()),
            Err(error) => uploader.give_up().await.and(Err(error)),
        };
        match (result, there(&*memory).await) {
            (Ok(()), found) => {
                assert_eq!(found, Some(whole.clone()), "seed {seed}");
                written += 1;
            }
            (Err(_), found) => {
                assert!(found.is_none_or(|found| found == whole), "seed {seed}");
                failed += 1;
            }
        }
        torn += faulty.injected().torn_parts;
    }
    assert!(written > 100 && failed > 30 && torn > 30, "{written} {failed} {torn}");
}

/// The network is away for minutes in the middle of many uploads, and whoever else asks for something spends the tries that there
/// are: each goes on where it was, and nothing of it is sent twice but what was under way.
#[tokio::test(start_paused = true)]
async fn an_upload_goes_on_when_the_network_is_back() {
    let whole: Bytes = (0..5000_u32).map(|at| (at % 251) as u8).collect::<Vec<u8>>().into();
    for minutes in [1, 2, 4] {
        let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&counting) as Arc<dyn Store>, Faults::NONE, 1));
        let tried = Arc::clone(&faulty) as Arc<dyn Store>;
        let store: Arc<dyn Store> = Arc::new(Retrying::with_dice(tried, Patience::default(), Box::new(|| 0.5)));
        let upload = async |at: u32| {
            let key = Key::parse(format!("full/{at}.full")).unwrap();
            let mut uploader = Uploader::new(Arc::clone(&store), key.clone(), Put::if_absent(), PIECES);
            for piece in whole.chunks(1000) {
                uploader.write(Bytes::copy_from_slice(piece)).await.unwrap();
                // As long as the source takes for the next piece.
                sleep(Duration::from_secs(10)).await;
            }
            uploader.finish().await.unwrap();
            key
        };
        let weather = async {
            sleep(Duration::from_secs(15)).await;
            faulty.cut_off(true);
            for _ in 0..minutes * 6 {
                let _ = store.head(&key()).await;
                sleep(Duration::from_secs(10)).await;
            }
            faulty.cut_off(false);
        };
        let (keys, ()) = tokio::join!(join_all((0..20).map(upload)), weather);
        let counts = counting.take();
        assert_eq!(counts.parts, 20 * 50, "away for {minutes} min: {counts:?}");
        for key in keys {
            assert_eq!(counting.get(&key, 0..9999).await.unwrap(), whole);
        }
    }
}

/// What is put in one piece can be torn only if it is told to have failed; then what is there is looked at before it is believed.
#[tokio::test(start_paused = true)]
async fn half_an_object_is_never_taken_for_the_whole() {
    let faults = Faults { torn_write: 0.2, late_write: 0.1, ..Faults::ROUGH };
    let (mut written, mut torn) = (0, 0);
    for seed in 0..300 {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&memory), faults, seed));
        let tried: Arc<dyn Store> = Arc::clone(&faulty) as Arc<dyn Store>;
        let store = Retrying::with_dice(tried, Patience::default(), Box::new(|| 0.5));
        match store.put(&key(), "whole".into(), &Put::if_absent()).await {
            Ok(_) => {
                faulty.settle().await;
                assert_eq!(there(&*memory).await.unwrap(), "whole", "seed {seed}");
                written += 1;
            }
            Err(error) => {
                assert!(matches!(error.fault, Fault::Exists), "seed {seed}: {}", error.fault);
                assert_eq!(there(&*memory).await.unwrap(), "wh", "seed {seed}");
                torn += 1;
            }
        }
    }
    assert!(written > 150 && torn > 30, "{written} {torn}");
}
