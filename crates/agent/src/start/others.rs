//! The cluster, seen through its other members before this one starts.
//!
//! A member that does not answer says nothing. Of those that answer, one with a leader whom it can ask speaks for the
//! cluster. Where members of two clusters answer, the one whose data this member has counts, and otherwise the one that
//! has a quorum.

use std::collections::{BTreeMap, BTreeSet};

use etcd_data::member_id::ClusterId;
use etcd_data::{MemberId, Revision};
use etcd_rpc::{Access, Endpoint, Fault, ListedMember, Member, RpcError, Word};
use futures::future::join_all;

use super::place::Place;
use super::seen::{Ahead, Directory, Membership, Others, Standing};

/// What was seen of the others, and who of them can be asked to change the membership.
pub struct Met {
    /// What was seen.
    pub others: Others,
    /// A member that speaks for a cluster with a quorum.
    pub spokesman: Option<Member>,
}

/// What one member answered.
struct Answer {
    member: Member,
    cluster: u64,
    /// Its name, or its endpoint where its cluster does not know a name.
    name: String,
    revision: i64,
    /// Those that a majority says are members; nothing without a quorum.
    members: Option<Vec<ListedMember>>,
}

/// Asks the members at `endpoints`, all at once.
pub async fn meet(place: &Place, endpoints: &[Endpoint], access: &Access, directory: &Directory) -> Met {
    if place.is_alone() {
        return Met { others: Others::Alone, spokesman: None };
    }
    let asked = join_all(endpoints.iter().map(|endpoint| ask(endpoint, access))).await;
    let mut refusal = None;
    let mut clusters: BTreeMap<u64, Vec<Answer>> = BTreeMap::new();
    for answer in asked {
        match answer {
            Ok(answer) => clusters.entry(answer.cluster).or_default().push(answer),
            Err(error) if is_silence(&error.fault) => {}
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let held = match directory {
        Directory::Sound(member) => Some(member),
        _ => None,
    };
    let mut clusters: Vec<(u64, Vec<Answer>)> = clusters.into_iter().collect();
    clusters.sort_by_key(|(cluster, answers)| {
        let is_ours = held.is_some_and(|held| held.cluster.0 == *cluster);
        (!is_ours, answers.iter().all(|answer| answer.members.is_none()))
    });
    let others_with_quorum = clusters.iter().filter(|(_, answers)| answers.iter().any(|one| one.members.is_some()));
    if held.is_none() && others_with_quorum.count() > 1 {
        let why = "members of two clusters answer, and both have a quorum".into();
        return Met { others: Others::Refused { why }, spokesman: None };
    }
    match clusters.into_iter().next() {
        Some((cluster, answers)) => of_cluster(place, held.map(|held| held.id), cluster, answers),
        None => {
            let others = refusal.map_or(Others::Silent, |error| Others::Refused { why: told(&error) });
            Met { others, spokesman: None }
        }
    }
}

fn of_cluster(place: &Place, held: Option<MemberId>, cluster: u64, answers: Vec<Answer>) -> Met {
    if let Some((member, members)) = answers.iter().find_map(|one| Some((&one.member, one.members.as_ref()?))) {
        let membership = membership(place, held, members);
        let is_elsewhere = is_elsewhere(place, held, members);
        let standing = Standing { cluster: ClusterId(cluster), membership, is_elsewhere };
        return Met { others: Others::Quorum(standing), spokesman: Some(member.clone()) };
    }
    // Of those that are as far, the first by name.
    let furthest = answers.into_iter().min_by_key(|one| (std::cmp::Reverse(one.revision), one.name.clone()));
    let others = furthest.map_or(Others::Silent, |one| Others::NoQuorum {
        ahead: Ahead { name: one.name, revision: Revision(one.revision) },
    });
    Met { others, spokesman: None }
}

/// What this member is among `members`. One that was started has told where its clients find it.
pub(super) fn membership(place: &Place, held: Option<MemberId>, members: &[ListedMember]) -> Membership {
    let by_id = members.iter().find(|member| held.is_some_and(|held| held.0 == member.id));
    let by_name = || members.iter().find(|member| member.name == place.name);
    let is_here = |member: &&ListedMember| member.peer_urls.iter().any(|url| place.peer_urls.contains(url));
    match by_id.or_else(by_name).or_else(|| members.iter().find(is_here)) {
        None => Membership::No,
        Some(member) if member.client_urls.is_empty() => Membership::Added(MemberId(member.id)),
        Some(member) => Membership::Started(MemberId(member.id)),
    }
}

/// Whether the peers of the member whose data is here look for it elsewhere. Older servers forget of a learner whose URLs are
/// changed that it is one, so learners are left alone.
fn is_elsewhere(place: &Place, held: Option<MemberId>, members: &[ListedMember]) -> bool {
    let own = members.iter().find(|member| held.is_some_and(|held| held.0 == member.id));
    let set = |urls: &[String]| urls.iter().cloned().collect::<BTreeSet<String>>();
    own.is_some_and(|own| !own.is_learner && set(&own.peer_urls) != set(&place.peer_urls))
}

async fn ask(endpoint: &Endpoint, access: &Access) -> Result<Answer, RpcError> {
    let member = Member::new(endpoint.clone(), access);
    let status = member.status().await?;
    let (cluster, revision) = (status.header.cluster_id, status.header.revision);
    // Without a leader the question would only wait for one.
    let members = match status.leader {
        0 => None,
        _ => member.members(Word::Majority).await.ok(),
    };
    let own = match &members {
        Some(members) => Some(members.members.clone()),
        None => member.members(Word::Own).await.ok().map(|members| members.members),
    };
    let listed = own.into_iter().flatten().find(|listed| listed.id == status.header.member_id);
    let name = listed.map(|listed| listed.name).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| endpoint.to_string());
    Ok(Answer { member, cluster, name, revision, members: members.map(|members| members.members) })
}

/// Whether nobody is there, or may be there again soon: as opposed to one who does not let us in.
fn is_silence(fault: &Fault) -> bool {
    fault.is_transient() || matches!(fault, Fault::Learner)
}

fn told(error: &RpcError) -> String {
    format!("{error}: {}", error.fault)
}
