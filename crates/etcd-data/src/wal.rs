//! The write-ahead log: what a member has promised to remember, ahead of its database.
//!
//! A log is a folder of segments, each a file of framed records under one running checksum. Entries of raft make up
//! nearly all of it; beside them it says whose log it is, who was voted for, what is committed, and where snapshots
//! were taken. Reading never writes: the log of a crashed member is left as the crash left it, and where etcd would
//! cut a torn end off, the reader only stops there.
//!
//! Read in this order:
//!
//! - [`segment`]: the files and their names
//! - [`record`]: frames and records
//! - [`decoder`]: the records of one segment, and what can be wrong with them
//! - `entries`: where entries are, and reading them again
//! - [`log`]: all segments as one log
//! - [`fresh`]: writing the log of a member that begins

pub mod decoder;
mod entries;
pub mod finding;
pub mod fresh;
pub mod log;
pub mod record;
pub mod segment;

pub(crate) use entries::{Entries, each};
pub use finding::{Fault, Finding, Place};
pub use fresh::fresh_log;
pub use log::{Log, Tail, read_segment};
pub use record::{Metadata, SnapshotMark};
pub use segment::{Folder, Segment, SegmentName};

/// Reading a log failed; nothing can be said about what it holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The folder could not be listed.
    #[error("listing {}", path.display())]
    List {
        /// The folder.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A segment could not be read.
    #[error("reading segment {segment}")]
    Read {
        /// The segment.
        segment: SegmentName,
        /// What the system said.
        source: std::io::Error,
    },

    /// There is no segment.
    #[error("there is no segment of a write-ahead log")]
    Empty,

    /// An entry is not what it was a moment ago: somebody writes to the log.
    #[error("the entry at {0} changed while the log was being read")]
    Changed(Place),
}

impl WalError {
    /// What a caller may do about it.
    pub fn kind(&self) -> crate::Kind {
        match self {
            WalError::List { source, .. } | WalError::Read { source, .. } => crate::error::kind_of(source),
            WalError::Empty => crate::Kind::Missing,
            WalError::Changed(_) => crate::Kind::Conflict,
        }
    }
}
