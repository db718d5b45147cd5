//! What came of a start: etcd can be started, and how.

use std::fmt;
use std::path::PathBuf;

use etcd_data::Revision;
use etcd_data::data_dir::record::{Account, Lacking, Record};
use etcd_data::database::RevisionRange;
use etcd_data::holes::Holes;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::decision::{Decision, From, Restore};
use super::place::Place;

/// A member that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// What was done.
    pub decision: Decision,
    /// What etcd has to be told of its cluster.
    pub launch: Launch,
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

/// For so long it is told that a member was restored: whoever is on call next sees it too. The archive tells it for good, in
/// where its lineages begin.
const IS_NEWS_FOR: SignedDuration = SignedDuration::from_hours(24);

impl BroughtBack {
    /// The restore that the data directory at `place` comes from, if a start did it and that is news at `now`. The directory
    /// itself remembers it, so that it is told also where the agent that did it died before it could.
    pub fn of(place: &Place, now: Timestamp) -> Option<Self> {
        let record = Record::read(&place.data_dir.join("member"))?;
        let Account { time, of_disk, highest, set_aside } = record.account.clone()?;
        let revision = Revision(record.revision);
        let from = if of_disk { From::Disk } else { From::Archive };
        let holes = record.lacks.map(|Lacking { count, from, to }| {
            let first = RevisionRange { from: Revision(from), to: Revision(to) };
            Holes { count, first }
        });
        let rebuilt = Rebuilt {
            restore: Restore { from, revision, highest: Revision(highest) },
            begins_at: record.begins_at.map_or(revision, Revision),
            kept: record.kept_beside(&place.data_dir),
            set_aside,
            holes,
        };
        Some(Self { at: time.parse().ok()?, rebuilt }).filter(|brought_back| brought_back.is_news(now))
    }

    /// Tells of it, if there is one.
    pub(crate) fn tell(told: &watch::Sender<Option<Self>>, place: &Place) {
        let brought_back = Self::of(place, Timestamp::now());
        if let Some(Self { at, rebuilt }) = &brought_back {
            tracing::warn!(%at, %rebuilt, "the data directory was built anew");
        }
        told.send_replace(brought_back);
    }

    /// Whether it is told at `now`.
    pub fn is_news(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) <= IS_NEWS_FOR
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
