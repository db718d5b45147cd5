//! A process of the test's own with its log, killed when it is dropped.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

const LONG: Duration = Duration::from_secs(180);

/// A process.
pub(crate) struct Server {
    process: Child,
    log: NamedTempFile,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let log = NamedTempFile::new().unwrap();
        command.stdin(Stdio::null()).stdout(log.reopen().unwrap()).stderr(log.reopen().unwrap());
        Self { process: command.spawn().unwrap(), log }
    }

    /// Waits until `ready` says so.
    pub(crate) fn wait_until(&mut self, ready: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !ready() {
            let said = || std::fs::read_to_string(self.log.path()).unwrap_or_default();
            assert!(self.process.try_wait().unwrap().is_none(), "it ended:\n{}", said());
            assert!(Instant::now() < deadline, "it does not answer:\n{}", said());
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
