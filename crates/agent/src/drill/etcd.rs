//! The etcd that is started in a drill: one that was given, or the one on the PATH.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use etcd_data::Tables;
use etcd_data::facts::version_of;
use etcd_data::restore::options::{EtcdVersion, ForVersion};
use rustix::io::ioctl_fionbio;

use super::error::DrillError;
use crate::supervise::find;

/// An etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etcd {
    /// The program.
    pub path: PathBuf,
    /// Its version in full, as `3.6.16`.
    pub release: String,
    /// Its minor version.
    pub version: EtcdVersion,
    /// What sets the parent-death signal in the child, so that it ends with us; see [`crate::supervise`].
    pub launcher: Vec<OsString>,
}

/// How long an etcd may take to tell its version.
const TELLS_WITHIN: Duration = Duration::from_secs(20);
/// How often it is asked whether it has.
const POLL: Duration = Duration::from_millis(10);
/// No etcd says more of its version.
const MOST_SAID: u64 = 4096;

impl Etcd {
    /// The etcd that is `given`, or else the one on the PATH. It is started by `launcher`.
    pub fn find(given: Option<&Path>, launcher: Vec<OsString>) -> Result<Self, DrillError> {
        let missing = || DrillError::NoEtcd { given: given.map(Path::to_owned) };
        let path = find(given.map_or(OsStr::new("etcd"), Path::as_os_str)).ok_or_else(missing)?;
        let said = said(&path)?;
        let release = said.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(str::trim);
        let known = release.and_then(|release| Some((release.to_owned(), release.parse().ok()?)));
        let first = said.lines().next().unwrap_or_default().to_owned();
        let (release, version) = known.ok_or_else(|| DrillError::NotEtcd { path: path.clone(), said: first })?;
        Ok(Self { path, release, version, launcher })
    }

    /// The version that a directory with `tables` has to be built for, so that this etcd starts on it. One that is older
    /// than the data shows nothing of the data.
    pub fn build_for(&self, tables: &Tables) -> Result<ForVersion, DrillError> {
        let Ok(data) = version_of(tables).parse::<EtcdVersion>() else { return Ok(ForVersion::AsSource) };
        match self.version.cmp(&data) {
            std::cmp::Ordering::Less => {
                Err(DrillError::OlderEtcd { path: self.path.clone(), etcd: self.version, data })
            }
            std::cmp::Ordering::Equal => Ok(ForVersion::AsSource),
            std::cmp::Ordering::Greater => Ok(ForVersion::Version(self.version)),
        }
    }
}

/// What a program says of its version.
fn said(path: &Path) -> Result<String, DrillError> {
    let cannot = |action| move |source| DrillError::Io { action, path: path.into(), source };
    let mut command = Command::new(path);
    command.arg("--version").env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(cannot("starting"))?;
    let heard = hear(&mut child, Instant::now() + TELLS_WITHIN);
    // It may have ended, which is what is wanted.
    let _ = child.kill();
    let _ = child.wait();
    Ok(String::from_utf8_lossy(&heard.map_err(cannot("hearing"))?).into_owned())
}

/// What it says until it has ended, or until the deadline. The end of what it says is not waited for: what it has started
/// itself, and left running, could go on.
fn hear(child: &mut Child, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let Some(mut out) = child.stdout.take() else { return Ok(said) };
    ioctl_fionbio(&out, true)?;
    loop {
        let is_over = child.try_wait()?.is_some() || Instant::now() > deadline;
        let more = MOST_SAID.saturating_sub(said.len() as u64);
        match out.by_ref().take(more).read_to_end(&mut said) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ if is_over => return Ok(said),
            _ => thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn who_leaves_something_running_behind_has_told_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd");
        let script = "#!/bin/sh\necho etcd Version: 3.6.1\nsleep 300 &\necho $! > \"$0.left\"\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let begun = Instant::now();
        let found = Etcd::find(Some(&path), Vec::new());
        let took = begun.elapsed();
        let left = fs::read_to_string(folder.path().join("etcd.left")).unwrap();
        kill_process(Pid::from_raw(left.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        assert_eq!(found.unwrap().release, "3.6.1");
        assert!(took < TELLS_WITHIN, "{took:?}");
    }

    #[test]
    fn who_never_ends_its_word_is_not_heard_out() {
        let mut child =
            Command::new("sh").args(["-c", "while :; do echo no etcd; done"]).stdout(Stdio::piped()).spawn().unwrap();
        let said = hear(&mut child, Instant::now() + Duration::from_millis(200)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(said.len() as u64, MOST_SAID);
    }
}
