//! Capturing while the right to write is waited for: because the store is away, or an agent that died has it still.
//!
//! etcd does not wait: what it compacts until the store is back, nobody has seen. So an agent that is started again goes on
//! where its spool ends, in the same history, and by the right that the end of it was written by: a delta says who wrote it,
//! and that is whoever holds the spool. Nothing is delivered before the right to write is got anew. Then the archive tells
//! what becomes of it: where nobody else has written, it follows on the end of the archive and counts; where somebody has, the
//! higher epoch reigns, and it is sorted out like everything else that waited too long.

use archive::Epoch;
use archive::error::in_one_line;
use tokio::sync::watch;
use tokio::time::sleep;

use super::live::Trouble;
use super::resume::ForeignCluster;
use super::session::{End, Session, SessionError};
use super::{Follower, LONGEST_LOOK, PAUSE};
use crate::pen::Right;
use crate::stop::{Stop, Stopper};

/// What was learned meanwhile that whoever writes then has to know.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Learned {
    /// The cluster that was captured has become another, or gone back.
    pub(super) is_another: bool,
}

impl Follower {
    /// The one who captures while this one waits.
    pub(super) fn meanwhile(&self) -> Self {
        Self {
            live: self.live.clone(),
            home: self.home.clone(),
            spool: self.spool.clone(),
            rhythm: self.rhythm,
            foreign: ForeignCluster::Refuse,
            right: self.right.clone(),
            wanted: self.wanted.clone(),
            merged: self.merged.clone(),
            mending: self.mending.clone(),
            progress: self.progress.meanwhile(),
        }
    }

    /// Captures until it is told to stop; what is whole then is sealed. Another one who has begun to write is left to it.
    /// Nothing is captured if the spool does not tell where to go on, or it is not known how new objects are encrypted.
    pub(super) async fn capture_meanwhile(mut self, mut stop: Stop) -> Learned {
        let mut learned = Learned::default();
        let Some((end, _)) = self.spool.end() else { return learned };
        let home = tokio::select! {
            home = self.home.going_on_after(&end.header, &self.spool) => home,
            () = stop.told() => return learned,
        };
        let Some(home) = home else { return learned };
        self.home = home;
        // At once, the right is got most often.
        let mut pause = PAUSE;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.told() => return learned,
            }
            let recalled = tokio::select! {
                recalled = Session::recall(&self) => recalled,
                () = another_writes(&self.right, end.header.epoch) => return learned,
                () = stop.told() => return learned,
            };
            let error = match recalled {
                Ok(None) => return learned,
                Err(error) => error,
                Ok(Some(session)) => {
                    pause = PAUSE;
                    match self.watch_until(session, end.header.epoch, &mut stop).await {
                        End::Failed(error) => {
                            learned.is_another |= error.shows_another_history();
                            error
                        }
                        End::Stopped | End::Overtaken => return learned,
                    }
                }
            };
            // That no member answers, whoever waits tells too.
            if !matches!(error, SessionError::Live(Trouble::Away { .. }) | SessionError::Nobody(_)) {
                self.progress.trouble(in_one_line(&error), Some(error.waits_for()));
            }
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// Watches until it is told to stop, or another one writes by a higher right than `epoch`.
    async fn watch_until(&self, session: Session, epoch: Epoch, stop: &mut Stop) -> End {
        let enough = Stopper::default();
        let watching = session.watch_meanwhile(self, enough.stop_signal());
        let mut watching = std::pin::pin!(watching);
        tokio::select! {
            ended = &mut watching => return ended,
            () = another_writes(&self.right, epoch) => {}
            () = stop.told() => {}
        }
        enough.stop();
        watching.await
    }
}

/// Waits until somebody has the right to write by an epoch above `epoch`.
pub(super) async fn another_writes(right: &watch::Receiver<Right>, epoch: Epoch) {
    let theirs = |right: &Right| matches!(right, Right::Theirs { epoch: other, .. } if *other > epoch);
    if right.clone().wait_for(theirs).await.is_err() {
        std::future::pending::<()>().await;
    }
}
