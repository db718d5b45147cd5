//! An archive key: what the data keys of many objects are wrapped with.
//!
//! A data key is drawn for each object and wrapped with the archive key of its time. The wrapped data key, as it stands
//! in the object's header in base64:
//!
//! | offset | size | field                                              |
//! |--------|------|----------------------------------------------------|
//! | 0      | 12   | nonce                                              |
//! | 12     | 32   | the data key, encrypted with AES-256-GCM           |
//! | 44     | 16   | its tag                                            |
//!
//! The associated data is the text `refloat data key` followed by the 16 bytes of the archive key's id.
//!
//! The id is made of the key: the first 16 bytes of the SHA-256 of the text `refloat archive key`, the cluster's
//! identity (16 bytes, big-endian) and the key. So a lockbox cannot name one key and give another, and a key of one
//! cluster is never taken for one of another.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encryption::{Opener, SEGMENT_BYTES, Sealer, Secret};
use crate::header::Encryption;
use crate::identity::{ClusterUid, NotAnIdentity};

/// The one cipher there is.
pub const CIPHER: &str = "aes-256-gcm";

const SEALED_KEY_BYTES: usize = 12 + 32 + 16;

/// Which archive key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(pub u128);

/// What data keys are wrapped with.
#[derive(Debug, Clone)]
pub struct ArchiveKey {
    id: KeyId,
    secret: Secret,
}

/// The key of one object's body.
#[derive(Debug)]
pub struct DataKey(Secret);

impl ArchiveKey {
    /// A new one for the archive of `cluster`.
    pub fn draw(cluster: ClusterUid) -> Self {
        Self::new(cluster, Secret::draw())
    }

    /// The archive key of `cluster` that is this secret.
    pub(crate) fn new(cluster: ClusterUid, secret: Secret) -> Self {
        let digest = Sha256::new()
            .chain_update("refloat archive key")
            .chain_update(cluster.0.to_be_bytes())
            .chain_update(secret.bytes())
            .finalize();
        let id = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        Self { id: KeyId(id), secret }
    }

    /// Which one it is.
    pub fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// A new data key, and what the header of its object says of it. `recipients` are those who can open the archive
    /// key.
    pub fn data_key(&self, recipients: Vec<String>) -> (DataKey, Encryption) {
        let data_key = Secret::draw();
        let encryption = Encryption {
            cipher: CIPHER.into(),
            segment_bytes: SEGMENT_BYTES,
            archive_key: self.id,
            data_key: BASE64_STANDARD.encode(wrap(&self.secret, &data_key, &self.aad())),
            recipients,
        };
        (DataKey(data_key), encryption)
    }

    /// The data key that a header has. Nothing if it was changed, or was wrapped with another archive key.
    pub fn unwrap(&self, encryption: &Encryption) -> Option<DataKey> {
        let wrapped = BASE64_STANDARD.decode(&encryption.data_key).ok()?;
        unwrap(&self.secret, &wrapped, &self.aad()).map(DataKey)
    }

    fn aad(&self) -> Vec<u8> {
        [b"refloat data key".as_slice(), &self.id.0.to_be_bytes()].concat()
    }
}

impl DataKey {
    /// Seals the body behind `header`, which has this key and is what its object begins with, byte for byte.
    pub fn sealer(self, header: &[u8]) -> Sealer {
        Sealer::new(&self.0, header)
    }

    /// Opens the body behind `header`.
    pub fn opener(&self, header: &[u8]) -> Opener {
        Opener::new(&self.0, header)
    }
}

/// `secret`, to be opened with `key` alone: nonce, ciphertext, tag.
pub(crate) fn wrap(key: &Secret, secret: &Secret, aad: &[u8]) -> Vec<u8> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key.bytes()).expect("a key of AES-256 has 32 bytes");
    let mut bytes = secret.bytes().to_vec();
    let sealed = key.seal_in_place_append_tag(Aad::from(aad), &mut bytes).expect("32 bytes can be encrypted");
    [sealed.as_ref().as_slice(), &bytes].concat()
}

/// What [`wrap`] was given. Nothing if `wrapped` was changed or is for another key.
pub(crate) fn unwrap(key: &Secret, wrapped: &[u8], aad: &[u8]) -> Option<Secret> {
    let (nonce, sealed) = wrapped.split_first_chunk::<12>().filter(|_| wrapped.len() == SEALED_KEY_BYTES)?;
    let key = RandomizedNonceKey::new(&AES_256_GCM, key.bytes()).expect("a key of AES-256 has 32 bytes");
    let mut bytes = sealed.to_vec();
    let plain = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(aad), &mut bytes).ok()?;
    let secret = Secret::from_bytes(plain);
    plain.fill(0);
    secret
}

impl FromStr for KeyId {
    type Err = NotAnIdentity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| fits);
        number.map(Self).ok_or_else(|| NotAnIdentity { text: text.into(), expected: "the id of an archive key" })
    }
}

impl TryFrom<String> for KeyId {
    type Error = NotAnIdentity;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_key_opens_with_its_own_archive_key_alone() {
        let key = ArchiveKey::draw(ClusterUid(1));
        let (data_key, encryption) = key.data_key(vec!["somebody".into()]);
        let mut sealed = Vec::new();
        data_key.sealer(b"header").seal(b"plain", true, &mut sealed);

        let opened = key.unwrap(&encryption).unwrap();
        assert_eq!(opened.opener(b"header").open(0, true, &sealed).unwrap(), b"plain");

        assert!(ArchiveKey::draw(ClusterUid(1)).unwrap(&encryption).is_none());
        let moved = ArchiveKey::new(ClusterUid(2), key.secret().clone());
        assert!(moved.unwrap(&encryption).is_none(), "the id, and so the cluster, counts");
        for changed in ["", "AAAA", "!", &encryption.data_key.to_lowercase()] {
            let encryption = Encryption { data_key: changed.into(), ..encryption.clone() };
            assert!(key.unwrap(&encryption).is_none(), "{changed}");
        }
    }

    #[test]
    fn the_id_is_made_of_the_cluster_and_the_key() {
        // sha256("refloat archive key" || 00..01 || 32 bytes of 2a), by hand with sha256sum.
        let key = ArchiveKey::new(ClusterUid(1), Secret::from_bytes(&[0x2a; 32]).unwrap());
        assert_eq!(key.id().to_string(), "6fabb7dca54676c29b4cb7ce062292ca");
        assert_eq!(key.id().to_string().parse(), Ok(key.id()));
        assert_ne!(key.id(), ArchiveKey::new(ClusterUid(2), key.secret().clone()).id());
    }

    #[test]
    fn no_key_is_printed() {
        let key = ArchiveKey::new(ClusterUid(1), Secret::from_bytes(&[0x2a; 32]).unwrap());
        let printed = format!("{key:?} {:?}", key.data_key(Vec::new()).0);
        assert!(!printed.contains("42") && !printed.contains("2a2a"), "{printed}");
    }
}
