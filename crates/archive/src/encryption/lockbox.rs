//! A lockbox: `keys/<id>.json`, an archive key locked once for each recipient.
//!
//! ```text
//! {
//!   "format": 1,
//!   "cluster": { "name": "prod", "id": "<32 hexadecimal digits>" },
//!   "id": "<32 hexadecimal digits>",        made of the key, see the archive key
//!   "created": "2026-11-21T09:30:00Z",
//!   "superseded": null,                     or since when nothing new is written with this key
//!   "taken": [],                            who could open it before, and may have kept it
//!   "program": "refloat 0.1.0",
//!   "locks": [
//!     { "method": "age", "recipient": "age1…", "locked": "<base64>" }
//!   ]
//! }
//! ```
//!
//! | method           | recipient                                     | locked: base64 of                            |
//! |------------------|-----------------------------------------------|----------------------------------------------|
//! | `age`            | `age1…`                                       | an age file with the 32 bytes of the key     |
//! | `age-passphrase` | `passphrase`                                  | the same, for a passphrase (scrypt)          |
//! | `key-file`       | `key-file:` and 16 digits of the key's digest | nonce (12), AES-256-GCM of the key, tag (16) |
//! | `aws-kms`        | `aws-kms:` and the key's ARN, id or alias     | the ciphertext of KMS                        |
//! | `vault-transit`  | `vault:` and `<mount>/<key>`                  | the text that Vault gave, as `vault:v1:…`    |
//!
//! The digest of a key file's key is the SHA-256 of the text `refloat key file` and the key; its associated data is the
//! text `refloat archive key` and the 16 bytes of the archive key's id. The encryption context of KMS has
//! `refloat-cluster` and `refloat-key`, with the two identities in hexadecimal.
//!
//! Whoever stands in `taken` of any lockbox is left out by all who write, until somebody lets them in again.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::encryption::archive_key::{ArchiveKey, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::secret::Secret;
use crate::identity::Cluster;

/// The version of the format that is written.
pub(crate) const FORMAT: u32 = 1;

/// A lockbox that is larger is refused.
pub const MAX_LOCKBOX_BYTES: usize = 256 << 10;

/// More recipients than these are refused, written and read.
pub(crate) const MAX_LOCKS: usize = 100;

/// What `keys/<id>.json` has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lockbox {
    /// The version of the format.
    pub format: u32,
    /// Whose archive's key it is.
    pub cluster: Cluster,
    /// Which key.
    pub id: KeyId,
    /// When it was drawn.
    pub created: Timestamp,
    /// Since when nothing new is written with it, if somebody was taken away who may have kept it.
    pub superseded: Option<Timestamp>,
    /// Those who were taken away. Lockboxes that were written before anybody was have none.
    #[serde(default)]
    pub taken: Vec<String>,
    /// The program that wrote this, as `refloat 0.1.0`.
    pub program: String,
    /// The key, once for each who may open it.
    pub locks: Vec<Lock>,
}

/// An archive key that only its recipient can open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// How it is locked. What other versions add is kept.
    pub method: String,
    /// For whom, so that a person can tell which key is asked for. It is no secret.
    pub recipient: String,
    /// The locked key, in base64.
    pub locked: String,
}

/// `method` of a [`Lock`].
pub(crate) mod method {
    pub(crate) const AGE: &str = "age";
    pub(crate) const PASSPHRASE: &str = "age-passphrase";
    pub(crate) const KEY_FILE: &str = "key-file";
    pub(crate) const AWS_KMS: &str = "aws-kms";
    pub(crate) const VAULT: &str = "vault-transit";
}

impl Lockbox {
    /// The lockbox that `bytes`, read from the place of `id`, are.
    pub fn parse(id: KeyId, bytes: &[u8]) -> Result<Self, KeyError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let malformed = |what: String| KeyError::Malformed { id, what };
        if bytes.len() > MAX_LOCKBOX_BYTES {
            return Err(malformed(format!("it is larger than {MAX_LOCKBOX_BYTES} bytes")));
        }
        let version: Version = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        if version.format > FORMAT {
            return Err(KeyError::Newer { id, found: version.format, known: FORMAT });
        }
        let lockbox: Self = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        if lockbox.id != id {
            return Err(malformed(format!("it is that of {}", lockbox.id)));
        }
        if lockbox.locks.len() > MAX_LOCKS {
            return Err(malformed(format!("it has {} locks", lockbox.locks.len())));
        }
        Ok(lockbox)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a lockbox is plain JSON")
    }

    /// For whom it is locked.
    pub fn recipients(&self) -> Vec<String> {
        self.locks.iter().map(|lock| lock.recipient.clone()).collect()
    }

    /// The archive key that `bytes`, out of `lock`, are, if they are that of this lockbox.
    pub(crate) fn key(&self, lock: &Lock, bytes: &[u8]) -> Result<ArchiveKey, KeyError> {
        Secret::from_bytes(bytes)
            .map(|secret| ArchiveKey::new(self.cluster.id, secret))
            .filter(|key| key.id() == self.id)
            .ok_or_else(|| self.tampered(lock))
    }

    pub(crate) fn tampered(&self, lock: &Lock) -> KeyError {
        KeyError::Tampered { id: self.id, recipient: lock.recipient.clone() }
    }
}

impl Lock {
    pub(crate) fn new(method: &str, recipient: String, locked: &[u8]) -> Self {
        Self { method: method.into(), recipient, locked: BASE64_STANDARD.encode(locked) }
    }

    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        BASE64_STANDARD.decode(&self.locked).ok()
    }
}
