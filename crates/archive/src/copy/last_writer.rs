//! What a copy is told of writers: the last epoch that was handed out where it comes from.
//!
//! It stands in the `writer.json` of the copy, as a claim that nobody holds. So what a replaced writer left is told there, too, from
//! what counts, and whoever goes on with the copy gets a higher epoch than all before. It is told before any object is sent that
//! may have that epoch; where it cannot be, that is an error of each copy until it is, and objects are sent all the same.

use std::time::Duration;

use jiff::Timestamp;
use store::{Fault, Key, Put, Store, StoreError};

use super::{CopyTarget, within};
use crate::archive::Archive;
use crate::error::Error;
use crate::fence::{Candidate, Claim, FenceError, Instance, MAX_CLAIM_BYTES};
use crate::name::Name;

/// How often one that loses a race tries again.
const TRIES: u32 = 5;

impl Archive {
    /// Tells `target` the last epoch that was handed out here, if that is known and it knows of none as late.
    pub(super) fn tell_last_writer(&self, target: &CopyTarget, now: Timestamp) -> Result<(), Error> {
        let (Some(cluster), Some(epoch)) = (self.cluster(), self.last_epoch()?) else { return Ok(()) };
        let nobody = Candidate {
            cluster: cluster.clone(),
            holder: "nobody: it is a copy".into(),
            serves: None,
            instance: Instance::draw(),
        };
        let claim = Claim { is_released: true, ..Claim::new(&nobody, epoch, 0, Duration::ZERO, now) };
        let key = Name::Writer.below(&within(&target.folder))?;
        self.runtime.block_on(leave(&*target.store, &key, &claim))
    }
}

/// Leaves `claim` at `key`, unless one as late stands there. Who holds an earlier one is replaced by whoever wrote what is
/// copied, and learns of it there.
async fn leave(store: &dyn Store, key: &Key, claim: &Claim) -> Result<(), Error> {
    let abilities = store.abilities();
    for _ in 0..TRIES {
        let put = match store.head(key).await {
            Ok(found) => {
                let there = Claim::parse(&store.get(key, 0..MAX_CLAIM_BYTES as u64 + 1).await?)?;
                if let Some(refusal) = there.refusal(&claim.cluster) {
                    return Err(refusal.into());
                }
                if there.epoch >= claim.epoch {
                    return Ok(());
                }
                found.tag.filter(|_| abilities.put_if_unchanged).map_or_else(Put::default, Put::if_unchanged)
            }
            Err(StoreError { fault: Fault::NotFound, .. }) if abilities.put_if_absent => Put::if_absent(),
            Err(StoreError { fault: Fault::NotFound, .. }) => Put::default(),
            Err(error) => return Err(error.into()),
        };
        match store.put(key, claim.to_bytes().into(), &put).await {
            // Somebody was quicker.
            Err(StoreError { fault: Fault::Exists | Fault::Changed, .. }) => {}
            put => return Ok(put.map(drop)?),
        }
    }
    Err(FenceError::Contended.into())
}
