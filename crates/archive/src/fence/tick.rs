//! Time that only ever goes forward, for judging how long something has lasted.

use std::ops::Add;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How long it is since some moment that is the same for the whole run of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(pub Duration);

impl Tick {
    /// Now. It goes on while the machine sleeps, as the usual monotonic clock does not: a writer that was suspended
    /// must not think that no time has gone by.
    ///
    /// Who waits until a tick waits by tokio's clock. Where that is paused and told to go on, as tests do, ticks follow it.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        let (usual, of_tokio) = (Instant::now(), tokio::time::Instant::now().into_std());
        let now = Duration::new(seconds, nanos).saturating_add(of_tokio.saturating_duration_since(usual));
        Self(now.saturating_sub(usual.saturating_duration_since(of_tokio)))
    }

    /// How long after `earlier` this is; nothing if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_until_a_tick_finds_that_it_has_come() {
        const HOUR: Duration = Duration::from_secs(3600);
        let before = Tick::now();
        tokio::time::sleep(HOUR).await;
        let gone = Tick::now().since(before);
        // What is read of one clock after the other is not quite at once.
        assert!(gone.abs_diff(HOUR) < Duration::from_secs(10), "{gone:?}");
    }
}
