//! What went wrong with a call, told apart by what a caller may do about it.

mod classify;

use std::path::PathBuf;
use std::time::Duration;

use crate::endpoint::Endpoint;

pub(crate) use classify::{connection_fault, of_cancelled_watch, of_status};

/// A call to one member failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{action} of {endpoint}")]
pub struct RpcError {
    /// The member.
    pub endpoint: Endpoint,
    /// What was being done, as in "reading the status".
    pub action: &'static str,
    /// What went wrong.
    #[source]
    pub fault: Fault,
}

/// One way in which a call can fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is no connection, or it broke.
    #[error("it cannot be reached: {why}")]
    Unreachable {
        /// What the system or the connection said.
        why: String,
    },
    /// No answer in time.
    #[error("it did not answer within {after:?}")]
    Deadline {
        /// How long was waited.
        after: Duration,
    },
    /// TLS failed.
    #[error(transparent)]
    Tls(#[from] TlsFault),
    /// Somebody answers there who is not etcd.
    #[error("who answers there is not etcd: {why}")]
    NotEtcd {
        /// What was answered.
        why: String,
    },
    /// etcd does not know the user, or not with this password.
    #[error("the user or the password is wrong")]
    WrongPassword,
    /// The password cannot be read from where it is kept.
    #[error("there is no password to log in with: {why}")]
    NoPassword {
        /// What stands in the way, with the file.
        why: String,
    },
    /// Authentication is on, and no user was given.
    #[error("it asks for a user and a password")]
    LoginNeeded,
    /// The user or the certificate may not do this.
    #[error("permission denied")]
    Denied,
    /// The revision is no longer there.
    #[error("the revision is compacted{}", up_to(*compact_revision))]
    Compacted {
        /// Up to where, if it was told.
        compact_revision: Option<i64>,
    },
    /// The revision is not there yet.
    #[error("the revision is in the future")]
    FutureRevision,
    /// The member sees no leader.
    #[error("there is no leader")]
    NoLeader,
    /// The leader changed meanwhile.
    #[error("the leader changed")]
    LeaderChanged,
    /// The member is there, and cannot serve now: overloaded, stopping, or its peers do not answer.
    #[error("it cannot serve now: {message}")]
    Busy {
        /// What it said.
        message: String,
    },
    /// The member is not the leader, which this asks for.
    #[error("it is not the leader")]
    NotLeader,
    /// The quota is used up.
    #[error("its space is used up")]
    NoSpace,
    /// etcd found that members differ, and raised the alarm.
    #[error("etcd found the cluster corrupt")]
    Corrupt,
    /// A learner does not do this.
    #[error("it is a learner, which does not serve this")]
    Learner,
    /// The learner lags too far behind to get a vote.
    #[error("the learner has not caught up")]
    LearnerBehind,
    /// There are as many learners as etcd allows.
    #[error("there are too many learners")]
    TooManyLearners,
    /// Too few members are well for a change of members.
    #[error("too few members are healthy for that")]
    Unhealthy,
    /// The member, lease, user or role is not there.
    #[error("{message}")]
    NotFound {
        /// What it said.
        message: String,
    },
    /// The member, lease, user or role is there already.
    #[error("{message}")]
    Exists {
        /// What it said.
        message: String,
    },
    /// The request or the answer is longer than allowed.
    #[error("too large: {message}")]
    TooLarge {
        /// What was said about it.
        message: String,
    },
    /// This version of etcd cannot do it.
    #[error("this version of etcd cannot do that")]
    Unsupported,
    /// The server ended the watch, and there is nothing wrong.
    #[error("the watch was cancelled{}", because(reason))]
    Cancelled {
        /// What it said, which may be nothing.
        reason: String,
    },
    /// Anything else that etcd says.
    #[error("{message} ({code:?})")]
    Other {
        /// The code of gRPC.
        code: tonic::Code,
        /// The text.
        message: String,
    },
}

/// One way in which TLS can fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// The endpoint is `https`, and nothing is said about certificates.
    #[error("the endpoint is https, and no certificates are configured")]
    NotConfigured,
    /// A file that we were given cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server's certificate was valid once.
    #[error("the server's certificate has expired")]
    Expired,
    /// The server's certificate is not valid yet: one of the clocks is wrong.
    #[error("the server's certificate is not valid yet")]
    NotYetValid,
    /// The server's certificate is for somebody else.
    #[error("the server's certificate is not for {asked}, but for {}", names.join(", "))]
    OtherHost {
        /// Whom we asked for.
        asked: String,
        /// Whom it is for.
        names: Vec<String>,
    },
    /// The server's certificate comes from an authority that we do not trust.
    #[error("the server's certificate is from an authority that is not trusted")]
    UnknownAuthority,
    /// The server does not accept our certificate, or wants one.
    #[error("the server refuses our certificate: {alert}")]
    Refused {
        /// The alert of TLS.
        alert: String,
    },
    /// The server speaks no TLS.
    #[error("the server speaks no TLS")]
    Plain,
    /// The server speaks TLS, and the endpoint is `http`.
    #[error("the server speaks TLS, and the endpoint is http")]
    Needed,
    /// Anything else.
    #[error("TLS failed: {why}")]
    Other {
        /// What was said.
        why: String,
    },
}

impl RpcError {
    /// Whether the same may succeed by itself when it is tried again.
    pub fn is_transient(&self) -> bool {
        self.fault.is_transient()
    }
}

impl Fault {
    /// Whether the same may succeed by itself when it is tried again.
    pub fn is_transient(&self) -> bool {
        match self {
            Fault::Unreachable { .. }
            | Fault::Deadline { .. }
            | Fault::NoLeader
            | Fault::LeaderChanged
            | Fault::Busy { .. }
            | Fault::LearnerBehind
            | Fault::Unhealthy
            | Fault::Cancelled { .. } => true,
            Fault::Other { code, .. } => matches!(code, tonic::Code::Unavailable | tonic::Code::Aborted),
            _ => false,
        }
    }
}

fn up_to(compact_revision: Option<i64>) -> String {
    compact_revision.map(|revision| format!(", up to {revision}")).unwrap_or_default()
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
