//! A client of one member, through etcd's JSON gateway: HTTP over a kept connection, with TLS or without, the
//! same for all versions.
//!
//! It can be shared between threads, which then take turns; a clone has a connection of its own.

mod auth;
mod cluster;
mod json;
mod maintenance;
mod txn;

use std::fmt;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::certificates::{Authority, Certified};
use crate::http::{Body, Connection};
use json::{b64, bytes, signed};

pub use auth::Permission;
pub use cluster::ListedMember;
pub use maintenance::{Alarm, HashKv, Status};
pub use txn::{Compare, Op, Txn, TxnReply};

/// The key at which a range over everything begins and ends.
const EVERYTHING: &[u8] = &[0];
/// Longer than any request of ours takes etcd, so only a hung server meets it.
const DEADLINE: Duration = Duration::from_secs(120);
/// A member that is about to start answers at once, or has no leader and is asked again.
const READY_DEADLINE: Duration = Duration::from_secs(5);

// The gRPC codes that we tell apart.
const UNKNOWN: i64 = 2;
const DEADLINE_EXCEEDED: i64 = 4;
const UNAVAILABLE: i64 = 14;

/// A client of one member.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    peer_address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
    connection: Mutex<Option<Connection>>,
}

/// What a server said instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError {
    /// The gRPC status code; 14 (unavailable) also if there was no answer.
    pub code: i64,
    /// The text, such as `etcdserver: mvcc: required revision has been compacted`.
    pub message: String,
}

/// A key with its value and what etcd knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kv {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which this generation of the key began.
    pub create_revision: i64,
    /// The revision of its last change.
    pub mod_revision: i64,
    /// How often it was put in this generation.
    pub version: i64,
    /// The lease it hangs on, 0 for none.
    pub lease: i64,
}

/// A lease with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: i64,
    /// The time to live that was granted, in seconds.
    pub granted_ttl: i64,
    /// The seconds left.
    pub ttl: i64,
    /// The keys that hang on it, in order.
    pub keys: Vec<Vec<u8>>,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// A client of the member that serves clients at `address` and peers at `peer_address`.
    pub fn new(address: SocketAddr, peer_address: SocketAddr) -> Client {
        Client { address, peer_address, tls: None, token: None, connection: Mutex::new(None) }
    }

    /// The same where members ask for certificates, as they ask each other: `shown` is shown, and `believed` is believed.
    pub fn certified(address: SocketAddr, peer_address: SocketAddr, believed: &Authority, shown: &Certified) -> Client {
        Client { tls: Some(believed.introducing(shown)), ..Client::new(address, peer_address) }
    }

    /// Puts a key; gives back the revision.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<i64> {
        self.put_leased(key, value, 0)
    }

    /// Puts a key that hangs on `lease`; gives back the revision.
    pub fn put_leased(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, lease: i64) -> Result<i64> {
        let request = json!({"key": b64(key), "value": b64(value), "lease": lease.to_string()});
        self.call("/v3/kv/put", &request).map(|reply| header_revision(&reply))
    }

    /// Deletes a key; gives back how many keys were deleted, 0 or 1.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<i64> {
        let reply = self.call("/v3/kv/deleterange", &json!({"key": b64(key)}))?;
        Ok(signed(&reply["deleted"]))
    }

    /// Deletes the keys from `key` up to but not including `end`; gives back how many.
    pub fn delete_range(&self, key: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<i64> {
        let request = json!({"key": b64(key), "range_end": b64(end)});
        Ok(signed(&self.call("/v3/kv/deleterange", &request)?["deleted"]))
    }

    /// Carries out a transaction.
    pub fn txn(&self, txn: &Txn) -> Result<TxnReply> {
        self.call("/v3/kv/txn", &txn.to_json()).map(|reply| TxnReply::from_json(&reply))
    }

    /// The live keys from `key` up to but not including `end` at `revision`, 0 for now.
    pub fn range(&self, key: impl AsRef<[u8]>, end: impl AsRef<[u8]>, revision: i64) -> Result<Vec<Kv>> {
        let request = json!({"key": b64(key), "range_end": b64(end), "revision": revision.to_string()});
        let reply = self.call("/v3/kv/range", &request)?;
        Ok(json::list(&reply["kvs"]).map(Kv::from_json).collect())
    }

    /// The live key `key`, now.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Kv>> {
        Ok(self.range(key, b"", 0)?.pop())
    }

    /// All live keys at `revision`, 0 for now.
    pub fn all(&self, revision: i64) -> Result<Vec<Kv>> {
        self.range(EVERYTHING, EVERYTHING, revision)
    }

    /// Schedules the compaction of everything before `revision` and comes back at once.
    pub fn compact_soon(&self, revision: i64) -> Result<()> {
        self.call("/v3/kv/compaction", &json!({"revision": revision.to_string()})).map(drop)
    }

    /// Compacts everything before `revision` and waits until the records are gone.
    pub fn compact(&self, revision: i64) -> Result<()> {
        let request = json!({"revision": revision.to_string(), "physical": true});
        self.call("/v3/kv/compaction", &request).map(drop)
    }

    /// Grants a lease of `ttl` seconds under `id`, 0 to let etcd choose; gives back the id.
    pub fn grant(&self, ttl: i64, id: i64) -> Result<i64> {
        let request = json!({"TTL": ttl.to_string(), "ID": id.to_string()});
        Ok(signed(&self.call("/v3/lease/grant", &request)?["ID"]))
    }

    /// Revokes a lease, and so deletes its keys.
    pub fn revoke(&self, id: i64) -> Result<()> {
        self.call("/v3/lease/revoke", &json!({"ID": id.to_string()})).map(drop)
    }

    /// All leases with their keys, in the order of their ids.
    pub fn leases(&self) -> Result<Vec<Lease>> {
        let reply = self.call("/v3/lease/leases", &json!({}))?;
        let mut ids: Vec<i64> = json::list(&reply["leases"]).map(|lease| signed(&lease["ID"])).collect();
        ids.sort_unstable();
        ids.into_iter().map(|id| self.lease(id)).collect()
    }

    /// One lease with its keys; a lease that does not exist has a `ttl` of -1.
    pub fn lease(&self, id: i64) -> Result<Lease> {
        let reply = self.call("/v3/lease/timetolive", &json!({"ID": id.to_string(), "keys": true}))?;
        let mut keys: Vec<Vec<u8>> = json::list(&reply["keys"]).map(bytes).collect();
        keys.sort();
        Ok(Lease { id, granted_ttl: signed(&reply["grantedTTL"]), ttl: signed(&reply["TTL"]), keys })
    }

    /// Whether the member answers a linearizable read: it serves, and there is a leader.
    ///
    /// Being refused for lack of a token or for an alarm is an answer too.
    pub(crate) fn is_ready(&self, deadline: Duration) -> bool {
        let deadline = deadline.min(READY_DEADLINE);
        let Ok(mut connection) = self.connect(self.address, deadline) else { return false };
        let request = json!({"key": b64([0]), "count_only": true});
        match exchange(&mut connection, "POST", "/v3/kv/range", None, &request, text) {
            Ok((status, body)) => status == 200 || !error_in(&body).is_temporary(),
            Err(_) => false,
        }
    }

    /// Whether the member says itself that it answers linearizable reads, without its gateway: that is a client of its own,
    /// which the member's own certificates may keep out.
    pub(crate) fn is_healthy(&self) -> bool {
        let Ok(mut connection) = self.connect(self.address, READY_DEADLINE) else { return false };
        let answer = exchange(&mut connection, "GET", "/health", None, &Value::Null, text);
        answer.is_ok_and(|(status, body)| status == 200 && String::from_utf8_lossy(&body).contains("true"))
    }

    fn call(&self, path: &str, request: &Value) -> Result<Value> {
        let (status, body) = self.exchange(path, request, text)?;
        let reply = serde_json::from_slice(&body);
        match reply {
            Ok(reply) if status == 200 => Ok(reply),
            _ => Err(error_in(&body)),
        }
    }

    /// One request over the kept connection, which does not outlive an error.
    fn exchange<T>(
        &self,
        path: &str,
        request: &Value,
        read: impl FnOnce(u16, Body<'_>) -> io::Result<T>,
    ) -> Result<(u16, T)> {
        let mut kept = self.connection();
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connect(self.address, DEADLINE).map_err(|error| unavailable(&error))?,
        };
        let answered = exchange(&mut connection, "POST", path, self.token.as_deref(), request, read)
            .map_err(|error| unavailable(&error))?;
        *kept = Some(connection);
        Ok(answered)
    }

    fn connect(&self, address: SocketAddr, deadline: Duration) -> io::Result<Connection> {
        match &self.tls {
            None => Connection::open(address, deadline),
            Some(tls) => Connection::open_tls(address, deadline, Arc::clone(tls)),
        }
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Client {
    fn clone(&self) -> Client {
        let (tls, token) = (self.tls.clone(), self.token.clone());
        Client { tls, token, ..Client::new(self.address, self.peer_address) }
    }
}

impl Kv {
    fn from_json(kv: &Value) -> Kv {
        Kv {
            key: bytes(&kv["key"]),
            value: bytes(&kv["value"]),
            create_revision: signed(&kv["create_revision"]),
            mod_revision: signed(&kv["mod_revision"]),
            version: signed(&kv["version"]),
            lease: signed(&kv["lease"]),
        }
    }
}

impl ClientError {
    /// Whether waiting may help: no leader yet, not serving yet.
    fn is_temporary(&self) -> bool {
        matches!(self.code, UNKNOWN | DEADLINE_EXCEEDED | UNAVAILABLE)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for ClientError {}

fn exchange<T>(
    connection: &mut Connection,
    method: &str,
    path: &str,
    token: Option<&str>,
    request: &Value,
    read: impl FnOnce(u16, Body<'_>) -> io::Result<T>,
) -> io::Result<(u16, T)> {
    let answer = connection.request(method, path, token, request.to_string().as_bytes())?;
    Ok((answer.status, read(answer.status, answer.body)?))
}

/// The whole body.
fn text(_status: u16, mut body: Body<'_>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    body.read_to_end(&mut text)?;
    Ok(text)
}

/// The gateway's error, or the bare text of a handler that speaks no JSON.
fn error_in(body: &[u8]) -> ClientError {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    match (reply["code"].as_i64(), reply["message"].as_str()) {
        (Some(code), Some(message)) => ClientError { code, message: message.to_owned() },
        _ => ClientError { code: UNKNOWN, message: String::from_utf8_lossy(body).trim().to_owned() },
    }
}

fn unavailable(error: &io::Error) -> ClientError {
    ClientError { code: UNAVAILABLE, message: error.to_string() }
}

fn header_revision(reply: &Value) -> i64 {
    signed(&reply["header"]["revision"])
}
