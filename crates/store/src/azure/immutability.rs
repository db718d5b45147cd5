//! Blobs that nobody can delete: their immutability policies and legal holds, which accounts have that keep versions. A hold on
//! all of the container is told of the container alone. That a container has a policy is told there too, but until when it
//! keeps a blob only by the interface that manages accounts, which asks for other permissions: whether such a deletion is
//! refused shows when it is tried.

use jiff::Timestamp;
use reqwest::Method;

use super::{Azure, Request, check};
use crate::error::Fault;
use crate::http::{self, Answer};
use crate::key::Key;
use crate::object::{Retention, When};
use crate::retention::Changes;

const UNTIL: &str = "x-ms-immutability-policy-until-date";
const HOLD: &str = "x-ms-legal-hold";

/// Adds what keeps the blob that is being made.
pub(super) fn add(mut request: Request<'_>, retention: Retention, governance: bool) -> Request<'_> {
    if let Some(until) = retention.until {
        request = with_policy(request, until, governance);
    }
    if retention.legal_hold {
        request = request.with(HOLD, "true");
    }
    request
}

/// What an answer about a blob tells.
pub(super) fn read(answer: &Answer) -> Option<Retention> {
    let until = answer.header(UNTIL).and_then(|time| http::date(time).ok());
    let legal_hold = answer.header(HOLD) == Some("true");
    (until.is_some() || legal_hold).then_some(Retention { until, legal_hold })
}

/// All that keeps a blob, as far as anything tells it.
pub(super) async fn of(azure: &Azure, key: &Key) -> Result<Option<Retention>, Fault> {
    let of_blob = azure.info(key).await?.retention;
    if of_blob.is_some_and(|retention| retention.legal_hold) || !of_container(azure).await?.is_held {
        return Ok(of_blob);
    }
    Ok(Some(Retention { legal_hold: true, ..of_blob.unwrap_or_default() }))
}

/// Changes what keeps a blob. A hold on its container is lifted elsewhere.
pub(super) async fn set(azure: &Azure, key: &Key, wanted: Retention) -> Result<(), Fault> {
    let there = azure.info(key).await?.retention;
    let changes = Changes::choose(there, wanted, azure.governance, Timestamp::now())?;
    if changes.hold {
        change(azure, about(key, "legalhold").with(HOLD, "true")).await?;
    }
    if let Some(until) = changes.until {
        change(azure, with_policy(about(key, "immutabilityPolicies"), until, azure.governance)).await?;
    }
    if changes.lift {
        change(azure, about(key, "legalhold").with(HOLD, "false")).await?;
    }
    Ok(())
}

/// Whether the container has a policy that keeps its blobs, and tells of none until when.
pub(super) async fn keeps_untold(azure: &Azure) -> Result<bool, Fault> {
    Ok(of_container(azure).await?.keeps_untold)
}

/// What keeps all blobs of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct OfContainer {
    is_held: bool,
    keeps_untold: bool,
}

impl OfContainer {
    /// What an answer about a container tells.
    fn read(answer: &Answer) -> Self {
        let is_so = |name| answer.header(name) == Some("true");
        // Where versions are kept one by one, each blob has a policy of its own, and tells of it.
        let is_of_blobs = is_so("x-ms-immutable-storage-with-versioning-enabled");
        Self {
            is_held: is_so("x-ms-has-legal-hold"),
            keeps_untold: is_so("x-ms-has-immutability-policy") && !is_of_blobs,
        }
    }
}

async fn of_container(azure: &Azure) -> Result<OfContainer, Fault> {
    let query = vec![("restype", "container")];
    let answer = azure.request(Request { query, ..Request::of_container(Method::HEAD) }).await?;
    match check(&answer, &When::Always) {
        Ok(()) => Ok(OfContainer::read(&answer)),
        // A shared access signature for blobs does not tell of their container.
        Err(Fault::Forbidden(_)) => Ok(OfContainer::default()),
        Err(fault) => Err(fault),
    }
}

async fn change(azure: &Azure, request: Request<'_>) -> Result<(), Fault> {
    check(&azure.request(request).await?, &When::Always)
}

/// A request to change what a blob has of this name.
fn about<'r>(key: &'r Key, what: &'r str) -> Request<'r> {
    Request { query: vec![("comp", what)], ..Request::of(Method::PUT, key) }
}

fn with_policy(request: Request<'_>, until: Timestamp, governance: bool) -> Request<'_> {
    let mode = if governance { "Unlocked" } else { "Locked" };
    let until = until.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    request.with(UNTIL, until).with("x-ms-immutability-policy-mode", mode)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn answer(headers: &[(&'static str, &'static str)]) -> Answer {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        Answer { status: StatusCode::OK, headers, body: Bytes::new() }
    }

    /// Get Container Properties tells that there is a policy, and not until when.
    #[test]
    fn a_policy_of_a_container_is_told_and_not_until_when() {
        let (policy, hold) = ("x-ms-has-immutability-policy", "x-ms-has-legal-hold");
        let versions = "x-ms-immutable-storage-with-versioning-enabled";
        for (headers, is_held, keeps_untold) in [
            (&[][..], false, false),
            (&[(policy, "false"), (hold, "false"), (versions, "false")], false, false),
            (&[(policy, "true"), (hold, "false"), (versions, "false")], false, true),
            (&[(policy, "true")], false, true),
            (&[(policy, "false"), (hold, "true")], true, false),
            // Then its blobs have policies of their own.
            (&[(policy, "true"), (hold, "true"), (versions, "true")], true, false),
        ] {
            assert_eq!(OfContainer::read(&answer(headers)), OfContainer { is_held, keeps_untold }, "{headers:?}");
        }
    }

    /// Get Blob Properties tells of the blob's own policy and hold.
    #[test]
    fn what_keeps_a_blob_itself_is_told_with_it() {
        let until = "2026-09-30T22:09:01Z".parse().unwrap();
        for (headers, expected) in [
            (&[][..], None),
            (&[(HOLD, "false")], None),
            (&[(HOLD, "true")], Some(Retention { until: None, legal_hold: true })),
            (
                &[(UNTIL, "Wed, 30 Sep 2026 22:09:01 GMT"), (HOLD, "false")],
                Some(Retention { until: Some(until), legal_hold: false }),
            ),
        ] {
            assert_eq!(read(&answer(headers)), expected, "{headers:?}");
        }
    }
}
