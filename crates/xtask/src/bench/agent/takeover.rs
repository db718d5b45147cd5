//! From the loss of the agent that writes until another one has sealed what was written since.

use std::time::{Duration, Instant};

use super::super::archive::scratch;
use super::etcd::Followed;
use super::follower::Follower;
use super::load::sending::Sending;
use super::{Bench, deltas, load, tell_table};
use crate::{Result, say};

const ROUNDS: usize = 5;
const PER_SECOND: u64 = 500;
const WITHIN: Duration = Duration::from_secs(60);
/// Long enough for the one that stands by to have been told who writes.
const SETTLED: Duration = Duration::from_secs(4);

/// Measures and prints.
pub(super) fn measure(bench: &Bench) -> Result<()> {
    let followed = Followed::start()?;
    followed.write(load::puts().take(1))?;
    let archive = scratch()?;
    let start = |name: &str| {
        Follower::start(&bench.refloat, &followed.url(), archive.path(), &["--no-upkeep", "--name", name], &[])
    };
    let mut writes = start("agent-0")?;
    deltas::wait_for(archive.path(), followed.revision()?, WITHIN)?;
    let mut times = Vec::new();
    for round in 1..=bench.by_length(1, ROUNDS, ROUNDS) {
        let stands_by = start(&format!("agent-{round}"))?;
        let mut sending = Sending::to(followed.member()?);
        followed.runtime.block_on(sending.send_steadily(load::puts(), PER_SECOND, SETTLED))?;
        let lost = Instant::now();
        // Killed, so that it cannot give the right up.
        drop(std::mem::replace(&mut writes, stands_by));
        followed.write(load::puts().take(1))?;
        let after = followed.revision()?;
        deltas::wait_for(archive.path(), after, WITHIN).map_err(|error| format!("{error}:\n{}", writes.log()))?;
        times.push(lost.elapsed());
    }
    times.sort();
    let seconds = |at: Option<&Duration>| at.copied().unwrap_or_default().as_secs_f64();
    tell_table("| The agent that writes is killed | Rounds | Median s | Longest s |");
    say(&format!(
        "| another has sealed what came after | {} | {:.1} | {:.1} |",
        times.len(),
        seconds(times.get(times.len() / 2)),
        seconds(times.last())
    ));
    Ok(())
}
