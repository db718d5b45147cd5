//! What it costs to follow W1, and what is stored of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::archive::{bytes_of, scratch};
use super::super::w1::W1;
use super::etcd::Followed;
use super::etcdbrctl::{Etcdbrctl, Theirs};
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
    let beside = bench.beside.as_deref().map(|program| Etcdbrctl::start(program, &followed.url())).transpose()?;
    // What it does right after its full is not what is measured.
    std::thread::sleep(Duration::from_secs(3));
    follower.forget_peak()?;
    let (cpu, began) = (follower.cpu()?, Instant::now());
    let written = followed.write(Replay(work).deltas())?;
    let seconds = began.elapsed().as_secs_f64();
    sealed(&follower, archive, followed.revision()?)?;
    let (cpu, peak) = (follower.cpu()? - cpu, follower.peak_mib()?);
    let bytes = bytes_of(archive, "/delta/0/")? as f64;
    let theirs = match beside {
        Some(beside) => beside.until(followed.revision()?)?,
        None => published(work.operations as f64 / W1::STANDARD.operations as f64),
    };
    say(&format!(
        "| {name} | {} | {:.0} | {cpu:.1} | {:.2} | {:.1} | {:.2} | {peak:.0} | {:.2} |",
        written.changes,
        written.changes as f64 / seconds,
        cpu / theirs.cpu_seconds,
        bytes / 1e6,
        bytes / theirs.delta_bytes,
        peak / theirs.peak_mib,
    ));
    if bench.beside.is_some() {
        let Theirs { cpu_seconds, delta_bytes, peak_mib } = theirs;
        let megabytes = delta_bytes / 1e6;
        say(&format!(
            "| etcdbrctl, beside it | {} | | {cpu_seconds:.1} | 1 | {megabytes:.1} | 1 | {peak_mib:.0} | 1 |",
            written.changes
        ));
    }
    Ok(())
}

/// What it took elsewhere for a `part` of W1.
fn published(part: f64) -> Theirs {
    Theirs { cpu_seconds: peer::CPU_SECONDS * part, delta_bytes: peer::DELTA_BYTES * part, peak_mib: peer::PEAK_MIB }
}

/// Waits until `archive` reaches `revision`; what the follower said belongs to the failure.
fn sealed(follower: &Follower, archive: &Path, revision: i64) -> Result<()> {
    fs::metadata(archive)?;
    let reached = deltas::wait_for(archive, revision, SEALED_WITHIN);
    reached.map_err(|error| format!("{error}:\n{}", follower.log()).into())
}
