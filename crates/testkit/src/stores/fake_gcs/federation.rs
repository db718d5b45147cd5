//! Those who are known elsewhere: what a token of elsewhere is exchanged for, and how the service account's place is taken.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::identity::Identity;

/// What is asked for about them begins so.
pub(super) const PREFIX: &str = "/federation/";

const EXCHANGE: &str = "/federation/token";
const SUBJECT: &str = "/federation/subject";
const IMPERSONATE: &str = "/federation/serviceAccounts/backup:generateAccessToken";
const KIND: &str = "urn:ietf:params:oauth:token-type:jwt";
/// Who takes part, and whether it may itself do anything with objects.
const ITSELF: &str = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/itself";
const IN_PLACE: &str = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/in-place";

pub(super) fn draw_subject() -> String {
    format!("subject-{:016x}", rand::random::<u64>())
}

impl Identity {
    pub(super) fn external_account(&self, source: &Value, impersonates: bool) -> String {
        let url = self.url();
        let mut file = json!({
            "type": "external_account",
            "audience": if impersonates { IN_PLACE } else { ITSELF },
            "subject_token_type": KIND,
            "token_url": format!("{url}{EXCHANGE}"),
            "credential_source": source,
        });
        if impersonates {
            file["service_account_impersonation_url"] = json!(format!("{url}{IMPERSONATE}"));
            file["service_account_impersonation"] = json!({ "token_lifetime_seconds": 1800 });
        }
        file.to_string()
    }

    pub(super) fn subject_source(&self) -> Value {
        let format = json!({ "type": "json", "subject_token_field_name": "value" });
        json!({ "url": format!("{}{SUBJECT}", self.url()), "headers": { "Metadata": "True" }, "format": format })
    }

    pub(super) fn next_subject(&mut self) -> String {
        self.subject = draw_subject();
        self.subject.clone()
    }

    /// Requests about those who are known elsewhere.
    pub(super) fn federate(&mut self, path: &str, headers: &HeaderMap, body: &[u8]) -> Response {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let answer = match path {
            SUBJECT if header("metadata") == "True" => Some(json!({ "value": self.subject })),
            EXCHANGE => self.exchange(body),
            IMPERSONATE => self.impersonate(header("authorization"), body),
            _ => return StatusCode::NOT_FOUND.into_response(),
        };
        match answer {
            Some(answer) => ([("content-type", "application/json")], answer.to_string()).into_response(),
            // As whoever issues tokens says it: with what was sent.
            None => {
                let sent = String::from_utf8_lossy(body);
                (StatusCode::BAD_REQUEST, json!({ "error": "invalid_grant", "sent": sent }).to_string()).into_response()
            }
        }
    }

    fn exchange(&mut self, body: &[u8]) -> Option<Value> {
        let form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        let asked = |name: &str| form.get(name).map_or("", String::as_str);
        let is_right = asked("grant_type") == "urn:ietf:params:oauth:grant-type:token-exchange"
            && asked("requested_token_type") == "urn:ietf:params:oauth:token-type:access_token"
            && asked("subject_token_type") == KIND
            && asked("subject_token") == self.subject
            && asked("scope").starts_with("https://www.googleapis.com/auth/");
        let token = match asked("audience") {
            _ if !is_right => return None,
            ITSELF => self.give(),
            IN_PLACE => {
                let token = self.draw();
                self.impersonating.insert(token.clone());
                token
            }
            _ => return None,
        };
        Some(json!({
            "access_token": token,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": self.lasts_seconds,
        }))
    }

    fn impersonate(&mut self, authorization: &str, body: &[u8]) -> Option<Value> {
        let asked: Value = serde_json::from_slice(body).ok()?;
        let is_right =
            asked["lifetime"] == "1800s" && asked["scope"].as_array().is_some_and(|scopes| !scopes.is_empty());
        let bearer = authorization.strip_prefix("Bearer ").filter(|_| is_right)?;
        self.impersonating.contains(bearer).then(|| {
            let until = Timestamp::now() + SignedDuration::from_secs(self.lasts_seconds);
            json!({ "accessToken": self.give(), "expireTime": until.to_string() })
        })
    }
}
