//! From what gRPC, HTTP/2, TLS and the system say to a [`Fault`].

use std::error::Error as StdError;
use std::io;

use rustls::{CertificateError, Error as RustlsError};
use tonic::{Code, Status};

use super::{Fault, TlsFault};

/// What a status from the server means. What etcd says is told apart by its text, because it uses the same code for much.
pub(crate) fn of_status(status: &Status) -> Fault {
    let message = status.message();
    if let Some(fault) = of_words(message) {
        return fault;
    }
    match status.code() {
        // So our side of gRPC says that an answer is none of gRPC.
        _ if message.starts_with("grpc-status header missing") => Fault::NotEtcd { why: message.to_owned() },
        // An etcd that is too old knows the service, and not the method.
        Code::Unimplemented if message.starts_with("unknown method") => Fault::Unsupported,
        Code::Unimplemented => Fault::NotEtcd { why: format!("it does not know etcd's services ({message})") },
        Code::PermissionDenied => Fault::Denied,
        Code::ResourceExhausted => Fault::Busy { message: message.to_owned() },
        Code::OutOfRange if message.contains("message length too large") => {
            Fault::TooLarge { message: message.to_owned() }
        }
        code => Fault::Other { code, message: message.to_owned() },
    }
}

/// What a cancelled watch means: etcd writes errors as text there, sometimes with their code before it.
pub(crate) fn of_cancelled_watch(reason: &str, compact_revision: i64) -> Fault {
    if compact_revision > 0 {
        return Fault::Compacted { compact_revision: Some(compact_revision) };
    }
    of_words(reason).unwrap_or_else(|| Fault::Cancelled { reason: reason.to_owned() })
}

/// That no token came, that it is forgotten or has run out, and that users or roles have changed since it was given. Older
/// servers say the last in other words.
const LOGIN_NEEDED: [&str; 4] =
    ["user name is empty", "invalid auth token", "revision in header is old", "revision of auth store is old"];

fn of_words(message: &str) -> Option<Fault> {
    let has = |words: &str| message.contains(words);
    let owned = || message.to_owned();
    Some(if has("required revision has been compacted") {
        Fault::Compacted { compact_revision: None }
    } else if has("required revision is a future revision") {
        Fault::FutureRevision
    } else if has("database space exceeded") {
        Fault::NoSpace
    } else if has("no leader") {
        Fault::NoLeader
    } else if has("leader changed") {
        Fault::LeaderChanged
    } else if has("not leader") {
        Fault::NotLeader
    } else if has("corrupt cluster") {
        Fault::Corrupt
    } else if has("not supported for learner") {
        Fault::Learner
    } else if has("in sync with leader") {
        Fault::LearnerBehind
    } else if has("too many learner") {
        Fault::TooManyLearners
    } else if has("unhealthy cluster") || has("not enough started members") {
        Fault::Unhealthy
    } else if has("request is too large") || has("received message larger than max") || has("too many operations") {
        Fault::TooLarge { message: owned() }
    } else if has("authentication failed, invalid user ID or password") {
        Fault::WrongPassword
    } else if LOGIN_NEEDED.iter().any(|words| has(words)) {
        Fault::LoginNeeded
    } else if has("permission denied") {
        Fault::Denied
    } else if has("member ID already exist") || has("already exists") {
        Fault::Exists { message: owned() }
    } else if has("etcdserver:") && (has("not found") || has("does not exist")) {
        Fault::NotFound { message: owned() }
    } else if has("etcdserver: not capable") {
        Fault::Unsupported
    } else if has("too many requests") || has("request timed out") || has("server stopped") {
        Fault::Busy { message: owned() }
    } else {
        return None;
    })
}

/// What an error of a connection means: of the system, or of TLS that runs over it.
pub(crate) fn connection_fault(error: &io::Error, asked: &str) -> Fault {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>()) {
        Some(error) => Fault::Tls(of_tls(error, asked)),
        None => Fault::Unreachable { why: chain(error) },
    }
}

fn of_tls(error: &RustlsError, asked: &str) -> TlsFault {
    match error {
        RustlsError::InvalidCertificate(fault) => of_certificate(fault, asked),
        RustlsError::AlertReceived(alert) => TlsFault::Refused { alert: format!("{alert:?}") },
        // A server without TLS answers with something else than a record of TLS.
        RustlsError::InvalidMessage(_) => TlsFault::Plain,
        other => TlsFault::Other { why: other.to_string() },
    }
}

fn of_certificate(fault: &CertificateError, asked: &str) -> TlsFault {
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFault::NotYetValid,
        CertificateError::UnknownIssuer => TlsFault::UnknownAuthority,
        CertificateError::NotValidForName => TlsFault::OtherHost { asked: asked.to_owned(), names: Vec::new() },
        CertificateError::NotValidForNameContext { presented, .. } => {
            TlsFault::OtherHost { asked: asked.to_owned(), names: presented.clone() }
        }
        // A certificate that signs for itself, and is no authority by its own word.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => TlsFault::UnknownAuthority,
        other => TlsFault::Other { why: format!("the server's certificate is not valid: {other}") },
    }
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: Code, message: &str, expected: Fault) {
        assert_eq!(of_status(&Status::new(code, message)), expected, "{message}");
    }

    #[test]
    fn what_etcd_says_is_told_apart_by_its_words() {
        let compacted = Fault::Compacted { compact_revision: None };
        check(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", compacted.clone());
        check(Code::Unknown, "etcdserver: mvcc: required revision has been compacted", compacted);
        check(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision", Fault::FutureRevision);
        check(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Fault::NoSpace);
        check(Code::Unavailable, "etcdserver: no leader", Fault::NoLeader);
        check(Code::Unavailable, "etcdserver: leader changed", Fault::LeaderChanged);
        check(Code::FailedPrecondition, "etcdserver: not leader", Fault::NotLeader);
        check(Code::DataLoss, "etcdserver: corrupt cluster", Fault::Corrupt);
        check(Code::FailedPrecondition, "etcdserver: rpc not supported for learner", Fault::Learner);
        let behind = "etcdserver: can only promote a learner member which is in sync with leader";
        check(Code::FailedPrecondition, behind, Fault::LearnerBehind);
        check(Code::FailedPrecondition, "etcdserver: too many learner members in cluster", Fault::TooManyLearners);
        check(Code::Unavailable, "etcdserver: unhealthy cluster", Fault::Unhealthy);
        let wrong = "etcdserver: authentication failed, invalid user ID or password";
        check(Code::InvalidArgument, wrong, Fault::WrongPassword);
        check(Code::InvalidArgument, "etcdserver: user name is empty", Fault::LoginNeeded);
        check(Code::Unauthenticated, "etcdserver: invalid auth token", Fault::LoginNeeded);
        check(Code::InvalidArgument, "etcdserver: revision of auth store is old", Fault::LoginNeeded);
        check(Code::Unknown, "auth: revision in header is old", Fault::LoginNeeded);
        check(Code::PermissionDenied, "etcdserver: permission denied", Fault::Denied);
        check(Code::Unimplemented, "unknown method AuthStatus for service etcdserverpb.Auth", Fault::Unsupported);
    }

    #[test]
    fn what_is_there_already_or_not_there_keeps_its_words() {
        for words in ["etcdserver: member not found", "etcdserver: requested lease not found"] {
            check(Code::NotFound, words, Fault::NotFound { message: words.to_owned() });
        }
        for words in ["etcdserver: Peer URLs already exists", "etcdserver: lease already exists"] {
            check(Code::FailedPrecondition, words, Fault::Exists { message: words.to_owned() });
        }
    }

    #[test]
    fn other_servers_are_not_etcd() {
        let other = of_status(&Status::new(Code::Unimplemented, "unknown service etcdserverpb.Maintenance"));
        assert!(matches!(other, Fault::NotEtcd { .. }), "{other:?}");
        let missing = "grpc-status header missing, mapped from HTTP status code 404";
        let other = of_status(&Status::new(Code::Unimplemented, missing));
        assert!(matches!(other, Fault::NotEtcd { .. }), "{other:?}");
    }

    #[test]
    fn a_cancelled_watch_says_why() {
        assert_eq!(of_cancelled_watch("", 7), Fault::Compacted { compact_revision: Some(7) });
        assert_eq!(of_cancelled_watch("etcdserver: no leader", 0), Fault::NoLeader);
        let coded = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        assert_eq!(of_cancelled_watch(coded, 0), Fault::Denied);
        assert_eq!(of_cancelled_watch("because", 0), Fault::Cancelled { reason: "because".to_owned() });
    }

    #[test]
    fn certificates_fail_for_reasons_that_are_named() {
        let fault = |error| of_tls(&RustlsError::InvalidCertificate(error), "db");
        assert_eq!(fault(CertificateError::Expired), TlsFault::Expired);
        assert_eq!(fault(CertificateError::UnknownIssuer), TlsFault::UnknownAuthority);
        let other = TlsFault::OtherHost { asked: "db".to_owned(), names: Vec::new() };
        assert_eq!(fault(CertificateError::NotValidForName), other);
        let refused = of_tls(&RustlsError::AlertReceived(rustls::AlertDescription::CertificateRequired), "db");
        assert_eq!(refused, TlsFault::Refused { alert: "CertificateRequired".to_owned() });
    }
}
