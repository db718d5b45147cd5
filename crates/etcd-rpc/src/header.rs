//! What every answer begins with.

use crate::proto::etcdserverpb::ResponseHeader;

/// Who answered, and how far it was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The cluster.
    pub cluster_id: u64,
    /// The member.
    pub member_id: u64,
    /// The revision of its store; 0 where the answer has nothing to do with that.
    pub revision: i64,
    /// The term of its raft.
    pub raft_term: u64,
}

impl From<Option<ResponseHeader>> for Header {
    fn from(header: Option<ResponseHeader>) -> Self {
        header.map_or_else(Header::default, |ResponseHeader { cluster_id, member_id, revision, raft_term }| Header {
            cluster_id,
            member_id,
            revision,
            raft_term,
        })
    }
}
