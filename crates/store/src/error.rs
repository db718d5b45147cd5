//! What can go wrong with a store.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use jiff::Timestamp;

use crate::key::Key;

/// A request to a store failed. Neither this nor what caused it ever has a credential in its text.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}", self.subject())]
pub struct StoreError {
    /// What was being done, as in "reading".
    pub action: &'static str,
    /// Where: the store's place, as a URL.
    pub place: String,
    /// The object, if it was about one.
    pub key: Option<Key>,
    /// What went wrong.
    #[source]
    pub fault: Fault,
}

/// What went wrong. What it means for whoever asked follows from the variant alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is no such object.
    #[error("there is no such object")]
    NotFound,
    /// There is no such bucket, container or folder.
    #[error("there is no such bucket, container or folder")]
    NoSuchPlace,
    /// It was to be written only if nothing is there, and something is.
    #[error("something is there already")]
    Exists,
    /// It was to be replaced only if it had not changed, and it has, or is gone.
    #[error("somebody else wrote it in the meantime")]
    Changed,
    /// Nobody can change or delete it yet.
    #[error("it is kept from being changed or deleted{}", until.map(|until| format!(" until {until}")).unwrap_or_default())]
    Retained {
        /// Until then, where the store tells.
        until: Option<Timestamp>,
    },
    /// There are no credentials, or the store does not know them.
    #[error("the credentials were refused: {0}")]
    Credentials(String),
    /// Whoever answered could not show that it is the store.
    #[error("the server is not trusted: {0}")]
    Untrusted(Distrust),
    /// The credentials are good, but do not allow this.
    #[error("no permission: {0}")]
    Forbidden(String),
    /// The store encrypts it with a key that is sent along each time, and that was missing, or another, or one too many.
    #[error("it is not encrypted with what was sent along: {0}")]
    OtherKey(String),
    /// The credentials do not allow this, or the key that was sent along is another: some stores say the same of both.
    #[error("no permission, or not the key that it was written with: {0}")]
    ForbiddenOrOtherKey(String),
    /// The bucket is in another region.
    #[error("the bucket is in another region{}", region.as_ref().map(|region| format!(": {region}")).unwrap_or_default())]
    WrongRegion {
        /// Which one, where the store tells.
        region: Option<String>,
    },
    /// The store refuses because this machine's clock and its own differ.
    #[error("the clock of this machine differs too much from that of the store")]
    ClockSkew,
    /// Too many requests.
    #[error("the store asks for fewer requests")]
    Throttled {
        /// When to come again, where the store tells.
        after: Option<Duration>,
    },
    /// No answer in time.
    #[error("no answer within {} s", after.as_secs())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// The store, the network or the disk failed; it may be gone the next time.
    #[error("{what}")]
    Unavailable {
        /// What happened.
        what: String,
        /// What caused it.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The disk or the quota is full.
    #[error("there is no room left")]
    Full,
    /// An upload that is not there, or no longer.
    #[error("the upload is not there: it was finished, given up or cleaned away")]
    NoSuchUpload,
    /// The answer makes no sense.
    #[error("the answer makes no sense: {0}")]
    Nonsense(String),
    /// It is there, but not all of it: asking again does not bring it back.
    #[error("it is damaged there: {0}")]
    Damaged(String),
    /// What was asked makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// This store cannot do it: [`KEEPING`], for one.
    #[error("this store cannot {0}")]
    Unable(&'static str),
}

/// What a store without retention cannot do.
pub const KEEPING: &str = "keep objects from being deleted";

/// Why whoever answered is not taken for the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// Its certificate has run out.
    #[error("{0}")]
    Expired(String),
    /// Its certificate is not valid yet, by the clock of this machine.
    #[error("{0}")]
    NotYetValid(String),
    /// Its certificate is for other names.
    #[error("{0}")]
    OtherName(String),
    /// Nobody who is trusted has signed its certificate.
    #[error("nobody who is trusted here has signed its certificate")]
    UnknownAuthority,
    /// It does not speak TLS.
    #[error("it does not encrypt what it sends")]
    Plain,
    /// Something else is wrong with its certificate.
    #[error("{0}")]
    Otherwise(String),
}

impl Distrust {
    /// Why, if `what` an error and its causes say tells that. The TLS library has its reasons in words alone here.
    pub(crate) fn of(what: &str) -> Option<Self> {
        if what.contains("received corrupt message of type InvalidContentType") {
            return Some(Self::Plain);
        }
        let (_, why) = what.split_once("invalid peer certificate: ")?;
        let said = why.to_owned();
        Some(match why {
            _ if why.starts_with("certificate expired") => Self::Expired(said),
            _ if why.starts_with("certificate not valid yet") => Self::NotYetValid(said),
            _ if why.starts_with("certificate not valid for name") => Self::OtherName(said),
            _ if why.starts_with("UnknownIssuer") => Self::UnknownAuthority,
            _ => Self::Otherwise(said),
        })
    }
}

impl Fault {
    /// Whether the same request may succeed later with nobody doing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::TimedOut { .. } | Self::Unavailable { .. } | Self::Nonsense(_))
    }

    /// This fault, in its place.
    pub fn at(self, action: &'static str, place: &str, key: Option<&Key>) -> StoreError {
        StoreError { action, place: place.to_owned(), key: key.cloned(), fault: self }
    }

    /// What an error of a disk means.
    pub fn of_disk(error: io::Error) -> Self {
        use rustix::io::Errno;
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Self::NotFound,
            Some(Errno::EXIST) => Self::Exists,
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Self::Full,
            Some(Errno::ACCESS | Errno::PERM) => Self::Forbidden(error.to_string()),
            Some(Errno::ROFS) => Self::Forbidden("it is mounted read-only".into()),
            Some(Errno::XDEV | Errno::LOOP) => Self::Forbidden("a link or a mount leads out of the place".into()),
            Some(Errno::NAMETOOLONG) => Self::Invalid("a name in it is longer than this file system takes".into()),
            _ => Self::unavailable(error),
        }
    }

    /// A failure that may be gone the next time.
    pub fn unavailable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        Self::Unavailable { what: source.to_string(), source: source.source().map(|cause| cause.to_string().into()) }
    }
}

impl StoreError {
    /// The object, or else the place.
    fn subject(&self) -> String {
        match &self.key {
            Some(key) => format!("{}/{key}", self.place.trim_end_matches('/')),
            None => self.place.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the TLS library says it, after what was being done.
    #[test]
    fn why_a_server_is_not_trusted_follows_from_what_was_said() {
        let said = |why: &str| Distrust::of(&format!("error sending request: client error (Connect): {why}"));
        let certificate = |why: &str| said(&format!("invalid peer certificate: {why}"));
        let expired =
            "certificate expired: verification time 2 (UNIX), but certificate is not valid after 1 (1 seconds ago)";
        assert_eq!(certificate(expired), Some(Distrust::Expired(expired.into())));
        let early = "certificate not valid yet: verification time 1 (UNIX)";
        assert_eq!(certificate(early), Some(Distrust::NotYetValid(early.into())));
        let name = "certificate not valid for name \"a\"; certificate is only valid for DnsName(\"b\")";
        assert_eq!(certificate(name), Some(Distrust::OtherName(name.into())));
        assert_eq!(certificate("UnknownIssuer"), Some(Distrust::UnknownAuthority));
        assert_eq!(certificate("BadSignature"), Some(Distrust::Otherwise("BadSignature".into())));
        assert_eq!(said("received corrupt message of type InvalidContentType"), Some(Distrust::Plain));
        assert_eq!(said("tcp connect error: Connection refused"), None);
    }
}
