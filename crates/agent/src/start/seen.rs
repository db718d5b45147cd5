//! What was seen before a start: plain values, made by reading alone.

use std::path::PathBuf;
use std::time::Duration;

use archive::proof::Level;
use etcd_data::member_id::ClusterId;
use etcd_data::restore::high_water::margin;
use etcd_data::{MemberId, Revision};

/// Everything that a start is decided by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whose volume it is.
    pub volume: Volume,
    /// What the data directory holds.
    pub directory: Directory,
    /// The cluster, through its other members.
    pub others: Others,
    /// For how long quorum has been missed, if it is known to be.
    pub without_quorum: Option<Duration>,
    /// What the archive has.
    pub archive: Archived,
    /// Who writes to the archive.
    pub writer: Writer,
    /// Whether this member comes first by name of all that the cluster is to have: where none has data, that one builds
    /// the cluster anew.
    pub is_first: bool,
}

/// Whose volume the data directory lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Volume {
    /// Nobody's yet.
    Unmarked,
    /// This member's.
    Ours(Held),
    /// Somebody else's.
    Theirs {
        /// What says so.
        place: PathBuf,
        /// Whose it is.
        whose: String,
    },
    /// What says whose it is cannot be read.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// Whether a volume has ever held data of its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Not as far as is known.
    Nothing,
    /// It has: if there is none now, it was lost.
    Data,
}

/// What a data directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    /// Nothing, or it does not exist.
    Empty,
    /// Something that no etcd put there.
    Foreign {
        /// Its name.
        name: String,
    },
    /// A process holds its database.
    InUse,
    /// It could not be read, which says nothing about what is in it.
    Unreadable {
        /// Why not.
        why: String,
        /// Whether it may be another time.
        may_pass: bool,
    },
    /// A member could start on it.
    Sound(Member),
    /// No member could.
    Damaged(Damage),
}

/// The member that a data directory is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The last revision that it has.
    pub revision: Revision,
    /// What is wrong with it that a server gets by with.
    pub remarks: Vec<String>,
}

/// What is wrong with a data directory, and what it still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The first thing that is wrong.
    pub what: String,
    /// The last revision of its database, if all of that is sound and only the log is not.
    pub salvage: Option<Revision>,
    /// The last revision that it is known to have had.
    pub seen: Option<Revision>,
}

/// The cluster, through its other members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Others {
    /// There are to be none.
    Alone,
    /// None of them answers.
    Silent,
    /// They have no leader, and one of them runs that does not tell how far it is: before 3.6 a member that is started without
    /// a quorum serves nobody.
    Mute {
        /// Its name.
        name: String,
    },
    /// Some answer, and have no leader.
    NoQuorum {
        /// The one that is furthest ahead; of those that are as far, the first by name.
        ahead: Ahead,
    },
    /// They have a leader and take changes.
    Quorum(Standing),
    /// They answer, but not to this.
    Refused {
        /// What they say.
        why: String,
    },
}

/// How far another member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Its name.
    pub name: String,
    /// Its last revision.
    pub revision: Revision,
    /// Whether its name comes before this member's: of those that are as far, one builds the cluster anew.
    pub is_before: bool,
}

/// What a cluster with a quorum says of this member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The cluster.
    pub cluster: ClusterId,
    /// What this member is in it.
    pub membership: Membership,
    /// Whether its peers look for it elsewhere than where they are to find it now.
    pub is_elsewhere: bool,
}

/// What a member is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// None of its members.
    No,
    /// It was added, and never started.
    Added(MemberId),
    /// It has started once, and may have voted.
    Started(MemberId),
}

/// What an archive has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Archived {
    /// There is to be none.
    None,
    /// It could not be asked. That is not the same as empty.
    Away {
        /// Why not.
        why: String,
    },
    /// It answered, and no point of it can be restored, or it is another cluster's.
    Unusable {
        /// Why not.
        why: String,
    },
    /// It answered, and nothing was ever put there.
    Empty,
    /// It has points.
    Newest(Newest),
}

/// The newest point of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Its revision.
    pub revision: Revision,
    /// The highest revision that any object of the archive names, also where nothing leads to it.
    pub highest: Revision,
    /// How far the point is proven, where that was asked.
    pub level: Option<Level>,
    /// For how long nothing was written after it, by the clock of this machine.
    pub age: Duration,
}

/// Who writes to an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writer {
    /// Nobody, or whoever did has given it up, or was this member.
    Nobody,
    /// Somebody else has a claim that was not given up, and has been seen to stand unchanged for less than it lasts.
    Perhaps {
        /// Who.
        holder: String,
    },
}

impl Directory {
    /// The last revision that can be had of it.
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Sound(member) => Some(member.revision),
            Self::Damaged(damage) => damage.salvage,
            _ => None,
        }
    }

    /// The last revision that it is known to have had.
    pub fn seen(&self) -> Option<Revision> {
        match self {
            Self::Damaged(damage) => damage.seen.max(damage.salvage),
            _ => self.revision(),
        }
    }
}

impl Seen {
    /// The highest revision that is known to have been.
    pub fn highest(&self) -> Revision {
        let (archived, reachable) = match &self.archive {
            Archived::Newest(newest) => {
                let highest = newest.highest.max(newest.revision);
                (Some(highest), Revision(highest.0.saturating_add(margin(newest.age))))
            }
            _ => (None, Revision(i64::MAX)),
        };
        let ahead = match &self.others {
            Others::NoQuorum { ahead } => Some(ahead.revision),
            _ => None,
        };
        // What is damaged may tell any number.
        let is_damaged = matches!(self.directory, Directory::Damaged(_));
        let here = self.directory.seen().filter(|&here| !is_damaged || here <= reachable);
        here.max(archived).max(ahead).unwrap_or(Revision::FIRST)
    }
}
