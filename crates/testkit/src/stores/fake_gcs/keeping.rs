//! What keeps objects from being deleted and replaced: their own retention, a policy of the bucket, and two kinds of hold. It is
//! told and changed in the JSON interface; what is refused for it is refused in the words of GCS.

use axum::body::Body;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::Asked;
use super::bucket::{Bucket, Object, Outcome, Refusal};

/// What was ordered for one object.
#[derive(Debug, Clone, Default)]
pub(super) struct Keeping {
    until: Option<Timestamp>,
    is_locked: bool,
    temporary_hold: bool,
    event_based_hold: bool,
}

const KEPT: Refusal =
    Refusal(403, "RetentionPolicyNotMet", "Object overwrite or deletion is not allowed due to retention policy.");
const HELD: Refusal = Refusal(
    403,
    "ObjectUnderActiveHold",
    "Object overwrite or deletion is not allowed due to active hold on the object.",
);
const LOCKED: Refusal = Refusal(403, "AccessDenied", "A locked retention is neither shortened nor unlocked.");
const INVALID: Refusal = Refusal(400, "InvalidArgument", "It is not understood how the object is to be kept.");

const MODE: &str = "x-goog-object-lock-mode";
const UNTIL: &str = "x-goog-object-lock-retain-until-date";

impl Keeping {
    /// What the headers of a request that makes an object ask for.
    pub(super) fn asked_for(asked: &Asked) -> Result<Keeping, Refusal> {
        let (mode, until) = match (asked.header(MODE), asked.header(UNTIL)) {
            (None, None) => return Ok(Keeping::default()),
            (Some(mode @ ("GOVERNANCE" | "COMPLIANCE")), Some(until)) => (mode, until),
            _ => return Err(INVALID),
        };
        let until = until.parse().map_err(|_| INVALID)?;
        Ok(Keeping { until: Some(until), is_locked: mode == "COMPLIANCE", ..Keeping::default() })
    }

    /// What the XML interface tells of it.
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let Some(until) = self.until else { return Vec::new() };
        let mode = if self.is_locked { "COMPLIANCE" } else { "GOVERNANCE" };
        vec![(MODE.to_owned(), mode.to_owned()), (UNTIL.to_owned(), until.to_string())]
    }

    fn is_held(&self) -> bool {
        self.temporary_hold || self.event_based_hold
    }

    fn retain(&mut self, retention: &Value, overrides: bool) -> Result<(), Refusal> {
        let until: Timestamp =
            retention["retainUntilTime"].as_str().and_then(|time| time.parse().ok()).ok_or(INVALID)?;
        let is_locked = match retention["mode"].as_str() {
            Some("Locked") => true,
            Some("Unlocked") => false,
            _ => return Err(INVALID),
        };
        let is_less = self.until.is_some_and(|there| until < there) || (self.is_locked && !is_locked);
        if is_less && (self.is_locked || !overrides) {
            return Err(LOCKED);
        }
        // Nobody waits for an event for a given time.
        if self.event_based_hold {
            return Err(INVALID);
        }
        (self.until, self.is_locked) = (Some(until), is_locked);
        Ok(())
    }
}

impl Bucket {
    pub(super) fn keep_for(&mut self, time: SignedDuration) {
        self.kept_for = Some(time);
    }

    pub(super) fn hold_until_an_event(&mut self, key: &str) {
        self.objects.get_mut(key).unwrap().keeping.event_based_hold = true;
    }

    /// `GET /storage/v1/b/<bucket>/o/<object>`
    pub(super) fn describe(&self, asked: &Asked) -> Outcome {
        asked.only(&["fields"], &[])?;
        let object = self.objects.get(&asked.key).ok_or(Refusal::NO_SUCH_KEY)?;
        let wanted: Vec<&str> = asked.query.get("fields").map_or(Vec::new(), |fields| fields.split(',').collect());
        let mut told = self.told(&asked.key, object);
        told.retain(|name, _| wanted.is_empty() || wanted.contains(&name.as_str()));
        Ok(json(told))
    }

    /// `PATCH /storage/v1/b/<bucket>/o/<object>`
    pub(super) fn patch(&mut self, asked: &Asked) -> Outcome {
        asked.only(&["overrideUnlockedRetention"], &[])?;
        let change: Map<String, Value> = serde_json::from_slice(&asked.body).map_err(|_| INVALID)?;
        let object = self.objects.get_mut(&asked.key).ok_or(Refusal::NO_SUCH_KEY)?;
        let mut keeping = object.keeping.clone();
        for (name, value) in &change {
            let overrides = asked.query.get("overrideUnlockedRetention").is_some_and(|text| text == "true");
            match (name.as_str(), value) {
                ("temporaryHold", Value::Bool(on)) => keeping.temporary_hold = *on,
                ("eventBasedHold", Value::Bool(on)) => keeping.event_based_hold = *on,
                ("retention", retention) => keeping.retain(retention, overrides)?,
                _ => return Err(INVALID),
            }
        }
        object.keeping = keeping;
        Ok(json(Map::new()))
    }

    /// Fails as long as the object called `key`, if there is one, is kept.
    pub(super) fn require_not_kept(&self, key: &str) -> Result<(), Refusal> {
        let Some(object) = self.objects.get(key) else { return Ok(()) };
        if object.keeping.is_held() {
            return Err(HELD);
        }
        match self.kept_until(object).filter(|until| *until > Timestamp::now()) {
            Some(_) => Err(KEPT),
            None => Ok(()),
        }
    }

    fn kept_until(&self, object: &Object) -> Option<Timestamp> {
        // Its time begins when the event has come.
        let by_bucket = self.kept_for.filter(|_| !object.keeping.event_based_hold);
        object.keeping.until.max(by_bucket.map(|time| object.modified + time))
    }

    fn told(&self, key: &str, object: &Object) -> Map<String, Value> {
        let mut told = Map::new();
        told.insert("name".into(), key.into());
        for (name, is_on) in
            [("temporaryHold", object.keeping.temporary_hold), ("eventBasedHold", object.keeping.event_based_hold)]
        {
            if is_on {
                told.insert(name.into(), true.into());
            }
        }
        if let Some(until) = self.kept_until(object) {
            told.insert("retentionExpirationTime".into(), until.to_string().into());
        }
        told
    }
}

fn json(object: Map<String, Value>) -> Response {
    let body = Body::from(Value::Object(object).to_string());
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}
