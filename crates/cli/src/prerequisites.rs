//! Whether the cluster and the archive are the right ones, found out before anything is touched.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::follow::live::Live;
use agent::follow::recognise::{Answers, ask, recognise};
use agent::follow::resume::{ForeignCluster, ResumeError};
use agent::follow::session::SessionError;
use agent::home::Home;
use agent::start::directory::is_in_use;
use agent::start::place::Place;
use agent::start::recognise::recognise_left;
use etcd_data::Kind;
use etcd_rpc::{Access, Endpoint};
use tokio::time::timeout;

use crate::args::etcd::rpc_failure;
use crate::failure::Failure;
use crate::failure::session::session_failure;

/// Requires that a member at `endpoints` answers, and lets everything be done that following takes.
pub async fn require_answer(endpoints: &[Endpoint], access: &Access) -> Result<(), Failure> {
    match ask(endpoints, access).await.map_err(|error| rpc_failure(&error))? {
        Answers::Yes => Ok(()),
        Answers::NotNow(error) => Err(rpc_failure(&error)),
    }
}

/// The same for whoever can wait, and tells of that: only what does not pass by waiting is in the way.
pub async fn require_nothing_wrong(endpoints: &[Endpoint], access: &Access) -> Result<(), Failure> {
    ask(endpoints, access).await.map(drop).map_err(|error| rpc_failure(&error))
}

/// How long a store may take to answer at all: whoever follows goes on without it.
const SOON: Duration = Duration::from_secs(2);
/// How long it may take to recognise a cluster.
const PATIENCE: Duration = Duration::from_secs(15);

/// Requires that the archive at `home` is not another cluster's, as far as that shows now. `replaces` says that the cluster
/// takes the place of the one whose archive it is.
pub async fn require_own_archive(live: Arc<dyn Live>, home: &Home, foreign: ForeignCluster) -> Result<(), Failure> {
    if !is_there(home).await {
        return Ok(());
    }
    match timeout(PATIENCE, recognise(&live, home, foreign)).await {
        Ok(Err(error)) if error.is_lasting() => Err(session_failure(home.store.place(), &error)),
        // What else is in the way is told by whoever follows, for as long as it is.
        _ => Ok(()),
    }
}

/// The same of a member whose etcd does not run yet: by what it has left at `place`.
pub async fn require_archive_of(place: &Place, home: &Home, foreign: ForeignCluster) -> Result<(), Failure> {
    if !is_there(home).await {
        return Ok(());
    }
    by_what_is_left(place, home, foreign).await.unwrap_or(Ok(()))
}

/// The same of one of a cluster, which is at `live`. A member that was left behind, or has nothing, may join it: then it is the
/// cluster whose archive it has to be.
pub async fn require_archive_of_one(
    place: &Place,
    live: Arc<dyn Live>,
    home: &Home,
    foreign: ForeignCluster,
) -> Result<(), Failure> {
    if !is_there(home).await {
        return Ok(());
    }
    let left = by_what_is_left(place, home, foreign).await;
    if let Some(Ok(())) = left {
        return Ok(());
    }
    let told = timeout(PATIENCE, recognise(&live, home, foreign)).await;
    let told = told.ok().and_then(|told| verdict(home, told.map(Some)));
    told.or(left).unwrap_or(Ok(()))
}

/// Requires that no process runs on the data directory at `path`.
pub fn require_nobody_on(path: &Path) -> Result<(), Failure> {
    if !is_in_use(path) {
        return Ok(());
    }
    let message = format!("another process holds the data directory {}", path.display());
    Err(Failure::new(Kind::Conflict, message).hint("stop the etcd that runs on it, or --dir names another folder"))
}

async fn is_there(home: &Home) -> bool {
    matches!(timeout(SOON, home.require()).await, Ok(Ok(())))
}

async fn by_what_is_left(place: &Place, home: &Home, foreign: ForeignCluster) -> Option<Result<(), Failure>> {
    verdict(home, timeout(PATIENCE, recognise_left(place, home, foreign)).await.ok()?)
}

/// Whether the archive is the right one, if that was found out. What else is in the way of a member is told by its start.
fn verdict<T>(home: &Home, found: Result<Option<T>, SessionError>) -> Option<Result<(), Failure>> {
    match found {
        Ok(found) => found.map(|_| Ok(())),
        Err(error @ SessionError::Resume(ResumeError::Stranger { .. })) => {
            Some(Err(session_failure(home.store.place(), &error)))
        }
        Err(_) => None,
    }
}
