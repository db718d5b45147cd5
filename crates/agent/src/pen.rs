//! The right to write, held for as long as the agent lives.
//!
//! It is got when nobody else has it, renewed well before it ends, and got again when it was lost. Whoever writes looks
//! at it before something is sent and again when the store has acknowledged it.

use std::sync::Arc;
use std::time::Duration;

use archive::Error;
use archive::error::in_one_line;
use archive::fence::{Acquire, Candidate, Fence, FenceError, Gate, Permit, Terms, Tick};
use archive::identity::Epoch;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::home::Home;
use crate::stop::{Stop, Stopper};

/// Whether the right to write is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Right {
    /// It has not been asked for yet.
    #[default]
    Unknown,
    /// It is ours while the permit holds.
    Ours(Permit),
    /// Somebody else's.
    Theirs {
        /// What they are called.
        holder: String,
        /// Their epoch.
        epoch: Epoch,
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
    aside: Arc<Notify>,
    stop: Stopper,
    task: JoinSet<Result<(), Error>>,
}

/// Asks for the right to be given up for a while, for others who may do more with it.
#[derive(Debug, Clone)]
pub struct Aside(Arc<Notify>);

impl Aside {
    /// Asks. If the right is not ours, it is not asked for either for that while.
    pub fn ask(&self) {
        self.0.notify_waiters();
    }
}

/// What is told while it is given up.
const ASIDE: &str = "the cluster cannot be followed from here, so others may write";
/// How long a store that does not answer is left alone.
const PAUSE: Duration = Duration::from_secs(1);

impl Pen {
    /// Begins to ask for it.
    pub fn take_up(home: Home, me: Candidate, terms: Terms, highest: Epoch) -> Self {
        let (told, right) = watch::channel(Right::Unknown);
        let (stop, aside) = (Stopper::default(), Arc::new(Notify::new()));
        let mut task = JoinSet::new();
        task.spawn(hold(home, me, terms, highest, told, Arc::clone(&aside), stop.stop_signal()));
        Self { right, aside, stop, task }
    }

    /// What there is of it, whenever that changes.
    pub fn right(&self) -> watch::Receiver<Right> {
        self.right.clone()
    }

    /// What asks for the right to be given up for a while.
    pub fn aside(&self) -> Aside {
        Aside(Arc::clone(&self.aside))
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
    mut highest: Epoch,
    told: watch::Sender<Right>,
    aside: Arc<Notify>,
    mut stop: Stop,
) -> Result<(), Error> {
    let folder = home.folder();
    loop {
        let mut gate = Gate::new(&*home.store, &folder, Fence::new(me.clone(), terms, highest))?;
        // One gate for as long as it can be: how long a claim stands unchanged is what it has seen itself.
        let lost = loop {
            let end = tokio::select! {
                end = hold_once(&mut gate, &told, &mut highest) => end,
                () = aside.notified() => break None,
                () = stop.told() => return gate.release().await,
            };
            match end {
                Ok(()) => {}
                Err(Error::Fence(FenceError::Held { holder, .. })) => {
                    tell(&told, Right::Theirs { holder: holder.holder, epoch: holder.epoch });
                }
                Err(Error::Fence(lost)) => break Some(lost),
                Err(error) => {
                    tell(&told, Right::Untold { why: error.to_string() });
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = stop.told() => return gate.release().await,
                    }
                }
            }
        };
        let Some(lost) = lost else {
            tell(&told, Right::Untold { why: ASIDE.into() });
            if let Err(error) = gate.release().await {
                tracing::warn!(error = in_one_line(&error), "the right to write was not given up, and ends by itself");
            }
            tokio::select! {
                // Whoever stands by looks more often than that.
                () = tokio::time::sleep(terms.lasts / 2) => continue,
                () = stop.told() => return Ok(()),
            }
        };
        match lost {
            FenceError::Lost { by } => tell(&told, Right::Theirs { holder: by.holder, epoch: by.epoch }),
            FenceError::Unable
            | FenceError::OtherCluster { .. }
            | FenceError::Newer { .. }
            | FenceError::Malformed { .. } => {
                tell(&told, Right::Untold { why: lost.to_string() });
                return Err(lost.into());
            }
            lost => tell(&told, Right::Untold { why: lost.to_string() }),
        }
    }
}

fn tell(told: &watch::Sender<Right>, right: Right) {
    told.send_if_modified(|before| {
        let is_new = *before != right;
        *before = right;
        is_new
    });
}

/// Gets it, and renews it until it is lost.
async fn hold_once(gate: &mut Gate<'_>, told: &watch::Sender<Right>, highest: &mut Epoch) -> Result<(), Error> {
    // Short, so that who has it is told from time to time.
    let permit = gate.acquire(Acquire::Within(PAUSE)).await?;
    *highest = permit.epoch();
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
