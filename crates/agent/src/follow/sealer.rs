//! The thread that seals.
//!
//! It is always the same one: an allocator keeps for each thread what that has needed at its most, and nothing else of
//! following needs as much as sealing. On a thread of many it would be kept many times.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::sync::oneshot;

/// One thread, and the way to it. It ends when it is dropped.
#[derive(Debug)]
pub struct Sealer(Sender<Job>);

type Job = Box<dyn FnOnce() + Send>;

impl Sealer {
    /// Starts it.
    pub fn start() -> io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        thread::Builder::new().name("seal".into()).spawn(move || todo.into_iter().for_each(|job| job()))?;
        Ok(Self(jobs))
    }

    /// Does `work` there, after what was given to it before.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = oneshot::channel();
        let job = move || {
            // Nobody may be waiting any more.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        };
        // The thread is there as long as this is.
        let _ = self.0.send(Box::new(job));
        match result.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn all_is_done_on_one_thread_also_after_a_panic() {
        let sealer = Sealer::start().unwrap();
        let here = || thread::current().id();
        let first = sealer.run(here).await;
        assert_ne!(first, here());
        let fallen = AssertUnwindSafe(sealer.run(|| panic!("on purpose"))).catch_unwind().await;
        assert!(fallen.is_err());
        assert_eq!(sealer.run(here).await, first);
    }
}
