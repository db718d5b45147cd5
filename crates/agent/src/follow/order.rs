//! What can be asked of whoever follows.

use std::ops::ControlFlow;
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
