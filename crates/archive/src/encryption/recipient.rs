//! For whom an archive is locked.

use age::x25519;

use crate::encryption::age_key::{self, PASSPHRASE, Passphrase};
use crate::encryption::archive_key::ArchiveKey;
use crate::encryption::error::KeyError;
use crate::encryption::kms::KmsKey;
use crate::encryption::local_key::LocalKey;
use crate::encryption::lockbox::{Lock, method};
use crate::encryption::vault::VaultKey;
use crate::identity::ClusterUid;

/// One who can open an archive.
#[derive(Debug, Clone)]
pub enum Recipient {
    /// The holder of an age identity.
    Age(x25519::Recipient),
    /// Whoever knows a passphrase.
    Passphrase(Passphrase),
    /// Whoever has a key file.
    KeyFile(LocalKey),
    /// Whoever AWS KMS lets decrypt.
    AwsKms(KmsKey),
    /// Whoever Vault lets decrypt.
    Vault(VaultKey),
}

impl Recipient {
    /// The age recipient that `text` is: `age1…`.
    pub fn age(text: &str) -> Result<Self, KeyError> {
        text.trim().parse().map(Self::Age).map_err(|_| KeyError::NotARecipient { text: text.into() })
    }

    /// What it is called. It is no secret.
    pub fn name(&self) -> String {
        match self {
            Self::Age(recipient) => recipient.to_string(),
            Self::Passphrase(_) => PASSPHRASE.into(),
            Self::KeyFile(key) => key.name(),
            Self::AwsKms(key) => key.name(),
            Self::Vault(key) => key.name(),
        }
    }

    /// Whether only somebody with a secret can lock something for it.
    pub(crate) fn takes_a_secret(&self) -> bool {
        !matches!(self, Self::Age(_))
    }

    /// Locks `key`, of the archive of `cluster`, for it.
    pub async fn lock(&self, cluster: ClusterUid, key: &ArchiveKey) -> Result<Lock, KeyError> {
        match self {
            Self::Age(recipient) => Ok(age_key::lock(recipient, key)),
            Self::Passphrase(passphrase) => Ok(passphrase.lock(key)),
            Self::KeyFile(local) => Ok(local.lock(key)),
            Self::AwsKms(kms) => kms.lock(cluster, key).await,
            Self::Vault(vault) => vault.lock(key).await,
        }
    }
}

/// Whether a lock that opens was made by somebody who holds a secret. Anybody can lock something for an age recipient.
pub(crate) fn takes_a_secret(lock: &Lock) -> bool {
    [method::PASSPHRASE, method::KEY_FILE, method::AWS_KMS, method::VAULT].contains(&lock.method.as_str())
}
