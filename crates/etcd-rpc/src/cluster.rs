//! Membership: who is a member, and changing that.

use tonic::transport::Channel;

use crate::fault::RpcError;
use crate::member::{Asking, Member};
use crate::proto::etcdserverpb::cluster_client::ClusterClient;
use crate::proto::etcdserverpb::{
    Member as PublishedMember, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest,
    MemberUpdateRequest,
};

/// A member as the cluster lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMember {
    /// Its id.
    pub id: u64,
    /// Its name, empty until it has started once.
    pub name: String,
    /// Where its peers find it.
    pub peer_urls: Vec<String>,
    /// Where its clients find it, empty until it has started once.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub is_learner: bool,
}

/// The members of a cluster, and which cluster that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The cluster.
    pub cluster_id: u64,
    /// Its members, in the order of their ids.
    pub members: Vec<ListedMember>,
}

/// Whose word is taken for who is a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// That of a majority, as it is now; 3.4 gives its own for that.
    Majority,
    /// The member's own, which may be old.
    Own,
}

impl Member {
    /// The cluster's members.
    pub async fn members(&self, word: Word) -> Result<Members, RpcError> {
        let question = MemberListRequest { linearizable: word == Word::Majority };
        let answer = self
            .ask(Asking::openly("listing the members"), question, |channel, request| async move {
                cluster(channel).member_list(request).await
            })
            .await?;
        let mut members: Vec<ListedMember> = answer.members.into_iter().map(ListedMember::from).collect();
        members.sort_by_key(|member| member.id);
        Ok(Members { cluster_id: answer.header.map_or(0, |header| header.cluster_id), members })
    }

    /// Adds a member with a vote; gives back its id.
    pub async fn add_member(&self, peer_urls: Vec<String>) -> Result<u64, RpcError> {
        self.add("adding a member", MemberAddRequest { peer_ur_ls: peer_urls, is_learner: false }).await
    }

    /// Adds a learner; gives back its id.
    pub async fn add_learner(&self, peer_urls: Vec<String>) -> Result<u64, RpcError> {
        self.add("adding a learner", MemberAddRequest { peer_ur_ls: peer_urls, is_learner: true }).await
    }

    async fn add(&self, action: &'static str, member: MemberAddRequest) -> Result<u64, RpcError> {
        let answer = self
            .ask(action, member, |channel, request| async move { cluster(channel).member_add(request).await })
            .await?;
        Ok(answer.member.map_or(0, |member| member.id))
    }

    /// Gives the learner `id` its vote.
    pub async fn promote(&self, id: u64) -> Result<(), RpcError> {
        self.ask("promoting a learner", MemberPromoteRequest { id }, |channel, request| async move {
            cluster(channel).member_promote(request).await
        })
        .await
        .map(drop)
    }

    /// Removes the member `id` for good.
    pub async fn remove(&self, id: u64) -> Result<(), RpcError> {
        self.ask("removing a member", MemberRemoveRequest { id }, |channel, request| async move {
            cluster(channel).member_remove(request).await
        })
        .await
        .map(drop)
    }

    /// Tells where peers find the member `id` from now on.
    pub async fn update_peer_urls(&self, id: u64, peer_urls: Vec<String>) -> Result<(), RpcError> {
        let question = MemberUpdateRequest { id, peer_ur_ls: peer_urls };
        self.ask("updating a member", question, |channel, request| async move {
            cluster(channel).member_update(request).await
        })
        .await
        .map(drop)
    }
}

impl From<PublishedMember> for ListedMember {
    fn from(member: PublishedMember) -> Self {
        Self {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_ur_ls,
            client_urls: member.client_ur_ls,
            is_learner: member.is_learner,
        }
    }
}

fn cluster(channel: Channel) -> ClusterClient<Channel> {
    ClusterClient::new(channel)
}
