//! Who may ask: a service account, by a token that it signed itself, or by one that it was given for such a token, or
//! that the metadata server of its machine gave it.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{self, KeyPair as _, UnparsedPublicKey};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use jiff::Timestamp;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::federation;

const EMAIL: &str = "backup@project.iam.gserviceaccount.com";
const KEY_ID: &str = "key-1";
const SCOPES: [&str; 3] = [
    "https://www.googleapis.com/auth/devstorage.full_control",
    "https://www.googleapis.com/auth/devstorage.read_write",
    "https://www.googleapis.com/auth/cloud-platform",
];

#[derive(Debug)]
pub(super) struct Identity {
    url: String,
    private_key: String,
    public_key: Vec<u8>,
    /// Access tokens that count.
    given: BTreeSet<String>,
    /// Those that are good for nothing but taking the place of the service account.
    pub(super) impersonating: BTreeSet<String>,
    pub(super) subject: String,
    pub(super) count: u64,
    /// How long tokens last that are given out.
    pub(super) lasts_seconds: i64,
}

impl Identity {
    pub(super) fn new(url: &str) -> Identity {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("a key pair");
        let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair).expect("a key in DER");
        let lines: Vec<String> = BASE64
            .encode(der.as_ref())
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8_lossy(line).into())
            .collect();
        let label = "PRIVATE KEY";
        Identity {
            url: url.to_owned(),
            private_key: format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n")),
            public_key: pair.public_key().as_ref().to_vec(),
            given: BTreeSet::new(),
            impersonating: BTreeSet::new(),
            subject: federation::draw_subject(),
            count: 0,
            lasts_seconds: 3600,
        }
    }

    pub(super) fn key_file(&self) -> String {
        json!({
            "type": "service_account",
            "project_id": "project",
            "private_key_id": KEY_ID,
            "private_key": self.private_key,
            "client_email": EMAIL,
            "client_id": "1",
            "token_uri": format!("{}/token", self.url),
            "gcs_base_url": self.url,
        })
        .to_string()
    }

    pub(super) fn forget(&mut self) {
        self.given.clear();
        self.impersonating.clear();
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A new token.
    pub(super) fn draw(&mut self) -> String {
        self.count += 1;
        format!("ya29.token-{}-{:016x}", self.count, rand::random::<u64>())
    }

    /// A new token that counts.
    pub(super) fn give(&mut self) -> String {
        let token = self.draw();
        self.given.insert(token.clone());
        token
    }

    pub(super) fn given(&self) -> Vec<String> {
        self.given.iter().chain(&self.impersonating).cloned().collect()
    }

    pub(super) fn knows(&self, bearer: &str) -> bool {
        self.given.contains(bearer) || self.signed(bearer).is_some()
    }

    /// Requests for tokens.
    pub(super) fn answer(&mut self, path: &str, headers: &HeaderMap, body: &[u8]) -> Response {
        let granted = match path {
            "/token" => {
                let form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
                let kind = form.get("grant_type").map_or("", String::as_str);
                kind == "urn:ietf:params:oauth:grant-type:jwt-bearer"
                    && form.get("assertion").is_some_and(|assertion| self.signed(assertion).is_some())
            }
            "/computeMetadata/v1/instance/service-accounts/default/token" => {
                headers.get("metadata-flavor").is_some_and(|flavor| flavor == "Google")
            }
            _ => return self.federate(path, headers, body),
        };
        if !granted {
            return (StatusCode::BAD_REQUEST, json!({ "error": "invalid_grant" }).to_string()).into_response();
        }
        let answer = json!({ "access_token": self.give(), "expires_in": self.lasts_seconds, "token_type": "Bearer" });
        ([("content-type", "application/json")], answer.to_string()).into_response()
    }

    /// What a token says that the account signed, if it is for us and for now.
    fn signed(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| serde_json::from_slice::<Value>(&BASE64_URL.decode(text).ok()?).ok();
        let (header, claims) = (part(header)?, part(claims)?);
        let key = UnparsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        key.verify(signed.as_bytes(), &BASE64_URL.decode(signature).ok()?).ok()?;

        let now = Timestamp::now().as_second();
        let ours = header["alg"] == "RS256" && header["kid"] == KEY_ID && claims["iss"] == EMAIL;
        let timely = claims["exp"].as_i64()? > now && claims["iat"].as_i64()? <= now + 60;
        let scoped = claims["scope"].as_str()?.split(' ').any(|scope| SCOPES.contains(&scope));
        (ours && timely && scoped).then_some(claims)
    }
}
