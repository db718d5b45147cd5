//! A member in place of another: the lost one is removed, and a learner is added where it was. It gets its vote later, when it
//! has caught up.

use std::time::Duration;

use etcd_rpc::{Access, Endpoint, Fault, RpcError};
use tokio::time::{Instant, sleep};

use super::cluster::ClusterSeen;
use super::observe::Members;

/// etcd takes changes of members only when those who are there have been connected for 5 s.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What became of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// The id of the learner that was added.
    pub learner: u64,
}

/// Why a member was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum NotReplaced {
    /// There is no such member.
    #[error("{name} is no member")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It answers, so it is not lost.
    #[error("{name} answers, so it is not lost")]
    Answers {
        /// The name.
        name: String,
    },
    /// Without it the others would have no majority that is well.
    #[error("only {well} of the {others} other members are well, which is no majority")]
    NoMajority {
        /// How many are well.
        well: usize,
        /// Of how many.
        others: usize,
    },
    /// A member refused or did not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// Decides whether the member called `name` may be removed; gives back its id.
fn may_be_removed(seen: &ClusterSeen, name: &str) -> Result<u64, NotReplaced> {
    let lost = seen.members.iter().find(|member| member.listed.name == name);
    let lost = lost.ok_or_else(|| NotReplaced::Unknown { name: name.to_owned() })?;
    if lost.status.is_ok() {
        return Err(NotReplaced::Answers { name: name.to_owned() });
    }
    let others: Vec<bool> =
        seen.voters().filter(|member| member.listed.id != lost.listed.id).map(|member| member.status.is_ok()).collect();
    let well = others.iter().filter(|is_well| **is_well).count();
    if well <= others.len() / 2 || seen.leader().is_none() {
        return Err(NotReplaced::NoMajority { well, others: others.len() });
    }
    Ok(lost.listed.id)
}

/// Removes the lost member called `name`, and adds a learner that its peers find at `peer_urls`. If this ends half way it can
/// be called again.
pub async fn replace(
    endpoints: Vec<Endpoint>,
    access: Access,
    name: &str,
    peer_urls: Vec<String>,
) -> Result<Replaced, NotReplaced> {
    let members = Members::new(endpoints, access);
    let seen = members.observe().await?;
    let waiting =
        seen.members.iter().find(|member| member.listed.name.is_empty() && member.listed.peer_urls == peer_urls);
    if let Some(waiting) = waiting {
        return Ok(Replaced { learner: waiting.listed.id });
    }
    match may_be_removed(&seen, name) {
        Ok(lost) => {
            tracing::info!(name, id = format!("{lost:x}"), "removing a lost member");
            when_settled(async || members.any(&seen).await?.remove(lost).await).await?;
        }
        // It was removed before.
        Err(NotReplaced::Unknown { .. }) => {}
        Err(refused) => return Err(refused),
    }
    let learner = when_settled(async || members.any(&seen).await?.add_learner(peer_urls.clone()).await).await?;
    Ok(Replaced { learner })
}

/// Tries until the members have been connected for long enough.
async fn when_settled<T>(change: impl AsyncFn() -> Result<T, RpcError>) -> Result<T, RpcError> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    loop {
        match change().await {
            Err(RpcError { fault: Fault::Unhealthy, .. }) if Instant::now() < deadline => sleep(AGAIN_AFTER).await,
            changed => return changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use etcd_rpc::{ListedMember, Status};

    use super::*;
    use crate::care::MemberSeen;

    /// Members by their number; `!` is silent, `?` a learner. The first leads.
    #[track_caller]
    fn check(members: &str, lost: &str, expected: &str) {
        let members = members.split_whitespace().zip(1..).map(|(word, id)| MemberSeen {
            listed: ListedMember {
                id,
                name: format!("m{id}"),
                peer_urls: Vec::new(),
                client_urls: Vec::new(),
                is_learner: word.contains('?'),
            },
            status: match word.contains('!') {
                true => Err(Fault::NoLeader),
                false => Ok(Status { leader: 1, ..Status::default() }),
            },
        });
        let seen = ClusterSeen { cluster_id: 1, members: members.collect(), alarms: Vec::new() };
        let decided = may_be_removed(&seen, lost);
        assert_eq!(decided.map_or_else(|no| no.to_string(), |id| format!("removes {id}")), expected);
    }

    #[test]
    fn only_who_is_lost_and_can_be_spared_is_removed() {
        check("m1 m2 m3!", "m3", "removes 3");
        check("m1 m2 m3", "m3", "m3 answers, so it is not lost");
        check("m1 m2 m3!", "m4", "m4 is no member");
        check("m1 m2! m3!", "m3", "only 1 of the 2 other members are well, which is no majority");
        check("m1 m2!", "m2", "removes 2");
        check("m1!", "m1", "only 0 of the 0 other members are well, which is no majority");
        check("m1 m2 m3! m4! m5", "m3", "removes 3");
        // A learner has no part in a majority.
        check("m1 m2! m3! m4?", "m3", "only 1 of the 2 other members are well, which is no majority");
    }
}
