//! Leases: granting, revoking, and noting how long they have left.

use super::permission::{Act, Asker};
use super::{Member, Stop};
use crate::request::{LeaseCheckpointRequest, LeaseGrantRequest};
use crate::tables::{Lease, LeaseId};

/// The longest time that etcd grants, in seconds.
const MAX_TTL_SECONDS: i64 = 9_000_000_000;

/// The shortest: one and a half election timeouts, rounded up to seconds. The timeout is a flag of the server, which
/// nothing on disk tells; this goes with the 1000 ms that it is by default.
const MIN_TTL_SECONDS: i64 = 2;

impl Member {
    pub(super) fn grant_lease(&mut self, grant: &LeaseGrantRequest) -> Result<(), Stop> {
        if grant.id == 0 || grant.ttl > MAX_TTL_SECONDS || self.tables.has_lease(LeaseId(grant.id)) {
            return Err(Stop::Refused);
        }
        let ttl_seconds = grant.ttl.max(MIN_TTL_SECONDS);
        self.tables.put_lease(&Lease { id: grant.id, ttl_seconds, remaining_seconds: 0 });
        Ok(())
    }

    /// Ends a lease. What hangs on it is deleted in the order of keys, under one revision.
    pub(super) fn revoke_lease(&mut self, asker: &Asker, id: i64) -> Result<(), Stop> {
        self.require(Act::Lease(id), asker)?;
        if !self.tables.has_lease(LeaseId(id)) {
            return Err(Stop::Refused);
        }
        let keys: Vec<_> = self.store.keys_on(id).cloned().collect();
        let mut change = self.store.change()?;
        for key in keys {
            change.delete_range(&key, &[])?;
        }
        change.finish();
        self.tables.remove_lease(LeaseId(id));
        Ok(())
    }

    /// Notes how long leases have left. Servers keep that from cluster version 3.6 on; before, only where a flag says
    /// so, which nothing on disk tells.
    pub(super) fn checkpoint_leases(&mut self, request: &LeaseCheckpointRequest) -> Result<(), Stop> {
        if !self.is_of_3_6_or_later()? {
            return Ok(());
        }
        for checkpoint in &request.checkpoints {
            if let Some(mut lease) = self.tables.lease(LeaseId(checkpoint.id))? {
                lease.remaining_seconds = checkpoint.remaining_ttl;
                self.tables.put_lease(&lease);
            }
        }
        Ok(())
    }
}
