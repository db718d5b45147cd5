//! What a live server says about its state, as the truth file keeps it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::client::{Kv, Lease, Permission};
use testkit::{Client, ClientError, fixtures};

use crate::Result;

/// Asks for everything. `client` must be allowed to.
pub(super) fn ask(client: &Client, case: &str) -> Result<Value> {
    let status = client.status()?;
    let compact_revision = client.hash_kv(0)?.compact_revision;
    Ok(json!({
        "case": case,
        "etcd_version": status.version,
        "cluster_version": client.cluster_version()?,
        "storage_version": status.storage_version,
        "cluster_id": hex(status.cluster_id),
        "member_id": hex(status.member_id),
        "raft_term": status.raft_term,
        "raft_applied_index": status.raft_applied_index,
        "revision": status.revision,
        "compact_revision": compact_revision,
        "live_keys": client.all(0)?.len(),
        "points": points(client, compact_revision, status.revision)?,
        "leases": client.leases()?.iter().map(lease).collect::<Vec<_>>(),
        "users": users(client)?,
        "roles": roles(client)?,
        "members": members(client)?,
        "alarms": alarms(client)?,
    }))
}

/// Some revisions between the compact revision and now, and always the first and the last.
///
/// The compact revision itself is left out: 3.4 refuses its hash, and the others answer it
/// with the compact revision before.
fn points(client: &Client, compact_revision: i64, revision: i64) -> Result<Vec<Value>> {
    const COUNT: i64 = 8;
    let first = compact_revision.max(1) + i64::from(compact_revision > 0);
    let mut revisions: Vec<i64> =
        (0..=COUNT).map(|step| first.min(revision) + (revision - first).max(0) * step / COUNT).collect();
    revisions.dedup();
    revisions.into_iter().map(|revision| point(client, revision)).collect()
}

fn point(client: &Client, revision: i64) -> Result<Value> {
    let live: Vec<Kv> = client.all(revision)?;
    let hash = client.hash_kv(revision)?;
    Ok(json!({
        "revision": revision,
        "key_count": live.len(),
        "keys_sha256": fixtures::keys_sha256(&live),
        "hashes": [{"hash": hash.hash, "compact_revision": hash.compact_revision}],
    }))
}

fn lease(lease: &Lease) -> Value {
    json!({
        "id": lease.id,
        "granted_ttl": lease.granted_ttl,
        "keys": lease.keys.iter().map(b64).collect::<Vec<_>>(),
    })
}

fn users(client: &Client) -> std::result::Result<Vec<Value>, ClientError> {
    let names = client.users()?;
    names.iter().map(|name| Ok(json!({"name": name, "roles": client.roles_of(name)?}))).collect()
}

fn roles(client: &Client) -> std::result::Result<Vec<Value>, ClientError> {
    let names = client.roles()?;
    names
        .iter()
        .map(|name| {
            let permissions: Vec<Value> = client.permissions_of(name)?.iter().map(permission).collect();
            Ok(json!({"name": name, "permissions": permissions}))
        })
        .collect()
}

fn permission(permission: &Permission) -> Value {
    json!({
        "type": permission.kind,
        "key": b64(&permission.key),
        "range_end": b64(&permission.range_end),
    })
}

fn members(client: &Client) -> std::result::Result<Vec<Value>, ClientError> {
    let listed = client.member_list()?;
    let member = listed.iter().map(|member| {
        json!({
            "id": hex(member.id),
            "name": member.name,
            "peer_urls": member.peer_urls,
            "client_urls": member.client_urls,
            "is_learner": member.is_learner,
        })
    });
    Ok(member.collect())
}

fn alarms(client: &Client) -> std::result::Result<Vec<Value>, ClientError> {
    let raised = client.alarms()?;
    Ok(raised.iter().map(|alarm| json!({"member_id": hex(alarm.member_id), "type": alarm.kind})).collect())
}

/// As etcd writes ids: without leading zeros.
fn hex(id: u64) -> String {
    format!("{id:x}")
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}
