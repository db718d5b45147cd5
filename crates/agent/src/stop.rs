//! Being told to stop.

use tokio::sync::watch;

/// Tells everybody who listens to stop.
#[derive(Debug, Default)]
pub struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// Tells them.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whoever hears it.
    pub fn stop_signal(&self) -> Stop {
        Stop(self.0.subscribe())
    }
}

impl Stop {
    /// Whether it has been told.
    pub fn is_told(&self) -> bool {
        *self.0.borrow()
    }

    /// The same, for whoever asks now and then.
    pub fn told_so_far(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    /// Waits until it is told; for ever if nobody can tell any more.
    pub async fn told(&mut self) {
        if self.0.wait_for(|told| *told).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
