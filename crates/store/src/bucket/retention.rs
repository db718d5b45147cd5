//! Objects that nobody can delete until some time: S3's object lock.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use jiff::{Timestamp, Unit};
use reqwest::Method;
use reqwest::header::HeaderMap;
use sha2::{Digest, Sha256};

use super::{Bucket, Request, add_header, answers};
use crate::error::Fault;
use crate::http::Answer;
use crate::key::Key;
use crate::object::Retention;

fn mode(bucket: &Bucket) -> &'static str {
    if bucket.governance { "GOVERNANCE" } else { "COMPLIANCE" }
}

fn unable() -> Fault {
    Fault::Unable("keep objects from being deleted")
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
    if let Some(until) = retention.until {
        add_header(headers, "x-amz-object-lock-mode", mode(bucket))?;
        add_header(headers, "x-amz-object-lock-retain-until-date", &whole_seconds(until))?;
    }
    if retention.legal_hold {
        add_header(headers, "x-amz-object-lock-legal-hold", "ON")?;
    }
    Ok(())
}

/// Adds the digest that stores want along with whatever is to be kept.
pub(super) fn add_digest(headers: &mut HeaderMap, bytes: &Bytes) -> Result<(), Fault> {
    add_header(headers, "x-amz-sdk-checksum-algorithm", "SHA256")?;
    add_header(headers, "x-amz-checksum-sha256", &BASE64_STANDARD.encode(Sha256::digest(bytes)))
}

/// What an answer about an object tells.
pub(super) fn read(answer: &Answer) -> Option<Retention> {
    let until = answer
        .header("x-amz-object-lock-retain-until-date")
        .or_else(|| answer.header("x-goog-retention-expiration-time"))
        .or_else(|| answer.header("x-goog-object-lock-retain-until-date"))
        .and_then(|time| time.parse().ok());
    let held = |name| answer.header(name).is_some_and(|value| value.eq_ignore_ascii_case("on"));
    let legal_hold = held("x-amz-object-lock-legal-hold") || held("x-goog-temporary-hold");
    (until.is_some() || legal_hold).then_some(Retention { until, legal_hold })
}

/// Changes what keeps an object. The hold is put on before the time is changed, and lifted after.
pub(super) async fn set(bucket: &Bucket, key: &Key, retention: Retention) -> Result<(), Fault> {
    if !bucket.abilities.retention {
        return Err(unable());
    }
    let there = bucket.info(key).await?.retention.unwrap_or_default();
    let kept_until = there.until.filter(|until| *until > Timestamp::now());
    if kept_until > retention.until && !bucket.governance {
        return Err(Fault::Retained { until: kept_until });
    }
    let hold = async |on: bool| {
        let status = if on { "ON" } else { "OFF" };
        change(bucket, key, "legal-hold", format!("<LegalHold><Status>{status}</Status></LegalHold>")).await
    };
    if retention.legal_hold && !there.legal_hold {
        hold(true).await?;
    }
    if let Some(until) = retention.until
        && there.until != retention.until
    {
        let (mode, until) = (mode(bucket), whole_seconds(until));
        let body = format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>");
        change(bucket, key, "retention", body).await?;
    }
    if !retention.legal_hold && there.legal_hold {
        hold(false).await?;
    }
    Ok(())
}

async fn change(bucket: &Bucket, key: &Key, what: &str, document: String) -> Result<(), Fault> {
    let mut headers = HeaderMap::new();
    let body = Bytes::from(document);
    add_digest(&mut headers, &body)?;
    let answer =
        bucket.request(Request { headers, body, query: vec![(what, "")], ..Request::of(Method::PUT, key) }).await?;
    answers::check(&answer, None)
}
