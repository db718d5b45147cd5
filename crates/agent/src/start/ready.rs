//! What came of a start: etcd can be started, and how.

use std::fmt;
use std::path::PathBuf;

use etcd_data::Revision;
use etcd_data::holes::Holes;
use jiff::Timestamp;
use tokio::sync::watch;

use super::decision::{Decision, Restore};

/// A member that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// What was done.
    pub decision: Decision,
    /// What etcd has to be told of its cluster.
    pub launch: Launch,
    /// What a restore did, if there was one.
    pub rebuilt: Option<Rebuilt>,
}

/// What etcd has to be told of its cluster. It does not listen to it where its directory knows better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// `--initial-cluster`.
    pub initial_cluster: String,
    /// `--initial-cluster-state`.
    pub state: ClusterState,
    /// `--initial-cluster-token`.
    pub token: String,
}

/// `--initial-cluster-state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterState {
    /// `new`
    New,
    /// `existing`
    Existing,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// What was decided.
    pub restore: Restore,
    /// The revision that the member begins at: the restored one, or a higher one that nobody has seen.
    pub begins_at: Revision,
    /// Where what was there before is kept.
    pub kept: Vec<PathBuf>,
    /// Objects of the archive that were of no use, and why.
    pub set_aside: Vec<(String, String)>,
    /// What is missing of history in what it was built of, and so in the member too; nothing if there is all of it.
    pub holes: Option<Holes>,
}

/// A restore that a member was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroughtBack {
    /// When.
    pub at: Timestamp,
    /// What it did.
    pub rebuilt: Rebuilt,
}

impl BroughtBack {
    /// Tells that a start has just `rebuilt` the data directory, if it has.
    pub(crate) fn tell(told: &watch::Sender<Option<Self>>, rebuilt: Option<Rebuilt>) {
        if let Some(rebuilt) = rebuilt {
            tracing::warn!(%rebuilt, "the data directory was built anew");
            told.send_replace(Some(Self { at: Timestamp::now(), rebuilt }));
        }
    }
}

impl Rebuilt {
    /// Whether the member has all that is known to have been.
    pub fn is_whole(&self) -> bool {
        self.restore.lost().is_none() && self.holes.is_none()
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.restore.fmt(f)?;
        if let Some(Holes { count, first }) = &self.holes {
            write!(f, "; {count} revisions are missing before that, the first {} to {}", first.from, first.to)?;
        }
        for (key, why) in &self.set_aside {
            write!(f, "; {key} was of no use: {why}")?;
        }
        for kept in &self.kept {
            write!(f, "; what was there is in {}", kept.display())?;
        }
        Ok(())
    }
}

impl ClusterState {
    /// As etcd takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}
