//! The `lease` bucket: leases as they were granted. Which keys hang on them is told by the keys.

use std::fmt;

use prost::Message;

use super::{TableFault, Tables};

/// A lease's id; 0 is none. Ids may be negative, yet sort in the bucket as unsigned numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// As programs are told it: in hexadecimal, for ids have more digits than numbers in JSON; nothing for none.
    pub fn in_hex(self) -> Option<String> {
        (self != Self::default()).then(|| self.to_string())
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As etcdctl prints it.
        write!(f, "{:x}", self.0)
    }
}

/// A lease as it was granted.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Lease {
    /// Its id.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// The seconds that it was granted for.
    #[prost(int64, tag = "2")]
    pub ttl_seconds: i64,
    /// The seconds that were left at the last checkpoint, or 0.
    #[prost(int64, tag = "3")]
    pub remaining_seconds: i64,
}

const LEASE: &str = "lease";

impl Tables {
    /// All leases, in the order of the bucket.
    pub fn leases(&self) -> impl Iterator<Item = Result<Lease, TableFault>> {
        self.entries(LEASE, "a lease under its id", |key, value| {
            let lease = Lease::decode(value).ok()?;
            (key == lease.id.to_be_bytes()).then_some(lease)
        })
    }

    /// The record of a lease, if there is one.
    pub fn lease(&self, id: LeaseId) -> Result<Option<Lease>, TableFault> {
        self.named(LEASE, &id.0.to_be_bytes(), "a lease", |value| Lease::decode(value).ok())
    }

    /// Whether there is a record of the lease.
    pub fn has_lease(&self, id: LeaseId) -> bool {
        self.bucket(LEASE).is_some_and(|leases| leases.contains_key(&id.0.to_be_bytes()[..]))
    }

    /// Puts a lease, in place of one with its id.
    pub fn put_lease(&mut self, lease: &Lease) {
        self.put(LEASE, lease.id.to_be_bytes(), lease.encode_to_vec());
    }

    /// Removes a lease.
    pub fn remove_lease(&mut self, id: LeaseId) {
        self.bucket_mut(LEASE).remove(&id.0.to_be_bytes()[..]);
    }
}
