//! `cargo xtask bench archive`: restoring, merging and looking into archives of the standard work W1.
//!
//! No etcd is involved. What is measured runs in processes of its own, in turn with `cp` and fsync of what comes out,
//! which is what a disk and a kernel make of the same bytes.

mod line;
mod lookup;
mod memory;
mod merge;
mod ours;
mod place;
mod remote;
mod restore;
mod theirs;

use std::path::{Path, PathBuf};

use super::measure::Run;
use crate::{Result, say};

pub(super) use ours::header;
pub(super) use place::{bytes_of, link_all, scratch};
pub(super) use restore::restoring;

/// What etcdbrctl v0.44-dev takes on two cores.
mod peer {
    /// To restore W1, a full and 94 deltas, in seconds.
    pub(super) const RESTORE_SECONDS: f64 = 140.0;
    /// To compact it into a new full.
    pub(super) const COMPACT_SECONDS: f64 = 151.0;
    /// What its deltas take.
    pub(super) const DELTA_BYTES: f64 = 138e6;
}

/// How often everything is measured.
const RUNS: usize = 5;

/// Measures one thing of a program, and prints what came out.
type Measure = fn(&Path) -> Result<()>;

/// Measures one part, or all.
pub(crate) fn archive(part: Option<&str>, refloat: &Path) -> Result<()> {
    let parts: [(&str, Measure); 5] = [
        ("restore", restore::measure),
        ("merge", merge::measure),
        ("lookup", lookup::measure),
        ("line", line::measure),
        ("memory", memory::measure),
    ];
    let meant: Vec<_> = parts.iter().filter(|(name, _)| part.is_none_or(|part| part == *name)).collect();
    if meant.is_empty() {
        return Err("the parts are restore, merge, lookup, line and memory".into());
    }
    meant.iter().try_for_each(|(_, measure)| measure(refloat))
}

/// The archive of W1 that is measured: a full, and 94 deltas.
pub(super) fn w1() -> Result<PathBuf> {
    ours::Scaled::ONE.archive()
}

/// Says what something took, beside a copy of what it made, and beside a peer.
fn tell(name: &str, run: &Run, copy: &Run, peer_seconds: Option<f64>) {
    let peer = peer_seconds.map_or_else(String::new, |seconds| format!("{:>8.0}", seconds / run.wall));
    say(&format!(
        "{name:<40} {:>8.2} {:>8.2} {:>8.2} {:>10.1} {peer}",
        run.wall,
        run.cpu,
        run.wall / copy.wall,
        run.peak_mib
    ));
}

fn tell_head(what: &str) {
    say(&format!("\n{what:<40} {:>8} {:>8} {:>8} {:>10} {:>8}", "wall s", "cpu s", "× cp", "peak MiB", "× peer"));
}
