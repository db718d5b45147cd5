//! Encryption: who can read an archive, and how it stays theirs.
//!
//! Three levels of keys, so that keys change without any data being written again:
//!
//! ```text
//! recipients    people's age keys, a passphrase, a key file, a key of AWS KMS or of Vault: never in the archive
//!     │ each locks
//! archive key   in keys/<id>.json, the lockbox: once for each recipient; replaced by conditional puts
//!     │ wraps
//! data key      in the header of each object, drawn for it
//!     │ seals
//! body          in segments; the header is authenticated with each
//! ```
//!
//! Adding a recipient, and taking one away, is writing the lockboxes again. Who was taken away and had an archive key
//! in hand may have kept it, so a new archive key is drawn for what is written from then on, and whoever is told to
//! write for them all the same leaves them out. One request to a KMS opens all objects of an archive key, not one each.
//!
//! Why not put the recipients' locks into each object: then nobody could ever be taken away, and every object would
//! have to be written again when a KMS key retires. The price is that a lockbox is needed for every object of its key;
//! nothing ever deletes one, and verification looks for it. The header names the recipients of its time, so that a
//! person can tell what is asked for even then.
//!
//! Whoever may write to the store could put a lockbox there with a key that is theirs, locked for a public age
//! key. So a writer goes on with an archive key that it finds only if a recipient whose locks take a secret to make
//! opens it: a passphrase, a key file, a KMS. Otherwise it draws a new one when it starts.
//!
//! An object in the open that says it was written a day after the first lockbox, or later, is not used, merged or deleted: an archive
//! that is encrypted is never gone on with in the open. What was there before counts, and plans that read it say so. When
//! the first lockbox was made is what it says itself, so this holds where nobody can write over what is there (object
//! lock), and against mistakes everywhere. A public age key proves nothing of who encrypted something; the other
//! recipients do.

mod age_key;
mod archive_key;
mod error;
pub(crate) mod in_the_open;
mod keyring;
mod kms;
mod local_key;
mod lockbox;
mod lockboxes;
mod recipient;
mod secret;
mod segment;
mod service;
mod sigv4;
#[cfg(test)]
mod tests;
pub mod unlock;
mod vault;

pub use age_key::{AskPassphrase, MAX_WORK_FACTOR, Passphrase, WORK_FACTOR};
pub use archive_key::{ArchiveKey, CIPHER, DataKey, KeyId};
pub use error::KeyError;
pub use keyring::{Keyring, Opened};
pub use kms::{AwsCredentials, Kms, KmsKey};
pub use local_key::LocalKey;
pub use lockbox::{Lock, Lockbox, MAX_LOCKBOX_BYTES};
pub use lockboxes::{Lockboxes, Relock, WritingKey};
pub use recipient::Recipient;
pub use secret::{KEY_BYTES, Secret};
pub use segment::{
    MAX_SEGMENT_BYTES, NotAuthentic, Opener, SEGMENT_BYTES, Sealer, TAG_BYTES, plain_bytes, sealed_bytes,
};
pub use sigv4::AwsCredential;
pub use vault::{Vault, VaultKey, VaultToken};
