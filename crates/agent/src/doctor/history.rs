//! Whether the archive is this cluster's, and how far behind it is.

use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};

use ::archive::Cluster as ArchiveCluster;
use ::archive::error::in_one_line;
use ::archive::tip::Tip;

use super::Cluster;
use super::archive::span;
use super::finding::{Check, Finding};
use crate::follow::choose::choose;
use crate::follow::etcd::Etcd;
use crate::follow::live::{Live, Trouble};
use crate::follow::resume::{ForeignCluster, Resume, ResumeError, resume};
use crate::home::{Home, Site};

/// Changes that are older should be in the archive, whatever the rhythm.
const BEHIND: SignedDuration = SignedDuration::from_mins(5);

/// Compares where the archive ends with what the cluster has there. Nothing is written.
pub(super) async fn examine(place: &Site, etcd: &Cluster, end: (ArchiveCluster, Box<Tip>)) -> Vec<Finding> {
    let (cluster, tip) = end;
    let (revision, seen) = (tip.revision, tip.seen);
    let live = Etcd::at(etcd.endpoints.clone(), etcd.access.clone());
    let check = Check::of("history");
    let found = async {
        let sight = live.look().await?;
        let away = |nobody: crate::follow::choose::Nobody| Trouble::Away {
            place: "the cluster".into(),
            why: nobody.to_string(),
        };
        let member = choose(&sight, None, None).map_err(away)?;
        let reached = live.current(member).await?;
        let home = Home::at(place.clone(), cluster);
        Ok((reached, resume(&live, member, &sight, &home, Some(*tip), ForeignCluster::Refuse).await))
    };
    match found.await {
        Err::<_, ResumeError>(error) => vec![check.unknown(in_one_line(&error))],
        Ok((reached, compared)) => {
            let goes_on = matches!(compared, Ok(Resume::GoOn(_)));
            let mut findings = vec![of_history(check, compared)];
            findings.extend(goes_on.then(|| of_delay(revision, seen, reached, Timestamp::now())));
            findings
        }
    }
}

fn of_history(check: Check, compared: Result<Resume, ResumeError>) -> Finding {
    match compared {
        Ok(Resume::GoOn(tip)) => check.ok(format!("the cluster has the same changes at revision {}", tip.revision)),
        Ok(Resume::NewLineage { why, .. }) => {
            check.advice(why, "`refloat agent` begins a new lineage by itself; what was before stays restorable")
        }
        Err(stranger @ ResumeError::Stranger { .. }) => check.broken(
            stranger.to_string(),
            "if this cluster takes the place of that one, --replaces says so; otherwise --cluster gives it a name of its own",
        ),
        Err(error) => check.unknown(in_one_line(&error)),
    }
}

/// How far the archive, which ends with a revision that was seen then, is behind a cluster that is at `reached`.
fn of_delay(revision: Revision, seen: Timestamp, reached: Revision, now: Timestamp) -> Finding {
    let check = Check::of("behind");
    let missing = reached.0.saturating_sub(revision.0);
    let ago = now.duration_since(seen);
    let told = format!("{missing} revisions are not in it; its last was seen {} ago", span(ago));
    match (missing, ago > BEHIND) {
        (..=0, _) => check.ok("everything that the cluster has is in it"),
        (_, false) => check.ok(told),
        (_, true) => check.warning(told, "they would be lost: start `refloat agent`, or look at why it does not seal"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::short;
    use super::*;

    #[test]
    fn an_archive_that_is_behind_is_told() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        for (seen, reached, expected) in [
            ("2026-11-21T11:59:58Z", 100, "behind ok"),
            ("2026-11-21T11:59:58Z", 120, "behind ok"),
            ("2026-11-20T12:00:00Z", 100, "behind ok"),
            ("2026-11-20T12:00:00Z", 101, "behind warning"),
        ] {
            let found = of_delay(Revision(100), seen.parse().unwrap(), Revision(reached), now);
            assert_eq!(short(&[found]), [expected], "{seen} {reached}");
        }
    }

    #[test]
    fn another_clusters_archive_is_refused_and_a_restored_one_is_not() {
        let stranger = ResumeError::Stranger { tip: Revision(9), live: Revision(3) };
        let restored = Resume::NewLineage { parent: None, why: "it was restored".into() };
        let found = [of_history(Check::of("history"), Err(stranger)), of_history(Check::of("history"), Ok(restored))];
        assert_eq!(short(&found), ["history broken", "history advice"]);
    }
}
