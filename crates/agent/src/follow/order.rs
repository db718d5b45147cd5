//! What can be asked of whoever follows.

use std::ops::{ControlFlow, RangeBounds};
use std::time::Duration;

use etcd_data::Revision;
use tokio::sync::{mpsc, oneshot};

use crate::stop::Stop;

/// To seal everything that the cluster has now, and to deliver it. Answered with the revision that was reached.
#[derive(Debug)]
pub struct Order(pub oneshot::Sender<Result<Revision, Refused>>);

/// It was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// Why not.
    pub why: String,
}

impl Order {
    /// Answers that it is not done.
    pub fn refuse(self, why: &str) {
        self.answer(Err(Refused { why: why.into() }));
    }

    /// Answers. Nobody need be waiting for it any more.
    pub fn answer(self, answer: Result<Revision, Refused>) {
        let _ = self.0.send(answer);
    }
}

/// Who waits for everything up to a revision to be delivered.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<(Revision, Order)>);

impl Waiting {
    /// One more, for everything up to `wanted`. Whoever waits no longer is forgotten: while the store is away, somebody may
    /// ask again and again.
    pub(crate) fn add(&mut self, wanted: Revision, order: Order) {
        self.0.retain(|(_, order)| !order.0.is_closed());
        self.0.push((wanted, order));
    }

    /// Whether somebody waits for one of the `revisions`.
    pub(crate) fn is_any(&self, revisions: impl RangeBounds<Revision>) -> bool {
        self.0.iter().any(|(wanted, _)| revisions.contains(wanted))
    }

    /// Answers whoever waits for no more than what is `delivered`.
    pub(crate) fn answer(&mut self, delivered: Revision) {
        for (_, order) in self.0.extract_if(.., |(wanted, _)| *wanted <= delivered) {
            order.answer(Ok(delivered));
        }
    }

    /// Answers all that it is not done.
    pub(crate) fn refuse(self, why: &str) {
        self.0.into_iter().for_each(|(_, order)| order.refuse(why));
    }
}

/// Lets `pause` go by, and answers meanwhile to whatever is asked for that it is not done. Whether it is time to stop.
pub(crate) async fn refuse_during(
    pause: Duration,
    orders: &mut mpsc::Receiver<Order>,
    why: &str,
    stop: &mut Stop,
) -> ControlFlow<()> {
    let mut pause = std::pin::pin!(tokio::time::sleep(pause));
    loop {
        tokio::select! {
            Some(order) = orders.recv() => order.refuse(why),
            () = stop.told() => return ControlFlow::Break(()),
            () = &mut pause => return ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stopper;

    #[test]
    fn who_waits_is_answered_in_time_and_who_waits_no_longer_is_forgotten() {
        let mut waiting = Waiting::default();
        for _ in 0..1000 {
            let (asked, given_up) = oneshot::channel();
            drop(given_up);
            waiting.add(Revision(5), Order(asked));
        }
        let (asked, mut answer) = oneshot::channel();
        waiting.add(Revision(7), Order(asked));
        assert_eq!(waiting.0.len(), 1);
        assert!(waiting.is_any(..=Revision(7)) && !waiting.is_any(..=Revision(6)));
        assert!(waiting.is_any(Revision(7)..=Revision(8)) && !waiting.is_any(Revision(8)..=Revision(9)));
        waiting.answer(Revision(6));
        answer.try_recv().unwrap_err();
        waiting.answer(Revision(8));
        assert_eq!(answer.try_recv().unwrap(), Ok(Revision(8)));

        let (asked, mut answer) = oneshot::channel();
        waiting.add(Revision(9), Order(asked));
        waiting.refuse("it ends");
        assert_eq!(answer.try_recv().unwrap().unwrap_err().to_string(), "it ends");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_in_a_pause_is_told_why_nothing_is_done() {
        let (orders, mut taken) = mpsc::channel(2);
        let stopper = Stopper::default();
        let mut stop = stopper.stop_signal();
        let (asked, answer) = oneshot::channel();
        orders.send(Order(asked)).await.unwrap();
        let day = Duration::from_secs(86_400);
        assert!(refuse_during(day, &mut taken, "nobody answers", &mut stop).await.is_continue());
        assert_eq!(answer.await.unwrap().unwrap_err().to_string(), "nobody answers");
        stopper.stop();
        assert!(refuse_during(day, &mut taken, "nobody answers", &mut stop).await.is_break());
        drop(orders);
        let mut stop = Stopper::default().stop_signal();
        assert!(refuse_during(day, &mut taken, "nobody can ask", &mut stop).await.is_continue());
    }
}
