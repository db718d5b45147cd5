//! The services of one member, each call a line or two over the shared world.

use etcd_rpc::proto::etcdserverpb as pb;
use etcd_rpc::proto::etcdserverpb::alarm_request::AlarmAction;
use etcd_rpc::proto::etcdserverpb::auth_server::Auth;
use etcd_rpc::proto::etcdserverpb::cluster_server::Cluster;
use etcd_rpc::proto::etcdserverpb::kv_server::Kv;
use etcd_rpc::proto::etcdserverpb::lease_server::Lease;
use etcd_rpc::proto::etcdserverpb::maintenance_server::Maintenance;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::world::{Shared, World};

/// One member, as its services see it.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) shared: Shared,
    pub(crate) id: u64,
}

type Answer<T> = Result<Response<T>, Status>;

impl Serving {
    /// Whether whoever sends `request` is let in.
    pub(crate) fn let_in(&self, request: Request<()>) -> Result<Request<()>, Status> {
        let token = request.metadata().get("token").and_then(|token| token.to_str().ok());
        self.shared.read().door.let_in(token)?;
        Ok(request)
    }

    /// One call: late, refused or not answered at all if the script says so.
    async fn call<T>(&self, name: &str, work: impl FnOnce(&mut World) -> Result<T, Status>) -> Answer<T> {
        let script = self.shared.read().script(self.id);
        if script.never_answers.contains(name) {
            std::future::pending::<()>().await;
        }
        if !script.answers_after.is_zero() {
            tokio::time::sleep(script.answers_after).await;
        }
        script.admits(name)?;
        self.shared.change(work).map(Response::new)
    }

    /// One call that writes keys, which alarms forbid.
    async fn write<T>(&self, name: &str, work: impl FnOnce(&mut World) -> Result<T, Status>) -> Answer<T> {
        self.call(name, |world| {
            if world.has_alarm(pb::AlarmType::Corrupt) {
                return Err(Status::data_loss("etcdserver: corrupt cluster"));
            }
            if world.has_alarm(pb::AlarmType::Nospace) {
                return Err(Status::resource_exhausted("etcdserver: mvcc: database space exceeded"));
            }
            work(world)
        })
        .await
    }
}

#[tonic::async_trait]
impl Kv for Serving {
    async fn range(&self, request: Request<pb::RangeRequest>) -> Answer<pb::RangeResponse> {
        let range = request.into_inner();
        self.call("Range", |world| {
            let found = world.history.range(&range)?;
            Ok(pb::RangeResponse { header: world.header(self.id), ..found })
        })
        .await
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Answer<pb::PutResponse> {
        let put = request.into_inner();
        self.write("Put", |world| {
            world.history.put(&put)?;
            Ok(pb::PutResponse { header: world.header(self.id), prev_kv: None })
        })
        .await
    }

    async fn delete_range(&self, request: Request<pb::DeleteRangeRequest>) -> Answer<pb::DeleteRangeResponse> {
        let range = request.into_inner();
        self.call("DeleteRange", |world| {
            let deleted = world.history.delete(&range);
            Ok(pb::DeleteRangeResponse { header: world.header(self.id), deleted, prev_kvs: Vec::new() })
        })
        .await
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Answer<pb::TxnResponse> {
        let txn = request.into_inner();
        self.write("Txn", |world| {
            let done = world.history.txn(&txn)?;
            Ok(pb::TxnResponse { header: world.header(self.id), ..done })
        })
        .await
    }

    async fn compact(&self, request: Request<pb::CompactionRequest>) -> Answer<pb::CompactionResponse> {
        let revision = request.into_inner().revision;
        self.call("Compact", |world| {
            world.history.compact(revision)?;
            world.calls.push(format!("Compact {revision}"));
            Ok(pb::CompactionResponse { header: world.header(self.id) })
        })
        .await
    }
}

#[tonic::async_trait]
impl Lease for Serving {
    async fn lease_grant(&self, request: Request<pb::LeaseGrantRequest>) -> Answer<pb::LeaseGrantResponse> {
        let asked = request.into_inner();
        self.call("LeaseGrant", |world| {
            let id = world.history.grant(asked.ttl, asked.id)?;
            let error = String::new();
            Ok(pb::LeaseGrantResponse { header: world.header(self.id), id, ttl: asked.ttl, error })
        })
        .await
    }

    async fn lease_revoke(&self, request: Request<pb::LeaseRevokeRequest>) -> Answer<pb::LeaseRevokeResponse> {
        let id = request.into_inner().id;
        self.call("LeaseRevoke", |world| {
            world.history.revoke(id)?;
            Ok(pb::LeaseRevokeResponse { header: world.header(self.id) })
        })
        .await
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Answer<BoxStream<pb::LeaseKeepAliveResponse>> {
        let mut asked = request.into_inner();
        let (shared, id) = (self.shared.clone(), self.id);
        let (answers, stream) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            while let Ok(Some(lease)) = asked.message().await {
                let answer = {
                    let world = shared.read();
                    let ttl = world.history.leases.get(&lease.id).copied().unwrap_or(0);
                    pb::LeaseKeepAliveResponse { header: world.header(id), id: lease.id, ttl }
                };
                if answers.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Answer<pb::LeaseTimeToLiveResponse> {
        let id = request.into_inner().id;
        self.call("LeaseTimeToLive", |world| {
            let granted = world.history.leases.get(&id).copied();
            Ok(pb::LeaseTimeToLiveResponse {
                header: world.header(self.id),
                id,
                ttl: granted.unwrap_or(-1),
                granted_ttl: granted.unwrap_or(0),
                keys: world.history.keys_of(id),
            })
        })
        .await
    }

    async fn lease_leases(&self, _: Request<pb::LeaseLeasesRequest>) -> Answer<pb::LeaseLeasesResponse> {
        self.call("LeaseLeases", |world| {
            let leases = world.history.leases.keys().map(|id| pb::LeaseStatus { id: *id }).collect();
            Ok(pb::LeaseLeasesResponse { header: world.header(self.id), leases })
        })
        .await
    }
}

#[tonic::async_trait]
impl Maintenance for Serving {
    async fn status(&self, _: Request<pb::StatusRequest>) -> Answer<pb::StatusResponse> {
        self.call("Status", |world| {
            let has_no_leader = world.script(self.id).has_no_leader;
            let (leader, raft_index) = (world.leader, 10 + world.history.revision.cast_unsigned());
            let header = world.header(self.id);
            let alarms = world
                .alarms
                .iter()
                .map(|alarm| format!("memberID:{} alarm:{}", alarm.member_id, alarm.alarm().as_str_name()));
            let errors = alarms.chain(has_no_leader.then(|| "etcdserver: no leader".to_owned())).collect();
            let member = world.member(self.id).ok_or_else(|| Status::unavailable("etcdserver: server stopped"))?;
            Ok(pb::StatusResponse {
                header,
                version: "3.6.0".to_owned(),
                db_size: member.db_size,
                db_size_in_use: member.db_in_use,
                leader: if has_no_leader { 0 } else { leader },
                raft_index,
                raft_term: 2,
                raft_applied_index: raft_index,
                errors,
                is_learner: member.listed.is_learner,
                storage_version: "3.6.0".to_owned(),
                db_size_quota: 2 << 30,
                downgrade_info: None,
            })
        })
        .await
    }

    async fn hash_kv(&self, request: Request<pb::HashKvRequest>) -> Answer<pb::HashKvResponse> {
        let asked = request.into_inner().revision;
        self.call("HashKV", |world| {
            let revision = if asked == 0 { world.history.revision } else { asked };
            world.history.readable(revision)?;
            let compact_revision = world.history.compacted;
            let hash = world.script(self.id).claims_hash;
            let hash = hash.unwrap_or_else(|| world.history.hash(revision, compact_revision));
            Ok(pb::HashKvResponse { header: world.header(self.id), hash, compact_revision, hash_revision: revision })
        })
        .await
    }

    async fn snapshot(&self, _: Request<pb::SnapshotRequest>) -> Answer<BoxStream<pb::SnapshotResponse>> {
        let file = self
            .call("Snapshot", |world| {
                let make = world.make_snapshot.clone();
                let make = make.ok_or_else(|| Status::unimplemented("nobody said what a snapshot is made of"))?;
                let records: Vec<_> = world.history.changes.iter().map(super::history::Change::record).collect();
                Ok(make(&records))
            })
            .await?
            .into_inner();
        let whole = file.len();
        let (pieces, stream) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let mut sent = 0;
            for piece in file.chunks(32 << 10) {
                sent += piece.len();
                let remaining_bytes = (whole - sent) as u64;
                let blob = piece.to_vec().into();
                let piece = pb::SnapshotResponse { remaining_bytes, blob, ..pb::SnapshotResponse::default() };
                if pieces.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn defragment(&self, _: Request<pb::DefragmentRequest>) -> Answer<pb::DefragmentResponse> {
        self.call("Defragment", |world| {
            let call = format!("Defragment {}", world.name(self.id));
            world.calls.push(call);
            if let Some(member) = world.member(self.id) {
                member.db_size = member.db_in_use;
            }
            Ok(pb::DefragmentResponse { header: world.header(self.id) })
        })
        .await
    }

    async fn move_leader(&self, request: Request<pb::MoveLeaderRequest>) -> Answer<pb::MoveLeaderResponse> {
        let target = request.into_inner().target_id;
        self.call("MoveLeader", |world| {
            if world.leader != self.id {
                return Err(Status::failed_precondition("etcdserver: not leader"));
            }
            let call = format!("MoveLeader {} {}", world.name(self.id), world.name(target));
            world.calls.push(call);
            world.leader = target;
            Ok(pb::MoveLeaderResponse { header: world.header(self.id) })
        })
        .await
    }

    async fn alarm(&self, request: Request<pb::AlarmRequest>) -> Answer<pb::AlarmResponse> {
        let asked = request.into_inner();
        self.call("Alarm", |world| {
            let about = pb::AlarmMember { member_id: asked.member_id, alarm: asked.alarm };
            match asked.action() {
                AlarmAction::Get => {}
                AlarmAction::Activate => world.alarms.push(about),
                AlarmAction::Deactivate => {
                    world.alarms.retain(|alarm| *alarm != about);
                    let call = format!("Disarm {}", world.name(asked.member_id));
                    world.calls.push(call);
                }
            }
            Ok(pb::AlarmResponse { header: world.header(self.id), alarms: world.alarms.clone() })
        })
        .await
    }
}

#[tonic::async_trait]
impl Cluster for Serving {
    async fn member_list(&self, _: Request<pb::MemberListRequest>) -> Answer<pb::MemberListResponse> {
        self.call("MemberList", |world| {
            Ok(pb::MemberListResponse { header: world.header(self.id), members: listed(world) })
        })
        .await
    }

    async fn member_add(&self, request: Request<pb::MemberAddRequest>) -> Answer<pb::MemberAddResponse> {
        let asked = request.into_inner();
        self.call("MemberAdd", |world| {
            if world.members.iter().any(|member| member.listed.peer_ur_ls == asked.peer_ur_ls) {
                return Err(Status::failed_precondition("etcdserver: Peer URLs already exists"));
            }
            if asked.is_learner && world.members.iter().any(|member| member.listed.is_learner) {
                return Err(Status::failed_precondition("etcdserver: too many learner members in cluster"));
            }
            let id = world.add("", Vec::new(), asked.peer_ur_ls.clone(), asked.is_learner);
            world.calls.push(format!("MemberAdd {}", asked.peer_ur_ls.join(",")));
            let member = world.member(id).map(|member| member.listed.clone());
            Ok(pb::MemberAddResponse { header: world.header(self.id), member, members: listed(world) })
        })
        .await
    }

    async fn member_remove(&self, request: Request<pb::MemberRemoveRequest>) -> Answer<pb::MemberRemoveResponse> {
        let id = request.into_inner().id;
        self.call("MemberRemove", |world| {
            world.member(id).ok_or_else(member_not_found)?;
            let call = format!("MemberRemove {}", world.name(id));
            world.calls.push(call);
            world.members.retain(|member| member.listed.id != id);
            Ok(pb::MemberRemoveResponse { header: world.header(self.id), members: listed(world) })
        })
        .await
    }

    async fn member_update(&self, request: Request<pb::MemberUpdateRequest>) -> Answer<pb::MemberUpdateResponse> {
        let asked = request.into_inner();
        self.call("MemberUpdate", |world| {
            world.member(asked.id).ok_or_else(member_not_found)?.listed.peer_ur_ls = asked.peer_ur_ls.clone();
            let call = format!("MemberUpdate {} {}", world.name(asked.id), asked.peer_ur_ls.join(","));
            world.calls.push(call);
            Ok(pb::MemberUpdateResponse { header: world.header(self.id), members: listed(world) })
        })
        .await
    }

    async fn member_promote(&self, request: Request<pb::MemberPromoteRequest>) -> Answer<pb::MemberPromoteResponse> {
        let id = request.into_inner().id;
        self.call("MemberPromote", |world| {
            let member = world.member(id).ok_or_else(member_not_found)?;
            if !member.has_caught_up {
                let text = "etcdserver: can only promote a learner member which is in sync with leader";
                return Err(Status::failed_precondition(text));
            }
            member.listed.is_learner = false;
            let call = format!("MemberPromote {}", world.name(id));
            world.calls.push(call);
            Ok(pb::MemberPromoteResponse { header: world.header(self.id), members: listed(world) })
        })
        .await
    }
}

#[tonic::async_trait]
impl Auth for Serving {
    async fn auth_status(&self, _: Request<pb::AuthStatusRequest>) -> Answer<pb::AuthStatusResponse> {
        self.call("AuthStatus", |world| {
            let enabled = world.door.asks_for_users;
            Ok(pb::AuthStatusResponse { header: world.header(self.id), enabled, auth_revision: 1 })
        })
        .await
    }

    async fn authenticate(&self, request: Request<pb::AuthenticateRequest>) -> Answer<pb::AuthenticateResponse> {
        let password = request.into_inner().password;
        self.call("Authenticate", |world| {
            let token = world.door.log_in(&password)?;
            Ok(pb::AuthenticateResponse { header: world.header(self.id), token })
        })
        .await
    }
}

fn listed(world: &World) -> Vec<pb::Member> {
    world.members.iter().map(|member| member.listed.clone()).collect()
}

fn member_not_found() -> Status {
    Status::not_found("etcdserver: member not found")
}
