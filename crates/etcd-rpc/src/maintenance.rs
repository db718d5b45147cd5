//! What a member says about itself, and what is done to it: status, hashes, alarms, defragmentation, its leadership.

use tonic::transport::Channel;

use crate::fault::RpcError;
use crate::header::Header;
use crate::member::{Asking, Member};
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::maintenance_client::MaintenanceClient;
use crate::proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, HashKvRequest, MoveLeaderRequest, StatusRequest,
};

/// What a member says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Who answered; its revision is that of the store.
    pub header: Header,
    /// The version of the server, such as `3.6.16`.
    pub version: String,
    /// The leader's id, 0 for none.
    pub leader: u64,
    /// Whether it has no vote yet.
    pub is_learner: bool,
    /// The size of the database file.
    pub db_size_bytes: i64,
    /// How much of that is in use.
    pub db_in_use_bytes: i64,
    /// The size at which it takes no more writes; known since 3.6.
    pub quota_bytes: Option<i64>,
    /// The version of the storage; known since 3.6.
    pub storage_version: Option<String>,
    /// The last index of the raft log that is known to be committed.
    pub raft_index: u64,
    /// The last one that was applied.
    pub raft_applied_index: u64,
    /// The term of its raft.
    pub raft_term: u64,
    /// What is wrong, in etcd's words.
    pub errors: Vec<String>,
}

/// The hash of the key space at a revision, and what it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    /// The hash.
    pub hash: u32,
    /// The compact revision that it was made with, -1 for none.
    pub compact_revision: i64,
    /// The revision that it is for, as the server says since 3.6.
    pub hash_revision: Option<i64>,
    /// Who answered.
    pub header: Header,
}

/// An alarm that is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// The member that it is about.
    pub member_id: u64,
    /// What it says.
    pub kind: AlarmKind,
}

/// What an alarm says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmKind {
    /// The quota is used up; no writes are taken.
    NoSpace,
    /// Members differ.
    Corrupt,
    /// One that we do not know.
    Other(i32),
}

impl Member {
    /// What the member says about itself.
    pub async fn status(&self) -> Result<Status, RpcError> {
        let answer = self
            .ask(Asking::openly("reading the status"), StatusRequest {}, |channel, request| async move {
                maintenance(channel).status(request).await
            })
            .await?;
        Ok(Status {
            header: answer.header.into(),
            version: answer.version,
            leader: answer.leader,
            is_learner: answer.is_learner,
            db_size_bytes: answer.db_size,
            db_in_use_bytes: answer.db_size_in_use,
            quota_bytes: Some(answer.db_size_quota).filter(|quota| *quota != 0),
            storage_version: Some(answer.storage_version).filter(|version| !version.is_empty()),
            raft_index: answer.raft_index,
            raft_applied_index: answer.raft_applied_index,
            raft_term: answer.raft_term,
            errors: answer.errors,
        })
    }

    /// The hash of the key space at `revision`, 0 for now.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKv, RpcError> {
        let answer = self
            .ask(Asking::for_work("hashing"), HashKvRequest { revision }, |channel, request| async move {
                maintenance(channel).hash_kv(request).await
            })
            .await?;
        Ok(HashKv {
            hash: answer.hash,
            compact_revision: answer.compact_revision,
            hash_revision: Some(answer.hash_revision).filter(|revision| *revision != 0),
            header: answer.header.into(),
        })
    }

    /// Rewrites the member's database without free pages. It serves nothing meanwhile.
    pub async fn defragment(&self) -> Result<(), RpcError> {
        self.ask(Asking::for_work("defragmenting"), DefragmentRequest {}, |channel, request| async move {
            maintenance(channel).defragment(request).await
        })
        .await
        .map(drop)
    }

    /// Makes `to` the leader. Only the leader does this.
    pub async fn move_leader(&self, to: u64) -> Result<(), RpcError> {
        self.ask("moving the leadership", MoveLeaderRequest { target_id: to }, |channel, request| async move {
            maintenance(channel).move_leader(request).await
        })
        .await
        .map(drop)
    }

    /// The alarms that are raised in the cluster.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, RpcError> {
        let everybody = AlarmRequest { action: AlarmAction::Get.into(), ..AlarmRequest::default() };
        let answer = self.alarm("reading the alarms", everybody).await?;
        let alarms = answer.alarms.iter();
        Ok(alarms.map(|alarm| Alarm { member_id: alarm.member_id, kind: AlarmKind::from(alarm.alarm) }).collect())
    }

    /// Takes an alarm back.
    pub async fn disarm(&self, alarm: Alarm) -> Result<(), RpcError> {
        let (member_id, alarm) = (alarm.member_id, i32::from(alarm.kind));
        let request = AlarmRequest { action: AlarmAction::Deactivate.into(), member_id, alarm };
        self.alarm("disarming", request).await.map(drop)
    }

    async fn alarm(&self, action: &'static str, request: AlarmRequest) -> Result<AlarmResponse, RpcError> {
        self.ask(action, request, |channel, request| async move { maintenance(channel).alarm(request).await }).await
    }
}

impl From<i32> for AlarmKind {
    fn from(number: i32) -> Self {
        match AlarmType::try_from(number) {
            Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
            Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
            Ok(AlarmType::None) | Err(_) => AlarmKind::Other(number),
        }
    }
}

impl From<AlarmKind> for i32 {
    fn from(kind: AlarmKind) -> Self {
        match kind {
            AlarmKind::NoSpace => AlarmType::Nospace.into(),
            AlarmKind::Corrupt => AlarmType::Corrupt.into(),
            AlarmKind::Other(number) => number,
        }
    }
}

pub(crate) fn maintenance(channel: Channel) -> MaintenanceClient<Channel> {
    MaintenanceClient::new(channel)
}
