//! A key in a file: 32 bytes as 64 hexadecimal digits or in base64, as `openssl rand -hex 32` writes them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base16ct::lower::encode_string;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::encryption::archive_key::{self, ArchiveKey, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::lockbox::{Lock, method};
use crate::encryption::secret::Secret;

/// A key that lies in a file.
#[derive(Debug, Clone)]
pub struct LocalKey(Secret);

impl LocalKey {
    /// Reads it. A file that everybody on this machine can read is refused.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.into(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
        if mode & 0o007 != 0 {
            return Err(KeyError::Exposed { path: path.into(), mode });
        }
        let mut text = Vec::new();
        file.take(1024).read_to_end(&mut text).map_err(unreadable)?;
        let expected = "a key: 64 hexadecimal digits, or 32 bytes in base64";
        Self::parse(&text).ok_or(KeyError::NotAKey { path: path.into(), line: None, expected })
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let hex = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
        let bytes: Option<Vec<u8>> = match text.len() {
            64 => text.as_chunks().0.iter().map(hex).collect(),
            _ => BASE64_STANDARD.decode(text).ok(),
        };
        Secret::from_bytes(&bytes?).map(Self)
    }

    /// What it is called: a part of its digest, which tells nothing of it.
    pub fn name(&self) -> String {
        let digest = Sha256::new().chain_update("refloat key file").chain_update(self.0.bytes()).finalize();
        let mut digits = encode_string(&digest);
        digits.truncate(16);
        format!("key-file:{digits}")
    }

    pub(crate) fn lock(&self, key: &ArchiveKey) -> Lock {
        Lock::new(method::KEY_FILE, self.name(), &archive_key::wrap(&self.0, key.secret(), &aad(key.id())))
    }

    pub(crate) fn open(&self, id: KeyId, locked: &[u8]) -> Option<Secret> {
        archive_key::unwrap(&self.0, locked, &aad(id))
    }
}

fn aad(id: KeyId) -> Vec<u8> {
    [b"refloat archive key".as_slice(), &id.0.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_key_file_is_read_in_both_forms_and_refused_when_everybody_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let write = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            LocalKey::read(&path)
        };
        let hex = "2a".repeat(32);
        let base64 = BASE64_STANDARD.encode([0x2a; 32]);
        let name = write(&format!("{hex}\n"), 0o600).unwrap().name();
        // sha256("refloat key file" || 32 bytes of 2a), by hand with sha256sum.
        assert_eq!(name, "key-file:158c184e497d0ef4");
        assert_eq!(write(&base64, 0o440).unwrap().name(), name);
        assert!(matches!(write(&hex, 0o604), Err(KeyError::Exposed { mode: 0o604, .. })));
        for text in ["", "2a", &hex[..62], &format!("{hex}00"), &"zz".repeat(32)] {
            assert!(matches!(write(text, 0o600), Err(KeyError::NotAKey { .. })), "{text}");
        }
        assert!(matches!(LocalKey::read(Path::new("/nonexistent")), Err(KeyError::Unreadable { .. })));
    }
}
