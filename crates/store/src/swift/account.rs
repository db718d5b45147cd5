//! Requests to the account: each shows a token, which is renewed before it ends and when it is refused.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::login::{Identity, LoginSource, Session, keystone_url};
use super::{Place, login};
use crate::error::Fault;
use crate::http::{Answer, Http, MAX_ANSWER_BYTES, url_of};

/// The account, and how it is reached.
#[derive(Debug)]
pub(super) struct Account {
    http: Http,
    source: Arc<dyn LoginSource>,
    region: Option<String>,
    interface: login::Interface,
    session: Mutex<Option<Arc<Session>>>,
    abilities: OnceCell<Abilities>,
}

/// What a cluster says of itself, where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Abilities {
    /// So many objects can be deleted at once, if any.
    pub(super) bulk_delete: Option<usize>,
}

/// A request below the account.
#[derive(Debug, Clone, Default)]
pub(super) struct Ask<'a> {
    /// `/container/object`.
    pub(super) path: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Bytes,
    /// So long the answer may be; 0 is as long as answers other than objects are.
    pub(super) limit: u64,
}

impl Account {
    pub(super) fn new(place: &Place, source: Arc<dyn LoginSource>, http: Http) -> Self {
        Self {
            http,
            source,
            region: place.region.clone(),
            interface: place.interface,
            session: Mutex::new(None),
            abilities: OnceCell::new(),
        }
    }

    /// Asks, with a new token if the one there was is refused.
    pub(super) async fn ask(&self, method: Method, ask: Ask<'_>) -> Result<Answer, Fault> {
        let session = self.session(None).await?;
        let answer = self.ask_with(&session, method.clone(), &ask).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let session = self.session(Some(&session)).await?;
        self.ask_with(&session, method, &ask).await
    }

    async fn ask_with(&self, session: &Session, method: Method, ask: &Ask<'_>) -> Result<Answer, Fault> {
        let url = url_of(&session.storage_url, ask.path, ask.query)?;
        let mut headers = header_map(ask.headers)?;
        headers.insert("x-auth-token", hidden(session.token.reveal())?);
        if method == Method::PUT && ask.body.is_empty() {
            headers.insert("content-length", HeaderValue::from_static("0"));
        }
        let limit = if ask.limit == 0 { MAX_ANSWER_BYTES } else { ask.limit };
        self.http.send(method, url, headers, ask.body.clone(), limit).await
    }

    /// The session there is, or a new one if there is none, it ends soon, or it is the one that was `refused`.
    async fn session(&self, refused: Option<&Arc<Session>>) -> Result<Arc<Session>, Fault> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref() {
            let is_refused = refused.is_some_and(|refused| Arc::ptr_eq(refused, session));
            if !is_refused && session.lasts(Timestamp::now()) {
                return Ok(Arc::clone(session));
            }
        }
        let session = Arc::new(self.log_in().await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn log_in(&self) -> Result<Session, Fault> {
        let login = self.source.current()?;
        if let Identity::V1 { user, key } = &login.identity {
            let mut headers = header_map(&[("x-auth-user", user)])?;
            headers.insert("x-auth-key", hidden(key.reveal())?);
            let url = url_of(&login.auth_url, "", &[])?;
            let answer = self.http.send(Method::GET, url, headers, Bytes::new(), MAX_ANSWER_BYTES).await?;
            return Session::of_v1(&answer, Timestamp::now());
        }
        let request = login.identity.keystone_request().unwrap_or_default().to_string();
        let url = url_of(&keystone_url(&login.auth_url), "/auth/tokens", &[])?;
        let headers = header_map(&[("content-type", "application/json")])?;
        let answer = self.http.send(Method::POST, url, headers, request.into(), MAX_ANSWER_BYTES).await?;
        Session::of_keystone(&answer, Timestamp::now(), self.region.as_deref(), self.interface)
    }

    /// What the cluster can do; asked once.
    pub(super) async fn abilities(&self) -> Result<Abilities, Fault> {
        let told = self.abilities.get_or_try_init(async || {
            let session = self.session(None).await?;
            let Some(url) = info_url(&session.storage_url) else { return Ok(Abilities::default()) };
            let answer =
                self.http.send(Method::GET, url_of(&url, "", &[])?, HeaderMap::new(), Bytes::new(), MAX_ANSWER_BYTES);
            let answer = answer.await?;
            match answer.status.as_u16() {
                200 => Ok(Abilities::told(&answer.body)),
                // It may be switched off: then the least is supposed.
                400..500 => Ok(Abilities::default()),
                _ => Err(answer.fault()),
            }
        });
        told.await.copied()
    }
}

impl Abilities {
    fn told(body: &[u8]) -> Self {
        let told: Value = serde_json::from_slice(body).unwrap_or_default();
        let bulk_delete = told.get("bulk_delete").and_then(|bulk| bulk.get("max_deletes_per_request")?.as_u64());
        Self { bulk_delete: bulk_delete.and_then(|max| usize::try_from(max).ok()).filter(|max| *max > 0) }
    }
}

/// Where a cluster tells of itself: beside the `/v1` of its accounts.
fn info_url(storage_url: &str) -> Option<String> {
    let (base, _) = storage_url.split_once("/v1")?;
    Some(format!("{base}/info"))
}

fn header_map(headers: &[(&str, &str)]) -> Result<HeaderMap, Fault> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid = || Fault::Invalid(format!("{name} cannot be sent: its name or its value is no header"));
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
        map.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?, value);
    }
    Ok(map)
}

/// A value that does not show when headers do.
fn hidden(secret: &str) -> Result<HeaderValue, Fault> {
    let mut value =
        HeaderValue::from_bytes(secret.as_bytes()).map_err(|_| Fault::Credentials("they are no text".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_tells_how_many_it_deletes_at_once() {
        let told = |body: &str| Abilities::told(body.as_bytes()).bulk_delete;
        assert_eq!(told(r#"{"bulk_delete":{"max_deletes_per_request":10000}}"#), Some(10_000));
        assert_eq!(told(r#"{"bulk_delete":{"max_deletes_per_request":0}}"#), None);
        assert_eq!(told(r#"{"swift":{}}"#), None);
        assert_eq!(told("<html>"), None);
        assert_eq!(info_url("http://h:8080/v1/AUTH_a").as_deref(), Some("http://h:8080/info"));
        assert_eq!(info_url("https://h/swift/v1").as_deref(), Some("https://h/swift/info"));
        assert_eq!(info_url("https://h/other"), None);
    }
}
