//! Keys of Vault's transit engine, and of OpenBao's. The token comes from where users have it: a value from the
//! environment, or a file, which is read anew for each request, because Vault's agent replaces it.

use std::path::PathBuf;

use age::secrecy::{ExposeSecret, SecretString};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::encryption::archive_key::ArchiveKey;
use crate::encryption::error::KeyError;
use crate::encryption::lockbox::{Lock, method};
use crate::encryption::service::{Answer, Service};

const PREFIX: &str = "vault:";

/// A Vault.
#[derive(Debug, Clone)]
pub struct Vault {
    service: Service,
    token: VaultToken,
    namespace: Option<String>,
}

/// What proves to Vault who asks.
#[derive(Debug, Clone)]
pub enum VaultToken {
    /// The token itself.
    Value(SecretString),
    /// A file that has it.
    File(PathBuf),
}

/// A key of Vault.
#[derive(Debug, Clone)]
pub struct VaultKey {
    /// Where it is.
    pub vault: Vault,
    /// The mount of the transit engine and the key's name, as `transit/refloat`.
    pub key: String,
}

impl Vault {
    /// The Vault at `address`, in `namespace` if it has such.
    pub fn new(http: reqwest::Client, address: Url, token: VaultToken, namespace: Option<String>) -> Self {
        Self { service: Service { name: "Vault", http, place: address }, token, namespace }
    }

    pub(crate) async fn open(&self, lock: &Lock) -> Result<Vec<u8>, KeyError> {
        let key = lock.recipient.strip_prefix(PREFIX).unwrap_or(&lock.recipient);
        let text = lock.bytes().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let answer = self.ask("decrypt", key, &json!({ "ciphertext": text })).await?;
        let plain = BASE64_STANDARD.decode(self.text(&answer, "plaintext")?);
        plain.map_err(|_| self.service.unavailable("the answer is not base64"))
    }

    async fn ask(&self, action: &str, key: &str, body: &Value) -> Result<Value, KeyError> {
        let (mount, name) = key.rsplit_once('/').unwrap_or(("transit", key));
        let mut url = self.service.place.clone();
        url.path_segments_mut()
            .map_err(|()| self.service.unavailable("the address has no path"))?
            .pop_if_empty()
            .push("v1")
            .extend(mount.split('/'))
            .extend([action, name]);
        let answer = self.service.post(url, self.headers(key)?, body.to_string()).await?;
        match answer.status {
            200 => Ok(answer.json),
            _ => Err(self.failure(key, &answer)),
        }
    }

    fn headers(&self, key: &str) -> Result<HeaderMap, KeyError> {
        let token = match &self.token {
            VaultToken::Value(token) => token.clone(),
            VaultToken::File(path) => {
                let unreadable = |source| KeyError::Unreadable { path: path.clone(), source };
                SecretString::from(std::fs::read_to_string(path).map_err(unreadable)?)
            }
        };
        if token.expose_secret().trim().is_empty() {
            return Err(self.service.refused(key, "the token is empty"));
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-vault-token", self.service.header(token.expose_secret())?);
        headers.insert("x-vault-request", self.service.header("true")?);
        if let Some(namespace) = &self.namespace {
            headers.insert("x-vault-namespace", self.service.header(namespace)?);
        }
        Ok(headers)
    }

    fn failure(&self, key: &str, answer: &Answer) -> KeyError {
        let errors = answer.json.get("errors").and_then(Value::as_array);
        let told: Vec<&str> = errors.into_iter().flatten().filter_map(Value::as_str).collect();
        let what = format!("{} (status {})", told.join("; "), answer.status);
        match answer.status {
            404 => self.service.no_such_key(key, what),
            400 if what.contains("not found") => self.service.no_such_key(key, what),
            429 => self.service.unavailable(what),
            400..500 => self.service.refused(key, what),
            _ => self.service.unavailable(what),
        }
    }

    fn text<'a>(&self, answer: &'a Value, name: &str) -> Result<&'a str, KeyError> {
        let text = answer.get("data").and_then(|data| data.get(name)).and_then(Value::as_str);
        text.ok_or_else(|| self.service.unavailable(format!("the answer has no {name}")))
    }
}

impl VaultKey {
    pub(crate) fn name(&self) -> String {
        format!("{PREFIX}{}", self.key)
    }

    pub(crate) async fn lock(&self, key: &ArchiveKey) -> Result<Lock, KeyError> {
        let plain = BASE64_STANDARD.encode(key.secret().bytes());
        let answer = self.vault.ask("encrypt", &self.key, &json!({ "plaintext": plain })).await?;
        let text = self.vault.text(&answer, "ciphertext")?;
        Ok(Lock::new(method::VAULT, self.name(), text.as_bytes()))
    }

    /// The same lock, made with the newest version of Vault's key. Vault does it by itself: the archive key does not
    /// leave it.
    pub async fn rewrap(&self, lock: &Lock) -> Result<Lock, KeyError> {
        let text = lock.bytes().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let answer = self.vault.ask("rewrap", &self.key, &json!({ "ciphertext": text })).await?;
        Ok(Lock::new(method::VAULT, self.name(), self.vault.text(&answer, "ciphertext")?.as_bytes()))
    }
}
