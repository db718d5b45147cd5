//! One object on its way from a store to another: its bytes as they are, under a name that nothing has there yet.
//!
//! What is sent is hashed as it goes by. An object of ours ends with its digest, so one that was damaged where it comes
//! from is found out before it appears where it goes. Once it is there it is read back and compared, all of it.
//! Memory holds a few pieces of it, however large it is.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use sha2::{Digest, Sha256};
use store::download::read;
use store::upload::Uploader;
use store::{Fault, Key, Pieces, Put, Store, StoreError};

use crate::object::{FOOTER_BYTES, digest_at_end};

/// An object, where it is, where it goes, and how large it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Its key where it is.
    pub from: Key,
    /// Its key where it goes.
    pub to: Key,
    /// Its size.
    pub size_bytes: u64,
    /// Whether its last bytes are the digest of all others, as with our fulls and deltas.
    pub is_sealed: bool,
}

/// What was shown of an object that is where it was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The SHA-256 that it ends with, if it is one of ours.
    pub digest: Option<[u8; 32]>,
    /// Its size.
    pub size_bytes: u64,
}

/// Why an object could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its own digest says that it is not as it was written.
    #[error("it is damaged where it comes from: its digest is another than it says")]
    Damaged,
    /// Its name is taken.
    #[error("something else has its name there")]
    InTheWay,
    /// It was read back, and is something else.
    #[error("what was read back is not what was sent")]
    NotAsSent,
}

/// How much of an object is read and written at once. Each object under way has at most [`PIECES_OF_ONE`] in memory.
pub(crate) const PIECES: Pieces = Pieces { bytes: 5 << 20, at_once: 2 };
/// Pieces of one object that are in memory at the most: two that come, two that go, and one between.
pub(crate) const PIECES_OF_ONE: u64 = 5;

/// What is compared at the end of objects that are to be the same: every format here ends with a checksum of the rest.
const END_BYTES: u64 = 64 << 10;

/// An object that was sent, and has not appeared yet.
pub(crate) struct Loaded {
    uploader: Uploader,
    hash: Hashed,
}

impl Parcel {
    /// Reads it and sends it, but for the last step that makes it appear.
    pub(crate) async fn load(&self, from: &Arc<dyn Store>, to: &Arc<dyn Store>, put: Put) -> Result<Loaded, SendError> {
        let mut loaded =
            Loaded { uploader: Uploader::new(Arc::clone(to), self.to.clone(), put, PIECES), hash: Hashed::default() };
        match self.pour(from, &mut loaded).await {
            Ok(()) => Ok(loaded),
            Err(error) => {
                loaded.give_up().await;
                Err(error)
            }
        }
    }

    async fn pour(&self, from: &Arc<dyn Store>, loaded: &mut Loaded) -> Result<(), SendError> {
        let bytes = read(Arc::clone(from), self.from.clone(), 0..self.size_bytes, PIECES);
        let mut bytes = std::pin::pin!(bytes);
        while let Some(piece) = bytes.try_next().await? {
            loaded.hash.add(&piece);
            loaded.uploader.write(piece).await?;
        }
        if self.is_sealed { loaded.hash.sealed().map(|_| ()).ok_or(SendError::Damaged) } else { Ok(()) }
    }

    /// Brings it to its place and reads it back there. If it is there already, that is as good.
    pub async fn deliver(&self, from: &Arc<dyn Store>, to: &Arc<dyn Store>) -> Result<Arrived, SendError> {
        let (sent, published) = self.load(from, to, Put::lasting(to.abilities())).await?.publish().await;
        match published {
            Ok(()) | Err(StoreError { fault: Fault::Exists, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let there = match self.read_back(to).await {
            // Something shorter is there.
            Err(StoreError { fault: Fault::Invalid(_), .. }) if published.is_err() => return Err(SendError::InTheWay),
            there => there?,
        };
        match (sent.whole() == there.whole(), published) {
            (true, _) => Ok(there.arrived()),
            (false, Ok(())) => Err(SendError::NotAsSent),
            (false, Err(_)) => Err(SendError::InTheWay),
        }
    }

    /// Reads all of what is at its place, and tells what it is.
    pub(crate) async fn read_back(&self, to: &Arc<dyn Store>) -> Result<Hashed, StoreError> {
        hashed(to, &self.to, self.size_bytes).await
    }

    /// Whether what is at its place ends as it does, and is as large.
    pub(crate) async fn has_same_end(&self, from: &dyn Store, to: &dyn Store) -> Result<bool, StoreError> {
        let range = self.size_bytes.saturating_sub(END_BYTES)..self.size_bytes;
        if range.is_empty() {
            return Ok(true);
        }
        let (here, there) = futures::join!(from.get(&self.from, range.clone()), to.get(&self.to, range));
        Ok(here? == there?)
    }
}

impl Loaded {
    /// Makes the object appear. Gives its SHA-256, or that its name was taken meanwhile.
    pub(crate) async fn publish(self) -> (Hashed, Result<(), StoreError>) {
        let published = self.uploader.finish().await.map(|_| ());
        (self.hash, published)
    }

    /// Takes back what was sent of it.
    pub(crate) async fn give_up(self) {
        // What is left then is cleaned up later, as what others leave that die.
        let _ = self.uploader.give_up().await;
    }
}

/// All bytes of an object of a store, as far as they tell what it is.
pub(crate) async fn hashed(store: &Arc<dyn Store>, key: &Key, size_bytes: u64) -> Result<Hashed, StoreError> {
    let bytes = read(Arc::clone(store), key.clone(), 0..size_bytes, PIECES);
    let fold = |mut hash: Hashed, piece: Bytes| async move {
        hash.add(&piece);
        Ok(hash)
    };
    bytes.try_fold(Hashed::default(), fold).await
}

/// The SHA-256 of bytes that went by, with that of all but the last, which may be a digest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hashed {
    body: Sha256,
    /// At most the size of a footer.
    end: Vec<u8>,
    size_bytes: u64,
}

impl Hashed {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.size_bytes += bytes.len() as u64;
        // Of what was kept and what comes, all but the last.
        let before_end = (self.end.len() + bytes.len()).saturating_sub(FOOTER_BYTES);
        let of_kept = before_end.min(self.end.len());
        self.body.update(self.end.drain(..of_kept).as_slice());
        let (body, end) = bytes.split_at(before_end - of_kept);
        self.body.update(body);
        self.end.extend_from_slice(end);
    }

    /// The SHA-256 of everything.
    pub(crate) fn whole(&self) -> [u8; 32] {
        self.body.clone().chain_update(&self.end).finalize().into()
    }

    /// The digest that an object of ours ends with, if it is that of the rest.
    pub(crate) fn sealed(&self) -> Option<[u8; 32]> {
        let digest: [u8; 32] = self.body.clone().finalize().into();
        digest_at_end(&self.end).filter(|told| *told == digest)
    }

    pub(crate) fn arrived(&self) -> Arrived {
        Arrived { digest: self.sealed(), size_bytes: self.size_bytes }
    }
}

impl SendError {
    /// What a caller may do about it.
    pub fn kind(&self) -> etcd_data::Kind {
        use etcd_data::Kind;
        match self {
            Self::Store(error) => crate::error::kind_of(&error.fault),
            Self::Damaged | Self::NotAsSent => Kind::Corrupt,
            Self::InTheWay => Kind::Conflict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_by_in_pieces_is_hashed_as_a_whole() {
        let bytes: Vec<u8> = (0..300_u32).map(|at| (at % 251) as u8).collect();
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let sealed = [&bytes[..], &digest, b"LFER\n\r\x8f\0"].concat();
        for step in [1, 7, 39, 40, 41, 100, 340] {
            let mut hash = Hashed::default();
            sealed.chunks(step).for_each(|piece| hash.add(piece));
            assert_eq!(hash.whole(), <[u8; 32]>::from(Sha256::digest(&sealed)), "{step}");
            assert_eq!(hash.sealed(), Some(digest));
        }
        let mut changed = Hashed::default();
        changed.add(&[&[1], &sealed[1..]].concat());
        assert_eq!(changed.sealed(), None);
        let mut short = Hashed::default();
        short.add(b"short");
        assert_eq!((short.sealed(), short.whole()), (None, Sha256::digest(b"short").into()));
    }
}
