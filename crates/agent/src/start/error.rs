//! What can go wrong while a start is carried out. Whatever it was, the next start looks again and decides again.

use archive::rebuild::BuildError;
use etcd_data::restore::RestoreError;
use etcd_data::{Error, Kind};
use etcd_rpc::{Fault, RpcError};

/// A start could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The cluster did not do what it was asked.
    #[error(transparent)]
    Cluster(#[from] RpcError),
    /// A directory could not be built from the archive.
    #[error("the directory cannot be built from the archive")]
    Archive(#[source] BuildError),
    /// A directory could not be built or moved.
    #[error("the directory cannot be built or moved")]
    Directory(#[from] RestoreError),
    /// What is in the directory could not be read.
    #[error("the directory cannot be read")]
    Disk(#[from] Error),
    /// The archive could not be opened.
    #[error("the archive cannot be opened")]
    Open(#[from] archive::Error),
    /// It could not be noted whose volume it is.
    #[error("it cannot be noted whose volume this is")]
    Mark(#[source] std::io::Error),
    /// A thread of ours ended before its work.
    #[error("a thread ended before its work: {0}")]
    Thread(String),
}

impl StartError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Cluster(error) => kind_of(error),
            Self::Archive(error) => error.kind(),
            Self::Directory(error) => error.kind(),
            Self::Disk(error) => error.kind(),
            Self::Open(error) => error.kind(),
            Self::Mark(error) => etcd_data::error::kind_of(error),
            Self::Thread(_) => Kind::Unavailable,
        }
    }

    /// Whether the same may succeed by itself when it is tried again.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind(), Kind::Unavailable | Kind::Conflict)
    }

    pub(super) fn of_thread(error: tokio::task::JoinError) -> Self {
        Self::Thread(error.to_string())
    }
}

fn kind_of(error: &RpcError) -> Kind {
    match &error.fault {
        // The one who has the only place of a learner will be promoted, or go.
        Fault::TooManyLearners => Kind::Unavailable,
        fault if fault.is_transient() => Kind::Unavailable,
        Fault::WrongPassword | Fault::LoginNeeded | Fault::Denied | Fault::Tls(_) => Kind::Denied,
        // Somebody else has just done it.
        Fault::Exists { .. } | Fault::NotFound { .. } => Kind::Conflict,
        Fault::Unsupported => Kind::Unsupported,
        _ => Kind::Unavailable,
    }
}
