//! What went wrong, and what kind of thing that is.

use std::path::PathBuf;

use crate::revision::RevKey;

/// What a caller may do about an error. Program, person and metric see the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request makes no sense.
    Usage,
    /// Something that is needed is not there.
    Missing,
    /// Bytes contradict the format or their checksum.
    Corrupt,
    /// A newer format, or something that this program does not know.
    Unsupported,
    /// Somebody else holds it or wrote first.
    Conflict,
    /// A disk, a store or a server did not do what it was asked.
    Unavailable,
    /// No permission.
    Denied,
}

/// Reading what etcd wrote failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bolt file below is broken or could not be read.
    #[error(transparent)]
    Bolt(#[from] bolt_file::Error),

    /// A file or folder could not be used.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done, as in "opening".
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A record of the key space cannot be read.
    #[error("bucket key, entry {entry}: {fault}")]
    Record {
        /// The record's key in hexadecimal.
        entry: String,
        /// Which record that is, if it is one.
        at: Option<RevKey>,
        /// What is wrong with it.
        fault: RecordFault,
    },

    /// The small buckets are larger than any etcd's.
    #[error("the buckets beside the key space hold more than {limit} bytes")]
    TablesTooLarge {
        /// The limit.
        limit: usize,
    },

    /// Records that are kept elsewhere than in a database file could not be had, or are not what they should be.
    #[error("{place}")]
    Elsewhere {
        /// Where: an object of an archive.
        place: String,
        /// What a caller may do about it.
        kind: Kind,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The database has no key space.
    #[error("there is no bucket called \"key\": not an etcd database")]
    NoKeySpace,
}

/// One way in which a record of the key space can be wrong by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// A key that is no revision.
    #[error("the key is not a revision")]
    Revision,
    /// A bucket, by a name like that of a record.
    #[error("it is a bucket")]
    Bucket,
    /// A value that is no key-value message.
    #[error("the value is not a key-value: {0}")]
    Value(crate::key_value::ValueFault),
}

impl Error {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Bolt(bolt_file::Error::Corrupt(_))
            | Self::Record { .. }
            | Self::NoKeySpace
            | Self::TablesTooLarge { .. } => Kind::Corrupt,
            Self::Bolt(bolt_file::Error::Shrank { .. } | bolt_file::Error::Changed) => Kind::Conflict,
            Self::Bolt(bolt_file::Error::Read { source, .. }) | Self::Io { source, .. } => kind_of(source),
            Self::Elsewhere { kind, .. } => *kind,
        }
    }
}

/// The kind of a system's error.
pub fn kind_of(source: &std::io::Error) -> Kind {
    match source.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Kind::Missing,
        std::io::ErrorKind::PermissionDenied => Kind::Denied,
        std::io::ErrorKind::AlreadyExists => Kind::Conflict,
        _ => Kind::Unavailable,
    }
}
