//! Holding the right to write: asking for it when it is wanted, renewing it, and getting it again when it was lost.

use std::sync::Arc;
use std::time::Duration;

use archive::Error;
use archive::error::in_one_line;
use archive::fence::{Candidate, Claim, Fence, FenceError, Gate, Instance, Terms};
use archive::identity::Epoch;
use tokio::sync::watch;

use super::earlier::Earlier;
use super::{PAUSE, Right, holder_since, renew};
use crate::home::Home;
use crate::stop::Stop;

/// Who holds it, from one gate to the next.
pub(super) struct Holder {
    pub(super) home: Home,
    pub(super) claimant: Claimant,
    pub(super) wanted: Wanted,
    pub(super) told: watch::Sender<Right>,
    pub(super) stop: Stop,
}

/// Who asks for it, and who is not waited for.
pub(super) struct Claimant {
    me: Candidate,
    terms: Terms,
    /// Who had it with the same spool.
    earlier: Option<Earlier>,
    /// Which process that was, if it is known to be gone.
    gone_here: Option<Instance>,
    /// Since which epoch somebody has it who is gone, as a person said.
    gone: Option<Epoch>,
    /// The highest epoch that is known.
    known: Epoch,
}

/// What it is asked for: as long as either is so.
pub(super) struct Wanted {
    /// There is something to write.
    pub(super) to_write: watch::Receiver<bool>,
    /// A start needs it, before there is.
    pub(super) to_build: watch::Receiver<bool>,
}

/// How it went at a gate.
enum Went {
    /// We are told to stop.
    Stopped,
    /// There is nothing to write any more.
    Unwanted,
    /// It was lost, or cannot be got.
    Lost(FenceError),
}

/// How long a claim that cannot be read is left alone.
const LONG_PAUSE: Duration = Duration::from_secs(15);
/// How often somebody else's claim is looked at before it ends, if it lasts for minutes. Others are looked at after each pause.
const LOOKS: u32 = 60;

impl Holder {
    /// Holds it whenever it is wanted, until it is told to stop.
    pub(super) async fn hold(mut self) -> Result<(), Error> {
        let (store, folder) = (Arc::clone(&self.home.store), self.home.folder());
        loop {
            tokio::select! {
                () = self.wanted.becomes(true) => {}
                () = self.stop.told() => return Ok(()),
            }
            // Anew each time: others may have written since, and what tells of them may be gone when it is looked at.
            let fence = tokio::select! {
                fence = self.claimant.fence(&self.home) => fence,
                () = self.stop.told() => return Ok(()),
            };
            let fence = match fence {
                Ok(fence) => fence,
                Err(error) => {
                    self.tell(Right::Untold { why: in_one_line(&error) });
                    if self.is_stopped_within(PAUSE).await {
                        return Ok(());
                    }
                    continue;
                }
            };
            let mut gate = Gate::new(&*store, &folder, fence)?;
            match self.hold_at(&mut gate).await {
                Went::Stopped => return gate.release().await,
                Went::Unwanted => {
                    self.tell(Right::LeftToOthers);
                    // A claim that could not be taken back ends by itself.
                    if let Err(error) = gate.release().await {
                        tracing::debug!(%error, "the right to write ends by itself");
                    }
                }
                Went::Lost(lost) => {
                    let pause = self.tell_lost(lost)?;
                    if self.is_stopped_within(pause).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Holds it at one gate for as long as it can be: how long a claim stands unchanged is what a gate has seen itself.
    async fn hold_at(&mut self, gate: &mut Gate<'_>) -> Went {
        loop {
            let end = tokio::select! {
                end = self.claimant.hold_once(gate, &self.told) => end,
                () = self.stop.told() => return Went::Stopped,
                () = self.wanted.becomes(false) => return Went::Unwanted,
            };
            let pause = match end {
                Ok(()) => continue,
                Err(Error::Fence(FenceError::Held { holder, .. })) => {
                    let pause = (holder.lasts() / LOOKS).saturating_sub(PAUSE).min(LONG_PAUSE);
                    self.tell(theirs(*holder));
                    pause
                }
                Err(Error::Fence(lost)) => return Went::Lost(lost),
                Err(error) => {
                    self.tell(Right::Untold { why: error.to_string() });
                    PAUSE
                }
            };
            if self.is_stopped_within(pause).await {
                return Went::Stopped;
            }
        }
    }

    /// Tells that it was `lost`, and how soon it is asked for again. Fails where that is no use.
    fn tell_lost(&self, lost: FenceError) -> Result<Duration, Error> {
        if let FenceError::Lost { by } = lost {
            self.tell(theirs(*by));
            return Ok(Duration::ZERO);
        }
        self.tell(Right::Untold { why: lost.to_string() });
        match lost {
            FenceError::Unable => Err(lost.into()),
            // What cannot be read may be a newer agent's, or be replaced by a person: nothing here ends for that.
            FenceError::OtherCluster { .. } | FenceError::Newer { .. } | FenceError::Malformed { .. } => Ok(LONG_PAUSE),
            _ => Ok(Duration::ZERO),
        }
    }

    fn tell(&self, right: Right) {
        tell(&self.told, right);
    }

    /// Waits, and tells whether it was told to stop meanwhile.
    async fn is_stopped_within(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = self.stop.told() => true,
        }
    }
}

impl Claimant {
    /// Who comes after whom `earlier` tells of, if that one is gone, and after who has it since the epoch `gone`.
    pub(super) fn new(me: Candidate, terms: Terms, earlier: Option<Earlier>, gone: Option<Epoch>) -> Self {
        let gone_here = earlier.as_ref().and_then(Earlier::gone);
        Self { me, terms, earlier, gone_here, gone, known: Epoch(0) }
    }

    /// The fence by what the archive tells: the highest epoch, and the process that a person said to be gone.
    async fn fence(&mut self, home: &Home) -> Result<Fence, Error> {
        let highest = home.highest_epoch().await?;
        let gone = match self.gone {
            Some(epoch) => holder_since(home, epoch).await?,
            None => None,
        };
        self.known = self.known.max(highest);
        let mut fence = Fence::new(self.me.clone(), self.terms, self.known);
        if let Some(gone) = gone.or(self.gone_here) {
            fence.comes_after(gone);
        }
        Ok(fence)
    }

    /// Gets it at `gate`, and renews it until it is lost.
    async fn hold_once(&mut self, gate: &mut Gate<'_>, told: &watch::Sender<Right>) -> Result<(), Error> {
        // Short, so that who has it is told from time to time.
        let permit = gate.acquire(PAUSE).await?;
        self.known = permit.epoch();
        if let Some(Err(error)) = self.earlier.as_ref().map(|earlier| earlier.note(self.me.instance)) {
            tracing::debug!(%error, "the next one waits for the right to write to end");
        }
        tell(told, Right::Ours(permit));
        renew(gate, |permit| tell(told, Right::Ours(permit))).await
    }
}

impl Wanted {
    /// Waits until it is `what`; for ever if nobody can change it any more.
    async fn becomes(&mut self, what: bool) {
        loop {
            let (to_write, to_build) = (*self.to_write.borrow_and_update(), *self.to_build.borrow_and_update());
            if (to_write || to_build) == what {
                return;
            }
            let changed = tokio::select! {
                changed = self.to_write.changed() => changed,
                changed = self.to_build.changed() => changed,
            };
            if changed.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

fn theirs(claim: Claim) -> Right {
    let Claim { holder, epoch, serves, .. } = claim;
    Right::Theirs { holder, epoch, serves }
}

fn tell(told: &watch::Sender<Right>, right: Right) {
    told.send_if_modified(|before| {
        let is_new = *before != right;
        *before = right;
        is_new
    });
}
