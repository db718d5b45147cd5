//! What is to be done to a cluster: a decision of plain values, and what a person should know.
//!
//! Steps come in the order in which they matter. Only the first is carried out before the cluster is looked at again.

use std::collections::BTreeSet;

use etcd_rpc::{Alarm, AlarmKind, Fault, Status};

use super::cluster::{ClusterSeen, Illness, MemberSeen, Untold};
use super::{Memory, Policy};

/// One thing to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Tell where peers find a member.
    UpdatePeerUrls {
        /// The member.
        member: u64,
        /// From now on.
        peer_urls: BTreeSet<String>,
    },
    /// Compact what is before a revision.
    Compact {
        /// The revision.
        revision: i64,
    },
    /// Hand the leadership over.
    MoveLeader {
        /// From the leader.
        from: u64,
        /// To another.
        to: u64,
    },
    /// Rewrite a member's database without what is unused.
    Defragment {
        /// The member.
        member: u64,
        /// Why.
        because: Because,
    },
    /// Take alarms back.
    Disarm {
        /// The alarms.
        alarms: Vec<Alarm>,
    },
    /// Give a learner its vote.
    Promote {
        /// The learner.
        member: u64,
    },
}

impl Step {
    /// What is done, for a person.
    pub(super) fn told(&self, seen: &ClusterSeen) -> String {
        let name = |member: &u64| seen.name(*member);
        match self {
            Step::UpdatePeerUrls { member, .. } => format!("telling where peers find {}", name(member)),
            Step::Compact { revision } => format!("compacting what is before revision {revision}"),
            Step::MoveLeader { from, to } => format!("moving the leadership from {} to {}", name(from), name(to)),
            Step::Defragment { member, .. } => format!("defragmenting {}", name(member)),
            Step::Disarm { .. } => "taking the alarms back".into(),
            Step::Promote { member } => format!("giving the learner {} its vote", name(member)),
        }
    }

    /// Whether what comes after it may be done without it.
    pub(super) fn stands_alone(&self) -> bool {
        matches!(self, Step::UpdatePeerUrls { .. } | Step::MoveLeader { .. } | Step::Promote { .. })
    }
}

/// Why a member is defragmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The schedule says so.
    Due,
    /// Too much of its database is unused.
    Waste,
    /// The space is used up.
    NoSpace,
}

/// What a person should know.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Note {
    /// etcd takes no more writes.
    #[error("the space of {member} is used up ({size_bytes} bytes{}): etcd takes no writes", of_quota(*quota_bytes))]
    NoSpace {
        /// The member.
        member: String,
        /// The size of its database.
        size_bytes: i64,
        /// The quota, where it is known.
        quota_bytes: Option<i64>,
    },
    /// Nothing is done about that.
    #[error("used up space is not relieved: the policy does not permit it")]
    NotRelieved,
    /// Everything that can be done was done, and it was not enough.
    #[error("the space was relieved and is used up again: raise the quota, or delete keys")]
    StillNoSpace,
    /// Nothing of the history may be compacted, because the archive does not have it yet.
    #[error("used up space is not relieved: the archive has nothing sealed that could be compacted")]
    NothingKept,
    /// etcd says that members differ.
    #[error("etcd says that {member} differs from the others: nothing is done to this cluster until that is settled")]
    Corrupt {
        /// The member.
        member: String,
    },
    /// Something waits until the cluster is healthy.
    #[error("{what} waits: {illness}")]
    Waits {
        /// What waits.
        what: &'static str,
        /// For what.
        illness: Illness,
    },
    /// A learner that has not caught up.
    #[error("{member} is a learner and {behind} entries behind")]
    Learner {
        /// The learner.
        member: String,
        /// How far it is behind.
        behind: u64,
    },
    /// Users may change, and nobody notices.
    #[error(
        "when users or roles change is not noticed: {0}; the archive has those of the last full that came from etcd"
    )]
    UsersUntold(Untold),
}

/// What is to be done, and what is to be known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What is to be done, in order.
    pub steps: Vec<Step>,
    /// What a person should know.
    pub notes: Vec<Note>,
}

/// Decides what is to be done. What is after `kept` may not be compacted away.
pub fn plan(seen: &ClusterSeen, policy: &Policy, memory: &Memory, kept: Option<i64>) -> Plan {
    let mut plan = Plan::default();
    plan.notes.extend(seen.users_untold.map(Note::UsersUntold));
    if seen.alarms_of(AlarmKind::Corrupt).next().is_some() {
        let differing = seen.alarms_of(AlarmKind::Corrupt);
        plan.notes.extend(differing.map(|alarm| Note::Corrupt { member: seen.name(alarm.member_id) }));
        return plan;
    }
    plan.update_peer_urls(seen, policy);
    if seen.has_no_space() {
        plan.relieve(seen, policy, memory, kept);
        return plan;
    }
    plan.promote(seen, policy);
    plan.defragment(seen, policy, memory);
    plan
}

impl Plan {
    /// Older servers forget of a learner whose URLs are updated that it is one, so learners are left alone.
    fn update_peer_urls(&mut self, seen: &ClusterSeen, policy: &Policy) {
        for member in seen.voters() {
            let Some(peer_urls) = policy.peer_urls.get(&member.listed.name) else { continue };
            let found: BTreeSet<String> = member.listed.peer_urls.iter().cloned().collect();
            if found != *peer_urls {
                let peer_urls = peer_urls.clone();
                self.steps.push(Step::UpdatePeerUrls { member: member.listed.id, peer_urls });
            }
        }
    }

    /// Compact, defragment one after the other, disarm. A member that is silent does not hold the others up: it has no space
    /// because the cluster has none.
    fn relieve(&mut self, seen: &ClusterSeen, policy: &Policy, memory: &Memory, kept: Option<i64>) {
        let alarms: Vec<Alarm> = seen.alarms_of(AlarmKind::NoSpace).copied().collect();
        self.notes.extend(alarms.iter().map(|alarm| no_space(seen, alarm)));
        let relief = &memory.relief;
        if !policy.relieves_no_space {
            self.notes.push(Note::NotRelieved);
            return;
        }
        if relief.is_disarmed {
            self.notes.push(Note::StillNoSpace);
            return;
        }
        let Some(revision) = relief.compacted.or_else(|| compactable(seen, kept)) else {
            self.notes.push(Note::NothingKept);
            return;
        };
        if relief.compacted.is_none() {
            self.steps.push(Step::Compact { revision });
        }
        let left: BTreeSet<u64> = answering(seen).filter(|id| !relief.defragmented.contains(id)).collect();
        self.defragment_one_by_one(seen, policy, &left, |_| Because::NoSpace);
        self.steps.push(Step::Disarm { alarms });
    }

    fn promote(&mut self, seen: &ClusterSeen, policy: &Policy) {
        let learners = seen.members.iter().filter(|member| policy.promotes_learners && member.listed.is_learner);
        let leader =
            seen.leader().and_then(|leader| seen.member(leader)).and_then(|leader| leader.status.as_ref().ok());
        for learner in learners {
            match (&learner.status, leader) {
                (Ok(status), Some(leader)) if has_caught_up(status, leader) => {
                    self.steps.push(Step::Promote { member: learner.listed.id });
                }
                (Ok(status), Some(leader)) => {
                    let behind = leader.raft_index.saturating_sub(status.raft_applied_index);
                    self.notes.push(Note::Learner { member: learner.name(), behind });
                }
                // It runs. Newer servers tell only users how far they are, and with a learner no user can log in; etcd itself
                // knows whether this one has caught up.
                (Err(Fault::Learner), Some(_)) => self.steps.push(Step::Promote { member: learner.listed.id }),
                // It has not started yet, or there is nobody to compare it with.
                _ => {}
            }
        }
    }

    fn defragment(&mut self, seen: &ClusterSeen, policy: &Policy, memory: &Memory) {
        let wasteful: BTreeSet<u64> = seen
            .voters()
            .filter(|member| !memory.rested.contains(&member.listed.id) && is_wasteful(member, policy))
            .map(|member| member.listed.id)
            .collect();
        let wanted: BTreeSet<u64> = memory.due.union(&wasteful).copied().collect();
        if wanted.is_empty() {
            return;
        }
        if let Some(illness) = seen.illness() {
            self.notes.push(Note::Waits { what: "defragmentation", illness });
            return;
        }
        let because = |id| if memory.due.contains(&id) { Because::Due } else { Because::Waste };
        self.defragment_one_by_one(seen, policy, &wanted, because);
    }

    /// Followers first, and the leader last, when it leads no longer if that can be helped.
    fn defragment_one_by_one(
        &mut self,
        seen: &ClusterSeen,
        policy: &Policy,
        wanted: &BTreeSet<u64>,
        because: impl Fn(u64) -> Because,
    ) {
        let leader = seen.leader();
        let followers = wanted.iter().copied().filter(|id| Some(*id) != leader);
        self.steps.extend(followers.map(|member| Step::Defragment { member, because: because(member) }));
        let Some(leader) = leader.filter(|leader| wanted.contains(leader)) else { return };
        let heir = answering(seen).find(|id| *id != leader);
        if let Some(to) = heir.filter(|_| policy.moves_leader) {
            self.steps.push(Step::MoveLeader { from: leader, to });
        }
        self.steps.push(Step::Defragment { member: leader, because: because(leader) });
    }
}

/// Those with a vote who answer.
fn answering(seen: &ClusterSeen) -> impl Iterator<Item = u64> {
    seen.voters().filter(|member| member.status.is_ok()).map(|member| member.listed.id)
}

/// The revision up to which all have come and the archive has everything.
fn compactable(seen: &ClusterSeen, kept: Option<i64>) -> Option<i64> {
    let reached = seen.voters().filter_map(|member| Some(member.status.as_ref().ok()?.header.revision)).min()?;
    Some(reached.min(kept?)).filter(|revision| *revision > 0)
}

fn no_space(seen: &ClusterSeen, alarm: &Alarm) -> Note {
    let status = seen.member(alarm.member_id).and_then(|member| member.status.as_ref().ok());
    Note::NoSpace {
        member: seen.name(alarm.member_id),
        size_bytes: status.map_or(0, |status| status.db_size_bytes),
        quota_bytes: status.and_then(|status| status.quota_bytes),
    }
}

fn is_wasteful(member: &MemberSeen, policy: &Policy) -> bool {
    let (Ok(status), Some(waste)) = (&member.status, policy.defragment_from) else { return false };
    let unused = status.db_size_bytes - status.db_in_use_bytes;
    // Sizes of databases are far below what a float holds exactly.
    status.db_size_bytes >= waste.least_bytes.max(1) && unused as f64 >= waste.ratio * status.db_size_bytes as f64
}

/// As etcd itself asks it of a learner.
fn has_caught_up(learner: &Status, leader: &Status) -> bool {
    learner.raft_applied_index as f64 >= 0.9 * leader.raft_index as f64
}

fn of_quota(quota: Option<i64>) -> String {
    quota.map(|quota| format!(" of {quota}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
