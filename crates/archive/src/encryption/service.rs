//! Asking a key service: one small JSON request, one small JSON answer, with a deadline.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::encryption::error::KeyError;
use crate::error::in_one_line;

const DEADLINE: Duration = Duration::from_secs(10);
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// An answer: its status, and its JSON, which is nothing if it has none.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) json: Value,
}

/// Where a service is, and how it is reached.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) http: reqwest::Client,
    pub(crate) place: Url,
}

impl Service {
    pub(crate) async fn post(&self, url: Url, headers: HeaderMap, body: String) -> Result<Answer, KeyError> {
        let asked = async {
            let mut response = self.http.post(url).headers(headers).body(body).send().await?;
            let status = response.status().as_u16();
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > MAX_ANSWER_BYTES {
                    break;
                }
            }
            Ok::<_, reqwest::Error>(Answer { status, json: serde_json::from_slice(&bytes).unwrap_or_default() })
        };
        match tokio::time::timeout(DEADLINE, asked).await {
            Ok(answered) => answered.map_err(|error| self.unavailable(in_one_line(&error.without_url()))),
            Err(_) => Err(self.unavailable(format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }

    pub(crate) fn unavailable(&self, what: impl Into<String>) -> KeyError {
        KeyError::Unavailable { service: self.name, place: self.place.to_string(), what: what.into() }
    }

    pub(crate) fn refused(&self, key: &str, what: impl Into<String>) -> KeyError {
        KeyError::Refused { service: self.name, key: key.into(), what: what.into() }
    }

    pub(crate) fn no_such_key(&self, key: &str, what: impl Into<String>) -> KeyError {
        KeyError::NoSuchKey { service: self.name, key: key.into(), what: what.into() }
    }

    /// The header that `text`, which may be a secret, is.
    pub(crate) fn header(&self, text: &str) -> Result<HeaderValue, KeyError> {
        let mut value = HeaderValue::from_str(text.trim())
            .map_err(|_| self.refused("", "a credential has characters that cannot be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
