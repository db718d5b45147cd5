//! Small deltas put together to larger ones, and long chains to fulls.

use archive::archive::Archive;
use archive::merge::plan::MergePolicy;
use archive::name::Name;
use archive::plan::{Known, PlanError, RestorePlan, Wanted};
use archive::proof::{Evidence, Level};
use archive::{Catalogue, Entry, Error, History};
use etcd_data::Kind;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::follow::merged::{Merged, MergedFull};
use crate::home::Home;
use crate::metrics::{Metrics, SnapshotKind};

/// Makes every delta and full that is due. What cannot be merged keeps nothing else from it: the first error is told when
/// all that could be made is. About a new full, members are asked at once.
pub(super) fn merge(
    archive: &Archive,
    home: &Home,
    policy: &MergePolicy,
    merged: &Merged,
    metrics: &Metrics,
) -> Result<String, Error> {
    let now = Timestamp::now();
    let writing = home.writing(now)?;
    let (mut deltas, mut full, mut failed) = (0, None, None);
    let due = archive.merge_due(policy, &writing, |_, made| match made {
        Ok(_) => deltas += 1,
        Err(error) => drop(failed.get_or_insert(error)),
    })?;
    metrics.full_is_due(due.is_some());
    if let Some(due) = &due {
        // What was merged just now is part of it.
        let began = Instant::now();
        let made = archive.make_due_full(due, &writing);
        let published = made.is_ok().then_some((due.plan.target.unwrap_or_default().0, now));
        metrics.snapshot(SnapshotKind::Full, began.elapsed(), published);
        metrics.full_is_due(made.is_err());
        match made {
            Ok(made) => full = made,
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    let name = full.as_ref().and_then(|full| Name::parse(archive.name_of(&full.key)));
    if let Some(full) = name.as_ref().and_then(MergedFull::called) {
        merged.want(full);
    } else if merged.is_unknown() {
        merged.left_over(unconfirmed(archive)?);
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let deltas = match deltas {
        0 => "nothing was due".to_owned(),
        count => format!("made {count} deltas of smaller ones"),
    };
    Ok(match full {
        Some(full) => format!("{deltas}, and the full {}", full.key),
        None => deltas,
    })
}

/// The newest full, if it was merged and members have not confirmed it at its own revision: whoever had them asked about it may
/// have ended before they answered.
fn unconfirmed(archive: &Archive) -> Result<Option<MergedFull>, Error> {
    let history = archive.catalogue().histories.iter().rev().find(|history| !history.fulls().is_empty());
    let newest = history.and_then(|history| history.fulls().iter().max_by_key(|full| (full.to, full.time())));
    let Some(newest) = newest else { return Ok(None) };
    for (_, header) in archive.headers([newest]) {
        match header {
            Ok(header) if header.stands_for.is_some() => {}
            Err(error) if error.kind() == Kind::Unavailable => return Err(error),
            // One from etcd has what a member had; and one that is damaged is of no use.
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    let proven = archive.proven_objects(&archive.proven()?.proven, Level::Anchored)?;
    let is_confirmed = proven.get(&newest.key).is_some_and(
        |item| matches!(item.evidence, Evidence::Anchored { revision, .. } if Some(revision) == newest.to),
    );
    let name = Name::parse(archive.name_of(&newest.key)).filter(|_| !is_confirmed);
    Ok(name.as_ref().and_then(MergedFull::called))
}

/// The newest full and the newest delta that are listed, each of the newest history that has one.
pub(super) fn tell_latest(catalogue: &Catalogue, metrics: &Metrics) {
    let of_newest = |entries: fn(&History) -> &[Entry]| {
        let history = catalogue.histories.iter().rev().find(|history| !entries(history).is_empty())?;
        let revision = entries(history).iter().filter_map(|entry| entry.to).max()?;
        let times = entries(history).iter().filter(move |entry| entry.to == Some(revision)).map(Entry::time);
        Some((history.lineage.as_ref(), revision.0, times))
    };
    // Fulls of one revision are taken again; deltas are written again when they are merged, with nothing new in them.
    if let Some((lineage, revision, times)) = of_newest(History::fulls) {
        metrics.found(SnapshotKind::Full, lineage, (revision, times.max().unwrap_or_default()));
    }
    if let Some((lineage, revision, times)) = of_newest(History::deltas) {
        metrics.found(SnapshotKind::Incr, lineage, (revision, times.min().unwrap_or_default()));
    }
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
