//! What following asks of a live cluster: little enough that a script can stand in for one.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::hash::HashKv;
use etcd_data::{Kind, LeaseId, Revision, Tables};
use futures::stream::BoxStream;
use jiff::Timestamp;

/// A live cluster.
#[async_trait]
pub trait Live: Send + Sync {
    /// What its members say of themselves now. Fails only if none can be asked.
    async fn look(&self) -> Result<Sight, Trouble>;

    /// The revision that the cluster has reached, by the word of a majority: not what a member thinks that lags behind.
    async fn current(&self, member: u64) -> Result<Revision, Trouble>;

    /// All changes from `from` on, as `member` has them.
    async fn watch(&self, member: u64, from: Revision) -> Result<Watching, Trouble>;

    /// The bytes of a snapshot of `member`, in pieces.
    async fn snapshot(&self, member: u64) -> Result<BoxStream<'static, Result<Bytes, Trouble>>, Trouble>;

    /// What `member` answers to HashKV.
    async fn hash_kv(&self, member: u64, revision: Revision) -> Result<HashKv, Trouble>;

    /// Every lease there is.
    async fn leases(&self, member: u64) -> Result<Vec<LeaseId>, Trouble>;

    /// The seconds that a lease was granted for; nothing if it has ended.
    async fn granted(&self, member: u64, lease: LeaseId) -> Result<Option<i64>, Trouble>;

    /// How a key was put last, by the word of a majority; nothing if it is not there.
    async fn key(&self, member: u64, key: &[u8]) -> Result<Option<Change>, Trouble>;

    /// Whether `revision` has not been compacted away.
    async fn has(&self, member: u64, revision: Revision) -> Result<bool, Trouble>;

    /// How far users and roles are. Nothing if it does not tell.
    async fn auth(&self, member: u64) -> Result<Option<Auth>, Trouble>;
}

/// How far users and roles are. That users are asked for from now on is no revision of its own, and at one revision they never cease
/// to be: so what is later is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Auth {
    /// Their revision.
    pub revision: u64,
    /// Whether users are asked for.
    pub is_enabled: bool,
}

impl Auth {
    /// Those that a database has, if it tells.
    pub fn of(tables: &Tables) -> Option<Self> {
        let revision = tables.auth_revision().ok().flatten()?;
        Some(Self { revision, is_enabled: tables.auth_enabled() })
    }
}

/// Changes as they come. It ends with an error, or when the member ends it.
pub type Watching = BoxStream<'static, Result<Seen, Trouble>>;

/// A cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// Its id, as etcd has it.
    pub cluster: u64,
    /// The version that its members have agreed on, or the oldest of theirs.
    pub version: Option<String>,
    /// Its members.
    pub members: Vec<MemberSight>,
    /// When they were asked.
    pub taken: Timestamp,
    /// Why none of them could be asked any more, when that was tried last.
    pub silence: Option<String>,
}

impl Sight {
    /// It as it is known to be now: who cannot be asked any more does not answer.
    pub fn now(&self) -> Self {
        let silent = |member: &MemberSight| match &self.silence {
            Some(why) => MemberSight { answer: Err(why.clone()), ..member.clone() },
            None => member.clone(),
        };
        Self { members: self.members.iter().map(silent).collect(), ..self.clone() }
    }
}

/// A member, and what it said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSight {
    /// Its id.
    pub id: u64,
    /// Its name; empty before its first start.
    pub name: String,
    /// Where clients find it.
    pub client_urls: Vec<String>,
    /// Where its peers find it.
    pub peer_urls: Vec<String>,
    /// Whether it has no vote.
    pub is_learner: bool,
    /// What it answered, or why it did not.
    pub answer: Result<MemberAnswer, String>,
}

/// What a member said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberAnswer {
    /// Its version.
    pub version: String,
    /// The revision that it has reached.
    pub revision: Revision,
    /// The member that it takes for the leader; 0 for none.
    pub leader: u64,
    /// How far it has come in the log.
    pub applied: u64,
    /// The size of its database file.
    pub size_bytes: u64,
    /// What of that is in use.
    pub used_bytes: u64,
    /// What it may grow to, if it tells.
    pub quota_bytes: Option<u64>,
    /// Its own alarms.
    pub alarms: Vec<Alarm>,
    /// What else it complains of.
    pub errors: Vec<String>,
}

/// An alarm that a member raises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// Its space is used up.
    NoSpace,
    /// It differs from the others.
    Corrupt,
    /// One that we do not know, as etcd calls it.
    Other(String),
}

impl From<&str> for Alarm {
    fn from(called: &str) -> Self {
        match called {
            "NOSPACE" => Self::NoSpace,
            "CORRUPT" => Self::Corrupt,
            other => Self::Other(other.into()),
        }
    }
}

/// As etcd calls it.
impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
            Self::Other(called) => called,
        })
    }
}

/// Changes that came together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The cluster that they are of.
    pub cluster: u64,
    /// The revision that the member had reached.
    pub revision: Revision,
    /// They, in order.
    pub changes: Vec<Change>,
    /// Whether more of the last revision is to come.
    pub is_partial: bool,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// The key.
    pub key: Bytes,
    /// The revision.
    pub revision: Revision,
    /// What was put; nothing if the key was deleted.
    pub put: Option<PutChange>,
}

/// What was put.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutChange {
    /// The value.
    pub value: Bytes,
    /// The revision that the key was created at.
    pub created: Revision,
    /// Puts since then.
    pub version: i64,
    /// The lease that it is attached to; 0 for none.
    pub lease: LeaseId,
}

/// A cluster did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// What was asked for has been compacted away.
    #[error("what was asked for has been compacted away{}", from.map(|from| format!(", as has all before revision {from}")).unwrap_or_default())]
    Compacted {
        /// The first revision that is left, if that is known.
        from: Option<Revision>,
    },
    /// It does not answer, or not now.
    #[error("{place} does not answer: {why}")]
    Away {
        /// Who.
        place: String,
        /// What it is about.
        why: String,
    },
    /// It refuses: asking again does not help.
    #[error("{place} refuses: {why}")]
    Refused {
        /// Who.
        place: String,
        /// Why.
        why: String,
        /// What a person can do.
        remedy: String,
    },
}

impl Trouble {
    /// What a person can do, where waiting does not help.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Refused { remedy, .. } => Some(remedy),
            Self::Compacted { .. } | Self::Away { .. } => None,
        }
    }

    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Compacted { .. } => Kind::Missing,
            Self::Away { .. } => Kind::Unavailable,
            Self::Refused { .. } => Kind::Denied,
        }
    }
}
