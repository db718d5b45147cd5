//! The thread that seals.
//!
//! It is always the same one: an allocator keeps for each thread what that has needed at its most, and nothing else of
//! following needs as much as sealing. On a thread of many it would be kept many times.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::sync::{oneshot, watch};

/// One thread, and the way to it. It ends when it is dropped.
#[derive(Debug)]
pub struct Sealer {
    jobs: Sender<Job>,
    /// How much it has to do.
    under_way: watch::Sender<usize>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Sealer {
    /// Starts it.
    pub fn start() -> io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        thread::Builder::new().name("seal".into()).spawn(move || todo.into_iter().for_each(|job| job()))?;
        Ok(Self { jobs, under_way: watch::Sender::default() })
    }

    /// Does `work` there, after what was given to it before.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = oneshot::channel();
        let under_way = self.under_way.clone();
        under_way.send_modify(|count| *count += 1);
        let job = move || {
            let came = catch_unwind(AssertUnwindSafe(work));
            under_way.send_modify(|count| *count -= 1);
            // Nobody may be waiting any more.
            let _ = done.send(came);
        };
        // The thread is there as long as this is.
        let _ = self.jobs.send(Box::new(job));
        match result.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until it has nothing to do, also for those who wait no longer.
    pub(crate) async fn rest(&self) {
        // It cannot be closed while this is there.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
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
