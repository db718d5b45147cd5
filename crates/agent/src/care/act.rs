//! Doing one step, and nothing more.

use etcd_rpc::{Fault, RpcError};

use super::cluster::ClusterSeen;
use super::observe::{Members, REACHING};
use super::plan::Step;

/// Whether a step succeeded.
pub(crate) type Outcome = Result<(), RpcError>;

/// Carries `step` out on the cluster that was seen.
pub(crate) async fn carry_out(step: &Step, seen: &ClusterSeen, members: &Members) -> Outcome {
    tracing::info!(?step, "taking care");
    match step {
        Step::UpdatePeerUrls { member, peer_urls } => {
            let urls = peer_urls.iter().cloned().collect();
            members.any(seen).await?.update_peer_urls(*member, urls).await
        }
        Step::Compact { revision } => match members.any(seen).await?.compact(*revision).await {
            // Somebody was quicker, which is as good.
            Err(RpcError { fault: Fault::Compacted { .. }, .. }) => Ok(()),
            compacted => compacted.map(drop),
        },
        Step::MoveLeader { from, to } => members.of(*from, seen).await?.move_leader(*to).await,
        Step::Defragment { member, .. } => members.of(*member, seen).await?.defragment().await,
        Step::Disarm { alarms } => {
            let speaker = members.any(seen).await?;
            for alarm in alarms {
                speaker.disarm(*alarm).await?;
            }
            Ok(())
        }
        Step::Promote { member } => members.any(seen).await?.promote(*member).await,
    }
}

impl Members {
    /// A member with a vote that answers.
    pub(crate) async fn any(&self, seen: &ClusterSeen) -> Result<etcd_rpc::Member, RpcError> {
        let mut last = None;
        for member in seen.voters().filter(|member| member.status.is_ok()) {
            match self.reach(&member.listed).await {
                Ok((member, _)) => return Ok(member),
                Err(error) => last = Some(error),
            }
        }
        let nobody = Fault::Unreachable { why: "no member answers".to_owned() };
        Err(last.unwrap_or_else(|| self.error(REACHING, nobody)))
    }

    /// The member `id`.
    async fn of(&self, id: u64, seen: &ClusterSeen) -> Result<etcd_rpc::Member, RpcError> {
        match seen.member(id) {
            Some(member) => self.reach(&member.listed).await.map(|(member, _)| member),
            None => Err(self.error(REACHING, Fault::NotFound { message: format!("{id:x} is no member") })),
        }
    }
}
