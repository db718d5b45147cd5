//! What following holds in memory while the store does not answer.

use std::thread;
use std::time::Duration;

use testkit::stores::{S3sFs, Toxic};

use super::etcd::Followed;
use super::follower::Follower;
use super::load::sending::Sending;
use super::{Bench, deltas, load, tell_table};
use crate::{Result, say};

const PER_SECOND: u64 = 5000;
const BUCKET: &str = "archive";
/// So late that nobody waits for it.
const STALLED: Duration = Duration::from_secs(3600);
/// How long the store may take to get everything after it was away.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(300);

/// Measures and prints.
pub(super) fn measure(bench: &Bench) -> Result<()> {
    tell_table(
        "| Writes of 1 KiB | Changes | Seconds | Store away, s | A second | Peak MiB, idle | Peak MiB | Behind at the end | CPU s |",
    );
    run(bench, "followed", &["--no-upkeep"])?;
    run(bench, "followed, merged and checked meanwhile", &[])
}

fn run(bench: &Bench, name: &str, more: &[&str]) -> Result<()> {
    let seconds = Duration::from_secs;
    let (lasting, away) =
        bench.by_length((seconds(20), seconds(6)), (seconds(75), seconds(20)), (seconds(600), seconds(120)));
    let followed = Followed::start()?;
    followed.write(load::puts().take(1))?;
    let server = S3sFs::start();
    let archive = server.bucket(BUCKET);
    let line = Toxic::before_url(&server.url());
    let credentials = [("AWS_ACCESS_KEY_ID", S3sFs::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3sFs::SECRET_KEY)];
    let (endpoint, url) = (line.url(), format!("s3://{BUCKET}"));
    let arguments = [&["--endpoint", &endpoint, "--region", "us-east-1"], more].concat();
    let follower = Follower::start(&bench.refloat, &followed.url(), &url, &arguments, &credentials)?;
    let told = |error: Box<dyn std::error::Error>| format!("{error}:\n{}", follower.log());
    deltas::wait_for(&archive, followed.revision()?, CAUGHT_UP_WITHIN).map_err(told)?;
    let idle = follower.peak_mib()?;
    let cpu = follower.cpu()?;

    let mut sending = Sending::to(followed.member()?);
    let written = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let writing = sending.send_steadily(load::puts(), PER_SECOND, lasting);
            followed.runtime.block_on(writing).map_err(|error| error.to_string())
        });
        thread::sleep(lasting.mul_f64(0.3));
        line.latency(STALLED);
        thread::sleep(away);
        line.latency(Duration::ZERO);
        line.cut();
        writing.join().map_err(|_| "whoever writes fell".to_owned())?
    });
    written?;
    let at_end = follower.peak_mib()?;
    let behind = followed.revision()? - deltas::reached(&archive).unwrap_or_default();
    deltas::wait_for(&archive, followed.revision()?, CAUGHT_UP_WITHIN).map_err(told)?;
    say(&format!(
        "| {name} | {} | {} | {} | {:.0} | {idle:.0} | {:.0} | {behind} | {:.1} |",
        sending.changes,
        lasting.as_secs(),
        away.as_secs(),
        sending.changes as f64 / elapsed(&sending),
        at_end.max(follower.peak_mib()?),
        follower.cpu()? - cpu,
    ));
    Ok(())
}

/// Seconds from the first acknowledgement to the last.
fn elapsed(sending: &Sending) -> f64 {
    let (first, last) = (sending.acknowledged.first(), sending.acknowledged.last());
    first.zip(last).map_or(0.0, |((_, first), (_, last))| last.duration_since(*first).as_secs_f64())
}
