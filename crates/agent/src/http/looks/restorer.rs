//! Who restores, where somebody does: the part of the agent that looks after a member's data directory.

use api::problem::Problem;
use api::restore::{Here, Plan, Read, Restoring, Wish};
use futures::future::BoxFuture;

/// Brings back a point on this machine.
pub trait Restorer: Send + Sync {
    /// What it would do to bring back what `read` tells of, or why it cannot. Changes nothing.
    fn here<'a>(&'a self, wish: &'a Wish, read: &'a Read) -> BoxFuture<'a, Result<Here, String>>;

    /// Begins to carry `plan` out, and comes back when it has begun: how it goes on is in the status. One at a time.
    fn restore(&self, plan: Plan) -> BoxFuture<'_, Result<Restoring, Problem>>;
}
