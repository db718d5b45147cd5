//! `wrap`: a stock etcd, started when its data directory is fit for it, watched, and stopped as it should be.
//!
//! With an agent beside it, the agent is asked to prepare the data directory first, in the words that are published: its
//! state once a second, the order to begin, then etcd's configuration. Agents of others understand the same words. Then
//! etcd is started, `/readyz` tells what the member itself answers, and `POST /stop` or a signal stops it.
//!
//! How etcd ended is noted beside its data directory, and the note is taken away while it runs: after a power cut there is none, and
//! the agent checks everything.

mod etcd_settings;
mod initialization;
mod note;
mod readiness;
mod server;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use etcd_data::Kind;
use etcd_data::error::kind_of;
use rustix::process::Signal;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::http::{Guard, HttpError, Listener};
use crate::neighbour::Neighbour;
use crate::supervise::{Ended, Launch, Orphans, SuperviseError, Supervised, Surroundings};

pub(crate) use etcd_settings::first_line;
pub use etcd_settings::{EtcdSettings, SettingsError};
pub use initialization::{AgentError, Mode, Pace};
pub use note::ExitNote;
pub use readiness::Member;

/// What is wrapped, and how.
#[derive(Debug)]
pub struct Wrap {
    /// etcd and its arguments.
    pub command: Vec<OsString>,
    /// What sets the parent-death signal in the child; see [`crate::supervise`].
    pub launcher: Vec<OsString>,
    /// Who prepares the data directory.
    pub agent: Option<WithAgent>,
    /// Where the note of how etcd ended is kept, if not beside the data directory.
    pub exit_note: Option<PathBuf>,
    /// How long etcd may take to stop.
    pub stop_grace: Duration,
    /// Where `/readyz` and `/stop` are served.
    pub listen: SocketAddr,
    /// Who may ask for `/stop`.
    pub guard: Guard,
    /// How the member is reached that is asked whether it is ready.
    pub member: Member,
}

/// The agent that prepares the data directory.
#[derive(Debug)]
pub struct WithAgent {
    /// Where it is, and how it is reached.
    pub address: Neighbour,
    /// Where the configuration is written that it gives.
    pub config_file: PathBuf,
    /// How long it may take; without end if not given.
    pub within: Option<Duration>,
    /// How often it is asked.
    pub pace: Pace,
}

/// Why etcd was not started, or is not looked after.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// There is nothing to start.
    #[error("no program is named")]
    NoCommand,
    /// Its settings cannot be understood.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The agent did not prepare the data directory.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The program does not run.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// The port is not to be had, or the certificates are not fit.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A file cannot be used.
    #[error("{action} {}", path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Signals cannot be heard.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}

impl WrapError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoCommand => Kind::Usage,
            Self::Settings(error) => error.kind(),
            Self::Agent(error) => error.kind(),
            Self::Supervise(error) => error.kind(),
            Self::Http(error) => error.kind(),
            Self::File { source, .. } | Self::Signals(source) => kind_of(source),
        }
    }
}

/// Prepares, starts and looks after etcd until it has ended.
pub async fn wrap(mut wrap: Wrap) -> Result<Ended, WrapError> {
    let mut signals = server::signals().map_err(WrapError::Signals)?;
    // Whoever connects before etcd runs waits and is turned away, for whether there is TLS may not be known yet.
    let listener = Listener::bind(wrap.listen)?;
    let mut settings = EtcdSettings::of_command(&wrap.command, |name| std::env::var(name).ok())?;
    let note = ExitNote::at(wrap.exit_note.take().unwrap_or_else(|| match wrap.asks_for_config() {
        true => note::PUBLISHED.into(),
        false => note::beside(&settings.data_dir),
    }));

    if let Some(with) = wrap.agent.take() {
        let mode = note.mode();
        tokio::select! {
            prepared = prepare(&with, mode, &mut wrap.command) => {
                if let Some(given) = prepared? {
                    settings = given;
                }
            }
            // Nothing runs yet that would have to be told.
            Some(signal) = stopping(&mut signals) => return Ok(Ended::Signal(server::number(signal))),
        }
    }

    let (ready, is_ready) = readiness::Watcher::of(&wrap.member, &settings)?;
    let (stop, stop_asked) = mpsc::channel(1);
    // Who ordered a stop before this etcd ran meant an earlier one, and has most often given up waiting.
    listener.turn_away();
    let served = server::start(listener, &settings, wrap.guard.clone(), is_ready.clone(), stop)?;
    note.remove()?;
    let etcd = Supervised::start(launch(&wrap)?)?;
    tracing::info!(pid = etcd.pid().as_raw_nonzero().get(), "etcd is started");
    let watcher = tokio::spawn(ready.run());

    let ended = look_after(&etcd, &mut signals, stop_asked, wrap.stop_grace).await;
    watcher.abort();
    note.write(ended, *is_ready.borrow() != readiness::State::NotYet)?;
    tracing::info!(%ended, "etcd has ended");
    served.stop().await;
    Ok(ended)
}

impl Wrap {
    /// Whether etcd's configuration comes from the agent: it was given none.
    fn asks_for_config(&self) -> bool {
        self.agent.is_some() && self.command.len() == 1
    }
}

/// Lets the agent prepare the data directory. If the command has no settings of its own, they are the agent's.
async fn prepare(with: &WithAgent, mode: Mode, command: &mut Vec<OsString>) -> Result<Option<EtcdSettings>, WrapError> {
    let agent = &with.address;
    let deadline = with.within.map(|within| Instant::now() + within);
    initialization::prepare(agent, mode, &with.pace, deadline).await?;
    if command.len() > 1 {
        return Ok(None);
    }
    let config = initialization::config(agent, &with.pace, deadline).await?;
    let settings = EtcdSettings::of_yaml(&config)?;
    note::replace(&with.config_file, config.as_bytes())?;
    let mut flag = OsString::from("--config-file=");
    flag.push(&with.config_file);
    command.push(flag);
    Ok(Some(settings))
}

fn launch(wrap: &Wrap) -> Result<Launch, WrapError> {
    let (program, arguments) = wrap.command.split_first().ok_or(WrapError::NoCommand)?;
    Ok(Launch {
        launcher: wrap.launcher.clone(),
        program: program.clone(),
        arguments: arguments.to_vec(),
        output: None,
        surroundings: Surroundings::Ours,
        orphans: Orphans::Reaped,
    })
}

/// Passes on what comes, until etcd has ended.
async fn look_after(
    etcd: &Supervised,
    signals: &mut mpsc::Receiver<Signal>,
    mut stop_asked: mpsc::Receiver<()>,
    grace: Duration,
) -> Ended {
    let mut kill_at = None;
    loop {
        let too_late = async {
            match kill_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = etcd.ended() => return ended,
            () = too_late => {
                tracing::warn!(?grace, "etcd has not stopped in time and is killed");
                return etcd.kill().await;
            }
            Some(signal) = signals.recv() => {
                tracing::info!(?signal, "passing a signal on");
                etcd.signal(signal);
                if is_a_stop(signal) {
                    kill_at.get_or_insert_with(|| Instant::now() + grace);
                }
            }
            Some(()) = stop_asked.recv() => {
                tracing::info!("asked to stop");
                etcd.signal(Signal::TERM);
                kill_at.get_or_insert_with(|| Instant::now() + grace);
            }
        }
    }
}

/// The next signal that means to end.
async fn stopping(signals: &mut mpsc::Receiver<Signal>) -> Option<Signal> {
    loop {
        let signal = signals.recv().await?;
        if is_a_stop(signal) || matches!(signal, Signal::HUP | Signal::QUIT) {
            return Some(signal);
        }
    }
}

fn is_a_stop(signal: Signal) -> bool {
    matches!(signal, Signal::TERM | Signal::INT)
}

/// The watch of one thing that others look at.
type Seen<T> = watch::Receiver<T>;
