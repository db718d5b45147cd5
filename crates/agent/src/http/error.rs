//! Why nothing can be served.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use etcd_data::Kind;
use etcd_data::error::kind_of;
use jiff::Timestamp;

/// Why nothing can be served, found at the start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {what} {}", path.display())]
    Read {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} has no {what}: {why}", path.display())]
    Content {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is there instead.
        why: String,
    },
    /// The certificate does not hold now.
    #[error("the certificate {} is valid from {from} to {until}, and it is {now}", path.display())]
    NotValidNow {
        /// The file.
        path: PathBuf,
        /// Since when.
        from: Timestamp,
        /// Until when.
        until: Timestamp,
        /// What the clock says.
        now: Timestamp,
    },
    /// The certificate and the key cannot be used together.
    #[error("the certificate {} and the key {} cannot be used", certificate.display(), key.display())]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
}

impl HttpError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => Kind::Conflict,
            Self::Listen { source, .. } | Self::Read { source, .. } => kind_of(source),
            Self::Content { .. } | Self::Unusable { .. } => Kind::Usage,
            Self::NotValidNow { .. } => Kind::Denied,
        }
    }
}
