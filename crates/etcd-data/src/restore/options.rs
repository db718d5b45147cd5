//! What a person asks of a restore.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use super::destination::Existing;
use crate::data_dir::record::Account;
use crate::hash::HashKv;
use crate::revision::Revision;

/// What a person asks of a restore. [`Options::new`] has what they get who ask for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The directory to build.
    pub data_dir: PathBuf,
    /// The folder for the log, where it is to lie elsewhere.
    pub wal_dir: Option<PathBuf>,
    /// What may be done with a data directory that is there.
    pub existing: Existing,
    /// The moment, as it goes into the names of what is kept aside: letters, digits and `-`.
    pub stamp: String,
    /// The revision to restore; nothing for the newest.
    pub at: Option<Revision>,
    /// The name of the member.
    pub name: String,
    /// All members and where their peers find them, as `name=url,…`. By default the member is alone.
    pub initial_cluster: Option<String>,
    /// Where its peers find this member, separated by commas. Must be what the initial cluster says of it.
    pub peer_urls: Option<String>,
    /// What makes the cluster another one than all others.
    pub token: Token,
    /// Whether revisions go on from a higher one.
    pub bump: Bump,
    /// The version of etcd that is to run on it.
    pub version: ForVersion,
    /// What becomes of leases.
    pub leases: Leases,
    /// What becomes of alarms.
    pub alarms: Alarms,
    /// The revision to compact at; nothing for where the source was compacted.
    pub compact_at: Option<Revision>,
    /// What is made of the digest at the end of a snapshot file.
    pub digest: DigestRule,
    /// What a member of the source's cluster once answered: the source has to give the same.
    pub anchor: Option<HashKv>,
    /// What the directory is to remember of why it was restored, if that is to be told later.
    pub account: Option<Account>,
}

/// Where a member that is alone is found by its peers if nothing else is said.
pub const DEFAULT_PEER_URL: &str = "http://localhost:2380";

impl Options {
    /// A restore of the newest revision to `data_dir`, for a member that is alone, in a cluster of its own `token`.
    pub fn new(data_dir: impl Into<PathBuf>, token: Token, stamp: impl Into<String>) -> Self {
        Self {
            data_dir: data_dir.into(),
            wal_dir: None,
            existing: Existing::Refuse,
            stamp: stamp.into(),
            at: None,
            name: "default".into(),
            initial_cluster: None,
            peer_urls: None,
            token,
            bump: Bump::No,
            version: ForVersion::AsSource,
            leases: Leases::Keep,
            alarms: Alarms::DropNoSpace,
            compact_at: None,
            digest: DigestRule::MustMatch,
            anchor: None,
            account: None,
        }
    }
}

/// What makes a cluster another one than all others: members of an older cluster with the same addresses are refused
/// by one with another token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Chosen by a person. All members of a cluster need the same.
    Named(String),
    /// Drawn for this restore, so of no use to a cluster of several.
    Unique(String),
}

impl Token {
    /// A token that nobody has.
    pub fn unique() -> io::Result<Self> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        Ok(Self::Unique(format!("refloat-{:016x}", u64::from_be_bytes(random))))
    }

    /// The token itself.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(token) | Self::Unique(token) => token,
        }
    }
}

/// Whether revisions go on from a higher one, so that clients that have seen later revisions than the restored one
/// never meet one of them with another content. All history before is then compacted, so that every watch starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bump {
    /// They go on from the restored one.
    No,
    /// They go on this far after the highest revision of the source.
    By(u64),
}

/// The version of etcd that a directory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForVersion {
    /// The version that the source is of. What it says of versions is left as it is.
    AsSource,
    /// This one, whatever the source is of.
    Version(EtcdVersion),
}

/// A minor version of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EtcdVersion {
    /// 3.4
    V34,
    /// 3.5
    V35,
    /// 3.6
    V36,
    /// 3.7
    V37,
}

impl EtcdVersion {
    /// Every version that a directory can be built for.
    pub const ALL: [Self; 4] = [Self::V34, Self::V35, Self::V36, Self::V37];

    /// The version as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V34 => "3.4",
            Self::V35 => "3.5",
            Self::V36 => "3.6",
            Self::V37 => "3.7",
        }
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for EtcdVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Text that names no version that a directory can be built for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no directory can be built for etcd {0:?}, only for 3.4, 3.5, 3.6 and 3.7")]
pub struct UnknownVersion(pub String);

impl FromStr for EtcdVersion {
    type Err = UnknownVersion;

    /// Reads `3.6`, `v3.6` or `3.6.16`.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let minor = |version: &Self| {
            let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix(version.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        Self::ALL.into_iter().find(minor).ok_or_else(|| UnknownVersion(text.into()))
    }
}

/// What becomes of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leases {
    /// They start anew, with the time that they were granted for.
    Keep,
    /// They are gone, and what hangs on them stays for good. The keys still name them, as they did.
    Drop,
}

/// What becomes of alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Alarms {
    /// Those for want of space are dropped, for the new database has no waste. Those for damage are refused.
    DropNoSpace,
    /// All are dropped, also those that say that the members of the cluster differed.
    DropAll,
    /// All stand, and the member serves as little as those before it.
    Keep,
}

/// What is made of the digest at the end of a snapshot file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DigestRule {
    /// If there is one it must match, or nothing is restored.
    #[default]
    MustMatch,
    /// It is not looked at.
    Ignored,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for text in ["3.6", "v3.6", "3.6.16", "v3.6.0-rc.1"] {
            assert_eq!(text.parse(), Ok(EtcdVersion::V36), "{text}");
        }
        for text in ["3.3", "3.8", "3.60", "3", "", "4.6", "3.6x"] {
            assert!(text.parse::<EtcdVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_two_tokens_are_alike() {
        assert_ne!(Token::unique().unwrap(), Token::unique().unwrap());
    }
}
