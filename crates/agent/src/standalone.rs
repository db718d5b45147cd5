//! One etcd on this machine, looked after: fit to start before it starts, started again when it ends, and brought back to
//! another point while everybody else goes on.
//!
//! - [`bring_back`]: a point of the archive, in place of what the member has

pub mod bring_back;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use etcd_data::Kind;
use etcd_data::error::kind_of;
use tokio::sync::{mpsc, watch};

use crate::start::decision::{Decision, Reason};
use crate::start::directory::Depth;
use crate::start::error::StartError;
use crate::start::ready::{BroughtBack, Launch as Cluster};
use crate::start::{Setup, Start};
use crate::stop::Stop;
use crate::supervise::{Launch, Orphans, SuperviseError, Supervised, Surroundings};
use bring_back::{Bring, Here};

/// An etcd that is looked after.
pub struct Tended {
    /// The program.
    pub program: OsString,
    /// What sets the parent-death signal in the child; see [`crate::supervise`].
    pub launcher: Vec<OsString>,
    /// Where it serves its clients.
    pub client_url: String,
    /// Who it is, and what its data directory may be brought back from.
    pub setup: Setup,
    /// Where it writes what it has to say.
    pub log: PathBuf,
    /// What it was started with last that was restored.
    pub brought_back: watch::Sender<Option<BroughtBack>>,
}

/// How it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Life {
    /// Its data directory is being looked at.
    #[default]
    Preparing,
    /// It runs.
    Running,
    /// It waits for something to pass, or to be started again.
    Waiting(String),
    /// It has ended, because it was told to.
    Ended,
}

/// Why it is not looked after any longer.
#[derive(Debug, thiserror::Error)]
pub enum TendError {
    /// A person has to do something first.
    #[error("etcd is not started: {}", .0.with_remedy())]
    Stopped(Reason),
    /// Its data directory cannot be made fit.
    #[error(transparent)]
    Start(Box<StartError>),
    /// The program does not run.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// What it says cannot be kept.
    #[error("writing {}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ends as soon as it is started.
    #[error("etcd ended {times} times in a row, last with {last}; {} tells why", log.display())]
    Ends {
        /// How often.
        times: u32,
        /// How it ended last.
        last: String,
        /// What it said.
        log: PathBuf,
    },
}

impl TendError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Stopped(reason) => reason.kind(),
            Self::Start(error) => error.kind(),
            Self::Supervise(error) => error.kind(),
            Self::Log { source, .. } => kind_of(source),
            Self::Ends { .. } => Kind::Unavailable,
        }
    }
}

/// How long it may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(20);
/// The same where a point is to take the place of what it has. While anybody watches, etcd takes seven seconds to stop; killed, it
/// has everything that it acknowledged just as well, and that is kept aside.
const GRACE_BEFORE_RESTORE: Duration = Duration::from_millis(500);
/// How often it may end in a row, each time within this.
const ENDS_IN_A_ROW: u32 = 5;
const SHORT_LIFE: Duration = Duration::from_secs(10);

impl Tended {
    /// Looks after it until it is told to stop.
    pub async fn tend(
        self,
        mut orders: mpsc::Receiver<Bring>,
        life: watch::Sender<Life>,
        mut stop: Stop,
    ) -> Result<(), TendError> {
        let mut start = Start::new(self.setup.clone());
        // Nobody knows how it ended before.
        let mut depth = Depth::Whole;
        let mut short_lives = 0;
        loop {
            let waits = |decision: &Decision| {
                if let Decision::Wait(reason) = decision {
                    life.send_replace(Life::Waiting(reason.with_remedy()));
                }
            };
            let ready = tokio::select! {
                ready = start.run(depth, waits) => {
                    ready.map_err(|error| TendError::Start(Box::new(error)))?.map_err(TendError::Stopped)?
                }
                () = stop.told() => return Ok(()),
            };
            let began = tokio::time::Instant::now();
            BroughtBack::tell(&self.brought_back, &self.setup.place);
            let etcd = Supervised::start(self.launch(&ready.launch)?)?;
            life.send_replace(Life::Running);
            tokio::select! {
                ended = etcd.ended() => {
                    short_lives = if began.elapsed() < SHORT_LIFE { short_lives + 1 } else { 1 };
                    if short_lives >= ENDS_IN_A_ROW {
                        return Err(TendError::Ends { times: short_lives, last: ended.to_string(), log: self.log });
                    }
                    tracing::error!(%ended, "etcd has ended, and is started again");
                    life.send_replace(Life::Waiting(format!("etcd ended: {ended}")));
                    depth = Depth::Whole;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Some(order) = orders.recv() => {
                    life.send_replace(Life::Preparing);
                    etcd.stop(GRACE_BEFORE_RESTORE).await;
                    order.carry_out(&self.here()).await;
                    depth = Depth::Quick;
                }
                () = stop.told() => {
                    etcd.stop(GRACE).await;
                    life.send_replace(Life::Ended);
                    return Ok(());
                }
            }
        }
    }

    /// Where points are brought back to.
    pub fn here(&self) -> Here {
        Here { place: self.setup.place.clone(), high_water: self.setup.policy.high_water }
    }

    fn launch(&self, cluster: &Cluster) -> Result<Launch, TendError> {
        let Setup { place, .. } = &self.setup;
        let failed = |source| TendError::Log { path: self.log.clone(), source };
        let output = OpenOptions::new().create(true).append(true).open(&self.log).map_err(failed)?;
        let peers = place.peer_urls.join(",");
        let flags = [
            ("--name", place.name.clone()),
            ("--data-dir", place.data_dir.display().to_string()),
            ("--listen-client-urls", self.client_url.clone()),
            ("--advertise-client-urls", self.client_url.clone()),
            ("--listen-peer-urls", peers.clone()),
            ("--initial-advertise-peer-urls", peers),
            ("--initial-cluster", cluster.initial_cluster.clone()),
            ("--initial-cluster-state", cluster.state.as_str().to_owned()),
            ("--initial-cluster-token", cluster.token.clone()),
            // Nobody has to log in, so pages in a browser on this machine must not lead their own names to it.
            ("--host-whitelist", "127.0.0.1,localhost".into()),
            ("--logger", "zap".into()),
        ];
        let arguments = flags.into_iter().map(|(flag, value)| OsString::from(format!("{flag}={value}"))).collect();
        Ok(Launch {
            launcher: self.launcher.clone(),
            program: self.program.clone(),
            arguments,
            output: Some(output),
            // What it has when we are told to stop is sealed before it is.
            surroundings: Surroundings::OurEnvironment,
            orphans: Orphans::Left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_that_etcd_is_not_started_is_told_what_to_do() {
        assert_eq!(
            TendError::Stopped(Reason::DataGone).to_string(),
            "etcd is not started: this member had data, which is gone, and there is no archive that has it: attach the volume \
             that has it, or `refloat restore` a snapshot; to begin anew, remove the volume's mark"
        );
    }
}
