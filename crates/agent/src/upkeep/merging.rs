//! Small deltas put together to larger ones, and long chains to fulls.

use archive::Error;
use archive::archive::Archive;
use archive::merge_plan::MergePolicy;
use archive::plan::{Known, PlanError, RestorePlan, Wanted};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::home::Home;
use crate::metrics::{Metrics, SnapshotKind};

/// Makes every delta and full that is due.
pub(super) fn merge(archive: &Archive, home: &Home, policy: &MergePolicy, metrics: &Metrics) -> Result<String, Error> {
    let now = Timestamp::now();
    let plan = archive.due(policy, now)?;
    metrics.full_is_due(plan.full.is_some());
    for merge in &plan.merges {
        archive.merge(merge, &home.writing(now)?)?;
    }
    if let Some(full) = &plan.full {
        // What was merged just now is part of it.
        let began = Instant::now();
        let made = archive.make_full(full, &home.writing(now)?);
        let published = made.is_ok().then_some((full.plan.target.unwrap_or_default().0, now));
        metrics.snapshot(SnapshotKind::Full, began.elapsed(), published);
        made?;
        metrics.full_is_due(false);
    }
    let deltas = match plan.merges.len() {
        0 => "nothing was due".into(),
        count => format!("made {count} deltas of smaller ones"),
    };
    Ok(plan.full.map_or(deltas.clone(), |full| format!("{deltas}, and the full {}", full.into)))
}

/// What stands behind the newest full.
pub(super) fn count_deltas(archive: &Archive, metrics: &Metrics) -> Result<(), Error> {
    let plan = match RestorePlan::choose(archive.catalogue(), &Wanted::default(), &Known::default()) {
        Err(PlanError::NoFull) => return Ok(()),
        plan => plan?,
    };
    let revisions = plan.deltas.iter().filter_map(|part| part.entry.changes());
    let revisions = revisions.map(|range| (range.to.0 - range.from.0 + 1).unsigned_abs()).sum();
    metrics.deltas_behind_the_full(plan.deltas.len() as u64, revisions);
    Ok(())
}
