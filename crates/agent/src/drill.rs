//! A drill: a point is restored into a sandbox, a real etcd starts on it, and has to agree with what the point's own
//! records say. So it is known that it can be restored, and how long that takes.
//!
//! The sandbox is a folder of its own and two loopback ports. The etcd in it is a cluster of one, reaches nobody, and is
//! gone with the folder when the drill ends, however it ends.
//!
//! - [`etcd`]: which etcd
//! - [`sandbox`]: where, and `leftovers` of it; `boot`: the etcd that runs there
//! - [`compare`]: what it is asked, and what it has to answer
//! - [`scheduled`]: all of it, for a point of an archive

mod boot;
pub mod compare;
mod error;
pub mod etcd;
mod leftovers;
pub mod sandbox;
pub mod scheduled;

use std::time::Duration;

use archive::proof::{DrillSteps, Evidence};

pub use compare::{Answers, Expected};
pub use error::DrillError;
pub use etcd::Etcd;
pub use sandbox::{Built, Sandbox, Subject};

/// What a drill has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drilled {
    /// What etcd answered, which is what was expected.
    pub answers: Answers,
    /// The version of etcd that started.
    pub version: String,
    /// What took how long.
    pub took: Took,
}

/// What took how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// Fetching, building and proving the directory.
    pub build: Duration,
    /// From the start of etcd until it was ready.
    pub start: Duration,
    /// Until it had answered.
    pub answer: Duration,
}

impl Took {
    /// All of it.
    pub fn all(&self) -> Duration {
        self.build + self.start + self.answer
    }
}

impl Drilled {
    /// What is recorded of it.
    pub fn evidence(&self) -> Evidence {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let Took { build, start, answer } = self.took;
        Evidence::Drilled {
            revision: self.answers.hash.revision,
            version: self.version.clone(),
            took_ms: ms(self.took.all()),
            steps: Some(DrillSteps { build_ms: ms(build), start_ms: ms(start), answer_ms: ms(answer) }),
        }
    }
}
