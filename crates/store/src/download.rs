//! Objects read in ranges, several at a time.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use crate::error::{Fault, StoreError};
use crate::key::Key;
use crate::object::{Info, Listing};
use crate::store::Store;
use crate::upload::Pieces;

/// Reads all of an object that is not larger than `limit`, with one request.
pub async fn read_whole(store: &dyn Store, key: &Key, limit: u64) -> Result<Bytes, StoreError> {
    let bytes = store.get(key, 0..limit.saturating_add(1)).await?;
    match bytes.len() as u64 > limit {
        true => Err(Fault::Invalid(format!("it is larger than {limit} bytes")).at("reading", store.place(), Some(key))),
        false => Ok(bytes),
    }
}

/// Lists everything that belongs to `listing`, page after page.
pub async fn list_all(store: &dyn Store, listing: Listing) -> Result<Vec<Info>, StoreError> {
    let mut next = Some(listing);
    let mut found = Vec::new();
    while let Some(listing) = next {
        let page = store.list(&listing).await?;
        found.extend(page.objects);
        next = page.next;
    }
    Ok(found)
}

/// The bytes `range` of an object, in order. So many pieces are in memory as are under way. An object that ends before the
/// range does is an error.
pub fn read(
    store: Arc<dyn Store>,
    key: Key,
    range: Range<u64>,
    pieces: Pieces,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send {
    let fetch = move |piece: Range<u64>| {
        let (store, key) = (Arc::clone(&store), key.clone());
        // On a task of its own, so that it goes on while who reads is busy.
        async move {
            let place = store.place().to_owned();
            let asked = key.clone();
            let done = tokio::spawn(async move { exactly(&*store, &asked, piece).await }).await;
            done.unwrap_or_else(|error| Err(Fault::unavailable(error).at("reading", &place, Some(&key))))
        }
    };
    stream::iter(cut(range, pieces.bytes)).map(fetch).buffered(pieces.at_once.max(1))
}

/// Writes an object of `size_bytes` to the beginning of a file, each piece to its place as it comes.
pub async fn read_to_file(
    store: &dyn Store,
    key: &Key,
    size_bytes: u64,
    file: Arc<File>,
    pieces: Pieces,
) -> Result<(), StoreError> {
    let fetch = |piece: Range<u64>| {
        let file = Arc::clone(&file);
        async move {
            let begin = piece.start;
            let bytes = exactly(store, key, piece).await?;
            let written = tokio::task::spawn_blocking(move || file.write_all_at(&bytes, begin)).await;
            let written = written.map_err(Fault::unavailable).and_then(|written| written.map_err(Fault::of_disk));
            written.map_err(|fault| fault.at("writing what was read from", store.place(), Some(key)))
        }
    };
    stream::iter(cut(0..size_bytes, pieces.bytes))
        .map(fetch)
        .buffer_unordered(pieces.at_once.max(1))
        .try_for_each(async |()| Ok(()))
        .await
}

async fn exactly(store: &dyn Store, key: &Key, piece: Range<u64>) -> Result<Bytes, StoreError> {
    let (expected, is_first) = (piece.end - piece.start, piece.start == 0);
    let bytes = store.get(key, piece).await?;
    let fault = match bytes.len() as u64 {
        came if came == expected => return Ok(bytes),
        // As where only its parts beside it told of a size.
        0 if is_first => Fault::Damaged(format!("{expected} bytes were expected and it is empty")),
        came => Fault::Nonsense(format!("{expected} bytes were expected and {came} came")),
    };
    Err(fault.at("reading", store.place(), Some(key)))
}

/// The range in pieces of `size`.
fn cut(range: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> + Send {
    let size = size.max(1);
    let end = range.end;
    let mut begin = range.start;
    std::iter::from_fn(move || {
        let piece = begin..begin.saturating_add(size).min(end);
        begin = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::object::Put;

    const PIECES: Pieces = Pieces { bytes: 100, at_once: 3 };

    async fn with(size: usize) -> (Arc<dyn Store>, Key, Vec<u8>) {
        let store: Arc<dyn Store> = Arc::new(Memory::new().with_page_size(2));
        let key = Key::parse("a").unwrap();
        let all: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        store.put(&key, all.clone().into(), &Put::default()).await.unwrap();
        (store, key, all)
    }

    #[tokio::test]
    async fn pieces_come_in_order_and_exactly() {
        let (store, key, all) = with(1234).await;
        for range in [0..1234, 0..0, 5..6, 99..101, 100..1234, 1233..1234] {
            let pieces: Vec<Bytes> =
                read(Arc::clone(&store), key.clone(), range.clone(), PIECES).try_collect().await.unwrap();
            assert_eq!(pieces.concat(), all[range.start as usize..range.end as usize]);
        }
        let short: Result<Vec<Bytes>, StoreError> = read(store, key, 0..1235, PIECES).try_collect().await;
        let fault = short.unwrap_err().fault;
        assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
    }

    /// To ask again brings nothing back.
    #[tokio::test]
    async fn what_is_empty_and_should_not_be_is_damaged() {
        let (store, key, _) = with(0).await;
        let short: Result<Vec<Bytes>, StoreError> = read(store, key, 0..10, PIECES).try_collect().await;
        let fault = short.unwrap_err().fault;
        assert!(matches!(fault, Fault::Damaged(_)), "{fault:?}");
    }

    #[tokio::test]
    async fn a_file_gets_every_piece_in_its_place() {
        let (store, key, all) = with(1234).await;
        let file = Arc::new(tempfile::tempfile().unwrap());
        read_to_file(&*store, &key, 1234, Arc::clone(&file), PIECES).await.unwrap();
        let mut found = vec![0; 1234];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, all);
    }

    #[tokio::test]
    async fn what_is_larger_than_expected_is_not_taken() {
        let (store, key, all) = with(100).await;
        assert_eq!(read_whole(&*store, &key, 100).await.unwrap(), all);
        let fault = read_whole(&*store, &key, 99).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Invalid(_)), "{fault:?}");
    }

    #[tokio::test]
    async fn all_pages_are_listed() {
        let (store, ..) = with(1).await;
        for name in ["b", "c", "d", "e"] {
            store.put(&Key::parse(name).unwrap(), "x".into(), &Put::default()).await.unwrap();
        }
        assert_eq!(list_all(&*store, Listing::default()).await.unwrap().len(), 5);
    }
}
