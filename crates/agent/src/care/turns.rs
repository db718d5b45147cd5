//! Taking turns: as long as this agent is the one that writes, and knows how far the archive has come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use archive::error::in_one_line;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Care, Note, Step, Turn};
use crate::follow::progress::Standing;
use crate::metrics::{MemberChange, Metrics};
use crate::pen::Right;
use crate::stop::Stop;
use crate::upkeep::Outcome;

/// What is told of the care that is taken.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// What a person should know.
    pub notes: Vec<Note>,
    /// How the last defragmentation went.
    pub defragmented: Option<Outcome>,
    /// When members are defragmented next, if there is a schedule.
    pub next_defragmentation: Option<Timestamp>,
    /// Why the cluster could not be looked at, or a step of it not be done.
    pub trouble: Option<String>,
}

/// Whoever takes them.
pub struct Turns {
    /// The care.
    pub care: Care,
    /// The right to write: who has it takes the turns.
    pub right: watch::Receiver<Right>,
    /// How far the archive has come.
    pub standing: watch::Receiver<Standing>,
    /// What is told.
    pub told: watch::Sender<Told>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// From one turn to the next, where there was nothing to be done.
const PAUSE: Duration = Duration::from_secs(10);
/// Where there was.
const SHORT_PAUSE: Duration = Duration::from_millis(500);

impl Turns {
    /// Takes turns until it is told to stop.
    pub async fn take(mut self, mut stop: Stop) {
        loop {
            let mut pause = PAUSE;
            if self.right.borrow().permit().is_some() {
                // A step that has begun is done: etcd would go on with it anyway.
                if self.turn().await {
                    pause = SHORT_PAUSE;
                }
            } else {
                self.told.send_if_modified(|told| !std::mem::take(&mut told.notes).is_empty());
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.told() => return,
            }
        }
    }

    /// One turn. Whether it did something.
    async fn turn(&mut self) -> bool {
        let kept = self.standing.borrow().sealed.map(|sealed| sealed.revision.0);
        let began = Instant::now();
        let turn = self.care.turn(kept, Timestamp::now()).await;
        let next = self.care.next_due();
        let told = match turn {
            Err(error) => {
                // That no member answers, following tells too.
                self.told.send_modify(|told| told.trouble = Some(in_one_line(&error)));
                return false;
            }
            Ok(turn) => turn,
        };
        self.count(&told, began.elapsed());
        let Turn { seen, notes, did, failed } = told;
        let outcome = did.as_ref().filter(|step| matches!(step, Step::Defragment { .. })).map(|step| {
            let what = step.told(&seen);
            let result =
                failed.as_ref().map_or(Ok(what.clone()), |error| Err(format!("{what}: {}", in_one_line(error))));
            Outcome { at: Timestamp::now(), took: began.elapsed(), result }
        });
        let trouble = did.as_ref().zip(failed.as_ref());
        let trouble = trouble.map(|(step, error)| format!("{}: {}", step.told(&seen), in_one_line(error)));
        let succeeded = did.is_some() && failed.is_none();
        if let Some(trouble) = &trouble {
            tracing::warn!(trouble, "a step of care failed");
        }
        self.told.send_modify(|told| {
            *told =
                Told { notes, defragmented: outcome.or(told.defragmented.take()), next_defragmentation: next, trouble };
        });
        succeeded
    }

    fn count(&self, turn: &Turn, took: Duration) {
        let succeeded = turn.failed.is_none();
        match &turn.did {
            Some(Step::Defragment { member, .. }) => {
                let urls = turn.seen.member(*member).map(|member| member.listed.client_urls.as_slice());
                let endpoint = urls.and_then(|urls| urls.first()).cloned().unwrap_or_else(|| format!("{member:x}"));
                self.metrics.defragmented(&endpoint, took, succeeded);
            }
            Some(Step::Promote { .. }) => self.metrics.member_changed(MemberChange::Promote, took, succeeded),
            _ => {}
        }
    }
}
