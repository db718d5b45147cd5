//! Why a drill came to nothing, or showed that something is wrong.

use std::io;
use std::path::PathBuf;

use archive::rebuild::BuildError;
use etcd_data::Kind;
use etcd_data::error::kind_of;
use etcd_data::hash::HashKv;
use etcd_data::restore::RestoreError;
use etcd_data::restore::options::EtcdVersion;
use etcd_data::view::ViewError;
use etcd_rpc::RpcError;

/// A drill came to nothing, or showed that something is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrillError {
    /// There is no etcd to start.
    #[error("there is no etcd {}", given.as_ref().map_or("on the PATH".into(), |path| format!("at {}", path.display())))]
    NoEtcd {
        /// Where it was said to be.
        given: Option<PathBuf>,
    },
    /// What was given is no etcd.
    #[error("{} is no etcd of a version that is known: {said}", path.display())]
    NotEtcd {
        /// The program.
        path: PathBuf,
        /// What it said of its version.
        said: String,
    },
    /// The etcd is older than the data.
    #[error("the data is of etcd {data}, and {} is of {etcd}", path.display())]
    OlderEtcd {
        /// The program.
        path: PathBuf,
        /// Its version.
        etcd: EtcdVersion,
        /// That of the data.
        data: EtcdVersion,
    },
    /// There is not enough room.
    #[error("{} has {free_bytes} bytes free, and {needed_bytes} are needed", folder.display())]
    NoRoom {
        /// Where.
        folder: PathBuf,
        /// How much is needed.
        needed_bytes: u64,
        /// How much there is.
        free_bytes: u64,
    },
    /// The system did not do what the sandbox needs.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done, as in "making".
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory could not be built from an archive.
    #[error(transparent)]
    Archive(Box<BuildError>),
    /// The directory could not be built.
    #[error(transparent)]
    Build(Box<RestoreError>),
    /// The point could not be counted.
    #[error("counting the keys of the point")]
    Count(#[source] ViewError),
    /// The etcd ended instead of becoming ready.
    #[error("etcd {version} does not start on it ({ended})")]
    Ended {
        /// Its version.
        version: String,
        /// How it ended.
        ended: String,
        /// The end of its log.
        log: String,
    },
    /// The etcd did not become ready.
    #[error("etcd {version} was not ready within {} s", within.as_secs())]
    NotReady {
        /// Its version.
        version: String,
        /// How long was waited.
        within: std::time::Duration,
        /// The end of its log.
        log: String,
    },
    /// The etcd did not answer.
    #[error("etcd does not answer")]
    Ask(#[source] Box<RpcError>),
    /// The etcd has another hash.
    #[error(
        "etcd gives HashKV {} at revision {}, and the point's own records give {}",
        found.hash, found.revision, expected.hash
    )]
    OtherHash {
        /// What it gives.
        found: HashKv,
        /// What it should give.
        expected: HashKv,
    },
    /// The etcd has another number of keys.
    #[error("etcd has {found} keys, and the point's own records give {expected}")]
    OtherCount {
        /// What it has.
        found: u64,
        /// What it should have.
        expected: u64,
    },
    /// What was shown could not be recorded.
    #[error("it was drilled, and that could not be recorded")]
    Record(#[source] Box<archive::Error>),
    /// Somebody stopped it.
    #[error("the drill was interrupted")]
    Interrupted,
}

impl From<RpcError> for DrillError {
    fn from(error: RpcError) -> Self {
        Self::Ask(Box::new(error))
    }
}

impl DrillError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoEtcd { .. } => Kind::Missing,
            Self::NotEtcd { .. } => Kind::Usage,
            Self::OlderEtcd { .. } => Kind::Unsupported,
            Self::NoRoom { .. } | Self::NotReady { .. } | Self::Ask(_) | Self::Interrupted => Kind::Unavailable,
            Self::Io { source, .. } => kind_of(source),
            Self::Archive(error) => error.kind(),
            Self::Build(error) => error.kind(),
            Self::Count(error) => error.kind(),
            Self::Record(error) => error.kind(),
            Self::Ended { .. } | Self::OtherHash { .. } | Self::OtherCount { .. } => Kind::Corrupt,
        }
    }
}
