//! `cargo xtask bench agent`: what following a real etcd costs, how late it seals, and how soon etcd serves again when its disk
//! is gone.
//!
//! The agent is the released program, in a process of its own; the etcd beside it does not fsync, so that a disk
//! that is shared by both has less of a part in the figures. What is printed are the rows of `docs/performance.md`.

mod capture;
mod deltas;
mod etcd;
mod etcdbrctl;
mod follower;
mod latency;
mod load;
mod memory;
mod serving;
mod takeover;

use std::path::PathBuf;
use std::time::Duration;

use crate::{Result, say};

/// What etcdbrctl v0.44-dev takes to capture W1's deltas on two cores.
mod peer {
    /// Processor time in seconds.
    pub(super) const CPU_SECONDS: f64 = 24.0;
    /// What it stores.
    pub(super) const DELTA_BYTES: f64 = 138e6;
    /// Peak of resident memory in MiB.
    pub(super) const PEAK_MIB: f64 = 95e6 / 1048576.0;
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Just enough to show that it works: a twentieth of W1, and seconds of the rest.
    Short,
    /// All of W1, and a minute or so of writing for the memory: less than ten minutes in all.
    Usual,
    /// All of W1 once more with upkeep, and ten minutes of writing, twice.
    Long,
}

/// What is measured, and how.
struct Bench {
    length: Length,
    /// The program that is measured.
    refloat: PathBuf,
    /// An etcdbrctl that follows the same at the same time, to be compared with.
    beside: Option<PathBuf>,
}

/// Measures one thing, and prints what came out.
type Measure = fn(&Bench) -> Result<()>;

/// Measures one part, or all.
pub(crate) fn agent(arguments: &[&str], refloat: PathBuf) -> Result<()> {
    let parts: [(&str, Measure); 5] = [
        ("capture", capture::measure),
        ("memory", memory::measure),
        ("latency", latency::measure),
        ("serving", serving::measure),
        ("takeover", takeover::measure),
    ];
    let (mut length, mut wanted, mut beside) = (Length::Usual, None, None);
    let mut arguments = arguments.iter().copied();
    while let Some(argument) = arguments.next() {
        match argument {
            "--beside" => beside = Some(arguments.next().ok_or("--beside which etcdbrctl?")?.into()),
            "--short" => length = Length::Short,
            "--long" => length = Length::Long,
            part => wanted = Some(part),
        }
    }
    let meant: Vec<_> = parts.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name)).collect();
    if meant.is_empty() {
        return Err("the parts are capture, memory, latency, serving and takeover".into());
    }
    let bench = Bench { length, refloat, beside };
    meant.iter().try_for_each(|(_, measure)| measure(&bench))
}

impl Bench {
    /// One of three, by how much is done.
    fn by_length<T>(&self, short: T, usual: T, long: T) -> T {
        match self.length {
            Length::Short => short,
            Length::Usual => usual,
            Length::Long => long,
        }
    }
}

/// The line under the head of a table of `columns`, the first of which is text.
fn tell_table(head: &str) {
    let columns = head.matches('|').count() - 1;
    say(&format!("\n{head}\n|{}", "---|".repeat(columns)));
}

/// What a part of `whole` is, in hundredths, of times that are in order.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}
