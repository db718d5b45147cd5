//! Revisions, and the keys of the `key` bucket.
//!
//! | offset | size | field, big-endian                                     |
//! |--------|------|-------------------------------------------------------|
//! | 0      | 8    | main: the revision of the store                       |
//! | 8      | 1    | `_`                                                   |
//! | 9      | 8    | sub: the place of the change in its transaction       |
//! | 17     | 1    | `t` if the change is a deletion; else the key is over |
//!
//! So the order of the bytes is the order of the changes.

use std::fmt;

/// A revision of the store, counted from 1; user data begins at 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub i64);

impl Revision {
    /// What an empty store is at.
    pub const FIRST: Self = Self(1);

    /// The revision after this one; the last one stays.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The key of one change: when, which of its transaction, and whether it deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevKey {
    /// The revision of the store.
    pub main: Revision,
    /// The place of the change in its transaction.
    pub sub: i64,
    /// Whether it deletes.
    pub tombstone: bool,
}

impl RevKey {
    /// Reads a key of the `key` bucket.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (main, rest) = bytes.split_first_chunk()?;
        let (separator, rest) = rest.split_first()?;
        let (sub, rest) = rest.split_first_chunk()?;
        let key = Self {
            main: Revision(i64::from_be_bytes(*main)),
            sub: i64::from_be_bytes(*sub),
            tombstone: match rest {
                [] => false,
                [b't'] => true,
                _ => return None,
            },
        };
        (*separator == b'_' && key.main.0 >= 0 && key.sub >= 0).then_some(key)
    }

    /// The bytes of this key.
    pub fn encode(&self) -> EncodedRevKey {
        let mut bytes = *b"........_........t";
        let (main, sub) = bytes.split_at_mut(9);
        if let (Some(main), Some(sub)) = (main.first_chunk_mut(), sub.first_chunk_mut()) {
            (*main, *sub) = (self.main.0.to_be_bytes(), self.sub.to_be_bytes());
        }
        EncodedRevKey { bytes, len: if self.tombstone { 18 } else { 17 } }
    }
}

/// The bytes of a [`RevKey`].
#[derive(Debug, Clone, Copy)]
pub struct EncodedRevKey {
    bytes: [u8; 18],
    len: usize,
}

impl std::ops::Deref for EncodedRevKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Display for RevKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.main, self.sub, if self.tombstone { "t" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_as_it_was_written_and_sorts_by_revision() {
        let key = |main, sub, tombstone| RevKey { main: Revision(main), sub, tombstone };
        let keys = [key(2, 0, false), key(2, 0, true), key(2, 1, false), key(255, 0, false), key(256, 3, true)];
        for key in keys {
            assert_eq!(RevKey::parse(&key.encode()), Some(key));
        }
        assert!(keys.map(|key| key.encode().to_vec()).is_sorted());
    }

    #[test]
    fn what_is_no_revision_is_refused() {
        let good = RevKey { main: Revision(7), sub: 1, tombstone: true }.encode().to_vec();
        let changed = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            bytes
        };
        assert!(RevKey::parse(&good).is_some());
        for bad in [changed(0, 0x80), changed(8, b'-'), changed(9, 0xff), changed(17, b'x'), [&good[..], b"t"].concat()]
        {
            assert_eq!(RevKey::parse(&bad), None, "{bad:?}");
        }
        for len in (0..17).chain([19]) {
            assert_eq!(RevKey::parse(&[b'_'; 19][..len]), None, "{len}");
        }
    }
}
