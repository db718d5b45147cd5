//! A program that runs below this one: started, told what signals come, stopped in bounded time, and reaped.
//!
//! The thread that starts a child is its parent as far as the kernel's parent-death signal goes: that signal comes when the
//! *thread* ends. So one thread starts the child, waits for it, and ends after it, whatever the async runtime does with its
//! own. The signal itself is set by the child, in [`become_program`], between being started and becoming the program: that needs no code
//! between fork and exec, and so no `unsafe`. How the child takes signals is in `signals`.
//!
//! Children are reaped under a lock that signalling takes too, so that a signal never reaches a stranger who got the number
//! of a process that is gone.

mod ended;
mod launch;
mod signals;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use etcd_data::Kind;
use etcd_data::error::kind_of;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, set_child_subreaper, wait, waitid,
};
use tokio::sync::watch;
use tokio::time::timeout;

pub use ended::Ended;
pub use launch::{become_program, find};
use signals::Hangup;

/// How long a process may take to vanish after SIGKILL. Only a disk that hangs keeps it.
const VANISHES_WITHIN: Duration = Duration::from_secs(10);

/// What to start, and how.
#[derive(Debug)]
pub struct Launch {
    /// What calls [`become_program`] in the child, before this process' number, the program and its arguments. Without it the
    /// program outlives this process when that is killed.
    pub launcher: Vec<OsString>,
    /// The program, looked for as a shell does.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it writes to; as this process does if not given.
    pub output: Option<File>,
    /// What of this process' surroundings reaches it.
    pub surroundings: Surroundings,
    /// Who takes care of processes that it leaves behind.
    pub orphans: Orphans,
}

/// What of this process' surroundings reaches a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surroundings {
    /// Our environment, and keys that are pressed on our terminal, if we end with that.
    Ours,
    /// Our environment alone: it is stopped when we have done with it, and not when a key is pressed.
    OurEnvironment,
    /// Nothing.
    Own,
}

/// Who reaps processes whose parents ended before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// This process does, as pid 1 must. It must have no other children then.
    Reaped,
    /// Whoever does so already.
    Left,
}

/// A program that was started. Dropped, it is killed.
#[derive(Debug)]
pub struct Supervised {
    child: Arc<Child>,
    ended: watch::Receiver<Option<Ended>>,
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// There is no such program.
    #[error("there is no program {}", .0.display())]
    NoProgram(PathBuf),
    /// The system did not let us.
    #[error("cannot start {program}")]
    Start {
        /// What was to be started.
        program: String,
        /// Why not.
        source: io::Error,
    },
}

impl SuperviseError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoProgram(_) => Kind::Missing,
            Self::Start { source, .. } => kind_of(source),
        }
    }
}

/// A process, and whether its number is still its own.
#[derive(Debug)]
struct Child {
    pid: Pid,
    is_there: Mutex<bool>,
}

impl Supervised {
    /// Starts it.
    pub fn start(launch: Launch) -> Result<Self, SuperviseError> {
        let program = find(&launch.program).ok_or_else(|| SuperviseError::NoProgram((&launch.program).into()))?;
        let cannot = |source| SuperviseError::Start { program: program.display().to_string(), source };
        if launch.orphans == Orphans::Reaped {
            set_child_subreaper(Some(rustix::process::getpid())).map_err(|errno| cannot(errno.into()))?;
        }
        let (to_us, started) = mpsc::sync_channel(1);
        let parent = Parent { orphans: launch.orphans, command: command(launch, &program) };
        thread::Builder::new().name("parent".into()).spawn(move || parent.run(&to_us)).map_err(cannot)?;
        started.recv().map_err(|_| cannot(io::ErrorKind::Other.into()))?.map_err(cannot)
    }

    /// The number of the process.
    pub fn pid(&self) -> Pid {
        self.child.pid
    }

    /// Passes a signal on. Nothing happens if the process has ended.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// How it ended, if it has.
    pub fn has_ended(&self) -> Option<Ended> {
        *self.ended.borrow()
    }

    /// How it ended, as soon as it has.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => (*ended).unwrap_or(Ended::KILLED),
            // The thread cannot end without telling.
            Err(_) => Ended::KILLED,
        }
    }

    /// Asks it to stop, and kills it if it has not within `grace`.
    pub async fn stop(&self, grace: Duration) -> Ended {
        self.signal(Signal::TERM);
        match timeout(grace, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => self.kill().await,
        }
    }

    /// Kills it.
    pub async fn kill(&self) -> Ended {
        self.signal(Signal::KILL);
        match timeout(VANISHES_WITHIN, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => {
                tracing::error!(
                    pid = self.pid().as_raw_nonzero().get(),
                    "killed, but it does not go: is a disk hanging?"
                );
                Ended::KILLED
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Child {
    fn signal(&self, signal: Signal) {
        let is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_there && let Err(error) = kill_process(self.pid, signal) {
            tracing::warn!(pid = self.pid.as_raw_nonzero().get(), ?signal, %error, "cannot pass a signal on");
        }
    }
}

/// What the thread does that is the parent.
struct Parent {
    command: Command,
    orphans: Orphans,
}

impl Parent {
    fn run(mut self, started: &mpsc::SyncSender<io::Result<Supervised>>) {
        let child = match self.spawn() {
            Ok(process) => Arc::new(Child { pid: Pid::from_child(&process), is_there: Mutex::new(true) }),
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        let (tell, ended) = watch::channel(None);
        let _ = started.send(Ok(Supervised { child: Arc::clone(&child), ended }));
        let how = loop {
            match self.reap(&child) {
                Ok(Some(ended)) => break ended,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot wait for a child");
                    break Ended::KILLED;
                }
            }
        };
        // Nobody may be interested any more.
        let _ = tell.send(Some(how));
    }

    fn spawn(&mut self) -> io::Result<std::process::Child> {
        if signals::let_through()? == Hangup::Ignored {
            // The terminal would send its hangup to everything in our group.
            self.command.process_group(0);
        }
        self.command.spawn()
    }

    /// Waits until a child has ended, and reaps it. If it was ours, says how it ended.
    fn reap(&self, child: &Child) -> io::Result<Option<Ended>> {
        let whom = match self.orphans {
            Orphans::Reaped => WaitId::All,
            Orphans::Left => WaitId::Pid(child.pid),
        };
        // Only looks: what is reaped, is reaped under the lock.
        match waitid(whom, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => return Ok(None),
            looked => looked?,
        };
        let mut is_there = child.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        let reaped = match self.orphans {
            Orphans::Reaped => wait(WaitOptions::NOHANG)?,
            Orphans::Left => rustix::process::waitpid(Some(child.pid), WaitOptions::NOHANG)?,
        };
        Ok(reaped.filter(|(pid, _)| *pid == child.pid).map(|(_, status)| {
            *is_there = false;
            Ended::of(status)
        }))
    }
}

fn command(launch: Launch, program: &std::path::Path) -> Command {
    let mut words = launch.launcher.into_iter();
    let mut command = match words.next() {
        None => Command::new(program),
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.args(words).arg(std::process::id().to_string()).arg(program);
            command
        }
    };
    command.args(launch.arguments).stdin(Stdio::null());
    match launch.surroundings {
        Surroundings::Ours => {}
        Surroundings::OurEnvironment => drop(command.process_group(0)),
        Surroundings::Own => drop(command.env_clear().process_group(0)),
    }
    if let Some(output) = launch.output
        && let Ok(second) = output.try_clone()
    {
        command.stdout(output).stderr(second);
    }
    command
}

#[cfg(test)]
mod tests;
