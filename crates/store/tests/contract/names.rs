//! Names that no other test has, and looking at what is there.

use bytes::Bytes;
use store::{Info, Key, Listing};

use super::Opened;

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
