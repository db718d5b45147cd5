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

#[cfg(test)]
mod tests {
    use etcd_rpc::Access;
    use testkit::FakeEtcd;

    use super::*;

    #[test]
    fn an_etcd_that_has_another_hash_or_another_number_of_keys_does_not_agree() {
        let hash = |hash, compact| HashKv { hash, revision: Revision(30), compact_revision: compact };
        let expected = Expected { hash: hash(7, Some(Revision(5))), keys: 12 };
        for (found, keys, complaint) in [
            (expected.hash, 12, None),
            (expected.hash, 11, Some("etcd has 11 keys, and the point's own records give 12")),
            (
                hash(8, Some(Revision(5))),
                12,
                Some("etcd gives HashKV 8 at revision 30, and the point's own records give 7"),
            ),
            (hash(7, None), 12, Some("etcd gives HashKV 7 at revision 30, and the point's own records give 7")),
        ] {
            let answered = Answers { hash: found, keys }.require(&expected);
            assert_eq!(answered.err().map(|error| error.to_string()).as_deref(), complaint, "{found:?} {keys}");
        }
    }

    /// An etcd that has lost a key, or has one that nobody put there, and answers all the same.
    #[tokio::test]
    async fn what_is_compared_is_what_the_etcd_answers() {
        let fake = FakeEtcd::start(1);
        fake.put("a", "1");
        fake.put("b", "2");
        let revision = Revision(fake.delete("a"));
        let member = Member::new(fake.url(0).parse().unwrap(), &Access::default());
        let hash = HashKv { hash: fake.hash_kv(revision.0), revision, compact_revision: None };
        for (keys, agrees) in [(1, true), (2, false), (0, false)] {
            let expected = Expected { hash, keys };
            let answered = ask(&member, &expected).await.unwrap().require(&expected);
            let is_count = matches!(&answered, Err(DrillError::OtherCount { found: 1, .. }));
            assert_eq!((answered.is_ok(), is_count), (agrees, !agrees), "{answered:?}");
        }
    }
}
