//! Joining a running cluster: what is there is kept aside, the member that it was is removed, and a learner is added.
//!
//! Each step leaves something that the next look sees, so a run that dies is gone on with by deciding again: a directory
//! that is kept aside is an empty one, a member that is removed is none, and a learner that was added and never started
//! is what the member then starts as.

use std::time::Instant;

use etcd_data::MemberId;
use etcd_data::set_aside::set_aside;
use etcd_rpc::{ListedMember, Member, RpcError, Word};

use super::decision::Join;
use super::error::StartError;
use super::place::Place;
use super::ready::{ClusterState, Launch};
use crate::metrics::{MemberChange, Metrics};

/// Joins, as `join` has it, the cluster that `spokesman` speaks for. `stamp` tells what is kept aside now from what was
/// kept at other times.
pub(super) async fn carry_out(
    place: &Place,
    join: Join,
    spokesman: &Member,
    stamp: &str,
    metrics: &Metrics,
) -> Result<Launch, StartError> {
    keep_aside(place, stamp).await?;
    if let Join::InPlaceOf(old) = join {
        counted(metrics, MemberChange::Remove, spokesman.remove(old.0)).await?;
    }
    let id = match join {
        Join::AsAdded(id) => id.0,
        Join::Newly | Join::InPlaceOf(_) => {
            let added = spokesman.add_learner(place.peer_urls.clone());
            counted(metrics, MemberChange::AddLearner, added).await?
        }
    };
    Ok(launch(place, id, spokesman).await?)
}

/// Tells the peers of the member `id` where it is now. It starts in any case: it finds them, and care of the cluster or
/// the next start tells them again.
pub(super) async fn tell_peers(place: &Place, id: MemberId, spokesman: &Member) {
    match spokesman.update_peer_urls(id.0, place.peer_urls.clone()).await {
        Ok(()) => tracing::info!(urls = place.peer_urls.join(","), "the other members are told where this one is now"),
        Err(error) => {
            let (endpoint, fault) = (&error.endpoint, &error.fault);
            tracing::warn!(%endpoint, %fault, "the other members are not told where this one is now");
        }
    }
}

/// Does it, and counts how that went.
async fn counted<T>(
    metrics: &Metrics,
    change: MemberChange,
    work: impl Future<Output = Result<T, RpcError>>,
) -> Result<T, RpcError> {
    let began = Instant::now();
    let done = work.await;
    metrics.member_changed(change, began.elapsed(), done.is_ok());
    done
}

async fn keep_aside(place: &Place, stamp: &str) -> Result<(), StartError> {
    let (data_dir, wal_dir, stamp) = (place.data_dir.clone(), place.wal_dir.clone(), stamp.to_owned());
    let kept = tokio::task::spawn_blocking(move || set_aside(&data_dir, wal_dir.as_deref(), &stamp)).await;
    let kept = kept.map_err(StartError::of_thread)??;
    for kept in kept {
        tracing::info!(kept = %kept.display(), "what was in the data directory is kept");
    }
    Ok(())
}

async fn launch(place: &Place, id: u64, spokesman: &Member) -> Result<Launch, RpcError> {
    let members = spokesman.members(Word::Majority).await?.members;
    Ok(Launch {
        initial_cluster: initial_cluster(place, id, &members),
        state: ClusterState::Existing,
        token: place.token.clone(),
    })
}

/// All members as etcd wants them named at the start of one that joins. It compares the URLs, and the names of others
/// that never started are not known yet.
pub(super) fn initial_cluster(place: &Place, id: u64, members: &[ListedMember]) -> String {
    let mut items = Vec::new();
    for member in members {
        let name = match &member.name {
            _ if member.id == id => place.name.clone(),
            name if name.is_empty() => format!("{:x}", member.id),
            name => name.clone(),
        };
        items.extend(member.peer_urls.iter().map(|url| format!("{name}={url}")));
    }
    items.join(",")
}
