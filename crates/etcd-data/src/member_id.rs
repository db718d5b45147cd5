//! What members and clusters are called.
//!
//! Both ids are the first 8 bytes of a SHA-1, read as a big-endian number: of a member's peer URLs, sorted and
//! joined, and the cluster's token; and of a cluster's member ids in ascending order, 8 bytes each. A member that
//! joins later hashes the time too, so its id cannot be computed again.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

/// A member of one cluster. Shown as etcd shows it: hexadecimal, lower case, no leading zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u64);

/// A cluster. Shown as etcd shows it: hexadecimal, lower case, no leading zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub u64);

impl MemberId {
    /// The id of a first member of the cluster of `token`.
    pub fn of<S: AsRef<str>>(peer_urls: &[S], token: &str) -> MemberId {
        let mut urls: Vec<&str> = peer_urls.iter().map(AsRef::as_ref).collect();
        urls.sort_unstable();
        let mut hash = Sha1::new();
        for url in urls {
            hash.update(url);
        }
        hash.update(token);
        MemberId(first_eight(hash))
    }

    /// Reads an id as etcd shows it, from a key of the `members` bucket say.
    pub fn parse(hex: &[u8]) -> Option<MemberId> {
        u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok().map(MemberId)
    }
}

impl ClusterId {
    /// The id of the cluster that these members begin.
    pub fn of(members: &[MemberId]) -> ClusterId {
        let mut members = members.to_vec();
        members.sort_unstable();
        let mut hash = Sha1::new();
        for member in members {
            hash.update(member.0.to_be_bytes());
        }
        ClusterId(first_eight(hash))
    }
}

fn first_eight(hash: Sha1) -> u64 {
    let digest: [u8; 20] = hash.finalize().into();
    digest.iter().take(8).fold(0, |id, byte| id << 8 | u64::from(*byte))
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_real_clusters_had() {
        let member = MemberId::of(&["http://127.0.0.1:2380"], "token-3.4.23-killed");
        assert_eq!(member.to_string(), "451382de3791e2b4");
        assert_eq!(ClusterId::of(&[member]).to_string(), "13bd1b70f2d4f560");
    }

    #[test]
    fn the_order_of_urls_and_members_does_not_matter() {
        assert_eq!(MemberId::of(&["http://a:1", "http://b:1"], "t"), MemberId::of(&["http://b:1", "http://a:1"], "t"));
        assert_eq!(ClusterId::of(&[MemberId(1), MemberId(2)]), ClusterId::of(&[MemberId(2), MemberId(1)]));
    }

    #[test]
    fn ids_are_shown_without_leading_zeros() {
        assert_eq!(MemberId(0xd8812d7cd4d463e).to_string(), "d8812d7cd4d463e");
        assert_eq!(MemberId::parse(b"d8812d7cd4d463e"), Some(MemberId(0xd8812d7cd4d463e)));
    }
}
