//! The states of preparing a data directory. How it went is told once.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

/// Where preparing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nobody has asked for it, or how it went was told.
    #[default]
    New,
    /// It is being done.
    Progress,
    /// etcd may start.
    Successful,
    /// It may not.
    Failed,
}

impl State {
    /// Its name in the published protocol.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Progress => "Progress",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
        }
    }
}

/// The preparing of one data directory.
#[derive(Debug, Default)]
pub struct Initialization(Mutex<State>);

impl Initialization {
    /// Begins, if nobody has.
    pub(super) fn start(self: &Arc<Self>, work: impl FnOnce() -> BoxFuture<'static, Result<(), String>>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != State::New {
            return;
        }
        *state = State::Progress;
        let work = tokio::spawn(work());
        let told_to = Arc::clone(self);
        tokio::spawn(async move {
            let went = match work.await {
                Ok(Ok(())) => State::Successful,
                Ok(Err(why)) => {
                    tracing::error!(why, "the data directory could not be prepared");
                    State::Failed
                }
                // A defect of ours must not leave etcd waiting for good.
                Err(error) => {
                    tracing::error!(%error, "preparing the data directory broke off");
                    State::Failed
                }
            };
            *told_to.0.lock().unwrap_or_else(PoisonError::into_inner) = went;
        });
    }

    /// Where it is. How it went is told to the first who asks.
    pub(super) fn tell(&self) -> State {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Successful | State::Failed => std::mem::take(&mut state),
            State::New | State::Progress => *state,
        }
    }

    /// Where it is, for whoever is not etcd's side.
    pub(super) fn state(&self) -> State {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
