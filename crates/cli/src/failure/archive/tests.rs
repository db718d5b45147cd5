//! What is said of what failed, and the advice.

use archive::fence::FenceError;
use archive::proof::ProofError;
use store::Distrust;

use super::*;
use crate::args::home::home_failure;

fn hint(what: &str, action: &str, fault: &Fault) -> String {
    match fault_failure(what, action, fault) {
        Failure::Said { hint, .. } => hint.unwrap_or_default(),
        _ => String::new(),
    }
}

#[test]
fn what_is_to_be_allowed_is_what_was_tried() {
    let fault = Fault::Forbidden("403".into());
    for (what, action, expected) in [
        ("s3://b/x", "reading", "reading needs permission to list and to get objects"),
        ("s3://b/x", "writing a part of", "writing needs permission to put"),
        ("gs://b/x", "deleting", "deleting needs permission to list and to delete"),
        ("az://c", "looking for uploads in", "abort uploads"),
        ("s3://b/x", "keeping", "retention"),
        ("file:///backups", "listing", "allowed to read"),
        ("file:///backups/x", "writing", "read-only"),
        ("file:///backups/x", "deleting", "read-only"),
        ("s3://b/x", FETCHING, "--scratch"),
    ] {
        let hint = hint(what, action, &fault);
        assert!(hint.contains(expected), "{action} {what}: {hint}");
    }
}

fn kind_told(failure: &Failure) -> Option<Kind> {
    match failure {
        Failure::Said { kind, .. } => Some(*kind),
        _ => None,
    }
}

/// The kind, from which the exit code follows, and a part of the hint.
#[test]
fn every_fault_of_a_store_ends_as_the_reference_says_with_its_own_advice() {
    let text = String::new;
    let elsewhere = || Fault::WrongRegion { region: Some("eu-west-1".into()) };
    for (fault, kind, expected) in [
        (Fault::NoSuchPlace, Kind::Missing, "name of the bucket"),
        (Fault::NotFound, Kind::Missing, "deleted meanwhile"),
        (Fault::Credentials(text()), Kind::Denied, "--credentials"),
        (Fault::Untrusted(Distrust::UnknownAuthority), Kind::Denied, "--ca-file"),
        (Fault::Forbidden(text()), Kind::Denied, "permission"),
        (Fault::OtherKey(text()), Kind::Denied, "--sse-key-file"),
        (Fault::ForbiddenOrOtherKey(text()), Kind::Denied, "--sse-key-file"),
        (elsewhere(), Kind::Usage, "--region eu-west-1"),
        (Fault::WrongRegion { region: None }, Kind::Usage, "--region names the one"),
        (Fault::ClockSkew, Kind::Denied, "set the clock"),
        (Fault::Full, Kind::Unavailable, "make room"),
        (Fault::Throttled { after: None }, Kind::Unavailable, "--max-requests-per-second"),
        (Fault::TimedOut { after: std::time::Duration::ZERO }, Kind::Unavailable, "--patience"),
        (Fault::Unavailable { what: text(), source: None }, Kind::Unavailable, "--patience"),
        (Fault::Nonsense(text()), Kind::Unavailable, "--endpoint"),
        (Fault::Retained { until: None }, Kind::Conflict, "retention"),
        (Fault::Unable("delete"), Kind::Unsupported, "refloat doctor"),
    ] {
        let failure = fault_failure("s3://b/x", "reading", &fault);
        assert_eq!(kind_told(&failure), Some(kind), "{fault:?}");
        let hint = hint("s3://b/x", "reading", &fault);
        assert!(hint.contains(expected), "{fault:?}: {hint}");
    }
}

/// The same of what is the matter with keys.
#[test]
fn what_is_of_a_newer_format_or_for_others_is_told_apart() {
    let id = archive::encryption::KeyId(1);
    for (error, kind, expected) in [
        (KeyError::Newer { id, found: 2, known: 1 }, Kind::Unsupported, "a newer refloat"),
        (KeyError::Missing { id, recipients: Vec::new() }, Kind::Missing, "another destination"),
        (KeyError::Malformed { id, what: String::new() }, Kind::Corrupt, "changed the archive"),
    ] {
        let failure = key_failure(&error);
        assert_eq!(kind_told(&failure), Some(kind), "{error:?}");
        let Failure::Said { hint: Some(hint), .. } = failure else { panic!("{error:?} has no hint") };
        assert!(hint.contains(expected), "{error:?}: {hint}");
    }
}

/// Whoever writes meets a file of a newer format first where the archive says who may.
#[test]
fn whatever_is_of_a_newer_format_a_newer_refloat_is_needed() {
    let key = || Key::parse("prod/cluster.json").unwrap();
    let (found, known) = (2, 1);
    for error in [
        Error::Fence(FenceError::Newer { found, known }),
        Error::Proof(ProofError::Newer { found, known }),
        Error::Key(KeyError::Newer { id: archive::encryption::KeyId(1), found, known }),
        Error::Object { key: key(), source: ObjectError::Newer { found, known } },
    ] {
        let failure = home_failure("s3://b", &error);
        assert_eq!(kind_told(&failure), Some(Kind::Unsupported), "{error:?}");
        let Failure::Said { hint: Some(hint), .. } = failure else { panic!("{error:?} has no hint") };
        assert_eq!(hint, NEWER, "{error:?}");
    }
}

#[test]
fn advice_is_for_the_kind_of_place() {
    let hint_at = |what: &str, fault: &Fault| hint(what, "listing", fault);
    assert!(hint_at("s3://b", &Fault::NoSuchPlace).contains("--region"));
    assert!(hint_at("az://c", &Fault::NoSuchPlace).contains("account"));
    let folder = [hint_at("/backups", &Fault::NoSuchPlace), hint_at("file:///backups", &Fault::NoSuchPlace)];
    for hint in folder {
        assert!(hint.contains("folder") && !hint.contains("--"), "{hint}");
    }
    let away = || Fault::TimedOut { after: std::time::Duration::from_secs(1) };
    assert!(!hint_at("file:///backups", &away()).contains("--endpoint"));
    assert!(hint_at("s3://b", &away()).contains("--endpoint"));
    assert!(hint_at("s3://b", &Fault::Unable("replace only if unchanged")).contains("--conditional-writes"));
    assert!(hint_at("s3://b/x", &Fault::Retained { until: None }).contains("retention"));
    assert!(hint_at("s3://b/x", &Fault::OtherKey(String::new())).contains("--sse-key-file"));
}

#[test]
fn advice_about_a_server_that_is_not_trusted_is_for_what_is_wrong_with_it() {
    for (why, expected) in [
        (Distrust::Expired(String::new()), "renew"),
        (Distrust::NotYetValid(String::new()), "clock"),
        (Distrust::OtherName(String::new()), "--endpoint"),
        (Distrust::UnknownAuthority, "--ca-file"),
        (Distrust::Plain, "http://"),
        (Distrust::Otherwise(String::new()), "--ca-file"),
    ] {
        let hint = hint("s3://b", "listing", &Fault::Untrusted(why));
        assert!(hint.contains(expected), "{hint}");
    }
}
