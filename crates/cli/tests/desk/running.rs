//! `refloat` as a process that goes on until it is told to stop.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::Ends;

/// Several times what a loaded machine takes for anything here.
const LONG: Duration = Duration::from_secs(180);

/// A process that runs. Dropped, it is killed.
pub(crate) struct Running {
    process: Child,
    log: PathBuf,
    page: SocketAddr,
}

impl Running {
    /// Starts `refloat` with `args`, which serves its page at `page` and logs to `log`.
    pub(crate) fn start(args: &[&str], page: SocketAddr, log: &Path) -> Self {
        Self::begin(Command::new(env!("CARGO_BIN_EXE_refloat")).args(args), page, log)
    }

    /// Starts `command`, which is `refloat`, in whatever surroundings.
    pub(crate) fn begin(command: &mut Command, page: SocketAddr, log: &Path) -> Self {
        Self::spawn(command.args(["--listen", &page.to_string()]), page, log)
    }

    /// Starts `command`, which runs `refloat` in the end, and says itself that the page is to be served at `page`.
    pub(crate) fn spawn(command: &mut Command, page: SocketAddr, log: &Path) -> Self {
        let file = fs::File::options().create(true).append(true).open(log).unwrap();
        let process = command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { process, log: log.into(), page }
    }

    /// Waits until what it tells of itself satisfies `is_so`.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LONG;
        let mut last = Value::Null;
        while Instant::now() < deadline {
            if let Some(status) = self.status() {
                if is_so(&status) {
                    return status;
                }
                last = status;
            }
            self.require_alive(what);
            sleep(Duration::from_millis(20));
        }
        panic!("never {what}: {last:#}\n{}", self.said());
    }

    /// Requires that it has not ended before `what` came.
    pub(crate) fn require_alive(&mut self, what: &str) {
        if let Some(status) = self.process.try_wait().unwrap() {
            panic!("it ended with {status} before {what}:\n{}", self.said());
        }
    }

    /// Waits until everything up to `revision` is in the archive.
    pub(crate) fn until_sealed(&mut self, revision: i64) -> Value {
        let is_sealed = |status: &Value| status["recoverable"]["revision"].as_i64() >= Some(revision);
        self.until(&format!("revision {revision} is sealed"), is_sealed)
    }

    /// What it tells of itself, if it answers.
    pub(crate) fn status(&self) -> Option<Value> {
        let body = self.asked("/api/v1/status")?;
        let begin = body.find('{')?;
        let end = body.rfind('}')?;
        serde_json::from_str(body.get(begin..=end)?).ok()
    }

    /// The value of the metric that begins with `name` and has all of `labels`, if it tells that.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let told = self.asked("/metrics")?;
        let is_it = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
        told.lines().find(is_it)?.rsplit(' ').next()?.parse().ok()
    }

    /// What is served at `path`, if it answers.
    pub(crate) fn asked(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.page, Duration::from_secs(1)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.page);
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Asks it to stop, as Ctrl-C does, and waits for that.
    pub(crate) fn stop(self) -> ExitStatus {
        self.signal(Signal::INT);
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.until_ended()
    }

    /// The same, where what it printed is asked for afterwards.
    pub(crate) fn until_ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LONG;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("it does not stop:\n{}", self.said());
    }

    /// Everything that it printed and logged.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs `refloat` to its end.
pub(crate) fn refloat(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_refloat")).args(args).stdin(Stdio::null()).output_in_time().unwrap()
}

/// The same, where it has to succeed. Gives what it printed.
pub(crate) fn succeed(args: &[&str]) -> String {
    let output = refloat(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "refloat {args:?} ended with {}:\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
