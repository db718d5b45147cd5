//! etcdbrctl, while it follows the same etcd at the same time: what one machine takes in one hour says little of another
//! hour, and of another machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::archive::{bytes_of, scratch};
use super::follower::Follower;
use crate::Result;

/// The program, while it runs.
pub(super) struct Etcdbrctl {
    follower: Follower,
    /// Its processor time when it was through with its full.
    before: f64,
}

/// What it took to follow.
pub(super) struct Theirs {
    /// Processor time in seconds.
    pub(super) cpu_seconds: f64,
    /// What it stores.
    pub(super) delta_bytes: f64,
    /// Peak of resident memory in MiB.
    pub(super) peak_mib: f64,
}

/// How long it may take for its full, and for the last of its deltas.
const WITHIN: Duration = Duration::from_secs(120);
/// Whoever takes nearly no processor time for so long has nothing to do.
const STILL: Duration = Duration::from_secs(1);
const NEARLY_NONE: f64 = 0.05;
/// Ours, not anybody's defaults: a delta every ten seconds or ten mebibytes, with gzip, and no full but the first.
const SETTINGS: [&str; 6] = [
    "--delta-snapshot-period=10s",
    "--delta-snapshot-memory-limit=10485760",
    "--schedule=0 0 1 1 *",
    "--defragmentation-schedule=0 0 1 1 *",
    "--garbage-collection-period=24h",
    "--compression-policy=gzip",
];

impl Etcdbrctl {
    /// Starts `program` for the etcd at `url`, and waits until it is through with its full, whose file is there before all
    /// of it is.
    pub(super) fn start(program: &Path, url: &str) -> Result<Self> {
        let folder = scratch()?;
        let mut command = Command::new(program);
        command.args(["snapshot", "--endpoints", url, "--storage-provider=Local", "--store-container=store"]);
        command.arg("--compress-snapshots").args(SETTINGS).arg("--snapstore-temp-directory").arg(folder.path());
        // It keeps local stores below the home of its user.
        command.env("HOME", folder.path()).current_dir(folder.path());
        let mut theirs = Self { follower: Follower::run(&mut command, folder)?, before: 0.0 };
        theirs.wait(|name| name.starts_with("Full-"))?;
        loop {
            theirs.before = theirs.follower.cpu()?;
            std::thread::sleep(STILL);
            if theirs.follower.cpu()? - theirs.before < NEARLY_NONE {
                break;
            }
        }
        theirs.follower.forget_peak()?;
        Ok(theirs)
    }

    /// What it has taken since its full, when it has stored everything up to `revision`.
    pub(super) fn until(&self, revision: i64) -> Result<Theirs> {
        self.wait(|name| last_revision(name).is_some_and(|last| last >= revision))?;
        let delta_bytes = bytes_of(self.follower.folder(), "/Incr-")? as f64;
        let cpu_seconds = self.follower.cpu()? - self.before;
        Ok(Theirs { cpu_seconds, delta_bytes, peak_mib: self.follower.peak_mib()? })
    }

    fn wait(&self, is_it: impl Fn(&str) -> bool) -> Result<()> {
        let until = Instant::now() + WITHIN;
        while !files_below(self.follower.folder()).iter().any(|path| is_it(&name_of(path))) {
            if Instant::now() > until {
                let log = self.follower.log();
                return Err(format!("etcdbrctl did not come so far in {} s:\n{log}", WITHIN.as_secs()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// The last revision of a delta: `Incr-<from>-<to>-<time>.gz`.
fn last_revision(name: &str) -> Option<i64> {
    name.strip_prefix("Incr-")?.split('-').nth(1)?.parse().ok()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}
