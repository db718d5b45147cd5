//! The names of objects.

use std::fmt;

/// The name of an object: segments between slashes, below the place that a store was opened at.
///
/// A key never leads out of that place: no segment is empty, `.` or `..`, or has a control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Longer keys are refused: S3 takes 1024 bytes, and the place takes some of them.
pub const MAX_KEY_BYTES: usize = 800;

/// Text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{:?} cannot be the name of an object", text.chars().take(80).collect::<String>())]
pub struct NotAKey {
    /// The text.
    pub text: String,
}

impl Key {
    /// The key that `text` is.
    pub fn parse(text: impl Into<String>) -> Result<Self, NotAKey> {
        let text = text.into();
        let fits = text.len() <= MAX_KEY_BYTES && text.split('/').all(is_segment);
        if fits { Ok(Self(text)) } else { Err(NotAKey { text }) }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What comes after the last slash.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

fn is_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..") && !segment.contains(char::is_control) && !segment.contains('\\')
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_nowhere_else() {
        for good in ["a", "a/b.json", "prod/01/full/2-x.full", "ü/%"] {
            assert_eq!(Key::parse(good).map(|key| key.to_string()), Ok(good.into()));
        }
        for bad in ["", "/a", "a/", "a//b", "../a", "a/./b", "a\0", "a\nb", "a\\b", &"x".repeat(MAX_KEY_BYTES + 1)] {
            assert!(Key::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Key::parse("a/b/c.delta").unwrap().name(), "c.delta");
    }
}
