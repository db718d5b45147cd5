//! Deleting what no rule keeps.

use std::collections::BTreeSet;
use std::path::Path;

use archive::Error;
use archive::archive::Archive;
use archive::error::in_one_line;
use archive::prune::Gone;
use archive::retention::Policy;
use jiff::Timestamp;
use store::Key;

use crate::metrics::{Metrics, SnapshotKind};

/// Deletes what no rule keeps.
pub(super) fn prune(archive: &Archive, scratch: &Path, policy: &Policy, metrics: &Metrics) -> Result<String, Error> {
    let now = Timestamp::now();
    let plan = archive.plan_prune(policy, now, scratch)?;
    let pruned = archive.prune(&plan, policy, now)?;
    if let Some(error) = &pruned.unrecorded {
        tracing::warn!(error = in_one_line(error), "what is no longer as it was proven to be could not be recorded");
    }
    let fulls: BTreeSet<&Key> =
        archive.catalogue().entries().filter(|entry| entry.is_full()).map(|entry| &entry.key).collect();
    let mut gone = 0;
    for (key, outcome) in &pruned.objects {
        let kind = if fulls.contains(key) { SnapshotKind::Full } else { SnapshotKind::Incr };
        match outcome {
            Gone::Deleted => {
                gone += 1;
                metrics.deleted(kind, true);
            }
            Gone::Failed(_) => metrics.deleted(kind, false),
            _ => {}
        }
    }
    Ok(match gone {
        0 => "nothing was to go".into(),
        count => format!("deleted {count} objects that no rule keeps"),
    })
}
