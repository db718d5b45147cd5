//! What a start may do without asking anybody.

use std::time::Duration;

use etcd_data::restore::high_water::HighWater;

/// What a start may do without asking anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Whether the cluster may be one that never was.
    pub cluster: ClusterAge,
    /// What is done when quorum is lost and does not come back.
    pub quorum_lost: QuorumLost,
    /// What is done with a sound directory that its cluster knows no more.
    pub outdated: Outdated,
    /// When revisions go on from a higher one after a restore.
    pub high_water: HighWater,
}

/// Whether a cluster may be one that never was: etcd's `--initial-cluster-state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterAge {
    /// It may be new: where there is really nothing, it is begun.
    New,
    /// It is not: where there is nothing, something was lost.
    Existing,
}

/// What is done when quorum is lost and does not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuorumLost {
    /// It is waited for, for good.
    Wait,
    /// After this long the cluster is built anew, from what is furthest ahead. Where no member has data, the first by
    /// name does it.
    Rebuild(Duration),
    /// The same, by this member whatever its name, where none has data or none tells how far it is. For one member only.
    RebuildHere(Duration),
}

/// What is done with a sound directory whose member was removed, or whose cluster was built anew without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// Nothing: somebody removed that member, and has to say that it should come back.
    Stop,
    /// It is kept aside, and the member joins anew.
    SetAside,
}

impl Policy {
    /// How long a member has to miss its quorum before it is given up for a cluster that has one: longer than an election takes.
    pub fn moment_without_quorum(&self) -> Duration {
        const ELECTIONS: Duration = Duration::from_secs(15);
        self.quorum_lost.after().map_or(ELECTIONS, |after| after.min(ELECTIONS))
    }

    /// Whether there is a case in which an etcd that runs is ended, so that its member can be started otherwise.
    pub fn gives_up_what_runs(&self) -> bool {
        self.quorum_lost.after().is_some() || self.outdated == Outdated::SetAside
    }
}

impl Default for Policy {
    /// What nobody regrets.
    fn default() -> Self {
        Self {
            cluster: ClusterAge::New,
            quorum_lost: QuorumLost::Wait,
            outdated: Outdated::Stop,
            high_water: HighWater::Kubernetes,
        }
    }
}

impl QuorumLost {
    /// Whether something is done about it when quorum has been missed for so long, if it is known to have been.
    pub fn is_after(self, missed: Option<Duration>) -> bool {
        self.after().zip(missed).is_some_and(|(after, missed)| missed >= after)
    }

    /// How long quorum must have been lost before anything is done about it. Nothing if nothing ever is.
    pub fn after(self) -> Option<Duration> {
        match self {
            Self::Wait => None,
            Self::Rebuild(after) | Self::RebuildHere(after) => Some(after),
        }
    }
}
