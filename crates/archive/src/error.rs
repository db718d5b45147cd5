//! What can go wrong with an archive, and what kind of thing that is.

use etcd_data::Kind;
use store::key::NotAKey;
use store::{Fault, Key, StoreError};

use crate::encryption::KeyError;
use crate::fence::FenceError;
use crate::proof::ProofError;

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
    /// Somebody else may write, or nobody can be let write.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// What was proven cannot be read.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// A folder's name makes no key of a store.
    #[error(transparent)]
    Name(#[from] NotAKey),
    /// Which archive is meant cannot be told.
    #[error("at {place}")]
    Pick {
        /// Where it was looked for.
        place: String,
        /// Why not.
        source: crate::catalogue::PickError,
    },
    /// An archive of another system is to be copied to where another of its kind is.
    #[error("what is in {folder:?} at {place} is another archive: the two have no object in common")]
    NothingShared {
        /// Where it was to go.
        place: String,
        /// The folder there.
        folder: String,
    },
    /// What was asked for cannot be restored.
    #[error(transparent)]
    Plan(#[from] crate::plan::PlanError),
    /// What was asked for cannot be restored, and some objects are of no use, which may be why.
    #[error("{source}")]
    NothingLeft {
        /// What is missing without them.
        source: crate::plan::PlanError,
        /// Those, and what is wrong with each.
        set_aside: Box<[(Key, String)]>,
        /// What a caller may do about that: get a newer version if all of them are of a newer format.
        kind: Kind,
    },
    /// A moment before everything that is there.
    #[error("{time} is before the first change that is there{}", first.map(|first| format!(", at {first}")).unwrap_or_default())]
    TooEarly {
        /// The moment.
        time: jiff::Timestamp,
        /// When the first object was taken.
        first: Option<jiff::Timestamp>,
    },
    /// What decides about others cannot be read, so nothing is decided.
    #[error("{key} tells what must stay, and it cannot be used: {why}")]
    Undecided {
        /// What would tell.
        key: Key,
        /// Why it does not.
        why: String,
    },
    /// A lockbox is of no use, and without what it locked nothing can be restored, whoever has which keys.
    #[error(
        "nothing is deleted while nothing can be restored without {key}: put it back as it was, from another destination \
         or an older copy"
    )]
    Lockbox {
        /// The lockbox.
        key: Key,
        /// What is wrong with it.
        source: std::sync::Arc<Error>,
    },
    /// What was fetched could not be kept on this machine.
    #[error("keeping what was fetched in {}", folder.display())]
    Scratch {
        /// Where.
        folder: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An object could not be made.
    #[error("making {key}")]
    Write {
        /// The object.
        key: Key,
        /// What went wrong.
        source: crate::object::WriteError,
    },
    /// The objects that something is to be made of contradict each other.
    #[error(transparent)]
    Contradiction(#[from] crate::plan::Contradiction),
    /// A database could not be read.
    #[error(transparent)]
    Data(#[from] etcd_data::Error),
    /// A snapshot could not be unwrapped, or is no database.
    #[error("{key}")]
    Snapshot {
        /// The object.
        key: Key,
        /// What is wrong with it.
        source: SnapshotError,
    },
    /// An object is not what it should be.
    #[error("{key}")]
    Object {
        /// The object.
        key: Key,
        /// What is wrong with it.
        source: ObjectError,
    },
}

/// What is wrong with a snapshot file in an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Its bytes could not be had.
    #[error("it cannot be read")]
    Read(#[from] crate::read_at::ReadFailed),
    /// It could not be looked at.
    #[error("it cannot be looked at")]
    Look(#[source] std::io::Error),
    /// It could not be unwrapped.
    #[error("it cannot be unwrapped")]
    Expand(#[from] etcd_data::container::ExpandError),
    /// It is not as it was when it was made.
    #[error("its SHA-256 is not that of its bytes")]
    Digest,
    /// It is no etcd database.
    #[error("it is no sound database")]
    Database(#[from] etcd_data::Error),
    /// A mark in it cannot be read.
    #[error("it is no sound database")]
    View(#[from] etcd_data::view::ViewError),
    /// Something in it is damaged.
    #[error("it is no sound database: {0}")]
    Unsound(String),
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
    /// It is encrypted in a way that is not known here.
    #[error("it is encrypted with {cipher:?}, which this version does not know")]
    UnknownCipher {
        /// How, as its header has it.
        cipher: String,
    },
    /// It lies in the open, and its archive was encrypted when it was written.
    #[error(
        "it is not encrypted, and says that it was written at {written:.0}; this archive is encrypted since {since:.0}"
    )]
    InTheOpen {
        /// When it says that it was written.
        written: jiff::Timestamp,
        /// When the first lockbox was made.
        since: jiff::Timestamp,
    },
    /// It lies in the open, and nobody can tell whether it may.
    #[error("it is not encrypted, and no lockbox can be read to tell whether it should be: {why}")]
    PerhapsInTheOpen {
        /// What is wrong with the first lockbox that was tried.
        why: String,
    },
    /// Its changes do not follow on what comes before them, though its revisions do.
    #[error("{0}: it is of another history")]
    OtherHistory(etcd_data::soundness::Misfit),
    /// Whoever keeps it marked it as not to be restored from.
    #[error("it is marked as excluded")]
    Excluded,
    /// Its bytes could not be had.
    #[error("it cannot be read")]
    Read(#[from] crate::read_at::ReadFailed),
}

/// An error and what caused it, as one line. What a cause only says again is said once.
pub fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !told.ends_with(&text) {
            told = format!("{told}: {text}");
        }
        next = cause.source();
    }
    told
}

/// Why something failed, as one line, for those who say themselves what did: without what the error itself says, unless that
/// is all.
pub fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), in_one_line)
}

/// What went wrong in the end: the causes before only tell where.
pub fn deepest(error: &dyn std::error::Error) -> String {
    let deeper = std::iter::successors(Some(error), |error| error.source());
    deeper.last().map(ToString::to_string).unwrap_or_default()
}

/// Whether something is the matter with an object itself, and not with what is between.
pub fn is_its_own(kind: Kind) -> bool {
    matches!(kind, Kind::Corrupt | Kind::Missing | Kind::Unsupported)
}

impl ObjectError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Newer { .. } | Self::UnknownCipher { .. } => Kind::Unsupported,
            // Only a person can tell whether it is forged: it is neither used nor deleted.
            Self::InTheOpen { .. } | Self::PerhapsInTheOpen { .. } => Kind::Unsupported,
            Self::Damaged { .. } | Self::Misplaced { .. } | Self::OtherHistory(_) => Kind::Corrupt,
            Self::NoKey { .. } => Kind::Denied,
            Self::Excluded => Kind::Missing,
            Self::Read(failed) => read_kind(failed),
        }
    }
}

impl SnapshotError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        use etcd_data::container::ExpandError;
        match self {
            Self::Read(failed) => read_kind(failed),
            Self::Look(error) | Self::Expand(ExpandError::Scratch { source: error, .. }) => {
                etcd_data::error::kind_of(error)
            }
            Self::Expand(ExpandError::NoRoom { .. }) => Kind::Unavailable,
            Self::Expand(_) | Self::Digest | Self::Unsound(_) => Kind::Corrupt,
            Self::Database(error) => error.kind(),
            Self::View(error) => error.kind(),
        }
    }
}

impl Error {
    /// Whether a newer version may understand what this one does not.
    pub fn is_of_newer(&self) -> bool {
        match self {
            Self::Key(KeyError::Newer { .. } | KeyError::UnknownCipher { .. }) => true,
            Self::Object { source: ObjectError::Newer { .. } | ObjectError::UnknownCipher { .. }, .. } => true,
            Self::Fence(FenceError::Newer { .. }) | Self::Proof(ProofError::Newer { .. }) => true,
            Self::NothingLeft { kind, .. } => *kind == Kind::Unsupported,
            Self::Lockbox { source, .. } => source.is_of_newer(),
            _ => false,
        }
    }

    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => kind_of(&error.fault),
            Self::Key(error) => error.kind(),
            Self::Fence(error) => error.kind(),
            Self::Proof(error) => error.kind(),
            Self::Name(_) => Kind::Usage,
            Self::Pick { source: crate::catalogue::PickError::Several { .. }, .. } => Kind::Usage,
            Self::NothingShared { .. } => Kind::Conflict,
            Self::Pick { .. } | Self::TooEarly { .. } => Kind::Missing,
            Self::Plan(error) => error.kind(),
            // Something was there for it, and is of no use.
            Self::NothingLeft { kind, .. } => *kind,
            Self::Undecided { .. } => Kind::Corrupt,
            Self::Lockbox { source, .. } => source.kind(),
            Self::Scratch { source, .. } => etcd_data::error::kind_of(source),
            Self::Write { source, .. } => write_kind(source),
            Self::Contradiction(_) => Kind::Corrupt,
            Self::Data(error) => error.kind(),
            Self::Snapshot { source, .. } => source.kind(),
            Self::Object { source, .. } => source.kind(),
        }
    }
}

fn write_kind(error: &crate::object::WriteError) -> Kind {
    use crate::object::WriteError;
    match error {
        WriteError::Io(error) => etcd_data::error::kind_of(error),
        WriteError::Source(error) => error.kind(),
        WriteError::Uncarried(_) => Kind::Unsupported,
        _ => Kind::Corrupt,
    }
}

/// The kind of what went wrong with a store.
pub fn kind_of(fault: &Fault) -> Kind {
    match fault {
        Fault::NotFound | Fault::NoSuchPlace | Fault::NoSuchUpload => Kind::Missing,
        Fault::Exists | Fault::Changed | Fault::Retained { .. } => Kind::Conflict,
        Fault::Credentials(_) | Fault::Forbidden(_) | Fault::ClockSkew | Fault::Untrusted(_) => Kind::Denied,
        Fault::OtherKey(_) | Fault::ForbiddenOrOtherKey(_) => Kind::Denied,
        Fault::WrongRegion { .. } | Fault::Invalid(_) => Kind::Usage,
        Fault::Damaged(_) => Kind::Corrupt,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_a_store_has_its_kind() {
        let text = String::new;
        for (fault, kind) in [
            (Fault::NotFound, Kind::Missing),
            (Fault::NoSuchPlace, Kind::Missing),
            (Fault::NoSuchUpload, Kind::Missing),
            (Fault::Exists, Kind::Conflict),
            (Fault::Changed, Kind::Conflict),
            (Fault::Retained { until: None }, Kind::Conflict),
            (Fault::Credentials(text()), Kind::Denied),
            (Fault::Forbidden(text()), Kind::Denied),
            (Fault::ClockSkew, Kind::Denied),
            (Fault::Untrusted(store::Distrust::Plain), Kind::Denied),
            (Fault::OtherKey(text()), Kind::Denied),
            (Fault::ForbiddenOrOtherKey(text()), Kind::Denied),
            (Fault::WrongRegion { region: None }, Kind::Usage),
            (Fault::Invalid(text()), Kind::Usage),
            (Fault::Damaged(text()), Kind::Corrupt),
            (Fault::Unable("replace"), Kind::Unsupported),
            (Fault::Throttled { after: None }, Kind::Unavailable),
            (Fault::TimedOut { after: std::time::Duration::ZERO }, Kind::Unavailable),
            (Fault::Unavailable { what: text(), source: None }, Kind::Unavailable),
            (Fault::Full, Kind::Unavailable),
            (Fault::Nonsense(text()), Kind::Unavailable),
        ] {
            assert_eq!(kind_of(&fault), kind, "{fault:?}");
        }
    }

    /// What is damaged in a store is gone around; a store that does not answer is waited for.
    #[test]
    fn what_is_damaged_where_it_is_is_not_taken_for_a_store_that_is_away() {
        let damaged = Fault::Damaged("its segment a is gone".into());
        assert_eq!(kind_of(&damaged), Kind::Corrupt);
        let read = crate::read_at::ReadFailed::new(0, 1, damaged.at("reading", "swift://b", None));
        assert_eq!(ObjectError::Read(read).kind(), Kind::Corrupt);
        assert_eq!(kind_of(&Fault::Nonsense(String::new())), Kind::Unavailable);
    }
}
