//! The care of a cluster: defragmentation, alarms, learners, and the URLs of peers.
//!
//! Each turn looks at the whole cluster, decides, and does the first thing that is to be done; the next turn looks again. So
//! nothing is done on what was true before, and a member that falls ill stops everything that needs all to be healthy. One
//! agent of a cluster takes turns, the one that writes the archive.

mod act;
mod cluster;
pub(crate) mod observe;
mod plan;
pub mod turns;

use std::collections::{BTreeMap, BTreeSet};

use etcd_rpc::{Access, Endpoint, RpcError};
use jiff::{SignedDuration, Timestamp};

use crate::schedule::Schedule;
use act::Outcome;
use observe::Members;

pub use cluster::{ClusterSeen, MemberSeen, Untold};
pub use plan::{Because, Note, Plan, Step, plan};

/// So long a member is left alone after it was defragmented for its waste, and the cluster after its space was relieved.
const REST: SignedDuration = SignedDuration::from_hours(1);

/// What is done without being asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// When all members are defragmented; never by default.
    pub defragment_at: Option<Schedule>,
    /// From which waste on a member is defragmented.
    pub defragment_from: Option<Waste>,
    /// Whether the leadership is handed over before the leader is defragmented.
    pub moves_leader: bool,
    /// Whether a cluster whose space is used up is compacted, defragmented and disarmed.
    pub relieves_no_space: bool,
    /// Whether learners get their vote when they have caught up.
    pub promotes_learners: bool,
    /// Where peers should find members, by their names.
    pub peer_urls: BTreeMap<String, BTreeSet<String>>,
}

/// How much of a database may be unused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waste {
    /// The unused part of the whole, from 0 to 1.
    pub ratio: f64,
    /// A smaller database is left alone.
    pub least_bytes: i64,
}

/// What earlier turns have left to be known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Members that the schedule wants defragmented, and that are not yet.
    pub due: BTreeSet<u64>,
    /// Members that were defragmented a short time ago.
    pub rested: BTreeSet<u64>,
    /// How far the relief of used up space has come.
    pub relief: Relief,
}

/// How far the relief of used up space has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relief {
    /// What is before this revision has been compacted.
    pub compacted: Option<i64>,
    /// These have been defragmented since.
    pub defragmented: BTreeSet<u64>,
    /// The alarms have been taken back since.
    pub is_disarmed: bool,
}

/// One turn: what was seen, decided and done.
#[derive(Debug)]
pub struct Turn {
    /// The cluster.
    pub seen: ClusterSeen,
    /// What a person should know.
    pub notes: Vec<Note>,
    /// What was done. If there was something, another turn may find more.
    pub did: Option<Step>,
    /// Why it failed.
    pub failed: Option<RpcError>,
}

/// Takes care of one cluster.
#[derive(Debug)]
pub struct Care {
    members: Members,
    policy: Policy,
    memory: Memory,
    next_due: Option<Timestamp>,
    defragmented_at: BTreeMap<u64, Timestamp>,
    disarmed_at: Option<Timestamp>,
    /// What the last turn could not do.
    failed: Option<Step>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            defragment_at: None,
            defragment_from: None,
            moves_leader: true,
            relieves_no_space: false,
            promotes_learners: true,
            peer_urls: BTreeMap::new(),
        }
    }
}

impl Care {
    /// Of the cluster that answers at `endpoints`; its other members are found by what they say of each other.
    pub fn new(endpoints: Vec<Endpoint>, access: Access, policy: Policy, now: Timestamp) -> Self {
        let next_due = policy.defragment_at.as_ref().and_then(|schedule| schedule.next_after(now));
        Self {
            members: Members::new(endpoints, access),
            policy,
            memory: Memory::default(),
            next_due,
            defragmented_at: BTreeMap::new(),
            disarmed_at: None,
            failed: None,
        }
    }

    /// Looks, decides, and does the first thing that is to be done. What is after `kept` may not be compacted away: the
    /// archive does not have it yet.
    pub async fn turn(&mut self, kept: Option<i64>, now: Timestamp) -> Result<Turn, RpcError> {
        let seen = self.members.observe().await?;
        self.remember(&seen, now);
        let Plan { steps, notes } = plan(&seen, &self.policy, &self.memory, kept);
        let Some(step) = self.choose(steps) else {
            return Ok(Turn { seen, notes, did: None, failed: None });
        };
        let outcome = act::carry_out(&step, &seen, &self.members).await;
        self.note(&step, &outcome, now);
        let failed = outcome.err();
        self.failed = failed.as_ref().map(|_| step.clone());
        Ok(Turn { seen, notes, did: Some(step), failed })
    }

    /// All members are to be defragmented now, whatever the schedule says.
    pub async fn defragment_now(&mut self) -> Result<(), RpcError> {
        self.memory.due = self.members.observe().await?.ids_with_a_vote();
        Ok(())
    }

    /// When the schedule wants all members defragmented next.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.next_due
    }

    /// Whether a round of defragmentation is not through yet.
    pub fn is_defragmenting(&self) -> bool {
        !self.memory.due.is_empty()
    }

    /// The first step; but not the one that has just failed, if there are others and they do not stand on it.
    fn choose(&self, steps: Vec<Step>) -> Option<Step> {
        let again = steps.first().filter(|first| Some(*first) == self.failed.as_ref()).is_some();
        let passed_over = again && steps.len() > 1 && steps.first().is_some_and(Step::stands_alone);
        steps.into_iter().nth(usize::from(passed_over))
    }

    /// What time and the cluster have made of what was known.
    fn remember(&mut self, seen: &ClusterSeen, now: Timestamp) {
        if self.next_due.is_some_and(|due| due <= now) {
            self.memory.due = seen.ids_with_a_vote();
            self.next_due = self.policy.defragment_at.as_ref().and_then(|schedule| schedule.next_after(now));
        }
        self.memory.due.retain(|id| seen.member(*id).is_some());
        self.defragmented_at.retain(|_, then| now.duration_since(*then) < REST);
        self.memory.rested = self.defragmented_at.keys().copied().collect();
        let is_over = match self.disarmed_at {
            Some(then) => now.duration_since(then) >= REST,
            None => !seen.has_no_space(),
        };
        if is_over {
            (self.memory.relief, self.disarmed_at) = (Relief::default(), None);
        }
    }

    /// What is known after `step`. What failed is tried again, except that a member is not made to rewrite its database over
    /// and over.
    fn note(&mut self, step: &Step, outcome: &Outcome, now: Timestamp) {
        match step {
            Step::Defragment { member, because } => {
                self.defragmented_at.insert(*member, now);
                self.memory.due.remove(member);
                if *because == Because::NoSpace {
                    self.memory.relief.defragmented.insert(*member);
                }
            }
            Step::Compact { revision } if outcome.is_ok() => self.memory.relief.compacted = Some(*revision),
            Step::Disarm { .. } if outcome.is_ok() => {
                self.memory.relief.is_disarmed = true;
                self.disarmed_at = Some(now);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_just_failed_does_not_hold_up_what_does_not_need_it() {
        let update = Step::UpdatePeerUrls { member: 1, peer_urls: BTreeSet::new() };
        let compact = Step::Compact { revision: 5 };
        let defragment = Step::Defragment { member: 1, because: Because::NoSpace };
        let mut care = Care::new(Vec::new(), Access::default(), Policy::default(), Timestamp::UNIX_EPOCH);
        let chosen = |care: &Care, steps: &[&Step]| care.choose(steps.iter().map(|step| (*step).clone()).collect());

        assert_eq!(chosen(&care, &[]), None);
        assert_eq!(chosen(&care, &[&update, &compact]), Some(update.clone()));
        care.failed = Some(update.clone());
        assert_eq!(chosen(&care, &[&update, &compact]), Some(compact.clone()));
        assert_eq!(chosen(&care, &[&update]), Some(update.clone()));
        // Without compaction there is nothing to be gained by what follows.
        care.failed = Some(compact.clone());
        assert_eq!(chosen(&care, &[&compact, &defragment]), Some(compact));
    }
}
