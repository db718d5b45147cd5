//! Keys of people: age recipients and identities, and passphrases. What is locked for them is an age file, so that the
//! age tool opens it without us.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use age::DecryptError;
use age::secrecy::SecretString;
use age::x25519;

use crate::encryption::archive_key::{ArchiveKey, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::lockbox::{Lock, method};

/// The logarithm of the work that a passphrase is stretched with: 128 MiB and some tenths of a second.
pub const WORK_FACTOR: u8 = 17;

/// More is not tried: 1 GiB, and some seconds.
pub const MAX_WORK_FACTOR: u8 = 20;

const MAX_IDENTITY_FILE_BYTES: u64 = 1 << 20;

/// What a passphrase is called among recipients.
pub(crate) const PASSPHRASE: &str = "passphrase";

/// Asks for a passphrase; it is told what for.
pub type AskPassphrase = Arc<dyn Fn(&str) -> Result<SecretString, String> + Send + Sync>;

/// A passphrase that an archive key is locked with.
#[derive(Clone)]
pub struct Passphrase {
    /// The passphrase.
    pub secret: SecretString,
    /// The logarithm of the work that it is stretched with.
    pub work_factor: u8,
}

impl Passphrase {
    /// This passphrase, with the work that is usual.
    pub fn new(secret: SecretString) -> Self {
        Self { secret, work_factor: WORK_FACTOR }
    }

    pub(crate) fn lock(&self, key: &ArchiveKey) -> Lock {
        let mut recipient = age::scrypt::Recipient::new(self.secret.clone());
        recipient.set_work_factor(self.work_factor.clamp(1, MAX_WORK_FACTOR));
        Lock::new(method::PASSPHRASE, PASSPHRASE.into(), &encrypt(&recipient, key))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase")
    }
}

/// Locks `key` for an age recipient.
pub(crate) fn lock(recipient: &x25519::Recipient, key: &ArchiveKey) -> Lock {
    Lock::new(method::AGE, recipient.to_string(), &encrypt(recipient, key))
}

/// What is in the age file `locked`, for the holder of `identity`. Nothing if it is for somebody else, or was changed.
pub(crate) fn open(identity: &x25519::Identity, locked: &[u8]) -> Option<Vec<u8>> {
    age::decrypt(identity, locked).ok()
}

/// What is in the age file `locked`, for whoever knows the passphrase. `of` names it.
pub(crate) fn open_with_passphrase(
    id: KeyId,
    passphrase: SecretString,
    locked: &[u8],
    of: &str,
) -> Result<Vec<u8>, KeyError> {
    let mut identity = age::scrypt::Identity::new(passphrase);
    identity.set_max_work_factor(MAX_WORK_FACTOR);
    age::decrypt(&identity, locked).map_err(|error| match error {
        DecryptError::ExcessiveWork { required, .. } => {
            KeyError::TooMuchWork { of: of.into(), found: required, allowed: MAX_WORK_FACTOR }
        }
        _ => KeyError::WrongPassphrase { id },
    })
}

/// The identities in a file as age-keygen writes it; `ask` is for one that is itself locked with a passphrase.
pub(crate) fn read_identities(path: &Path, ask: Option<&AskPassphrase>) -> Result<Vec<x25519::Identity>, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: path.into(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_IDENTITY_FILE_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.starts_with(b"age-encryption.org/v1") || bytes.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") {
        bytes = unlock_file(path, &bytes, ask)?;
    }
    let text = String::from_utf8(bytes).map_err(|_| not_an_identity(path, None))?;
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let identities: Result<Vec<x25519::Identity>, KeyError> = (text.lines().map(str::trim).enumerate())
        .filter(|(_, line)| is_said(line))
        .map(|(index, line)| line.parse().map_err(|_| not_an_identity(path, Some(index + 1))))
        .collect();
    identities.and_then(|found| if found.is_empty() { Err(not_an_identity(path, None)) } else { Ok(found) })
}

fn unlock_file(path: &Path, bytes: &[u8], ask: Option<&AskPassphrase>) -> Result<Vec<u8>, KeyError> {
    let name = path.display().to_string();
    let ask = ask.ok_or_else(|| KeyError::NoPassphrase { what: format!("{name} is locked with one") })?;
    let secret = ask(&name).map_err(|what| KeyError::NoPassphrase { what })?;
    let mut identity = age::scrypt::Identity::new(secret);
    identity.set_max_work_factor(MAX_WORK_FACTOR);
    age::decrypt(&identity, bytes).map_err(|error| match error {
        DecryptError::ExcessiveWork { required, .. } => {
            KeyError::TooMuchWork { of: name, found: required, allowed: MAX_WORK_FACTOR }
        }
        _ => KeyError::NoPassphrase { what: format!("the one given does not open {name}") },
    })
}

fn not_an_identity(path: &Path, line: Option<usize>) -> KeyError {
    KeyError::NotAKey { path: path.into(), line, expected: "an age identity (AGE-SECRET-KEY-1…)" }
}

fn encrypt(recipient: &impl age::Recipient, key: &ArchiveKey) -> Vec<u8> {
    age::encrypt(recipient, key.secret().bytes()).expect("writing to memory does not fail")
}
