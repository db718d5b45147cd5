//! A server in a process of its own, with what it prints.
//!
//! It does not outlive the tests, whether it is dropped, kept in a `static`, or the tests are killed: a second process
//! waits for the end of a pipe that only the tests hold, and ends the server then.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

const READY_WITHIN: Duration = Duration::from_secs(120);
/// How often a server is asked whether it answers.
const POLL: Duration = Duration::from_millis(20);

/// A child process and its log; killed and reaped when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    guard: Child,
    log: NamedTempFile,
}

impl Server {
    /// Starts `command`.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Server {
        let log = NamedTempFile::with_prefix(format!("{name}-log-")).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.reopen().unwrap())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}, {:?}: {error}", command.get_program()));
        let guard = Command::new("sh")
            .args(["-c", "read -r _; kill -9 \"$1\"", "sh", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        Server { name, child, guard, log }
    }

    /// Waits until `ready` says so.
    ///
    /// # Panics
    /// With the log, if the server ends first or takes too long.
    pub(crate) fn wait_until(&mut self, ready: impl Fn() -> bool) {
        let deadline = Instant::now() + READY_WITHIN;
        while !ready() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{} ended with {}:\n{}", self.name, ended.unwrap(), self.log());
            assert!(Instant::now() < deadline, "{} does not answer:\n{}", self.name, self.log());
            thread::sleep(POLL);
        }
    }

    /// What it has printed so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log.path()).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guard first: once the server is reaped, its number may be somebody else's. Each may fail because it has
        // already ended, which is what is wanted.
        for process in [&mut self.guard, &mut self.child] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
