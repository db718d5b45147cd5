//! What a copy is told of writers: the last epoch that was handed out where it comes from.
//!
//! It stands in the `writer.json` of the copy, or where its claims stand, as a claim that nobody holds. So what a replaced writer left is told there, too, from
//! what counts, and whoever goes on with the copy gets a higher epoch than all before. It is told before any object is sent that
//! may have that epoch; where it cannot be, that is an error of each copy until it is, and objects are sent all the same.

use std::time::Duration;

use jiff::Timestamp;
use store::{Fault, Store, StoreError, When};

use super::{CopyTarget, within};
use crate::archive::Archive;
use crate::error::Error;
use crate::fence::claims::Claims;
use crate::fence::{Candidate, Claim, FenceError, Instance};

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
        self.runtime.block_on(leave(&*target.store, &within(&target.folder), &claim))
    }
}

/// Leaves `claim` in `folder`, unless one as late stands there. Who holds an earlier one is replaced by whoever wrote what is
/// copied, and learns of it there.
async fn leave(store: &dyn Store, folder: &str, claim: &Claim) -> Result<(), Error> {
    let mut claims = Claims::new(store, folder)?;
    for _ in 0..TRIES {
        let when = match claims.look().await? {
            Some((there, tag)) => {
                if let Some(refusal) = there.refusal(&claim.cluster) {
                    return Err(refusal.into());
                }
                if there.epoch >= claim.epoch {
                    return Ok(());
                }
                When::Unchanged(tag)
            }
            None => When::Absent,
        };
        match claims.put(claim, &when).await {
            // Somebody was quicker.
            Err(StoreError { fault: Fault::Exists | Fault::Changed, .. }) => {}
            put => return Ok(put.map(drop)?),
        }
    }
    Err(FenceError::Contended.into())
}
