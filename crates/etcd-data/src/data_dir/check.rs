//! Comparing database, log and raft snapshots of a data directory with each other.
//!
//! Only what cannot come from a crash is listed. A raft snapshot that no mark of the log names is one that a member was
//! about to mark when it died, or whose mark went with an old segment; a database beyond the committed entry is one
//! that was synced when the hard state was not yet.

use std::fs::File;

use prost::Message;

use super::Finding;
use super::log_place::knows;
use crate::member_id::{ClusterId, MemberId};
use crate::raft::{ConfChange, ConfChangeKind, EntryKind};
use crate::snap::{Snap, SnapError, SnapName};
use crate::tables::Tables;
use crate::wal::{Log, Tail};

/// What raft snapshots are called, against what they are.
pub(super) fn snaps(snaps: &[(SnapName, Result<Snap, SnapError>)]) -> Vec<Finding> {
    let of_content = |(name, snap): &(SnapName, Result<Snap, SnapError>)| Some((*name, snap.as_ref().ok()?.name()));
    let named = snaps.iter().filter_map(of_content);
    let misnamed = named.filter(|(name, of_content)| name != of_content);
    misnamed.map(|(name, of_content)| Finding::SnapName { name, of_content }).collect()
}

/// How far log and raft snapshots are, against the database that has `tables`, as the file has it.
pub(super) fn log(log: &Log<File>, snaps: &[Snap], tables: &Tables) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in snaps.iter().map(Snap::name) {
        let mut marked = log.snapshots.iter().filter(|mark| mark.index == name.index).map(|mark| mark.term).peekable();
        if let Some(&first) = marked.peek()
            && marked.all(|term| term != name.term)
        {
            findings.push(Finding::SnapTerm { name, marked: first });
        }
    }
    let commit = log.hard_state.commit;
    let newest = log.snapshots.iter().map(|mark| mark.index).filter(|&index| index <= commit).max();
    let reached = tables.consistent_index().ok().map(Option::unwrap_or_default);
    if let (Some(snapshot), Some(reached)) = (newest, reached)
        && snapshot > reached
    {
        findings.push(Finding::DatabaseBehind { reached, snapshot });
    }
    let term = tables.term().ok().flatten().filter(|&term| term > log.hard_state.term);
    // Of a damaged log the last terms are not known.
    if let Some(database) = term.filter(|_| log.tail != Tail::Damaged) {
        findings.push(Finding::TermAhead { database, log: log.hard_state.term });
    }
    findings
}

/// Whose log it is, against the members in `tables`, which are those after its last entry if it could be applied.
pub(super) fn members(log: &Log<File>, snaps: &[Snap], tables: &Tables) -> Vec<Finding> {
    let Some(metadata) = log.metadata else { return Vec::new() };
    let (member, said) = (MemberId(metadata.node_id), ClusterId(metadata.cluster_id));
    let first = first_members(log);
    let mut findings = Vec::new();
    if !first.is_empty() && ClusterId::of(&first) != said {
        findings.push(Finding::OtherCluster { said, of_members: ClusterId::of(&first) });
    }
    let known = known_members(tables);
    let reached = tables.consistent_index().ok().flatten().unwrap_or_default();
    let newest = snaps.iter().max_by_key(|snap| snap.name());
    let in_snapshot = newest.is_some_and(|snap| knows(&snap.conf_state, member));
    if known.is_empty() || reached < first.len() as u64 {
        // Members are not known yet, or never were: before 3.6 a member can do without.
        return findings;
    }
    if first.iter().any(|member| !known.contains(member)) {
        findings.push(Finding::OtherMembers { first, known, in_snapshot });
    } else if first.is_empty() && !known.contains(&member) {
        // With a log from its first entry on, a member that joined may not have got to its own joining yet.
        findings.push(Finding::OtherMember { member, known, in_snapshot });
    } else if is_removed(tables, member) {
        findings.push(Finding::RemovedMember { member });
    }
    findings
}

/// Whether `findings` say that the log is of a member that the database, which has `tables`, cannot be of: the two make
/// nothing together. Up to 3.5 it is the raft snapshot that counts, and the members in the database may lag behind it.
pub(super) fn are_strangers(findings: &[Finding], tables: &Tables) -> bool {
    let database_counts = tables.storage_version().ok().flatten().is_some();
    findings.iter().any(|finding| match finding {
        Finding::OtherMember { in_snapshot, .. } | Finding::OtherMembers { in_snapshot, .. } => {
            database_counts || !in_snapshot
        }
        _ => false,
    })
}

/// All members that the database knows, also as removed.
fn known_members(tables: &Tables) -> Vec<MemberId> {
    let present = tables.members().filter_map(Result::ok).map(|member| MemberId(member.id));
    present.chain(tables.removed_members().filter_map(Result::ok)).collect()
}

/// Whether `member` was removed. An id that was removed never comes again.
fn is_removed(tables: &Tables, member: MemberId) -> bool {
    tables.removed_members().any(|removed| removed.is_ok_and(|removed| removed == member))
}

/// The members with which the cluster began, if the log goes back to there: its first entries add them, one each.
fn first_members(log: &Log<File>) -> Vec<MemberId> {
    if log.first_index() != Some(1) {
        return Vec::new();
    }
    let added = log.entries_after(0).map_while(|entry| {
        let entry = entry.ok().filter(|entry| entry.kind == EntryKind::ConfChange as i32)?;
        let change = ConfChange::decode(entry.data).ok()?;
        (change.kind == ConfChangeKind::AddNode as i32).then_some(MemberId(change.node_id))
    });
    added.collect()
}
