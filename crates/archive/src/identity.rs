//! Whose objects these are: a cluster, a lineage of its history, and the writer that was allowed to write it.
//!
//! | identity | is                                        | as text                                                    |
//! |----------|-------------------------------------------|------------------------------------------------------------|
//! | cluster  | 128 bits, drawn when the archive is made  | 32 hexadecimal digits, small ones                          |
//! | lineage  | the second it began, and 32 bits          | 25 bytes: `20261121T093000Z-1a2b3c4d`                      |
//! | epoch    | how often the right to write was given    | a decimal number of 64 bits                                |
//!
//! A cluster has a name as well, which people gave it and its folder has. Every object of a cluster tells both.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A cluster, as an archive knows it. Its folder has its name, and every object has both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cluster {
    /// What people call it; a folder's name.
    pub name: String,
    /// What it is: drawn once, when the archive was made. Two clusters of one name have different ones.
    pub id: ClusterUid,
}

/// 128 bits, drawn once: no two clusters have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterUid(pub u128);

/// One unbroken history: the moment it began, and a number so that two that begin at once differ. Its text sorts by
/// time: `20261121T093000Z-1a2b3c4d`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LineageId(String);

/// How often writing rights were handed out before: whoever has a higher one fenced off all before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Text that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct NotAnIdentity {
    /// The text.
    pub text: String,
    /// What it should be.
    pub expected: &'static str,
}

impl LineageId {
    /// The lineage that began at `began`, told from others of that second by `salt`.
    pub fn new(began: jiff::Timestamp, salt: u32) -> Self {
        Self(format!("{}-{salt:08x}", began.strftime("%Y%m%dT%H%M%SZ")))
    }

    /// When it began.
    pub fn began(&self) -> Option<jiff::Timestamp> {
        let second = self.0.get(..16)?;
        let began = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", second).ok()?;
        began.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|began| began.timestamp())
    }

    /// It as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LineageId {
    type Err = NotAnIdentity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pattern = |(index, byte): (usize, u8)| match index {
            8 => byte == b'T',
            15 => byte == b'Z',
            16 => byte == b'-',
            17.. => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            _ => byte.is_ascii_digit(),
        };
        let fits = text.len() == 25 && text.bytes().enumerate().all(pattern);
        if fits { Ok(Self(text.into())) } else { Err(NotAnIdentity { text: text.into(), expected: "a lineage" }) }
    }
}

impl FromStr for ClusterUid {
    type Err = NotAnIdentity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| fits);
        number.map(Self).ok_or_else(|| NotAnIdentity { text: text.into(), expected: "a cluster's identity" })
    }
}

impl TryFrom<String> for LineageId {
    type Error = NotAnIdentity;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<LineageId> for String {
    fn from(lineage: LineageId) -> Self {
        lineage.0
    }
}

impl TryFrom<String> for ClusterUid {
    type Error = NotAnIdentity;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClusterUid> for String {
    fn from(id: ClusterUid) -> Self {
        id.to_string()
    }
}

impl fmt::Display for ClusterUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for LineageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_read_as_they_were_written() {
        let lineage = LineageId::new("2026-11-21T09:30:00.5Z".parse().unwrap(), 0x1a2b3c4d);
        assert_eq!(lineage.to_string(), "20261121T093000Z-1a2b3c4d");
        assert_eq!(lineage.as_str().parse(), Ok(lineage));
        for text in ["", "20261121T093000Z-1a2b3c4", "20261121T093000Z-1A2B3C4D", "20261121 093000Z-1a2b3c4d"] {
            assert!(text.parse::<LineageId>().is_err(), "{text}");
        }
        let id = ClusterUid(7);
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in ["", "7", "+0000000000000000000000000000007", "0000000000000000000000000000000G"] {
            assert!(text.parse::<ClusterUid>().is_err(), "{text}");
        }
    }
}
