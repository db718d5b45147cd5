//! The right to write, held for as long as the agent has something to write.
//!
//! It is got when nobody else has it, renewed well before it ends, and got again when it was lost. Whoever writes looks
//! at it before something is sent and again when the store has acknowledged it. An agent that can follow nobody leaves it
//! to others: one of them may reach the cluster, and a member that is brought back may know that nobody writes.
//!
//! - [`earlier`]: who need not be waited for

pub mod earlier;

use std::time::Duration;

use archive::Error;
use archive::error::in_one_line;
use archive::fence::{Acquire, Candidate, Claim, Fence, FenceError, Gate, Instance, Permit, Terms, Tick};
use archive::identity::Epoch;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::home::Home;
use crate::stop::{Stop, Stopper};
use earlier::Earlier;

/// Whether the right to write is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Right {
    /// It has not been asked for yet.
    #[default]
    Unknown,
    /// It is left to others, as long as there is nothing to write here.
    LeftToOthers,
    /// It is ours while the permit holds.
    Ours(Permit),
    /// Somebody else's.
    Theirs {
        /// What they are called.
        holder: String,
        /// Their epoch.
        epoch: Epoch,
        /// Where they are reached, if they were told.
        serves: Option<String>,
    },
    /// It cannot be told, because the store does not answer.
    Untold {
        /// Why.
        why: String,
    },
}

impl Right {
    /// The permit, if it holds now.
    pub fn permit(&self) -> Option<Permit> {
        match self {
            Self::Ours(permit) => Some(*permit).filter(|permit| permit.check(Tick::now()).is_ok()),
            _ => None,
        }
    }
}

/// A task that holds the right to write. Dropped, it is not renewed any more, and ends by itself.
pub struct Pen {
    right: watch::Receiver<Right>,
    stop: Stopper,
    task: JoinSet<Result<(), Error>>,
}

/// How long a store that does not answer is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a claim that cannot be read is left alone.
const LONG_PAUSE: Duration = Duration::from_secs(15);

impl Pen {
    /// Asks for it as long as it is `wanted`. Whom `earlier` tells of is not waited for.
    pub fn take_up(
        home: Home,
        me: Candidate,
        terms: Terms,
        wanted: watch::Receiver<bool>,
        earlier: Option<Earlier>,
    ) -> Self {
        let (told, right) = watch::channel(Right::Unknown);
        let stop = Stopper::default();
        let mut task = JoinSet::new();
        task.spawn(hold(home, me, terms, wanted, earlier, told, stop.stop_signal()));
        Self { right, stop, task }
    }

    /// What there is of it, whenever that changes.
    pub fn right(&self) -> watch::Receiver<Right> {
        self.right.clone()
    }

    /// Gives it up, so that the next one need not wait.
    pub async fn lay_down(mut self) -> Result<(), Error> {
        self.stop.stop();
        match self.task.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(_)) | None => Ok(()),
        }
    }
}

async fn hold(
    home: Home,
    me: Candidate,
    terms: Terms,
    mut wanted: watch::Receiver<bool>,
    earlier: Option<Earlier>,
    told: watch::Sender<Right>,
    mut stop: Stop,
) -> Result<(), Error> {
    let folder = home.folder();
    let gone = earlier.as_ref().and_then(Earlier::gone);
    let mut highest = None;
    loop {
        tokio::select! {
            () = becomes(&mut wanted, true) => {}
            () = stop.told() => return Ok(()),
        }
        let learned = match highest {
            Some(highest) => Ok(highest),
            None => tokio::select! {
                learned = home.highest_epoch() => learned,
                () = stop.told() => return Ok(()),
            },
        };
        let mut known = match learned {
            Ok(learned) => learned,
            Err(error) => {
                tell(&told, Right::Untold { why: in_one_line(&error) });
                if is_stopped_within(PAUSE, &mut stop).await {
                    return Ok(());
                }
                continue;
            }
        };
        let mut fence = Fence::new(me.clone(), terms, known);
        if let Some(gone) = gone {
            fence.comes_after(gone);
        }
        let mut gate = Gate::new(&*home.store, &folder, fence)?;
        // One gate for as long as it can be: how long a claim stands unchanged is what it has seen itself.
        let lost = loop {
            let end = tokio::select! {
                end = hold_once(&mut gate, me.instance, earlier.as_ref(), &told, &mut known) => end,
                () = stop.told() => return gate.release().await,
                () = becomes(&mut wanted, false) => {
                    tell(&told, Right::LeftToOthers);
                    break None;
                }
            };
            match end {
                Ok(()) => {}
                Err(Error::Fence(FenceError::Held { holder, .. })) => {
                    tell(&told, theirs(*holder));
                }
                Err(Error::Fence(lost)) => break Some(lost),
                Err(error) => {
                    tell(&told, Right::Untold { why: error.to_string() });
                    if is_stopped_within(PAUSE, &mut stop).await {
                        return gate.release().await;
                    }
                }
            }
        };
        highest = Some(known);
        let Some(lost) = lost else {
            // A claim that could not be taken back ends by itself.
            if let Err(error) = gate.release().await {
                tracing::debug!(%error, "the right to write ends by itself");
            }
            continue;
        };
        match lost {
            FenceError::Lost { by } => tell(&told, theirs(*by)),
            FenceError::Unable => {
                tell(&told, Right::Untold { why: lost.to_string() });
                return Err(lost.into());
            }
            // What cannot be read may be a newer agent's, or be replaced by a person: nothing here ends for that.
            FenceError::OtherCluster { .. } | FenceError::Newer { .. } | FenceError::Malformed { .. } => {
                tell(&told, Right::Untold { why: lost.to_string() });
                if is_stopped_within(LONG_PAUSE, &mut stop).await {
                    return Ok(());
                }
            }
            lost => tell(&told, Right::Untold { why: lost.to_string() }),
        }
    }
}

fn theirs(claim: Claim) -> Right {
    let Claim { holder, epoch, serves, .. } = claim;
    Right::Theirs { holder, epoch, serves }
}

/// Waits, and tells whether it was told to stop meanwhile.
async fn is_stopped_within(pause: Duration, stop: &mut Stop) -> bool {
    tokio::select! {
        () = tokio::time::sleep(pause) => false,
        () = stop.told() => true,
    }
}

/// Waits until `wanted` is `what`; for ever if nobody can change it any more.
async fn becomes(wanted: &mut watch::Receiver<bool>, what: bool) {
    if wanted.wait_for(|wanted| *wanted == what).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn tell(told: &watch::Sender<Right>, right: Right) {
    told.send_if_modified(|before| {
        let is_new = *before != right;
        *before = right;
        is_new
    });
}

/// Gets it for `me`, and renews it until it is lost.
async fn hold_once(
    gate: &mut Gate<'_>,
    me: Instance,
    earlier: Option<&Earlier>,
    told: &watch::Sender<Right>,
    highest: &mut Epoch,
) -> Result<(), Error> {
    // Short, so that who has it is told from time to time.
    let permit = gate.acquire(Acquire::Within(PAUSE)).await?;
    *highest = permit.epoch();
    if let Some(Err(error)) = earlier.map(|earlier| earlier.note(me)) {
        tracing::debug!(%error, "the next one waits for the right to write to end");
    }
    tell(told, Right::Ours(permit));
    renew(gate, |permit| tell(told, Right::Ours(permit))).await
}

/// Renews the right well before it ends, and tells each time, until it is lost.
pub(crate) async fn renew(gate: &mut Gate<'_>, mut told: impl FnMut(Permit)) -> Result<(), Error> {
    loop {
        tokio::time::sleep(gate.due().since(Tick::now())).await;
        match gate.renew().await {
            Ok(Some(permit)) => told(permit),
            Ok(None) => return Ok(()),
            // As long as it holds, it is tried again.
            Err(Error::Store(_)) if gate.permit().is_some() => tokio::time::sleep(PAUSE / 4).await,
            Err(error) => return Err(error),
        }
    }
}
