//! The time, as a test says it is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use store::memory::Clock;

/// A clock that goes on when it is told.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// A clock that shows `time`.
    pub fn at(time: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(time)))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    /// Goes on by `time`.
    pub fn advance(&self, time: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(time).unwrap();
    }

    /// The same time, told by a clock that is `ahead` of this one or, if negative, behind.
    pub fn skewed(&self, ahead: SignedDuration) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now().checked_add(ahead).unwrap())
    }
}
