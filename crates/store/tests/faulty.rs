//! Whatever goes wrong on the way, nothing shows that is not whole, but what was told to have failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::sync::Arc;

use bytes::Bytes;
use store::{Fault, Key, Memory, Patience, Pieces, Put, Retrying, Store, Uploader};
use testkit::{Faults, FaultyStore};

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
