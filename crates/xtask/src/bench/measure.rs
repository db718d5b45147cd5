//! Running a command and knowing what it took.
//!
//! The system tells peak memory only of all children together, so each command runs under a process of its own that
//! has no other: this program again, called as `measured`.

use std::ffi::OsStr;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};

use crate::{Result, say};

/// What one run of a command took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Seconds on the wall.
    pub(crate) wall: f64,
    /// Seconds of processor time, the system's included.
    pub(crate) cpu: f64,
    /// Peak of resident memory in MiB.
    pub(crate) peak_mib: f64,
}

/// Runs `program` with `arguments`, and fails if it does.
pub(crate) fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<Run> {
    let output = Command::new(std::env::current_exe()?)
        .args(["measured", program])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{program} ended with {}: {errors}", output.status).into());
    }
    let figures = errors.lines().rev().find_map(|line| line.strip_prefix("measured ")).ok_or("no figures")?;
    let mut figures = figures.split(' ').map(str::parse);
    let mut figure = || figures.next().ok_or("a figure is missing");
    Ok(Run { wall: figure()??, cpu: figure()??, peak_mib: figure()?? })
}

/// Runs a command, throws its output away, and prints what it took as the last line on stderr.
pub(crate) fn measured(command: &[&str]) -> Result<ExitCode> {
    let [program, arguments @ ..] = command else { return Err("measured: no command".into()) };
    let begun = Instant::now();
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    let wall = begun.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    say(&format!("measured {wall} {} {}", cpu_seconds(usage), usage.max_rss() as f64 / 1024.0));
    Ok(ExitCode::from(status.code().unwrap_or(1) as u8))
}

fn cpu_seconds(usage: Usage) -> f64 {
    let (user, system) = (usage.user_time(), usage.system_time());
    (user.tv_sec() + system.tv_sec()) as f64 + (user.tv_usec() + system.tv_usec()) as f64 / 1e6
}

/// The median of each figure by itself.
pub(crate) fn median(runs: &[Run]) -> Run {
    let of = |figure: fn(&Run) -> f64| {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    };
    Run { wall: of(|run| run.wall), cpu: of(|run| run.cpu), peak_mib: of(|run| run.peak_mib) }
}
