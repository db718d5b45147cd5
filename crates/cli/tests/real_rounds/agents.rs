//! Agents beside a cluster: one writes, the others stand by.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::running::Running;

/// Some agents, of which each runs or does not.
pub(crate) struct Agents(Vec<Beside>);

struct Beside {
    name: String,
    page: SocketAddr,
    /// What is its own: the spool, the log.
    folder: PathBuf,
    running: Option<Running>,
    is_frozen: bool,
}

/// Several times what a loaded machine takes for anything here.
const LONG: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(20);

impl Agents {
    /// As many as there are `pages`, which have their things in folders below `folder`. None runs yet.
    pub(crate) fn of(pages: impl IntoIterator<Item = SocketAddr>, folder: &Path) -> Self {
        let of = |(number, page): (usize, SocketAddr)| {
            let name = format!("agent-{number}");
            let folder = folder.join(&name);
            std::fs::create_dir(&folder).unwrap();
            Beside { name, page, folder, running: None, is_frozen: false }
        };
        Self(pages.into_iter().enumerate().map(of).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Starts an agent by `command`, which tells how the cluster and the archive are reached.
    pub(crate) fn start(&mut self, number: usize, mut command: Command) {
        let Beside { name, page, folder, running, .. } = &mut self.0[number];
        assert!(running.is_none(), "{name} runs already");
        command.args(["--name", name, "--seal-after", "300ms", "--takeover", "2s", "--anchor-every", "2s"]);
        command.arg("--spool").arg(folder.join("spool")).arg("--scratch").arg(&folder);
        *running = Some(Running::begin(&mut command, *page, &folder.join("log")));
    }

    /// The agent that has the right to write.
    pub(crate) fn writer(&mut self) -> usize {
        self.find("an agent that writes", |_, status| writes(status) && status["capture"]["state"] != "starting")
    }

    /// Waits for another agent than `before` to write.
    pub(crate) fn until_another_writes(&mut self, before: usize) -> usize {
        self.find("another agent that writes", |agent, status| {
            agent != before && writes(status) && status["capture"]["state"] == "following"
        })
    }

    /// Waits until the agent that writes tells that everything up to `revision` is in the archive.
    pub(crate) fn until_sealed(&mut self, revision: i64) -> usize {
        self.find(&format!("revision {revision} in the archive"), |_, status| {
            writes(status) && status["capture"]["revision_sealed"].as_i64() >= Some(revision)
        })
    }

    /// The right by which it writes.
    pub(crate) fn right_of(&mut self, number: usize) -> u64 {
        let running = self.0[number].running.as_mut().unwrap();
        let told = running.until("it tells by which right", |status| status["capture"]["epoch"].is_u64());
        told["capture"]["epoch"].as_u64().unwrap()
    }

    /// Waits until this one knows that somebody writes by a later right than `right`: another one, or itself again where that one
    /// stood still.
    pub(crate) fn until_it_knows_a_later_right(&mut self, number: usize, right: u64) {
        let running = self.0[number].running.as_mut().unwrap();
        running.until("it knows a later right", |status| status["capture"]["epoch"].as_u64() > Some(right));
    }

    /// Waits for an agent of which `is_so` holds.
    fn find(&mut self, what: &str, is_so: impl Fn(usize, &Value) -> bool) -> usize {
        let deadline = Instant::now() + LONG;
        while Instant::now() < deadline {
            for (number, beside) in self.0.iter_mut().enumerate().filter(|(_, beside)| !beside.is_frozen) {
                let Some(running) = &mut beside.running else { continue };
                let status = running.status();
                running.require_alive(what);
                if status.is_some_and(|status| is_so(number, &status)) {
                    return number;
                }
            }
            sleep(POLL);
        }
        panic!("within {LONG:?}, there was not {what}\n{}", self.told());
    }

    /// What agents say of themselves, and what they have logged lately.
    pub(crate) fn told(&self) -> String {
        let of = |beside: &Beside| {
            let Some(running) = &beside.running else { return format!("{} does not run", beside.name) };
            let status = running.status().unwrap_or_default();
            let said = running.said();
            let last = last_lines(&said);
            format!("{}: {:#}\n{:#}\n{last}", beside.name, status["capture"], status["findings"])
        };
        self.0.iter().map(of).collect::<Vec<_>>().join("\n\n")
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.0[number].running.take().unwrap().kill();
    }

    /// Asks it to stop, as an administrator does.
    pub(crate) fn stop(&mut self, number: usize) {
        let beside = &mut self.0[number];
        let running = beside.running.take().unwrap();
        running.signal(Signal::TERM);
        let status = running.ended();
        let said = || std::fs::read_to_string(beside.folder.join("log")).unwrap_or_default();
        assert!(status.success(), "{} ended with {status}\n{}", beside.name, last_lines(&said()));
    }

    pub(crate) fn freeze(&mut self, number: usize) {
        let beside = &mut self.0[number];
        beside.running.as_ref().unwrap().signal(Signal::STOP);
        beside.is_frozen = true;
    }

    pub(crate) fn thaw(&mut self, number: usize) {
        let beside = &mut self.0[number];
        beside.running.as_ref().unwrap().signal(Signal::CONT);
        beside.is_frozen = false;
    }
}

fn last_lines(said: &str) -> String {
    let last: Vec<&str> = said.lines().rev().take(40).collect();
    last.into_iter().rev().map(|line| format!("{line}\n")).collect()
}

/// Whether an agent tells that it is the one who may write.
fn writes(status: &Value) -> bool {
    status["capture"]["holder"] == status["agent"]["name"]
}
