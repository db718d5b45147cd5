//! What can be asked of whoever follows.

use etcd_data::Revision;
use tokio::sync::{mpsc, oneshot};

/// What is asked for, and where the answer goes.
#[derive(Debug)]
pub enum Order {
    /// To seal everything that the cluster has now, and to deliver it. Answered with the revision that was reached.
    Seal(oneshot::Sender<Result<Revision, Refused>>),
    /// To take a full from etcd. Answered with its revision.
    Full(oneshot::Sender<Result<Revision, Refused>>),
}

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
        let (Self::Seal(asked) | Self::Full(asked)) = self;
        let _ = asked.send(answer);
    }
}

/// Answers everything that was asked for meanwhile.
pub(crate) fn refuse_all(orders: &mut mpsc::Receiver<Order>, why: &str) {
    while let Ok(order) = orders.try_recv() {
        order.refuse(why);
    }
}
