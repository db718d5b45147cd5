//! What nobody may read.

use std::fmt;

/// A secret. It shows itself to who asks for it by [`Secret::reveal`] only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for signing and sending.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}
