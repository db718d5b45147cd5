//! Tokens for who is known elsewhere (workload identity federation). What somebody else says of who we are, in a file or at a
//! URL, is exchanged for a token of Google's, and that, where it is asked for, for one of a service account.
//!
//! The file that says how is the one of <https://google.aip.dev/auth/4117>. What it may name beside files and URLs is refused:
//! programs, certificates, and requests to AWS that are signed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use object_store::client::CredentialProvider;
use object_store::gcp::GcpCredential;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use super::super::{NotIssued, read_file};
use crate::error::Fault;
use crate::http::{Answer, Http};
use crate::secret::Secret;

/// What the tokens are for: as for those of other kinds.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// A token that lasts no longer than that is not used any more.
const SPARE: SignedDuration = SignedDuration::from_mins(5);
/// No answer about a token is longer.
const MAX_BYTES: u64 = 1 << 20;

/// How tokens are come by: `external_account`.
#[derive(Deserialize)]
struct Configuration {
    audience: String,
    subject_token_type: String,
    token_url: String,
    credential_source: Subject,
    service_account_impersonation_url: Option<String>,
    #[serde(default)]
    service_account_impersonation: Impersonation,
}

/// Where it is said who we are.
#[derive(Deserialize)]
struct Subject {
    file: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    format: Format,
}

/// How it is said: as it stands, or in JSON.
#[derive(Default, Deserialize)]
struct Format {
    #[serde(default, rename = "type")]
    kind: String,
    subject_token_field_name: Option<String>,
}

#[derive(Default, Deserialize)]
struct Impersonation {
    token_lifetime_seconds: Option<u32>,
}

/// Whoever asks for such tokens, and the last that was given.
pub(super) struct Federation {
    configuration: Configuration,
    http: Http,
    last: Mutex<Option<Issued>>,
}

struct Issued {
    token: Arc<GcpCredential>,
    until: Timestamp,
}

impl Federation {
    /// What the file with `text` says, by way of `http`.
    pub(super) fn of(text: &Secret, http: Http) -> Result<Self, Fault> {
        // What the parser says could repeat what it read.
        let configuration: Configuration = serde_json::from_str(text.reveal())
            .map_err(|_| Fault::Credentials("what is said of the external_account is incomplete".into()))?;
        let source = &configuration.credential_source;
        if source.file.is_none() && source.url.is_none() {
            let what = "of external_account, only what names a file or a url as its credential_source is supported";
            return Err(Fault::Credentials(what.into()));
        }
        Ok(Self { configuration, http, last: Mutex::default() })
    }

    async fn issue(&self) -> Result<Issued, Fault> {
        let subject = self.subject().await?;
        let federated = self.exchange(&subject).await?;
        match &self.configuration.service_account_impersonation_url {
            Some(url) => self.impersonate(url, &federated).await,
            None => Ok(federated),
        }
    }

    /// What somebody else says of who we are.
    async fn subject(&self) -> Result<Secret, Fault> {
        let Subject { file, url, headers, format } = &self.configuration.credential_source;
        let text = match (file, url) {
            (Some(file), _) => Secret::new(read_file(Path::new(file))?),
            (None, Some(url)) => self.ask(Method::GET, url, headers_of(headers)?, Bytes::new()).await?,
            (None, None) => return Err(NotIssued::Refused.fault()),
        };
        if format.kind != "json" {
            return Ok(Secret::new(text.reveal().trim()));
        }
        let field = format.subject_token_field_name.as_deref().unwrap_or_default();
        let fields: BTreeMap<String, serde_json::Value> = parsed(&text)?;
        let found = fields.get(field).and_then(|value| value.as_str());
        found.map(Secret::new).ok_or_else(|| NotIssued::Nonsense.fault())
    }

    /// A token of Google's for it.
    async fn exchange(&self, subject: &Secret) -> Result<Issued, Fault> {
        #[derive(Deserialize)]
        struct Exchanged {
            access_token: String,
            expires_in: i64,
        }

        let configuration = &self.configuration;
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("requested_token_type", "urn:ietf:params:oauth:token-type:access_token")
            .append_pair("audience", &configuration.audience)
            .append_pair("scope", SCOPE)
            .append_pair("subject_token_type", &configuration.subject_token_type)
            .append_pair("subject_token", subject.reveal())
            .finish();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let answer = self.ask(Method::POST, &configuration.token_url, headers, body.into()).await?;
        let Exchanged { access_token, expires_in } = parsed(&answer)?;
        let lasts = SignedDuration::from_secs(expires_in);
        let until = Timestamp::now().checked_add(lasts).map_err(|_| NotIssued::Nonsense.fault())?;
        Ok(Issued { token: Arc::new(GcpCredential { bearer: access_token }), until })
    }

    /// A token of the service account, for one who may take its place.
    async fn impersonate(&self, url: &str, federated: &Issued) -> Result<Issued, Fault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Impersonated {
            access_token: String,
            expire_time: Timestamp,
        }

        let seconds = self.configuration.service_account_impersonation.token_lifetime_seconds.unwrap_or(3600);
        let body = json!({ "scope": [SCOPE], "lifetime": format!("{seconds}s") });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, hidden(&format!("Bearer {}", federated.token.bearer))?);
        let answer = self.ask(Method::POST, url, headers, body.to_string().into()).await?;
        let Impersonated { access_token, expire_time } = parsed(&answer)?;
        Ok(Issued { token: Arc::new(GcpCredential { bearer: access_token }), until: expire_time })
    }

    /// What is answered, if it is a success. Of others nothing is repeated: it could be a secret.
    async fn ask(&self, method: Method, url: &str, headers: HeaderMap, body: Bytes) -> Result<Secret, Fault> {
        let unusable = |_| Fault::Credentials("what is said of the external_account names a URL that is none".into());
        let url = Url::parse(url).map_err(unusable)?;
        let answer = self.http.send(method, url, headers, body, MAX_BYTES).await;
        let answer: Answer = answer.map_err(|fault| match fault.is_transient() {
            true => NotIssued::Silence.fault(),
            false => fault,
        })?;
        match answer.status.is_success() {
            true => Ok(Secret::new(String::from_utf8_lossy(&answer.body))),
            false => Err(NotIssued::of_status(answer.status.as_u16(), "").fault()),
        }
    }
}

#[async_trait]
impl CredentialProvider for Federation {
    type Credential = GcpCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
        let mut last = self.last.lock().await;
        let soon = Timestamp::now() + SPARE;
        if let Some(issued) = last.as_ref().filter(|issued| issued.until > soon) {
            return Ok(Arc::clone(&issued.token));
        }
        let failed = |fault: Fault| object_store::Error::Generic { store: "Google", source: Box::new(fault) };
        let issued = self.issue().await.map_err(failed)?;
        let token = Arc::clone(&issued.token);
        *last = Some(issued);
        Ok(token)
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Federation")
    }
}

fn parsed<T: DeserializeOwned>(text: &Secret) -> Result<T, Fault> {
    serde_json::from_str(text.reveal()).map_err(|_| NotIssued::Nonsense.fault())
}

fn headers_of(named: &BTreeMap<String, String>) -> Result<HeaderMap, Fault> {
    let header = |(name, value): (&String, &String)| -> Result<(HeaderName, HeaderValue), Fault> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable())?;
        Ok((name, hidden(value)?))
    };
    named.iter().map(header).collect()
}

fn hidden(value: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(value).map_err(|_| unsendable())?;
    value.set_sensitive(true);
    Ok(value)
}

fn unsendable() -> Fault {
    Fault::Credentials("what they are to be asked for with cannot be sent".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Network;

    fn refused(text: &str) -> String {
        let http = Http::new(&Network::default()).unwrap();
        Federation::of(&Secret::new(text), http).err().unwrap().to_string()
    }

    #[test]
    fn what_is_not_supported_is_refused_and_nothing_of_it_repeated() {
        let with = |source: &str| {
            format!(
                r#"{{"type":"external_account","audience":"hidden","subject_token_type":"t","token_url":"u","credential_source":{source}}}"#
            )
        };
        for source in
            [r#"{"executable":{"command":"hidden"}}"#, r#"{"environment_id":"aws1"}"#, r#"{"certificate":{}}"#]
        {
            let said = refused(&with(source));
            assert!(said.contains("a file or a url") && !said.contains("hidden"), "{said}");
        }
        let said = refused(r#"{"type":"external_account","audience":"hidden"}"#);
        assert!(said.contains("incomplete") && !said.contains("hidden"), "{said}");
    }
}
