//! Blobs that nobody can delete: their immutability policies and legal holds, which accounts have that keep versions. A hold on
//! all of the container is told of the container alone. That a container has a policy is told there too, but not until when it
//! keeps a blob: such a deletion is tried, and refused.

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
    if of_blob.is_some_and(|retention| retention.legal_hold) || !is_container_held(azure).await? {
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

async fn is_container_held(azure: &Azure) -> Result<bool, Fault> {
    let query = vec![("restype", "container")];
    let answer = azure.request(Request { query, ..Request::of_container(Method::HEAD) }).await?;
    match check(&answer, &When::Always) {
        Ok(()) => Ok(answer.header("x-ms-has-legal-hold") == Some("true")),
        // A shared access signature for blobs does not tell of their container.
        Err(Fault::Forbidden(_)) => Ok(false),
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
