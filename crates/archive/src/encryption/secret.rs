//! 32 bytes that nobody may see.

use std::fmt;
use std::sync::Arc;

use age::secrecy::{ExposeSecret, SecretBox};

/// The size of every key here, that of AES-256.
pub const KEY_BYTES: usize = 32;

/// A key. It is never printed, and wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(Arc<SecretBox<[u8; KEY_BYTES]>>);

impl Secret {
    /// A new one.
    pub fn draw() -> Self {
        Self(Arc::new(SecretBox::init_with_mut(|bytes: &mut [u8; KEY_BYTES]| {
            aws_lc_rs::rand::fill(bytes).expect("the system has random numbers");
        })))
    }

    /// The key that `bytes` are. Nothing if they are not 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len() == KEY_BYTES;
        fits.then(|| Self(Arc::new(SecretBox::init_with_mut(|key: &mut [u8; KEY_BYTES]| key.copy_from_slice(bytes)))))
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
