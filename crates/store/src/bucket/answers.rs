//! What the answers of buckets mean, above all their errors.

use jiff::Timestamp;

use crate::error::{Fault, KEEPING, StoreError};
use crate::http::Answer;
use crate::key::Key;
use crate::object::When;
use crate::store::Upload;
use crate::xml::Element;

/// The fault in an answer, if it is one. `when` is the condition of what was asked.
pub(super) fn check(answer: &Answer, when: Option<&When>) -> Result<(), Fault> {
    // A completion is answered with 200 before it is done, so its error comes with that status.
    let error = Element::parse(&answer.body).ok().filter(|root| root.name == "Error");
    if answer.status.is_success() && (error.is_none() || answer.status.as_u16() == 206) {
        return Ok(());
    }
    let text = |name| error.as_ref().and_then(|error| error.text(name)).unwrap_or_default();
    let (code, message) = (text("Code"), text("Message"));
    let what = || match code {
        "" => format!("{} {}", answer.status, answer.excerpt()),
        // Google names the permission that is lacking in the details alone.
        "AccessDenied" => format!("{code}: {}", excerpt(&format!("{message} {}", text("Details")))),
        _ => format!("{code}: {}", excerpt(message)),
    };
    let region = || {
        let named = answer.header("x-amz-bucket-region").or_else(|| error.as_ref()?.text("Region"));
        named.map(str::to_owned)
    };

    Err(match code {
        // Google does not say what is wrong with a token that this machine signed, which begins and ends by its clock.
        _ if answer.status == 401 && answer.is_from_another_time() => Fault::ClockSkew,
        // What was to be replaced is gone.
        "NoSuchKey" if matches!(when, Some(When::Unchanged(_))) => Fault::Changed,
        "NoSuchKey" => Fault::NotFound,
        "NoSuchBucket" => Fault::NoSuchPlace,
        "NoSuchUpload" => Fault::NoSuchUpload,
        "PreconditionFailed" => refused(when, what()),
        // Another write of the same object was under way; which of them was first shows the next time.
        "ConditionalRequestConflict" | "OperationAborted" => Fault::Unavailable { what: what(), source: None },
        "InvalidPart" | "InvalidPartOrder" => Fault::Invalid(what()),
        "PermanentRedirect" | "TemporaryRedirect" | "IllegalLocationConstraintException" => {
            Fault::WrongRegion { region: region() }
        }
        "AuthorizationHeaderMalformed" if message.contains("region") => Fault::WrongRegion { region: region() },
        "RequestTimeTooSkewed" | "RequestExpired" => Fault::ClockSkew,
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "ExpiredToken"
        | "TokenRefreshRequired"
        | "InvalidSecurity"
        | "AuthenticationRequired"
        | "AuthorizationHeaderMalformed"
        | "InvalidClientTokenId"
        | "MissingSecurityHeader" => Fault::Credentials(what()),
        "InvalidRequest" | "InvalidArgument" if is_about_key(message) => Fault::OtherKey(what()),
        "CustomerEncryptionKeyIsIncorrect"
        | "ResourceIsEncryptedWithCustomerEncryptionKey"
        | "ResourceNotEncryptedWithCustomerEncryptionKey" => Fault::OtherKey(what()),
        // It has the words of a lock in it, and nothing there is kept.
        "InvalidRequest" if is_about_checksum(message) => Fault::Invalid(what()),
        "InvalidRequest" if is_without_lock(message) => Fault::Unable(KEEPING),
        "AccessDenied" | "InvalidRequest" if is_lock(message) => Fault::Retained { until: None },
        "RetentionPolicyNotMet" | "ObjectUnderActiveHold" | "ObjectLocked" | "FileImmutable" => {
            Fault::Retained { until: until_in(text("Details")) }
        }
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => Fault::Forbidden(what()),
        "SlowDown"
        | "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TooManyRequests"
        | "SlowDownRead"
        | "SlowDownWrite" => Fault::Throttled { after: answer.retry_after() },
        "RequestTimeout" | "InternalError" | "ServiceUnavailable" => Fault::Unavailable { what: what(), source: None },
        "QuotaExceeded" | "XMinioStorageFull" | "InsufficientCapacity" | "InsufficientStorage" => Fault::Full,
        // What was sent is not what came: the same once more is the cure.
        "BadDigest" | "XAmzContentSHA256Mismatch" | "XAmzContentChecksumMismatch" | "IncompleteBody" => {
            Fault::Unavailable { what: what(), source: None }
        }
        "NotImplemented" if is_about_checksum(message) => Fault::Invalid(what()),
        "NotImplemented" => Fault::Unable("do what was asked"),
        _ => match answer.status.as_u16() {
            412 => refused(when, what()),
            301 | 307 | 308 => Fault::WrongRegion { region: region() },
            409 => Fault::Unavailable { what: what(), source: None },
            _ => match answer.fault() {
                Fault::Invalid(_) => Fault::Invalid(what()),
                Fault::Forbidden(_) => Fault::Forbidden(what()),
                other => other,
            },
        },
    })
}

fn excerpt(said: &str) -> String {
    said.trim_end().chars().take(300).collect()
}

/// The same fault, of a request that was about the bucket and not about an object.
pub(super) fn of_place(fault: Fault) -> Fault {
    match fault {
        Fault::NotFound => Fault::NoSuchPlace,
        other => other,
    }
}

fn refused(when: Option<&When>, what: String) -> Fault {
    match when {
        Some(When::Absent) => Fault::Exists,
        Some(When::Unchanged(_)) => Fault::Changed,
        _ => Fault::Invalid(what),
    }
}

/// The time with which Google ends what it says of an object that is kept. While it is held, there is none.
fn until_in(details: &str) -> Option<Timestamp> {
    details.rsplit_once(" until ")?.1.trim_end_matches('.').parse().ok()
}

/// Whether a lock keeps the object. Who lacks the permission to lock is told so with the name of that: `s3:PutObjectRetention`.
fn is_lock(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    if message.contains("not authorized to perform") {
        return false;
    }
    message.contains("object lock") || message.contains("worm protected") || message.contains("retention")
}

/// What a bucket without object lock says to whoever wants an object kept: by S3 and moto "Bucket is missing Object Lock
/// Configuration", by MinIO "Bucket is missing ObjectLockConfiguration".
fn is_without_lock(message: &str) -> bool {
    message.to_ascii_lowercase().replace(' ', "").contains("missingobjectlockconfiguration")
}

/// What a bucket that keeps objects by default wants along with each.
fn is_about_checksum(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("content-md5") || message.contains("x-amz-checksum")
}

/// S3 has no code of its own for a key that is missing, or that an object is not encrypted with; what is wrong shows in words.
fn is_about_key(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("stored using a form of server side encryption")
        || message.contains("encryption parameters are not applicable")
        || message.contains("customer provided keys must provide")
}

/// The document in an answer.
pub(super) fn document(answer: &Answer) -> Result<Element, Fault> {
    Element::parse(&answer.body).map_err(|what| Fault::Nonsense(format!("{what}: {}", answer.excerpt())))
}

/// The key that an upload is of.
pub(super) fn key_of(upload: &Upload, place: &str) -> Result<Key, StoreError> {
    Key::parse(&upload.key).map_err(|error| Fault::Invalid(error.to_string()).at("going on with", place, None))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;

    use super::*;
    use crate::object::Tag;

    #[track_caller]
    fn judge(status: u16, body: &str, when: Option<&When>) -> String {
        match check(&answer(status, body), when) {
            Ok(()) => "fine".into(),
            Err(fault) => format!("{fault:?}").chars().take_while(|c| c.is_alphanumeric()).collect(),
        }
    }

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer { status, headers: HeaderMap::new(), body: Bytes::from(body.to_owned()) }
    }

    fn error(code: &str, rest: &str) -> String {
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code>{rest}</Error>")
    }

    #[test]
    fn google_says_until_when_an_object_is_kept() {
        let kept_until = |code, details: &str| {
            let details =
                format!("<Message>Object overwrite or deletion is not allowed.</Message><Details>{details}</Details>");
            match check(&answer(403, &error(code, &details)), None) {
                Err(Fault::Retained { until }) => until.map(|until| until.to_string()),
                other => panic!("{other:?}"),
            }
        };
        let by_time = "Object 'b/o until 1' is subject to bucket's retention policy or object retention and cannot be deleted or \
                       overwritten until 2026-09-30T17:04:50.584991-07:00";
        let held = "Object 'b/o' is under active Temporary hold and cannot be deleted, overwritten or archived until hold is \
                    removed.";
        let until = kept_until("RetentionPolicyNotMet", by_time);
        assert_eq!(until.as_deref(), Some("2026-10-01T00:04:50.584991Z"));
        assert_eq!(kept_until("ObjectUnderActiveHold", held), None);
    }

    #[test]
    fn a_token_is_not_blamed_where_the_clocks_differ() {
        let told_at = |date: Timestamp| {
            let mut answer = answer(401, &error("AuthenticationRequired", ""));
            let date = jiff::fmt::rfc2822::to_string(&date.to_zoned(jiff::tz::TimeZone::UTC)).unwrap();
            answer.headers.insert("date", date.parse().unwrap());
            check(&answer, None).unwrap_err()
        };
        let now = Timestamp::now();
        for hours in [-1, 1] {
            let fault = told_at(now + jiff::SignedDuration::from_hours(hours));
            assert!(matches!(fault, Fault::ClockSkew), "{hours}: {fault:?}");
        }
        assert!(matches!(told_at(now), Fault::Credentials(_)));
    }

    /// Status, body and meaning, as servers were seen to answer.
    #[test]
    fn each_error_has_its_meaning() {
        let skewed = "<Message>The difference between the request time and the current time is too large.</Message>";
        let region = "<Message>The authorization header is malformed; the region 'us-east-1' is wrong; expecting \
                      'eu-west-1'</Message><Region>eu-west-1</Region>";
        let locked = "<Message>Access Denied because object protected by object lock.</Message>";
        let unpermitted = "<Message>User: arn:aws:iam::1:user/a is not authorized to perform: s3:PutObjectRetention on resource: \
                           \"arn:aws:s3:::b/k\" because no identity-based policy allows the s3:PutObjectRetention \
                           action</Message>";
        let lockless = "<Message>Bucket is missing Object Lock Configuration</Message>";
        let locked_up = "<Message>The object was stored using a form of Server Side Encryption. The correct parameters must \
                         be provided to retrieve the object.</Message>";
        let open = "<Message>The encryption parameters are not applicable to this object.</Message>";
        let unvouched = "<Message>Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object \
                         Lock parameters</Message>";
        let unknown = "<Message>Header 'x-amz-checksum-sha256' is not implemented</Message>";
        for (status, code, rest, meaning) in [
            (400, "InvalidRequest", locked_up, "OtherKey"),
            (400, "InvalidRequest", open, "OtherKey"),
            (400, "InvalidRequest", unvouched, "Invalid"),
            (400, "InvalidRequest", lockless, "Unable"),
            (400, "CustomerEncryptionKeyIsIncorrect", "", "OtherKey"),
            (404, "NoSuchKey", "", "NotFound"),
            (404, "NoSuchBucket", "", "NoSuchPlace"),
            (404, "NoSuchUpload", "", "NoSuchUpload"),
            (403, "InvalidAccessKeyId", "", "Credentials"),
            (403, "SignatureDoesNotMatch", "", "Credentials"),
            (400, "ExpiredToken", "", "Credentials"),
            (403, "AccessDenied", "", "Forbidden"),
            (403, "AccessDenied", locked, "Retained"),
            (403, "AccessDenied", unpermitted, "Forbidden"),
            (403, "RequestTimeTooSkewed", skewed, "ClockSkew"),
            (400, "AuthorizationHeaderMalformed", region, "WrongRegion"),
            (301, "PermanentRedirect", "", "WrongRegion"),
            (503, "SlowDown", "", "Throttled"),
            (500, "InternalError", "", "Unavailable"),
            (200, "InternalError", "", "Unavailable"),
            (507, "XMinioStorageFull", "", "Full"),
            (501, "NotImplemented", "", "Unable"),
            (501, "NotImplemented", unknown, "Invalid"),
            (400, "BadDigest", "", "Unavailable"),
            (400, "IncompleteBody", "", "Unavailable"),
            (409, "ConditionalRequestConflict", "", "Unavailable"),
            (418, "Teapot", "", "Invalid"),
        ] {
            assert_eq!(judge(status, &error(code, rest), None), meaning, "{status} {code}");
        }
        assert_eq!(judge(412, &error("PreconditionFailed", ""), Some(&When::Absent)), "Exists");
        assert_eq!(judge(412, "", Some(&When::Unchanged(Tag("x".into())))), "Changed");
        assert_eq!(judge(404, &error("NoSuchKey", ""), Some(&When::Unchanged(Tag("x".into())))), "Changed");
        assert_eq!(judge(502, "<html>bad gateway</html>", None), "Unavailable");
        assert_eq!(judge(429, "", None), "Throttled");
        assert_eq!(judge(200, "<Result/>", None), "fine");
        assert_eq!(judge(401, &error("AuthenticationRequired", ""), None), "Credentials");
        // An object may well look like an error.
        assert_eq!(judge(206, &error("NoSuchKey", ""), None), "fine");
    }
}
