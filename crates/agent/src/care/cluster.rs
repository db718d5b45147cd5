//! A cluster as it was seen: who is a member, what each says, and which alarms are raised.

use std::collections::BTreeSet;

use etcd_rpc::{Access, Alarm, AlarmKind, AuthStatus, Fault, ListedMember, Status};

/// A member may be so many entries of raft behind and still be with the others.
const LAG: u64 = 1000;

/// All members of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterSeen {
    /// The cluster.
    pub cluster_id: u64,
    /// Its members, in the order of their ids.
    pub members: Vec<MemberSeen>,
    /// The alarms that are raised.
    pub alarms: Vec<Alarm>,
    /// Why it is not told when users or roles change, if it is not.
    pub users_untold: Option<Untold>,
}

/// Why nobody is told when users or roles change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    /// This etcd has no words for it.
    #[error("etcd 3.4 does not tell it")]
    Unspoken,
    /// Our user may not ask.
    #[error("the user of this agent may not ask for it")]
    Denied,
}

impl Untold {
    /// What an answer to the question how far users are means to who asks with `access`.
    pub(super) fn by(answer: &Result<AuthStatus, Fault>, access: &Access) -> Option<Self> {
        // Where etcd asks for users, who is none is let do nothing: we would not have come so far.
        let is_somebody = access.login.is_some() || access.tls.as_ref().is_some_and(|tls| tls.certificate.is_some());
        match answer {
            Err(Fault::Unsupported) if is_somebody => Some(Self::Unspoken),
            Err(Fault::Denied) => Some(Self::Denied),
            _ => None,
        }
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberSeen {
    /// As the cluster lists it.
    pub listed: ListedMember,
    /// What it says itself, or why it says nothing.
    pub status: Result<Status, Fault>,
}

impl ClusterSeen {
    /// The member `id`.
    pub fn member(&self, id: u64) -> Option<&MemberSeen> {
        self.members.iter().find(|member| member.listed.id == id)
    }

    /// Those who have a vote.
    pub fn voters(&self) -> impl Iterator<Item = &MemberSeen> {
        self.members.iter().filter(|member| !member.listed.is_learner)
    }

    /// The ids of those who have a vote.
    pub fn ids_with_a_vote(&self) -> BTreeSet<u64> {
        self.voters().map(|member| member.listed.id).collect()
    }

    /// Whom all who answer call the leader.
    pub fn leader(&self) -> Option<u64> {
        let mut named = self.members.iter().filter_map(|member| Some(member.status.as_ref().ok()?.leader));
        let leader = named.next().filter(|leader| *leader != 0)?;
        named.all(|other| other == leader).then_some(leader)
    }

    /// What keeps the cluster from being healthy, apart from alarms; the first thing that is found.
    pub fn illness(&self) -> Option<Illness> {
        let ill = self.members.iter().find_map(|member| {
            let name = member.name();
            match &member.status {
                Err(fault) => Some(Illness::Silent { name, fault: fault.clone() }),
                Ok(status) if status.header.cluster_id != self.cluster_id => Some(Illness::OtherCluster { name }),
                Ok(status)
                    if !member.listed.is_learner
                        && status.raft_index.saturating_sub(status.raft_applied_index) > LAG =>
                {
                    Some(Illness::Behind { name })
                }
                Ok(_) => None,
            }
        });
        ill.or_else(|| self.leader().is_none().then_some(Illness::NoLeader))
    }

    /// Whether somebody's space is used up.
    pub fn has_no_space(&self) -> bool {
        self.alarms_of(AlarmKind::NoSpace).next().is_some()
    }

    /// The alarms of one kind.
    pub fn alarms_of(&self, kind: AlarmKind) -> impl Iterator<Item = &Alarm> {
        self.alarms.iter().filter(move |alarm| alarm.kind == kind)
    }

    /// How a member is called: by its name, or by its id as long as it has none.
    pub fn name(&self, id: u64) -> String {
        self.member(id).map_or_else(|| format!("{id:x}"), MemberSeen::name)
    }
}

impl MemberSeen {
    /// How it is called: by its name, or by its id as long as it has none.
    pub fn name(&self) -> String {
        if self.listed.name.is_empty() { format!("{:x}", self.listed.id) } else { self.listed.name.clone() }
    }
}

/// What keeps a cluster from being healthy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Illness {
    /// A member does not answer.
    #[error("{name} does not answer: {fault}")]
    Silent {
        /// The member.
        name: String,
        /// What came instead.
        fault: Fault,
    },
    /// A member belongs to another cluster.
    #[error("{name} belongs to another cluster")]
    OtherCluster {
        /// The member.
        name: String,
    },
    /// A member has not applied what is committed.
    #[error("{name} is far behind the others")]
    Behind {
        /// The member.
        name: String,
    },
    /// There is no leader, or they do not agree who it is.
    #[error("there is no leader that all agree on")]
    NoLeader,
}

#[cfg(test)]
mod tests {
    use etcd_rpc::{Login, Tls};

    use super::*;

    #[test]
    fn users_that_change_untold_are_told_of_where_there_can_be_any() {
        let nobody = Access::default();
        let named = Access { login: Some(Login::new("agent", "word")), ..Access::default() };
        let tls = |certificate: Option<&str>| Access {
            tls: Some(Tls { certificate: certificate.map(Into::into), ..Tls::default() }),
            ..Access::default()
        };
        let told = |is_enabled| Ok(AuthStatus { is_enabled, revision: 3 });
        for (answer, access, expected) in [
            (told(false), &nobody, None),
            (told(true), &named, None),
            (Err(Fault::Unsupported), &nobody, None),
            (Err(Fault::Unsupported), &tls(None), None),
            (Err(Fault::Unsupported), &tls(Some("agent.crt")), Some(Untold::Unspoken)),
            (Err(Fault::Unsupported), &named, Some(Untold::Unspoken)),
            (Err(Fault::Denied), &named, Some(Untold::Denied)),
            (Err(Fault::Learner), &named, None),
        ] {
            assert_eq!(Untold::by(&answer, access), expected, "{answer:?} {access:?}");
        }
    }
}
