//! Objects that nobody can delete until some time: S3's object lock. What Google has in its place is in `holds`.

use jiff::{Timestamp, Unit};
use reqwest::Method;
use reqwest::header::HeaderMap;

use super::{Bucket, Dialect, Request, add_header, answers, checksum, holds};
use crate::error::{Fault, KEEPING};
use crate::http::Answer;
use crate::key::Key;
use crate::object::Retention;
use crate::retention::Changes;

fn mode(bucket: &Bucket) -> &'static str {
    if bucket.governance { "GOVERNANCE" } else { "COMPLIANCE" }
}

fn unable() -> Fault {
    Fault::Unable(KEEPING)
}

/// S3 keeps whole seconds.
fn whole_seconds(time: Timestamp) -> String {
    time.round(Unit::Second).unwrap_or(time).to_string()
}

/// Adds what keeps the object that is being made.
pub(super) fn add_headers(bucket: &Bucket, headers: &mut HeaderMap, retention: Retention) -> Result<(), Fault> {
    if !bucket.abilities.retention {
        return Err(unable());
    }
    let lock = bucket.dialect.header("object-lock");
    if let Some(until) = retention.until {
        add_header(headers, &format!("{lock}-mode"), mode(bucket))?;
        add_header(headers, &format!("{lock}-retain-until-date"), &whole_seconds(until))?;
    }
    match bucket.dialect {
        _ if !retention.legal_hold => Ok(()),
        Dialect::S3 { .. } => add_header(headers, &format!("{lock}-legal-hold"), "ON"),
        // It has no header for that.
        Dialect::Google { .. } => Err(Fault::Unable("hold an object from the moment that it is written")),
    }
}

/// What an answer about an object tells. Google's tells nothing of holds and of what its bucket keeps.
pub(super) fn read(answer: &Answer) -> Option<Retention> {
    let until = answer
        .header("x-amz-object-lock-retain-until-date")
        .or_else(|| answer.header("x-goog-object-lock-retain-until-date"))
        .and_then(|time| time.parse().ok());
    let held = answer.header("x-amz-object-lock-legal-hold");
    let legal_hold = held.is_some_and(|value| value.eq_ignore_ascii_case("on"));
    (until.is_some() || legal_hold).then_some(Retention { until, legal_hold })
}

/// All that keeps an object.
pub(super) async fn of(bucket: &Bucket, key: &Key) -> Result<Option<Retention>, Fault> {
    match &bucket.dialect {
        Dialect::S3 { .. } => Ok(bucket.info(key).await?.retention),
        Dialect::Google { objects, .. } => holds::of(bucket, objects, key).await,
    }
}

/// Changes what keeps an object.
pub(super) async fn set(bucket: &Bucket, key: &Key, wanted: Retention) -> Result<(), Fault> {
    if !bucket.abilities.retention {
        return Err(unable());
    }
    if let Dialect::Google { objects, .. } = &bucket.dialect {
        return holds::set(bucket, objects, key, wanted).await;
    }
    let there = bucket.info(key).await?.retention;
    let changes = Changes::choose(there, wanted, bucket.governance, Timestamp::now())?;
    let hold = async |on: bool| {
        let status = if on { "ON" } else { "OFF" };
        change(bucket, key, "legal-hold", format!("<LegalHold><Status>{status}</Status></LegalHold>")).await
    };
    if changes.hold {
        hold(true).await?;
    }
    if let Some(until) = changes.until {
        let (mode, until) = (mode(bucket), whole_seconds(until));
        let body = format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>");
        change(bucket, key, "retention", body).await?;
    }
    if changes.lift {
        hold(false).await?;
    }
    Ok(())
}

async fn change(bucket: &Bucket, key: &Key, what: &str, document: String) -> Result<(), Fault> {
    let mut request = Request { query: vec![(what, "")], body: document.into(), ..Request::of(Method::PUT, key) };
    checksum::add(bucket, &mut request)?;
    answers::check(&bucket.request(request).await?, None)
}
