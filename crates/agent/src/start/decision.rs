//! What is done at a start, as a value.
//!
//! No decision deletes anything: where a data directory is replaced, it is given another name beside its place.

use std::fmt;

use etcd_data::{Kind, MemberId, Revision};

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The directory stays as it is, and etcd starts on it.
    Keep {
        /// How many revisions the archive has after it, if it has any.
        archive_ahead_by: u64,
        /// The member whose peers look for it elsewhere: they are told where it is now.
        moved: Option<MemberId>,
    },
    /// The member joins its running cluster, as a learner at first. A directory that is there is kept aside.
    Join(Join),
    /// The directory is built anew, as that of a cluster of one. One that is there is kept aside.
    Restore(Restore),
    /// Nothing ever was: etcd begins.
    Begin,
    /// Nothing is done now; what stands in the way may pass.
    Wait(Reason),
    /// Nothing is done before a person does something.
    Stop(Reason),
}

/// As what a member joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// As one that never was.
    Newly,
    /// As one that never was, and the one that it used to be is removed.
    InPlaceOf(MemberId),
    /// As the one that somebody has added for it already.
    AsAdded(MemberId),
}

/// What a directory is built from, and what is lost by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restore {
    /// What it is built from.
    pub from: From,
    /// The revision that is restored.
    pub revision: Revision,
    /// The highest revision that is known to have been: what comes after the restored one is lost.
    pub highest: Revision,
}

/// What a directory is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The newest point of the archive.
    Archive,
    /// What is in the directory.
    Disk,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The volume is another member's.
    #[error("the volume is that of {whose}, as {place} says")]
    OtherVolume {
        /// Whose it is.
        whose: String,
        /// What says so.
        place: String,
    },
    /// It cannot be told whose volume it is.
    #[error("it cannot be told whose volume it is: {why}")]
    UnknownVolume {
        /// Why not.
        why: String,
    },
    /// Something is there that no etcd put there.
    #[error("the data directory holds {name}, which no etcd put there")]
    Foreign {
        /// What.
        name: String,
    },
    /// Another process works on it.
    #[error("another process holds the data directory")]
    InUse,
    /// The directory cannot be read.
    #[error("the data directory cannot be read: {why}")]
    Unreadable {
        /// Why not.
        why: String,
    },
    /// The cluster does not answer this.
    #[error("the other members do not tell whether this one is one of them: {why}")]
    Refused {
        /// What they say.
        why: String,
    },
    /// The member was removed.
    #[error("the directory is sound, and its member {id} is none of the cluster's any more")]
    Removed {
        /// It.
        id: MemberId,
    },
    /// The other members are of another cluster.
    #[error("the directory is sound, and of another cluster than the one that the other members run")]
    OtherCluster,
    /// Without the archive it cannot be told what to do.
    #[error("the archive cannot be reached, which does not mean that it is empty: {why}")]
    ArchiveAway {
        /// Why not.
        why: String,
    },
    /// The archive is of no use.
    #[error("the archive cannot be used: {why}")]
    ArchiveUnusable {
        /// Why not.
        why: String,
    },
    /// What was there is gone, and nothing has it.
    #[error("this member had data, which is gone, and there is no archive that has it")]
    DataGone,
    /// There is nothing, and there should be something.
    #[error("there is no data, no archive that has any, and the cluster is not said to be new")]
    NothingAtAll,
    /// It is damaged, and nothing else has it.
    #[error("the directory is damaged, and there is no archive that has what was in it: {what}")]
    OnlyCopyDamaged {
        /// What is wrong.
        what: String,
    },
    /// There is no quorum, and nobody said that the cluster may be built anew.
    #[error("the cluster has no quorum, and nobody has said that it may be built anew")]
    NoQuorum,
    /// There is no quorum, and it is not yet taken for lost.
    #[error("the cluster has no quorum since {} s; after {} s it is built anew", since.as_secs(), after.as_secs())]
    NoQuorumYet {
        /// For how long.
        since: std::time::Duration,
        /// How long is waited.
        after: std::time::Duration,
    },
    /// Another member runs that is as far or further.
    #[error(
        "the cluster has no quorum, and member {name}, which runs and is at revision {revision}, is to build it anew"
    )]
    ForOther {
        /// Which.
        name: String,
        /// Its last revision.
        revision: Revision,
    },
    /// Another member runs, and how far it is cannot be told.
    #[error("the cluster has no quorum, and member {name} runs and does not tell how far it is")]
    Mute {
        /// Which.
        name: String,
    },
    /// The others have a quorum again since what was here was built anew.
    #[error("the other members have a quorum again")]
    BackMeanwhile,
    /// Another member does it, though none has data.
    #[error("the cluster has no quorum, and the first member by name builds it anew")]
    NotFirst,
    /// Somebody else may still follow the cluster.
    #[error("{holder} may still write to the archive, so the cluster may still run somewhere")]
    OtherWriter {
        /// Who.
        holder: String,
    },
}

impl Decision {
    /// Its name in one word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Keep { .. } => "keep",
            Self::Join(_) => "join",
            Self::Restore(_) => "restore",
            Self::Begin => "begin",
            Self::Wait(_) => "wait",
            Self::Stop(_) => "stop",
        }
    }
}

impl Restore {
    /// The first and the last revision that are lost, if any are known to be.
    pub fn lost(&self) -> Option<(Revision, Revision)> {
        (self.highest > self.revision).then(|| (self.revision.next(), self.highest))
    }
}

impl Reason {
    /// It, and what a person can do about it.
    pub fn with_remedy(&self) -> String {
        format!("{self}: {}", self.remedy())
    }

    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::OtherVolume { .. }
            | Self::Foreign { .. }
            | Self::InUse
            | Self::Removed { .. }
            | Self::OtherCluster
            | Self::ForOther { .. }
            | Self::BackMeanwhile
            | Self::OtherWriter { .. } => Kind::Conflict,
            Self::DataGone | Self::NothingAtAll => Kind::Missing,
            Self::OnlyCopyDamaged { .. } => Kind::Corrupt,
            Self::UnknownVolume { .. }
            | Self::Unreadable { .. }
            | Self::Refused { .. }
            | Self::ArchiveAway { .. }
            | Self::ArchiveUnusable { .. }
            | Self::NoQuorum
            | Self::NoQuorumYet { .. }
            | Self::Mute { .. }
            | Self::NotFirst => Kind::Unavailable,
        }
    }

    /// What a person can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::OtherVolume { .. } => {
                "attach this member's own volume; if the volume is meant to be this member's now, remove that file"
            }
            Self::UnknownVolume { .. } | Self::Unreadable { .. } => {
                "make the volume readable for this user; nothing on it was touched"
            }
            Self::Foreign { .. } => "give an empty folder, or the one that etcd has as --data-dir",
            Self::InUse => "stop the etcd that runs on it; the start goes on by itself",
            Self::Refused { .. } => "give credentials that may list members",
            Self::Removed { .. } => {
                "if it is to come back, let outdated directories be set aside, or move the data directory away yourself"
            }
            Self::OtherCluster => {
                "check the endpoints; if the cluster was built anew, let outdated directories be set aside"
            }
            Self::ArchiveAway { .. } => {
                "make the store reachable; the start goes on by itself. With a snapshot at hand: `refloat restore`"
            }
            Self::ArchiveUnusable { .. } => "`refloat verify ARCHIVE` tells what is wrong with it",
            Self::DataGone => {
                "attach the volume that has it, or `refloat restore` a snapshot; to begin anew, remove the volume's mark"
            }
            Self::NothingAtAll => "attach the volume that has the data, or say that the cluster is new",
            Self::OnlyCopyDamaged { .. } => {
                "`refloat verify DIR` lists what is wrong; `refloat restore` builds a directory from a snapshot"
            }
            Self::NoQuorum => {
                "bring the other members back; if they are gone for good, let this member rebuild the cluster, or run \
                 `refloat restore ARCHIVE --data-dir DIR --replace` on one of them"
            }
            Self::NoQuorumYet { .. } => "bring the other members back, or wait",
            Self::Mute { .. } => {
                "bring the other members back; if they are gone for good, stop the etcd of that member, or have one rebuild \
                 the cluster whatever its name"
            }
            Self::BackMeanwhile => "wait: it is looked at again",
            Self::ForOther { .. } => {
                "bring the other members back, or let that one rebuild the cluster; this one then joins it"
            }
            Self::NotFirst => {
                "wait for that member, or let just one other member rebuild the cluster whatever its name"
            }
            Self::OtherWriter { .. } => {
                "stop that agent if its cluster is no more; it is taken for gone when its claim has run out"
            }
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep { archive_ahead_by, moved } => {
                f.write_str("keep the directory")?;
                if *archive_ahead_by > 0 {
                    write!(f, ", though the archive is {archive_ahead_by} revisions ahead")?;
                }
                if moved.is_some() { f.write_str(", and tell its peers where it is now") } else { Ok(()) }
            }
            Self::Join(Join::Newly) => f.write_str("join as a learner"),
            Self::Join(Join::InPlaceOf(id)) => write!(f, "remove member {id}, and join anew as a learner"),
            Self::Join(Join::AsAdded(id)) => write!(f, "start as member {id}, which was added"),
            Self::Restore(restore) => restore.fmt(f),
            Self::Begin => f.write_str("begin a new cluster"),
            Self::Wait(reason) => write!(f, "wait: {reason}"),
            Self::Stop(reason) => write!(f, "stop: {reason}"),
        }
    }
}

impl fmt::Display for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.from {
            From::Archive => "from the archive",
            From::Disk => "from the disk",
        };
        write!(f, "restore revision {} {from}", self.revision)?;
        match self.lost() {
            Some((first, last)) if first == last => write!(f, "; revision {first} is lost"),
            Some((first, last)) => write!(f, "; revisions {first} to {last} are lost"),
            None => Ok(()),
        }
    }
}
