//! Keys of AWS KMS, and of whatever speaks its language. Two requests are made, `Encrypt` and `Decrypt`, signed, with
//! the cluster's identity and the archive key's id as encryption context, so that KMS itself tells archives apart.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::encryption::archive_key::{ArchiveKey, KeyId};
use crate::encryption::error::KeyError;
use crate::encryption::lockbox::{Lock, method};
use crate::encryption::service::{Answer, Service};
use crate::encryption::sigv4::{self, AwsCredential};
use crate::identity::ClusterUid;

const PREFIX: &str = "aws-kms:";

/// Gives the credential of the moment, or tells why there is none.
pub type AwsCredentials = Arc<dyn Fn() -> BoxFuture<'static, Result<AwsCredential, String>> + Send + Sync>;

/// AWS KMS in one region.
#[derive(Clone)]
pub struct Kms {
    service: Service,
    region: String,
    credentials: AwsCredentials,
}

/// A key of KMS.
#[derive(Debug, Clone)]
pub struct KmsKey {
    /// Where it is.
    pub kms: Kms,
    /// Its ARN, id or alias.
    pub key: String,
}

impl Kms {
    /// KMS in `region`, or at `endpoint` if that is given.
    pub fn new(http: reqwest::Client, region: &str, endpoint: Option<Url>, credentials: AwsCredentials) -> Self {
        let usual = || Url::parse(&format!("https://kms.{region}.amazonaws.com/"));
        // A region that makes no host makes requests fail, with that host in the message.
        let nowhere = || Url::parse("https://kms.invalid/").expect("it is a URL");
        let place = endpoint.or_else(|| usual().ok()).unwrap_or_else(nowhere);
        Self { service: Service { name: "AWS KMS", http, place }, region: region.into(), credentials }
    }

    pub(crate) async fn open(&self, cluster: ClusterUid, id: KeyId, lock: &Lock) -> Result<Vec<u8>, KeyError> {
        let key = lock.recipient.strip_prefix(PREFIX).unwrap_or(&lock.recipient);
        let body = json!({ "CiphertextBlob": lock.locked, "EncryptionContext": context(cluster, id) });
        let answer = self.ask("Decrypt", key, &body).await?;
        self.bytes(&answer, "Plaintext")
    }

    async fn ask(&self, action: &str, key: &str, body: &Value) -> Result<Value, KeyError> {
        let credential = (self.credentials)().await.map_err(|what| self.service.refused(key, what))?;
        let body = body.to_string();
        let headers = self.signed(&credential, action, &body)?;
        let answer = self.service.post(self.service.place.clone(), headers, body).await?;
        if answer.status == 200 { Ok(answer.json) } else { Err(self.failure(key, &answer)) }
    }

    fn signed(&self, credential: &AwsCredential, action: &str, body: &str) -> Result<HeaderMap, KeyError> {
        use age::secrecy::ExposeSecret;

        let place = &self.service.place;
        let host = match (place.host_str().unwrap_or_default(), place.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let time = Timestamp::now();
        let (date, target) = (sigv4::long_date(time), format!("TrentService.{action}"));
        let mut headers = vec![("content-type", "application/x-amz-json-1.1"), ("host", &host), ("x-amz-date", &date)];
        if let Some(token) = &credential.token {
            headers.push(("x-amz-security-token", token.expose_secret()));
        }
        headers.push(("x-amz-target", &target));
        let request =
            sigv4::Request { method: "POST", path: place.path(), query: "", headers: &headers, body: body.as_bytes() };
        let authorization = sigv4::authorization(credential, &self.region, "kms", time, &request);

        let mut sent = HeaderMap::new();
        for (name, value) in headers.into_iter().filter(|(name, _)| *name != "host") {
            let name = reqwest::header::HeaderName::try_from(name).expect("the names above are those of headers");
            sent.insert(name, self.service.header(value)?);
        }
        sent.insert("authorization", self.service.header(&authorization)?);
        Ok(sent)
    }

    fn failure(&self, key: &str, answer: &Answer) -> KeyError {
        let text = |name: &str| answer.json.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = text("__type").rsplit('#').next().unwrap_or_default();
        let message = if text("message").is_empty() { text("Message") } else { text("message") };
        let what = format!("{kind}: {message} (status {})", answer.status);
        match kind {
            "NotFoundException" => self.service.no_such_key(key, what),
            _ if kind.contains("Throttling") || kind.contains("Internal") || kind.contains("Timeout") => {
                self.service.unavailable(what)
            }
            _ if (400..500).contains(&answer.status) => self.service.refused(key, what),
            _ => self.service.unavailable(what),
        }
    }

    fn bytes(&self, answer: &Value, name: &str) -> Result<Vec<u8>, KeyError> {
        let text = answer.get(name).and_then(Value::as_str);
        text.and_then(|text| BASE64_STANDARD.decode(text).ok())
            .ok_or_else(|| self.service.unavailable(format!("the answer has no {name}")))
    }
}

impl KmsKey {
    pub(crate) fn name(&self) -> String {
        format!("{PREFIX}{}", self.key)
    }

    pub(crate) async fn lock(&self, cluster: ClusterUid, key: &ArchiveKey) -> Result<Lock, KeyError> {
        let plain = BASE64_STANDARD.encode(key.secret().bytes());
        let body = json!({ "KeyId": self.key, "Plaintext": plain, "EncryptionContext": context(cluster, key.id()) });
        let answer = self.kms.ask("Encrypt", &self.key, &body).await?;
        Ok(Lock::new(method::AWS_KMS, self.name(), &self.kms.bytes(&answer, "CiphertextBlob")?))
    }
}

fn context(cluster: ClusterUid, id: KeyId) -> Value {
    json!({ "refloat-cluster": cluster.to_string(), "refloat-key": id.to_string() })
}

impl fmt::Debug for Kms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kms").field("place", &self.service.place.as_str()).finish_non_exhaustive()
    }
}
