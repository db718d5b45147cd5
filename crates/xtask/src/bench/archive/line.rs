//! Restoring W1 from S3: how near it, and with a line of some width.

use std::path::Path;
use std::time::{Duration, Instant};

use archive::At;
use archive::plan::Wanted;
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan, restore};
use store::Counts;

use super::super::work;
use super::ours::{self, Scaled};
use super::place;
use super::remote::Remote;
use crate::{Result, say};

const LATENCIES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(20)];
/// Bytes in a second; 0 is as many as go. A tenth of a fast network, so that the line decides and not the processor.
const BANDWIDTHS: [u64; 2] = [0, 25_000_000];
const RUNS: usize = 3;

/// Measures and prints.
pub(super) fn measure(_: &Path) -> Result<()> {
    for (name, folder) in [("W1", Scaled::ONE.archive()?), ("W1, levels merged", Scaled::ONE.merged()?)] {
        say(&format!("\n{name} from S3"));
        say(&format!(
            "{:>10} {:>10} {:>8} {:>10} {:>9} {:>10} {:>12} {:>14}",
            "latency ms", "MB/s", "wall s", "requests", "MB", "bytes/line", "× that", "connections"
        ));
        for bandwidth in BANDWIDTHS {
            for latency in LATENCIES {
                let mut runs = (0..RUNS).map(|_| once(&folder, latency, bandwidth)).collect::<Result<Vec<_>>>()?;
                runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
                let Some(median) = runs.get(RUNS / 2) else { continue };
                tell(latency, bandwidth, median);
            }
        }
    }
    Ok(())
}

/// What one restore took.
struct Took {
    seconds: f64,
    counts: Counts,
    connections: u64,
}

fn once(folder: &Path, latency: Duration, bandwidth: u64) -> Result<Took> {
    let remote = Remote::s3(folder)?;
    remote.line.latency(latency);
    remote.line.bandwidth(bandwidth);
    let (runtime, scratch) = (ours::runtime()?, place::scratch()?);
    let target = scratch.path().join("made");
    rustix::fs::sync();
    let begun = Instant::now();
    let (archive, counting) = remote.open(&runtime)?;
    let agreed = archive.agree(&Wanted::default(), &At::Latest, scratch.path())?;
    let point = archive.open_whole(&agreed, scratch.path())?;
    let options = Options::new(&target, Token::unique()?, "bench");
    restore(&point.database, &Plan::make(&point.database, &options)?, &mut |_| {})?;
    let seconds = begun.elapsed().as_secs_f64();
    work::remove(&target)?;
    Ok(Took { seconds, counts: counting.take(), connections: remote.line.connections() })
}

fn tell(latency: Duration, bandwidth: u64, took: &Took) {
    let Took { seconds, counts, connections } = took;
    let line = counts.bytes_read as f64 / bandwidth as f64;
    let (limit, line, ratio) = match bandwidth {
        0 => ("-".into(), "-".into(), "-".into()),
        limit => (format!("{:.0}", limit as f64 / 1e6), format!("{line:.2}"), format!("{:.2}", seconds / line)),
    };
    say(&format!(
        "{:>10} {limit:>10} {seconds:>8.2} {:>10} {:>9.1} {line:>10} {ratio:>12} {connections:>14}",
        latency.as_millis(),
        counts.requests(),
        counts.bytes_read as f64 / 1e6,
    ));
}
