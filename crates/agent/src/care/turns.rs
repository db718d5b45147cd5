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
pub struct CareStatus {
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
    pub told: watch::Sender<CareStatus>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// From one turn to the next, where there was nothing to be done.
const PAUSE: Duration = Duration::from_secs(10);
/// Where there was.
const SHORT_PAUSE: Duration = Duration::from_millis(500);

/// Why nobody takes care of the cluster, where no other agent is known to: two must not do so at once.
fn why_it_rests(right: &Right) -> Option<String> {
    match right {
        Right::Ours(_) | Right::Untold { .. } => {
            Some("nobody takes care of it before the right to write is renewed".into())
        }
        Right::Theirs { .. } | Right::LeftToOthers | Right::Unknown => None,
    }
}

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
                let why = why_it_rests(&self.right.borrow());
                self.told.send_if_modified(|told| {
                    let is_new = told.trouble != why || !told.notes.is_empty();
                    (told.notes, told.trouble) = (Vec::new(), why);
                    is_new
                });
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
            *told = CareStatus {
                notes,
                defragmented: outcome.or(told.defragmented.take()),
                next_defragmentation: next,
                trouble,
            };
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

#[cfg(test)]
mod tests {
    use archive::Epoch;

    use super::*;

    #[test]
    fn who_cannot_renew_the_right_to_write_tells_that_nobody_takes_care() {
        let theirs = Right::Theirs { holder: "m-1".into(), epoch: Epoch(3), serves: None };
        let untold = Right::Untold { why: "no route".into() };
        for (right, is_told) in [(untold, true), (theirs, false), (Right::LeftToOthers, false), (Right::Unknown, false)]
        {
            assert_eq!(why_it_rests(&right).is_some(), is_told, "{right:?}");
        }
    }
}
