//! As much of Vault as encryption with its engine `transit` takes: named keys with versions, reached with a token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::in_thread::InThread;
use crate::ports::Port;

/// A Vault with the engine `transit` at its usual place and one token.
#[derive(Debug)]
pub struct FakeVault {
    port: Port,
    state: Arc<Mutex<Vault>>,
    _thread: InThread,
}

#[derive(Debug, Default)]
struct Vault {
    sealed: bool,
    denied: bool,
    /// The key material of each version, by name; version 1 comes first.
    keys: BTreeMap<String, Key>,
    requests: Vec<String>,
}

#[derive(Debug, Default)]
struct Key {
    versions: Vec<[u8; 32]>,
    min_decryption_version: usize,
}

/// An error as Vault words it.
struct Refusal(StatusCode, &'static str);

type Outcome = Result<Value, Refusal>;

impl FakeVault {
    /// The token that it knows.
    pub const TOKEN: &str = "hvs.only-in-tests";

    /// Starts one without keys.
    pub fn start() -> FakeVault {
        let (port, state) = (Port::reserve(), Arc::new(Mutex::new(Vault::default())));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let thread = InThread::serve(&port, router);
        FakeVault { port, state, _thread: thread }
    }

    /// Its address, as in `VAULT_ADDR`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Makes a key, or a new version of it if it is there. Older ciphertexts can still be decrypted.
    pub fn rotate(&self, key: &str) {
        self.vault(|vault| vault.keys.entry(key.to_owned()).or_default().versions.push(rand::random()));
    }

    /// Refuses ciphertexts older than version `min`, as after `min_decryption_version` was set.
    pub fn retire_before(&self, key: &str, min: usize) {
        self.vault(|vault| vault.keys.get_mut(key).expect("the key").min_decryption_version = min);
    }

    /// Deletes a key.
    pub fn delete(&self, key: &str) {
        self.vault(|vault| vault.keys.remove(key));
    }

    /// Seals it, or unseals it again.
    pub fn seal(&self, sealed: bool) {
        self.vault(|vault| vault.sealed = sealed);
    }

    /// Takes the token's policy away, or gives it back.
    pub fn deny(&self, denied: bool) {
        self.vault(|vault| vault.denied = denied);
    }

    /// What was asked so far: `POST /v1/transit/encrypt/name`.
    pub fn requests(&self) -> Vec<String> {
        self.vault(|vault| vault.requests.clone())
    }

    fn vault<T>(&self, look: impl FnOnce(&mut Vault) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }
}

async fn answer(State(state): State<Arc<Mutex<Vault>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let token = parts.headers.get("x-vault-token").and_then(|token| token.to_str().ok()).unwrap_or_default().to_owned();
    let body = to_bytes(body, 1 << 20).await.unwrap_or_default();

    let mut vault = state.lock().unwrap();
    vault.requests.push(format!("{} {}", parts.method, parts.uri.path()));
    match vault.answer(&parts.method, parts.uri.path(), &token, &body) {
        Ok(data) => (StatusCode::OK, json!({ "request_id": "0", "data": data }).to_string()).into_response(),
        Err(Refusal(status, error)) => (status, json!({ "errors": [error] }).to_string()).into_response(),
    }
}

impl Vault {
    fn answer(&mut self, method: &Method, path: &str, token: &str, body: &Bytes) -> Outcome {
        if self.sealed {
            return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, "Vault is sealed"));
        }
        if token != FakeVault::TOKEN || self.denied {
            return Err(Refusal(StatusCode::FORBIDDEN, "permission denied"));
        }
        let unsupported = Refusal(StatusCode::NOT_FOUND, "no handler for route");
        let steps: Vec<&str> = path.split('/').collect();
        let &["", "v1", "transit", action, ref rest @ ..] = steps.as_slice() else { return Err(unsupported) };
        if action == "keys" && method == Method::GET {
            let &[name] = rest else { return Err(unsupported) };
            return self.key(name).map(|key| json!({ "name": name, "latest_version": key.versions.len() }));
        }
        if !matches!(*method, Method::POST | Method::PUT) {
            return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "unsupported operation"));
        }

        let body: Value = serde_json::from_slice(body).unwrap_or(json!({}));
        let field = |name: &str| body[name].as_str().unwrap_or_default();
        match (action, rest) {
            ("encrypt", &[name]) => {
                // Writing with a name that is not there makes the key, as in Vault.
                if !self.keys.contains_key(name) {
                    self.keys.entry(name.to_owned()).or_default().versions.push(rand::random());
                }
                let plain = BASE64.decode(field("plaintext")).map_err(|_| bad("failed to base64-decode plaintext"))?;
                self.key(name).map(|key| key.sealed(name, &plain))
            }
            ("decrypt", &[name]) => {
                let plain = self.key(name)?.opened(name, field("ciphertext"))?;
                Ok(json!({ "plaintext": BASE64.encode(plain) }))
            }
            ("rewrap", &[name]) => {
                let key = self.key(name)?;
                let plain = key.opened(name, field("ciphertext"))?;
                Ok(key.sealed(name, &plain))
            }
            ("datakey", &[kind @ ("plaintext" | "wrapped"), name]) => {
                let plain: [u8; 32] = rand::random();
                let mut data = self.key(name)?.sealed(name, &plain);
                if kind == "plaintext" {
                    data["plaintext"] = BASE64.encode(plain).into();
                }
                Ok(data)
            }
            _ => Err(unsupported),
        }
    }

    fn key(&self, name: &str) -> Result<&Key, Refusal> {
        self.keys.get(name).ok_or(Refusal(StatusCode::BAD_REQUEST, "encryption key not found"))
    }
}

impl Key {
    /// Encrypts with the newest version. Nothing is hidden from anybody here, but nothing can be changed unseen.
    fn sealed(&self, name: &str, plain: &[u8]) -> Value {
        let version = self.versions.len();
        let material = self.versions.last().expect("a key has a version");
        let nonce: [u8; 16] = rand::random();
        let mut sealed = nonce.to_vec();
        sealed.extend(plain.iter().zip(stream(material, &nonce)).map(|(byte, mask)| byte ^ mask));
        sealed.extend(tag(name, material, &sealed));
        json!({ "ciphertext": format!("vault:v{version}:{}", BASE64.encode(sealed)), "key_version": version })
    }

    fn opened(&self, name: &str, ciphertext: &str) -> Result<Vec<u8>, Refusal> {
        let invalid = || bad("invalid ciphertext: no prefix");
        let (version, sealed) =
            ciphertext.strip_prefix("vault:v").and_then(|rest| rest.split_once(':')).ok_or_else(invalid)?;
        let version: usize = version.parse().map_err(|_| invalid())?;
        let sealed = BASE64.decode(sealed).map_err(|_| bad("invalid ciphertext: could not decode base64"))?;
        if version < self.min_decryption_version {
            return Err(bad("ciphertext or signature version is disallowed by policy (too old)"));
        }
        let material = version.checked_sub(1).and_then(|index| self.versions.get(index));
        let material = material.ok_or_else(|| bad("invalid ciphertext: version is too new"))?;

        let failed = || bad("cipher: message authentication failed");
        let (body, found) = sealed.split_last_chunk::<32>().ok_or_else(failed)?;
        if tag(name, material, body) != *found {
            return Err(failed());
        }
        let (nonce, hidden) = body.split_first_chunk::<16>().ok_or_else(failed)?;
        Ok(hidden.iter().zip(stream(material, nonce)).map(|(byte, mask)| byte ^ mask).collect())
    }
}

fn bad(error: &'static str) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, error)
}

/// Bytes to hide a plaintext with: digests of the key, the nonce and a counter.
fn stream(material: &[u8; 32], nonce: &[u8; 16]) -> impl Iterator<Item = u8> {
    let digest = Sha256::new().chain_update(material).chain_update(nonce);
    (0_u64..).flat_map(move |block| digest.clone().chain_update(block.to_be_bytes()).finalize())
}

fn tag(name: &str, material: &[u8; 32], sealed: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(material).chain_update(name).chain_update(sealed).finalize().into()
}
