//! What a live member has.

use testkit::Client;

/// Its revision, and HashKV there.
pub(crate) fn truth(client: &Client) -> (i64, u32) {
    let revision = client.status().unwrap().revision;
    (revision, client.hash_kv(revision).unwrap().hash)
}
