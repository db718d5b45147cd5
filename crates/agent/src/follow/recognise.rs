//! What is found out of a cluster before anything is made or claimed for it: who was told wrongly touches nothing.

use std::sync::Arc;
use std::time::Duration;

use etcd_rpc::{Access, Endpoint, Fault, Member, RpcError};
use futures::future::join_all;
use tokio::time::timeout;

use crate::follow::choose::choose;
use crate::follow::live::{Live, Sight};
use crate::follow::resume::{ForeignCluster, Resume, resume};
use crate::follow::session::SessionError;
use crate::home::Home;

/// How a cluster answers.
#[derive(Debug)]
pub enum Answers {
    /// A member lets everything be done that following takes.
    Yes,
    /// None does now, which may pass. It is what the first says.
    NotNow(RpcError),
}

/// How long a member may take.
const SOON: Duration = Duration::from_secs(5);

/// Asks all members at `endpoints` for what following takes. One that answers is enough. Fails where none does and waiting does
/// not help: with a wrong password, a certificate for somebody else, at a place where there is no etcd.
pub async fn ask(endpoints: &[Endpoint], access: &Access) -> Result<Answers, RpcError> {
    let asked = join_all(endpoints.iter().map(|endpoint| allows(Member::new(endpoint.clone(), access)))).await;
    let mut faults = Vec::new();
    for answer in asked {
        match answer {
            Ok(()) => return Ok(Answers::Yes),
            Err(fault) => faults.push(fault),
        }
    }
    if let Some(lasting) = faults.iter().position(|error| is_lasting(&error.fault)) {
        return Err(faults.swap_remove(lasting));
    }
    // Without any endpoint there is nobody who could say no.
    Ok(faults.into_iter().next().map_or(Answers::Yes, Answers::NotNow))
}

/// Whether a member lets us do what etcd lets nobody else do: if so, we may do everything.
async fn allows(member: Member) -> Result<(), RpcError> {
    let asking = async {
        member.status().await?;
        // It is given up after its first piece.
        member.snapshot().await?.next().await.map(drop)
    };
    let late = |_| RpcError {
        endpoint: member.endpoint().clone(),
        action: "asking for a snapshot",
        fault: Fault::Deadline { after: SOON },
    };
    timeout(SOON, asking).await.map_err(late)?
}

/// Whether a member does not let us in, and goes on so.
pub(super) fn is_lasting(fault: &Fault) -> bool {
    matches!(fault, Fault::LoginNeeded | Fault::WrongPassword | Fault::Denied | Fault::NotEtcd { .. } | Fault::Tls(_))
}

/// A cluster, the member to ask, and how an archive goes on with it.
#[derive(Debug)]
pub struct Recognised {
    /// The cluster.
    pub sight: Sight,
    /// The member.
    pub member: u64,
    /// How it goes on.
    pub going_on: Resume,
}

/// Finds out whether the archive at `home` is the cluster's, or is to be.
pub async fn recognise(live: &Arc<dyn Live>, home: &Home, foreign: ForeignCluster) -> Result<Recognised, SessionError> {
    let sight = live.look().await?;
    let member = choose(&sight, None, None)?;
    let tip = home.with(|archive, home| archive.tip(&home.scratch)).await?;
    let going_on = resume(&**live, member, &sight, home, tip, foreign).await?;
    Ok(Recognised { sight, member, going_on })
}
