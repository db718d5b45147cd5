//! What a live member has, and whether an archive has it.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use serde_json::Value;
use testkit::Client;

use crate::running::succeed;

/// Its revision, and HashKV there. Where a compaction was at just that revision, members since 3.5.5 tell the hash as of the
/// compaction before, and this is nothing to compare with.
pub(crate) fn truth(client: &Client) -> (i64, u32) {
    let revision = client.status().unwrap().revision;
    (revision, client.hash_kv(revision).unwrap().hash)
}

/// Requires that `archive` has at a revision what a live member had there.
#[track_caller]
pub(crate) fn require_archived(archive: impl AsRef<Path>, (revision, hash): (i64, u32)) {
    let place = archive.as_ref().to_str().unwrap();
    let found = succeed(&["hashkv", place, "--at", &revision.to_string(), "-o", "json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hash"].as_u64(), Some(u64::from(hash)), "HashKV at {revision}: {found:#}");
}
