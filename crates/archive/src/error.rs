//! What can go wrong with an archive, and what kind of thing that is.

use etcd_data::Kind;
use store::key::NotAKey;
use store::{Fault, Key, StoreError};

use crate::encryption::KeyError;

/// Something with an archive failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key is missing, or is not the one.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A folder's name makes no key of a store.
    #[error(transparent)]
    Name(#[from] NotAKey),
    /// An object is not what it should be.
    #[error("{key}")]
    Object {
        /// The object.
        key: Key,
        /// What is wrong with it.
        source: ObjectError,
    },
}

/// What is wrong with an object, by itself or in its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// It is of a newer format.
    #[error("its format is {found}, and this version reads up to {known}")]
    Newer {
        /// Its format.
        found: u32,
        /// What is known here.
        known: u32,
    },
    /// Its bytes contradict the format.
    #[error("at byte {offset}: {what}")]
    Damaged {
        /// Where.
        offset: u64,
        /// How.
        what: String,
    },
    /// It says that it is another than its name or place says.
    #[error("its name says {name}, and itself {itself}")]
    Misplaced {
        /// What the name says.
        name: String,
        /// What it says itself.
        itself: String,
    },
    /// It is encrypted, and no key opens it.
    #[error("it is encrypted for {}", recipients.join(", "))]
    NoKey {
        /// For whom.
        recipients: Vec<String>,
    },
    /// Its bytes could not be had.
    #[error("it cannot be read")]
    Read(#[from] crate::read_at::ReadFailed),
}

impl ObjectError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Newer { .. } => Kind::Unsupported,
            Self::Damaged { .. } | Self::Misplaced { .. } => Kind::Corrupt,
            Self::NoKey { .. } => Kind::Denied,
            Self::Read(failed) => read_kind(failed),
        }
    }
}

impl Error {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => kind_of(&error.fault),
            Self::Key(error) => error.kind(),
            Self::Name(_) => Kind::Usage,
            Self::Object { source, .. } => source.kind(),
        }
    }
}

/// The kind of what went wrong with a store.
pub fn kind_of(fault: &Fault) -> Kind {
    match fault {
        Fault::NotFound | Fault::NoSuchPlace | Fault::NoSuchUpload => Kind::Missing,
        Fault::Exists | Fault::Changed | Fault::Retained { .. } => Kind::Conflict,
        Fault::Credentials(_) | Fault::Forbidden(_) | Fault::ClockSkew => Kind::Denied,
        Fault::WrongRegion { .. } | Fault::Invalid(_) => Kind::Usage,
        Fault::Unable(_) => Kind::Unsupported,
        _ => Kind::Unavailable,
    }
}

fn read_kind(failed: &crate::read_at::ReadFailed) -> Kind {
    if let Some(error) = failed.source.downcast_ref::<StoreError>() {
        return kind_of(&error.fault);
    }
    failed.source.downcast_ref::<std::io::Error>().map_or(Kind::Unavailable, etcd_data::error::kind_of)
}
