//! What is wrong beside the database of a data directory, and between the two.

use std::error::Error;

use bolt_file::check::Severity;
use etcd_data::data_dir::{DataDir, Finding as Relation, LogPlace};
use etcd_data::replay::ReplayError;
use etcd_data::wal::Tail;

use crate::output::finding::Finding;

/// Everything that is wrong with the log and the raft snapshots of `data_dir`, and with how they go together.
pub(super) fn findings(data_dir: &DataDir) -> Vec<Finding> {
    let mut findings = of_log(data_dir);
    findings.extend(of_raft_snapshots(data_dir));
    findings.extend(data_dir.findings.iter().map(of_relation));
    findings
}

/// How the log ends, if a crash may have ended it so. What was behind that, if anything, nobody knows.
pub(super) fn note_of_end(data_dir: &DataDir) -> Option<Finding> {
    let log = data_dir.log.as_ref().ok()?;
    let ends = match log.tail {
        Tail::Clean | Tail::Damaged => return None,
        Tail::Torn { .. } => "in the middle of a record, which etcd cuts off",
        Tail::Leftover { .. } => "before something that no record leads to, which etcd overwrites",
    };
    Some(Finding::note_of_log(format!("the log ends at {}, {ends}", log.end)))
}

fn of_log(data_dir: &DataDir) -> Vec<Finding> {
    let place: String = match &data_dir.log_place {
        LogPlace::Inside => "member/wal".into(),
        LogPlace::Recorded(folder) | LogPlace::Given(folder) => folder.display().to_string(),
    };
    match (&data_dir.log, &data_dir.ahead) {
        (Err(error), _) => vec![of_folder("no_log", &place, error)],
        // Where the database cannot be opened, that has been told.
        (Ok(log), Err(error)) if log.findings.is_empty() && !matches!(error, ReplayError::NoDatabase) => {
            vec![of_folder("log_not_applied", &place, error)]
        }
        (Ok(log), _) => log.findings.iter().map(Finding::of_log).collect(),
    }
}

fn of_folder(code: &str, place: &str, error: &dyn Error) -> Finding {
    Finding::of_file(code, place, format!("{place}: {}", said(error)))
}

fn of_raft_snapshots(data_dir: &DataDir) -> impl Iterator<Item = Finding> {
    data_dir.snaps.iter().filter_map(|(name, snap)| {
        let error = snap.as_ref().err()?;
        let place = format!("member/snap/{name}");
        Some(Finding::of_file("raft_snapshot", &place, format!("{place}: {}", said(error))))
    })
}

fn of_relation(finding: &Relation) -> Finding {
    let (code, place) = match finding {
        Relation::SnapName { name, .. } => ("snap_name", format!("member/snap/{name}")),
        Relation::SnapTerm { name, .. } => ("snap_term", format!("member/snap/{name}")),
        Relation::DatabaseBehind { .. } => ("database_behind", "member/snap/db".into()),
        Relation::TermAhead { .. } => ("term_ahead", "member/snap/db".into()),
        Relation::OtherMember { .. } => ("other_member", "log".into()),
        Relation::OtherMembers { .. } => ("other_members", "log".into()),
        Relation::RemovedMember { .. } => ("removed_member", "log".into()),
        Relation::OtherCluster { .. } => ("other_cluster", "log".into()),
        _ => ("data_dir", "data directory".into()),
    };
    let severity = match finding.severity() {
        Severity::Harmless => "harmless",
        Severity::Unsound => "unsound",
        Severity::Fatal => "fatal",
    };
    Finding { code: code.into(), severity, place, message: finding.to_string() }
}

/// What `error` says, and what that comes from.
fn said(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}
