//! How long after etcd acknowledged a write it is sealed, and when a bare watch has it.

use std::time::{Duration, Instant};

use etcd_rpc::Member;
use tokio::sync::oneshot;

use super::super::archive::{bytes_of, scratch};
use super::etcd::Followed;
use super::follower::Follower;
use super::load::sending::Sending;
use super::{Bench, deltas, load, percentile, tell_table};
use crate::{Result, say};

const RATES: [u64; 2] = [1000, 5000];
const SEALED_WITHIN: Duration = Duration::from_secs(60);

/// Revisions, and when something became of them; in order.
type Times = Vec<(i64, Instant)>;

/// Measures and prints.
pub(super) fn measure(bench: &Bench) -> Result<()> {
    let lasting = Duration::from_secs(bench.by_length(5, 30, 30));
    tell_table(
        "| Writes a second, asked for | Written | Bare watch p50 ms | p99 | Sealed p50 ms | p99 | Longest | Deltas | MB | CPU s | Peak MiB |",
    );
    RATES.iter().try_for_each(|&rate| run(bench, rate, lasting))
}

fn run(bench: &Bench, rate: u64, lasting: Duration) -> Result<()> {
    let followed = Followed::start()?;
    followed.write(load::puts().take(1))?;
    let archive = scratch()?;
    let arguments = ["--seal-after", "1s", "--no-upkeep"];
    let follower = Follower::start(&bench.refloat, &followed.url(), archive.path(), &arguments, &[])?;
    let told = |error: Box<dyn std::error::Error>| format!("{error}:\n{}", follower.log());
    let begin = followed.revision()?;
    deltas::wait_for(archive.path(), begin, SEALED_WITHIN).map_err(told)?;
    std::thread::sleep(Duration::from_secs(2));

    follower.forget_peak()?;
    let cpu = follower.cpu()?;
    let lookout = deltas::Lookout::over(archive.path());
    let (stop, stopped) = oneshot::channel();
    let watching = followed.runtime.spawn(watch(followed.member()?, begin + 1, stopped));
    let mut sending = Sending::to(followed.member()?);
    followed.runtime.block_on(sending.send_steadily(load::puts(), rate, lasting))?;
    deltas::wait_for(archive.path(), followed.revision()?, SEALED_WITHIN).map_err(told)?;
    // Whoever watches has ended by itself if it failed.
    let _ = stop.send(());
    let watched = followed.runtime.block_on(watching)??;
    let sealed = lookout.end()?;
    let (cpu, peak, bytes) = (follower.cpu()? - cpu, follower.peak_mib()?, bytes_of(archive.path(), "/delta/0/")?);

    let acknowledged = &sending.acknowledged;
    let (bare, late) = (after(acknowledged, &watched), after(acknowledged, &sealed));
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    say(&format!(
        "| {rate} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {} | {:.1} | {cpu:.1} | {peak:.0} |",
        acknowledged.len() as f64 / lasting.as_secs_f64(),
        milliseconds(percentile(&bare, 50)),
        milliseconds(percentile(&bare, 99)),
        milliseconds(percentile(&late, 50)),
        milliseconds(percentile(&late, 99)),
        milliseconds(late.last().copied().unwrap_or_default()),
        sealed.len(),
        bytes as f64 / 1e6,
    ));
    Ok(())
}

/// Watches until it is told to stop.
async fn watch(member: Member, from: i64, mut stop: oneshot::Receiver<()>) -> std::result::Result<Times, String> {
    let mut watch = member.watch(from).await.map_err(|error| error.to_string())?;
    let mut seen = Times::new();
    loop {
        tokio::select! {
            next = watch.next() => {
                let now = Instant::now();
                let next = next.map_err(|error| error.to_string())?;
                seen.extend(next.events.iter().map(|event| (event.revision(), now)));
            }
            _ = &mut stop => return Ok(seen),
        }
    }
}

/// How long after each revision was acknowledged `later` had come as far; sorted.
fn after(acknowledged: &Times, later: &Times) -> Vec<Duration> {
    let mut times: Vec<Duration> = acknowledged
        .iter()
        .filter_map(|(revision, at)| {
            let reached = later.partition_point(|(reached, _)| reached < revision);
            Some(later.get(reached)?.1.saturating_duration_since(*at))
        })
        .collect();
    times.sort();
    times
}
