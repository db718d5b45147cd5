//! Checks the small buckets: that each record can be understood, and that they fit together.

use std::collections::BTreeSet;

use super::{Finding, Findings};
use crate::member_id::MemberId;
use crate::raft::ConfState;
use crate::tables::{AlarmKind, BUCKETS, MARKS, TableFault, Tables, User, printable};

/// Checks all tables.
pub(super) fn check(tables: &Tables, findings: &mut Findings) {
    check_names(tables, findings);
    check_marks(tables, findings);
    check_members(tables, findings);
    check_users(tables, findings);
    check_alarms(tables, findings);
    for lease in tables.leases() {
        understood(lease, findings);
    }
    understood(tables.auth_revision(), findings);
    understood(tables.cluster_version(), findings);
    understood(tables.downgrade(), findings);
}

/// What is understood; the fault of what is not is a finding.
fn understood<T>(found: Result<T, TableFault>, findings: &mut Findings) -> Option<T> {
    found.map_err(|fault| findings.add(fault.into())).ok()
}

fn check_names(tables: &Tables, findings: &mut Findings) {
    for (name, _) in tables.buckets().filter(|(name, _)| !BUCKETS.iter().any(|known| known.as_bytes() == *name)) {
        findings.add(Finding::UnknownBucket(printable(name)));
    }
    for nested in tables.nested() {
        findings.add(nested.clone().into());
    }
    for mark in tables.bucket("meta").into_iter().flat_map(|marks| marks.keys()) {
        if !MARKS.iter().any(|known| known.as_bytes() == mark) {
            findings.add(Finding::UnknownMark(printable(mark)));
        }
    }
}

fn check_marks(tables: &Tables, findings: &mut Findings) {
    understood(tables.consistent_index(), findings);
    let term = understood(tables.term(), findings).flatten();
    let version = understood(tables.storage_version(), findings).flatten();
    if let (Some(version), None) = (version, term) {
        findings.add(Finding::VersionWithoutTerm { version });
    }
    let scheduled = understood(tables.scheduled_compaction(), findings).flatten();
    let finished = understood(tables.finished_compaction(), findings).flatten();
    match (scheduled, finished) {
        (Some(scheduled), finished) if finished < Some(scheduled) => {
            findings.add(Finding::CompactionPending { scheduled });
        }
        (scheduled, Some(finished)) if scheduled < Some(finished) => {
            let scheduled = scheduled.unwrap_or_default();
            findings.add(Finding::FinishedUnscheduled { finished, scheduled });
        }
        _ => {}
    }
}

fn check_members(tables: &Tables, findings: &mut Findings) {
    let members: BTreeSet<MemberId> =
        tables.members().filter_map(|member| understood(member, findings)).map(|member| MemberId(member.id)).collect();
    for removed in tables.removed_members().filter_map(|member| understood(member, findings)).collect::<Vec<_>>() {
        if members.contains(&removed) {
            findings.add(Finding::RemovedMember(removed));
        }
    }
    let Some(Some(raft)) = understood(tables.conf_state(), findings) else { return };
    let raft = raft_members(&raft);
    if raft != members {
        let [members, raft] = [members, raft].map(|ids| ids.into_iter().collect());
        findings.add(Finding::MembersDiffer { members, raft });
    }
}

fn raft_members(state: &ConfState) -> BTreeSet<MemberId> {
    let ConfState { voters, learners, voters_outgoing, learners_next, .. } = state;
    [voters, learners, voters_outgoing, learners_next].into_iter().flatten().map(|&id| MemberId(id)).collect()
}

/// The user and the role that may do everything. The role need not be in the table.
const ROOT: &str = "root";

fn check_users(tables: &Tables, findings: &mut Findings) {
    let roles: BTreeSet<Vec<u8>> =
        tables.roles().filter_map(|role| understood(role, findings)).map(|role| role.name).collect();
    let users: Vec<User> = tables.users().filter_map(|user| understood(user, findings)).collect();
    for user in &users {
        for role in user.roles.iter().filter(|role| *role != ROOT && !roles.contains(role.as_bytes())) {
            findings.add(Finding::RoleMissing { user: printable(&user.name), role: role.clone() });
        }
    }
    let administers = |user: &User| user.name == ROOT.as_bytes() && user.roles.iter().any(|role| role == ROOT);
    if tables.auth_enabled() && !users.iter().any(administers) {
        findings.add(Finding::NoRootUser);
    }
}

fn check_alarms(tables: &Tables, findings: &mut Findings) {
    for alarm in tables.alarms() {
        let Some(alarm) = understood(alarm, findings) else { continue };
        let member = MemberId(alarm.member);
        findings.add(match AlarmKind::try_from(alarm.kind) {
            Ok(AlarmKind::NoSpace) => Finding::NoSpace(member),
            Ok(AlarmKind::Corrupt) => Finding::CorruptAlarm(member),
            _ => Finding::UnknownAlarm { member, kind: alarm.kind },
        });
    }
}
