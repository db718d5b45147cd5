//! The bearer token, in a file that may be replaced at any time.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::HttpError;

/// Longer than any token.
const LONGEST: u64 = 16 << 10;

/// A file with a token. It is read whenever somebody shows one, so a new one holds at once; one that cannot be read
/// lets nobody in.
#[derive(Debug, Clone)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// The token in `path`, which has to be there.
    pub fn open(path: &Path) -> Result<Self, HttpError> {
        let file = Self(path.to_owned());
        file.read()?;
        Ok(file)
    }

    /// The token as it is now.
    pub fn read(&self) -> Result<String, HttpError> {
        let what = "the token";
        let cannot = |source| HttpError::Read { what, path: self.0.clone(), source };
        let length = std::fs::metadata(&self.0).map_err(cannot)?.len();
        let wrong = |why: &str| HttpError::Content { what: "token", path: self.0.clone(), why: why.into() };
        if length > LONGEST {
            return Err(wrong("it is too long"));
        }
        let text = std::fs::read_to_string(&self.0).map_err(cannot)?;
        match text.trim() {
            "" => Err(wrong("it is empty")),
            token if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token.to_owned()),
            _ => Err(wrong("a token is one word of ASCII")),
        }
    }

    /// Whether `shown` is it. The time that this takes tells nothing: digests are compared, all of them.
    pub(super) fn is(&self, shown: &str) -> bool {
        match self.read() {
            Ok(token) => {
                let (ours, theirs) = (Sha256::digest(token), Sha256::digest(shown));
                ours.iter().zip(theirs.iter()).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
            }
            Err(error) => {
                tracing::warn!(%error, "nobody is let in by a token");
                false
            }
        }
    }
}
