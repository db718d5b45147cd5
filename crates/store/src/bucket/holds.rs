//! What keeps an object at Google: its own retention, the policy of its bucket, and two kinds of hold. Only the JSON interface
//! tells of all of them, and changes holds; asking takes no other permission than reading, `storage.objects.get`.

use jiff::Timestamp;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::{Bucket, Request, add_header, answers};
use crate::error::Fault;
use crate::http;
use crate::key::Key;
use crate::object::Retention;
use crate::retention::Changes;

/// What of an object's description is asked for: the names of [`Told`].
const FIELDS: &str = "retentionExpirationTime,temporaryHold,eventBasedHold";

/// What is told of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told {
    /// By its own retention and by the policy of the bucket, whichever lasts longer.
    retention_expiration_time: Option<Timestamp>,
    temporary_hold: bool,
    /// While it is on, the time of the bucket's policy has not begun.
    event_based_hold: bool,
}

impl Told {
    fn retention(&self) -> Option<Retention> {
        let legal_hold = self.temporary_hold || self.event_based_hold;
        let until = self.retention_expiration_time;
        (until.is_some() || legal_hold).then_some(Retention { until, legal_hold })
    }
}

/// All that keeps an object. `objects` is where the bucket's are in that interface.
pub(super) async fn of(bucket: &Bucket, objects: &str, key: &Key) -> Result<Option<Retention>, Fault> {
    Ok(told(bucket, objects, key).await?.retention())
}

/// Changes what keeps an object, in one request.
pub(super) async fn set(bucket: &Bucket, objects: &str, key: &Key, wanted: Retention) -> Result<(), Fault> {
    let there = told(bucket, objects, key).await?;
    let changes = Changes::choose(there.retention(), wanted, bucket.governance, Timestamp::now())?;
    let change = document(&there, changes, bucket.governance);
    if change.is_empty() {
        return Ok(());
    }
    // Otherwise a time that can be taken back is only ever prolonged.
    let query: &[(&str, &str)] = if bucket.governance { &[("overrideUnlockedRetention", "true")] } else { &[] };
    let url = url_of(bucket, objects, key, query)?;
    let mut request = Request { body: Value::Object(change).to_string().into(), ..Request::of(Method::PATCH, key) };
    add_header(&mut request.headers, CONTENT_TYPE.as_str(), "application/json")?;
    answers::check(&bucket.send(url, request).await?, None)
}

async fn told(bucket: &Bucket, objects: &str, key: &Key) -> Result<Told, Fault> {
    let url = url_of(bucket, objects, key, &[("fields", FIELDS)])?;
    let answer = bucket.send(url, Request::of(Method::GET, key)).await?;
    answers::check(&answer, None)?;
    let nonsense = |_| Fault::Nonsense(format!("nobody can tell from it what keeps the object: {}", answer.excerpt()));
    serde_json::from_slice(&answer.body).map_err(nonsense)
}

fn document(there: &Told, changes: Changes, governance: bool) -> Map<String, Value> {
    let mut change = Map::new();
    if changes.hold {
        change.insert("temporaryHold".into(), true.into());
    }
    if let Some(until) = changes.until {
        let mode = if governance { "Unlocked" } else { "Locked" };
        change.insert("retention".into(), json!({ "mode": mode, "retainUntilTime": until.to_string() }));
    }
    if changes.lift && there.temporary_hold {
        change.insert("temporaryHold".into(), false.into());
    }
    if changes.lift && there.event_based_hold {
        change.insert("eventBasedHold".into(), false.into());
    }
    change
}

fn url_of(bucket: &Bucket, objects: &str, key: &Key, query: &[(&str, &str)]) -> Result<Url, Fault> {
    // The name is one part of the path, in which a slash is no border.
    let name = http::escape(&format!("{}{key}", bucket.prefix), false);
    http::url_of(&format!("{objects}/{name}"), "", query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Told {
        serde_json::from_str(text).unwrap()
    }

    /// As the service was seen to answer: a hold that was lifted is told as none, one that never was is not told.
    #[test]
    fn all_that_keeps_an_object_is_told_as_one() {
        let until: Timestamp = "2026-09-30T22:09:01.223Z".parse().unwrap();
        let kept = |text: &str| told(text).retention();
        assert_eq!(kept("{}"), None);
        assert_eq!(kept(r#"{"temporaryHold":false}"#), None);
        let by_time = Retention { until: Some(until), legal_hold: false };
        assert_eq!(kept(r#"{"retentionExpirationTime":"2026-09-30T22:09:01.223Z"}"#), Some(by_time));
        for hold in ["temporaryHold", "eventBasedHold"] {
            let held = Retention { until: None, legal_hold: true };
            assert_eq!(kept(&format!(r#"{{"{hold}":true}}"#)), Some(held), "{hold}");
        }
    }

    #[test]
    fn only_those_holds_are_lifted_that_are_on() {
        let lift = Changes { lift: true, ..Changes::default() };
        let lifted = |text| Value::Object(document(&told(text), lift, false));
        assert_eq!(lifted(r#"{"temporaryHold":true}"#), json!({ "temporaryHold": false }));
        assert_eq!(lifted(r#"{"eventBasedHold":true}"#), json!({ "eventBasedHold": false }));
        let until = "2026-09-30T22:09:01Z".parse().unwrap();
        let all = Changes { hold: true, until: Some(until), lift: false };
        let retention = json!({ "mode": "Unlocked", "retainUntilTime": "2026-09-30T22:09:01Z" });
        let expected = json!({ "temporaryHold": true, "retention": retention });
        assert_eq!(Value::Object(document(&told("{}"), all, true)), expected);
    }
}
