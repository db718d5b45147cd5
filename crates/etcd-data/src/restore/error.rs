//! Why a restore was not planned, or not carried out.

use std::io;
use std::path::PathBuf;

use bolt_file::write::WriteError;

use super::options::EtcdVersion;
use crate::error::{Error, Kind, kind_of};
use crate::hash::HashKv;
use crate::holes::Hole;
use crate::initial_cluster::InitialClusterError;
use crate::member_id::MemberId;
use crate::revision::Revision;
use crate::tables::{NestedBucket, PairAmongBuckets, TableFault, Uncarried};
use crate::view::ViewError;

/// What was asked for cannot be done with this source.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The revision is not one that the source can be read at.
    #[error(transparent)]
    NotInHistory(ViewError),
    /// History cannot be cut there.
    #[error("revision {at} cannot be compacted at, only {first} to {last}")]
    CompactAt {
        /// What was asked for.
        at: Revision,
        /// The first that can.
        first: Revision,
        /// The last.
        last: Revision,
    },
    /// Revisions cannot go that far.
    #[error("revisions cannot be raised by {by}")]
    Bump {
        /// What was asked for.
        by: u64,
    },
    /// The members do not add up.
    #[error(transparent)]
    InitialCluster(#[from] InitialClusterError),
    /// The member is not in its cluster.
    #[error("the initial cluster has no member called {name:?}")]
    NoSuchName {
        /// The name.
        name: String,
    },
    /// The directories of several members are built one by one, so the token must be given to each.
    #[error("{members} members need a cluster token that is given to all of them")]
    TokenNeeded {
        /// How many members.
        members: usize,
    },
    /// The members of the source's cluster were found to differ.
    #[error("member {member} raised an alarm because the members of its cluster differ")]
    CorruptAlarm {
        /// Who raised it.
        member: MemberId,
    },
    /// An older version does not know what newer ones keep.
    #[error("etcd {version} cannot hold {}", unknown.join(", "))]
    CannotHold {
        /// The version.
        version: EtcdVersion,
        /// What it does not know.
        unknown: Vec<String>,
    },
    /// What is in a bucket inside a bucket would be lost.
    #[error(transparent)]
    NestedBucket(#[from] NestedBucket),
    /// A pair beside the buckets would be lost.
    #[error(transparent)]
    PairAmongBuckets(#[from] PairAmongBuckets),
    /// An entry that decides cannot be read.
    #[error(transparent)]
    Table(#[from] TableFault),
}

impl PlanError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotInHistory(error) => error.kind(),
            Self::CompactAt { .. }
            | Self::Bump { .. }
            | Self::InitialCluster(_)
            | Self::NoSuchName { .. }
            | Self::TokenNeeded { .. } => Kind::Usage,
            Self::CannotHold { .. } | Self::NestedBucket(_) | Self::PairAmongBuckets(_) => Kind::Unsupported,
            Self::CorruptAlarm { .. } | Self::Table(_) => Kind::Corrupt,
        }
    }
}

impl From<Uncarried> for PlanError {
    fn from(uncarried: Uncarried) -> Self {
        match uncarried {
            Uncarried::NestedBucket(nested) => nested.into(),
            Uncarried::PairAmongBuckets(pair) => pair.into(),
        }
    }
}

/// A new directory or file was not made. Whatever was there is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The source is not as it was made.
    #[error("the digest at the end of the snapshot is another than that of its bytes")]
    Digest,
    /// The source is not what the cluster had.
    #[error("HashKV at revision {} is {found}, and a live member gave {}", anchor.revision, anchor.hash)]
    Anchor {
        /// What the member gave.
        anchor: HashKv,
        /// What the source gives.
        found: u32,
    },
    /// The source cannot be read.
    #[error("reading the source")]
    ReadSource(#[source] io::Error),
    /// What was asked for cannot be done.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Something is there already.
    #[error("{} exists already", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// A file is where a folder is needed.
    #[error("{} is no folder", path.display())]
    NotAFolder {
        /// Where.
        path: PathBuf,
    },
    /// The path has no name that can be written down.
    #[error("{} has no name that can be extended", path.display())]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// Not fit to be part of a name.
    #[error("{stamp:?} cannot be part of a name")]
    Stamp {
        /// What was given.
        stamp: String,
    },
    /// One of the two would appear inside the other.
    #[error("the log cannot go to {} when the data directory is {}", wal_dir.display(), data_dir.display())]
    WalInside {
        /// The folder for the log.
        wal_dir: PathBuf,
        /// The data directory.
        data_dir: PathBuf,
    },
    /// A mount point cannot be replaced in one step.
    #[error("{} is a mount point: the log needs a folder inside it", path.display())]
    WalMount {
        /// Where.
        path: PathBuf,
    },
    /// An etcd runs on it.
    #[error("{} is in use by a running etcd", path.display())]
    InUse {
        /// The database that it holds.
        path: PathBuf,
    },
    /// Another run works on it.
    #[error("another restore of {} is under way", path.display())]
    Busy {
        /// On what.
        path: PathBuf,
    },
    /// What was planned for is not what is there.
    #[error("{} has changed since the restore was planned", path.display())]
    Changed {
        /// What has changed.
        path: PathBuf,
    },
    /// There is nothing to put back.
    #[error("{} did not replace anything that is still there", path.display())]
    NothingToUndo {
        /// The data directory.
        path: PathBuf,
    },
    /// The file system is too small.
    #[error("{} has {free_bytes} bytes free, and {needed_bytes} are needed", folder.display())]
    NoSpace {
        /// Where.
        folder: PathBuf,
        /// How much is needed.
        needed_bytes: u64,
        /// How much there is.
        free_bytes: u64,
    },
    /// A step on the file system failed.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done, as in "making".
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The new database could not be written.
    #[error("writing {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What went wrong.
        source: WriteError,
    },
    /// The source could not be read.
    #[error("reading the source")]
    Source(#[source] Error),
    /// The source could not be read at a revision.
    #[error(transparent)]
    View(#[from] ViewError),
    /// An entry of a small bucket cannot be read.
    #[error(transparent)]
    Table(#[from] TableFault),
    /// The source lacks a revision, or some of its changes.
    #[error("revision {missing} is not in the source, or not all of it: the last before it is {last}")]
    Hole {
        /// The first that is missing.
        missing: Revision,
        /// The last that is there before it.
        last: Revision,
    },
    /// What was written does not read as what it was made from.
    #[error("the new database is not what was meant: {0}")]
    Proof(String),
}

impl RestoreError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Plan(error) => error.kind(),
            Self::Name { .. } | Self::Stamp { .. } | Self::WalInside { .. } | Self::WalMount { .. } => Kind::Usage,
            Self::Exists { .. }
            | Self::NotAFolder { .. }
            | Self::InUse { .. }
            | Self::Busy { .. }
            | Self::Changed { .. } => Kind::Conflict,
            Self::NothingToUndo { .. } => Kind::Missing,
            Self::NoSpace { .. } => Kind::Unavailable,
            Self::Io { source, .. }
            | Self::ReadSource(source)
            | Self::Write { source: WriteError::Io { source, .. }, .. } => kind_of(source),
            Self::Source(error) => error.kind(),
            Self::View(error) => error.kind(),
            Self::Digest
            | Self::Anchor { .. }
            | Self::Table(_)
            | Self::Hole { .. }
            | Self::Proof(_)
            | Self::Write { .. } => Kind::Corrupt,
        }
    }
}

impl RestoreError {
    /// Whether a file system was full.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::Write { source: WriteError::Io { source, .. }, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

impl From<Hole> for RestoreError {
    fn from(Hole { missing, last }: Hole) -> Self {
        Self::Hole { missing, last }
    }
}

impl From<Error> for RestoreError {
    fn from(source: Error) -> Self {
        Self::Source(source)
    }
}
