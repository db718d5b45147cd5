//! A store that is asked once for what leads to the end of an archive, however often somebody has to look.
//!
//! Whoever begins opens every object that leads there, and one request that fails ends the look. Where many do, none would ever come
//! to its end if each asked for everything anew. So what was read is kept from one look to the next, until one has begun: of
//! what is written once and never again, and only while it is listed just as it was when it was read. Whatever changes is
//! always asked for, and every look begins with a listing of its own.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::name::Name;
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use store::{Forward, Info, Key, Listing, Page, Store, StoreError, Tag};

/// What is kept at the most: the ends of some hundred large objects, or of thousands of small ones.
const MAX_BYTES: usize = 16 << 20;
/// What is longer is not read to learn what an object is.
const MAX_PIECE_BYTES: usize = 1 << 20;
/// About what a piece takes beside its bytes.
const PIECE_BYTES: usize = 1 << 10;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Recalled(Mutex<Pieces>);

#[derive(Debug, Default)]
struct Pieces {
    by_place: HashMap<(Key, Range<u64>), Piece>,
    /// What they take together.
    size_bytes: usize,
}

/// What was read of an object at once.
#[derive(Debug)]
struct Piece {
    of: AsListed,
    bytes: Bytes,
}

/// What tells an object from another that takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AsListed {
    size_bytes: u64,
    modified: Timestamp,
    tag: Option<Tag>,
}

impl Recalled {
    /// Forgets all of it.
    pub(super) fn forget(&self) {
        *self.pieces() = Pieces::default();
    }

    fn recall(&self, place: &(Key, Range<u64>), of: &AsListed) -> Option<Bytes> {
        let pieces = self.pieces();
        pieces.by_place.get(place).filter(|piece| piece.of == *of).map(|piece| piece.bytes.clone())
    }

    /// Keeps it, if there is room: what is left out is asked for again, as if nothing was kept.
    fn keep(&self, place: (Key, Range<u64>), of: AsListed, bytes: &Bytes) {
        let mut pieces = self.pieces();
        if let Some(before) = pieces.by_place.remove(&place) {
            pieces.size_bytes -= before.size_bytes();
        }
        let size_bytes = pieces.size_bytes.saturating_add(bytes.len().saturating_add(PIECE_BYTES));
        if bytes.len() <= MAX_PIECE_BYTES && size_bytes <= MAX_BYTES {
            // What was answered may be a part of something far larger.
            pieces.by_place.insert(place, Piece { of, bytes: Bytes::copy_from_slice(bytes) });
            pieces.size_bytes = size_bytes;
        }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    fn size_bytes(&self) -> usize {
        self.bytes.len().saturating_add(PIECE_BYTES)
    }
}

impl AsListed {
    fn by(info: &Info) -> Self {
        Self { size_bytes: info.size_bytes, modified: info.modified, tag: info.tag.clone() }
    }
}

/// The store, for one look.
#[derive(Debug)]
pub(super) struct Recalling {
    inner: Arc<dyn Store>,
    /// The folder of the archive.
    folder: String,
    recalled: Arc<Recalled>,
    /// What of the archive is written once, as this look has listed it.
    listed: Mutex<HashMap<Key, AsListed>>,
}

impl Recalling {
    /// `inner`, for a look at the archive in `folder`, by whoever has `recalled` from earlier ones.
    pub(super) fn new(inner: Arc<dyn Store>, folder: String, recalled: Arc<Recalled>) -> Self {
        Self { inner, folder, recalled, listed: Mutex::default() }
    }

    fn is_written_once(&self, key: &Key) -> bool {
        match key.as_str().strip_prefix(&self.folder).and_then(Name::parse) {
            Some(Name::Cluster | Name::Lineage(_) | Name::Full(..) | Name::FullNote(..) | Name::Delta(..)) => true,
            // Who may write and who can open it changes, and proofs lead nowhere.
            Some(Name::Writer | Name::Claim(_) | Name::Lockbox(_) | Name::Proof(..)) | None => false,
        }
    }

    fn listed(&self) -> MutexGuard<'_, HashMap<Key, AsListed>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Forward for Recalling {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let of = self.listed().get(key).cloned();
        let Some(of) = of else { return self.inner.get(key, range).await };
        let place = (key.clone(), range.clone());
        if let Some(bytes) = self.recalled.recall(&place, &of) {
            return Ok(bytes);
        }
        let bytes = self.inner.get(key, range).await?;
        self.recalled.keep(place, of, &bytes);
        Ok(bytes)
    }

    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let page = self.inner.list(listing).await?;
        let kept = page.objects.iter().filter(|info| self.is_written_once(&info.key));
        self.listed().extend(kept.map(|info| (info.key.clone(), AsListed::by(info))));
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use archive::identity::LineageId;
    use archive::name::DeltaName;
    use etcd_data::Revision;
    use store::counting::Counting;
    use store::download::list_all;
    use store::{Memory, Put};

    use super::*;

    /// A store that is counted, and what was recalled of it.
    struct Desk {
        store: Arc<Counting>,
        recalled: Arc<Recalled>,
    }

    impl Desk {
        fn new() -> Self {
            Self { store: Arc::new(Counting::new(Arc::new(Memory::new()))), recalled: Arc::default() }
        }

        async fn put(&self, name: &str, bytes: Vec<u8>) {
            self.store.put(&key(name), bytes.into(), &Put::default()).await.unwrap();
        }

        /// Looks at all of `names`, and tells what they have, and how many of them the store was asked for.
        async fn look(&self, names: &[&str]) -> (Vec<Bytes>, u64) {
            let looking = Recalling::new(Arc::clone(&self.store) as _, "prod/".into(), Arc::clone(&self.recalled));
            list_all(&looking, Listing::default()).await.unwrap();
            self.store.take();
            let mut found = Vec::new();
            for name in names {
                found.push(Store::get(&looking, &key(name), 0..4 << 20).await.unwrap());
            }
            (found, self.store.take().gets)
        }
    }

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    fn delta(from: i64) -> String {
        let lineage = LineageId::new(Timestamp::UNIX_EPOCH, 1);
        let name = DeltaName { level: 0, from: Revision(from), to: Revision(from) };
        format!("prod/{}", Name::Delta(lineage, name))
    }

    #[tokio::test]
    async fn what_is_written_once_is_asked_for_once_while_it_is_the_same() {
        let (desk, delta) = (Desk::new(), delta(1));
        let names = ["prod/cluster.json", &delta];
        for name in names {
            desk.put(name, b"one".to_vec()).await;
        }
        assert_eq!(desk.look(&names).await, (vec!["one".into(), "one".into()], 2));
        assert_eq!(desk.look(&names).await, (vec!["one".into(), "one".into()], 0));

        // Somebody put another in its place, and that is what counts.
        desk.put(&delta, b"another".to_vec()).await;
        assert_eq!(desk.look(&names).await, (vec!["one".into(), "another".into()], 1));
        assert_eq!(desk.look(&names).await.1, 0);
        desk.recalled.forget();
        assert_eq!(desk.look(&names).await.1, 2);
    }

    #[tokio::test]
    async fn what_changes_or_is_of_others_is_asked_for_each_time() {
        let desk = Desk::new();
        let lockbox = format!("prod/keys/{}.json", "0".repeat(32));
        let of_another = delta(1).replacen("prod", "dev", 1);
        let names = ["prod/writer.json", &lockbox, &of_another, "prod/notes.txt"];
        for name in names {
            desk.put(name, b"one".to_vec()).await;
        }
        for _ in 0..2 {
            assert_eq!(desk.look(&names).await.1, names.len() as u64);
        }
    }

    #[tokio::test]
    async fn what_is_kept_has_a_limit() {
        let desk = Desk::new();
        let names: Vec<String> = (1..=20).map(delta).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for name in &names {
            desk.put(name, vec![7; MAX_PIECE_BYTES]).await;
        }
        desk.look(&names).await;
        let (kept, taken) = {
            let pieces = desk.recalled.pieces();
            (pieces.by_place.len(), pieces.by_place.values().map(Piece::size_bytes).sum::<usize>())
        };
        assert!(taken <= MAX_BYTES && kept > 10, "{kept} pieces of {taken} bytes");
        assert_eq!(desk.look(&names).await.1, (names.len() - kept) as u64, "all others are asked for again");

        // What is longer than that is records.
        let longer = delta(21);
        desk.recalled.forget();
        desk.put(&longer, vec![7; MAX_PIECE_BYTES + 1]).await;
        desk.look(&[&longer]).await;
        assert_eq!(desk.look(&[&longer]).await.1, 1);
    }
}
