//! What it costs to follow W1, and what is stored of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::archive::{bytes_of, scratch};
use super::super::w1::W1;
use super::etcd::Followed;
use super::follower::Follower;
use super::load::Replay;
use super::{Bench, Length, deltas, peer, tell_table};
use crate::{Result, say};

/// How long the last changes may take to be sealed.
const SEALED_WITHIN: Duration = Duration::from_secs(120);

/// Measures and prints.
pub(super) fn measure(bench: &Bench) -> Result<()> {
    let part = W1 { keys: W1::STANDARD.keys / 20, operations: W1::STANDARD.operations / 20, ..W1::STANDARD };
    let work = bench.by_length(part, W1::STANDARD, W1::STANDARD);
    tell_table(
        "| W1's deltas | Changes | A second | CPU s | ÷ etcdbrctl | MB | ÷ etcdbrctl | Peak MiB | ÷ etcdbrctl |",
    );
    run(bench, work, "followed", &["--no-upkeep"])?;
    match bench.length {
        Length::Usual => Ok(()),
        Length::Short | Length::Long => run(bench, work, "followed, merged and checked meanwhile", &[]),
    }
}

fn run(bench: &Bench, work: W1, name: &str, arguments: &[&str]) -> Result<()> {
    let followed = Followed::start()?;
    followed.write(Replay(work).full())?;
    let folder = scratch()?;
    let archive = folder.path();
    let follower = Follower::start(&bench.refloat, &followed.url(), archive, arguments, &[])?;
    sealed(&follower, archive, followed.revision()?)?;
    // What it does right after its full is not what is measured.
    std::thread::sleep(Duration::from_secs(3));
    follower.forget_peak()?;
    let (cpu, began) = (follower.cpu()?, Instant::now());
    let written = followed.write(Replay(work).deltas())?;
    let seconds = began.elapsed().as_secs_f64();
    sealed(&follower, archive, followed.revision()?)?;
    let (cpu, peak) = (follower.cpu()? - cpu, follower.peak_mib()?);
    let bytes = bytes_of(archive, "/delta/0/")? as f64;
    // The peer's figures are those of all of W1.
    let part = work.operations as f64 / W1::STANDARD.operations as f64;
    say(&format!(
        "| {name} | {} | {:.0} | {cpu:.1} | {:.2} | {:.1} | {:.2} | {peak:.0} | {:.2} |",
        written.changes,
        written.changes as f64 / seconds,
        cpu / part / peer::CPU_SECONDS,
        bytes / 1e6,
        bytes / part / peer::DELTA_BYTES,
        peak / peer::PEAK_MIB,
    ));
    Ok(())
}

/// Waits until `archive` reaches `revision`; what the follower said belongs to the failure.
fn sealed(follower: &Follower, archive: &Path, revision: i64) -> Result<()> {
    fs::metadata(archive)?;
    let reached = deltas::wait_for(archive, revision, SEALED_WITHIN);
    reached.map_err(|error| format!("{error}:\n{}", follower.log()).into())
}
