//! Who has the right to write and hears nothing of the cluster gives it up: another agent may be on the side that hears.
//!
//! Nothing is lost by it: what was sealed is delivered by whoever comes next, or by us, and one that is alone gets the
//! right back at once.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::follow::progress::{Mark, Standing};
use crate::pen::{Aside, Right};
use crate::stop::Stop;

/// Asks for the right to be given up whenever it was ours for `patience` while nothing was heard.
pub async fn stand_aside(
    mut standing: watch::Receiver<Standing>,
    mut right: watch::Receiver<Right>,
    aside: Aside,
    patience: Duration,
    mut stop: Stop,
) {
    let mut heard: Option<Mark> = None;
    let mut deaf_since = Instant::now();
    loop {
        let (is_ours, now) = (matches!(*right.borrow_and_update(), Right::Ours(_)), standing.borrow_and_update().seen);
        let is_deaf = is_ours && standing.borrow().trouble.is_some() && now == heard;
        if !is_deaf {
            (heard, deaf_since) = (now, Instant::now());
        }
        tokio::select! {
            changed = standing.changed() => if changed.is_err() { return },
            changed = right.changed() => if changed.is_err() { return },
            () = sleep_until(deaf_since + patience), if is_deaf => {
                tracing::warn!("nothing is heard of the cluster: others may write for a while");
                aside.ask();
                deaf_since = Instant::now();
            }
            () = stop.told() => return,
        }
    }
}
