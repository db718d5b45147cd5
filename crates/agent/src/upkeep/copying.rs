//! What is new at the archive's first destination, brought to another.
//!
//! The other one is given what its own policy would keep, each object once it is whole at the first. So it is behind by as
//! much as it takes to copy, holds no more than it is to, and can be restored from by itself.

use std::sync::Arc;

use archive::Error;
use archive::error::in_one_line;
use archive::retention::Policy;
use jiff::Timestamp;
use tokio::sync::watch;

use super::checking::tell_proven;
use super::status::UpkeepStatus;
use crate::home::Home;

/// Copies what is new, and tells what was.
pub(super) fn copy(
    from: &Home,
    to: &Home,
    policy: &Policy,
    told: &watch::Sender<UpkeepStatus>,
) -> Result<String, String> {
    let now = Timestamp::now();
    let copying = || {
        let archive = from.open()?;
        let target = archive.copy_target(Arc::clone(&to.store))?;
        let plan = archive.plan_copy(&target, &archive.kept_by(policy, now), None);
        archive.copy(&target, &plan, false, now)
    };
    let copying = copying().map_err(|error: Error| in_one_line(&error))?;
    let (count, bytes) = copying.sent();
    if count > 0 || told.borrow().listed.is_none() {
        to.open().and_then(|archive| tell_proven(&archive, told)).map_err(|error| in_one_line(&error))?;
    }
    if let Some((error, missing)) = copying.failed() {
        return Err(format!("{missing} objects could not be copied: {}", in_one_line(error)));
    }
    if let Some(error) = &copying.unrecorded {
        return Err(format!("what was copied is not recorded as proven: {}", in_one_line(error)));
    }
    Ok(match count {
        0 => "nothing was new".into(),
        count => format!("copied {count} objects, {bytes} bytes, and read them back"),
    })
}
