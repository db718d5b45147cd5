//! What the etcd in a sandbox is asked, and what it has to answer: the hash and the number of keys that the point's own
//! records give.

use bytes::Bytes;
use etcd_data::Revision;
use etcd_data::hash::HashKv;
use etcd_rpc::{EVERYTHING, Member, RangeRequest, RpcError};

use super::error::DrillError;

/// What the point's own records give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// HashKV at its revision.
    pub hash: HashKv,
    /// How many keys there are.
    pub keys: u64,
}

/// What etcd answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// HashKV at the point's revision.
    pub hash: HashKv,
    /// How many keys there are.
    pub keys: u64,
}

/// Asks `member` for what is `expected`.
pub(super) async fn ask(member: &Member, expected: &Expected) -> Result<Answers, RpcError> {
    let revision = expected.hash.revision;
    let hash = member.hash_kv(revision.0).await?;
    let all = RangeRequest {
        key: EVERYTHING,
        range_end: Bytes::clone(&EVERYTHING),
        revision: revision.0,
        count_only: true,
        ..RangeRequest::default()
    };
    let keys = u64::try_from(member.range(all).await?.count).unwrap_or_default();
    let compact_revision = (hash.compact_revision >= 0).then_some(Revision(hash.compact_revision));
    Ok(Answers { hash: HashKv { hash: hash.hash, revision, compact_revision }, keys })
}

impl Answers {
    /// Requires that these are what is `expected`.
    pub(super) fn require(&self, expected: &Expected) -> Result<(), DrillError> {
        if self.hash != expected.hash {
            return Err(DrillError::OtherHash { found: self.hash, expected: expected.hash });
        }
        if self.keys != expected.keys {
            return Err(DrillError::OtherCount { found: self.keys, expected: expected.keys });
        }
        Ok(())
    }
}
