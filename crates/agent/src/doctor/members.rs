//! Etcd: who is a member, and what each says and allows.

use etcd_rpc::{Alarm, EVERYTHING, Fault, HashKv, Member, Page, RangeRequest, Status, page};
use futures::future::join_all;
use jiff::Timestamp;

use super::finding::Finding;
use super::{Cluster, agreement, cluster, member, rights};
use crate::care::observe::Members;
use crate::care::{ClusterSeen, MemberSeen};

/// What was seen of a cluster.
#[derive(Debug)]
pub(super) struct Seen {
    /// As whom we ask.
    pub(super) user: Option<String>,
    /// What each of the endpoints answered that were named.
    pub(super) endpoints: Vec<(String, Result<Status, Fault>)>,
    /// The members, if somebody listed them; or why nobody did.
    pub(super) cluster: Result<ClusterSeen, Fault>,
    /// The alarms that are raised, or why they are not known.
    pub(super) alarms: Result<Vec<Alarm>, Fault>,
    /// What was asked of each member that serves clients.
    pub(super) looks: Vec<Look>,
}

/// What was asked of one member.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) name: String,
    /// What it says of itself, unless it says nothing to us.
    pub(super) status: Option<Status>,
    /// What we may do.
    pub(super) rights: Vec<(Right, Result<(), Fault>)>,
    /// The hash at a revision that all members have.
    pub(super) hash: Result<HashKv, Fault>,
    /// What it serves beside gRPC.
    pub(super) page: Result<Metrics, Fault>,
}

/// Something that following a cluster takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right {
    /// Reading every key.
    Read,
    /// Watching every key.
    Watch,
    /// Listing leases.
    Leases,
    /// Taking a snapshot.
    Snapshot,
    /// Hashing the key space.
    Hash,
}

/// A page of metrics, and when it was got by our clock.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) page: Page,
    pub(super) asked: Timestamp,
    pub(super) answered: Timestamp,
}

impl Seen {
    /// The size of the largest database, where one told.
    pub(super) fn largest_database(&self) -> Option<u64> {
        let sizes = self.looks.iter().filter_map(|look| u64::try_from(look.status.as_ref()?.db_size_bytes).ok());
        sizes.max()
    }
}

/// Asks everybody, all at once.
pub(super) async fn look(etcd: &Cluster) -> Seen {
    let members = Members::new(etcd.endpoints.clone(), etcd.access.clone());
    let given: Vec<Member> =
        etcd.endpoints.iter().map(|endpoint| Member::new(endpoint.clone(), &etcd.access)).collect();
    let named = given
        .iter()
        .map(async |member| (member.endpoint().to_string(), member.status().await.map_err(|error| error.fault)));
    let (endpoints, listed) = tokio::join!(join_all(named), members.listed());
    // Newer members tell nothing of themselves to a user without rights. What else such a one may not do is tried all the same.
    let refusing = given.iter().zip(&endpoints).filter(|(_, (_, answer))| matches!(answer, Err(Fault::Denied)));
    let refusing = refusing.map(|(member, (name, _))| look_at(etcd, member, None, name.clone(), 0));
    let mut looks = join_all(refusing).await;
    let user = etcd.access.login.as_ref().map(|login| login.user().to_owned());
    let (speaker, listed) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            let (cluster, alarms) = (Err(error.fault.clone()), Err(error.fault));
            return Seen { user, endpoints, cluster, alarms, looks };
        }
    };
    let reaching = join_all(listed.members.iter().map(|member| members.reach(member)));
    let (reached, alarms) = tokio::join!(reaching, speaker.alarms());
    let alarms = alarms.map_err(|error| error.fault);
    let serving = reached.iter().filter_map(|reached| reached.as_ref().ok()).filter(|(_, status)| !status.is_learner);
    let revision = serving.clone().map(|(_, status)| status.header.revision).min().unwrap_or_default();
    let names: Vec<String> = serving.clone().map(|(_, status)| name_of(&listed, status.header.member_id)).collect();
    let asked = serving.zip(names).map(|((member, status), name)| look_at(etcd, member, Some(status), name, revision));
    looks.extend(join_all(asked).await);
    let members = listed.members.into_iter().zip(reached).map(|(listed, reached)| MemberSeen {
        listed,
        status: reached.map(|(_, status)| status).map_err(|error| error.fault),
    });
    let known: Vec<Alarm> = alarms.clone().unwrap_or_default();
    let cluster =
        ClusterSeen { cluster_id: listed.cluster_id, members: members.collect(), alarms: known, users_untold: None };
    Seen { user, endpoints, cluster: Ok(cluster), alarms, looks }
}

fn name_of(listed: &etcd_rpc::Members, id: u64) -> String {
    let named = listed.members.iter().find(|member| member.id == id).map(|member| member.name.clone());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("{id:x}"))
}

async fn look_at(etcd: &Cluster, member: &Member, status: Option<&Status>, name: String, revision: i64) -> Look {
    let asked = Timestamp::now();
    let metrics = async {
        let page = page(member.endpoint(), &etcd.access, "/metrics").await.map_err(|error| error.fault)?;
        Ok(Metrics { page, asked, answered: Timestamp::now() })
    };
    let hashing = async { member.hash_kv(revision).await.map_err(|error| error.fault) };
    let (page, hash, mut rights) = tokio::join!(metrics, hashing, try_rights(member));
    rights.push((Right::Hash, hash.as_ref().map(drop).map_err(Clone::clone)));
    Look { name, status: status.cloned(), rights, hash, page }
}

/// Tries what following takes. A snapshot is given up after its first piece.
async fn try_rights(member: &Member) -> Vec<(Right, Result<(), Fault>)> {
    // Of this member's own store, so that one that is cut off answers too.
    let all = RangeRequest {
        key: EVERYTHING,
        range_end: EVERYTHING,
        limit: 1,
        keys_only: true,
        serializable: true,
        ..RangeRequest::default()
    };
    let snapshot = async {
        let mut snapshot = member.snapshot().await?;
        snapshot.next().await.map(drop)
    };
    let (read, watch, leases, snapshot) = tokio::join!(member.range(all), member.watch(0), member.leases(), snapshot);
    let fault = |error: etcd_rpc::RpcError| error.fault;
    vec![
        (Right::Read, read.map(drop).map_err(fault)),
        (Right::Watch, watch.map(drop).map_err(fault)),
        (Right::Leases, leases.map(drop).map_err(fault)),
        (Right::Snapshot, snapshot.map_err(fault)),
    ]
}

/// What it means.
pub(super) fn judge(seen: &Seen, now: Timestamp) -> Vec<Finding> {
    let mut findings = cluster::judge(seen);
    findings.extend(rights::judge(seen));
    findings.extend(seen.looks.iter().flat_map(|look| member::judge(look, now)));
    findings.extend(agreement::judge(seen));
    findings
}

#[cfg(test)]
pub(super) mod sketch;
