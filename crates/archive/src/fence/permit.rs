//! What a holder shows to whoever writes for it.

use crate::fence::Tick;
use crate::identity::Epoch;

/// The right to write, for a while. It is shown before something is sent to the store, and again when the store has
/// acknowledged it: only then does that count as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    epoch: Epoch,
    until: Tick,
}

/// A permit has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the right to write (epoch {epoch}) has run out without being renewed")]
pub struct PermitEnded {
    /// Of which epoch it was.
    pub epoch: Epoch,
}

impl Permit {
    pub(crate) fn new(epoch: Epoch, until: Tick) -> Self {
        Self { epoch, until }
    }

    /// The epoch that headers have.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// When it ends.
    pub fn until(&self) -> Tick {
        self.until
    }

    /// That it holds at `now`.
    pub fn check(&self, now: Tick) -> Result<(), PermitEnded> {
        if now < self.until { Ok(()) } else { Err(PermitEnded { epoch: self.epoch }) }
    }
}
