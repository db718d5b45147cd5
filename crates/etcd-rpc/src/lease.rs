//! Leases: which there are, how long they live, and making them.

use bytes::Bytes;
use tokio_stream::once;
use tonic::transport::Channel;

use crate::fault::{Fault, RpcError};
use crate::member::{LONGEST_ANSWER, Member};
use crate::proto::etcdserverpb::lease_client::LeaseClient;
use crate::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
};

const KEEPING_ALIVE: &str = "keeping a lease alive";

/// What etcd says of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: i64,
    /// The time to live that was granted, in seconds.
    pub granted_seconds: i64,
    /// How much of it is left, in seconds.
    pub left_seconds: i64,
    /// The keys that hang on it.
    pub keys: Vec<Bytes>,
}

impl Member {
    /// The ids of all leases.
    pub async fn leases(&self) -> Result<Vec<i64>, RpcError> {
        let answer = self
            .ask("listing the leases", LeaseLeasesRequest {}, |channel, request| async move {
                lease(channel).lease_leases(request).await
            })
            .await?;
        Ok(answer.leases.into_iter().map(|lease| lease.id).collect())
    }

    /// One lease with its keys; `None` if it is not there.
    pub async fn lease(&self, id: i64) -> Result<Option<Lease>, RpcError> {
        let question = LeaseTimeToLiveRequest { id, keys: true };
        let answer = self
            .ask("reading a lease", question, |channel, request| async move {
                lease(channel).lease_time_to_live(request).await
            })
            .await?;
        let lease = Lease { id, granted_seconds: answer.granted_ttl, left_seconds: answer.ttl, keys: answer.keys };
        Ok(Some(lease).filter(|lease| lease.left_seconds >= 0 && lease.granted_seconds > 0))
    }

    /// Grants a lease of `seconds` under `id`, 0 to let etcd choose; gives back the id.
    pub async fn grant(&self, seconds: i64, id: i64) -> Result<i64, RpcError> {
        let question = LeaseGrantRequest { ttl: seconds, id };
        let answer =
            self.ask("granting a lease", question, |channel, request| async move {
                lease(channel).lease_grant(request).await
            })
            .await?;
        Ok(answer.id)
    }

    /// Revokes a lease, which deletes its keys.
    pub async fn revoke(&self, id: i64) -> Result<(), RpcError> {
        self.ask("revoking a lease", LeaseRevokeRequest { id }, |channel, request| async move {
            lease(channel).lease_revoke(request).await
        })
        .await
        .map(drop)
    }

    /// Keeps a lease alive once; gives back how many seconds it now has, `None` if it is not there.
    pub async fn keep_alive_once(&self, id: i64) -> Result<Option<i64>, RpcError> {
        let question = LeaseKeepAliveRequest { id };
        let answer = self
            .ask(KEEPING_ALIVE, question, |channel, request| async move {
                let answers = lease(channel).lease_keep_alive(request.map(once)).await?;
                let (metadata, mut answers, extensions) = answers.into_parts();
                let first = answers.message().await?;
                Ok(tonic::Response::from_parts(metadata, first, extensions))
            })
            .await?;
        let silent = || self.error(KEEPING_ALIVE, Fault::Cancelled { reason: "there was no answer".to_owned() });
        Ok(Some(answer.ok_or_else(silent)?.ttl).filter(|seconds| *seconds > 0))
    }
}

fn lease(channel: Channel) -> LeaseClient<Channel> {
    // Many keys may hang on a lease.
    LeaseClient::new(channel).max_decoding_message_size(LONGEST_ANSWER)
}
