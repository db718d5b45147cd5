//! Whole agents: they keep the archive, too, and tell how everything is.

use std::sync::Arc;
use std::time::Duration;

use agent::follow::order::Order;
use agent::free_memory::FreeMemory;
use agent::home::Home;
use agent::member::Prepared;
use agent::run::{Agent, Settings};
use agent::upkeep::Schedule;
use api::status::{Status, Verdict};
use archive::fence::Terms;
use etcd_data::Revision;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::cluster::Scripted;
use crate::world::{A_MOMENT, RHYTHM, SOON, TERM, World};

/// Everything is read again each minute.
pub(crate) fn reading_often() -> Schedule {
    let minute = Duration::from_secs(60);
    let nothing_goes = Schedule { prune_every: None, ..Schedule::default() };
    Schedule { verify_every: minute, reread_every: minute, reread_within: minute, ..nothing_goes }
}

impl World {
    /// An agent that has everything, and keeps the archive at `others` as well.
    pub(crate) async fn begin_whole(&self, which: usize, schedule: Schedule, others: Vec<(Home, Schedule)>) -> Agent {
        let (home, spool) = self.home_of(which).await.unwrap();
        let settings = Settings {
            name: format!("agent {which}"),
            serves: None,
            rhythm: RHYTHM,
            schedule: Some(schedule),
            others,
            terms: Terms::lasting(TERM),
            gone: None,
            spool,
            foreign: agent::follow::resume::ForeignCluster::Refuse,
            restoring: watch::Sender::new(None).subscribe(),
            care: None,
            prepared: watch::Sender::new(Prepared::default()).subscribe(),
            brought_back: watch::Sender::default().subscribe(),
            certificates: Vec::new(),
            memory: FreeMemory::default(),
        };
        Agent::begin(Arc::new(Scripted(Arc::clone(&self.cluster))), home, settings).unwrap()
    }
}

/// Waits until everything is sealed.
pub(crate) async fn seal(agent: &Agent) -> Revision {
    let sealed = async {
        loop {
            let (asked, answer) = oneshot::channel();
            agent.orders.send(Order(asked)).await.unwrap();
            // Who has just begun refuses.
            if let Ok(Ok(revision)) = answer.await {
                return revision;
            }
            sleep(A_MOMENT).await;
        }
    };
    timeout(SOON, sealed).await.expect("it is sealed")
}

/// Waits until it tells what `is_it`.
pub(crate) async fn until_told(agent: &Agent, is_it: impl Fn(&Status) -> bool) -> Arc<Status> {
    let mut status = agent.status.clone();
    let told = timeout(SOON, status.wait_for(|status| is_it(status))).await;
    let told = told.map(|told| Arc::clone(&told.unwrap()));
    told.unwrap_or_else(|_| panic!("it never told that: {:#?}", agent.status.borrow()))
}

pub(crate) fn is_recoverable(status: &Status) -> bool {
    status.recoverable.verdict == Verdict::Yes
}

/// Stops it. A store that fails may keep it from laying the right to write down, which then runs out.
pub(crate) async fn stop(agent: Agent) {
    let _ = agent.stop().await;
}
