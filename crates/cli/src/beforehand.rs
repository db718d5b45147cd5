//! Whether the cluster and the archive are the right ones, found out before anything is touched.

use std::sync::Arc;
use std::time::Duration;

use agent::follow::beforehand::{Answers, ask, recognise};
use agent::follow::live::Live;
use agent::home::Home;
use etcd_rpc::{Access, Endpoint};
use tokio::time::timeout;

use crate::etcd_args::rpc_failure;
use crate::failure::Failure;
use crate::session_failure::session_failure;

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
pub async fn require_own_archive(live: Arc<dyn Live>, home: &Home, replaces: bool) -> Result<(), Failure> {
    if !matches!(timeout(SOON, home.require()).await, Ok(Ok(()))) {
        return Ok(());
    }
    match timeout(PATIENCE, recognise(&live, home, replaces)).await {
        Ok(Err(error)) if error.is_lasting() => Err(session_failure(home.store.place(), &error)),
        // What else is in the way is told by whoever follows, for as long as it is.
        _ => Ok(()),
    }
}
