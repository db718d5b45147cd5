//! A member that runs while its cluster does not: its etcd is ended when the start of the member is to build the cluster anew,
//! or to join one that another has built.
//!
//! To end it is all that is done here. Whoever runs the wrapper starts it again, as after any other end, and it asks for the
//! data directory to be prepared: only then it is decided, by what is to be seen then.

use std::time::Duration;

use archive::fence::Tick;
use etcd_rpc::Tls;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Member, Prepared};
use crate::http::TokenFile;
use crate::neighbour::{Neighbour, NeighbourError, NoAnswer};
use crate::start::running::Beside;
use crate::stop::Stop;

/// How often the member is asked whether it has a leader.
const EVERY: Duration = Duration::from_secs(2);
/// How often, at the least, as long as there is none.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What runs around etcd, as `refloat wrap` does or the published wrapper.
#[derive(Debug)]
pub struct Wrapper {
    address: String,
    /// It serves with the certificates that etcd serves with.
    tls: Option<Tls>,
    token: Option<TokenFile>,
}

impl Wrapper {
    /// The one at `address`, which is shown what etcd is shown, and `token`.
    pub fn at(address: String, tls: Option<Tls>, token: Option<TokenFile>) -> Result<Self, NeighbourError> {
        let wrapper = Self { address, tls, token };
        wrapper.neighbour().map(|_| wrapper)
    }

    /// It, by the certificates as they are now: they may be renewed many times before anything is asked of it.
    fn neighbour(&self) -> Result<Neighbour, NeighbourError> {
        let tls = self.tls.as_ref();
        let identity = tls.and_then(|tls| tls.certificate.as_deref().zip(tls.key.as_deref()));
        Neighbour::new(&self.address, tls.and_then(|tls| tls.ca.as_deref()), identity, self.token.clone())
    }

    /// Has it end its etcd.
    async fn end_etcd(&self) -> Result<(), String> {
        let neighbour = self.neighbour().map_err(|error| error.to_string())?;
        neighbour.order("/stop").await.map_err(|(NoAnswer::Unreachable(why) | NoAnswer::Denied(why))| why)
    }
}

impl Member {
    /// Whether anything is ever done about a cluster that is lost while the member runs.
    pub fn outlives_its_cluster(&self) -> bool {
        !self.setup.place.is_alone() && self.setup.policy.gives_up_what_runs()
    }

    /// Looks after it while it runs, until told to stop.
    pub async fn outlive(self, wrapper: Wrapper, mut stop: Stop) {
        let (mut trouble, mut pause) = (None, EVERY);
        loop {
            let beside = tokio::select! {
                beside = self.end_if_lost(&wrapper, &mut trouble) => beside,
                () = stop.told() => return,
            };
            pause = match beside {
                Beside::Fine | Beside::Ends(_) => EVERY,
                Beside::Waits => (pause * 2).min(LONGEST_PAUSE),
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.told() => return,
            }
        }
    }

    async fn end_if_lost(&self, wrapper: &Wrapper, trouble: &mut Option<String>) -> Beside {
        // While it is made fit, its start looks by itself.
        let mut start = self.start.lock().await;
        let mut waits = self.waits.subscribe();
        let beside = tokio::select! {
            beside = start.look_while_it_runs() => beside,
            // Where packets vanish a look takes seconds, and what it changes is what the next one goes by.
            () = a_start_waits(&mut waits) => return Beside::Fine,
        };
        let Beside::Ends(decision) = &beside else { return beside };
        match wrapper.end_etcd().await {
            Ok(()) => {
                tracing::warn!(%decision, wrapper = wrapper.address, "etcd is ended, so that it can be started for that");
                let what = format!("{decision}: its etcd was ended for that, and is waited for to be started again");
                self.prepared.send_replace(Prepared::Preparing { since: Timestamp::now(), what });
                start.keep_right_for_start(decision, Tick::now());
                *trouble = None;
            }
            Err(why) => {
                // What was ended a moment ago may be asked for once more, before it is there again.
                start.leave_right_in_time(Tick::now());
                if trouble.as_ref() != Some(&why) {
                    tracing::error!(%decision, wrapper = wrapper.address, why, "etcd would have to end, and cannot be ended");
                    *trouble = Some(why);
                }
            }
        }
        beside
    }
}

/// Waits until a start is asked for.
async fn a_start_waits(waits: &mut watch::Receiver<bool>) {
    if waits.wait_for(|waits| *waits).await.is_err() {
        std::future::pending::<()>().await;
    }
}
