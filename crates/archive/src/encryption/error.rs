//! What can go wrong with keys. Nothing here ever tells a secret.

use std::io;
use std::path::PathBuf;

use etcd_data::Kind;

use crate::encryption::KeyId;

/// Something with a key failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// None of the keys at hand opens it.
    #[error("archive key {id} is locked for {}; {}", names(recipients), at_hand(given))]
    NoKey {
        /// Which archive key.
        id: KeyId,
        /// Who could open it.
        recipients: Vec<String>,
        /// The names of the keys at hand.
        given: Vec<String>,
    },
    /// The archive key that an object names is not there.
    #[error("the lockbox keys/{id}.json is missing; it was locked for {}", names(recipients))]
    Missing {
        /// Which archive key.
        id: KeyId,
        /// Who could open it when the object was written.
        recipients: Vec<String>,
    },
    /// The archive key is that of another archive.
    #[error("archive key {id} belongs to the archive of {theirs}, not of {ours}")]
    OtherArchive {
        /// Which archive key.
        id: KeyId,
        /// Whose it is: name and identity.
        theirs: String,
        /// Whose archive is being read.
        ours: String,
    },
    /// A lock does not give what it should, though the key for it is at hand.
    #[error("what archive key {id} was locked with for {recipient} has been changed")]
    Tampered {
        /// Which archive key.
        id: KeyId,
        /// The lock's recipient.
        recipient: String,
    },
    /// The data key in a header does not open with the archive key that it names.
    #[error("the data key in the header was changed, or archive key {id} never wrapped it")]
    DataKey {
        /// Which archive key.
        id: KeyId,
    },
    /// The passphrase is not the one.
    #[error("the passphrase does not open archive key {id}")]
    WrongPassphrase {
        /// Which archive key.
        id: KeyId,
    },
    /// What is there is encrypted, and nobody said for whom more of it is to be.
    #[error(
        "the archive is encrypted for {}, and nothing says for whom what is written now is to be",
        names(recipients)
    )]
    ForWhom {
        /// Who can open what is there.
        recipients: Vec<String>,
    },
    /// Whether new objects are to be encrypted, and with what, has not been found out yet.
    #[error("whether new objects are to be encrypted has not been found out yet")]
    NotYet,
    /// No passphrase could be had.
    #[error("no passphrase: {what}")]
    NoPassphrase {
        /// Why.
        what: String,
    },
    /// A passphrase would take more work to try than is allowed.
    #[error("{of} asks for the work factor {found}, and at most {allowed} is tried")]
    TooMuchWork {
        /// What is locked with it.
        of: String,
        /// What it asks for.
        found: u8,
        /// The limit.
        allowed: u8,
    },
    /// A lockbox makes no sense.
    #[error("the lockbox keys/{id}.json is damaged: {what}")]
    Malformed {
        /// Which archive key's.
        id: KeyId,
        /// How.
        what: String,
    },
    /// A lockbox is of a newer format.
    #[error("the lockbox keys/{id}.json is of format {found}, and this version reads up to {known}")]
    Newer {
        /// Which archive key's.
        id: KeyId,
        /// Its format.
        found: u32,
        /// What is known here.
        known: u32,
    },
    /// The header asks for a cipher that is not known.
    #[error("it is encrypted with {cipher:?} in segments of {segment_bytes} bytes, which this version does not know")]
    UnknownCipher {
        /// Its cipher.
        cipher: String,
        /// Its segments.
        segment_bytes: u32,
    },
    /// A file with a key cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everybody on this machine can read a file with a key.
    #[error("{} can be read by everybody (mode {mode:o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file has something else than a key.
    #[error("{}{} is not {expected}", path.display(), line.map(|line| format!(", line {line},")).unwrap_or_default())]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// The line, if it has lines.
        line: Option<usize>,
        /// What should be there.
        expected: &'static str,
    },
    /// Text that names no recipient.
    #[error("{text:?} names nobody that an archive can be locked for")]
    NotARecipient {
        /// The text.
        text: String,
    },
    /// A key service refused.
    #[error("{service} refuses {key}: {what}")]
    Refused {
        /// Which service.
        service: &'static str,
        /// The key's name.
        key: String,
        /// What it says.
        what: String,
    },
    /// A key service has no such key.
    #[error("{service} has no key {key}: {what}")]
    NoSuchKey {
        /// Which service.
        service: &'static str,
        /// The key's name.
        key: String,
        /// What it says.
        what: String,
    },
    /// A key service did not do what it was asked; it may the next time.
    #[error("{service} at {place}: {what}")]
    Unavailable {
        /// Which service.
        service: &'static str,
        /// Where.
        place: String,
        /// What happened.
        what: String,
    },
    /// Somebody is named whom a person took away from those who can open the archive.
    #[error("{} can no longer open the archive: somebody took them away", names(recipients))]
    TakenAway {
        /// Those who are named and were taken away.
        recipients: Vec<String>,
    },
    /// More are named than a lockbox has room for.
    #[error("{found} recipients are named, and an archive is locked for at most {allowed}")]
    TooManyRecipients {
        /// How many.
        found: usize,
        /// The limit.
        allowed: usize,
    },
    /// An archive that is to be encrypted is locked for nobody.
    #[error("nobody is named whom the archive is to be locked for")]
    NoRecipients,
}

impl KeyError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoKey { .. }
            | Self::WrongPassphrase { .. }
            | Self::NoPassphrase { .. }
            | Self::Exposed { .. }
            | Self::Refused { .. } => Kind::Denied,
            Self::Missing { .. } | Self::NoSuchKey { .. } => Kind::Missing,
            Self::OtherArchive { .. } => Kind::Conflict,
            Self::Tampered { .. } | Self::DataKey { .. } | Self::Malformed { .. } => Kind::Corrupt,
            Self::Newer { .. } | Self::UnknownCipher { .. } | Self::TooMuchWork { .. } => Kind::Unsupported,
            Self::Unreadable { source, .. } => etcd_data::error::kind_of(source),
            Self::NotAKey { .. }
            | Self::NotARecipient { .. }
            | Self::NoRecipients
            | Self::TooManyRecipients { .. }
            | Self::TakenAway { .. }
            | Self::ForWhom { .. } => Kind::Usage,
            Self::NotYet | Self::Unavailable { .. } => Kind::Unavailable,
        }
    }
}

fn names(recipients: &[String]) -> String {
    if recipients.is_empty() { "nobody".into() } else { recipients.join(", ") }
}

fn at_hand(given: &[String]) -> String {
    if given.is_empty() { "no key is at hand".into() } else { format!("at hand: {}", given.join(", ")) }
}
