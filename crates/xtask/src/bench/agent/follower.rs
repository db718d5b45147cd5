//! A program that follows etcd and is measured, the agent or another: a process of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::Result;

/// The program, while it runs. Killed when it is dropped.
pub(super) struct Follower {
    child: Child,
    folder: TempDir,
}

/// What the system counts processor time in, on every Linux there is: hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

impl Follower {
    /// Starts `refloat agent`, with `arguments` and `environment`, for the etcd at `url` and into `archive`.
    pub(super) fn start<A: AsRef<OsStr>>(
        refloat: &Path,
        url: &str,
        archive: impl AsRef<OsStr>,
        arguments: &[A],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let folder = super::super::archive::scratch()?;
        let mut command = Command::new(refloat);
        command.arg("agent").arg(archive).args(["--endpoints", url, "--listen", "127.0.0.1:0"]).args(arguments);
        command.arg("--scratch").arg(folder.path()).envs(environment.iter().copied());
        // Not where agents of this machine remember whose archive is at the same place.
        command.arg("--spool").arg(folder.path().join("spool"));
        Self::run(&mut command, folder)
    }

    /// Runs `command`, whose files are in `folder`.
    pub(super) fn run(command: &mut Command, folder: TempDir) -> Result<Self> {
        let log = File::create(folder.path().join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(Self { child, folder })
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Seconds of processor time so far, the system's included.
    pub(super) fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, which may hold anything, is in parentheses.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
        let (user, system) = (times.next().ok_or("no user time")??, times.next().ok_or("no system time")??);
        Ok((user + system) as f64 / TICKS_PER_SECOND)
    }

    /// The peak of its resident memory so far, in MiB.
    pub(super) fn peak_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("it has ended")?;
        let kib: f64 = peak.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Forgets the peak so far.
    pub(super) fn forget_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }

    /// What it has said.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
