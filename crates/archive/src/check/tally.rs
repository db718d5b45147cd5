//! How far a check has come, told while it is under way.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is told how many bytes are done, of how many. Several threads may tell it.
pub type Tell<'t> = dyn Fn(u64, u64) + Sync + 't;

/// The bytes that are done.
pub(super) struct Tally<'t> {
    done: AtomicU64,
    of: u64,
    tell: &'t Tell<'t>,
}

impl<'t> Tally<'t> {
    pub(super) fn new(of: u64, tell: &'t Tell<'t>) -> Self {
        Self { done: AtomicU64::new(0), of, tell }
    }

    /// Tells that so many more are done.
    pub(super) fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (self.tell)(done, self.of);
    }
}
